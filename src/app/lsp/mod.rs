//! `clk lsp`: the language server, on standard input and output.
//!
//! The only module that knows the protocol's JSON. One thread reads frames into a queue; another handles them in order. A
//! change only marks its document; it is checked when a request needs it or when the queue is empty, so that fast typing is
//! checked once rather than letter by letter. Invalid input leads to an error response and never ends the server.

mod address;
mod answer;
mod convert;
mod dispatch;
mod document;
mod queue;
mod requests;
mod server;
mod text;
mod uri;
mod workspace;

use std::io::{BufReader, Write};
use std::sync::Arc;

use serde_json::{Value, json};

use self::queue::{Queue, Taken};
use self::server::Server;
use super::exit;
use super::framing::{self as frame, Frame};

/// Serves until the client sends `exit` or closes the stream.
pub(crate) fn main() -> u8 {
    let queue = Arc::new(Queue::default());
    let reader = queue.clone();
    std::thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        while let Ok(Some((frame, bytes))) = frame::read(&mut input) {
            reader.push(frame, bytes);
        }
        reader.end();
    });
    let mut server = Server::default();
    let mut output = std::io::stdout().lock();
    loop {
        let taken = match queue.try_next() {
            Taken::Nothing => {
                server.publish();
                if !send(&mut output, server.take_messages()) {
                    return exit::OK;
                }
                queue.next()
            }
            taken => taken,
        };
        match taken {
            Taken::Frame(Frame::Message(message)) => {
                if let Some(code) = server.receive(message) {
                    send(&mut output, server.take_messages());
                    return code;
                }
            }
            Taken::Frame(Frame::Garbage(why)) => server.send(answer::error(&Value::Null, answer::PARSE_ERROR, &why)),
            Taken::Cancelled(id) => server.send(answer::error(&id, answer::REQUEST_CANCELLED, "it was taken back")),
            Taken::Nothing => {}
            Taken::End => break,
        }
        if !send(&mut output, server.take_messages()) {
            return exit::OK;
        }
    }
    server.publish();
    send(&mut output, server.take_messages());
    if server.is_shut_down() { exit::OK } else { exit::FAILURE }
}

/// Sends messages; returns false if the client has closed the stream.
fn send(output: &mut impl Write, messages: Vec<Value>) -> bool {
    messages.into_iter().all(|mut message| {
        message["jsonrpc"] = json!("2.0");
        frame::write(output, &message).is_ok()
    })
}
