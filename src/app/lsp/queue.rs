//! The queue of received frames between the reading thread and the server. Consecutive changes of one document are merged, and
//! canceled requests are not executed. Its size is limited: when it is full, reading blocks, and so does the client.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::app::framing::Frame;

/// Maximum number of queued frames.
const MOST_FRAMES: usize = 1024;
/// Maximum size of the queued frames in bytes. A single frame is always admitted.
const MOST_BYTES: usize = 64 << 20;

/// Result of taking from the queue.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    Frame(Frame),
    /// A canceled request, by its id.
    Cancelled(Value),
    /// The queue is empty.
    Nothing,
    /// The queue is empty and the stream has ended.
    End,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Taken, usize)>,
    bytes: usize,
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame of this size, waiting for space if necessary.
    pub fn push(&self, frame: Frame, bytes: usize) {
        let mut state = self.lock();
        if let Frame::Message(message) = &frame
            && message.get("method").is_some_and(|method| method == "$/cancelRequest")
        {
            // A request that is being answered or was answered is no longer queued, so its cancellation has no effect.
            state.cancel(message.pointer("/params/id").unwrap_or(&Value::Null));
            return;
        }
        while !state.waiting.is_empty()
            && (state.waiting.len() >= MOST_FRAMES || state.bytes.saturating_add(bytes) > MOST_BYTES)
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        if let Some(frame) = state.merge(frame, bytes) {
            state.waiting.push_back((Taken::Frame(frame), bytes));
        }
        self.changed.notify_all();
    }

    /// Marks the end of the stream.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Takes the next item without blocking.
    pub fn try_next(&self) -> Taken {
        self.take(&mut self.lock())
    }

    /// Waits for the next item; never returns [`Taken::Nothing`].
    pub fn next(&self) -> Taken {
        let mut state = self.lock();
        loop {
            match self.take(&mut state) {
                Taken::Nothing => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                taken => return taken,
            }
        }
    }

    fn take(&self, state: &mut State) -> Taken {
        let Some((taken, bytes)) = state.waiting.pop_front() else {
            return if state.ended { Taken::End } else { Taken::Nothing };
        };
        state.bytes -= bytes;
        self.changed.notify_all();
        taken
    }
}

impl State {
    fn cancel(&mut self, id: &Value) {
        let is_meant = |taken: &Taken| matches!(taken, Taken::Frame(Frame::Message(message)) if message.get("method").is_some() && message.get("id") == Some(id));
        if let Some((taken, _)) = self.waiting.iter_mut().find(|(taken, _)| is_meant(taken)) {
            *taken = Taken::Cancelled(id.clone());
        }
    }

    /// Merges a change into the last queued frame if that is a change of the same document; returns any other frame.
    fn merge(&mut self, frame: Frame, bytes: usize) -> Option<Frame> {
        let Some((Taken::Frame(Frame::Message(last)), held)) = self.waiting.back_mut() else { return Some(frame) };
        let Frame::Message(mut new) = frame else { return Some(frame) };
        if changed_text(last).is_none() || changed_text(last) != changed_text(&new) {
            return Some(Frame::Message(new));
        }
        let (Some(Value::Array(changes)), Some(Value::Array(more))) =
            (last.pointer_mut("/params/contentChanges"), new.pointer_mut("/params/contentChanges"))
        else {
            return Some(Frame::Message(new));
        };
        changes.append(more);
        // A full new text supersedes all changes before it.
        if let Some(whole) = changes.iter().rposition(|change| !change.get("range").is_some_and(Value::is_object))
            && changes.get(whole).is_some_and(|change| change.get("text").is_some_and(Value::is_string))
        {
            changes.drain(..whole);
        }
        if let (Some(version), Some(newer)) =
            (last.pointer_mut("/params/textDocument/version"), new.pointer("/params/textDocument/version"))
        {
            *version = newer.clone();
        }
        *held += bytes;
        None
    }
}

/// Returns the URI of the document that a notification changes.
fn changed_text(message: &Value) -> Option<&str> {
    let is_change = message.get("method").is_some_and(|method| method == "textDocument/didChange");
    message.pointer("/params/textDocument/uri").and_then(Value::as_str).filter(|_| is_change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use std::time::Duration;

    fn change(uri: &str, version: u64, change: Value) -> Frame {
        Frame::Message(json!({
            "method": "textDocument/didChange",
            "params": { "textDocument": { "uri": uri, "version": version }, "contentChanges": [change] },
        }))
    }

    fn request(id: u64) -> Frame {
        Frame::Message(json!({ "id": id, "method": "textDocument/hover" }))
    }

    fn all(queue: &Queue) -> Vec<Taken> {
        std::iter::from_fn(|| Some(queue.try_next()).filter(|taken| *taken != Taken::Nothing)).collect()
    }

    #[test]
    fn changes_that_follow_each_other_are_one() {
        let queue = Queue::default();
        let part = |text: &str| json!({ "range": {}, "text": text });
        queue.push(change("a", 1, part("x")), 10);
        queue.push(change("a", 2, part("y")), 10);
        queue.push(change("b", 3, part("z")), 10);
        queue.push(request(1), 5);
        queue.push(change("b", 4, part("w")), 10);
        let found = all(&queue);
        assert_eq!(found.len(), 4, "{found:?}");
        let Taken::Frame(Frame::Message(first)) = &found[0] else { panic!("{found:?}") };
        assert_eq!(first["params"]["contentChanges"], json!([part("x"), part("y")]));
        assert_eq!(first["params"]["textDocument"]["version"], 2);
        assert_eq!(queue.lock().bytes, 0);
        // A full text replaces queued ones, so a client that sends only full texts does not fill the queue.
        for version in 0..100 {
            queue.push(change("a", version, json!({ "text": "whole" })), 10);
        }
        let [Taken::Frame(Frame::Message(only))] = &all(&queue)[..] else { panic!("one change") };
        assert_eq!(only["params"]["contentChanges"], json!([{ "text": "whole" }]));
    }

    #[test]
    fn what_is_taken_back_is_not_done() {
        let queue = Queue::default();
        queue.push(request(1), 5);
        queue.push(request(2), 5);
        queue.push(Frame::Message(json!({ "method": "$/cancelRequest", "params": { "id": 2 } })), 5);
        queue.push(Frame::Message(json!({ "method": "$/cancelRequest", "params": { "id": 7 } })), 5);
        assert_eq!(all(&queue), [Taken::Frame(request(1)), Taken::Cancelled(json!(2))]);
        queue.end();
        assert_eq!(queue.next(), Taken::End);
    }

    #[test]
    fn it_holds_only_so_much() {
        let queue = Arc::new(Queue::default());
        let writer = queue.clone();
        let thread = std::thread::spawn(move || {
            (0..3 * MOST_FRAMES as u64).for_each(|id| writer.push(request(id), 5));
            writer.push(request(9), MOST_BYTES * 2);
            writer.push(request(9), MOST_BYTES * 2);
            writer.end();
        });
        let mut count = 0;
        loop {
            if count == 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(queue.lock().waiting.len() <= MOST_FRAMES);
            match queue.next() {
                Taken::End => break,
                _ => count += 1,
            }
        }
        assert_eq!(count, 3 * MOST_FRAMES + 2);
        thread.join().expect("the writer ends");
    }
}
