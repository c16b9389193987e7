//! Functions and operators on texts.
//!
//! Positions count characters (Unicode scalar values); the byte offset of a character is searched on demand (in ASCII texts it
//! is the position). Functions whose first parameter is a single text apply elementwise to an array of texts. Every buffer is
//! allocated fallibly before it is filled.

use std::cmp::Ordering;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::base::room;
use crate::base::stop;
use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Element, Item, MAX_EXTENT, SliceSpec, slice};
use crate::host::ops::operand::undefined;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, TextFn};
use crate::lang::scalar::{self, Scalar};
use crate::syntax::literal;

/// Maximum size of a text in bytes, so that every position fits an `i32`.
const MAX_BYTES: usize = i32::MAX as usize;

/// Concatenates pieces.
pub(crate) fn of_pieces<'t>(pieces: impl Iterator<Item = &'t str> + Clone) -> Outcome<SmolStr> {
    let bytes = stop::polled(pieces.clone()).fold(0usize, |bytes, piece| bytes.saturating_add(piece.len()));
    if bytes > MAX_BYTES {
        let title = format!("a text of {bytes} bytes, and a text has at most {MAX_BYTES}");
        return Err(Problem::new("E0541", title));
    }
    let mut text = String::new();
    if !room::has(bytes) || text.try_reserve_exact(bytes).is_err() {
        room::lacking(bytes);
    }
    stop::polled(pieces).for_each(|piece| push(&mut text, piece));
    made(text)
}

/// Appends a piece.
pub(crate) fn push(text: &mut String, piece: &str) {
    if !room::has(piece.len()) || text.try_reserve(piece.len()).is_err() {
        room::lacking(piece.len());
    }
    text.push_str(piece);
}

/// Checks the size of a text created elsewhere.
pub(crate) fn made(text: String) -> Outcome<SmolStr> {
    if text.len() > MAX_BYTES {
        return of_pieces(std::iter::once(text.as_str()));
    }
    if !room::has(text.len()) {
        room::lacking(text.len());
    }
    Ok(SmolStr::from(text))
}

/// Returns an array of texts.
pub(crate) fn texts(items: Vec<SmolStr>) -> Outcome<Value> {
    if items.len() > MAX_EXTENT {
        let title = format!("an array of {} texts, and an axis has at most {MAX_EXTENT} elements", items.len());
        return Err(Problem::new("E0541", title));
    }
    let bytes = size_of_val(items.as_slice());
    if !room::has(bytes) {
        room::lacking(bytes);
    }
    Ok(Value::Strings(items.into()))
}

/// Checks that a text can be copied in small pieces.
///
/// # Unwinds
/// if there is not enough memory for it.
pub(crate) fn room_for(text: &str) {
    if !room::has(text.len()) {
        room::lacking(text.len());
    }
}

/// Collects the pieces of a text as an array of texts.
fn collected<'t>(text: &str, pieces: impl Iterator<Item = &'t str>) -> Outcome<Value> {
    room_for(text);
    let mut items = Vec::new();
    for piece in stop::polled(pieces) {
        room::reserve(&mut items, 1);
        items.push(SmolStr::new(piece));
    }
    texts(items)
}

/// Evaluates a text function.
pub fn call(f: TextFn, values: &[Value]) -> Outcome<Value> {
    let undefined = || undefined(&format!("`{}`", name(f)), &values.iter().collect::<Vec<_>>());
    let str = |value: &Value| if let Value::Str(text) = value { Ok(text.clone()) } else { Err(undefined()) };
    let Some((first, more)) = values.split_first() else { return Err(undefined()) };
    let more = more.iter().map(str).collect::<Outcome<Vec<SmolStr>>>()?;
    let more: Vec<&str> = more.iter().map(SmolStr::as_str).collect();
    match (f, first, more.as_slice()) {
        (TextFn::Join, Value::Strings(parts), [separator]) => {
            let between = parts.iter().enumerate().flat_map(|(i, part)| {
                let separator = if i == 0 { "" } else { separator };
                [separator, part.as_str()]
            });
            of_pieces(between).map(Value::Str)
        }
        (TextFn::Split, Value::Str(text), []) => collected(text, text.split_whitespace()),
        (TextFn::Split, Value::Str(text), [separator]) => collected(text, text.split(sought(f, separator)?)),
        (TextFn::Lines, Value::Str(text), []) => collected(text, text.lines()),
        (TextFn::Find, Value::Str(text), [part]) => Ok(Value::of(find(text, part))),
        (TextFn::Find, Value::Strings(texts), [part]) => each(texts, |text| find(text, part)),
        (TextFn::Contains | TextFn::StartsWith | TextFn::EndsWith, Value::Str(text), [part]) => {
            Ok(Value::of(holds(f, text, part)))
        }
        (TextFn::Contains | TextFn::StartsWith | TextFn::EndsWith, Value::Strings(texts), [part]) => {
            each(texts, |text| holds(f, text, part))
        }
        (TextFn::Trim | TextFn::Upper | TextFn::Lower | TextFn::Replace, Value::Str(text), more) => {
            changed(f, text, more).ok_or_else(undefined)?.map(Value::Str)
        }
        (TextFn::Trim | TextFn::Upper | TextFn::Lower | TextFn::Replace, Value::Strings(from), more) => {
            let mut items = room::vec(from.len());
            for text in stop::polled(from.iter()) {
                items.push(changed(f, text, more).ok_or_else(undefined)??);
            }
            texts(items)
        }
        _ => Err(undefined()),
    }
}

fn name(f: TextFn) -> &'static str {
    Builtin::Text(f).name()
}

/// Checks that the text to search for is not empty.
fn sought(f: TextFn, part: &str) -> Outcome<&str> {
    if part.is_empty() {
        let problem = Problem::new("E0541", format!("`{}` is to look for a text of no characters", name(f)));
        return Err(problem.help("one character of a text is `s[i]`, and a `for` goes through all of them"));
    }
    Ok(part)
}

/// Applies a function with a number or `bool` as its result to every text.
fn each<T: Item>(texts: &[SmolStr], f: impl Fn(&str) -> T) -> Outcome<Value> {
    let array = Array::build(Element::Scalar(T::SCALAR), &[texts.len()], |places: &mut [T]| {
        stop::polled(places.iter_mut().zip(texts)).for_each(|(place, text)| *place = f(text));
    });
    array.map(Value::Array)
}

/// Returns the position of the first occurrence of `part` in characters; -1 if there is none.
fn find(text: &str, part: &str) -> i32 {
    text.find(part).map_or(-1, |byte| length(&text[..byte]) as i32)
}

fn holds(f: TextFn, text: &str, part: &str) -> bool {
    match f {
        TextFn::StartsWith => text.starts_with(part),
        TextFn::EndsWith => text.ends_with(part),
        _ => text.contains(part),
    }
}

/// Returns the transformed text; `None` if the function does not take these arguments.
fn changed(f: TextFn, text: &str, more: &[&str]) -> Option<Outcome<SmolStr>> {
    Some(match (f, more) {
        (TextFn::Trim, []) => Ok(SmolStr::new(text.trim())),
        (TextFn::Upper, []) => roomy(text).and_then(|text| made(text.to_uppercase())),
        (TextFn::Lower, []) => roomy(text).and_then(|text| made(text.to_lowercase())),
        (TextFn::Replace, [part, by]) => sought(f, part).and_then(|part| {
            let parts = text.split(part).enumerate();
            of_pieces(parts.flat_map(|(i, piece)| [if i == 0 { "" } else { by }, piece]))
        }),
        _ => return None,
    })
}

/// Checks that there is memory for a transformed copy of a text, which may be three times as large.
fn roomy(text: &str) -> Outcome<&str> {
    let most = text.len().saturating_mul(3);
    if !room::has(most) {
        room::lacking(most);
    }
    stop::poll();
    Ok(text)
}

/// Evaluates `left op right` with a text or an array of texts on at least one side.
pub(crate) fn binary(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    match (op, left, right) {
        (BinaryOp::Add, Value::Str(a), Value::Str(b)) => of_pieces([a.as_str(), b].into_iter()).map(Value::Str),
        (_, Value::Str(a), Value::Str(b)) if op.is_comparison() => Ok(Value::of(compared(op, a, b))),
        (_, Value::Strings(a), Value::Str(b)) if op.is_comparison() => each(a, |a| compared(op, a, b)),
        (_, Value::Str(a), Value::Strings(b)) if op.is_comparison() => each(b, |b| compared(op, a, b)),
        (_, Value::Strings(a), Value::Strings(b)) if op.is_comparison() => pairs(op, a, b),
        _ => {
            let types = (left.type_name(), right.type_name());
            let problem =
                Problem::new("E0505", format!("`{}` does not take `{}` and `{}`", op.symbol(), types.0, types.1));
            Err(match (op, left, right) {
                (BinaryOp::Add, Value::Strings(_), _) | (BinaryOp::Add, _, Value::Strings(_)) => problem
                    .help("`concat(a, b)` puts arrays of texts behind each other, `join(a, \", \")` makes one text"),
                (BinaryOp::Add, ..) => {
                    problem.help("`str(x)` makes text of a value; in a text it stands in braces: `\"{x}\"`")
                }
                _ => problem,
            })
        }
    }
}

/// Compares by code points, which is the order of the UTF-8 bytes.
fn compared(op: BinaryOp, a: &str, b: &str) -> bool {
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

/// Applies an operator elementwise; an array of one element is broadcast.
fn pairs(op: BinaryOp, a: &[SmolStr], b: &[SmolStr]) -> Outcome<Value> {
    let shape = common_shape(&[("the left side", &[a.len()][..]), ("the right side", &[b.len()])])?;
    let at = |texts: &[SmolStr], i: usize| if texts.len() == 1 { texts[0].clone() } else { texts[i].clone() };
    let array = Array::build(Element::Scalar(Scalar::Bool), &shape, |places: &mut [bool]| {
        for (i, place) in stop::polled(places.iter_mut().enumerate()) {
            *place = compared(op, &at(a, i), &at(b, i));
        }
    });
    array.map(Value::Array)
}

/// Returns the length in characters.
pub(crate) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the byte offset of a character; the length of the text for the position after the last.
fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
}

/// Evaluates `s[i]` or `s[a..b step c]`.
pub(crate) fn pick(text: &str, spec: SliceSpec) -> Outcome<SmolStr> {
    let count = length(text);
    let picked = slice::positions(spec, count).map_err(|problem| outside(problem, spec, count))?;
    let ascii = text.len() == count;
    if picked.step == 1 {
        let start = if ascii { picked.start } else { byte_of(text, picked.start) };
        let end = start + if ascii { picked.count } else { byte_of(&text[start..], picked.count) };
        return Ok(SmolStr::new(&text[start..end]));
    }
    let mut characters: Vec<char> = room::vec(picked.count);
    if ascii {
        let bytes = text.as_bytes();
        characters.extend(stop::polled(picked.iter()).map(|at| char::from(bytes[at])));
    } else {
        let all = room::collect(count, text.chars());
        characters.extend(stop::polled(picked.iter()).map(|at| all[at]));
    }
    made(characters.into_iter().collect())
}

/// Rephrases an index error for texts.
fn outside(problem: Problem, spec: SliceSpec, count: usize) -> Problem {
    if problem.code != "E0502" {
        return problem;
    }
    let has = match count {
        0 => "the text has no characters".to_string(),
        1 => "the text has 1 character".to_string(),
        n => format!("the text has {n} characters"),
    };
    let title = if let SliceSpec::At(_) = spec { problem.title } else { problem.title.replace("its axis", "the text") };
    let label = if let (SliceSpec::At(0..), 1..) = (spec, count) {
        format!("{has}, so the last index is {}", count - 1)
    } else {
        has
    };
    Problem { title, label, ..problem }
}

/// Selects from an array of texts.
pub(crate) fn pick_texts(from: &[SmolStr], spec: SliceSpec) -> Outcome<Value> {
    let picked = slice::positions(spec, from.len())?;
    if let SliceSpec::At(_) = spec {
        return Ok(Value::Str(from[picked.start].clone()));
    }
    texts(room::collect(picked.count, picked.iter().map(|at| from[at].clone())))
}

/// Executes `names[i] = text`.
pub(crate) fn assign(texts: &mut Arc<[SmolStr]>, specs: &[SliceSpec], value: Value) -> Outcome<()> {
    let ([SliceSpec::At(at)], Value::Str(text)) = (specs, &value) else {
        let title =
            format!("a value of type {} cannot be assigned to this part of an array of texts", value.type_name());
        return Err(Problem::new("E0504", title).help("its elements are written one at a time, and are texts"));
    };
    let picked = slice::positions(SliceSpec::At(*at), texts.len())?;
    if Arc::get_mut(texts).is_none() && !room::has(size_of_val(&**texts)) {
        room::lacking(size_of_val(&**texts));
    }
    Arc::make_mut(texts)[picked.start] = text.clone();
    Ok(())
}

/// Concatenates arrays of texts; `None` if not all are such arrays.
pub(crate) fn concat(parts: &[Value]) -> Option<Outcome<Value>> {
    let lists = parts.iter().map(|part| if let Value::Strings(texts) = part { Some(texts) } else { None });
    let lists: Vec<&Arc<[SmolStr]>> = lists.collect::<Option<_>>().filter(|lists: &Vec<_>| !lists.is_empty())?;
    let count = lists.iter().map(|texts| texts.len()).sum();
    Some(texts(room::collect(count, lists.into_iter().flat_map(|texts| texts.iter().cloned()))))
}

/// Sorts in ascending order.
pub(crate) fn sort(from: &[SmolStr]) -> Outcome<Value> {
    let ticks = stop::Ticks::default();
    let mut items = room::collect(from.len(), from.iter().cloned());
    items.sort_unstable_by(|a, b| {
        ticks.pass(1);
        a.cmp(b)
    });
    texts(items)
}

/// Parses texts as numbers.
pub fn parse(ty: Scalar, value: &Value) -> Outcome<Value> {
    match value {
        Value::Str(text) => super::convert::parse(ty, text),
        Value::Strings(texts) => {
            let mut numbers: Vec<scalar::Value> = room::vec(texts.len());
            for (i, text) in stop::polled(texts.iter().enumerate()) {
                let Some(number) = literal::value(ty, text.trim()) else {
                    let problem = super::convert::parse(ty, text).err();
                    let problem = problem.unwrap_or_else(|| Problem::new("E0544", "a text that is no number"));
                    return Err(problem.label(format!("element {i} of {}", texts.len())));
                };
                numbers.push(number);
            }
            crate::with_element!(ty, T => {
                Array::build(Element::Scalar(ty), &[numbers.len()], |places: &mut [T]| {
                    for (place, number) in stop::polled(places.iter_mut().zip(&numbers)) {
                        *place = number.to::<T>();
                    }
                })
            })
            .map(Value::Array)
        }
        // A column of a file may have been read as numbers or as text; `parse` accepts both.
        Value::Array(array) => match array.element() {
            Element::Scalar(from) => {
                crate::with_element!(*from, T => numbers(ty, array, array.items::<T>()?))
            }
            _ => Err(undefined("`parse`", &[value])),
        },
        Value::Scalar(number) => match exactly(ty, *number) {
            Some(number) => Ok(Value::Scalar(number)),
            None => Err(inexact(ty, *number)),
        },
        _ => Err(undefined("`parse`", &[value])),
    }
}

/// Converts numbers to another type; an error if a value is not representable.
fn numbers<S: Item>(ty: Scalar, array: &Array, items: &[S]) -> Outcome<Value> {
    let mut read: Vec<scalar::Value> = room::vec(items.len());
    for (i, item) in stop::polled(items.iter().enumerate()) {
        let number = scalar::Value::of(*item);
        let refused = || inexact(ty, number).label(format!("element {i} of {}", items.len()));
        read.push(exactly(ty, number).ok_or_else(refused)?);
    }
    crate::with_element!(ty, T => {
        Array::build(Element::Scalar(ty), array.shape(), |places: &mut [T]| {
            for (place, number) in stop::polled(places.iter_mut().zip(&read)) {
                *place = number.to::<T>();
            }
        })
    })
    .map(Value::Array)
}

/// Returns the same number in another type if it is representable. Floats are rounded to nearest, as when parsing a text.
fn exactly(to: Scalar, number: scalar::Value) -> Option<scalar::Value> {
    match (number.ty, to) {
        (from, to) if from == to => Some(number),
        (Scalar::Bool, _) | (_, Scalar::Bool) => None,
        (_, to) if to.is_float() => Some(number.to_type(to)),
        (from, _) if from.is_int() => scalar::Value::from_integer(to, number.as_integer()?),
        _ => {
            let x = number.to::<f64>();
            if x.fract() == 0.0 { scalar::Value::from_integer(to, x as i128) } else { None }
        }
    }
}

fn inexact(to: Scalar, number: scalar::Value) -> Problem {
    Problem::new("E0544", format!("the number {number} is not a value of type {to}"))
        .help(format!("`{to}(x)` converts, and rounds: what is NaN has to be replaced before"))
}
