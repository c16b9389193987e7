//! Texts of expressions and their values, for the lines of a tree.
//!
//! Input: an expression's text, an array and a position in it. Output: text. Idea: a text that an index may follow needs no parentheses.

use crate::host::array::Array;
use crate::host::format::brief;
use crate::host::value::Value;
use crate::lang::scalar::format;

/// Characters of an expression that are shown.
const LONGEST: usize = 80;

/// An element of an array that an expression took.
pub(super) struct Passed {
    pub from: Array,
    pub text: String,
    pub at: usize,
    pub launches: usize,
}

pub(super) fn constant(own: &str, value: &str) -> String {
    if own == value { format!("{own}, a constant") } else { format!("{own} = {value}, a constant") }
}

pub(super) fn is_number(text: &str) -> bool {
    let text = text.trim_start_matches('-');
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
}

pub(super) fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns whether an index may follow a text without parentheses around it.
pub(super) fn is_plain(text: &str) -> bool {
    is_name(text) || is_whole(text)
}

/// Shortens the text of an expression.
pub(super) fn short(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text,
    }
}

/// Returns whether an element of an array, or a number, is not finite; `None` of what is no number.
pub(super) fn not_finite(value: &Value, at: usize) -> Result<Option<bool>, String> {
    let item = match value {
        Value::Array(array) => array.item(at).map_err(|problem| problem.anywhere().title)?,
        value => Some(value.clone()),
    };
    Ok(match item {
        Some(Value::Scalar(number)) => Some(!number.as_f64().is_finite()),
        Some(Value::Int(_)) => Some(false),
        Some(Value::Float(number)) => Some(!number.is_finite()),
        _ => None,
    })
}

/// A call, an index, a list, or what is in parentheses.
fn is_whole(text: &str) -> bool {
    let body = text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    let mut depth = 0;
    let mut parts = 0;
    for c in body.chars() {
        if depth == 0 {
            parts += 1;
            if !"([".contains(c) {
                return false;
            }
        }
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
    }
    parts > 0 && depth == 0
}

/// Returns the text of an element of an array.
pub(super) fn element_text(array: &Array, at: usize) -> Option<String> {
    text(&array.item(at).ok()??).ok()
}

/// Returns the text of an element of an array, or of a value that is none.
pub(super) fn value_at(value: &Value, at: usize) -> Result<String, String> {
    let Value::Array(array) = value else { return text(value) };
    let item = array.item(at).map_err(|problem| problem.anywhere().title)?;
    item.map_or(Ok("?".into()), |item| text(&item))
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Scalar(number) => Ok(format::plain(*number)),
        value => brief(value).map_err(|problem| problem.anywhere().title),
    }
}
