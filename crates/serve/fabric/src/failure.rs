//! Failures as one line.

/// An error with its causes: the first one alone is only "transport error".
pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

/// The message of a gRPC status, with the cause of a broken connection.
pub(crate) fn of_status(status: &tonic::Status) -> String {
    let source = std::error::Error::source(status).map(of);
    source.map_or_else(|| status.message().to_owned(), |source| format!("{}: {source}", status.message()))
}
