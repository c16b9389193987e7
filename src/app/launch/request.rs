//! What a request says, before anybody knows what its names mean.

use std::borrow::Cow;

use super::data::{fields, quoted, shown, size, text};
use super::json::{Kind, Raw};
use super::refusal::{Refusal, Result};
use super::state::Arrays;
use super::write::Encoding;

/// A launch: what the request gives, by name.
#[derive(Default)]
pub(crate) struct Launch<'a> {
    pub kernel: Option<(Cow<'a, str>, Option<Raw<'a>>)>,
    pub scalars: Vec<(Cow<'a, str>, Raw<'a>)>,
    pub arrays: Vec<(Cow<'a, str>, Raw<'a>)>,
    /// Arguments that are arrays already; those of no axes may be by-value arguments.
    pub ready: Arrays,
    /// As the language writes them: `f32`, `16`, `max`.
    pub generics: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub dims: Vec<(Cow<'a, str>, i64)>,
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    pub encoding: Option<Encoding>,
}

/// The fields of a launch.
pub(crate) const LAUNCH: [&str; 8] = ["kernel", "scalars", "arrays", "generics", "dims", "grid", "block", "as"];

impl<'a> Launch<'a> {
    /// Takes a field. Arguments add to those that are there already.
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

/// `list`, `base64` or `block`.
pub(crate) fn encoding(value: Raw<'_>) -> Result<Encoding> {
    match text(value, "`as`")?.as_ref() {
        "list" => Ok(Encoding::List),
        "base64" => Ok(Encoding::Base64),
        "block" => Ok(Encoding::Block),
        other => Err(Refusal::at("E0802", format!("results cannot come as `{}`", shown(other)), value)
            .note(format!("they come as {}", quoted(["list", "base64", "block"])))),
    }
}

/// A compile-time argument: one word, or a number.
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

/// Nothing that could be more than one argument.
pub(crate) fn is_word(text: &str) -> bool {
    let number = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    !text.is_empty() && text.len() <= 200 && text.chars().all(number)
}

fn extent(value: Raw<'_>) -> Result<i64> {
    value.text().parse().map_err(|_| Refusal::at("E0802", "an extent is an integer", value))
}

/// An integer, or a list of one to three: x, y, z.
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

/// The lengths of the blocks behind a frame's header, in bytes.
pub(crate) fn block_lengths(value: Raw<'_>) -> Result<Vec<u64>> {
    match value.kind() {
        Kind::List => value.items().map(|item| size(item, "the length of a block")).collect(),
        other => Err(Refusal::at("E0802", format!("`blocks` is a list, not {}", other.words()), value)),
    }
}
