//! Where the answers to requests go: to the client at once, or into the answer to a batch.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::json_rpc::MessageOutput;

/// Where the answer to a request goes.
#[derive(Clone)]
pub(super) enum ReplyTarget {
    Client(MessageOutput),
    /// The answer to a batch, which is sent when all its requests are answered.
    Batch(Arc<Batch>),
}

/// A batch whose answers are collected.
pub(super) struct Batch {
    output: MessageOutput,
    state: Mutex<PendingBatch>,
}

struct PendingBatch {
    /// Number of messages that are not yet handled.
    left: usize,
    answers: Vec<Value>,
}

impl ReplyTarget {
    /// Returns the target for the answers to a batch with this number of messages.
    pub fn batch(output: MessageOutput, messages: usize) -> ReplyTarget {
        let state = Mutex::new(PendingBatch { left: messages, answers: vec![] });
        ReplyTarget::Batch(Arc::new(Batch { output, state }))
    }

    pub fn send(&self, answer: Value) {
        match self {
            ReplyTarget::Client(output) => output.send(answer),
            ReplyTarget::Batch(batch) => batch.complete(Some(answer)),
        }
    }

    /// Records that a message has no answer.
    pub fn skip(&self) {
        if let ReplyTarget::Batch(batch) = self {
            batch.complete(None);
        }
    }
}

impl Batch {
    fn complete(&self, answer: Option<Value>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.answers.extend(answer);
        state.left = state.left.saturating_sub(1);
        if state.left == 0 && !state.answers.is_empty() {
            self.output.send(Value::Array(std::mem::take(&mut state.answers)));
        }
    }
}
