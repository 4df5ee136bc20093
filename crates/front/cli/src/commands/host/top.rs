//! `weir top`: machines and services as they are now, on the terminal.

use super::watched;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use crate::top::rows::{Filter, Order};
use crate::top::state::{Next, State};
use crate::top::{plain, screen};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_observe::watcher::View;
use weir_observe::{Liveness, Watcher, Whose};
use weir_report::json;
use weir_units::{Direction, Instant};

/// The longest wait for a key until the screen changes, and for a view until it is drawn.
const GLANCE: Duration = Duration::from_millis(100);

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir top http://10.0.0.1:30566 http://10.0.0.2:30566
  weir top --policy policy.yaml
  weir top --once --sort limited --filter web /run/weir/status.json
  weir top --policy policy.yaml --json | jq '.[] | select(.lost)'

Shows machines and services: usage against guarantee and limit, and what decides. Reads what agents
and fabric brokers serve (`weir agent --metrics ADDRESS:PORT`) or write (`--status FILE`), once a
second. A source that does not respond, or whose status does not change, is shown as lost since
then.

Keys: q quits, s sorts, d changes the direction, / filters, arrows scroll, space pauses, ? helps.

With --json: [{\"name\", \"source\", \"lost\": {\"for_s\", \"why\"} or null, \"status\": as served, or
null}]. Exit code 1 with --once and --json: no source has a status.")]
pub(crate) struct Args {
    /// Status URLs (`/status` may be left out) or status files
    #[arg(required_unless_present_any = ["policy", "switch"])]
    sources: Vec<String>,
    /// Also the machines of this policy, at their addresses, port 30566
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The status of a machine, if not at the policy's address
    #[arg(long, value_name = "MACHINE=URL", requires = "policy")]
    agent: Vec<String>,
    /// The status of a switch (`weir switch watch`, `weir forwarder`): a URL or a file; may be given again
    #[arg(long, value_name = "URL")]
    switch: Vec<String>,
    /// Print it once
    #[arg(long)]
    once: bool,
    /// Print it once as JSON
    #[arg(long)]
    json: bool,
    /// Order: usage, limited, machine or service
    #[arg(long, value_name = "ORDER", value_parser = order, default_value = "usage")]
    sort: Order,
    /// Only services with all these words in machine, rack, service or constraint
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    filter: String,
    /// Only tx or rx
    #[arg(long, value_name = "DIRECTION", value_parser = direction)]
    direction: Option<Direction>,
}

fn order(text: &str) -> Result<Order, String> {
    let found = Order::ALL.into_iter().find(|order| order.name() == text);
    found.ok_or_else(|| "write usage, limited, machine or service".to_owned())
}

fn direction(text: &str) -> Result<Direction, String> {
    Direction::ALL.into_iter().find(|direction| direction.name() == text).ok_or_else(|| "write tx or rx".to_owned())
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut livenesses = Vec::new();
    if let Some(path) = &args.policy {
        let (policy, notes) = input::policy(path)??;
        input::print_notes(&notes, ui)?;
        livenesses = watched::machines(&policy, &args.agent)?;
    }
    for text in &args.sources {
        livenesses.push(Liveness::new(watched::source(text)?, None));
    }
    for text in &args.switch {
        livenesses.push(Liveness::new(watched::source(text)?, None).of(Whose::Switch));
    }
    let once = args.once || args.json;
    if !once && !io::stdout().is_terminal() {
        return Err(CommandError::refused("standard output is no terminal").hint("--once prints a table, --json JSON"));
    }
    let interrupt = Interrupt::listen()?;
    let watcher =
        Watcher::start(livenesses).map_err(|error| CommandError::failed(format!("cannot start to watch: {error}")))?;
    let filter = Filter { words: args.filter.clone(), direction: args.direction };
    if !once {
        let state = State { order: args.sort, filter, ..State::default() };
        let mut terminal = ratatui::try_init().map_err(terminal_failed)?;
        let result = show(&mut terminal, &watcher, state, ui.out_is_coloured(), &interrupt);
        ratatui::restore();
        return result;
    }
    let view = View::clone(&*first(&watcher, &interrupt)?).dated(since_1970());
    if args.json {
        json::write(ui.out(), &plain::to_json(&view))?;
    } else {
        plain::print(&view, &filter, args.sort, ui)?;
    }
    let known = view.livenesses.iter().any(|liveness| liveness.status.is_some());
    Ok(if known { Exit::Done } else { Exit::Failed })
}

fn terminal_failed(error: io::Error) -> CommandError {
    CommandError::failed(format!("the terminal: {error}"))
}

/// The first view, after every source was polled once.
#[expect(clippy::disallowed_methods, reason = "a person waits; no run depends on it")]
fn first(watcher: &Watcher, interrupt: &Interrupt) -> Result<Arc<View>, CommandError> {
    loop {
        if let Some(view) = watcher.latest() {
            return Ok(view);
        }
        if interrupt.is_requested() {
            return Err(CommandError::interrupted("nothing was read yet"));
        }
        std::thread::sleep(GLANCE / 10);
    }
}

#[expect(clippy::disallowed_methods, reason = "one look shows by the clock alone that a status is old")]
fn since_1970() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn show(
    terminal: &mut DefaultTerminal,
    watcher: &Watcher,
    mut state: State,
    coloured: bool,
    interrupt: &Interrupt,
) -> Result<Exit, CommandError> {
    let mut view: Option<Arc<View>> = None;
    while !interrupt.is_requested() {
        if !state.paused {
            view = watcher.latest().or(view);
        }
        let mut page = 0;
        terminal
            .draw(|frame| page = screen::draw(frame, view.as_deref(), &mut state, coloured))
            .map_err(terminal_failed)?;
        if event::poll(GLANCE).map_err(terminal_failed)?
            && let Event::Key(key) = event::read().map_err(terminal_failed)?
            && state.on_key(key, page) == Next::Quit
        {
            break;
        }
    }
    Ok(Exit::Done)
}
