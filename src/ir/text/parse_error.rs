//! Errors of the parsers of DeviceIR's and TileIR's text forms.

use std::fmt::Display;

use clk_scalar::Scalar;
use thiserror::Error;

/// Why a text cannot be parsed, and where.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {reason}")]
pub struct IrParseError {
    /// The line number, from 1.
    pub line: usize,
    pub reason: IrParseErrorReason,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum IrParseErrorReason {
    #[error("unexpected `{0}`")]
    Character(char),
    #[error("bits are hexadecimal")]
    Bits,
    #[error("a text without its closing quote")]
    OpenText,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("expected {expected}, found {found}")]
    Found { expected: String, found: String },
    #[error("unknown {0} `{1}`")]
    Unknown(&'static str, String),
    #[error("`{0}` is not {1}")]
    IsNot(String, &'static str),
    #[error("`{digits}` is not a valid {scalar}")]
    InvalidConstant { digits: String, scalar: Scalar },
    #[error("`{0}` has no type")]
    NoType(String),
    #[error("the number is too large")]
    TooLarge,
    #[error("nested too deeply")]
    TooDeep,
    #[error("%{0} is defined twice")]
    DefinedTwice(u64),
    #[error("%{number} is never defined in `{function}`")]
    NeverDefined { number: u64, function: String },
    #[error("there is no element kernel `e{0}`")]
    NoElementKernel(u32),
    #[error("an expression has one value")]
    SeveralValues,
    #[error("a warp operation has one result")]
    WarpResults,
    #[error("this statement has no such results")]
    Results,
}

impl IrParseErrorReason {
    pub(super) fn found(expected: impl Into<String>, found: impl Display) -> IrParseErrorReason {
        IrParseErrorReason::Found { expected: expected.into(), found: found.to_string() }
    }
}
