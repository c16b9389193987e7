//! The variables visible to a thread, and their contents.

use super::stmt_table::{ProgramSource, ScopedName, StmtTable};
use clk_base::source::Span;
use clk_ir::def::{Local, MemorySpace, Ty};
use clk_scalar::ScalarValue;
use clk_step::{ArrayRef, ArrayStorage, BlockState, CallFrame, LaunchSnapshot, PagedBytes, Thread, ThreadValue};

/// The contents of a variable.
pub(crate) enum NamedContents<'a> {
    /// The scalar components of a value, each with its path, such as `.mass`. The value is `None` before the first
    /// write.
    Leaves(Vec<(String, Ty, Option<ThreadValue>)>),
    Array(&'a ArrayRef<'a>),
}

/// Returns the span of the source statement that a frame is executing: for an outer frame, the call; for a thread that
/// has ended, the end of the kernel.
pub(crate) fn current_span(
    source: &ProgramSource,
    table: &StmtTable,
    thread: &Thread<'_>,
    depth: usize,
) -> Option<Span> {
    let frame = thread.frames.get(depth)?;
    if let Some(inner) = thread.frames.get(depth + 1) {
        return Some(source.innermost(inner.call).map_or(inner.call, |place| source.place(place)));
    }
    let Some(stmt) = thread.next() else { return source.end(frame.function) };
    Some(table.part(stmt).map_or(stmt.span, |part| source.place(part.place)))
}

/// Returns the contents of a variable in a frame; `None` if the frame has no local or array for it.
pub(crate) fn contents_of<'a>(name: &ScopedName, frame: &'a CallFrame<'_>) -> Option<NamedContents<'a>> {
    let path = |local: &Local| -> Option<String> {
        let rest = local.name.strip_prefix(&name.name)?;
        (local.span == name.span && (rest.is_empty() || rest.starts_with(['.', '['])))
            .then(|| rest.trim_start_matches('.').to_string())
    };
    let locals = frame.function.locals.iter().filter_map(|(id, local)| Some((path(local)?, local.ty, frame.local(id))));
    let mut leaves: Vec<(String, Ty, Option<ThreadValue>)> = vec![];
    for (path, ty, value) in locals {
        // If a statement was lowered twice, its variable has two locals, and at most one of them is written. Uses that
        // one.
        match leaves.iter_mut().find(|(known, ..)| *known == path) {
            Some(known) if value.is_some() => known.2 = value,
            Some(_) => {}
            None => leaves.push((path, ty, value)),
        }
    }
    if !leaves.is_empty() {
        return Some(NamedContents::Leaves(leaves));
    }
    let of_name = |exactly: bool| {
        let memories = frame.function.memories.iter();
        let is_match = |span: Span, space: MemorySpace| {
            span == name.span || !exactly && matches!(space, MemorySpace::Global { .. } | MemorySpace::Param { .. })
        };
        let memory =
            memories.filter(|(_, m)| m.name == name.name && is_match(m.span, m.space)).map(|(id, _)| id).next_back()?;
        frame.arrays.get(memory.index())
    };
    of_name(true).or_else(|| of_name(false)).map(NamedContents::Array)
}

/// Returns the bytes of an array in the memory where it is stored; `None` if that memory does not exist.
pub(crate) fn stored_bytes<'a>(
    state: &'a LaunchSnapshot<'_>,
    block: &'a BlockState<'_>,
    thread: &'a Thread<'_>,
    store: ArrayStorage,
) -> Option<&'a PagedBytes> {
    match store {
        ArrayStorage::Global(param) => state.global.get(param),
        ArrayStorage::Shared(function, memory) => block.shared.get(&(function, memory)),
        ArrayStorage::Local(index) => thread.local.get(index),
    }
}

/// Formats a value; `?` means that it was not written.
pub(crate) fn text(value: Option<ThreadValue>) -> String {
    let Some(value) = value else { return "?".into() };
    let shown: Vec<String> = value.values().map(|v: ScalarValue| v.to_string()).collect();
    if shown.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
}

/// Formats the element of an array at a flat index.
pub(crate) fn element(array: &ArrayRef<'_>, bytes: &PagedBytes, at: usize) -> String {
    let leaves = array.layout.leaves.iter();
    let values = leaves.map(|leaf| (&leaf.path, text(bytes.get(at * array.layout.size + leaf.offset, leaf.ty))));
    let shown: Vec<String> =
        values.map(|(path, value)| if path.is_empty() { value } else { format!("{path} = {value}") }).collect();
    if shown.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
}

/// Returns the number of elements of an array.
pub(crate) fn count(array: &ArrayRef<'_>) -> usize {
    array.extents.iter().map(|&n| n as usize).product()
}

/// Formats an element type and the extents: `[f32; 4, 8]`.
pub(crate) fn type_text(array: &ArrayRef<'_>) -> String {
    let leaves: Vec<String> = array.layout.leaves.iter().map(|leaf| machine_text(leaf.ty)).collect();
    let element = if leaves.len() == 1 { leaves.concat() } else { format!("({})", leaves.join(", ")) };
    let extents: Vec<String> = array.extents.iter().map(u32::to_string).collect();
    if extents.is_empty() { element } else { format!("[{element}; {}]", extents.join(", ")) }
}

/// Formats a DeviceIR type in the syntax of the language.
pub(crate) fn machine_text(ty: Ty) -> String {
    match ty {
        Ty::Scalar(scalar) => scalar.name().to_string(),
        Ty::Vector(scalar, lanes) => format!("{}x{lanes}", scalar.name()),
    }
}

/// Returns the indices of an element of an array with these extents.
pub(crate) fn indices(mut at: usize, extents: &[u32]) -> Vec<usize> {
    let mut tuple: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&n| {
            let index = at % (n as usize).max(1);
            at /= (n as usize).max(1);
            index
        })
        .collect();
    tuple.reverse();
    tuple
}
