//! Decodes launch requests. The names in them are resolved later.

use std::borrow::Cow;

use super::data::{NamedArrays, abbreviated, fields, quote_names, size, text};
use super::json::{JsonError, JsonKind, JsonRaw};
use super::launch_error::{LaunchRequestError, Result};
use super::write::ArrayEncoding;
use clk_host::problem::RuntimeError;

/// The fields of a launch request.
#[derive(Default)]
pub(crate) struct LaunchRequest<'a> {
    pub kernel: Option<(Cow<'a, str>, Option<JsonRaw<'a>>)>,
    pub scalars: Vec<(Cow<'a, str>, JsonRaw<'a>)>,
    pub arrays: Vec<(Cow<'a, str>, JsonRaw<'a>)>,
    /// Arrays that were read from a file. One of rank 0 may be a by-value argument.
    pub ready: NamedArrays,
    /// Compile-time arguments: the name, and the value in the syntax of the language (`f32`, `16`, `max`).
    pub generics: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub dims: Vec<(Cow<'a, str>, i64)>,
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    pub encoding: Option<ArrayEncoding>,
}

/// Field names of a launch request.
pub(crate) const LAUNCH: [&str; 8] = ["kernel", "scalars", "arrays", "generics", "dims", "grid", "block", "as"];

impl<'a> LaunchRequest<'a> {
    /// Decodes one field of a request. Adds its arguments to those that are already present.
    pub fn add_field(&mut self, name: &str, value: JsonRaw<'a>) -> Result<()> {
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

/// Decodes the name of an encoding: `list`, `base64` or `block`.
pub(crate) fn encoding(value: JsonRaw<'_>) -> Result<ArrayEncoding> {
    match text(value, "`as`")?.as_ref() {
        "list" => Ok(ArrayEncoding::List),
        "base64" => Ok(ArrayEncoding::Base64),
        "block" => Ok(ArrayEncoding::Block),
        other => {
            Err(LaunchRequestError::at("E0802", format!("results cannot come as `{}`", abbreviated(other)), value)
                .note(format!("they come as {}", quote_names(["list", "base64", "block"]))))
        }
    }
}

/// Decodes a compile-time argument, which is one word or number.
fn generic<'a>(value: JsonRaw<'a>) -> Result<Cow<'a, str>> {
    let word = match value.kind() {
        JsonKind::Number | JsonKind::Bool => Cow::Borrowed(value.text()),
        _ => text(value, "a compile-time argument")?,
    };
    match is_word(&word) {
        true => Ok(word),
        false => Err(LaunchRequestError::at(
            "E0802",
            "a compile-time argument is a number, or the name of a type or function",
            value,
        )),
    }
}

/// Whether a text is one word or number. Only such a text is safe to insert into the generated statement.
pub(crate) fn is_word(text: &str) -> bool {
    let number = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    !text.is_empty() && text.len() <= 200 && text.chars().all(number)
}

fn extent(value: JsonRaw<'_>) -> Result<i64> {
    value.text().parse().map_err(|_| LaunchRequestError::at("E0802", "an extent is an integer", value))
}

/// Decodes one integer or a list of one to three: x, y, z.
fn triple(value: JsonRaw<'_>, what: &str) -> Result<[i64; 3]> {
    let mut sizes = [1; 3];
    match value.kind() {
        JsonKind::Number => sizes[0] = extent(value)?,
        JsonKind::List if (1..=3).contains(&value.count()) => {
            for (slot, item) in sizes.iter_mut().zip(value.items()) {
                *slot = extent(item)?;
            }
        }
        _ => {
            return Err(LaunchRequestError::at(
                "E0802",
                format!("{what} is an integer or a list of one to three, x first"),
                value,
            ));
        }
    }
    Ok(sizes)
}

/// Decodes the lengths in bytes of the blocks that follow a frame's header.
pub(crate) fn block_lengths(value: JsonRaw<'_>) -> Result<Vec<u64>> {
    match value.kind() {
        JsonKind::List => value.items().map(|item| size(item, "the length of a block")).collect(),
        other => Err(LaunchRequestError::at("E0802", format!("`blocks` is a list, not {}", other.words()), value)),
    }
}

/// Parses a text as JSON.
pub fn parse(text: &str) -> Result<JsonRaw<'_>> {
    JsonRaw::parse(text).map_err(|JsonError { at, why }| {
        let end = (at + 1).min(text.len());
        let problem = RuntimeError::new("E0801", format!("the request is not valid JSON: {why}")).label("here");
        LaunchRequestError::Request(Box::new(problem), Some(at..end))
    })
}
