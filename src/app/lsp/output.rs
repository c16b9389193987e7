//! Sends messages to the client from any thread.

use std::io::{Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::framing as frame;

/// Where messages to the client go.
enum MessageSink {
    Stream(Stdout),
    #[cfg(test)]
    List(Arc<Mutex<Vec<Value>>>),
}

#[derive(Clone)]
pub(crate) struct LspOutput {
    sink: Arc<Mutex<MessageSink>>,
    /// Whether the client has closed the stream.
    closed: Arc<AtomicBool>,
}

impl LspOutput {
    /// Creates an output that writes to standard output.
    pub fn standard() -> LspOutput {
        LspOutput::of(MessageSink::Stream(std::io::stdout()))
    }

    #[cfg(test)]
    pub fn to(list: Arc<Mutex<Vec<Value>>>) -> LspOutput {
        LspOutput::of(MessageSink::List(list))
    }

    fn of(sink: MessageSink) -> LspOutput {
        LspOutput { sink: Arc::new(Mutex::new(sink)), closed: Arc::default() }
    }

    pub fn send(&self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &mut *sink {
            MessageSink::Stream(stream) => frame::write(stream, &message).and_then(|()| stream.flush()),
            #[cfg(test)]
            MessageSink::List(list) => {
                list.lock().unwrap_or_else(PoisonError::into_inner).push(message);
                Ok(())
            }
        };
        if sent.is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
