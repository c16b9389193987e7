//! Sends messages to the client from any thread.

use std::io::Stdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(test)]
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::queue::MessageQueue;
use crate::framing::{self, Framing};

/// Where messages to the client go.
enum MessageSink {
    Stream(Stdout, Framing),
    Queue(MessageQueue),
    #[cfg(test)]
    List(Arc<Mutex<Vec<Value>>>),
}

#[derive(Clone)]
pub(crate) struct MessageOutput {
    sink: Arc<MessageSink>,
    /// Whether the client has closed the stream, or has stopped reading it.
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
        MessageOutput { sink: Arc::new(sink), closed: Arc::default() }
    }

    /// Creates an output with a thread that writes to standard output, so that a client that does not read blocks no
    /// other thread unless many messages wait.
    pub fn queued(framing: Framing) -> MessageOutput {
        match MessageQueue::start(framing) {
            Ok(queue) => MessageOutput::of(MessageSink::Queue(queue)),
            Err(_) => MessageOutput::standard(framing),
        }
    }

    /// Sends a message, or the messages of a batch.
    pub fn send(&self, message: Value) {
        self.send_or_drop(message, false);
    }

    /// Sends a message that the client can do without. A queued output drops it if the client reads slowly.
    pub fn send_if_idle(&self, message: Value) {
        self.send_or_drop(message, true);
    }

    /// Waits until a queued output has written all messages, at most until a deadline.
    pub fn drain(&self, deadline: Instant) {
        if let MessageSink::Queue(queue) = &*self.sink {
            queue.drain(deadline);
        }
    }

    fn send_or_drop(&self, mut message: Value, may_drop: bool) {
        match &mut message {
            Value::Array(batch) => batch.iter_mut().for_each(|message| message["jsonrpc"] = json!("2.0")),
            message => message["jsonrpc"] = json!("2.0"),
        }
        let sent = match &*self.sink {
            // Holds the lock of the stream for the whole message.
            MessageSink::Stream(stream, framing) => framing::write_framed(&mut stream.lock(), *framing, &message),
            MessageSink::Queue(queue) if may_drop => {
                queue.push_if_idle(&message);
                Ok(())
            }
            MessageSink::Queue(queue) => {
                queue.push(&message);
                Ok(())
            }
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
        let is_queue_closed = matches!(&*self.sink, MessageSink::Queue(queue) if queue.is_closed());
        is_queue_closed || self.closed.load(Ordering::Relaxed)
    }
}
