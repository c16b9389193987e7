//! Decoding of launch requests, before names are resolved.

use std::borrow::Cow;

use super::data::{Arrays, fields, quoted, shown, size, text};
use super::json::{Kind, Malformed, Raw};
use super::refusal::{Refusal, Result};
use super::write::Encoding;
use crate::host::problem::Problem;

/// The fields of a launch request.
#[derive(Default)]
pub(crate) struct Launch<'a> {
    pub kernel: Option<(Cow<'a, str>, Option<Raw<'a>>)>,
    pub scalars: Vec<(Cow<'a, str>, Raw<'a>)>,
    pub arrays: Vec<(Cow<'a, str>, Raw<'a>)>,
    /// Arguments given as arrays (from a file); those of rank 0 may be by-value arguments.
    pub ready: Arrays,
    /// Compile-time arguments in the language's syntax: `f32`, `16`, `max`.
    pub generics: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub dims: Vec<(Cow<'a, str>, i64)>,
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    pub encoding: Option<Encoding>,
}

/// Field names of a launch request.
pub(crate) const LAUNCH: [&str; 8] = ["kernel", "scalars", "arrays", "generics", "dims", "grid", "block", "as"];

impl<'a> Launch<'a> {
    /// Decodes a field. Arguments are added to those already present.
    pub fn take(&mut self, name: &str, value: Raw<'a>) -> Result<()> {
        match name {
            "kernel" => self.kernel = Some((text(value, "`kernel`")?, Some(value))),
            "scalars" => self.scalars.extend(fields(value, "`scalars`", &[])?),
            "arrays" => self.arrays.extend(fields(value, "`arrays`", &[])?),
            "generics" => {
                for (name, value) in fields(value, "`generics`", &[])? {
                    self.generics.push((name, generic(value)?));
                }
            }
            "dims" => {
                for (name, value) in fields(value, "`dims`", &[])? {
                    self.dims.push((name, extent(value)?));
                }
            }
            "grid" => self.grid = Some(triple(value, "`grid`")?),
            "block" => self.block = Some(triple(value, "`block`")?),
            "as" => self.encoding = Some(encoding(value)?),
            _ => {}
        }
        Ok(())
    }
}

/// Decodes `list`, `base64` or `block`.
pub(crate) fn encoding(value: Raw<'_>) -> Result<Encoding> {
    match text(value, "`as`")?.as_ref() {
        "list" => Ok(Encoding::List),
        "base64" => Ok(Encoding::Base64),
        "block" => Ok(Encoding::Block),
        other => Err(Refusal::at("E0802", format!("results cannot come as `{}`", shown(other)), value)
            .note(format!("they come as {}", quoted(["list", "base64", "block"])))),
    }
}

/// Decodes a compile-time argument: one word, or a number.
fn generic<'a>(value: Raw<'a>) -> Result<Cow<'a, str>> {
    let word = match value.kind() {
        Kind::Number | Kind::Bool => Cow::Borrowed(value.text()),
        _ => text(value, "a compile-time argument")?,
    };
    match is_word(&word) {
        true => Ok(word),
        false => {
            Err(Refusal::at("E0802", "a compile-time argument is a number, or the name of a type or function", value))
        }
    }
}

/// Whether a text is one word or number, so that it cannot inject further arguments.
pub(crate) fn is_word(text: &str) -> bool {
    let number = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    !text.is_empty() && text.len() <= 200 && text.chars().all(number)
}

fn extent(value: Raw<'_>) -> Result<i64> {
    value.text().parse().map_err(|_| Refusal::at("E0802", "an extent is an integer", value))
}

/// Decodes an integer or a list of one to three: x, y, z.
fn triple(value: Raw<'_>, what: &str) -> Result<[i64; 3]> {
    let mut sizes = [1; 3];
    match value.kind() {
        Kind::Number => sizes[0] = extent(value)?,
        Kind::List if (1..=3).contains(&value.count()) => {
            for (slot, item) in sizes.iter_mut().zip(value.items()) {
                *slot = extent(item)?;
            }
        }
        _ => {
            return Err(Refusal::at(
                "E0802",
                format!("{what} is an integer or a list of one to three, x first"),
                value,
            ));
        }
    }
    Ok(sizes)
}

/// Decodes the lengths in bytes of the blocks that follow a frame's header.
pub(crate) fn block_lengths(value: Raw<'_>) -> Result<Vec<u64>> {
    match value.kind() {
        Kind::List => value.items().map(|item| size(item, "the length of a block")).collect(),
        other => Err(Refusal::at("E0802", format!("`blocks` is a list, not {}", other.words()), value)),
    }
}

/// A text as JSON.
pub fn parse(text: &str) -> Result<Raw<'_>> {
    Raw::parse(text).map_err(|Malformed { at, why }| {
        let end = (at + 1).min(text.len());
        let problem = Problem::new("E0801", format!("the request is no JSON: {why}")).label("here");
        Refusal::Request(Box::new(problem), Some(at..end))
    })
}
