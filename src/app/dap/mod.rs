//! `clk dap`: the debugger for editors, by the Debug Adapter Protocol, on standard input and output.
//!
//! Only this module knows the protocol's JSON. One thread reads requests and interrupts the program when the client
//! requests it. Another thread runs the program and answers requests while it is stopped. An invalid request gets an
//! error, and the session continues.

mod breakpoints;
mod frontend;
mod variables;
mod wire;

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use self::frontend::{EditorFrontEnd, SharedTraffic};
use self::variables::VariableRefs;
use self::wire::{DapRequest, DapWire};
use super::context::AppContext;
use super::cuda_launches::CudaLaunchOptions;
use super::debug::{self, DebugTarget};
use super::framing::{self, WireFrame};
use super::interrupt::Interrupt;
use super::{disk, exit, picture, script};
use clk_base::file_error::FileError;
use clk_base::render::{self, RenderStyle};
use clk_host::files::ByteSource;
use clk_host::interp::HostEffects;
use clk_host::picture::shown::ShownPicture;

/// Style of diagnostics in an editor.
const STYLE: RenderStyle = RenderStyle { color: false, ascii: false, width: 100 };

/// Serves until the client disconnects or closes the stream.
pub(crate) fn main(context: &mut AppContext) -> u8 {
    let wire = DapWire::new(std::io::stdout());
    let (sender, requests) = channel();
    let shared = SharedTraffic::default();
    context.interrupt.be_patient(u32::MAX);
    {
        let (wire, shared, interrupt) = (wire.clone(), shared.clone(), context.interrupt.clone());
        std::thread::spawn(move || read(&wire, &sender, &shared, &interrupt));
    }
    let Some(launch) = launch_request(&wire, &requests) else { return exit::OK };
    let program = launch.text("program").unwrap_or_default().to_string();
    let arguments = launch.arguments.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let args: Vec<String> = arguments.iter().filter_map(Value::as_str).map(str::to_string).collect();
    let Some(mut compiled) = script::compile_file(Path::new(&program), &mut context.console) else {
        wire.answer(
            &launch,
            Err(format!("`{program}` has mistakes, or cannot be read: `clk check {program}` lists them").into()),
        );
        wire.event("terminated", json!({}));
        // Answers requests until the client sends `disconnect`.
        while requests.recv().is_ok_and(|request| {
            wire.answer(&request, Ok(Value::Null));
            request.command != "disconnect"
        }) {}
        return exit::FAILURE;
    };
    let target = match compiled.is_cuda() {
        true => DebugTarget::of_cuda(&mut compiled, &CudaLaunchOptions::default(), context),
        false => Ok(DebugTarget::Statements),
    };
    let target = match target {
        Ok(target) => target,
        Err(why) => {
            wire.answer(&launch, Err(why));
            return exit::FAILURE;
        }
    };
    wire.answer(&launch, Ok(Value::Null));
    wire.event("initialized", json!({}));
    if context.limits.checks().any() {
        wire.output("console", &format!("note: {}; the exception filter `nan` stops at NaN\n", debug::UNCHECKED));
    }
    let editor = EditorFrontEnd {
        wire: wire.clone(),
        requests,
        shared,
        interrupt: context.interrupt.clone(),
        refs: VariableRefs::default(),
        stop_on_entry: launch.arguments.get("stopOnEntry").and_then(Value::as_bool).unwrap_or(false),
        has_begun: false,
        is_over: false,
    };
    let mut world = DapOutput(wire.clone());
    let ended = |code: u8| wire.event("exited", json!({ "exitCode": code }));
    let code = debug::runs(&compiled, &target, &args, context, Box::new(editor), &mut world, &mut |found| {
        wire.output("stderr", &(render::text(found, &compiled.session.sources, STYLE) + "\n"));
    });
    ended(code);
    exit::OK
}

/// Reads requests until the stream ends. Interrupts the program if the client requests it.
fn read(wire: &DapWire, to: &Sender<DapRequest>, shared: &SharedTraffic, interrupt: &Interrupt) {
    let mut input = BufReader::new(std::io::stdin());
    while let Ok(Some((frame, _))) = framing::read(&mut input) {
        let request = match frame {
            WireFrame::Message(message) => match DapRequest::of(&message) {
                Some(request) => request,
                None => {
                    let seq = message.get("seq").and_then(Value::as_i64).unwrap_or(0);
                    let unknown = DapRequest { seq, command: "unknown".into(), arguments: Value::Null };
                    wire.answer(&unknown, Err("this is not a request".into()));
                    continue;
                }
            },
            WireFrame::Garbage(why) => {
                let unknown = DapRequest { seq: 0, command: "unknown".into(), arguments: Value::Null };
                wire.answer(&unknown, Err(format!("a message that cannot be read: {why}").into()));
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

/// Answers requests until the client sends `launch`; `None` if it never does.
fn launch_request(wire: &DapWire, requests: &Receiver<DapRequest>) -> Option<DapRequest> {
    while let Ok(request) = requests.recv() {
        let result = match request.command.as_str() {
            "initialize" => Ok(capabilities()),
            "launch" if request.text("program").is_some() => return Some(request),
            "launch" => Err("`program` is the file to run".into()),
            "disconnect" | "terminate" => {
                wire.answer(&request, Ok(Value::Null));
                return None;
            }
            other => Err(format!("`{other}` must follow `launch`").into()),
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

/// Sends the script's output as events.
struct DapOutput(DapWire);

impl HostEffects for DapOutput {
    fn print(&mut self, text: &str) {
        self.0.output("stdout", text);
    }

    fn show(&mut self, shown: ShownPicture) {
        self.0.output("stdout", &picture::draw(&shown, STYLE, None));
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        disk::read(&disk::path_of(path))
    }

    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        disk::open_parts(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        disk::write_atomically(&disk::path_of(path), bytes)
    }
}
