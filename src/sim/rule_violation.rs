//! The error of the verifiers of compiled code and of LaneIR.

use std::fmt::Display;

use thiserror::Error;

/// The first violation of a rule. `docs/internals/verifier-rules.md` lists the rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: {message}{place}")]
pub(crate) struct RuleViolation {
    /// Number and name of the rule: `C2 masks`.
    pub rule: &'static str,
    pub message: String,
    /// The place as the end of a sentence: ` in mask 3`; may be empty.
    pub place: String,
}

/// Returns a violation at an unknown place.
pub(crate) fn violation(rule: &'static str, message: impl Into<String>) -> RuleViolation {
    RuleViolation { rule, message: message.into(), place: String::new() }
}

impl RuleViolation {
    /// Appends a place.
    pub fn at(mut self, place: impl Display) -> RuleViolation {
        self.place += &place.to_string();
        self
    }
}
