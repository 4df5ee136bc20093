//! Errors of an interface.

use std::io;
use std::path::PathBuf;
use tracing::debug;
use weir_datapath::Unenforceable;
use weir_linux::cgroups::CgroupError;
use weir_linux::interface::InterfaceError;
use weir_linux::loader::LoaderError;
use weir_linux::shaper::{Backend, NoBackend, ShaperError};

/// Why a host cannot be brought under a policy.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Another agent has the interface.
    #[error("another agent runs on {interface} ({} is locked)", .lock.display())]
    Taken {
        /// The interface.
        interface: String,
        /// The file that is locked.
        lock: PathBuf,
    },
    /// The lock of the interface cannot be read or taken.
    #[error("{}: {error}", .lock.display())]
    Lock {
        /// The file to lock.
        lock: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The process whose number is in an agent's lock is not the agent.
    #[error(
        "process {process} of the agent's lock: {}; the agent may run in another PID namespace",
        if error.kind() == io::ErrorKind::NotFound { "it does not have the lock".to_owned() } else { error.to_string() }
    )]
    Process {
        /// Its number.
        process: u32,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The policy's services or filters.
    #[error("{}; {}", .0, .0.hint())]
    Unenforceable(#[from] Unenforceable),
    /// The control groups of the policy's filters.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The BPF programs.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The shaper.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// No backend can enforce rates.
    #[error(transparent)]
    NoBackend(#[from] NoBackend),
    /// A service waits for credits, and departure times do not hold its packets back.
    #[error(
        "service `{service}` has credits, whose gates are classes of htb, and this agent runs with edt; restart it, \
         and it selects htb"
    )]
    Credits {
        /// The path of the first such service.
        service: String,
    },
    /// The socket of credits.
    #[error("the socket of credits: {0}")]
    CreditSocket(#[source] io::Error),
    /// The credits of services alone: the rest of the policy is in force.
    #[error(transparent)]
    CreditStart(Box<HostError>),
    /// A fault of the agent.
    #[error("the thread of credits panicked")]
    CreditThread,
    /// The kernel lacks a qdisc that levels need with this backend.
    #[error("{backend}: {obstacle}; --backend selects another, or load the kernel's module")]
    Levels {
        /// The backend.
        backend: Backend,
        /// The reason.
        obstacle: String,
    },
    /// Waiting failed, or a thread could not be started.
    #[error("wait for events of destinations: {0}")]
    Wait(#[source] io::Error),
    /// Two independent steps failed.
    #[error("{}; {}", .0[0], .0[1])]
    Both(Box<[HostError; 2]>),
    /// A fault of the agent.
    #[error("the thread that limits destinations panicked")]
    DestinationThread,
    /// A fault of the agent.
    #[error("the thread that sets rates panicked")]
    ShaperThread,
}

impl HostError {
    /// Accepts that the credits of services could not start: the rest is in force, and the next check of the interface
    /// finds [`Missing::Credits`](super::Missing::Credits) and starts them.
    pub(crate) fn unless_of_credits(renewed: Result<(), Self>) -> Result<(), Self> {
        match renewed {
            Err(Self::CreditStart(error)) => {
                debug!("{error}");
                Ok(())
            }
            renewed => renewed,
        }
    }

    /// Whether the policy was refused before anything was changed. An error of control groups at the change itself or
    /// after it is one of [`LoaderError`].
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Unenforceable(_)
                | Self::Cgroups(_)
                | Self::Credits { .. }
                | Self::Levels { .. }
                | Self::Loader(LoaderError::TooManyServices)
        )
    }
}
