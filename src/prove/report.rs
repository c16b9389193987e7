//! What a proof says of a kernel.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expected, Kernel};
use crate::device::FaultKind;

/// Launches that were not examined and that are named, at most.
pub(super) const MAX_NAMED: usize = 5;

/// What is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    InBounds,
    RaceFree,
    Written,
    Barriers,
    NoOverflow,
    Order,
    /// No access of a warp to a shared array takes more passes; examined where it is expected, as is the next one.
    BankWays(u32),
    /// No access of a warp to a global array touches more sectors.
    Sectors(u32),
}

impl Property {
    /// Those of every kernel.
    pub const ALL: [Property; 6] = [
        Property::InBounds,
        Property::RaceFree,
        Property::Written,
        Property::Barriers,
        Property::NoOverflow,
        Property::Order,
    ];

    /// Returns what is expected, if it can be proved.
    pub(super) fn of(expected: Expected) -> Option<Property> {
        Some(match expected {
            Expected::InBounds => Property::InBounds,
            Expected::RaceFree => Property::RaceFree,
            Expected::Written => Property::Written,
            Expected::Barriers => Property::Barriers,
            Expected::NoOverflow => Property::NoOverflow,
            Expected::AnyOrder => Property::Order,
            Expected::BankWays(most) => Property::BankWays(most),
            Expected::Sectors(most) => Property::Sectors(most),
            Expected::MaxUlp(_) => return None,
        })
    }

    /// Returns the limits of what a kernel's warps pay for accesses.
    pub(super) fn limits(kernel: &Kernel) -> impl Iterator<Item = Property> {
        let all = kernel.expects.iter().filter_map(|expect| Property::of(expect.what));
        all.filter(|property| matches!(property, Property::BankWays(_) | Property::Sectors(_)))
    }

    /// Returns whether a fault contradicts it.
    pub(super) fn is_broken_by(self, kind: &FaultKind) -> bool {
        match (self, kind) {
            (Property::InBounds, FaultKind::OutOfBounds { .. })
            | (Property::RaceFree, FaultKind::Race(_))
            | (Property::Written, FaultKind::Incomplete { .. })
            | (Property::Barriers, FaultKind::Divergence { .. } | FaultKind::Deadlock { .. })
            | (Property::NoOverflow, FaultKind::Overflow { .. }) => true,
            (Property::BankWays(most), FaultKind::Crowd(crowd)) => crowd.shared && crowd.count > most,
            (Property::Sectors(most), FaultKind::Crowd(crowd)) => !crowd.shared && crowd.count > most,
            _ => false,
        }
    }

    /// Returns what it is called in reports.
    pub fn name(self) -> String {
        let name = match self {
            Property::InBounds => "in bounds",
            Property::RaceFree => "free of races",
            Property::Written => "written",
            Property::Barriers => "barriers",
            Property::NoOverflow => "no overflow",
            Property::Order => "any order",
            Property::BankWays(most) => return format!("bank ways <= {most}"),
            Property::Sectors(most) => return format!("sectors <= {most}"),
        };
        name.into()
    }
}

/// What is known of a property.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It holds for all sizes; the number of certificates that were rechecked.
    Proved {
        steps: usize,
    },
    /// A run with these sizes shows that it does not hold.
    Refuted {
        sizes: String,
        found: Box<Diagnostic>,
    },
    Unknown {
        why: String,
        place: Option<Span>,
    },
}

impl Verdict {
    /// Returns the verdict's name in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Proved { .. } => "proved",
            Verdict::Refuted { .. } => "refuted",
            Verdict::Unknown { .. } => "unknown",
        }
    }
}

/// The result of examining a kernel.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub kernel: String,
    /// The compile-time arguments it was examined with: `T = f32`, of several instances `T = f32, K = 1; T = f32, K = 2`; empty
    /// without any.
    pub instance: String,
    /// The compile-time arguments of other launches, about which nothing is said, and a place of each: because there are too many,
    /// or because they are not known before the program runs (`T = f32, K = ?`).
    pub unexamined: Vec<(String, Span)>,
    /// The clauses of `assume`, on which all proofs rest.
    pub assuming: Vec<Span>,
    /// The largest number of elements of an array, and the largest dimension, that the proofs cover, if it is not the largest of all.
    pub largest: Option<i128>,
    pub verdicts: Vec<(Property, Verdict)>,
    /// The operations that an index or a condition depends on and that may overflow.
    pub(super) doubtful: Vec<Span>,
    /// The proofs as text: each question with its certificate.
    pub certificates: String,
    /// How many sizes that the decision procedure proposed as counterexamples no run confirmed.
    pub unconfirmed: usize,
}

impl Verdict {
    fn rank(&self) -> u8 {
        match self {
            Verdict::Proved { .. } => 0,
            Verdict::Unknown { .. } => 1,
            Verdict::Refuted { .. } => 2,
        }
    }

    /// Returns what holds of two instances of a kernel: the worse verdict.
    fn with(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Proved { steps: a }, Verdict::Proved { steps: b }) => Verdict::Proved { steps: a + b },
            (one, other) => {
                if other.rank() > one.rank() {
                    other
                } else {
                    one
                }
            }
        }
    }
}

impl Report {
    /// Returns the line about launches that were not examined, if there are any.
    pub fn silence(&self, position: &dyn Fn(Span) -> String) -> Option<String> {
        let launch = |(text, place): &(String, Span)| format!("{text} ({})", position(*place));
        let mut all: Vec<String> = self.unexamined.iter().take(MAX_NAMED).map(launch).collect();
        if self.unexamined.len() > MAX_NAMED {
            all.push(format!("and {} more", self.unexamined.len() - MAX_NAMED));
        }
        (!all.is_empty()).then(|| format!("launches with other arguments are not examined: {}", all.join(", ")))
    }

    pub(super) fn all_unknown(&mut self, kernel: &Kernel, why: &str, place: Option<Span>) {
        let all = Property::ALL.into_iter().chain(Property::limits(kernel));
        self.verdicts = all.map(|p| (p, Verdict::Unknown { why: why.into(), place })).collect();
    }

    /// Says with the verdicts that are not "proved" which instance they are about.
    pub(super) fn named(mut self) -> Report {
        for (_, verdict) in &mut self.verdicts {
            match verdict {
                Verdict::Proved { .. } => {}
                Verdict::Refuted { sizes, .. } => *sizes = format!("{sizes} with {}", self.instance),
                Verdict::Unknown { why, .. } => *why = format!("{why} (with {})", self.instance),
            }
        }
        self
    }

    /// Returns what holds of this instance and of another one.
    pub(super) fn with(mut self, other: Report) -> Report {
        self.instance = format!("{}; {}", self.instance, other.instance);
        self.largest = self.largest.into_iter().chain(other.largest).min();
        self.verdicts = self.verdicts.into_iter().zip(other.verdicts).map(|((p, a), (_, b))| (p, a.with(b))).collect();
        self.doubtful.extend(other.doubtful);
        self.certificates += &other.certificates;
        self.unconfirmed += other.unconfirmed;
        self
    }

    pub fn verdict(&self, property: Property) -> Option<&Verdict> {
        self.verdicts.iter().find(|(known, _)| *known == property).map(|(_, verdict)| verdict)
    }

    pub fn is_refuted(&self) -> bool {
        self.verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Refuted { .. }))
    }
}
