//! A status from somebody else.

use crate::model::{Status, VERSION};
use serde::Deserialize;

/// Why a text is no status that this program can show.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is something else, or cut off.
    #[error("not a status: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Of another version of the model.
    #[error("a status of version {found}, and this program reads version {VERSION}")]
    Version {
        /// The version.
        found: u32,
    },
}

impl Status {
    /// Reads a status. Keys that are not known are left aside: a newer program may tell more.
    ///
    /// # Errors
    /// [`ReadError::Version`] for another version, whatever else is in it; [`ReadError::Malformed`] otherwise.
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
