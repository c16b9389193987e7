//! Functions and operators on texts.
//!
//! Positions are numbers of characters (Unicode scalar values). The byte offset of a character is searched on demand;
//! in ASCII texts, it equals the position. Functions whose first parameter is a text also apply elementwise to an array
//! of texts. Every buffer is allocated before it is filled, so that a lack of memory is an error and not a crash.

use std::cmp::Ordering;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::array::broadcast::common_shape;
use crate::array::{Array, ArrayScalar, ElementType, MAX_EXTENT, SliceSpec, slice};
use crate::ops::operand::undefined;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, TextFn};
use clk_syntax::literal;

/// Maximum size of a text in bytes, so that every position fits an `i32`.
const MAX_BYTES: usize = i32::MAX as usize;

/// Concatenates texts.
pub(crate) fn concat_pieces<'t>(pieces: impl Iterator<Item = &'t str> + Clone) -> HostResult<SmolStr> {
    let bytes = stop::polled(pieces.clone()).fold(0usize, |bytes, piece| bytes.saturating_add(piece.len()));
    if bytes > MAX_BYTES {
        let title = format!("a text of {bytes} bytes, and a text has at most {MAX_BYTES}");
        return Err(RuntimeError::new("E0541", title));
    }
    let mut text = String::new();
    if !alloc::is_available(bytes) || text.try_reserve_exact(bytes).is_err() {
        alloc::fail(bytes);
    }
    stop::polled(pieces).for_each(|piece| push(&mut text, piece));
    checked_text(text)
}

/// Appends a text to another one.
pub(crate) fn push(text: &mut String, piece: &str) {
    if !alloc::is_available(piece.len()) || text.try_reserve(piece.len()).is_err() {
        alloc::fail(piece.len());
    }
    text.push_str(piece);
}

/// Checks that a text does not exceed [`MAX_BYTES`].
pub(crate) fn checked_text(text: String) -> HostResult<SmolStr> {
    if text.len() > MAX_BYTES {
        return concat_pieces(std::iter::once(text.as_str()));
    }
    if !alloc::is_available(text.len()) {
        alloc::fail(text.len());
    }
    Ok(SmolStr::from(text))
}

/// Creates an array of texts.
pub(crate) fn texts(items: Vec<SmolStr>) -> HostResult<HostValue> {
    if items.len() > MAX_EXTENT {
        let title = format!("an array of {} texts, and an axis has at most {MAX_EXTENT} elements", items.len());
        return Err(RuntimeError::new("E0541", title));
    }
    let bytes = size_of_val(items.as_slice());
    if !alloc::is_available(bytes) {
        alloc::fail(bytes);
    }
    Ok(HostValue::Strings(items.into()))
}

/// Checks that there is enough memory for copying a text as many small texts.
///
/// # Unwinds
/// Unwinds if there is not enough memory.
pub(crate) fn check_memory_for(text: &str) {
    if !alloc::is_available(text.len()) {
        alloc::fail(text.len());
    }
}

/// Creates an array of texts from substrings of a text.
fn collect_pieces<'t>(text: &str, pieces: impl Iterator<Item = &'t str>) -> HostResult<HostValue> {
    check_memory_for(text);
    let mut items = Vec::new();
    for piece in stop::polled(pieces) {
        alloc::reserve(&mut items, 1);
        items.push(SmolStr::new(piece));
    }
    texts(items)
}

/// Evaluates a text function.
pub fn call(f: TextFn, values: &[HostValue]) -> HostResult<HostValue> {
    let undefined = || undefined(&format!("`{}`", name(f)), &values.iter().collect::<Vec<_>>());
    let str = |value: &HostValue| if let HostValue::Str(text) = value { Ok(text.clone()) } else { Err(undefined()) };
    let Some((first, more)) = values.split_first() else { return Err(undefined()) };
    let more = more.iter().map(str).collect::<HostResult<Vec<SmolStr>>>()?;
    let more: Vec<&str> = more.iter().map(SmolStr::as_str).collect();
    match (f, first, more.as_slice()) {
        (TextFn::Join, HostValue::Strings(parts), [separator]) => {
            let between = parts.iter().enumerate().flat_map(|(i, part)| {
                let separator = if i == 0 { "" } else { separator };
                [separator, part.as_str()]
            });
            concat_pieces(between).map(HostValue::Str)
        }
        (TextFn::Split, HostValue::Str(text), []) => collect_pieces(text, text.split_whitespace()),
        (TextFn::Split, HostValue::Str(text), [separator]) => {
            collect_pieces(text, text.split(nonempty_pattern(f, separator)?))
        }
        (TextFn::Lines, HostValue::Str(text), []) => collect_pieces(text, text.lines()),
        (TextFn::Find, HostValue::Str(text), [part]) => Ok(HostValue::of(find(text, part))),
        (TextFn::Find, HostValue::Strings(texts), [part]) => map_texts(texts, |text| find(text, part)),
        (TextFn::Contains | TextFn::StartsWith | TextFn::EndsWith, HostValue::Str(text), [part]) => {
            Ok(HostValue::of(test_text(f, text, part)))
        }
        (TextFn::Contains | TextFn::StartsWith | TextFn::EndsWith, HostValue::Strings(texts), [part]) => {
            map_texts(texts, |text| test_text(f, text, part))
        }
        (TextFn::Trim | TextFn::Upper | TextFn::Lower | TextFn::Replace, HostValue::Str(text), more) => {
            transform(f, text, more).ok_or_else(undefined)?.map(HostValue::Str)
        }
        (TextFn::Trim | TextFn::Upper | TextFn::Lower | TextFn::Replace, HostValue::Strings(from), more) => {
            let mut items = alloc::vec(from.len());
            for text in stop::polled(from.iter()) {
                items.push(transform(f, text, more).ok_or_else(undefined)??);
            }
            texts(items)
        }
        _ => Err(undefined()),
    }
}

fn name(f: TextFn) -> &'static str {
    Builtin::Text(f).name()
}

/// Returns an error if the text to search for is empty.
fn nonempty_pattern(f: TextFn, part: &str) -> HostResult<&str> {
    if part.is_empty() {
        let problem = RuntimeError::new("E0541", format!("`{}` cannot search for an empty text", name(f)));
        return Err(problem.help("one character of a text is `s[i]`, and a `for` goes through all of them"));
    }
    Ok(part)
}

/// Applies a function, whose result is a number or a `bool`, to every text.
fn map_texts<T: ArrayScalar>(texts: &[SmolStr], f: impl Fn(&str) -> T) -> HostResult<HostValue> {
    let array = Array::build(ElementType::Scalar(T::SCALAR), &[texts.len()], |places: &mut [T]| {
        stop::polled(places.iter_mut().zip(texts)).for_each(|(place, text)| *place = f(text));
    });
    array.map(HostValue::Array)
}

/// Returns the position, in characters, of the first occurrence of `part`; -1 if there is none.
fn find(text: &str, part: &str) -> i32 {
    text.find(part).map_or(-1, |byte| length(&text[..byte]) as i32)
}

fn test_text(f: TextFn, text: &str, part: &str) -> bool {
    match f {
        TextFn::StartsWith => text.starts_with(part),
        TextFn::EndsWith => text.ends_with(part),
        _ => text.contains(part),
    }
}

/// Evaluates a function that transforms a text; `None` if the function does not accept these arguments.
fn transform(f: TextFn, text: &str, more: &[&str]) -> Option<HostResult<SmolStr>> {
    Some(match (f, more) {
        (TextFn::Trim, []) => Ok(SmolStr::new(text.trim())),
        (TextFn::Upper, []) => check_transformed_size(text).and_then(|text| checked_text(text.to_uppercase())),
        (TextFn::Lower, []) => check_transformed_size(text).and_then(|text| checked_text(text.to_lowercase())),
        (TextFn::Replace, [part, by]) => nonempty_pattern(f, part).and_then(|part| {
            let parts = text.split(part).enumerate();
            concat_pieces(parts.flat_map(|(i, piece)| [if i == 0 { "" } else { by }, piece]))
        }),
        _ => return None,
    })
}

/// Checks that there is memory for a transformed copy of a text, which may be three times as large.
fn check_transformed_size(text: &str) -> HostResult<&str> {
    let most = text.len().saturating_mul(3);
    if !alloc::is_available(most) {
        alloc::fail(most);
    }
    stop::poll();
    Ok(text)
}

/// Evaluates `left op right` with a text or an array of texts on at least one side.
pub(crate) fn binary(op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    match (op, left, right) {
        (BinaryOp::Add, HostValue::Str(a), HostValue::Str(b)) => {
            concat_pieces([a.as_str(), b].into_iter()).map(HostValue::Str)
        }
        (_, HostValue::Str(a), HostValue::Str(b)) if op.is_comparison() => Ok(HostValue::of(compare_texts(op, a, b))),
        (_, HostValue::Strings(a), HostValue::Str(b)) if op.is_comparison() => {
            map_texts(a, |a| compare_texts(op, a, b))
        }
        (_, HostValue::Str(a), HostValue::Strings(b)) if op.is_comparison() => {
            map_texts(b, |b| compare_texts(op, a, b))
        }
        (_, HostValue::Strings(a), HostValue::Strings(b)) if op.is_comparison() => compare_elementwise(op, a, b),
        _ => {
            let types = (left.type_name(), right.type_name());
            let problem =
                RuntimeError::new("E0505", format!("`{}` does not take `{}` and `{}`", op.symbol(), types.0, types.1));
            Err(match (op, left, right) {
                (BinaryOp::Add, HostValue::Strings(_), _) | (BinaryOp::Add, _, HostValue::Strings(_)) => {
                    problem.help("`concat(a, b)` concatenates arrays of texts, `join(a, \", \")` makes one text")
                }
                (BinaryOp::Add, ..) => {
                    problem.help("`str(x)` makes text of a value; in a text it stands in braces: `\"{x}\"`")
                }
                _ => problem,
            })
        }
    }
}

/// Compares texts by code points, which is the same order as that of the UTF-8 bytes.
fn compare_texts(op: BinaryOp, a: &str, b: &str) -> bool {
    let order = a.cmp(b);
    match op {
        BinaryOp::Eq => order == Ordering::Equal,
        BinaryOp::Ne => order != Ordering::Equal,
        BinaryOp::Lt => order == Ordering::Less,
        BinaryOp::Le => order != Ordering::Greater,
        BinaryOp::Gt => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }
}

/// Applies a comparison elementwise. An array of one element is broadcast.
fn compare_elementwise(op: BinaryOp, a: &[SmolStr], b: &[SmolStr]) -> HostResult<HostValue> {
    let shape = common_shape(&[("the left side", &[a.len()][..]), ("the right side", &[b.len()])])?;
    let at = |texts: &[SmolStr], i: usize| if texts.len() == 1 { texts[0].clone() } else { texts[i].clone() };
    let array = Array::build(ElementType::Scalar(Scalar::Bool), &shape, |places: &mut [bool]| {
        for (i, place) in stop::polled(places.iter_mut().enumerate()) {
            *place = compare_texts(op, &at(a, i), &at(b, i));
        }
    });
    array.map(HostValue::Array)
}

/// Returns the length in characters.
pub(crate) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the byte offset of a character. For the position after the last character, returns the length of the text.
fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
}

/// Evaluates `s[i]` or `s[a..b step c]`.
pub(crate) fn slice_text(text: &str, spec: SliceSpec) -> HostResult<SmolStr> {
    let count = length(text);
    let picked = slice::resolve_axis(spec, count).map_err(|problem| text_index_error(problem, spec, count))?;
    let ascii = text.len() == count;
    if picked.step == 1 {
        let start = if ascii { picked.start } else { byte_of(text, picked.start) };
        let end = start + if ascii { picked.count } else { byte_of(&text[start..], picked.count) };
        return Ok(SmolStr::new(&text[start..end]));
    }
    let mut characters: Vec<char> = alloc::vec(picked.count);
    if ascii {
        let bytes = text.as_bytes();
        characters.extend(stop::polled(picked.iter()).map(|at| char::from(bytes[at])));
    } else {
        let all = alloc::collect(count, text.chars());
        characters.extend(stop::polled(picked.iter()).map(|at| all[at]));
    }
    checked_text(characters.into_iter().collect())
}

/// Rephrases an index error of arrays for texts.
fn text_index_error(problem: RuntimeError, spec: SliceSpec, count: usize) -> RuntimeError {
    if problem.code != "E0502" {
        return problem;
    }
    let length_text = match count {
        0 => "the text has no characters".to_string(),
        1 => "the text has 1 character".to_string(),
        n => format!("the text has {n} characters"),
    };
    let title = if let SliceSpec::At(_) = spec { problem.title } else { problem.title.replace("its axis", "the text") };
    let label = if let (SliceSpec::At(0..), 1..) = (spec, count) {
        format!("{length_text}, so the last index is {}", count - 1)
    } else {
        length_text
    };
    RuntimeError { title, label, ..problem }
}

/// Evaluates the indexing of an array of texts by a number or a range.
pub(crate) fn slice_texts(from: &[SmolStr], spec: SliceSpec) -> HostResult<HostValue> {
    let picked = slice::resolve_axis(spec, from.len())?;
    if let SliceSpec::At(_) = spec {
        return Ok(HostValue::Str(from[picked.start].clone()));
    }
    texts(alloc::collect(picked.count, picked.iter().map(|at| from[at].clone())))
}

/// Executes `names[i] = text`.
pub(crate) fn assign(texts: &mut Arc<[SmolStr]>, specs: &[SliceSpec], value: HostValue) -> HostResult<()> {
    let ([SliceSpec::At(at)], HostValue::Str(text)) = (specs, &value) else {
        let title =
            format!("a value of type {} cannot be assigned to this part of an array of texts", value.type_name());
        return Err(RuntimeError::new("E0504", title).help("its elements are written one at a time, and are texts"));
    };
    let picked = slice::resolve_axis(SliceSpec::At(*at), texts.len())?;
    if Arc::get_mut(texts).is_none() && !alloc::is_available(size_of_val(&**texts)) {
        alloc::fail(size_of_val(&**texts));
    }
    Arc::make_mut(texts)[picked.start] = text.clone();
    Ok(())
}

/// Concatenates arrays of texts; `None` if a value is not an array of texts.
pub(crate) fn concat(parts: &[HostValue]) -> Option<HostResult<HostValue>> {
    let lists = parts.iter().map(|part| if let HostValue::Strings(texts) = part { Some(texts) } else { None });
    let lists: Vec<&Arc<[SmolStr]>> = lists.collect::<Option<_>>().filter(|lists: &Vec<_>| !lists.is_empty())?;
    let count = lists.iter().map(|texts| texts.len()).sum();
    Some(texts(alloc::collect(count, lists.into_iter().flat_map(|texts| texts.iter().cloned()))))
}

/// Sorts texts in ascending order of code points.
pub(crate) fn sort(from: &[SmolStr]) -> HostResult<HostValue> {
    let ticks = stop::Ticks::default();
    let mut items = alloc::collect(from.len(), from.iter().cloned());
    items.sort_unstable_by(|a, b| {
        ticks.advance(1);
        a.cmp(b)
    });
    texts(items)
}

/// Parses texts as numbers.
pub fn parse(ty: Scalar, value: &HostValue) -> HostResult<HostValue> {
    match value {
        HostValue::Str(text) => super::convert::parse(ty, text),
        HostValue::Strings(texts) => {
            let mut numbers: Vec<clk_scalar::ScalarValue> = alloc::vec(texts.len());
            for (i, text) in stop::polled(texts.iter().enumerate()) {
                let Some(number) = literal::parse_value(ty, text.trim()) else {
                    let problem = super::convert::parse(ty, text).err();
                    let problem = problem.unwrap_or_else(|| RuntimeError::new("E0544", "a text that is no number"));
                    return Err(problem.label(format!("element {i} of {}", texts.len())));
                };
                numbers.push(number);
            }
            clk_scalar::with_element!(ty, T => {
                Array::build(ElementType::Scalar(ty), &[numbers.len()], |places: &mut [T]| {
                    for (place, number) in stop::polled(places.iter_mut().zip(&numbers)) {
                        *place = number.to::<T>();
                    }
                })
            })
            .map(HostValue::Array)
        }
        // `parse` also accepts numbers, because a column of a file may have been read as numbers or as texts.
        HostValue::Array(array) => match array.element() {
            ElementType::Scalar(from) => {
                clk_scalar::with_element!(*from, T => numbers(ty, array, array.items::<T>()?))
            }
            _ => Err(undefined("`parse`", &[value])),
        },
        HostValue::Scalar(number) => match exactly(ty, *number) {
            Some(number) => Ok(HostValue::Scalar(number)),
            None => Err(inexact(ty, *number)),
        },
        _ => Err(undefined("`parse`", &[value])),
    }
}

/// Converts numbers to another type; an error if one cannot be represented.
fn numbers<S: ArrayScalar>(ty: Scalar, array: &Array, items: &[S]) -> HostResult<HostValue> {
    let mut read: Vec<clk_scalar::ScalarValue> = alloc::vec(items.len());
    for (i, item) in stop::polled(items.iter().enumerate()) {
        let number = clk_scalar::ScalarValue::of(*item);
        let refused = || inexact(ty, number).label(format!("element {i} of {}", items.len()));
        read.push(exactly(ty, number).ok_or_else(refused)?);
    }
    clk_scalar::with_element!(ty, T => {
        Array::build(ElementType::Scalar(ty), array.shape(), |places: &mut [T]| {
            for (place, number) in stop::polled(places.iter_mut().zip(&read)) {
                *place = number.to::<T>();
            }
        })
    })
    .map(HostValue::Array)
}

/// Converts a number to another type; `None` if it cannot be represented. Floats are rounded to nearest, as when
/// parsing a text.
fn exactly(to: Scalar, number: clk_scalar::ScalarValue) -> Option<clk_scalar::ScalarValue> {
    match (number.ty, to) {
        (from, to) if from == to => Some(number),
        (Scalar::Bool, _) | (_, Scalar::Bool) => None,
        (_, to) if to.is_float() => Some(number.to_type(to)),
        (from, _) if from.is_int() => clk_scalar::ScalarValue::from_integer(to, number.as_integer()?),
        _ => {
            let x = number.to::<f64>();
            if x.fract() == 0.0 { clk_scalar::ScalarValue::from_integer(to, x as i128) } else { None }
        }
    }
}

fn inexact(to: Scalar, number: clk_scalar::ScalarValue) -> RuntimeError {
    RuntimeError::new("E0544", format!("the number {number} is not a value of type {to}"))
        .help(format!("`{to}(x)` converts and rounds; replace NaN first"))
}
