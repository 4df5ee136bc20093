//! The trace of a plan: its file, and the progress of the work on it, which ends at Ctrl-C.

use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use crate::progress::{Watch, wall};
use crate::text;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use weir_answers::plan::{Monitor, cannot_read};
use weir_latency::trace::Watch as WatchRows;

/// Bytes read at once.
const BLOCK: usize = 1 << 18;
/// The approximate number of passes of a search: one for each bit of a rate.
const PASSES: f64 = 40.0;

/// The name of a trace in messages.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// Opens a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, CommandError> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BLOCK, io::stdin())));
    }
    let file = File::open(path).map_err(|error| cannot_read(&name(path), &error))?;
    Ok(Box::new(BufReader::with_capacity(BLOCK, file)))
}

/// The progress of the work on the terminal, with interruption.
pub(crate) struct TerminalMonitor<'a> {
    ui: &'a mut Ui,
    watch: Watch,
    interrupt: Interrupt,
    what: String,
    pass: u32,
}

impl Monitor for TerminalMonitor<'_> {
    fn begin(&mut self, what: String) {
        (self.what, self.pass) = (what, 0);
        self.watch.restart();
    }
    fn finish(&mut self) {
        self.watch.finish();
    }
}

impl WatchRows for TerminalMonitor<'_> {
    fn rows(&mut self, rows: u64, of: u64) -> ControlFlow<()> {
        if self.interrupt.is_requested() {
            return ControlFlow::Break(());
        }
        self.pass += u32::from(rows == 0);
        let (what, pass) = (&self.what, self.pass);
        let done = if of == 0 { 0.0 } else { (f64::from(pass) / PASSES).min(1.0) };
        self.watch.show(done, self.ui, |elapsed| {
            let how_far = if of == 0 { text::whole(rows) + " messages" } else { format!("pass {pass}") };
            format!("{what}: {how_far}, {} so far", wall(elapsed))
        });
        ControlFlow::Continue(())
    }
}

impl<'a> TerminalMonitor<'a> {
    /// From now on Ctrl-C ends the work.
    pub(crate) fn listen(path: &Path, ui: &'a mut Ui) -> Result<Self, CommandError> {
        let interrupt = Interrupt::listen()?;
        let watch = Watch::new(ui.err_is_terminal());
        Ok(Self { ui, watch, interrupt, what: format!("reading {}", name(path)), pass: 0 })
    }
}
