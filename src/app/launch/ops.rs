//! Operations of a served request and their replies.

use std::sync::PoisonError;

use smol_str::ToSmolStr;

use super::data::{self, Arrays, HostArrays, fields, quoted, shown};
use super::frame::{Blocks, Message};
use super::json::{Kind, Raw};
use super::refusal::{Refusal, Result};
use super::reply::Reply;
use super::request::{self, Launch, parse};
use super::state::State;
use super::write::{Encoding, string};
use crate::app::{crash, names};
use crate::check;
use crate::check::typed::{Access, Binding, Kernel};
use crate::host::unwind;

/// What happens after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// The connection is closed.
    Close,
    /// The server ends.
    Stop,
}

/// Maximum length of an `id` in bytes, as written.
const LONGEST_ID: usize = 256;

/// Operations with their fields beside `id`, `op` and `blocks`.
const OPERATIONS: [(&str, &[&str]); 8] = [
    ("launch", &request::LAUNCH),
    ("put", &["arrays"]),
    ("get", &["names", "as"]),
    ("free", &["names"]),
    ("list", &[]),
    ("load", &["file"]),
    ("sync", &[]),
    ("stop", &[]),
];

/// Performs the operation of a message; returns the reply.
pub(crate) fn answer(state: &mut State, message: Message) -> (Reply, Next) {
    let Message { text, mut blocks, framed, refused, last, .. } = message;
    let id = id_of(&text);
    let done = match (refused, &id) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(_)) => {
            Err(Refusal::new("E0802", format!("an `id` is a number or a string of at most {LONGEST_ID} letters")))
        }
        (None, Ok(_)) => {
            let iteration = state.iteration.clone();
            // On the simulator launches have completed when they return, so clients need not be serialized.
            let shared = state.interpreter.options.device.is_remote();
            let mut last = shared.then(|| iteration.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(last) = &mut last {
                state.begin(last);
            }
            let flag = state.interpreter.options.control.stop.clone();
            let done = crash::survived(|| unwind::caught(flag, || perform(state, &text, &mut blocks, framed)));
            match done {
                Ok(Ok(done)) => done,
                Ok(Err(why)) => Err(Refusal::Program(vec![why.anywhere()])),
                Err(diagnostic) => Err(Refusal::Program(vec![*diagnostic])),
            }
        }
    };
    let warnings = state.interpreter.take_warnings();
    let printed = std::mem::take(&mut state.world.printed);
    let sources = &state.session.sources;
    let wrap = |reply: Reply| reply.output(&printed).warnings(&warnings, sources);
    let reply = Reply::to(id.ok().flatten(), framed);
    match done {
        Ok((answer, next)) => (wrap(answer.add_to(reply)), next),
        Err(refusal) => {
            let reply = wrap(reply).refuse(refusal, &text, sources);
            (reply, if last { Next::Close } else { Next::Go })
        }
    }
}

/// Returns the `id` of a request as written, if it has one; `Err` if it cannot be echoed.
fn id_of(text: &str) -> std::result::Result<Option<String>, ()> {
    let Ok(request) = Raw::parse(text) else { return Ok(None) };
    let id = request.fields().find(|(name, _)| name == "id").map(|(_, id)| id);
    match id {
        None => Ok(None),
        Some(id) if matches!(id.kind(), Kind::Number | Kind::Text | Kind::Null) && id.text().len() <= LONGEST_ID => {
            // A number that is not standard JSON is echoed as a string.
            let strict = id.kind() != Kind::Number || !super::json::NOT_FINITE.contains(&id.text());
            Ok(Some(if strict { id.text().to_string() } else { string(id.text()) }))
        }
        Some(_) => Err(()),
    }
}

/// The result of an operation.
#[derive(Default)]
struct Answer {
    fields: Vec<(&'static str, String)>,
    arrays: Option<(HostArrays, Encoding)>,
}

impl Answer {
    fn add_to(self, reply: Reply) -> Reply {
        let reply = match self.arrays {
            Some((arrays, encoding)) => reply.arrays(arrays, encoding),
            None => reply,
        };
        self.fields.into_iter().fold(reply, |reply, (name, json)| reply.field(name, json))
    }
}

fn perform(state: &mut State, text: &str, blocks: &mut Blocks, framed: bool) -> Result<(Answer, Next)> {
    let request = parse(text)?;
    if request.kind() != Kind::Object {
        return Err(Refusal::at("E0802", format!("a request is an object, not {}", request.kind().words()), request));
    }
    let op = request.fields().find(|(name, _)| name == "op").map(|(_, op)| op);
    let (name, known) = operation(op)?;
    let known: Vec<&str> = known.iter().copied().chain(["id", "op", "blocks"]).collect();
    let given = fields(request, "a request", &known)?;
    let field = |name: &str| given.iter().find(|(given, _)| given == name).map(|(_, value)| *value);
    let needed = |name: &str| {
        field(name).ok_or_else(|| Refusal::at("E0802", format!("the request lacks its field `{name}`"), request))
    };
    let encoding = match field("as") {
        Some(value) => request::encoding(value)?,
        None if framed => Encoding::Block,
        None => Encoding::List,
    };
    if encoding == Encoding::Block && !framed {
        return Err(Refusal::at("E0802", "only framed requests are answered with blocks", request));
    }
    let mut answer = Answer::default();
    let mut next = Next::Go;
    match name {
        "launch" => {
            let mut launch = Launch::default();
            for (name, value) in &given {
                launch.take(name, *value)?;
            }
            let written = state.launch(&launch, blocks)?;
            if !written.is_empty() {
                answer.arrays = Some((state.fetch(written)?, encoding));
            }
        }
        "put" => put(state, needed("arrays")?, blocks)?,
        "get" => answer.arrays = Some((get(state, needed("names")?)?, encoding)),
        "free" => {
            for name in listed(needed("names")?)? {
                let (name, _) = state.kept(name)?;
                state.kept.shift_remove(&name);
            }
        }
        "list" => answer.fields = list(state),
        "load" => {
            let path = data::text(needed("file")?, "`file`")?;
            state.load(std::path::Path::new(path.as_ref()))?;
        }
        "sync" => state.finish()?,
        _ => next = Next::Stop,
    }
    Ok((answer, next))
}

/// Returns the operation that a request names; by default a launch.
fn operation(op: Option<Raw<'_>>) -> Result<(&'static str, &'static [&'static str])> {
    let Some(op) = op else { return Ok(OPERATIONS[0]) };
    let name = data::text(op, "`op`")?;
    let found = OPERATIONS.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| {
        let all = || OPERATIONS.iter().map(|(name, _)| *name);
        let refusal = Refusal::at("E0802", format!("there is no operation `{}`", shown(&name)), op);
        let refusal = names::did_you_mean(&name, all()).into_iter().fold(refusal, Refusal::help);
        refusal.note(format!("the operations are {}", quoted(all())))
    })
}

/// Keeps arrays: all of them, or none if one is refused.
fn put(state: &mut State, arrays: Raw<'_>, blocks: &mut Blocks) -> Result<()> {
    let mut made = Vec::new();
    for (name, value) in fields(arrays, "`arrays`", &[])? {
        made.push((name.to_smolstr(), state.array(value, blocks)?, value));
    }
    state.keep_all(made)
}

fn listed(names: Raw<'_>) -> Result<impl Iterator<Item = Raw<'_>>> {
    match names.kind() {
        Kind::List => Ok(names.items()),
        other => Err(Refusal::at("E0802", format!("`names` is a list, not {}", other.words()), names)),
    }
}

fn get(state: &State, names: Raw<'_>) -> Result<HostArrays> {
    let mut found = Arrays::new();
    for name in listed(names)? {
        let (name, array) = state.kept(name)?;
        found.insert(name, array.clone());
    }
    state.fetch(found)
}

/// Returns the kept arrays, the program's kernels and the layouts of its structs.
fn list(state: &State) -> Vec<(&'static str, String)> {
    let arrays = state.kept.iter().map(|(name, array)| {
        let (ty, shape) = (string(&array.element().to_string()), array.shape());
        format!("{}: {{\"type\": {ty}, \"shape\": {shape:?}, \"bytes\": {}}}", string(name), array.byte_len())
    });
    let arrays: Vec<String> = arrays.collect();
    let program = &state.session.program;
    let main = state.session.main.and_then(|main| program.modules.get(main));
    let kernels = main.into_iter().flat_map(|module| &module.names).filter_map(|(name, binding)| match binding {
        Binding::Kernel(id) => {
            program.kernels.get(*id).map(|kernel| format!("{}: {}", string(name), params(state, kernel)))
        }
        _ => None,
    });
    let kernels: Vec<String> = kernels.collect();
    vec![("arrays", format!("{{{}}}", arrays.join(", "))), ("kernels", format!("{{{}}}", kernels.join(", ")))]
}

fn params(state: &State, kernel: &Kernel) -> String {
    let param = |param: &check::typed::Param| {
        let access = match param.access {
            Access::In => "in",
            Access::Out => "out",
            Access::InOut => "inout",
        };
        let ty = check::show_type(&state.session.program, Some(&kernel.sig), &param.ty);
        let default = if param.default.is_some() { ", \"optional\": true" } else { "" };
        format!("{{\"name\": {}, \"type\": {}, \"access\": \"{access}\"{default}}}", string(&param.name), string(&ty))
    };
    let all: Vec<String> = kernel.sig.params.iter().map(param).collect();
    format!("[{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::interrupt::Interrupt;
    use crate::app::script::Limits;
    use crate::compile::Session;
    use crate::device::storage::Gone;
    use crate::host::array::Array;

    /// Returns the reply to a message with an array `x` kept, which a failed device has.
    fn reply(text: &str) -> String {
        let interpreter = Limits::default().interpreter(&Interrupt::default(), vec![]);
        let mut state = State::new(Session::default(), interpreter, 1 << 20);
        let mut array = Array::from_items(&[1.0f32, 2.0]).expect("an array");
        array.storage_mut().expect("memory").written_remotely(Arc::new(Gone::unavailable()));
        state.kept.insert("x".into(), array);
        let message =
            Message { text: text.into(), blocks: vec![], framed: false, refused: None, last: false, bytes: 0 };
        let mut out = Vec::new();
        answer(&mut state, message).0.send(&mut out).expect("written to memory");
        String::from_utf8(out).expect("a text")
    }

    #[test]
    fn an_array_of_a_failed_device_is_not_half_a_reply() {
        for encoding in ["list", "base64"] {
            let reply = reply(&format!("{{\"id\": 1, \"op\": \"get\", \"names\": [\"x\"], \"as\": \"{encoding}\"}}"));
            assert!(reply.contains("E0595") && reply.contains("found when results were looked at"), "{reply}");
            assert!(!reply.contains("arrays"), "{reply}");
        }
        assert!(reply("{\"op\": \"list\"}").contains("\"bytes\": 8"));
    }
}
