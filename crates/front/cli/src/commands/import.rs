//! `weir import`: flow sizes and lists of flows from files of other programs.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use crate::{input, text, values, written};
use std::path::PathBuf;
use weir_document::scalar;
use weir_network::names::NameRange;
use weir_scenario::language::MAX_DATA_FILE;
use weir_units::{Bytes, Duration};
use weir_workload::import::{FlowFormat, FlowOptions, FlowTable, SizeFormat, SizeTable, SizeUnit, StartUnit};

/// Hosts that may be named: more than a network of the simulator has.
const MAX_HOSTS: u64 = 1 << 20;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir import sizes WebSearch_distribution.txt --format hpcc-cdf -o sizes.csv
  weir import flows flow.txt --format ns3-hpcc --origin 2s -o flows.csv

docs/how-to/import.md has the formats, and scenarios that use the imported files.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Import a distribution of flow sizes, for `sizes` of a scenario
    Sizes(Sizes),
    /// Import a list of flows, for `kind: list` of a scenario
    Flows(Flows),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir import sizes WebSearch_distribution.txt --format hpcc-cdf -o websearch.csv
  weir import sizes DCTCP_CDF.txt --format hkust-cdf -o dctcp.csv
  weir import sizes Google_AllRPC.txt --format homa --unit bytes -o rpc.csv
  weir import sizes DCTCP_MsgSizeDist.txt --format homa --unit packets --payload 1460B -o dctcp.csv

Formats, of text with blanks between fields:
  hpcc-cdf   HPCC's traffic generator: `bytes percentile`, from 0 to 100, linear between rows
  hkust-cdf  the HKUST traffic generator: `bytes share`, from 0 to 1, linear between rows
  homa       Homa's simulator: the mean, then `size share`; each flow has the size of a row

Tables of Homa are in bytes or in packets; --unit states which.")]
struct Sizes {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Its format
    #[arg(long, value_enum)]
    format: SizesFormat,
    /// The unit of its sizes, where the format has two
    #[arg(long, value_enum)]
    unit: Option<Unit>,
    /// The payload of a packet, for sizes in packets
    #[arg(long, value_name = "SIZE", value_parser = payload)]
    payload: Option<u32>,
    #[command(flatten)]
    output: written::Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SizesFormat {
    HpccCdf,
    HkustCdf,
    Homa,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Unit {
    Bytes,
    Packets,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir import flows flow.txt --format ns3-hpcc -o flows.csv
  weir import flows flow.txt --format ns3-hpcc --origin 2s --first-node 1 --hosts 'h[0-31]' -o flows.csv
  weir import flows perm.cm --format htsim-cm --start-unit ps -o flows.csv

Formats:
  ns3-hpcc  the flow file of HPCC's ns-3 simulator: a count, then `src dst pg dport size start`;
            bytes and seconds
  htsim-cm  a connection matrix of htsim: `Nodes N`, `Connections M`, then `src->dst id N start T
            size S`; bytes, and starts in picoseconds (as htsim reads them) or in microseconds (as
            it writes them): --start-unit states which, unless all starts are 0

Node 17 of the file becomes host 17 of the scenario, counted from 0 in the order of its network.
--hosts gives the hosts' names instead, and --first-node the number of the first host where nodes of
another kind come before it. A time before --origin is refused.")]
struct Flows {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Its format
    #[arg(long, value_enum)]
    format: FlowsFormat,
    /// The unit of its starts, where the format has two
    #[arg(long, value_enum)]
    start_unit: Option<StartsUnit>,
    /// The time of the file that becomes 0
    #[arg(long, value_name = "TIME", value_parser = origin)]
    origin: Option<Duration>,
    /// The number of the first host among the nodes of the file
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first_node: u32,
    /// The names of the hosts in the order of nodes: names and ranges, with commas between
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    hosts: Vec<String>,
    #[command(flatten)]
    output: written::Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FlowsFormat {
    Ns3Hpcc,
    HtsimCm,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StartsUnit {
    S,
    Us,
    Ns,
    Ps,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    match &args.what {
        What::Sizes(args) => sizes(args, ui),
        What::Flows(args) => flows(args, ui),
    }
}

fn sizes(args: &Sizes, ui: &mut Ui) -> Result<Exit, CommandError> {
    let format = match args.format {
        SizesFormat::HpccCdf => SizeFormat::HpccCdf,
        SizesFormat::HkustCdf => SizeFormat::HkustCdf,
        SizesFormat::Homa => SizeFormat::Homa,
    };
    let unit = match (args.unit, args.payload) {
        (None, None) => None,
        (Some(Unit::Bytes), None) => Some(SizeUnit::Bytes),
        (Some(Unit::Packets), Some(payload)) => Some(SizeUnit::Packets(payload)),
        (Some(Unit::Packets), None) => {
            return Err(CommandError::refused("sizes in packets need the payload of a packet")
                .hint("add it, for example --payload 1460B"));
        }
        (_, Some(_)) => {
            return Err(CommandError::refused("--payload is for sizes in packets").hint("add --unit packets"));
        }
    };
    let source = input::source(&args.file, MAX_DATA_FILE)?;
    let (table, notes) = SizeTable::read(&source, format, unit)?;
    input::print_notes(&notes, ui)?;
    args.output.write(&table.to_csv(), ui)?;
    let sizes = table.distribution();
    let (mean, largest) = (Bytes::new(sizes.mean().round() as u64), Bytes::new(sizes.largest()));
    ui.notice(&format!("sizes with a mean of {mean}, the largest {largest}\n"))?;
    Ok(Exit::Done)
}

fn flows(args: &Flows, ui: &mut Ui) -> Result<Exit, CommandError> {
    let format = match args.format {
        FlowsFormat::Ns3Hpcc => FlowFormat::Ns3Hpcc,
        FlowsFormat::HtsimCm => FlowFormat::HtsimCm,
    };
    let start_unit = args.start_unit.map(|unit| match unit {
        StartsUnit::S => StartUnit::Seconds,
        StartsUnit::Us => StartUnit::Micros,
        StartsUnit::Ns => StartUnit::Nanos,
        StartsUnit::Ps => StartUnit::Picos,
    });
    let hosts = names(&args.hosts)?;
    let origin = args.origin.unwrap_or_default();
    let options = FlowOptions { start_unit, origin, first_node: args.first_node, hosts };
    let source = input::source(&args.file, MAX_DATA_FILE)?;
    let (table, notes) = FlowTable::read(&source, format, &options)?;
    input::print_notes(&notes, ui)?;
    args.output.write(&table.to_csv(), ui)?;
    let (first, last) = table.starts();
    let (flows, bytes) = (text::count(table.len(), "flow"), Bytes::new(table.bytes()));
    ui.notice(&format!("{flows} of {bytes} in all, starts from {} to {}\n", first.duration(), last.duration()))?;
    Ok(Exit::Done)
}

/// The names that names and ranges stand for, each once.
fn names(texts: &[String]) -> Result<Vec<String>, CommandError> {
    let mut names = Vec::new();
    for text in texts {
        let range = NameRange::parse(text).map_err(|refused| {
            CommandError::refused(format!("--hosts: {}", refused.cause)).hint(refused.hint.clone())
        })?;
        if range.count() > MAX_HOSTS - names.len() as u64 {
            return Err(CommandError::refused(format!("--hosts: these are more than {MAX_HOSTS} hosts"))
                .hint("name the hosts that the file has"));
        }
        names.extend(range.names());
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(CommandError::refused(format!("--hosts: `{}` is named twice", pair[0]))
            .hint("name every host once, in the order of nodes")),
        None => Ok(names),
    }
}

fn payload(text: &str) -> Result<u32, String> {
    let size = scalar::size(text).map_err(values::refusal_text)?;
    match u32::try_from(size.get()) {
        Ok(bytes) if (1..=1 << 16).contains(&bytes) => Ok(bytes),
        _ => Err("write the payload of a packet, from 1B to 65536B".to_owned()),
    }
}

fn origin(text: &str) -> Result<Duration, String> {
    scalar::time(text, true).map_err(values::refusal_text)
}
