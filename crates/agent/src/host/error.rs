//! What can go wrong at an interface.

use std::io;
use std::path::PathBuf;
use weir_datapath::ClassifierError;
use weir_linux::interface::InterfaceError;
use weir_linux::loader::LoaderError;
use weir_linux::shaper::{NoBackend, ShaperError};

/// Why a host cannot be brought under a policy.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Somebody else holds the interface.
    #[error("another agent runs on {interface} ({} is locked)", .lock.display())]
    Taken {
        /// The interface.
        interface: String,
        /// The file that is locked.
        lock: PathBuf,
    },
    /// Whether somebody else holds the interface cannot be told.
    #[error("{}: {error}", .lock.display())]
    Lock {
        /// The file to lock.
        lock: PathBuf,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
    /// The interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The BPF programs.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The shaper.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// No way to enforce rates.
    #[error(transparent)]
    NoBackend(#[from] NoBackend),
    /// Nothing can be waited for, or no thread be started.
    #[error("wait for news of destinations: {0}")]
    Wait(#[source] io::Error),
    /// Two things that were tried independently.
    #[error("{}; {}", .0[0], .0[1])]
    Both(Box<[HostError; 2]>),
    /// A bug of ours.
    #[error("the thread that holds destinations panicked")]
    DestinationThread,
}

impl HostError {
    /// Whether it says that the policy cannot be had here, found out before anything was touched.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Classifier(_) | Self::Loader(LoaderError::TooManyServices))
    }
}
