//! Ranks: the processes that run the same script in parallel and exchange values.
//!
//! Input: a [`CollectiveCall`] for each builtin that exchanges values, with the bytes of this rank. Output: the bytes
//! that this rank receives. A [`RankCommunicator`] transfers the bytes; `app` implements it over sockets.
//!
//! Every rank runs the same program, so all make the same *collective* calls (`all_reduce`, `all_gather`,
//! `reduce_scatter`, `broadcast`) in the same order, with values of the same type and shape. Each rank
//! numbers its calls, and calls with the same number are compared. If two calls differ, the ranks would deadlock;
//! instead, all ranks end with [`RanksError::Differ`], which has the locations of both calls. `send` and `receive` are
//! matched in pairs, and the messages between two ranks arrive in order. Circular waits, and waiting for a rank that
//! has exited, are also errors ([`RanksError`]) on all ranks.
//!
//! Sums and products are computed in the order of the ranks, starting with rank 0, in the element type; see
//! [`combine`].

pub mod combine;

use serde::{Deserialize, Serialize};

use crate::problem::RuntimeError;
use clk_base::diag::Diagnostic;
use clk_base::source::{SourceMap, Span};
use clk_scalar::Scalar;

/// An operation that combines one number from each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
}

impl ReduceOp {
    pub const ALL: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];

    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
        }
    }

    pub fn from_name(name: &str) -> Option<ReduceOp> {
        ReduceOp::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// The kind of a call that exchanges values, with its root rank, peer or reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Collective {
    AllReduce(ReduceOp),
    AllGather,
    ReduceScatter(ReduceOp),
    Broadcast { from: u32 },
    Send { to: u32 },
    Receive { from: u32 },
}

impl Collective {
    /// Returns the builtin's name.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce(_) => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter(_) => "reduce_scatter",
            Collective::Broadcast { .. } => "broadcast",
            Collective::Send { .. } => "send",
            Collective::Receive { .. } => "receive",
        }
    }

    /// Returns whether all ranks make the same call; false for `send` and `receive`.
    pub fn is_collective(self) -> bool {
        !matches!(self, Collective::Send { .. } | Collective::Receive { .. })
    }
}

/// A call that exchanges values, with the properties that must be equal on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveCall {
    pub op: Collective,
    /// The name of the element type, as in source code.
    pub element: String,
    /// The scalar type of the elements, for [`Collective::AllReduce`] and [`Collective::ReduceScatter`].
    pub scalar: Option<Scalar>,
    /// The extents of an array; `None` for a single value.
    pub shape: Option<Vec<u64>>,
    /// The number of bytes of the value.
    pub bytes: u64,
    /// Whether the ranks' GPUs exchange the bytes. The communicator then only compares the calls.
    pub by_device: bool,
    pub span: Span,
}

impl CollectiveCall {
    /// Returns whether the calls of two ranks match, so that they can be executed together.
    pub fn matches(&self, other: &CollectiveCall) -> bool {
        let of = |call: &CollectiveCall| (call.op, call.scalar, call.bytes, call.by_device);
        of(self) == of(other) && self.has_same_value_type(other)
    }

    /// Returns whether the values of two calls have the same type and shape.
    pub fn has_same_value_type(&self, other: &CollectiveCall) -> bool {
        (&self.element, &self.shape, self.bytes) == (&other.element, &other.shape, other.bytes)
    }

    /// Describes the call for messages, such as "`all_reduce` of `[f32; 3]`".
    pub fn describe(&self) -> String {
        let extents = |shape: &Vec<u64>| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let of = match &self.shape {
            Some(shape) => format!("`[{}; {}]`", self.element, extents(shape)),
            None => format!("`{}`", self.element),
        };
        let name = self.op.name();
        match self.op {
            Collective::AllReduce(op) | Collective::ReduceScatter(op) if op != ReduceOp::Sum => {
                format!("`{name}` ({}) of {of}", op.name())
            }
            Collective::Broadcast { from } => format!("`{name}` from rank {from} of {of}"),
            Collective::Send { to } => format!("`{name}` to rank {to} of {of}"),
            Collective::Receive { from } => format!("`{name}` from rank {from} of {of}"),
            _ => format!("`{name}` of {of}"),
        }
    }
}

/// A call, and the rank that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankCall {
    pub rank: u32,
    pub call: CollectiveCall,
}

/// The reason why the ranks cannot continue.
#[derive(Clone, Debug, PartialEq)]
pub enum RanksError {
    /// Two ranks make calls that do not match.
    Differ(Box<RankCall>, Box<RankCall>),
    /// All ranks wait, and none can continue. Two of them wait in these calls.
    Deadlock(Box<RankCall>, Box<RankCall>),
    /// A rank waits for rank `over`, whose script has ended.
    Exited { waits: Box<RankCall>, over: u32 },
    /// A rank has failed, with this message.
    Failed { rank: u32, message: String },
    /// The calls match, but cannot be executed, for example because a result overflows. All ranks get this error.
    Refused(Box<RuntimeError>),
    /// The connection is broken, or its data are invalid.
    Disconnected(String),
}

impl RanksError {
    /// Returns whether the error is the failure of another rank, which reports it itself.
    pub fn is_failure_of_another_rank(&self) -> bool {
        matches!(self, RanksError::Failed { .. })
    }

    /// Returns the diagnostic for a rank whose script is at `span`.
    pub fn at(&self, span: Span, sources: &SourceMap) -> Diagnostic {
        let is_known = |span: Span| {
            let text = sources.get(span.file).map_or("", |source| &source.text);
            text.get(span.range()).is_some() && !span.range().is_empty()
        };
        let label = |diagnostic: Diagnostic, of: &RankCall, primary: bool| {
            let text = format!("rank {} is here: {}", of.rank, of.call.describe());
            match (is_known(of.call.span), primary) {
                (true, true) => diagnostic.at(of.call.span, text),
                (true, false) => diagnostic.because(of.call.span, text),
                (false, _) => diagnostic.note(text),
            }
        };
        let both = |title: String, one: &RankCall, other: &RankCall| {
            let diagnostic = Diagnostic::error("E0550", title);
            if one.call.span == other.call.span && is_known(one.call.span) {
                let text = |of: &RankCall| format!("rank {}: {}", of.rank, of.call.describe());
                return diagnostic.at(one.call.span, format!("{}; {}", text(one), text(other)));
            }
            label(label(diagnostic, one, true), other, false)
        };
        match self {
            RanksError::Differ(one, other) => {
                both(format!("ranks {} and {} do not do the same", one.rank, other.rank), one, other)
                    .help("all ranks make the same calls in the same order, with values of one type and shape")
            }
            RanksError::Deadlock(one, other) => {
                both(format!("ranks {} and {} wait for each other", one.rank, other.rank), one, other)
                    .help("all ranks make the same calls in the same order, and each `receive` has a `send`")
            }
            RanksError::Exited { waits, over } => {
                let title = match waits.call.op {
                    Collective::Send { .. } => {
                        format!(
                            "rank {over} has ended its script without receiving what rank {} sends to it",
                            waits.rank
                        )
                    }
                    _ => format!("rank {over} has ended its script, and rank {} waits for it", waits.rank),
                };
                label(Diagnostic::error("E0550", title), waits, true)
            }
            RanksError::Failed { rank, message } => {
                let diagnostic = Diagnostic::error("E0551", format!("rank {rank} has ended: {message}"));
                if is_known(span) { diagnostic.at(span, "this rank was here") } else { diagnostic }
            }
            RanksError::Refused(problem) => RuntimeError::clone(problem).at(span),
            RanksError::Disconnected(why) => {
                let diagnostic = Diagnostic::error("E0554", why.clone());
                if is_known(span) { diagnostic.at(span, "this rank was here") } else { diagnostic }
            }
        }
    }
}

/// Communication with the other ranks of the script.
pub trait RankCommunicator: Send + Sync {
    /// Returns the number of this rank.
    fn rank(&self) -> u32;

    /// Returns the number of ranks, which is more than one.
    fn ranks(&self) -> u32;

    /// Makes a call with this rank's bytes, and waits for the bytes that this rank receives. A `send` does not wait. If
    /// devices exchange the bytes, the call does not wait either: [`RankCommunicator::settle`] reports whether it
    /// matches the calls of the other ranks.
    fn call(&self, call: &CollectiveCall, bytes: &[u8]) -> Result<Vec<u8>, RanksError>;

    /// Sends a text (`word`) to all ranks. Returns the texts of all ranks, in the order of the ranks. Every rank must
    /// call this before the same collective call.
    fn agree(&self, call: &CollectiveCall, word: &str) -> Result<Vec<String>, RanksError>;

    /// Waits until all calls of this rank that devices execute have been compared with those of the other ranks.
    /// Returns an error if one does not match.
    fn settle(&self) -> Result<(), RanksError>;

    /// Registers an action that runs when the ranks cannot continue ([`RanksError`]), to abort pending work.
    fn at_end(&self, stop: Box<dyn FnOnce() + Send>);

    /// Shows a note to the user. All ranks call this, but only rank 0 prints the note.
    fn tell(&self, note: &str);

    /// If the ranks have ended because of an error, returns it.
    fn ended(&self) -> Option<RanksError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_base::source::FileId;

    fn of(rank: u32, start: usize, shape: &[u64]) -> Box<RankCall> {
        let bytes = 4 * shape.iter().product::<u64>();
        let span = Span::new(FileId(0), start, start + 3);
        let op = Collective::AllReduce(ReduceOp::Sum);
        let (element, scalar) = ("f32".to_string(), Some(Scalar::F32));
        let call = CollectiveCall { op, element, scalar, shape: Some(shape.to_vec()), bytes, by_device: false, span };
        Box::new(RankCall { rank, call })
    }

    #[test]
    fn collective_mismatches_have_both_places() {
        let mut sources = SourceMap::default();
        sources.add("a.clk", "one\ntwo\n");
        let different_places = RanksError::Differ(of(0, 0, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        let texts: Vec<&str> = different_places.labels.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(texts, ["rank 0 is here: `all_reduce` of `[f32; 3]`", "rank 1 is here: `all_reduce` of `[f32; 4]`"]);
        let same_place = RanksError::Differ(of(0, 4, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        assert_eq!(same_place.labels.len(), 1);
        assert!(same_place.labels[0].text.contains("rank 0: `all_reduce` of `[f32; 3]`; rank 1:"), "{same_place:?}");
    }

    #[test]
    fn calls_without_a_source_location_become_notes() {
        let sources = SourceMap::default();
        let diagnostic = RanksError::Differ(of(0, 70, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        assert_eq!((diagnostic.labels.len(), diagnostic.notes.len()), (0, 2));
    }
}
