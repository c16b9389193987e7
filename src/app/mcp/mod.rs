//! `clk mcp`: a server of the Model Context Protocol on standard input and output, for agents.
//!
//! Only this module knows the protocol's JSON. The server answers messages ([`server`]) and runs each call of a tool in
//! a child process ([`calls`]), which limits itself ([`limits`]) and runs one row of the table of [`tools`]
//! ([`job`]). `docs/internals/mcp.md` describes the design.

mod arguments;
mod calls;
mod debug_at;
mod job;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
mod options;
mod reply;
mod resources;
mod schema;
mod server;
mod tool_call;
mod tools;
mod transcript;

use std::ffi::OsString;
use std::io::BufReader;
use std::sync::Arc;

use serde_json::Value;

use self::calls::CallTable;
pub(crate) use self::options::{CallLimits, McpOptions};
use self::server::McpServer;
use super::context::AppContext;
use super::exit;
use super::framing::{self, Framing, WireFrame};
use super::json_rpc::{self, MessageOutput};

/// Maximum length of a message in bytes. Longer programs are given as files.
const MAX_MESSAGE: u64 = 16 << 20;

/// Serves until the client closes the stream; returns the exit code.
pub(crate) fn main(mut options: McpOptions, context: &mut AppContext) -> u8 {
    if let Some(root) = &options.root {
        match root.canonicalize() {
            // The root and the paths in it are part of JSON messages.
            Ok(resolved) if resolved.to_str().is_none() => {
                let error = format!("error: the root `{}` is not valid UTF-8", resolved.display());
                context.console.error_line(&error);
                return exit::USAGE;
            }
            Ok(resolved) if resolved.is_dir() => options.root = Some(resolved),
            _ => {
                context.console.error_line(&format!("error: the root `{}` is not a folder", root.display()));
                return exit::USAGE;
            }
        }
    }
    let output = MessageOutput::queued(Framing::Lines);
    let calls = CallTable::new(Arc::new(options), output.clone());
    let mut server = McpServer::new(calls.clone(), output.clone());
    let mut input = BufReader::new(std::io::stdin());
    while let Ok(Some(frame)) = framing::read_message_line(&mut input, MAX_MESSAGE) {
        match frame {
            WireFrame::Message(message) => server.receive(message),
            WireFrame::Garbage(why) => {
                output.send(json_rpc::error_response(&Value::Null, json_rpc::PARSE_ERROR, &why));
            }
        }
        if output.is_closed() {
            break;
        }
    }
    calls.finish();
    exit::OK
}

/// If this process was started for a call, runs the tool and returns the exit code.
pub(crate) fn run_hidden_command(arguments: &[OsString]) -> Option<u8> {
    (arguments.get(1)? == job::COMMAND).then(job::main)
}
