//! The processes that run one script together, its ranks, as the host sees them.
//!
//! Input: a [`Call`] for each builtin that exchanges values, with the bytes that this rank gives. Output: the bytes that it gets. What
//! moves them is a [`Group`], which `app` implements over sockets.
//!
//! # What holds
//! Every rank runs the same program, so it makes the same *collective* calls (`all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`)
//! in the same order, with values of the same type and shape. The calls of a rank are numbered; whoever joins them compares those of one
//! number, and if two differ, all ranks end with an [`Ending::Differ`] that has the places of both, instead of waiting for ever. `send` and
//! `receive` are pairs: what one rank sends to another arrives in order. A rank that waits for one that has ended, or ranks that all wait for
//! each other, are errors of the same kind.
//!
//! # What is exact
//! A sum or product is taken in the order of the ranks, starting with rank 0, in the type of the elements; one of integers is exact, or an
//! error where it does not fit ([`combine`]).

pub mod combine;

use crate::base::diag::Diagnostic;
use crate::base::source::{Sources, Span};
use crate::host::problem::Problem;
use crate::lang::scalar::Scalar;

/// An operation that makes one number of one of each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Sum,
    Prod,
    Min,
    Max,
}

impl Op {
    pub const ALL: [Op; 4] = [Op::Sum, Op::Prod, Op::Min, Op::Max];

    pub fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Prod => "prod",
            Op::Min => "min",
            Op::Max => "max",
        }
    }

    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    AllReduce(Op),
    AllGather,
    ReduceScatter(Op),
    Broadcast { from: u32 },
    Send { to: u32 },
    Receive { from: u32 },
}

impl Deed {
    /// Returns the builtin's name.
    pub fn name(self) -> &'static str {
        match self {
            Deed::AllReduce(_) => "all_reduce",
            Deed::AllGather => "all_gather",
            Deed::ReduceScatter(_) => "reduce_scatter",
            Deed::Broadcast { .. } => "broadcast",
            Deed::Send { .. } => "send",
            Deed::Receive { .. } => "receive",
        }
    }

    /// Whether all ranks do it together.
    pub fn is_collective(self) -> bool {
        !matches!(self, Deed::Send { .. } | Deed::Receive { .. })
    }
}

/// A call, as it is compared with those of other ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub deed: Deed,
    /// The type of the elements, as it is written.
    pub element: String,
    /// The type of the numbers that elements consist of, for [`Deed::AllReduce`] and [`Deed::ReduceScatter`].
    pub scalar: Option<Scalar>,
    /// The extents of an array; `None` for a single value.
    pub shape: Option<Vec<u64>>,
    /// The number of bytes of the value.
    pub bytes: u64,
    /// Whether devices exchange the bytes, so that only the call is compared.
    pub by_device: bool,
    pub span: Span,
}

impl Call {
    /// Whether two calls can be of one number.
    pub fn fits(&self, other: &Call) -> bool {
        let of = |call: &Call| (call.deed, call.scalar, call.bytes, call.by_device);
        of(self) == of(other) && self.is_like(other)
    }

    /// Whether two calls are about values of one type and shape.
    pub fn is_like(&self, other: &Call) -> bool {
        (&self.element, &self.shape, self.bytes) == (&other.element, &other.shape, other.bytes)
    }

    /// Returns what the call does and with what: `all_reduce` of `[f32; 3]`.
    pub fn shown(&self) -> String {
        let extents = |shape: &Vec<u64>| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let of = match &self.shape {
            Some(shape) => format!("`[{}; {}]`", self.element, extents(shape)),
            None => format!("`{}`", self.element),
        };
        let name = self.deed.name();
        match self.deed {
            Deed::AllReduce(op) | Deed::ReduceScatter(op) if op != Op::Sum => {
                format!("`{name}` ({}) of {of}", op.name())
            }
            Deed::Broadcast { from } => format!("`{name}` from rank {from} of {of}"),
            Deed::Send { to } => format!("`{name}` to rank {to} of {of}"),
            Deed::Receive { from } => format!("`{name}` from rank {from} of {of}"),
            _ => format!("`{name}` of {of}"),
        }
    }
}

/// The call of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    pub rank: u32,
    pub call: Call,
}

/// Why ranks do not go on together.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Two ranks do not do the same.
    Differ(Box<Of>, Box<Of>),
    /// All ranks wait for each other, these two among them.
    Stuck(Box<Of>, Box<Of>),
    /// A rank waits for one whose script is over.
    Over { waits: Box<Of>, over: u32 },
    /// A rank has failed, with this message.
    Failed { rank: u32, message: String },
    /// The ranks cannot do what these calls say, for a reason that all of them have.
    Refused(Box<Problem>),
    /// The connection is broken, or what comes over it makes no sense.
    Broken(String),
}

impl Ending {
    /// Whether another rank is the reason, and has said so itself.
    pub fn is_of_another(&self) -> bool {
        matches!(self, Ending::Failed { .. })
    }

    /// Returns the diagnostic, for a rank that is at this place.
    pub fn at(&self, span: Span, sources: &Sources) -> Diagnostic {
        let is_known = |span: Span| {
            let text = sources.get(span.file).map_or("", |source| &source.text);
            text.get(span.range()).is_some() && !span.range().is_empty()
        };
        let label = |diagnostic: Diagnostic, of: &Of, primary: bool| {
            let text = format!("rank {} is here: {}", of.rank, of.call.shown());
            match (is_known(of.call.span), primary) {
                (true, true) => diagnostic.at(of.call.span, text),
                (true, false) => diagnostic.because(of.call.span, text),
                (false, _) => diagnostic.note(text),
            }
        };
        let both = |title: String, one: &Of, other: &Of| {
            let diagnostic = Diagnostic::error("E0550", title);
            if one.call.span == other.call.span && is_known(one.call.span) {
                let text = |of: &Of| format!("rank {}: {}", of.rank, of.call.shown());
                return diagnostic.at(one.call.span, format!("{}; {}", text(one), text(other)));
            }
            label(label(diagnostic, one, true), other, false)
        };
        match self {
            Ending::Differ(one, other) => {
                both(format!("ranks {} and {} do not do the same", one.rank, other.rank), one, other)
                    .help("all ranks make the same calls in the same order, with values of one type and shape")
            }
            Ending::Stuck(one, other) => {
                both(format!("ranks {} and {} wait for each other", one.rank, other.rank), one, other)
                    .help("all ranks make the same calls in the same order, and each `receive` has a `send`")
            }
            Ending::Over { waits, over } => {
                let title = match waits.call.deed {
                    Deed::Send { .. } => {
                        format!("rank {over} has ended its script without what rank {} sends to it", waits.rank)
                    }
                    _ => format!("rank {over} has ended its script, and rank {} waits for it", waits.rank),
                };
                label(Diagnostic::error("E0550", title), waits, true)
            }
            Ending::Failed { rank, message } => {
                let diagnostic = Diagnostic::error("E0551", format!("rank {rank} has ended: {message}"));
                if is_known(span) { diagnostic.at(span, "this rank was here") } else { diagnostic }
            }
            Ending::Refused(problem) => Problem::clone(problem).at(span),
            Ending::Broken(why) => {
                let diagnostic = Diagnostic::error("E0554", why.clone());
                if is_known(span) { diagnostic.at(span, "this rank was here") } else { diagnostic }
            }
        }
    }
}

/// The ranks that run the script, seen by one of them.
pub trait Group: Send + Sync {
    /// Returns the number of this rank.
    fn rank(&self) -> u32;

    /// Returns the number of ranks; more than one.
    fn ranks(&self) -> u32;

    /// Makes a call with the bytes that this rank gives, and waits for those that it gets. A `send` does not wait, and a call by devices
    /// waits for nothing: whether it fits is known with [`Group::settle`].
    fn call(&self, call: &Call, bytes: &[u8]) -> Result<Vec<u8>, Ending>;

    /// Gives a word to all ranks and returns those of all, in order. All ranks do so before the same call.
    fn agree(&self, call: &Call, word: &str) -> Result<Vec<String>, Ending>;

    /// Waits until all calls of this rank by devices are known to fit those of the others.
    fn settle(&self) -> Result<(), Ending>;

    /// Has this done when the ranks end.
    fn at_end(&self, stop: Box<dyn FnOnce() + Send>);

    /// Tells the user something, once for all ranks.
    fn tell(&self, note: &str);

    /// Returns why the ranks have ended, if they have.
    fn ended(&self) -> Option<Ending>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::source::FileId;

    fn of(rank: u32, start: usize, shape: &[u64]) -> Box<Of> {
        let bytes = 4 * shape.iter().product::<u64>();
        let span = Span::new(FileId(0), start, start + 3);
        let deed = Deed::AllReduce(Op::Sum);
        let (element, scalar) = ("f32".to_string(), Some(Scalar::F32));
        let call = Call { deed, element, scalar, shape: Some(shape.to_vec()), bytes, by_device: false, span };
        Box::new(Of { rank, call })
    }

    #[test]
    fn a_difference_has_both_places() {
        let mut sources = Sources::default();
        sources.add("a.clk", "one\ntwo\n");
        let apart = Ending::Differ(of(0, 0, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        let texts: Vec<&str> = apart.labels.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(texts, ["rank 0 is here: `all_reduce` of `[f32; 3]`", "rank 1 is here: `all_reduce` of `[f32; 4]`"]);
        let together = Ending::Differ(of(0, 4, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        assert_eq!(together.labels.len(), 1);
        assert!(together.labels[0].text.contains("rank 0: `all_reduce` of `[f32; 3]`; rank 1:"), "{together:?}");
    }

    #[test]
    fn a_place_that_is_none_is_said_in_words() {
        let sources = Sources::default();
        let diagnostic = Ending::Differ(of(0, 70, &[3]), of(1, 4, &[4])).at(Span::default(), &sources);
        assert_eq!((diagnostic.labels.len(), diagnostic.notes.len()), (0, 2));
    }
}
