//! `clk lsp`: the language server, on standard input and output.
//!
//! The only module that knows the protocol's JSON. One thread reads messages: it applies changes to the documents and hands requests to
//! [`lanes`], where they are computed, so that it can cancel them at any time. A changed document is checked when a request needs it or
//! when its lane has nothing else to do, and a check that another change outdates is stopped, so that fast typing is checked once rather than
//! letter by letter. Invalid input leads to an error response and never ends the server.

mod address;
mod answer;
mod convert;
mod document;
mod lanes;
mod output;
mod requests;
mod server;
mod text;
mod uri;
mod view;
mod workspace;

use std::io::BufReader;

use serde_json::Value;

use self::lanes::Lanes;
use self::output::Output;
use self::server::Server;
use super::exit;
use super::framing::{self as frame, Frame};

/// Serves until the client sends `exit` or closes the stream.
pub(crate) fn main() -> u8 {
    let lanes = Lanes::new(Output::standard());
    let mut server = Server::new(lanes.clone());
    let mut input = BufReader::new(std::io::stdin());
    while let Ok(Some((frame, _))) = frame::read(&mut input) {
        match frame {
            Frame::Message(message) => {
                if let Some(code) = server.receive(message) {
                    return code;
                }
            }
            Frame::Garbage(why) => lanes.output.send(answer::error(&Value::Null, answer::PARSE_ERROR, &why)),
        }
        if lanes.output.is_closed() {
            return exit::OK;
        }
    }
    lanes.finish();
    if server.is_shut_down() { exit::OK } else { exit::FAILURE }
}
