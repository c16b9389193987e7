//! `clk lsp`: the language server, on standard input and output.
//!
//! Only this module knows the protocol's JSON. One thread reads messages, applies changes to the documents and queues
//! requests in [`task_queues`]. A changed document is checked when a request needs the result, or when its queue is
//! otherwise empty. A further change stops an outdated check, so fast typing does not cause a check for each keystroke.
//! Invalid input causes an error response but never ends the server.

mod code_actions;
mod convert;
mod cuda_analysis;
mod cuda_requests;
mod document;
mod requests;
mod server;
mod snapshot;
mod source_places;
mod source_uri;
mod task_queues;
mod text;
mod workspace;

use std::io::BufReader;

use serde_json::Value;

use self::server::Server;
use self::task_queues::TaskQueues;
use super::exit;
use super::framing::{self as frame, Framing, WireFrame};
use super::json_rpc::{self, MessageOutput};

/// Runs the server until the client sends `exit` or closes the stream; returns the exit code.
pub(crate) fn main() -> u8 {
    let lanes = TaskQueues::new(MessageOutput::standard(Framing::Headers));
    let mut server = Server::new(lanes.clone());
    let mut input = BufReader::new(std::io::stdin());
    while let Ok(Some((frame, _))) = frame::read(&mut input) {
        match frame {
            WireFrame::Message(message) => {
                if let Some(code) = server.receive(message) {
                    return code;
                }
            }
            WireFrame::Garbage(why) => {
                lanes.output.send(json_rpc::error_response(&Value::Null, json_rpc::PARSE_ERROR, &why))
            }
        }
        if lanes.output.is_closed() {
            return exit::OK;
        }
    }
    lanes.finish();
    if server.is_shut_down() { exit::OK } else { exit::FAILURE }
}
