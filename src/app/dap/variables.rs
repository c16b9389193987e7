//! Threads, calls, scopes and variables, as the protocol has them.
//!
//! A reference stands for what can be unfolded; it holds until the program moves.

use serde_json::{Value, json};

use super::points::path_of;
use super::wire::Request;
use crate::app::debug::frame::{self, Held};
use crate::app::debug::session::{Debug, Focus};
use crate::app::debug::show;
use crate::base::source::{FileId, Span};
use crate::device::step::{Phase, Store};

/// Threads of a block, at most: the room for their numbers in ids.
const MOST_THREADS: u64 = 1024;

/// Children that are sent at once if the client does not ask for a part.
const FEW: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Locals,
    Arguments,
    Arrays,
    Shared,
    Indices,
}

/// What a reference stands for.
#[derive(Clone, Debug, PartialEq)]
enum Ref {
    Frame(Focus),
    Scope(Focus, Scope),
    Array(Focus, String),
}

/// The references since the last move.
#[derive(Default)]
pub(super) struct Refs(Vec<Ref>);

impl Refs {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, what: Ref) -> usize {
        if let Some(known) = self.0.iter().position(|known| *known == what) {
            return known + 1;
        }
        self.0.push(what);
        self.0.len()
    }

    fn get(&self, id: i64) -> Result<&Ref, String> {
        let found = usize::try_from(id).ok().and_then(|id| self.0.get(id.checked_sub(1)?));
        found.ok_or_else(|| format!("the reference {id} is out of date"))
    }

    /// Looks at the frame that a request names, if it names one.
    pub fn look(&self, request: &Request, debug: &mut Debug<'_, '_>) -> Result<(), String> {
        let Some(id) = request.number("frameId") else { return Ok(()) };
        match self.get(id)? {
            Ref::Frame(focus) => {
                debug.focus = *focus;
                Ok(())
            }
            _ => Err(format!("{id} is no frame")),
        }
    }
}

pub(super) fn thread_id(block: u64, thread: u32) -> u64 {
    block * MOST_THREADS + u64::from(thread) + 1
}

/// Looks at the thread that a request names.
pub(super) fn look_at(request: &Request, debug: &mut Debug<'_, '_>) -> Result<(), String> {
    let id = request.number("threadId").and_then(|id| u64::try_from(id).ok()?.checked_sub(1));
    let id = id.ok_or("which thread?")?;
    let (block, thread) = (id / MOST_THREADS, (id % MOST_THREADS) as u32);
    let found = debug.state().block(block).and_then(|block| block.threads.get(thread as usize));
    if found.is_none() {
        return Err("the thread's block is not in progress".into());
    }
    // A thread that is looked at already stays in its call.
    if (debug.focus.block, debug.focus.thread) != (block, thread) {
        debug.look_at(block, thread);
    }
    Ok(())
}

/// Lists the threads of the warp that is looked at, and the first one of each other warp of its block.
pub(super) fn threads(debug: &Debug<'_, '_>) -> Value {
    let focus = debug.focus;
    let Some(block) = debug.block() else { return json!({ "threads": [] }) };
    let warp = focus.thread / 32;
    let shown = (0..block.threads.len() as u32).filter(|thread| thread / 32 == warp || thread % 32 == 0);
    let one = |thread: u32| {
        let phase = match block.threads[thread as usize].phase {
            Phase::Ready => "",
            Phase::Waiting(..) => " (waits)",
            Phase::Done => " (ended)",
            Phase::Faulted => " (faulted)",
        };
        let who = show::who(debug, focus.block, thread);
        let name =
            if thread / 32 == warp { format!("{who}{phase}") } else { format!("warp {}: {who}{phase}", thread / 32) };
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

pub(super) fn calls(request: &Request, debug: &mut Debug<'_, '_>, refs: &mut Refs) -> Result<Value, String> {
    look_at(request, debug)?;
    let Some(thread) = debug.thread() else { return Err("the block is not in progress".into()) };
    let mut frames = vec![];
    for depth in (0..thread.frames.len()).rev() {
        let at = frame::here(&debug.settings.source, &debug.table, thread, depth);
        let name = debug.settings.source.name_of(thread.frames[depth].function);
        frames.push(one_frame(debug, refs, Focus { depth, ..debug.focus }, name, at));
    }
    let total = frames.len();
    let start = request.number("startFrame").map_or(0, |n| n.max(0) as usize);
    let levels = request.number("levels").filter(|&n| n > 0).map_or(total, |n| n as usize);
    let frames: Vec<Value> = frames.into_iter().skip(start).take(levels).collect();
    Ok(json!({ "stackFrames": frames, "totalFrames": total }))
}

fn one_frame(debug: &Debug<'_, '_>, refs: &mut Refs, focus: Focus, name: &str, at: Option<Span>) -> Value {
    let at = at.unwrap_or_default();
    let (line, column) = debug.settings.session.sources.line_column(at);
    let (end_line, end_column) = debug.settings.session.sources.line_column(at.after());
    json!({
        "id": refs.add(Ref::Frame(focus)), "name": name, "source": source(debug, at.file),
        "line": line, "column": column, "endLine": end_line, "endColumn": end_column,
    })
}

pub(super) fn scopes(request: &Request, debug: &mut Debug<'_, '_>, refs: &mut Refs) -> Result<Value, String> {
    refs.look(request, debug)?;
    let focus = debug.focus;
    let of = |name: &str, scope: Scope, hint: Option<&str>, expensive: bool, refs: &mut Refs| {
        let id = refs.add(Ref::Scope(focus, scope));
        let mut value = json!({ "name": name, "variablesReference": id, "expensive": expensive });
        if let Some(hint) = hint {
            value["presentationHint"] = json!(hint);
        }
        value
    };
    let mut scopes = vec![
        of("Locals", Scope::Locals, Some("locals"), false, refs),
        of("Arguments", Scope::Arguments, Some("arguments"), false, refs),
        of("Arrays", Scope::Arrays, None, false, refs),
    ];
    if debug.block().is_some_and(|block| !block.shared.is_empty()) {
        scopes.push(of("Shared", Scope::Shared, None, false, refs));
    }
    scopes.push(of("Indices", Scope::Indices, None, false, refs));
    Ok(json!({ "scopes": scopes }))
}

pub(super) fn variables(request: &Request, debug: &mut Debug<'_, '_>, refs: &mut Refs) -> Result<Value, String> {
    let what = refs.get(request.number("variablesReference").unwrap_or(0))?.clone();
    let found = match what {
        Ref::Frame(_) => return Err("a frame has scopes".into()),
        Ref::Scope(focus, Scope::Indices) => indices(debug, focus),
        Ref::Scope(focus, scope) => in_scope(debug, refs, focus, scope),
        Ref::Array(focus, name) => {
            let start = request.number("start").map_or(0, |n| n.max(0) as usize);
            let count = request.number("count").filter(|&n| n > 0).map_or(FEW, |n| n as usize);
            if request.text("filter") == Some("named") { vec![] } else { children(debug, focus, &name, start, count)? }
        }
    };
    Ok(json!({ "variables": found }))
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

fn in_scope(debug: &mut Debug<'_, '_>, refs: &mut Refs, focus: Focus, scope: Scope) -> Vec<Value> {
    debug.focus = focus;
    let mut found = vec![];
    for (name, held) in debug.names() {
        let own = match &held {
            Held::Array(array) if matches!(array.store, Store::Shared(..)) => Scope::Shared,
            Held::Array(array) if matches!(array.store, Store::Global(_)) => Scope::Arrays,
            _ if name.is_given => Scope::Arguments,
            _ => Scope::Locals,
        };
        if own == scope {
            found.push(named(debug, refs, focus, &name.name, &held));
        }
    }
    found
}

/// Returns a name with what it holds.
pub(super) fn named(debug: &Debug<'_, '_>, refs: &mut Refs, focus: Focus, name: &str, held: &Held<'_>) -> Value {
    match held {
        Held::Leaves(leaves) => {
            let ty = leaves
                .first()
                .filter(|_| leaves.len() == 1)
                .map_or(String::new(), |(_, ty, _)| frame::machine_text(*ty));
            variable(name, &show::held_text(debug, held), &ty)
        }
        Held::Array(array) => {
            let mut value =
                variable(name, &show::elements(debug, array, 8).replace('\n', " "), &frame::type_text(array));
            value["variablesReference"] = json!(refs.add(Ref::Array(focus, name.to_string())));
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
) -> Result<Vec<Value>, String> {
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

/// Says how an element can be watched.
pub(super) fn data_info(request: &Request, refs: &Refs) -> Value {
    let name = request.text("name").unwrap_or_default();
    let id = match request.number("variablesReference").map(|id| refs.get(id)) {
        Some(Ok(Ref::Array(_, array))) => format!("{array}{name}"),
        _ => name.to_string(),
    };
    match crate::app::debug::point::read_element(&id) {
        Ok(_) => {
            json!({ "dataId": id, "description": format!("writes to {id}"), "accessTypes": ["write"], "canPersist": true })
        }
        Err(why) => json!({ "dataId": null, "description": why }),
    }
}
