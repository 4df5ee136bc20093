//! [`SpecError`]: the reason why a workload is invalid.

/// The reason why a description is not a workload: the cause in one clause, and a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SpecError {
    /// The cause, in one clause without a final stop.
    pub cause: String,
    /// The hint.
    pub hint: String,
}

impl SpecError {
    pub(crate) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }
}

/// A result whose error is a [`SpecError`].
pub(crate) type SpecResult<T> = Result<T, SpecError>;

/// A size that a flow may have: at least one byte, and not the mark for endless flows.
pub(crate) fn finite_size(bytes: u64, what: &str) -> SpecResult<u64> {
    if bytes == 0 {
        return Err(SpecError::new(format!("{what} has no bytes"), "write a size of one byte or more"));
    }
    if bytes == crate::UNTIL_STOPPED {
        return Err(SpecError::new(format!("{what} has no end"), "write a size below 2^64 − 1 bytes"));
    }
    Ok(bytes)
}

/// A number of things that is at least one.
pub(crate) fn at_least_one(number: u64, what: &str) -> SpecResult<u64> {
    if number == 0 {
        return Err(SpecError::new(format!("the number of {what} is 0"), "write 1 or more"));
    }
    Ok(number)
}
