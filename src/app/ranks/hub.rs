//! What rank 0 knows of all ranks: which calls they make, who waits for whom, who has ended.
//!
//! Input: the messages of the ranks, one at a time. Output: the messages that follow from each, with those that they are for. It does no I/O,
//! so that every order in which messages may arrive can be tested.
//!
//! Calls of one number are compared as they arrive; when those of all ranks are here, each gets its answer. Sends and receives are matched
//! for each pair of ranks in order. If no rank can go on, or one waits for a rank that is over, all end.

use std::collections::{BTreeMap, VecDeque};

use super::wire::Message;
use crate::base::{room, stop};
use crate::host::problem::{Outcome, Problem};
use crate::host::ranks::combine::combine;
use crate::host::ranks::{Call, Deed, Of};
use crate::host::unwind;

/// A message, and the rank it is for.
pub(super) type Outgoing = (u32, Message);

/// The call of one rank, with the value it gives.
struct Made {
    number: u64,
    call: Call,
    value: Vec<u8>,
    /// The word, if it is not the call but what is agreed on before.
    word: Option<String>,
}

/// What rank 0 knows of all ranks.
pub(super) struct Hub {
    /// By rank: the calls that all ranks make, and that have no answer yet.
    calls: Vec<VecDeque<Made>>,
    /// Values that were sent, and receives that wait: by sender and receiver.
    sent: BTreeMap<(u32, u32), VecDeque<Made>>,
    waiting: BTreeMap<(u32, u32), Made>,
    done: Vec<bool>,
    /// Nothing is answered any more.
    ended: bool,
}

impl Hub {
    pub fn new(ranks: u32) -> Hub {
        let each = || 0..ranks;
        Hub {
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

    /// Takes the message of a rank.
    pub fn take(&mut self, from: u32, message: Message) -> Vec<Outgoing> {
        if self.ended {
            return vec![];
        }
        let mut out = match message {
            Message::Call { number, call, value } => self.called(from, Made { number, call, value, word: None }),
            Message::Word { number, call, word } => {
                self.together(from, Made { number, call, value: vec![], word: Some(word) })
            }
            Message::Failed { message, .. } => self.end(Message::Failed { rank: from, message }),
            Message::Done => self.over(from),
            _ => self.failed(from, "it sends what a rank does not send"),
        };
        if !self.ended
            && let Some(stuck) = self.stuck()
        {
            out.extend(self.end(stuck));
        }
        out
    }

    /// Takes note that a rank is gone without a word.
    pub fn lost(&mut self, rank: u32, how: &str) -> Vec<Outgoing> {
        if self.ended || self.done.get(rank as usize).copied().unwrap_or(true) {
            return vec![];
        }
        self.failed(rank, how)
    }

    /// Ends all ranks because rank 0 cannot serve them any more.
    pub fn collapse(&mut self, why: &str) -> Vec<Outgoing> {
        if self.ended { vec![] } else { self.failed(0, why) }
    }

    /// Whether the scripts of all ranks are over, or the ranks have ended.
    pub fn is_over(&self) -> bool {
        self.ended || self.done.iter().all(|done| *done)
    }

    fn failed(&mut self, rank: u32, how: &str) -> Vec<Outgoing> {
        self.end(Message::Failed { rank, message: how.to_string() })
    }

    fn end(&mut self, message: Message) -> Vec<Outgoing> {
        self.ended = true;
        (0..self.ranks()).map(|rank| (rank, message.clone())).collect()
    }

    fn called(&mut self, from: u32, made: Made) -> Vec<Outgoing> {
        let gives = match made.call.deed {
            _ if made.call.by_device => false,
            Deed::Receive { .. } => false,
            Deed::Broadcast { from: root } => root == from,
            _ => true,
        };
        if made.value.len() as u64 != if gives { made.call.bytes } else { 0 } {
            return self.failed(from, "it sends a value that is not as long as it says");
        }
        match made.call.deed {
            Deed::Send { to } if to < self.ranks() && to != from => {
                if self.is_done(to) {
                    return self.end_over(from, made.call, to);
                }
                self.sent.entry((from, to)).or_default().push_back(made);
                self.deliver((from, to))
            }
            Deed::Receive { from: sender } if sender < self.ranks() && sender != from => {
                let pair = (sender, from);
                if self.is_done(sender) && self.sent.get(&pair).is_none_or(VecDeque::is_empty) {
                    return self.end_over(from, made.call, sender);
                }
                self.waiting.insert(pair, made);
                self.deliver(pair)
            }
            Deed::Send { .. } | Deed::Receive { .. } => self.failed(from, "it names a rank that is none"),
            _ => self.together(from, made),
        }
    }

    fn is_done(&self, rank: u32) -> bool {
        self.done.get(rank as usize).copied().unwrap_or(false)
    }

    fn end_over(&mut self, rank: u32, call: Call, over: u32) -> Vec<Outgoing> {
        self.end(Message::Over { waits: Of { rank, call }, over })
    }

    /// Gives what was sent to who waits for it.
    fn deliver(&mut self, pair: (u32, u32)) -> Vec<Outgoing> {
        let Some(sent) = self.sent.get_mut(&pair) else { return vec![] };
        if sent.is_empty() || !self.waiting.contains_key(&pair) {
            return vec![];
        }
        let (Some(sent), Some(waits)) = (sent.pop_front(), self.waiting.remove(&pair)) else { return vec![] };
        if !sent.call.is_like(&waits.call) {
            let (one, other) = (Of { rank: pair.0, call: sent.call }, Of { rank: pair.1, call: waits.call });
            return self.end(Message::Differ { one, other, stuck: false });
        }
        vec![(pair.1, Message::Answer { number: waits.number, value: sent.value })]
    }

    /// Takes a call that all ranks make.
    fn together(&mut self, from: u32, made: Made) -> Vec<Outgoing> {
        let own = self.calls[from as usize].len();
        let is_over = |&rank: &u32| self.is_done(rank) && self.calls[rank as usize].len() <= own;
        if let Some(over) = (0..self.ranks()).find(is_over) {
            return self.end_over(from, made.call, over);
        }
        let same = self.calls.iter().enumerate().find_map(|(rank, calls)| Some((rank as u32, calls.get(own)?)));
        if let Some((rank, other)) = same
            && !(other.call.fits(&made.call) && other.word.is_some() == made.word.is_some())
        {
            let (one, two) = (Of { rank, call: other.call.clone() }, Of { rank: from, call: made.call });
            let (one, other) = if one.rank < two.rank { (one, two) } else { (two, one) };
            return self.end(Message::Differ { one, other, stuck: false });
        }
        self.calls[from as usize].push_back(made);
        let mut out = vec![];
        while self.calls.iter().all(|calls| !calls.is_empty()) {
            let all: Vec<Made> = self.calls.iter_mut().filter_map(VecDeque::pop_front).collect();
            out.extend(answers(&all));
        }
        out
    }

    fn over(&mut self, rank: u32) -> Vec<Outgoing> {
        if let Some(done) = self.done.get_mut(rank as usize) {
            *done = true;
        }
        // Who waits for this rank waits in vain.
        let own = self.calls.get(rank as usize).map_or(0, VecDeque::len);
        let others = self.calls.iter().enumerate();
        let waits = others.filter_map(|(other, calls)| Some((other as u32, calls.get(own)?.call.clone())));
        let received = |(pair, made): (&(u32, u32), &Made)| (pair.0 == rank).then(|| (pair.1, made.call.clone()));
        let unread = |(pair, all): (&(u32, u32), &VecDeque<Made>)| {
            all.front().filter(|_| pair.1 == rank).map(|made| (pair.0, made.call.clone()))
        };
        let found =
            waits.chain(self.waiting.iter().filter_map(received)).chain(self.sent.iter().filter_map(unread)).next();
        if let Some((other, call)) = found {
            return self.end_over(other, call, rank);
        }
        if self.is_over() {
            return (0..self.ranks()).map(|rank| (rank, Message::AllDone)).collect();
        }
        vec![]
    }

    /// Returns the message that ends ranks of which none can go on.
    fn stuck(&self) -> Option<Message> {
        let waits = |rank: u32| {
            let together = self.calls.get(rank as usize).and_then(VecDeque::front);
            let receives = self.waiting.iter().find(|(pair, _)| pair.1 == rank).map(|(_, made)| made);
            together.or(receives).map(|made| Of { rank, call: made.call.clone() })
        };
        let left: Vec<u32> = (0..self.ranks()).filter(|&rank| !self.is_done(rank)).collect();
        let all: Vec<Of> = left.iter().map_while(|&rank| waits(rank)).collect();
        if all.len() < left.len() || all.len() < 2 {
            return None;
        }
        let mut all = all.into_iter();
        let one = all.next()?;
        // One that waits for something else says most.
        let rest: Vec<Of> = all.collect();
        let other = rest.iter().find(|of| of.call.deed != one.call.deed).or(rest.first())?.clone();
        Some(Message::Differ { one, other, stuck: true })
    }
}

/// Returns the answers to the calls of all ranks.
fn answers(all: &[Made]) -> Vec<Outgoing> {
    let Some(first) = all.first() else { return vec![] };
    let to = |rank: usize, value: Vec<u8>| (rank as u32, Message::Answer { number: all[rank].number, value });
    let each = 0..all.len();
    if first.word.is_some() {
        let words: Vec<String> = all.iter().map(|made| made.word.clone().unwrap_or_default()).collect();
        let to = |rank: usize| Message::Words { number: all[rank].number, words: words.clone() };
        return each.map(|rank| (rank as u32, to(rank))).collect();
    }
    if first.call.by_device {
        return each.map(|rank| (rank as u32, Message::Fits { number: all[rank].number })).collect();
    }
    // A stop request must not end this halfway: the other ranks would wait for their answers.
    match unwind::caught(stop::Flag::default(), || values(first, all)) {
        Ok(Ok(values)) => values.into_iter().enumerate().map(|(rank, value)| to(rank, value)).collect(),
        Ok(Err(problem)) => unable(all, problem.code, &problem.title, &problem.notes),
        Err(why) => {
            let why = why.anywhere();
            let note = format!("rank 0 needs it for the {} of all ranks", first.call.shown());
            unable(all, why.code, &why.title, &[note])
        }
    }
}

fn unable(all: &[Made], code: &str, title: &str, notes: &[String]) -> Vec<Outgoing> {
    let to = |made: &Made| Message::Unable {
        number: made.number,
        code: code.to_string(),
        title: title.to_string(),
        notes: notes.to_vec(),
    };
    all.iter().enumerate().map(|(rank, made)| (rank as u32, to(made))).collect()
}

/// Returns what each rank gets from a call.
///
/// # Unwinds
/// like [`room::vec()`].
fn values(first: &Made, all: &[Made]) -> Outcome<Vec<Vec<u8>>> {
    let values: Vec<&[u8]> = all.iter().map(|made| &made.value[..]).collect();
    let whole = match first.call.deed {
        Deed::AllReduce(op) | Deed::ReduceScatter(op) => match first.call.scalar {
            Some(scalar) => combine(op, scalar, &values)?,
            None => return Err(Problem::new("E0554", "a sum of what has no numbers")),
        },
        Deed::AllGather => {
            let mut whole = room::vec(values.iter().map(|value| value.len()).sum());
            values.iter().for_each(|value| room::append(&mut whole, value));
            whole
        }
        Deed::Broadcast { from } => values.get(from as usize).map(|value| room::copy(value)).unwrap_or_default(),
        Deed::Send { .. } | Deed::Receive { .. } => vec![],
    };
    if let Deed::ReduceScatter(_) = first.call.deed {
        let part = whole.len() / all.len();
        return Ok((0..all.len()).map(|rank| room::copy(&whole[rank * part..(rank + 1) * part])).collect());
    }
    let mut values: Vec<Vec<u8>> = (1..all.len()).map(|_| room::copy(&whole)).collect();
    values.push(whole);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::source::{FileId, Span};
    use crate::host::ranks::Op;
    use crate::lang::scalar::Scalar;

    fn call(deed: Deed, count: u64) -> Call {
        Call {
            deed,
            element: "i32".into(),
            scalar: Some(Scalar::I32),
            shape: Some(vec![count]),
            bytes: 4 * count,
            by_device: false,
            span: Span::new(FileId(0), 0, 1),
        }
    }

    fn made(number: u64, deed: Deed, numbers: &[i32]) -> Message {
        let value = bytemuck::cast_slice(numbers).to_vec();
        Message::Call { number, call: call(deed, numbers.len() as u64), value }
    }

    fn silent(number: u64, deed: Deed, count: u64) -> Message {
        Message::Call { number, call: call(deed, count), value: vec![] }
    }

    fn answers(out: Vec<Outgoing>) -> Vec<(u32, u64, Vec<i32>)> {
        let one = |(rank, message)| match message {
            Message::Answer { number, value } => {
                (rank, number, value.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect())
            }
            other => panic!("an answer was expected, not {other:?}"),
        };
        out.into_iter().map(one).collect()
    }

    const SUM: Deed = Deed::AllReduce(Op::Sum);

    #[test]
    fn ranks_may_be_far_apart() {
        let mut hub = Hub::new(2);
        for number in 1..=3 {
            assert!(
                hub.take(0, Message::Call { number, call: Call { by_device: true, ..call(SUM, 1) }, value: vec![] })
                    .is_empty()
            );
        }
        let late = |number| Message::Call { number, call: Call { by_device: true, ..call(SUM, 1) }, value: vec![] };
        assert_eq!(hub.take(1, late(9)), vec![(0, Message::Fits { number: 1 }), (1, Message::Fits { number: 9 })]);
        assert_eq!(hub.take(1, late(10)).len(), 2);
    }

    #[test]
    fn values_are_combined_gathered_cut_and_spread() {
        let mut hub = Hub::new(2);
        assert!(hub.take(1, made(1, SUM, &[1, 2])).is_empty());
        assert_eq!(answers(hub.take(0, made(5, SUM, &[10, 20]))), [(0, 5, vec![11, 22]), (1, 1, vec![11, 22])]);
        hub.take(0, made(6, Deed::AllGather, &[1]));
        assert_eq!(answers(hub.take(1, made(2, Deed::AllGather, &[2])))[1].2, [1, 2]);
        hub.take(0, made(7, Deed::ReduceScatter(Op::Max), &[1, 8]));
        let cut = answers(hub.take(1, made(3, Deed::ReduceScatter(Op::Max), &[4, 5])));
        assert_eq!(cut, [(0, 7, vec![4]), (1, 3, vec![8])]);
        hub.take(0, silent(8, Deed::Broadcast { from: 1 }, 1));
        assert_eq!(answers(hub.take(1, made(4, Deed::Broadcast { from: 1 }, &[3])))[0].2, [3]);
    }

    #[test]
    fn what_is_sent_arrives_in_order() {
        let mut hub = Hub::new(3);
        assert!(hub.take(0, made(1, Deed::Send { to: 2 }, &[1])).is_empty());
        assert!(hub.take(0, made(2, Deed::Send { to: 2 }, &[2])).is_empty());
        for (number, wanted) in [(1, 1), (2, 2)] {
            let got = answers(hub.take(2, silent(number, Deed::Receive { from: 0 }, 1)));
            assert_eq!(got, [(2, number, vec![wanted])]);
        }
        assert!(hub.take(2, silent(3, Deed::Receive { from: 1 }, 1)).is_empty());
        assert_eq!(answers(hub.take(1, made(1, Deed::Send { to: 2 }, &[7]))), [(2, 3, vec![7])]);
    }

    fn ending(out: &[Outgoing]) -> &Message {
        assert!(out.windows(2).all(|pair| pair[0].1 == pair[1].1), "all ranks hear the same");
        &out.last().expect("a message").1
    }

    #[test]
    fn differences_end_all_ranks() {
        let differ = |one: Message, other: Message| {
            let mut hub = Hub::new(3);
            assert!(hub.take(1, one).is_empty());
            let out = hub.take(0, other);
            assert!(
                matches!(ending(&out), Message::Differ { one, other, stuck: false } if one.rank == 0 && other.rank == 1),
                "{out:?}"
            );
            assert_eq!(out.len(), 3);
            assert!(hub.take(2, made(1, SUM, &[1])).is_empty(), "nothing is answered any more");
        };
        differ(made(1, SUM, &[1]), made(1, SUM, &[1, 2]));
        differ(made(1, SUM, &[1]), made(1, Deed::AllReduce(Op::Min), &[1]));
        differ(made(1, SUM, &[1]), made(1, Deed::AllGather, &[1]));
        differ(made(1, Deed::Broadcast { from: 1 }, &[1]), made(1, Deed::Broadcast { from: 0 }, &[1]));
    }

    #[test]
    fn waiting_in_vain_is_an_error() {
        let mut hub = Hub::new(2);
        assert!(hub.take(0, silent(1, Deed::Receive { from: 1 }, 1)).is_empty());
        let out = hub.take(1, made(1, SUM, &[1]));
        assert!(matches!(ending(&out), Message::Differ { stuck: true, .. }), "{out:?}");
        let mut hub = Hub::new(2);
        assert!(hub.take(0, Message::Done).is_empty());
        assert!(matches!(ending(&hub.take(1, made(1, SUM, &[1]))), Message::Over { over: 0, .. }));
        let mut hub = Hub::new(2);
        assert!(hub.take(0, made(1, SUM, &[1])).is_empty());
        assert!(matches!(ending(&hub.take(1, Message::Done)), Message::Over { over: 1, waits } if waits.rank == 0));
        let mut hub = Hub::new(2);
        assert!(hub.take(0, made(1, Deed::Send { to: 1 }, &[1])).is_empty());
        assert!(matches!(ending(&hub.take(1, Message::Done)), Message::Over { over: 1, waits } if waits.rank == 0));
        let mut hub = Hub::new(2);
        assert!(hub.take(0, silent(1, Deed::Receive { from: 1 }, 1)).is_empty());
        assert!(matches!(ending(&hub.take(1, Message::Done)), Message::Over { over: 1, .. }));
    }

    #[test]
    fn a_rank_that_is_gone_ends_the_others_unless_its_script_is_over() {
        let mut hub = Hub::new(2);
        let gone = Message::Failed { rank: 1, message: "gone".into() };
        assert_eq!(hub.lost(1, "gone"), vec![(0, gone.clone()), (1, gone)]);
        let mut hub = Hub::new(2);
        assert!(hub.take(1, Message::Done).is_empty() && hub.lost(1, "gone").is_empty() && !hub.is_over());
        assert_eq!(hub.take(0, Message::Done).len(), 2);
        assert!(hub.is_over());
    }

    #[test]
    fn a_collapse_ends_all_ranks_once() {
        let mut hub = Hub::new(2);
        assert!(hub.take(0, Message::Done).is_empty(), "even if the script of rank 0 is over");
        let out = hub.collapse("no memory");
        assert!(matches!(ending(&out), Message::Failed { rank: 0, .. }) && out.len() == 2);
        assert!(hub.collapse("no memory").is_empty() && hub.is_over());
    }

    #[test]
    fn nonsense_is_refused() {
        for message in [
            Message::Welcome,
            made(1, Deed::Send { to: 7 }, &[1]),
            made(1, Deed::Send { to: 1 }, &[1]),
            silent(1, SUM, 4),
            made(1, Deed::Receive { from: 0 }, &[1]),
        ] {
            let mut hub = Hub::new(2);
            assert!(matches!(ending(&hub.take(1, message)), Message::Failed { rank: 1, .. }));
        }
    }

    #[test]
    fn a_sum_that_does_not_fit_is_refused_for_all() {
        let mut hub = Hub::new(2);
        hub.take(0, made(1, SUM, &[i32::MAX]));
        let out = hub.take(1, made(1, SUM, &[1]));
        assert!(out.iter().all(|(_, message)| matches!(message, Message::Unable { code, .. } if code == "E0612")));
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn words_are_given_to_all() {
        let mut hub = Hub::new(2);
        let word = |text: &str| Message::Word { number: 1, call: call(SUM, 1), word: text.into() };
        assert!(hub.take(1, word("b")).is_empty());
        let words = Message::Words { number: 1, words: vec!["a".into(), "b".into()] };
        assert_eq!(hub.take(0, word("a")), vec![(0, words.clone()), (1, words)]);
    }
}
