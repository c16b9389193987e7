//! `clk dap`: the debugger for editors, by the Debug Adapter Protocol, on standard input and output.
//!
//! The only module that knows the protocol's JSON. One thread reads requests, and stops what runs if the client asks for it; another runs
//! the program, and answers requests while it stands. A request that is wrong gets an error, and the session goes on.

mod front;
mod points;
mod variables;
mod wire;

use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use self::front::{Editor, Shared};
use self::variables::Refs;
use self::wire::{Request, Wire};
use super::context::Context;
use super::debug;
use super::framing::{self, Frame};
use super::interrupt::Interrupt;
use super::{disk, exit, picture, script};
use crate::base::render::{self, Style};
use crate::host::interp::{Shown, World};

/// What texts look like in an editor.
const STYLE: Style = Style { color: false, ascii: false, width: 100 };

/// Serves until the client disconnects or closes the stream.
pub(crate) fn main(context: &mut Context) -> u8 {
    let wire = Wire::new(std::io::stdout());
    let (sender, requests) = channel();
    let shared = Shared::default();
    context.interrupt.be_patient(u32::MAX);
    {
        let (wire, shared, interrupt) = (wire.clone(), shared.clone(), context.interrupt.clone());
        std::thread::spawn(move || read(&wire, &sender, &shared, &interrupt));
    }
    let Some(launch) = launch_request(&wire, &requests) else { return exit::OK };
    let program = launch.text("program").unwrap_or_default().to_string();
    let arguments = launch.arguments.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let args: Vec<String> = arguments.iter().filter_map(Value::as_str).map(str::to_string).collect();
    let Some(compiled) = script::compile_file(Path::new(&program), &mut context.console) else {
        wire.answer(
            &launch,
            Err(format!("`{program}` has mistakes, or cannot be read: `clk check {program}` lists them")),
        );
        wire.event("terminated", json!({}));
        // The client ends the session.
        while requests.recv().is_ok_and(|request| {
            wire.answer(&request, Ok(Value::Null));
            request.command != "disconnect"
        }) {}
        return exit::FAILURE;
    };
    wire.answer(&launch, Ok(Value::Null));
    wire.event("initialized", json!({}));
    if context.limits.checks().any() {
        wire.output("console", &format!("note: {}; the exception filter `nan` stops at NaN\n", debug::UNCHECKED));
    }
    let editor = Editor {
        wire: wire.clone(),
        requests,
        shared,
        interrupt: context.interrupt.clone(),
        refs: Refs::default(),
        stop_on_entry: launch.arguments.get("stopOnEntry").and_then(Value::as_bool).unwrap_or(false),
        has_begun: false,
        is_over: false,
    };
    let mut world = Output(wire.clone());
    let ended = |code: u8| wire.event("exited", json!({ "exitCode": code }));
    let code = debug::runs(&compiled, &args, context, Box::new(editor), &mut world, &mut |found| {
        wire.output("stderr", &(render::text(found, &compiled.session.sources, STYLE) + "\n"));
    });
    ended(code);
    exit::OK
}

/// Reads requests until the stream ends; what runs is stopped if the client wants that.
fn read(wire: &Wire, to: &Sender<Request>, shared: &Shared, interrupt: &Interrupt) {
    let mut input = BufReader::new(std::io::stdin());
    while let Ok(Some((frame, _))) = framing::read(&mut input) {
        let request = match frame {
            Frame::Message(message) => match Request::of(&message) {
                Some(request) => request,
                None => {
                    let seq = message.get("seq").and_then(Value::as_i64).unwrap_or(0);
                    let unknown = Request { seq, command: "unknown".into(), arguments: Value::Null };
                    wire.answer(&unknown, Err("this is no request".into()));
                    continue;
                }
            },
            Frame::Garbage(why) => {
                let unknown = Request { seq: 0, command: "unknown".into(), arguments: Value::Null };
                wire.answer(&unknown, Err(format!("a message that cannot be read: {why}")));
                continue;
            }
        };
        match request.command.as_str() {
            "disconnect" | "terminate" => shared.ask_end(interrupt),
            "pause" => shared.ask_pause(interrupt),
            _ => {}
        }
        if to.send(request).is_err() {
            return;
        }
    }
    shared.ask_end(interrupt);
}

/// Answers requests until the client says what to run; `None` if it never does.
fn launch_request(wire: &Wire, requests: &Receiver<Request>) -> Option<Request> {
    while let Ok(request) = requests.recv() {
        let result = match request.command.as_str() {
            "initialize" => Ok(capabilities()),
            "launch" if request.text("program").is_some() => return Some(request),
            "launch" => Err("`program` is the file to run".into()),
            "disconnect" | "terminate" => {
                wire.answer(&request, Ok(Value::Null));
                return None;
            }
            other => Err(format!("`{other}` comes behind `launch`")),
        };
        wire.answer(&request, result);
    }
    None
}

fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsEvaluateForHovers": true,
        "supportsStepBack": true,
        "supportsTerminateRequest": true,
        "supportsDataBreakpoints": true,
        "supportsExceptionInfoRequest": true,
        "exceptionBreakpointFilters": [
            { "filter": "fault", "label": "Faults of kernels", "description": "Always on.", "default": true },
            { "filter": "nan", "label": "NaN", "description": "Stops where NaN is computed.", "default": false },
        ],
    })
}

/// The output of the script, as events.
struct Output(Wire);

impl World for Output {
    fn print(&mut self, text: &str) {
        self.0.output("stdout", text);
    }

    fn show(&mut self, shown: Shown) {
        self.0.output("stdout", &picture::draw(&shown, STYLE, None));
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        disk::read(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        disk::write_whole(&disk::path_of(path), bytes)
    }
}
