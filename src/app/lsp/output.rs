//! Messages to the client, from any thread.

use std::io::{Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::app::framing as frame;

/// Where messages go.
enum Sink {
    Stream(Stdout),
    #[cfg(test)]
    List(Arc<Mutex<Vec<Value>>>),
}

#[derive(Clone)]
pub(crate) struct Output {
    sink: Arc<Mutex<Sink>>,
    /// The client has closed the stream.
    closed: Arc<AtomicBool>,
}

impl Output {
    /// The standard output.
    pub fn standard() -> Output {
        Output::of(Sink::Stream(std::io::stdout()))
    }

    #[cfg(test)]
    pub fn to(list: Arc<Mutex<Vec<Value>>>) -> Output {
        Output::of(Sink::List(list))
    }

    fn of(sink: Sink) -> Output {
        Output { sink: Arc::new(Mutex::new(sink)), closed: Arc::default() }
    }

    pub fn send(&self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &mut *sink {
            Sink::Stream(stream) => frame::write(stream, &message).and_then(|()| stream.flush()),
            #[cfg(test)]
            Sink::List(list) => {
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
