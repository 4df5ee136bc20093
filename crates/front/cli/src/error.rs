//! Errors of a command: a kind, a message, and hints.
//!
//! The kind decides the exit code. The message names the problem, the hints the solution; refused
//! documents bring their own positions, causes and hints.

#[cfg(feature = "host")]
mod host;

use crate::output::{Style, Ui};
use std::fmt::Display;
use std::io;
use std::path::Path;
use weir_answers::AnswerError;
use weir_document::Diagnostics;
use weir_results::FileError;
use weir_runs::experiments::ExperimentsError;
use weir_runs::papers::PapersError;
use weir_runs::run_files::COMMAND;
use weir_runs::sweep::SweepError;
use weir_sim::RunError;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Without an error.
    Done,
    /// It failed while running.
    Failed,
    /// Its input was refused.
    Refused,
    /// The user interrupted it; finished work is kept.
    Interrupted,
    /// The program to run was not found, or cannot be run.
    #[cfg(feature = "host")]
    NotStarted { is_found: bool },
}

impl Exit {
    /// The process's exit code. From 126 on the codes are those of shells.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 2,
            #[cfg(feature = "host")]
            Self::NotStarted { is_found } => match is_found {
                true => 126,
                false => 127,
            },
            Self::Interrupted => 130,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    cause: Cause,
    hints: Vec<String>,
}

#[derive(Debug)]
enum Cause {
    /// A failure outside of the program, with its exit code: a disk, a network, another program.
    Failed(String, Exit),
    /// The input or the options are wrong.
    Refused(String),
    /// A document is wrong.
    Document(Diagnostics),
    /// The user interrupted it before there was anything to keep.
    Interrupted(String),
    /// The reader of the output has closed it.
    OutputClosed,
}

impl CommandError {
    /// A failure at run time.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { cause: Cause::Failed(printable(message.into()), Exit::Failed), hints: Vec::new() }
    }
    /// The input or the options are wrong.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { cause: Cause::Refused(printable(message.into())), hints: Vec::new() }
    }
    /// The user interrupted it, and there is nothing to keep.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { cause: Cause::Interrupted(printable(message.into())), hints: Vec::new() }
    }
    /// A file could not be written.
    pub(crate) fn cannot_write(path: &Path, error: impl Display) -> Self {
        Self::failed(format!("cannot write `{}`: {error}", path.display()))
            .hint("check that the directory exists, is writable and that the disk has room")
    }
    /// The same error with the name of what it is about before the message.
    #[must_use]
    pub(crate) fn of(mut self, subject: &str) -> Self {
        match &mut self.cause {
            Cause::Failed(message, _) | Cause::Refused(message) | Cause::Interrupted(message) => {
                *message = format!("{}: {message}", printable(subject.to_owned()))
            }
            Cause::Document(_) | Cause::OutputClosed => {}
        }
        self
    }
    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
    /// The exit code. A reader that has closed the output (`| head`) is no failure.
    pub(crate) fn exit(&self) -> Exit {
        match self.cause {
            Cause::Failed(_, exit) => exit,
            Cause::Refused(_) | Cause::Document(_) => Exit::Refused,
            Cause::Interrupted(_) => Exit::Interrupted,
            Cause::OutputClosed => Exit::Done,
        }
    }
    /// Prints it for people. A failure to print is ignored, since there is no other output.
    pub(crate) fn print(&self, ui: &mut Ui) {
        let title = ui.on_err(Style::Error, "error:");
        let hint_title = ui.on_err(Style::Strong, "hint:");
        let mut text = match &self.cause {
            Cause::OutputClosed => return,
            Cause::Failed(message, _) | Cause::Refused(message) => format!("{title} {message}\n"),
            Cause::Interrupted(message) => format!("{} {message}\n", ui.on_err(Style::Limited, "interrupted:")),
            Cause::Document(diagnostics) => diagnostics.render(ui.err_is_coloured()),
        };
        for hint in &self.hints {
            text.push_str(&format!("{hint_title} {hint}\n"));
        }
        let _ = ui.notice(&text);
    }
}

impl From<Diagnostics> for CommandError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { cause: Cause::Document(diagnostics), hints: Vec::new() }
    }
}

/// From a question about a policy.
impl From<AnswerError> for CommandError {
    fn from(error: AnswerError) -> Self {
        let (cause, hints) = error.into_parts();
        let text = cause.to_string();
        let made = match cause {
            weir_answers::Cause::Document(diagnostics) => diagnostics.into(),
            weir_answers::Cause::Refused { .. } => Self::refused(text),
            weir_answers::Cause::Stopped => Self::interrupted(text),
        };
        hints.into_iter().fold(made, Self::hint)
    }
}

/// From the files of a report.
impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let message = error.to_string();
        match error {
            FileError::NotADirectory(_) => Self::refused(message).hint("name a directory for the report"),
            FileError::NotEmpty(_) => Self::refused(message)
                .hint("name another directory, or add --force to replace the files of the run in this one"),
            FileError::Io { cause, .. } if matches!(cause.kind(), FileTooLarge | QuotaExceeded | StorageFull) => {
                Self::failed(message).hint("make room on the disk, or name a directory on another one")
            }
            FileError::Io { what: "read", .. } => {
                Self::failed(message).hint("name the directory of a report that `--report` wrote")
            }
            FileError::Io { .. } => {
                Self::failed(message).hint("check that the directory exists, is writable and that the disk has room")
            }
            FileError::Format { path, .. } => {
                let command = path.with_file_name(COMMAND);
                Self::refused(message).hint(format!("run the command in `{}` again", command.display()))
            }
            FileError::Unsound { .. } => Self::failed(message).hint(
                "its tables can be used; report this as a fault of Weir, with its `command.txt` and the scenario",
            ),
            FileError::Malformed { .. } | FileError::Invalid { .. } => {
                Self::failed(message).hint("run the scenario again; `--force` replaces the files")
            }
        }
    }
}

/// From the directory and the threads of a sweep.
impl From<SweepError> for CommandError {
    fn from(error: SweepError) -> Self {
        let message = error.to_string();
        match error {
            SweepError::Busy(_) => Self::refused(message).hint("wait for it to end, or name another directory"),
            SweepError::Another { .. } => {
                Self::refused(message).hint("name another directory, or add --force to start over in this one")
            }
            SweepError::File(error) => error.into(),
            SweepError::Disk { cause, complete } => Self::from(cause).hint(format!(
                "{} complete and kept; the same command runs the rest",
                if complete == 1 { "1 point is".to_owned() } else { format!("{complete} points are") }
            )),
            SweepError::Threads(_) => Self::failed(message),
        }
    }
}

/// From the runs of experiments.
impl From<ExperimentsError> for CommandError {
    fn from(error: ExperimentsError) -> Self {
        match error {
            ExperimentsError::Threads(_) => Self::failed(error.to_string()),
        }
    }
}

/// From the embedded experiments.
impl From<PapersError> for CommandError {
    fn from(error: PapersError) -> Self {
        let message = error.to_string();
        match error {
            PapersError::Directory(_) => Self::failed(message),
            PapersError::Write { path, cause } => Self::cannot_write(&path, cause),
            PapersError::Unknown { near, .. } => {
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                Self::refused(message).hint(format!("{near}`weir reproduce --list` shows all"))
            }
            PapersError::Invalid(diagnostics) => diagnostics.into(),
        }
    }
}

/// From the simulator.
impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::LabOnly(_) => Self::refused(error.to_string()).hint("run it with `weir lab`"),
            RunError::Unclassified { .. } => Self::refused(error.to_string())
                .hint("give the service a match that TCP packets between these machines have"),
            RunError::Classifier(filters) => {
                Self::refused(format!("the policy's filters cannot be used: {filters}")).hint(filters.hint())
            }
            RunError::Unenforceable(refusal) => Self::refused(refusal.to_string()).hint(refusal.hint()),
        }
    }
}

/// Messages contain file names and arguments; control characters are escaped for the terminal.
fn printable(text: String) -> String {
    let is_escaped = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_escaped) {
        return text;
    }
    text.chars().map(|c| if is_escaped(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// From writing to standard output; files are reported by [`CommandError::cannot_write`].
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { cause: Cause::OutputClosed, hints: Vec::new() },
            _ => Self::failed(format!("cannot write to standard output: {error}")),
        }
    }
}
