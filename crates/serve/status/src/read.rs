//! Reads the status of another program.

use crate::model::{Status, VERSION};
use serde::Deserialize;

/// Why a text is not a status that this program can show.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is something else, or truncated.
    #[error("not a status: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The status is of another version of the model.
    #[error("a status of version {found}, and this program reads version {VERSION}")]
    Version {
        /// The version.
        found: u32,
    },
}

impl Status {
    /// Reads a status. Unknown keys are ignored, since a newer program may report more.
    ///
    /// # Errors
    /// [`ReadError::Version`] for another version, whatever the rest is; [`ReadError::Malformed`]
    /// otherwise.
    pub fn read(text: &[u8]) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_slice(text)?;
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        Ok(serde_json::from_slice(text)?)
    }
}
