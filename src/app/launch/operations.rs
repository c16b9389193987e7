//! Performs the operations that requests to a server name, and creates the replies.

use std::sync::PoisonError;

use smol_str::ToSmolStr;

use super::data::{self, HostArrays, NamedArrays, abbreviated, fields, quote_names};
use super::frame::{Blocks, ClientMessage};
use super::json::{JsonKind, JsonRaw};
use super::launch_error::{LaunchRequestError, Result};
use super::reply::LaunchReply;
use super::request::{self, LaunchRequest, parse};
use super::state::ClientState;
use super::write::{ArrayEncoding, string};
use crate::{crash, suggestions};
use clk_check::typed::{Access, Kernel, NameBinding};
use clk_host::unwind;

/// What the server does after it has sent a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterReply {
    Go,
    /// Close the connection.
    Close,
    /// Shut the server down.
    Stop,
}

/// Maximum length of a request's `id` in bytes of JSON text.
const LONGEST_ID: usize = 256;

/// The operations, and the fields of each besides `id`, `op` and `blocks`.
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
pub(crate) fn answer_request(state: &mut ClientState, message: ClientMessage) -> (LaunchReply, AfterReply) {
    let ClientMessage { text, mut blocks, framed, refused, last, .. } = message;
    let id = id_of(&text);
    let done = match (refused, &id) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(_)) => Err(LaunchRequestError::new(
            "E0802",
            format!("an `id` is a number or a string of at most {LONGEST_ID} letters"),
        )),
        (None, Ok(_)) => {
            let iteration = state.iteration.clone();
            // On the simulator, launches have finished when they return, so that clients need not wait for each
            // other's.
            let shared = state.interpreter.options.device.capabilities().asynchronous;
            let mut last = shared.then(|| iteration.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(last) = &mut last {
                state.begin(last);
            }
            let flag = state.interpreter.options.control.stop.clone();
            let done = crash::catch_panic(|| unwind::catch_stop(flag, || perform(state, &text, &mut blocks, framed)));
            match done {
                Ok(Ok(done)) => done,
                Ok(Err(why)) => Err(LaunchRequestError::Program(vec![why.anywhere()])),
                Err(diagnostic) => Err(LaunchRequestError::Program(vec![*diagnostic])),
            }
        }
    };
    let warnings = state.interpreter.take_warnings();
    let printed = std::mem::take(&mut state.world.printed);
    let sources = &state.session.sources;
    let wrap = |reply: LaunchReply| reply.output(&printed).warnings(&warnings, sources);
    let reply = LaunchReply::to(id.ok().flatten(), framed);
    match done {
        Ok((answer, next)) => (wrap(answer.add_to(reply)), next),
        Err(refusal) => {
            let reply = wrap(reply).refuse(refusal, &text, sources);
            (reply, if last { AfterReply::Close } else { AfterReply::Go })
        }
    }
}

/// Returns the JSON text of a request's `id`, if there is one. `Err` if a reply cannot repeat it.
fn id_of(text: &str) -> std::result::Result<Option<String>, ()> {
    let Ok(request) = JsonRaw::parse(text) else { return Ok(None) };
    let id = request.fields().find(|(name, _)| name == "id").map(|(_, id)| id);
    match id {
        None => Ok(None),
        Some(id)
            if matches!(id.kind(), JsonKind::Number | JsonKind::Text | JsonKind::Null)
                && id.text().len() <= LONGEST_ID =>
        {
            // A number that standard JSON does not have is repeated as a string.
            let strict = id.kind() != JsonKind::Number || !super::json::NOT_FINITE.contains(&id.text());
            Ok(Some(if strict { id.text().to_string() } else { string(id.text()) }))
        }
        Some(_) => Err(()),
    }
}

/// The result of an operation, from which the reply is created.
#[derive(Default)]
struct OpResult {
    fields: Vec<(&'static str, String)>,
    arrays: Option<(HostArrays, ArrayEncoding)>,
}

impl OpResult {
    fn add_to(self, reply: LaunchReply) -> LaunchReply {
        let reply = match self.arrays {
            Some((arrays, encoding)) => reply.arrays(arrays, encoding),
            None => reply,
        };
        self.fields.into_iter().fold(reply, |reply, (name, json)| reply.field(name, json))
    }
}

fn perform(state: &mut ClientState, text: &str, blocks: &mut Blocks, framed: bool) -> Result<(OpResult, AfterReply)> {
    let request = parse(text)?;
    if request.kind() != JsonKind::Object {
        return Err(LaunchRequestError::at(
            "E0802",
            format!("a request is an object, not {}", request.kind().words()),
            request,
        ));
    }
    let op = request.fields().find(|(name, _)| name == "op").map(|(_, op)| op);
    let (name, allowed) = operation(op)?;
    let allowed: Vec<&str> = allowed.iter().copied().chain(["id", "op", "blocks"]).collect();
    let request_fields = fields(request, "a request", &allowed)?;
    let field =
        |name: &str| request_fields.iter().find(|(request_fields, _)| request_fields == name).map(|(_, value)| *value);
    let needed = |name: &str| {
        field(name)
            .ok_or_else(|| LaunchRequestError::at("E0802", format!("the request lacks its field `{name}`"), request))
    };
    let encoding = match field("as") {
        Some(value) => request::encoding(value)?,
        None if framed => ArrayEncoding::Block,
        None => ArrayEncoding::List,
    };
    if encoding == ArrayEncoding::Block && !framed {
        return Err(LaunchRequestError::at("E0802", "only framed requests are answered with blocks", request));
    }
    let mut answer = OpResult::default();
    let mut next = AfterReply::Go;
    match name {
        "launch" => {
            let mut launch = LaunchRequest::default();
            for (name, value) in &request_fields {
                launch.add_field(name, *value)?;
            }
            let written = state.launch(&launch, blocks)?;
            if !written.is_empty() {
                answer.arrays = Some((state.fetch(written)?, encoding));
            }
        }
        "put" => put_arrays(state, needed("arrays")?, blocks)?,
        "get" => answer.arrays = Some((get_arrays(state, needed("names")?)?, encoding)),
        "free" => {
            for name in name_items(needed("names")?)? {
                let (name, _) = state.kept_array(name)?;
                state.kept.shift_remove(&name);
            }
        }
        "list" => answer.fields = list_state(state),
        "load" => {
            let path = data::text(needed("file")?, "`file`")?;
            state.load(std::path::Path::new(path.as_ref()))?;
        }
        "sync" => state.finish()?,
        _ => next = AfterReply::Stop,
    }
    Ok((answer, next))
}

/// Returns the operation that a request names, and its fields. The default operation is `launch`.
fn operation(op: Option<JsonRaw<'_>>) -> Result<(&'static str, &'static [&'static str])> {
    let Some(op) = op else { return Ok(OPERATIONS[0]) };
    let name = data::text(op, "`op`")?;
    let matching = OPERATIONS.into_iter().find(|(known, _)| *known == name);
    matching.ok_or_else(|| {
        let all = || OPERATIONS.iter().map(|(name, _)| *name);
        let refusal = LaunchRequestError::at("E0802", format!("there is no operation `{}`", abbreviated(&name)), op);
        let refusal = suggestions::did_you_mean(&name, all()).into_iter().fold(refusal, LaunchRequestError::help);
        refusal.note(format!("the operations are {}", quote_names(all())))
    })
}

/// Stores arrays under their names. If one is invalid, stores none.
fn put_arrays(state: &mut ClientState, arrays: JsonRaw<'_>, blocks: &mut Blocks) -> Result<()> {
    let mut decoded = Vec::new();
    for (name, value) in fields(arrays, "`arrays`", &[])? {
        decoded.push((name.to_smolstr(), state.array(value, blocks)?, value));
    }
    state.keep_all(decoded)
}

fn name_items(names: JsonRaw<'_>) -> Result<impl Iterator<Item = JsonRaw<'_>>> {
    match names.kind() {
        JsonKind::List => Ok(names.items()),
        other => Err(LaunchRequestError::at("E0802", format!("`names` is a list, not {}", other.words()), names)),
    }
}

fn get_arrays(state: &ClientState, names: JsonRaw<'_>) -> Result<HostArrays> {
    let mut selected = NamedArrays::new();
    for name in name_items(names)? {
        let (name, array) = state.kept_array(name)?;
        selected.insert(name, array.clone());
    }
    state.fetch(selected)
}

/// Returns the kept arrays, the kernels of the program, and the layouts of its structs.
fn list_state(state: &ClientState) -> Vec<(&'static str, String)> {
    let arrays = state.kept.iter().map(|(name, array)| {
        let (ty, shape) = (string(&array.element().to_string()), array.shape());
        format!("{}: {{\"type\": {ty}, \"shape\": {shape:?}, \"bytes\": {}}}", string(name), array.byte_len())
    });
    let arrays: Vec<String> = arrays.collect();
    let program = &state.session.program;
    let main = state.session.main.and_then(|main| program.modules.get(main));
    let kernels = main.into_iter().flat_map(|module| &module.names).filter_map(|(name, binding)| match binding {
        NameBinding::Kernel(id) => {
            program.kernels.get(*id).map(|kernel| format!("{}: {}", string(name), params_json(state, kernel)))
        }
        _ => None,
    });
    let kernels: Vec<String> = kernels.collect();
    vec![("arrays", format!("{{{}}}", arrays.join(", "))), ("kernels", format!("{{{}}}", kernels.join(", ")))]
}

fn params_json(state: &ClientState, kernel: &Kernel) -> String {
    let param = |param: &clk_check::typed::Param| {
        let access = match param.access {
            Access::In => "in",
            Access::Out => "out",
            Access::InOut => "inout",
        };
        let ty = clk_check::show_type(&state.session.program, Some(&kernel.sig), &param.ty);
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
    use crate::interrupt::Interrupt;
    use crate::script::RunLimits;
    use clk_compile::Session;
    use clk_host::array::Array;
    use clk_runtime::storage::FailedMemory;

    /// Answers a message in a test. The client has a kept array `x` on a device that has failed.
    fn reply(text: &str) -> String {
        let interpreter = RunLimits::default().interpreter(&Interrupt::default(), vec![]);
        let mut state = ClientState::new(Session::default(), interpreter, 1 << 20);
        let mut array = Array::from_items(&[1.0f32, 2.0]).expect("an array");
        array.storage_mut().expect("memory").set_device_copy(Arc::new(FailedMemory::unavailable()));
        state.kept.insert("x".into(), array);
        let message =
            ClientMessage { text: text.into(), blocks: vec![], framed: false, refused: None, last: false, bytes: 0 };
        let mut out = Vec::new();
        answer_request(&mut state, message).0.send(&mut out).expect("written to memory");
        String::from_utf8(out).expect("a text")
    }

    #[test]
    fn array_of_a_failed_device_gives_no_partial_reply() {
        for encoding in ["list", "base64"] {
            let reply = reply(&format!("{{\"id\": 1, \"op\": \"get\", \"names\": [\"x\"], \"as\": \"{encoding}\"}}"));
            assert!(reply.contains("E0595") && reply.contains("found when a result was read"), "{reply}");
            assert!(!reply.contains("arrays"), "{reply}");
        }
        assert!(reply("{\"op\": \"list\"}").contains("\"bytes\": 8"));
    }
}
