//! The reasons why a process cannot join the other ranks.

use std::io;

use thiserror::Error;

use super::environment::{PORT, RankEnvironmentError, WAIT};

#[derive(Debug, Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Environment(#[from] RankEnvironmentError),
    #[error("{WAIT} is `{0}`, and no number of seconds")]
    Wait(String),
    // Rank 0
    #[error("rank 0 cannot listen on port {port}: {}; {PORT} names another, for all ranks", port_reason(.error))]
    PortInUse { port: u16, error: io::Error },
    #[error("rank 0 cannot listen: {0}")]
    Listen(io::Error),
    /// A rank of this job runs another program, for example.
    #[error("{0}")]
    Misfit(String),
    #[error("after {seconds} s there is still no rank {}{}; {WAIT} sets how long to wait", list(.ranks), refusal(.refused))]
    MissingRanks { seconds: u64, ranks: Vec<usize>, refused: Option<String> },
    // The other ranks
    #[error("rank 0 is not reached at {address} within {seconds} s: {reason}; {WAIT} sets how long to wait")]
    Unreachable { address: String, seconds: u64, reason: String },
    #[error("the connection to rank 0 is broken: {0}")]
    Connection(io::Error),
    #[error("rank 0 refuses this one: {0}")]
    Refused(String),
    #[error("rank 0 is gone before all ranks were there")]
    Gone,
    #[error("what listens at {0} is not rank 0")]
    NotRankZero(String),
    #[error("interrupted")]
    Interrupted,
}

fn port_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses it".into(),
        _ => error.to_string(),
    }
}

fn list(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn refusal(reason: &Option<String>) -> String {
    reason.as_ref().map_or(String::new(), |reason| format!("; a connection was refused: {reason}"))
}
