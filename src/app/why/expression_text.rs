//! Formats expressions and their values for the lines of a tree.
//!
//! If an index is appended to an expression, most expressions need parentheses. Names, calls, indexed expressions,
//! lists and parenthesized expressions do not.

use crate::command_error::CommandResult;
use clk_host::array::Array;
use clk_host::format::print_brief;
use clk_host::value::HostValue;
use clk_scalar::format;

/// Maximum length of an expression's text, in characters.
const LONGEST: usize = 80;

/// An array element that an expression read, and how it is written.
pub(super) struct SourceElement {
    pub from: Array,
    pub text: String,
    pub at: usize,
    pub launches: usize,
}

pub(super) fn constant_text(own: &str, value: &str) -> String {
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

/// Returns whether an index may be appended to an expression's text without parentheses.
pub(super) fn is_plain(text: &str) -> bool {
    is_name(text) || is_self_delimiting(text)
}

/// Truncates the text of an expression if it is too long.
pub(super) fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text,
    }
}

/// Returns whether a number, or an element of an array, is infinite or NaN; `None` if it is not a number.
pub(super) fn not_finite(value: &HostValue, at: usize) -> CommandResult<Option<bool>> {
    let item = match value {
        HostValue::Array(array) => array.item(at)?,
        value => Some(value.clone()),
    };
    Ok(match item {
        Some(HostValue::Scalar(number)) => Some(!number.as_f64().is_finite()),
        Some(HostValue::Int(_)) => Some(false),
        Some(HostValue::Float(number)) => Some(!number.is_finite()),
        _ => None,
    })
}

/// Whether a text is a call, an indexed expression, a list, or a parenthesized expression.
fn is_self_delimiting(text: &str) -> bool {
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

/// Returns an element of an array as text.
pub(super) fn element_text(array: &Array, at: usize) -> Option<String> {
    text(&array.item(at).ok()??).ok()
}

/// Returns an array element, or a value that is not an array, as text.
pub(super) fn value_at(value: &HostValue, at: usize) -> CommandResult {
    let HostValue::Array(array) = value else { return text(value) };
    let item = array.item(at)?;
    item.map_or(Ok("?".into()), |item| text(&item))
}

pub(super) fn text(value: &HostValue) -> CommandResult {
    match value {
        HostValue::Scalar(number) => Ok(format::plain(*number)),
        value => Ok(print_brief(value)?),
    }
}
