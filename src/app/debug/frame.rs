//! The names that a thread sees where it is, and what they hold.

use super::table::{Name, Source, Table};
use crate::base::source::Span;
use crate::device::step::{Array, Block, Bytes, Frame, State, Store, Thread, Val};
use crate::ir::def::{Local, Space, Ty};
use crate::lang::scalar::Value;

/// What a name stands for.
pub(crate) enum Held<'a> {
    /// The leaves of a value, each with its path behind the name; the values are none before the first write.
    Leaves(Vec<(String, Ty, Option<Val>)>),
    Array(&'a Array<'a>),
}

/// Returns the span of the statement of the source that a frame is at; of an outer frame, of its call; of a thread that has ended, of the
/// kernel's end.
pub(crate) fn here(source: &Source, table: &Table, thread: &Thread<'_>, depth: usize) -> Option<Span> {
    let frame = thread.frames.get(depth)?;
    if let Some(inner) = thread.frames.get(depth + 1) {
        return Some(source.innermost(inner.call).map_or(inner.call, |place| source.place(place)));
    }
    let Some(stmt) = thread.next() else { return source.end(frame.function) };
    Some(table.part(stmt).map_or(stmt.span, |part| source.place(part.place)))
}

/// Returns what a name stands for in a frame.
pub(crate) fn held<'a>(name: &Name, frame: &'a Frame<'_>) -> Option<Held<'a>> {
    let path = |local: &Local| -> Option<String> {
        let rest = local.name.strip_prefix(&name.name)?;
        (local.span == name.span && (rest.is_empty() || rest.starts_with(['.', '['])))
            .then(|| rest.trim_start_matches('.').to_string())
    };
    let locals = frame.function.locals.iter().filter_map(|(id, local)| Some((path(local)?, local.ty, frame.local(id))));
    let mut leaves: Vec<(String, Ty, Option<Val>)> = vec![];
    for (path, ty, value) in locals {
        // A statement that is lowered twice has two locals; the one that was written is meant.
        match leaves.iter_mut().find(|(known, ..)| *known == path) {
            Some(known) if value.is_some() => known.2 = value,
            Some(_) => {}
            None => leaves.push((path, ty, value)),
        }
    }
    if !leaves.is_empty() {
        return Some(Held::Leaves(leaves));
    }
    let of_name = |exactly: bool| {
        let memories = frame.function.memories.iter();
        let fits = |span: Span, space: Space| {
            span == name.span || !exactly && matches!(space, Space::Global { .. } | Space::Param { .. })
        };
        let found =
            memories.filter(|(_, m)| m.name == name.name && fits(m.span, m.space)).map(|(id, _)| id).next_back()?;
        frame.arrays.get(found.index())
    };
    of_name(true).or_else(|| of_name(false)).map(Held::Array)
}

/// Returns the bytes of an array.
pub(crate) fn bytes<'a>(
    state: &'a State<'_>,
    block: &'a Block<'_>,
    thread: &'a Thread<'_>,
    store: Store,
) -> Option<&'a Bytes> {
    match store {
        Store::Global(param) => state.global.get(param),
        Store::Shared(function, memory) => block.shared.get(&(function, memory)),
        Store::Local(index) => thread.local.get(index),
    }
}

/// Formats a value; `?` is one that was not written.
pub(crate) fn text(value: Option<Val>) -> String {
    let Some(value) = value else { return "?".into() };
    let shown: Vec<String> = value.values().map(|v: Value| v.to_string()).collect();
    if shown.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
}

/// Formats an element of an array, by its number.
pub(crate) fn element(array: &Array<'_>, bytes: &Bytes, at: usize) -> String {
    let leaves = array.layout.leaves.iter();
    let values = leaves.map(|leaf| (&leaf.path, text(bytes.get(at * array.layout.size + leaf.offset, leaf.ty))));
    let shown: Vec<String> =
        values.map(|(path, value)| if path.is_empty() { value } else { format!("{path} = {value}") }).collect();
    if shown.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
}

/// Returns the number of elements.
pub(crate) fn count(array: &Array<'_>) -> usize {
    array.extents.iter().map(|&n| n as usize).product()
}

/// Formats an element type and the extents: `[f32; 4, 8]`.
pub(crate) fn type_text(array: &Array<'_>) -> String {
    let leaves: Vec<String> = array.layout.leaves.iter().map(|leaf| machine_text(leaf.ty)).collect();
    let element = if leaves.len() == 1 { leaves.concat() } else { format!("({})", leaves.join(", ")) };
    let extents: Vec<String> = array.extents.iter().map(u32::to_string).collect();
    if extents.is_empty() { element } else { format!("[{element}; {}]", extents.join(", ")) }
}

/// Formats a type of DeviceIR as the language spells it.
pub(crate) fn machine_text(ty: Ty) -> String {
    match ty {
        Ty::Scalar(scalar) => scalar.name().to_string(),
        Ty::Vector(scalar, lanes) => format!("{}x{lanes}", scalar.name()),
    }
}

/// Returns the indices of an element of an array with these extents.
pub(crate) fn indices(mut at: usize, extents: &[u32]) -> Vec<usize> {
    let mut found: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&n| {
            let index = at % (n as usize).max(1);
            at /= (n as usize).max(1);
            index
        })
        .collect();
    found.reverse();
    found
}
