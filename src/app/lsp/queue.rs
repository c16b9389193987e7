//! What the client has sent and the server has not looked at yet. In: frames, from the thread that reads. Out: the same frames in
//! their order, fewer of them: changes of one text that follow each other are one, and a request that the client takes back
//! is not done. It holds only so much; then reading waits, and with it the client.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::frame::Frame;

/// Frames that wait, at most.
const MOST_FRAMES: usize = 1024;
/// Their bytes, at most. A single frame always has room.
const MOST_BYTES: usize = 64 << 20;

/// What the server takes out.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    Frame(Frame),
    /// A request that was taken back: its id.
    Cancelled(Value),
    /// Nothing is there now.
    Nothing,
    /// Nothing will come any more.
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

    /// Adds a frame of so many bytes, once there is room.
    pub fn push(&self, frame: Frame, bytes: usize) {
        let mut state = self.lock();
        if let Frame::Message(message) = &frame
            && message.get("method").is_some_and(|method| method == "$/cancelRequest")
        {
            // What is being answered or was answered is not found, and gets its answer.
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

    /// Says that nothing more will come.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// What is next, if something is there.
    pub fn try_next(&self) -> Taken {
        self.take(&mut self.lock())
    }

    /// What is next, once something is there; never [`Taken::Nothing`].
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

    /// Adds a change to one of the same text that was the last to come; gives back every other frame.
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
        // A whole new text makes all changes before it void.
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

/// The address of the text that a notification changes.
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
        // A whole text replaces what came before it, so that a client which sends nothing else fills nothing.
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
