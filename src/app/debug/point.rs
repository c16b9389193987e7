//! Breakpoints: where a run is to stop.

use std::fmt;

/// A place or an event at which a run stops.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// The statements of the source that begin on a line, by their numbers; the file for display.
    Line { file: String, line: usize, places: Vec<u32> },
    /// The first step of each block of a kernel's launch; of a fn, each call.
    Item { name: String },
    /// Any first statement; a filter on threads or blocks says the rest.
    Anywhere,
    /// A NaN is computed.
    Nan,
    /// An element of an array is written.
    Write { array: String, indices: Vec<i64> },
}

/// A stop that the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub id: u32,
    pub what: What,
    /// An expression that has to be true.
    pub condition: Option<String>,
    /// Only this thread: its index in the block, or its index tuple.
    pub thread: Option<Vec<u32>>,
    /// Only this block.
    pub block: Option<Vec<u32>>,
    pub enabled: bool,
    /// It is removed when it has stopped the run once.
    pub once: bool,
    /// Stops so far.
    pub hits: u64,
}

impl Point {
    pub fn new(what: What) -> Point {
        Point { id: 0, what, condition: None, thread: None, block: None, enabled: true, once: false, hits: 0 }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Line { file, line, .. } => write!(f, "{file}:{line}")?,
            What::Item { name } => write!(f, "{name}")?,
            What::Anywhere => write!(f, "any statement")?,
            What::Nan => write!(f, "NaN")?,
            What::Write { array, indices } => {
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

/// Formats an index, or a tuple of some, without trailing zero axes.
pub(crate) fn coordinates(at: &[u32]) -> String {
    let used = at.iter().rposition(|&n| n != 0).map_or(1, |last| last + 1);
    match &at[..used.min(at.len())] {
        [one] => one.to_string(),
        all => format!("({})", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Whether coordinates are meant by those that the user gave: `5` is `(5, 0, 0)`.
pub(crate) fn is_meant(given: &[u32], at: &[u32]) -> bool {
    let count = given.len().max(at.len());
    (0..count).all(|axis| given.get(axis).copied().unwrap_or(0) == at.get(axis).copied().unwrap_or(0))
}

/// Reads `5` or `(1, 2)`; returns what follows.
pub(crate) fn read_coordinates(text: &str) -> Result<(Vec<u32>, &str), String> {
    let text = text.trim_start();
    let refused = || format!("`{text}` is no index: say `5` or `(1, 2)`");
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| refused());
    if let Some(inner) = text.strip_prefix('(') {
        let (inner, rest) = inner.split_once(')').ok_or_else(refused)?;
        let parts = inner.split(',').map(number).collect::<Result<Vec<u32>, String>>()?;
        return if (1..=3).contains(&parts.len()) { Ok((parts, rest)) } else { Err(refused()) };
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Ok((vec![number(&text[..end])?], &text[end..]))
}

/// Reads `y[17]` or `y[2, 3]`.
pub(crate) fn read_element(text: &str) -> Result<(String, Vec<i64>), String> {
    let refused = || format!("`{text}` is no element: say which, as in `y[17]` or `a[2, 3]`");
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

/// Reads the filters and the condition behind a breakpoint: `thread (1, 2) block 3 if x > 0`.
pub(crate) fn read_filters(mut text: &str, point: &mut Point) -> Result<(), String> {
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
            _ => return Err(format!("`{text}` is not understood; say `thread …`, `block …` or `if …`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        let mut point = Point::new(What::Nan);
        read_filters("thread (1, 2) block 3 if x > 0.0", &mut point).unwrap();
        assert_eq!(point.to_string(), "NaN thread (1, 2) block 3 if x > 0.0");
        assert!(read_filters("thread x", &mut point).is_err());
        assert!(read_filters("wherever", &mut point).is_err());
        assert_eq!(read_element("a[2, 3]"), Ok(("a".into(), vec![2, 3])));
        assert!(read_element("a[i]").is_err());
        assert!(is_meant(&[5], &[5, 0, 0]) && !is_meant(&[5], &[5, 1, 0]));
    }
}
