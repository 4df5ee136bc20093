//! Errors as the CNI specification prints them: a JSON object with a code on standard output.
//!
//! Worked example: `{"cniVersion": "1.0.0", "code": 7, "msg": "no prevResult", "details": "put weir-cni behind …"}`.
//!
//! Source: the CNI specification 1.1.0, "Error".

use serde_json::json;

/// The kind of an error, by the specification's numbers; those from 100 are the plugin's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A version that the plugin does not support.
    IncompatibleVersion = 1,
    /// A key that the plugin does not have.
    UnsupportedField = 2,
    /// A variable of the environment is missing or invalid.
    InvalidEnvironment = 4,
    /// A file cannot be read or written.
    Io = 5,
    /// The configuration is not the JSON that the specification demands.
    Decode = 6,
    /// A value in the configuration is invalid.
    InvalidConfiguration = 7,
    /// STATUS: the plugin cannot serve ADD.
    NotAvailable = 50,
    /// The kernel has refused a request.
    Kernel = 100,
    /// CHECK: the attachment is not as ADD has left it.
    NotAsAdded = 101,
}

/// An error: what is wrong, and how to mend it or where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {details}")]
pub struct CniError {
    /// The kind.
    pub code: Code,
    /// The violation.
    pub message: String,
    /// The position, the cause, or a remedy.
    pub details: String,
}

impl CniError {
    /// An error with its details.
    pub fn new(code: Code, message: impl Into<String>, details: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: details.into() }
    }

    /// The error object, in the version of the configuration.
    pub fn print(&self, version: &str) -> String {
        let object = json!({
            "cniVersion": version,
            "code": self.code as u32,
            "msg": self.message,
            "details": self.details,
        });
        format!("{object}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_object_has_the_keys_of_the_specification() {
        let error = CniError::new(Code::NotAvailable, "not \"ready\"", "why");
        let expected = r#"{"cniVersion":"1.1.0","code":50,"msg":"not \"ready\"","details":"why"}"#;
        assert_eq!(error.print("1.1.0"), format!("{expected}\n"));
    }
}
