//! The coordinator in rank 0. It knows the pending calls of all ranks, which rank waits for which, and which ranks have
//! finished.
//!
//! Input: the messages of the ranks, one at a time. Output: the messages to send, each with its recipient. This module
//! does no I/O, so that tests can try messages in every order.
//!
//! The n-th collective calls of all ranks are compared as they arrive. When all ranks have made the n-th call, each
//! gets an answer. Sends and receives are matched in order, separately for each pair of ranks. If no rank can continue,
//! or one waits for a rank that has finished, all ranks end.

use std::collections::{BTreeMap, VecDeque};

use super::wire::RankMessage;
use clk_base::{alloc, stop};
use clk_host::problem::{HostResult, RuntimeError};
use clk_host::ranks::combine::combine;
use clk_host::ranks::{Collective, CollectiveCall, RankCall};
use clk_host::unwind;

/// A message and its recipient.
pub(super) type Outgoing = (u32, RankMessage);

/// A call that a rank has made, with the value that it sends.
struct ReceivedCall {
    number: u64,
    call: CollectiveCall,
    value: Vec<u8>,
    /// The text that this rank sends, if the ranks exchange texts instead of values (see [`RankMessage::Word`]).
    word: Option<String>,
}

/// The state of the communicator in rank 0.
pub(super) struct Coordinator {
    /// For each rank, the collective calls that were not answered yet.
    calls: Vec<VecDeque<ReceivedCall>>,
    /// By sender and receiver: the values that were sent but not received, and (in `waiting`) the receives that wait
    /// for a value.
    sent: BTreeMap<(u32, u32), VecDeque<ReceivedCall>>,
    waiting: BTreeMap<(u32, u32), ReceivedCall>,
    done: Vec<bool>,
    /// Whether all ranks have ended. After that, no message is answered.
    ended: bool,
}

impl Coordinator {
    pub fn new(ranks: u32) -> Coordinator {
        let each = || 0..ranks;
        Coordinator {
            calls: each().map(|_| VecDeque::new()).collect(),
            sent: BTreeMap::new(),
            waiting: BTreeMap::new(),
            done: each().map(|_| false).collect(),
            ended: false,
        }
    }

    fn ranks(&self) -> u32 {
        self.calls.len() as u32
    }

    /// Handles a message from a rank; returns the messages to send.
    pub fn handle_message(&mut self, from: u32, message: RankMessage) -> Vec<Outgoing> {
        if self.ended {
            return vec![];
        }
        let mut out = match message {
            RankMessage::Call { number, call, value } => {
                self.handle_call(from, ReceivedCall { number, call, value, word: None })
            }
            RankMessage::Word { number, call, word } => {
                self.match_call(from, ReceivedCall { number, call, value: vec![], word: Some(word) })
            }
            RankMessage::Failed { message, .. } => self.end(RankMessage::Failed { rank: from, message }),
            RankMessage::Done => self.over(from),
            _ => self.failed(from, "it sends a message that ranks do not send"),
        };
        if !self.ended
            && let Some(stuck) = self.find_deadlock()
        {
            out.extend(self.end(stuck));
        }
        out
    }

    /// Handles the loss of the connection to a rank; returns the messages to send.
    pub fn connection_lost(&mut self, rank: u32, how: &str) -> Vec<Outgoing> {
        if self.ended || self.done.get(rank as usize).copied().unwrap_or(true) {
            return vec![];
        }
        self.failed(rank, how)
    }

    /// Ends all ranks, because rank 0 can no longer serve them; returns the messages to send.
    pub fn collapse(&mut self, why: &str) -> Vec<Outgoing> {
        if self.ended { vec![] } else { self.failed(0, why) }
    }

    /// Whether the scripts of all ranks have finished, or the ranks were ended.
    pub fn is_over(&self) -> bool {
        self.ended || self.done.iter().all(|done| *done)
    }

    fn failed(&mut self, rank: u32, how: &str) -> Vec<Outgoing> {
        self.end(RankMessage::Failed { rank, message: how.to_string() })
    }

    fn end(&mut self, message: RankMessage) -> Vec<Outgoing> {
        self.ended = true;
        (0..self.ranks()).map(|rank| (rank, message.clone())).collect()
    }

    fn handle_call(&mut self, from: u32, made: ReceivedCall) -> Vec<Outgoing> {
        let sends_value = match made.call.op {
            _ if made.call.by_device => false,
            Collective::Receive { .. } => false,
            Collective::Broadcast { from: root } => root == from,
            _ => true,
        };
        if made.value.len() as u64 != if sends_value { made.call.bytes } else { 0 } {
            return self.failed(from, "it sends a value whose length differs from the announced one");
        }
        match made.call.op {
            Collective::Send { to } if to < self.ranks() && to != from => {
                if self.is_done(to) {
                    return self.end_over(from, made.call, to);
                }
                self.sent.entry((from, to)).or_default().push_back(made);
                self.deliver((from, to))
            }
            Collective::Receive { from: sender } if sender < self.ranks() && sender != from => {
                let pair = (sender, from);
                if self.is_done(sender) && self.sent.get(&pair).is_none_or(VecDeque::is_empty) {
                    return self.end_over(from, made.call, sender);
                }
                self.waiting.insert(pair, made);
                self.deliver(pair)
            }
            Collective::Send { .. } | Collective::Receive { .. } => self.failed(from, "it names a rank that is none"),
            _ => self.match_call(from, made),
        }
    }

    fn is_done(&self, rank: u32) -> bool {
        self.done.get(rank as usize).copied().unwrap_or(false)
    }

    fn end_over(&mut self, rank: u32, call: CollectiveCall, over: u32) -> Vec<Outgoing> {
        self.end(RankMessage::Over { waits: RankCall { rank, call }, over })
    }

    /// If a value was sent and a receive is waiting for it, answers the receive.
    fn deliver(&mut self, pair: (u32, u32)) -> Vec<Outgoing> {
        let Some(sent) = self.sent.get_mut(&pair) else { return vec![] };
        if sent.is_empty() || !self.waiting.contains_key(&pair) {
            return vec![];
        }
        let (Some(sent), Some(waits)) = (sent.pop_front(), self.waiting.remove(&pair)) else { return vec![] };
        if !sent.call.has_same_value_type(&waits.call) {
            let (one, other) =
                (RankCall { rank: pair.0, call: sent.call }, RankCall { rank: pair.1, call: waits.call });
            return self.end(RankMessage::Differ { one, other, stuck: false });
        }
        vec![(pair.1, RankMessage::Answer { number: waits.number, value: sent.value })]
    }

    /// Handles a collective call of one rank. Compares it with the same call of the other ranks.
    fn match_call(&mut self, from: u32, made: ReceivedCall) -> Vec<Outgoing> {
        let own = self.calls[from as usize].len();
        let is_over = |&rank: &u32| self.is_done(rank) && self.calls[rank as usize].len() <= own;
        if let Some(over) = (0..self.ranks()).find(is_over) {
            return self.end_over(from, made.call, over);
        }
        let same = self.calls.iter().enumerate().find_map(|(rank, calls)| Some((rank as u32, calls.get(own)?)));
        if let Some((rank, other)) = same
            && !(other.call.matches(&made.call) && other.word.is_some() == made.word.is_some())
        {
            let (one, two) = (RankCall { rank, call: other.call.clone() }, RankCall { rank: from, call: made.call });
            let (one, other) = if one.rank < two.rank { (one, two) } else { (two, one) };
            return self.end(RankMessage::Differ { one, other, stuck: false });
        }
        self.calls[from as usize].push_back(made);
        let mut out = vec![];
        while self.calls.iter().all(|calls| !calls.is_empty()) {
            let all: Vec<ReceivedCall> = self.calls.iter_mut().filter_map(VecDeque::pop_front).collect();
            out.extend(answers(&all));
        }
        out
    }

    fn over(&mut self, rank: u32) -> Vec<Outgoing> {
        if let Some(done) = self.done.get_mut(rank as usize) {
            *done = true;
        }
        // This rank makes no further calls, so a rank that waits for one would wait forever.
        let own = self.calls.get(rank as usize).map_or(0, VecDeque::len);
        let others = self.calls.iter().enumerate();
        let waits = others.filter_map(|(other, calls)| Some((other as u32, calls.get(own)?.call.clone())));
        let received =
            |(pair, made): (&(u32, u32), &ReceivedCall)| (pair.0 == rank).then(|| (pair.1, made.call.clone()));
        let unread = |(pair, all): (&(u32, u32), &VecDeque<ReceivedCall>)| {
            all.front().filter(|_| pair.1 == rank).map(|made| (pair.0, made.call.clone()))
        };
        let unmatched =
            waits.chain(self.waiting.iter().filter_map(received)).chain(self.sent.iter().filter_map(unread)).next();
        if let Some((other, call)) = unmatched {
            return self.end_over(other, call, rank);
        }
        if self.is_over() {
            return (0..self.ranks()).map(|rank| (rank, RankMessage::AllDone)).collect();
        }
        vec![]
    }

    /// If no rank can continue (a deadlock), returns the message that reports this to all ranks.
    fn find_deadlock(&self) -> Option<RankMessage> {
        let waits = |rank: u32| {
            let together = self.calls.get(rank as usize).and_then(VecDeque::front);
            let receives = self.waiting.iter().find(|(pair, _)| pair.1 == rank).map(|(_, made)| made);
            together.or(receives).map(|made| RankCall { rank, call: made.call.clone() })
        };
        let left: Vec<u32> = (0..self.ranks()).filter(|&rank| !self.is_done(rank)).collect();
        let all: Vec<RankCall> = left.iter().map_while(|&rank| waits(rank)).collect();
        if all.len() < left.len() || all.len() < 2 {
            return None;
        }
        let mut all = all.into_iter();
        let one = all.next()?;
        // Two ranks that wait in different calls explain a deadlock best. Reports such a pair if there is one.
        let rest: Vec<RankCall> = all.collect();
        let other = rest.iter().find(|of| of.call.op != one.call.op).or(rest.first())?.clone();
        Some(RankMessage::Differ { one, other, stuck: true })
    }
}

/// Returns the answers to a collective call. `all` are the calls of all ranks.
fn answers(all: &[ReceivedCall]) -> Vec<Outgoing> {
    let Some(first) = all.first() else { return vec![] };
    let to = |rank: usize, value: Vec<u8>| (rank as u32, RankMessage::Answer { number: all[rank].number, value });
    let each = 0..all.len();
    if first.word.is_some() {
        let words: Vec<String> = all.iter().map(|made| made.word.clone().unwrap_or_default()).collect();
        let to = |rank: usize| RankMessage::Words { number: all[rank].number, words: words.clone() };
        return each.map(|rank| (rank as u32, to(rank))).collect();
    }
    if first.call.by_device {
        return each.map(|rank| (rank as u32, RankMessage::Fits { number: all[rank].number })).collect();
    }
    // A stop request must not interrupt this computation, because the other ranks would wait for their answers.
    match unwind::catch_stop(stop::StopFlag::default(), || collective_results(first, all)) {
        Ok(Ok(values)) => values.into_iter().enumerate().map(|(rank, value)| to(rank, value)).collect(),
        Ok(Err(problem)) => cannot_perform(all, problem.code, &problem.title, &problem.notes),
        Err(why) => {
            let why = why.anywhere();
            let note = format!("rank 0 needs it for the {} of all ranks", first.call.describe());
            cannot_perform(all, why.code, &why.title, &[note])
        }
    }
}

fn cannot_perform(all: &[ReceivedCall], code: &str, title: &str, notes: &[String]) -> Vec<Outgoing> {
    let to = |made: &ReceivedCall| RankMessage::Unable {
        number: made.number,
        code: code.to_string(),
        title: title.to_string(),
        notes: notes.to_vec(),
    };
    all.iter().enumerate().map(|(rank, made)| (rank as u32, to(made))).collect()
}

/// Computes the results of a collective call, one for each rank.
///
/// # Unwinds
/// like [`alloc::vec()`].
fn collective_results(first: &ReceivedCall, all: &[ReceivedCall]) -> HostResult<Vec<Vec<u8>>> {
    let values: Vec<&[u8]> = all.iter().map(|made| &made.value[..]).collect();
    let whole = match first.call.op {
        Collective::AllReduce(op) | Collective::ReduceScatter(op) => match first.call.scalar {
            Some(scalar) => combine(op, scalar, &values)?,
            None => return Err(RuntimeError::new("E0554", "a sum of what has no numbers")),
        },
        Collective::AllGather => {
            let mut whole = alloc::vec(values.iter().map(|value| value.len()).sum());
            values.iter().for_each(|value| alloc::append(&mut whole, value));
            whole
        }
        Collective::Broadcast { from } => values.get(from as usize).map(|value| alloc::copy(value)).unwrap_or_default(),
        Collective::Send { .. } | Collective::Receive { .. } => vec![],
    };
    if let Collective::ReduceScatter(_) = first.call.op {
        let part = whole.len() / all.len();
        return Ok((0..all.len()).map(|rank| alloc::copy(&whole[rank * part..(rank + 1) * part])).collect());
    }
    let mut values: Vec<Vec<u8>> = (1..all.len()).map(|_| alloc::copy(&whole)).collect();
    values.push(whole);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_base::source::{FileId, Span};
    use clk_host::ranks::ReduceOp;
    use clk_scalar::Scalar;

    fn call(deed: Collective, count: u64) -> CollectiveCall {
        CollectiveCall {
            op: deed,
            element: "i32".into(),
            scalar: Some(Scalar::I32),
            shape: Some(vec![count]),
            bytes: 4 * count,
            by_device: false,
            span: Span::new(FileId(0), 0, 1),
        }
    }

    fn collective_call(number: u64, deed: Collective, numbers: &[i32]) -> RankMessage {
        let value = bytemuck::cast_slice(numbers).to_vec();
        RankMessage::Call { number, call: call(deed, numbers.len() as u64), value }
    }

    fn silent(number: u64, deed: Collective, count: u64) -> RankMessage {
        RankMessage::Call { number, call: call(deed, count), value: vec![] }
    }

    fn answers(out: Vec<Outgoing>) -> Vec<(u32, u64, Vec<i32>)> {
        let one = |(rank, message)| match message {
            RankMessage::Answer { number, value } => {
                (rank, number, value.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect())
            }
            other => panic!("an answer was expected, not {other:?}"),
        };
        out.into_iter().map(one).collect()
    }

    const SUM: Collective = Collective::AllReduce(ReduceOp::Sum);

    #[test]
    fn call_numbers_of_ranks_may_differ() {
        let mut hub = Coordinator::new(2);
        for number in 1..=3 {
            assert!(
                hub.handle_message(
                    0,
                    RankMessage::Call {
                        number,
                        call: CollectiveCall { by_device: true, ..call(SUM, 1) },
                        value: vec![]
                    }
                )
                .is_empty()
            );
        }
        let device_call = |number| RankMessage::Call {
            number,
            call: CollectiveCall { by_device: true, ..call(SUM, 1) },
            value: vec![],
        };
        assert_eq!(
            hub.handle_message(1, device_call(9)),
            vec![(0, RankMessage::Fits { number: 1 }), (1, RankMessage::Fits { number: 9 })]
        );
        assert_eq!(hub.handle_message(1, device_call(10)).len(), 2);
    }

    #[test]
    fn results_of_all_collectives() {
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(1, collective_call(1, SUM, &[1, 2])).is_empty());
        assert_eq!(
            answers(hub.handle_message(0, collective_call(5, SUM, &[10, 20]))),
            [(0, 5, vec![11, 22]), (1, 1, vec![11, 22])]
        );
        hub.handle_message(0, collective_call(6, Collective::AllGather, &[1]));
        assert_eq!(answers(hub.handle_message(1, collective_call(2, Collective::AllGather, &[2])))[1].2, [1, 2]);
        hub.handle_message(0, collective_call(7, Collective::ReduceScatter(ReduceOp::Max), &[1, 8]));
        let cut = answers(hub.handle_message(1, collective_call(3, Collective::ReduceScatter(ReduceOp::Max), &[4, 5])));
        assert_eq!(cut, [(0, 7, vec![4]), (1, 3, vec![8])]);
        hub.handle_message(0, silent(8, Collective::Broadcast { from: 1 }, 1));
        assert_eq!(
            answers(hub.handle_message(1, collective_call(4, Collective::Broadcast { from: 1 }, &[3])))[0].2,
            [3]
        );
    }

    #[test]
    fn messages_arrive_in_order() {
        let mut hub = Coordinator::new(3);
        assert!(hub.handle_message(0, collective_call(1, Collective::Send { to: 2 }, &[1])).is_empty());
        assert!(hub.handle_message(0, collective_call(2, Collective::Send { to: 2 }, &[2])).is_empty());
        for (number, wanted) in [(1, 1), (2, 2)] {
            let got = answers(hub.handle_message(2, silent(number, Collective::Receive { from: 0 }, 1)));
            assert_eq!(got, [(2, number, vec![wanted])]);
        }
        assert!(hub.handle_message(2, silent(3, Collective::Receive { from: 1 }, 1)).is_empty());
        assert_eq!(
            answers(hub.handle_message(1, collective_call(1, Collective::Send { to: 2 }, &[7]))),
            [(2, 3, vec![7])]
        );
    }

    fn ending(out: &[Outgoing]) -> &RankMessage {
        assert!(out.windows(2).all(|pair| pair[0].1 == pair[1].1), "all ranks hear the same");
        &out.last().expect("a message").1
    }

    #[test]
    fn different_calls_end_all_ranks() {
        let differ = |one: RankMessage, other: RankMessage| {
            let mut hub = Coordinator::new(3);
            assert!(hub.handle_message(1, one).is_empty());
            let out = hub.handle_message(0, other);
            assert!(
                matches!(ending(&out), RankMessage::Differ { one, other, stuck: false } if one.rank == 0 && other.rank == 1),
                "{out:?}"
            );
            assert_eq!(out.len(), 3);
            assert!(hub.handle_message(2, collective_call(1, SUM, &[1])).is_empty(), "nothing is answered any more");
        };
        differ(collective_call(1, SUM, &[1]), collective_call(1, SUM, &[1, 2]));
        differ(collective_call(1, SUM, &[1]), collective_call(1, Collective::AllReduce(ReduceOp::Min), &[1]));
        differ(collective_call(1, SUM, &[1]), collective_call(1, Collective::AllGather, &[1]));
        differ(
            collective_call(1, Collective::Broadcast { from: 1 }, &[1]),
            collective_call(1, Collective::Broadcast { from: 0 }, &[1]),
        );
    }

    #[test]
    fn impossible_wait_is_an_error() {
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, silent(1, Collective::Receive { from: 1 }, 1)).is_empty());
        let out = hub.handle_message(1, collective_call(1, SUM, &[1]));
        assert!(matches!(ending(&out), RankMessage::Differ { stuck: true, .. }), "{out:?}");
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, RankMessage::Done).is_empty());
        assert!(matches!(
            ending(&hub.handle_message(1, collective_call(1, SUM, &[1]))),
            RankMessage::Over { over: 0, .. }
        ));
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, collective_call(1, SUM, &[1])).is_empty());
        assert!(
            matches!(ending(&hub.handle_message(1, RankMessage::Done)), RankMessage::Over { over: 1, waits } if waits.rank == 0)
        );
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, collective_call(1, Collective::Send { to: 1 }, &[1])).is_empty());
        assert!(
            matches!(ending(&hub.handle_message(1, RankMessage::Done)), RankMessage::Over { over: 1, waits } if waits.rank == 0)
        );
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, silent(1, Collective::Receive { from: 1 }, 1)).is_empty());
        assert!(matches!(ending(&hub.handle_message(1, RankMessage::Done)), RankMessage::Over { over: 1, .. }));
    }

    #[test]
    fn lost_rank_ends_others_unless_its_script_finished() {
        let mut hub = Coordinator::new(2);
        let gone = RankMessage::Failed { rank: 1, message: "gone".into() };
        assert_eq!(hub.connection_lost(1, "gone"), vec![(0, gone.clone()), (1, gone)]);
        let mut hub = Coordinator::new(2);
        assert!(
            hub.handle_message(1, RankMessage::Done).is_empty()
                && hub.connection_lost(1, "gone").is_empty()
                && !hub.is_over()
        );
        assert_eq!(hub.handle_message(0, RankMessage::Done).len(), 2);
        assert!(hub.is_over());
    }

    #[test]
    fn collapse_ends_all_ranks_once() {
        let mut hub = Coordinator::new(2);
        assert!(hub.handle_message(0, RankMessage::Done).is_empty(), "even if the script of rank 0 is over");
        let out = hub.collapse("no memory");
        assert!(matches!(ending(&out), RankMessage::Failed { rank: 0, .. }) && out.len() == 2);
        assert!(hub.collapse("no memory").is_empty() && hub.is_over());
    }

    #[test]
    fn invalid_calls_are_refused() {
        for message in [
            RankMessage::Welcome,
            collective_call(1, Collective::Send { to: 7 }, &[1]),
            collective_call(1, Collective::Send { to: 1 }, &[1]),
            silent(1, SUM, 4),
            collective_call(1, Collective::Receive { from: 0 }, &[1]),
        ] {
            let mut hub = Coordinator::new(2);
            assert!(matches!(ending(&hub.handle_message(1, message)), RankMessage::Failed { rank: 1, .. }));
        }
    }

    #[test]
    fn sum_overflow_is_refused_for_all() {
        let mut hub = Coordinator::new(2);
        hub.handle_message(0, collective_call(1, SUM, &[i32::MAX]));
        let out = hub.handle_message(1, collective_call(1, SUM, &[1]));
        assert!(out.iter().all(|(_, message)| matches!(message, RankMessage::Unable { code, .. } if code == "E0612")));
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn agreement_reaches_all_ranks() {
        let mut hub = Coordinator::new(2);
        let word = |text: &str| RankMessage::Word { number: 1, call: call(SUM, 1), word: text.into() };
        assert!(hub.handle_message(1, word("b")).is_empty());
        let words = RankMessage::Words { number: 1, words: vec!["a".into(), "b".into()] };
        assert_eq!(hub.handle_message(0, word("a")), vec![(0, words.clone()), (1, words)]);
    }
}
