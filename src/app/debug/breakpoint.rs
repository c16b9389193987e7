//! Breakpoints and watchpoints.

use crate::command_error::{CommandError, CommandResult};
use std::fmt;

/// The location or event at which a breakpoint stops the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BreakpointKind {
    /// A source line: `places` are the indices of the statements that begin on it. The file name is only displayed.
    Line { file: String, line: usize, places: Vec<u32> },
    /// A kernel or function. The run stops at the first step of each block, or at each call of the function.
    Item { name: String },
    /// Every statement, usually restricted by a thread or block filter.
    Anywhere,
    /// An operation computes a NaN.
    Nan,
    /// A thread writes this element of the array.
    Write { array: String, indices: Vec<i64> },
}

/// A breakpoint set by the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Breakpoint {
    pub id: u32,
    pub kind: BreakpointKind,
    /// An expression that must be true for the breakpoint to stop the run.
    pub condition: Option<String>,
    /// If set, only this thread stops, given by its index in the block or by its index tuple.
    pub thread: Option<Vec<u32>>,
    /// If set, only threads of this block stop.
    pub block: Option<Vec<u32>>,
    pub enabled: bool,
    /// Whether the breakpoint is removed after its first stop.
    pub is_temporary: bool,
    /// Number of times that the breakpoint has stopped the run.
    pub hits: u64,
}

impl Breakpoint {
    pub fn new(what: BreakpointKind) -> Breakpoint {
        Breakpoint {
            id: 0,
            kind: what,
            condition: None,
            thread: None,
            block: None,
            enabled: true,
            is_temporary: false,
            hits: 0,
        }
    }
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BreakpointKind::Line { file, line, .. } => write!(f, "{file}:{line}")?,
            BreakpointKind::Item { name } => write!(f, "{name}")?,
            BreakpointKind::Anywhere => write!(f, "any statement")?,
            BreakpointKind::Nan => write!(f, "NaN")?,
            BreakpointKind::Write { array, indices } => {
                let indices: Vec<String> = indices.iter().map(i64::to_string).collect();
                write!(f, "writes to {array}[{}]", indices.join(", "))?;
            }
        }
        for (word, filter) in [("thread", &self.thread), ("block", &self.block)] {
            if let Some(at) = filter {
                write!(f, " {word} {}", coordinates(at))?;
            }
        }
        self.condition.as_ref().map_or(Ok(()), |condition| write!(f, " if {condition}"))
    }
}

/// Formats coordinates, without trailing zero axes: `5` for `(5, 0, 0)`.
pub(crate) fn coordinates(at: &[u32]) -> String {
    let used = at.iter().rposition(|&n| n != 0).map_or(1, |last| last + 1);
    match &at[..used.min(at.len())] {
        [one] => one.to_string(),
        all => format!("({})", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Whether coordinates match those that the user gave: `5` matches `(5, 0, 0)`.
pub(crate) fn matches_coordinates(given: &[u32], at: &[u32]) -> bool {
    let count = given.len().max(at.len());
    (0..count).all(|axis| given.get(axis).copied().unwrap_or(0) == at.get(axis).copied().unwrap_or(0))
}

/// Parses coordinates such as `5` or `(1, 2)`; returns them and the rest of the text.
pub(crate) fn read_coordinates(text: &str) -> CommandResult<(Vec<u32>, &str)> {
    let text = text.trim_start();
    let refused = || CommandError::from(format!("`{text}` is not an index; write `5` or `(1, 2)`"));
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| refused());
    if let Some(inner) = text.strip_prefix('(') {
        let (inner, rest) = inner.split_once(')').ok_or_else(refused)?;
        let parts = inner.split(',').map(number).collect::<CommandResult<Vec<u32>>>()?;
        return if (1..=3).contains(&parts.len()) { Ok((parts, rest)) } else { Err(refused()) };
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Ok((vec![number(&text[..end])?], &text[end..]))
}

/// Parses an array element such as `y[17]` or `y[2, 3]`.
pub(crate) fn read_element(text: &str) -> CommandResult<(String, Vec<i64>)> {
    let refused = || CommandError::from(format!("`{text}` is not an element; write `y[17]` or `a[2, 3]`, for example"));
    let text = text.trim();
    let (name, rest) = text.split_once('[').ok_or_else(refused)?;
    let inner = rest.strip_suffix(']').ok_or_else(refused)?;
    let name = name.trim();
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err(refused());
    }
    let indices = inner.split(',').map(|n| n.trim().parse::<i64>().map_err(|_| refused()));
    Ok((name.to_string(), indices.collect::<Result<_, _>>()?))
}

/// Parses the filters and the condition of a breakpoint: `thread (1, 2) block 3 if x > 0`.
pub(crate) fn read_filters(mut text: &str, point: &mut Breakpoint) -> CommandResult<()> {
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(());
        }
        let (word, rest) = text.split_once([' ', '(']).map_or((text, ""), |(word, _)| (word, &text[word.len()..]));
        match word {
            "if" if !rest.trim().is_empty() => {
                point.condition = Some(rest.trim().to_string());
                return Ok(());
            }
            "thread" | "block" => {
                let (at, rest) = read_coordinates(rest)?;
                *(if word == "thread" { &mut point.thread } else { &mut point.block }) = Some(at);
                text = rest;
            }
            _ => return Err(format!("`{text}` is not understood; say `thread …`, `block …` or `if …`").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_round_trip() {
        let mut point = Breakpoint::new(BreakpointKind::Nan);
        read_filters("thread (1, 2) block 3 if x > 0.0", &mut point).unwrap();
        assert_eq!(point.to_string(), "NaN thread (1, 2) block 3 if x > 0.0");
        assert!(read_filters("thread x", &mut point).is_err());
        assert!(read_filters("wherever", &mut point).is_err());
        assert_eq!(read_element("a[2, 3]"), Ok(("a".into(), vec![2, 3])));
        assert!(read_element("a[i]").is_err());
        assert!(matches_coordinates(&[5], &[5, 0, 0]) && !matches_coordinates(&[5], &[5, 1, 0]));
    }
}
