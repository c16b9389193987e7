//! The result of proving a kernel.

use std::collections::BTreeMap;

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expected, Kernel};
use clk_ir::def::{ExprKind, MemorySpace, Module, Place, StmtKind};
use clk_ir::inexact_operations::InexactOperations;
use clk_ir::visit::each_stmt;
use clk_runtime::FaultKind;

/// The maximum number of launches not covered by the proof that are listed.
pub(super) const MAX_NAMED: usize = 5;

/// A property of a kernel that can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    InBounds,
    RaceFree,
    Written,
    /// Every element of a shared array is written before it is read. Proved only for kernels that read shared arrays.
    Initialized,
    Barriers,
    NoOverflow,
    Order,
    /// No thread fails an `assert`. Proved only for kernels that contain one.
    Assertions,
    /// No access of a warp to a shared array needs more than this number of transactions. Proved only if an `expect`
    /// clause requires it.
    BankWays(u32),
    /// No access of a warp to a global array transfers more than this number of sectors. Proved only if an `expect`
    /// clause requires it.
    Sectors(u32),
}

impl Property {
    /// The properties that are proved for every kernel; the others are proved for some.
    pub const ALL: [Property; 6] = [
        Property::InBounds,
        Property::RaceFree,
        Property::Written,
        Property::Barriers,
        Property::NoOverflow,
        Property::Order,
    ];

    /// Returns the property that an `expect` clause requires; `None` if it cannot be proved.
    pub(super) fn from_expected(expected: Expected) -> Option<Property> {
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

    /// Returns the properties that limit warp-wide accesses and that the kernel's `expect` clauses require.
    pub(super) fn limits(kernel: &Kernel) -> impl Iterator<Item = Property> {
        let all = kernel.expects.iter().filter_map(|expect| Property::from_expected(expect.expected));
        all.filter(|property| matches!(property, Property::BankWays(_) | Property::Sectors(_)))
    }

    /// Returns the properties of a kernel. `module` is its compiled form, or `None` if it does not compile.
    pub(super) fn of_kernel(kernel: &Kernel, module: Option<&Module>) -> Vec<Property> {
        let mut all: Vec<Property> = Property::ALL.into_iter().collect();
        if module.is_some_and(reads_shared_memory) {
            all.push(Property::Initialized);
        }
        if module.is_some_and(has_assertions) {
            all.push(Property::Assertions);
        }
        all.extend(Property::limits(kernel));
        all.sort();
        all
    }

    /// Returns whether a fault violates the property.
    pub(super) fn is_broken_by(self, kind: &FaultKind) -> bool {
        match (self, kind) {
            (Property::InBounds, FaultKind::OutOfBounds { .. })
            | (Property::RaceFree, FaultKind::Race(_))
            | (Property::Written, FaultKind::Incomplete { .. })
            | (Property::Initialized, FaultKind::Unwritten { space: "shared", .. })
            | (Property::Barriers, FaultKind::Divergence { .. } | FaultKind::Deadlock { .. })
            | (Property::NoOverflow, FaultKind::Overflow { .. })
            | (Property::Assertions, FaultKind::Assert { .. }) => true,
            (Property::BankWays(most), FaultKind::Crowd(crowd)) => crowd.shared && crowd.count > most,
            (Property::Sectors(most), FaultKind::Crowd(crowd)) => !crowd.shared && crowd.count > most,
            _ => false,
        }
    }

    /// Returns the property's name in reports.
    pub fn name(self) -> String {
        let name = match self {
            Property::InBounds => "in bounds",
            Property::RaceFree => "free of races",
            Property::Written => "written",
            Property::Initialized => "initialized",
            Property::Barriers => "barriers",
            Property::NoOverflow => "no overflow",
            Property::Order => "any order",
            Property::Assertions => "assertions",
            Property::BankWays(most) => return format!("bank ways <= {most}"),
            Property::Sectors(most) => return format!("sectors <= {most}"),
        };
        name.into()
    }
}

/// The result of proving a property.
#[derive(Clone, Debug)]
pub enum ProofVerdict {
    /// The property holds for all sizes. `steps` is the number of certificates. An independent checker has accepted all
    /// of them.
    Proved {
        steps: usize,
        /// Whether this holds only for launches in which no signed operation overflows.
        without_overflow: bool,
    },
    /// A run with these sizes violates the property.
    Refuted {
        sizes: String,
        /// Whether the run needs certain elements in its arrays, and not only these sizes.
        needs_contents: bool,
        /// The array past whose end the run makes an access.
        past_end_of: Option<String>,
        found: Box<Diagnostic>,
    },
    Unknown {
        why: String,
        place: Option<Span>,
    },
}

fn has_assertions(module: &Module) -> bool {
    let mut found = false;
    each_stmt(&module.functions[module.kernel.body].body, &mut |stmt| {
        found |= matches!(stmt.kind, StmtKind::Assert { .. });
    });
    found
}

fn reads_shared_memory(module: &Module) -> bool {
    let body = &module.functions[module.kernel.body];
    let is_shared = |place: &Place| body.memories[place.memory].space == MemorySpace::Shared;
    let mut reads = false;
    each_stmt(&body.body, &mut |stmt| {
        reads |= match &stmt.kind {
            StmtKind::Let(id) => {
                matches!(&body.exprs[*id].kind, ExprKind::Load { place, .. } if is_shared(place))
            }
            StmtKind::Atomic { place, .. } => is_shared(place),
            _ => false,
        };
    });
    reads
}

impl ProofVerdict {
    /// Returns the verdict for a property whose obligations are proved by this number of certificates.
    pub(super) fn proved(steps: usize) -> ProofVerdict {
        ProofVerdict::Proved { steps, without_overflow: false }
    }

    /// Returns the verdict's name in reports.
    pub fn word(&self) -> &'static str {
        match self {
            ProofVerdict::Proved { .. } => "proved",
            ProofVerdict::Refuted { .. } => "refuted",
            ProofVerdict::Unknown { .. } => "unknown",
        }
    }
}

/// The result of proving a kernel.
#[derive(Clone, Debug, Default)]
pub struct ProofReport {
    pub kernel: String,
    /// The compile-time arguments of the proved instance, such as `T = f32`. Several instances are separated by `;`, as
    /// in `T = f32, K = 1; T = f32, K = 2`. Empty for a kernel without compile-time parameters.
    pub instance: String,
    /// The compile-time arguments of launches that the proof does not cover, each with a location. They are not covered
    /// because there are too many instances, or because an argument is unknown before the program runs (`T = f32, K =
    /// ?`).
    pub unexamined: Vec<(String, Span)>,
    /// The `assume` clauses, on which all proofs rely.
    pub assuming: Vec<Span>,
    /// The largest dimension, and the largest number of array elements, that the proofs cover; `None` if they cover all
    /// sizes.
    pub largest: Option<i128>,
    pub verdicts: Vec<(Property, ProofVerdict)>,
    /// The operations that may overflow and on which an index or condition depends.
    pub(super) possible_overflows: Vec<Span>,
    /// The proofs as text: each obligation, followed by its certificate.
    pub certificates: String,
    /// The operations that devices may round differently; `None` if the kernel could not be examined.
    pub inexact: Option<InexactOperations>,
    /// The number of candidate counterexamples that no run confirmed.
    pub unconfirmed: usize,
}

impl ProofVerdict {
    fn rank(&self) -> u8 {
        match self {
            ProofVerdict::Proved { .. } => 0,
            ProofVerdict::Unknown { .. } => 1,
            ProofVerdict::Refuted { .. } => 2,
        }
    }

    /// Returns the worse of the verdicts for two instances of a kernel.
    fn worse(self, other: ProofVerdict) -> ProofVerdict {
        match (self, other) {
            (
                ProofVerdict::Proved { steps: a, without_overflow: one },
                ProofVerdict::Proved { steps: b, without_overflow: other },
            ) => ProofVerdict::Proved { steps: a + b, without_overflow: one || other },
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

impl ProofReport {
    /// Returns the note about launches that the proof does not cover, if there are any.
    pub fn not_examined_note(&self, position: &dyn Fn(Span) -> String) -> Option<String> {
        let launch = |(text, place): &(String, Span)| format!("{text} ({})", position(*place));
        let mut all: Vec<String> = self.unexamined.iter().take(MAX_NAMED).map(launch).collect();
        if self.unexamined.len() > MAX_NAMED {
            all.push(format!("and {} more", self.unexamined.len() - MAX_NAMED));
        }
        (!all.is_empty()).then(|| format!("launches with other arguments are not examined: {}", all.join(", ")))
    }

    /// Sets the verdicts of all `properties` to unknown.
    pub(super) fn all_unknown(&mut self, properties: &[Property], why: &str, place: Option<Span>) {
        let unknown = |property: &Property| (*property, ProofVerdict::Unknown { why: why.into(), place });
        self.verdicts = properties.iter().map(unknown).collect();
    }

    /// Adds the name of the instance to each verdict that is not "proved".
    pub(super) fn with_instance_names(mut self) -> ProofReport {
        for (_, verdict) in &mut self.verdicts {
            match verdict {
                ProofVerdict::Proved { .. } => {}
                ProofVerdict::Refuted { sizes, .. } => *sizes = format!("{sizes} with {}", self.instance),
                ProofVerdict::Unknown { why, .. } => *why = format!("{why} (with {})", self.instance),
            }
        }
        self
    }

    /// Merges the reports of two instances of a kernel.
    pub(super) fn merge(mut self, other: ProofReport) -> ProofReport {
        self.instance = format!("{}; {}", self.instance, other.instance);
        self.largest = self.largest.into_iter().chain(other.largest).min();
        // An instance may lack a property that others have: after constants are folded, it may read no shared array.
        let mut verdicts: BTreeMap<Property, ProofVerdict> = self.verdicts.into_iter().collect();
        for (property, verdict) in other.verdicts {
            let worst = match verdicts.remove(&property) {
                Some(known) => known.worse(verdict),
                None => verdict,
            };
            verdicts.insert(property, worst);
        }
        self.verdicts = verdicts.into_iter().collect();
        self.possible_overflows.extend(other.possible_overflows);
        self.certificates += &other.certificates;
        self.unconfirmed += other.unconfirmed;
        self.inexact = self.inexact.zip(other.inexact).map(|(mut all, other)| {
            all.merge(other);
            all
        });
        self
    }

    pub fn verdict(&self, property: Property) -> Option<&ProofVerdict> {
        self.verdicts.iter().find(|(known, _)| *known == property).map(|(_, verdict)| verdict)
    }

    pub fn is_refuted(&self) -> bool {
        self.verdicts.iter().any(|(_, verdict)| matches!(verdict, ProofVerdict::Refuted { .. }))
    }
}
