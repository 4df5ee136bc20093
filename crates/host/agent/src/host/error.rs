//! Errors of an interface.

use std::io;
use std::path::PathBuf;
use weir_datapath::ClassifierError;
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
    /// The interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The policy's filters.
    #[error("{}; {}", .0, .0.hint())]
    Classifier(#[from] ClassifierError),
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
    /// A service waits for credits, and agents let traffic leave without them.
    #[error(
        "service `{service}` has credits, and this agent does not enforce them; remove `credits` from the policy that \
         agents read"
    )]
    Credits {
        /// The path of the first such service.
        service: String,
    },
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
    /// Whether the policy was refused before anything was changed. An error of control groups at the change itself or
    /// after it is one of [`LoaderError`].
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Classifier(_)
                | Self::Cgroups(_)
                | Self::Credits { .. }
                | Self::Levels { .. }
                | Self::Loader(LoaderError::TooManyServices)
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::host;
    use weir_policy::Policy;

    #[test]
    fn credits_are_refused() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    services: { a: { match: [ { port: 1 } ], credits: {} }, b: { match: [ { port: 2 } ] } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
        let refused = host::check(&policy, "eth0").expect_err("an agent enforces no credits");
        assert!(refused.is_refusal(), "nothing is changed for it");
        assert_eq!(
            refused.to_string(),
            "service `a` has credits, and this agent does not enforce them; remove `credits` from the policy that \
             agents read"
        );
    }
}
