//! Answers the protocol's requests for threads, call stacks, scopes and variables.
//!
//! A variable reference identifies something that the client can expand. References become invalid when the program
//! moves.

use serde_json::{Value, json};

use super::breakpoints::path_of;
use super::wire::DapRequest;
use crate::command_error::CommandResult;
use crate::debug::frame::{self, NamedContents};
use crate::debug::session::{Debug, Focus};
use crate::debug::show;
use clk_base::source::{FileId, Span};
use clk_step::{ArrayStorage, ThreadPhase};

/// Maximum number of threads in a block. The protocol's thread ids of a block are a range of this length.
const MOST_THREADS: u64 = 1024;

/// Number of children sent if the client does not request a range.
const DEFAULT_CHILDREN: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableScope {
    Locals,
    Arguments,
    Arrays,
    Shared,
    Indices,
}

/// What a variable reference identifies.
#[derive(Clone, Debug, PartialEq)]
enum VariableRef {
    Frame(Focus),
    Scope(Focus, VariableScope),
    Array(Focus, String),
}

/// The references created since the program last moved.
#[derive(Default)]
pub(super) struct VariableRefs(Vec<VariableRef>);

impl VariableRefs {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, what: VariableRef) -> usize {
        if let Some(known) = self.0.iter().position(|known| *known == what) {
            return known + 1;
        }
        self.0.push(what);
        self.0.len()
    }

    fn get(&self, id: i64) -> CommandResult<&VariableRef> {
        let reference = usize::try_from(id).ok().and_then(|id| self.0.get(id.checked_sub(1)?));
        reference.ok_or_else(|| format!("the reference {id} is out of date").into())
    }

    /// Focuses the frame given by the request's `frameId`, if it has one.
    pub fn look(&self, request: &DapRequest, debug: &mut Debug<'_, '_>) -> CommandResult<()> {
        let Some(id) = request.number("frameId") else { return Ok(()) };
        match self.get(id)? {
            VariableRef::Frame(focus) => {
                debug.focus = *focus;
                Ok(())
            }
            _ => Err(format!("{id} is not a frame").into()),
        }
    }
}

pub(super) fn thread_id(block: u64, thread: u32) -> u64 {
    block * MOST_THREADS + u64::from(thread) + 1
}

/// Focuses the thread given by the request's `threadId`.
pub(super) fn focus_thread(request: &DapRequest, debug: &mut Debug<'_, '_>) -> CommandResult<()> {
    let id = request.number("threadId").and_then(|id| u64::try_from(id).ok()?.checked_sub(1));
    let id = id.ok_or("which thread?")?;
    let (block, thread) = (id / MOST_THREADS, (id % MOST_THREADS) as u32);
    let target = debug.state().block(block).and_then(|block| block.threads.get(thread as usize));
    if target.is_none() {
        return Err("the thread's block is not in progress".into());
    }
    // If the thread is already focused, the selected frame does not change.
    if (debug.focus.block, debug.focus.thread) != (block, thread) {
        debug.look_at(block, thread);
    }
    Ok(())
}

/// Lists the threads of the focused warp, and the first thread of each other warp of the block.
pub(super) fn threads(debug: &Debug<'_, '_>) -> Value {
    let focus = debug.focus;
    let Some(block) = debug.block() else { return json!({ "threads": [] }) };
    let warp = focus.thread / 32;
    let shown = (0..block.threads.len() as u32).filter(|thread| thread / 32 == warp || thread % 32 == 0);
    let one = |thread: u32| {
        let phase = match block.threads[thread as usize].phase {
            ThreadPhase::Ready => "",
            ThreadPhase::Waiting(..) => " (waits)",
            ThreadPhase::Done => " (ended)",
            ThreadPhase::Faulted => " (faulted)",
        };
        let label = show::thread_label(debug, focus.block, thread);
        let name = if thread / 32 == warp {
            format!("{label}{phase}")
        } else {
            format!("warp {}: {label}{phase}", thread / 32)
        };
        json!({ "id": thread_id(focus.block, thread), "name": name })
    };
    json!({ "threads": shown.map(one).collect::<Vec<Value>>() })
}

fn source(debug: &Debug<'_, '_>, file: FileId) -> Value {
    let name = debug.settings.session.sources.name(file);
    match path_of(debug.settings, file) {
        Some(path) => {
            let base = path.file_name().map_or(name.into(), |base| base.to_string_lossy().into_owned());
            json!({ "name": base, "path": path.to_string_lossy() })
        }
        None => json!({ "name": name, "sourceReference": file.0 + 1 }),
    }
}

pub(super) fn stack_trace(
    request: &DapRequest,
    debug: &mut Debug<'_, '_>,
    refs: &mut VariableRefs,
) -> CommandResult<Value> {
    focus_thread(request, debug)?;
    let Some(thread) = debug.thread() else { return Err("the block is not in progress".into()) };
    let mut frames = vec![];
    for depth in (0..thread.frames.len()).rev() {
        let at = frame::current_span(&debug.settings.source, &debug.table, thread, depth);
        let name = debug.settings.source.name_of(thread.frames[depth].function);
        frames.push(one_frame(debug, refs, Focus { depth, ..debug.focus }, name, at));
    }
    let total = frames.len();
    let start = request.number("startFrame").map_or(0, |n| n.max(0) as usize);
    let levels = request.number("levels").filter(|&n| n > 0).map_or(total, |n| n as usize);
    let frames: Vec<Value> = frames.into_iter().skip(start).take(levels).collect();
    Ok(json!({ "stackFrames": frames, "totalFrames": total }))
}

fn one_frame(debug: &Debug<'_, '_>, refs: &mut VariableRefs, focus: Focus, name: &str, at: Option<Span>) -> Value {
    let at = debug.settings.session.sources.original(at.unwrap_or_default());
    let (line, column) = debug.settings.session.sources.line_column(at);
    let (end_line, end_column) = debug.settings.session.sources.line_column(at.after());
    json!({
        "id": refs.add(VariableRef::Frame(focus)), "name": name, "source": source(debug, at.file),
        "line": line, "column": column, "endLine": end_line, "endColumn": end_column,
    })
}

pub(super) fn scopes(request: &DapRequest, debug: &mut Debug<'_, '_>, refs: &mut VariableRefs) -> CommandResult<Value> {
    refs.look(request, debug)?;
    let focus = debug.focus;
    let of = |name: &str, scope: VariableScope, hint: Option<&str>, expensive: bool, refs: &mut VariableRefs| {
        let id = refs.add(VariableRef::Scope(focus, scope));
        let mut value = json!({ "name": name, "variablesReference": id, "expensive": expensive });
        if let Some(hint) = hint {
            value["presentationHint"] = json!(hint);
        }
        value
    };
    let mut scopes = vec![
        of("Locals", VariableScope::Locals, Some("locals"), false, refs),
        of("Arguments", VariableScope::Arguments, Some("arguments"), false, refs),
        of("Arrays", VariableScope::Arrays, None, false, refs),
    ];
    if debug.block().is_some_and(|block| !block.shared.is_empty()) {
        scopes.push(of("Shared", VariableScope::Shared, None, false, refs));
    }
    scopes.push(of("Indices", VariableScope::Indices, None, false, refs));
    Ok(json!({ "scopes": scopes }))
}

pub(super) fn variables(
    request: &DapRequest,
    debug: &mut Debug<'_, '_>,
    refs: &mut VariableRefs,
) -> CommandResult<Value> {
    let reference = refs.get(request.number("variablesReference").unwrap_or(0))?.clone();
    let values = match reference {
        VariableRef::Frame(_) => return Err("a frame has scopes".into()),
        VariableRef::Scope(focus, VariableScope::Indices) => indices(debug, focus),
        VariableRef::Scope(focus, scope) => scope_variables(debug, refs, focus, scope),
        VariableRef::Array(focus, name) => {
            let start = request.number("start").map_or(0, |n| n.max(0) as usize);
            let count = request.number("count").filter(|&n| n > 0).map_or(DEFAULT_CHILDREN, |n| n as usize);
            if request.text("filter") == Some("named") { vec![] } else { children(debug, focus, &name, start, count)? }
        }
    };
    Ok(json!({ "variables": values }))
}

fn variable(name: &str, value: &str, ty: &str) -> Value {
    json!({ "name": name, "value": value, "type": ty, "evaluateName": name, "variablesReference": 0 })
}

fn indices(debug: &Debug<'_, '_>, focus: Focus) -> Vec<Value> {
    let ids = debug.ids(focus.block, focus.thread);
    if let Some((index, rank)) = ids.index {
        let text: Vec<String> = index[..rank].iter().map(u32::to_string).collect();
        return vec![variable("index", &text.join(", "), "i32")];
    }
    let triple = |name: &str, [x, y, z]: [u32; 3]| variable(name, &format!("({x}, {y}, {z})"), "i32x3");
    vec![
        triple("thread_idx", ids.thread),
        triple("block_idx", ids.block),
        triple("block_dim", ids.block_dim),
        triple("grid_dim", ids.grid_dim),
        variable("lane_idx", &(ids.flat % 32).to_string(), "i32"),
        variable("warp_idx", &(ids.flat / 32).to_string(), "i32"),
    ]
}

fn scope_variables(
    debug: &mut Debug<'_, '_>,
    refs: &mut VariableRefs,
    focus: Focus,
    scope: VariableScope,
) -> Vec<Value> {
    debug.focus = focus;
    let mut variables = vec![];
    for (name, held) in debug.names() {
        let own = match &held {
            NamedContents::Array(array) if matches!(array.store, ArrayStorage::Shared(..)) => VariableScope::Shared,
            NamedContents::Array(array) if matches!(array.store, ArrayStorage::Global(_)) => VariableScope::Arrays,
            _ if name.is_given => VariableScope::Arguments,
            _ => VariableScope::Locals,
        };
        if own == scope {
            variables.push(describe(debug, refs, focus, &name.name, &held));
        }
    }
    variables
}

/// Describes a variable: its name, value and type.
pub(super) fn describe(
    debug: &Debug<'_, '_>,
    refs: &mut VariableRefs,
    focus: Focus,
    name: &str,
    held: &NamedContents<'_>,
) -> Value {
    match held {
        NamedContents::Leaves(leaves) => {
            let ty = leaves
                .first()
                .filter(|_| leaves.len() == 1)
                .map_or(String::new(), |(_, ty, _)| frame::machine_text(*ty));
            variable(name, &show::contents_text(debug, held), &ty)
        }
        NamedContents::Array(array) => {
            let mut value =
                variable(name, &show::elements(debug, array, 8).replace('\n', " "), &frame::type_text(array));
            value["variablesReference"] = json!(refs.add(VariableRef::Array(focus, name.to_string())));
            value["indexedVariables"] = json!(frame::count(array));
            value
        }
    }
}

fn children(
    debug: &mut Debug<'_, '_>,
    focus: Focus,
    name: &str,
    start: usize,
    count: usize,
) -> CommandResult<Vec<Value>> {
    debug.focus = focus;
    let array = debug.array(name).ok_or_else(|| format!("`{name}` is not visible any more"))?;
    let bytes = debug.bytes(&array).ok_or("it is not there")?;
    let ty = array.layout.leaves.first().map_or(String::new(), |leaf| frame::machine_text(leaf.ty));
    let all = frame::count(&array);
    let one = |at: usize| {
        let index: Vec<String> = frame::indices(at, &array.extents).iter().map(usize::to_string).collect();
        let element = format!("[{}]", index.join(", "));
        let mut value = variable(&element, &frame::element(&array, bytes, at), &ty);
        value["evaluateName"] = json!(format!("{name}{element}"));
        value
    };
    Ok((start.min(all)..all.min(start.saturating_add(count))).map(one).collect())
}

/// Answers whether and how an array element can be watched.
pub(super) fn data_breakpoint_info(request: &DapRequest, refs: &VariableRefs) -> Value {
    let name = request.text("name").unwrap_or_default();
    let id = match request.number("variablesReference").map(|id| refs.get(id)) {
        Some(Ok(VariableRef::Array(_, array))) => format!("{array}{name}"),
        _ => name.to_string(),
    };
    match crate::debug::breakpoint::read_element(&id) {
        Ok(_) => {
            json!({ "dataId": id, "description": format!("writes to {id}"), "accessTypes": ["write"], "canPersist": true })
        }
        Err(error) => json!({ "dataId": null, "description": error.title }),
    }
}
