//! `weir capture`: a bundle of this host's state for a bug report.

mod names;

use super::watched;
use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, values};
use names::Names;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_capture::{Anonymiser, Bundle, Item, sources};
use weir_doctor::{Facts, StatusFacts, gather, judge};
use weir_observe::Source;
use weir_pods::Directory;
use weir_policy::Policy;
use weir_report::json;
use weir_status::Status;

/// The start of the names of texts with options of services. Messages of the journal quote options without values.
const OF_OPTIONS: [&str; 2] = ["configuration/", "services/units"];
/// The statuses of the services, which are read if they are there.
const STATUSES: [&str; 3] = ["/run/weir/agent.json", "/run/weir-fabric/fabric.json", "/run/weir/forwarder.json"];

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir capture
  weir capture --list
  weir capture policy.yaml --interface eth0 --status http://10.0.0.1:30566 --output report.tar

Prints the list of all files, then writes them to a tar archive that only you can read. The list
of sources is fixed: findings of `weir doctor`, statuses, the policy, the options of the services,
their journal, and what ip, tc, nft and ethtool print. Keys and private keys are never opened.
Passwords, tokens, keys and users of URLs in any of the texts are replaced by `[redacted]`.

The bundle has addresses and the names of machines and services, unless --anonymise replaces them.
Read it before you send it: docs/how-to/capture.md. Exit code 1: the archive cannot be written.")]
pub(crate) struct Args {
    /// The policy file [default: policy.yaml in --configuration, if it is there]
    policy: Option<PathBuf>,
    /// A network interface whose classes, filters and offloads are read [default: that of the first status]
    #[arg(long, value_name = "NAME", value_parser = values::interface)]
    interface: Vec<String>,
    /// A status URL or file, this host's first [default: those of the services that are there]
    #[arg(long, value_name = "URL")]
    status: Vec<String>,
    /// The directory of the services' options: agent.conf, fabric.conf, forwarder.conf, pods.conf
    #[arg(long, value_name = "DIR", default_value = "/etc/weir")]
    configuration: PathBuf,
    /// The archive, which must not exist [default: weir-capture-HOST-DATE.tar]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace addresses and the names of machines, racks, services, tenants and pods by pseudonyms
    #[arg(long)]
    anonymise: bool,
    /// Print the list and write nothing
    #[arg(long, conflicts_with = "output")]
    list: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let seconds = since_1970();
    let output = match &args.output {
        Some(path) => path.clone(),
        None if args.anonymise => format!("weir-capture-{}.tar", date(seconds)).into(),
        None => format!("weir-capture-{}-{}.tar", host_name(), date(seconds)).into(),
    };
    if !args.list && output.exists() {
        return Err(CommandError::refused(format!("`{}` exists already", output.display()))
            .hint("name another file with --output"));
    }
    let Texts { items, policy, statuses } = texts(args)?;
    let mut bundle = Bundle::of(&items);
    if args.anonymise {
        let names = names(&items, policy.as_ref(), &statuses)?.names;
        bundle = Anonymiser::new(key()?, names, names::vocabulary(&items)).anonymise(&bundle);
    }
    print(&bundle, ui)?;
    if args.list {
        return Ok(Exit::Done);
    }
    bundle.write(&output, seconds).map_err(|error| CommandError::cannot_write(&output, error))?;
    ui.notice(&format!("{}: readable by you only; read it before you send it\n", output.display()))?;
    Ok(Exit::Done)
}

/// A random key.
fn key() -> Result<[u8; 32], CommandError> {
    let mut key = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
    read.map_err(|error| CommandError::failed(format!("/dev/urandom: {error}")))?;
    Ok(key)
}

/// The texts of all sources, and the policy and the statuses among them.
struct Texts {
    items: Vec<Item>,
    policy: Option<Policy>,
    statuses: Vec<StatusFacts>,
}

/// Reads all sources.
fn texts(args: &Args) -> Result<Texts, CommandError> {
    let there = |path: PathBuf| path.exists().then_some(path);
    let policy = args.policy.clone().or_else(|| there(args.configuration.join("policy.yaml")));
    if policy.as_deref() == Some(Path::new("-")) {
        return Err(CommandError::refused("the policy must be a file"));
    }
    let mut statuses = args.status.iter().map(|text| watched::source(text)).collect::<Result<Vec<_>, _>>()?;
    if statuses.is_empty() {
        statuses = STATUSES.into_iter().map(PathBuf::from).filter_map(there).map(Source::File).collect();
    }
    let (parsed_policy, check) = policy.as_deref().map(parsed).transpose()?.unzip();
    let parsed_policy = parsed_policy.flatten();
    if args.anonymise && policy.is_some() && parsed_policy.is_none() {
        return Err(CommandError::refused("--anonymise takes the names from the policy, which has errors")
            .hint("`weir check` prints them"));
    }
    let name = policy.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let facts = gather(&weir_doctor::Request {
        policy: parsed_policy.as_ref().map(|policy| (name.as_str(), policy)),
        interface: args.interface.first().map(String::as_str),
        statuses: &statuses,
        ..weir_doctor::Request::default()
    })
    .map_err(|error| CommandError::failed(format!("cannot examine this host: {error}")))?;
    let mut items = vec![
        item("weir/version", "weir --version", env!("CARGO_PKG_VERSION").to_owned()),
        item("weir/doctor.json", "weir doctor", findings(&facts)),
    ];
    items.extend(check.map(|check| item("weir/check", "weir check", check)));
    items.extend((1..).zip(&facts.statuses).map(|(number, status)| Item {
        name: format!("statuses/{number}.json"),
        source: status.source.clone(),
        content: status.status.as_ref().map(Status::to_json).map_err(Clone::clone),
    }));
    let interfaces = if args.interface.is_empty() { interfaces(&facts) } else { args.interface.clone() };
    let read = sources::read(&sources::Request { policy, configuration: args.configuration.clone(), interfaces });
    items.extend(read.map_err(|error| CommandError::failed(format!("cannot run commands: {error}")))?);
    if args.anonymise {
        for item in items.iter_mut().filter(|item| item.name == sources::POLICY) {
            item.content = parsed_policy.as_ref().map_or_else(|| Err("no policy".to_owned()), without_comments);
        }
        for item in items.iter_mut().filter(|item| item.name == sources::FIREWALL) {
            item.content = item.content.as_deref().map(sources::own_tables).map_err(Clone::clone);
        }
    }
    Ok(Texts { items, policy: parsed_policy, statuses: facts.statuses })
}

/// The names that pseudonyms replace: of this host, of the policy, of the statuses, of options, and of pods.
fn names(items: &[Item], policy: Option<&Policy>, statuses: &[StatusFacts]) -> Result<Names, CommandError> {
    let mut names = Names::default();
    names.names.push(read_host_name());
    policy.into_iter().for_each(|policy| names.add_policy(policy));
    statuses.iter().filter_map(|facts| facts.status.as_ref().ok()).for_each(|status| names.add_status(status));
    let mut directories = BTreeSet::from([PathBuf::from(weir_pods::DIRECTORY)]);
    for item in items.iter().filter(|item| OF_OPTIONS.iter().any(|start| item.name.starts_with(start))) {
        let text = names::options(item.content.as_deref().unwrap_or_default());
        names.add_options(&text);
        directories.extend(names::directories(&text).map(|directory| Path::new("/").join(directory)));
    }
    // The journal has names of pods, and may be readable where the records are not.
    for directory in directories {
        let records = Directory::new(directory).read_all().map_err(|error| {
            CommandError::refused(format!("--anonymise takes the names of pods from their records: {error}"))
                .hint("run it as root")
        })?;
        names.add_records(&records);
    }
    Ok(names)
}

/// The policy as JSON, since comments may have any names; ranges of names have no pseudonyms.
fn without_comments(policy: &Policy) -> Result<String, String> {
    let text = policy.to_json_text().map_err(|error| error.to_string())?;
    match text.split('[').skip(1).any(|behind| behind.starts_with(|letter: char| letter.is_ascii_digit())) {
        true => Err("left out: it has ranges of names or numbers".to_owned()),
        false => Ok(text),
    }
}

fn item(name: &str, source: &str, text: String) -> Item {
    Item { name: name.to_owned(), source: source.to_owned(), content: Ok(text) }
}

/// The policy, and the result of its check as text.
fn parsed(path: &Path) -> Result<(Option<Policy>, String), CommandError> {
    Ok(match input::policy(path)? {
        Ok((policy, _)) => (Some(policy), "sound\n".to_owned()),
        Err(diagnostics) => (None, format!("{diagnostics}\n")),
    })
}

fn findings(facts: &Facts) -> String {
    let value = serde_json::to_value(judge(facts)).expect("findings are JSON");
    json::to_text(&value)
}

/// The interface of this host's status, which is the first. Interfaces of other hosts' statuses may not exist on this
/// host. The name is also that of a directory in the archive.
fn interfaces(facts: &Facts) -> Vec<String> {
    match facts.statuses.first().map(|status| &status.status) {
        Some(Ok(Status::Agent(agent))) => values::interface(&agent.interface).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn print(bundle: &Bundle, ui: &mut Ui) -> Result<(), CommandError> {
    let mut table = Table::new(&["file", "bytes", "redacted", "source"]);
    for file in &bundle.files {
        let (bytes, style, source) = match &file.content {
            Ok(content) => (content.len().to_string(), Style::Plain, file.source.clone()),
            Err(reason) => {
                let reason = reason.lines().next().unwrap_or_default();
                ("-".to_owned(), Style::Faint, format!("{}: {reason}", file.source))
            }
        };
        table.styled([
            (file.name.clone(), style),
            (bytes, style),
            (file.redactions.to_string(), style),
            (source, style),
        ]);
    }
    ui.print_table(&table, 0)?;
    // The list is complete before the archive is written.
    Ok(ui.out().flush()?)
}

fn read_host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// The host's name for the name of a file.
fn host_name() -> String {
    let name = read_host_name();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    name.trim().chars().map(plain).collect()
}

#[expect(clippy::disallowed_methods, reason = "the date of a report")]
fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// UTC as YYYYMMDD-HHMMSS.
fn date(seconds: u64) -> String {
    // Days since 1 March of year 0 (Gregorian), so that a leap day is the last day of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let time = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", time / 3_600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_status::AgentStatus;

    const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { basement: { uplink: 1Gb/s, machines: [m1] } } }\n\
                          services: { pay: { match: [ { pod: { namespace: initech-*, labels: \"app in (tps,red)\" } \
                          }, { pod: { namespace: default } } ] } }\n";

    fn agent(interface: &str) -> StatusFacts {
        let (policy, _) = Policy::parse("policy.yaml", POLICY).expect("sound");
        let machine = policy.network().machine_named("m1").expect("there");
        let status = AgentStatus { interface: interface.to_owned(), ..AgentStatus::outline(&policy, machine) };
        StatusFacts { source: "agent.json".to_owned(), status: Ok(Status::Agent(status)) }
    }

    fn facts(statuses: Vec<StatusFacts>) -> Facts {
        Facts { statuses, ..gather(&weir_doctor::Request::default()).expect("read") }
    }

    #[test]
    fn interface_is_that_of_this_host() {
        for (statuses, expected) in [
            (vec![agent("eth0"), agent("eth7")], &["eth0"][..]),
            (vec![agent(".."), agent("eth7")], &[]),
            (vec![agent("a/../b")], &[]),
            (vec![agent("")], &[]),
            (vec![], &[]),
        ] {
            assert_eq!(interfaces(&facts(statuses)), expected);
        }
    }

    #[test]
    fn dates_are_of_the_gregorian_calendar() {
        for (seconds, expected) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_796_169_600, "20261202-000000"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
