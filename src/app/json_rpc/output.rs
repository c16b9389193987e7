//! Sends messages to the client from any thread.

use std::io::Stdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::framing::{self, Framing};

/// Where messages to the client go.
enum MessageSink {
    Stream(Stdout, Framing),
    #[cfg(test)]
    List(Arc<Mutex<Vec<Value>>>),
}

#[derive(Clone)]
pub(crate) struct MessageOutput {
    sink: Arc<Mutex<MessageSink>>,
    /// Whether the client has closed the stream.
    closed: Arc<AtomicBool>,
}

impl MessageOutput {
    /// Creates an output that writes to standard output.
    pub fn standard(framing: Framing) -> MessageOutput {
        MessageOutput::of(MessageSink::Stream(std::io::stdout(), framing))
    }

    #[cfg(test)]
    pub fn to(list: Arc<Mutex<Vec<Value>>>) -> MessageOutput {
        MessageOutput::of(MessageSink::List(list))
    }

    fn of(sink: MessageSink) -> MessageOutput {
        MessageOutput { sink: Arc::new(Mutex::new(sink)), closed: Arc::default() }
    }

    /// Sends a message, or the messages of a batch.
    pub fn send(&self, mut message: Value) {
        match &mut message {
            Value::Array(batch) => batch.iter_mut().for_each(|message| message["jsonrpc"] = json!("2.0")),
            message => message["jsonrpc"] = json!("2.0"),
        }
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &mut *sink {
            MessageSink::Stream(stream, framing) => framing::write_framed(stream, *framing, &message),
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
