//! Bounds proofs: finds accesses that are in bounds in every launch that the kernel's signature allows, so devices need
//! not check their indices.
//!
//! Input: the kernel's body after all passes, and the launches as a symbolic launch ([`DeclaredLaunches`]). Output: for
//! the accesses that range analysis cannot prove, the axes that are proved in bounds ([`InBoundsAxes`]). The first
//! attempt uses only facts that the host checks at every launch. The second attempt also uses promises that compare
//! array elements with numbers, because these are quick to check.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::{Footprint, SignedOverflow, SymbolicLaunch};
use super::formula::{constant, single};
use super::full_overwrite::{FullOverwrites, LaunchNumbers, known_values};
use super::overflow_free::compute_overflow_free;
use super::partition::{self, LaunchPartition, PartitionError, ShardedParam};
use super::proof_obligation::{ObligationAnswer, ProofObligation};
use super::property_obligations;
use super::race_freedom::{self, RaceFreedom};
use crate::def::Module;
use crate::ranges::{self, BodySite, RangeAnalysis, RangeAssumptions};
use clk_base::linear::SolverBudget;

/// Proofs assume that no dimension and no array's number of elements exceeds this limit.
pub const MAX_ELEMENTS: u64 = 1 << 29;

/// Work limits: solver budget for one obligation, and number of obligations for a kernel. Together they take a few
/// milliseconds, a fraction of the compile time.
const WORK: SolverBudget = SolverBudget { cases: 60, exchanges: 1_500 };
const MAX_QUESTIONS: usize = 400;

/// The launches that a kernel's signature allows, with dimensions up to [`MAX_ELEMENTS`], and proofs about them.
pub struct DeclaredLaunches {
    /// The launches, with all promises about arrays.
    all_promises: SymbolicLaunch,
    /// The launches, with only the promises that compare elements with numbers.
    value_promises: SymbolicLaunch,
    /// The launches, without promises about arrays.
    no_promises: SymbolicLaunch,
    /// The footprint for `no_promises`.
    footprint: OnceLock<Option<Footprint>>,
    in_bounds: OnceLock<InBoundsAxes>,
    overwrites: OnceLock<FullOverwrites>,
    race_freedom: OnceLock<Vec<RaceFreedom>>,
}

/// The axes along which accesses are proved in bounds.
#[derive(Clone, Debug, Default)]
pub struct InBoundsAxes {
    pub axes: FxHashMap<BodySite, Vec<u8>>,
    /// Whether some of the proofs use promises about arrays.
    pub uses_promises: bool,
}

impl DeclaredLaunches {
    pub fn new(mut launch: SymbolicLaunch) -> DeclaredLaunches {
        let all_promises = launch.clone();
        launch.variables.array_promises.retain(|_, promised| {
            (promised.ascending, promised.distinct) = (false, false);
            !promised.all.is_empty()
        });
        let mut no_promises = launch.clone();
        no_promises.variables.array_promises.clear();
        DeclaredLaunches {
            all_promises,
            value_promises: launch,
            no_promises,
            footprint: OnceLock::new(),
            in_bounds: OnceLock::new(),
            overwrites: OnceLock::new(),
            race_freedom: OnceLock::new(),
        }
    }

    /// Returns the axes of the body's accesses that are proved in bounds.
    pub fn in_bounds(&self, module: &Module) -> &InBoundsAxes {
        self.in_bounds.get_or_init(|| self.prove_in_bounds(module))
    }

    /// Returns the properties proved about each memory. They hold for launches that satisfy all promises and whose
    /// threads all reach the same barriers.
    pub fn race_freedom(&self, module: &Module) -> &[RaceFreedom] {
        self.race_freedom.get_or_init(|| race_freedom::prove_race_freedom(module, &self.all_promises))
    }

    /// Returns the arrays that every launch overwrites completely, with obligations for arrays that only some launches
    /// overwrite.
    pub fn full_overwrites(&self, module: &Module) -> &FullOverwrites {
        let analyze = |footprint| FullOverwrites::analyze(module, &self.no_promises, footprint);
        self.overwrites.get_or_init(|| self.footprint(module).map(analyze).unwrap_or_default())
    }

    /// Returns the positions of the arrays that a launch overwrites completely and that the kernel does not read.
    pub fn written(&self, module: &Module, launch: &LaunchNumbers<'_>) -> Vec<u32> {
        self.full_overwrites(module).written(&self.no_promises, launch)
    }

    /// Partitions a launch: see [`partition`].
    pub fn partition(
        &self,
        module: &Module,
        launch: &LaunchNumbers<'_>,
        arrays: &[ShardedParam],
        outputs: &[u32],
    ) -> Result<LaunchPartition, PartitionError> {
        match self.footprint(module) {
            Some(footprint) => partition::partition(module, &self.no_promises, footprint, launch, arrays, outputs),
            None => Err(PartitionError::Other { span: None, why: "the kernel's accesses cannot be analyzed".into() }),
        }
    }

    /// Like [`DeclaredLaunches::partition`], but computes a footprint for the sizes of this launch only. The footprint
    /// is more precise, because some operations that might overflow at other sizes cannot overflow at these.
    pub fn partition_this_launch(
        &self,
        module: &Module,
        launch: &LaunchNumbers<'_>,
        arrays: &[ShardedParam],
        outputs: &[u32],
    ) -> Result<LaunchPartition, PartitionError> {
        let mut this_launch = self.no_promises.clone();
        for (form, n) in known_values(&self.no_promises, launch) {
            if let Some(var) = single(&form) {
                let at = &mut this_launch.variables.variables[var.index()];
                (at.low, at.high) = (n, n);
            }
        }
        match overflow_free_footprint(module, &this_launch) {
            Some(footprint) => partition::partition(module, &this_launch, &footprint, launch, arrays, outputs),
            None => Err(PartitionError::Other { span: None, why: "the kernel's accesses cannot be analyzed".into() }),
        }
    }

    fn footprint(&self, module: &Module) -> Option<&Footprint> {
        self.footprint.get_or_init(|| overflow_free_footprint(module, &self.no_promises)).as_ref()
    }

    fn prove_in_bounds(&self, module: &Module) -> InBoundsAxes {
        let block = self.value_promises.grid.as_ref().and_then(|grid| {
            let sizes = grid.block.each_ref().map(|extent| constant(extent).and_then(|n| u32::try_from(n).ok()));
            sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default))
        });
        let open = ranges::analyze(module, RangeAssumptions { largest: 2 * MAX_ELEMENTS, block, assume: true });
        let mut search = BoundsSearch { module, open: axes(&open), questions_left: MAX_QUESTIONS };
        let mut in_bounds = InBoundsAxes::default();
        let footprint = if search.open.is_empty() { None } else { self.footprint(module) };
        let proved = footprint.map_or(vec![], |footprint| search.prove_axes(&self.no_promises, footprint));
        search.open.retain(|axis| !proved.contains(axis));
        let more = !self.value_promises.variables.array_promises.is_empty() && !search.open.is_empty();
        let footprint = if more { overflow_free_footprint(module, &self.value_promises) } else { None };
        let promised = footprint.map_or(vec![], |footprint| search.prove_axes(&self.value_promises, &footprint));
        in_bounds.uses_promises = !promised.is_empty();
        for (site, axis) in proved.into_iter().chain(promised) {
            in_bounds.axes.entry(site).or_default().push(axis);
        }
        in_bounds
    }
}

/// Returns a footprint that treats the results of operations that might overflow as unknown; `None` if the kernel
/// cannot be analyzed.
fn overflow_free_footprint(module: &Module, launch: &SymbolicLaunch) -> Option<Footprint> {
    let mut questions_left = MAX_QUESTIONS;
    let mut prove = |question: &ProofObligation| {
        questions_left = questions_left.checked_sub(1)?;
        matches!(question.answer(&WORK), ObligationAnswer::Proved(..)).then_some(())
    };
    let analyzed = compute_overflow_free(module, launch, SignedOverflow::Possible, &mut prove)?;
    analyzed.footprint.stopped.is_none().then_some(analyzed.footprint)
}

/// An access site and one of the accessed array's axes.
type AccessAxis = (BodySite, u8);

fn axes(open: &RangeAnalysis) -> FxHashSet<AccessAxis> {
    open.guards.iter().flat_map(|(site, axes)| axes.iter().map(|&axis| (*site, axis))).collect()
}

struct BoundsSearch<'a> {
    module: &'a Module,
    open: FxHashSet<AccessAxis>,
    /// The number of obligations that may still be tried.
    questions_left: usize,
}

impl BoundsSearch<'_> {
    /// Returns the axes that range analysis left unproved and that are now proved in bounds.
    fn prove_axes(&mut self, launch: &SymbolicLaunch, footprint: &Footprint) -> Vec<AccessAxis> {
        let (module, mut questions_left) = (self.module, self.questions_left);
        let mut prove = |question: &ProofObligation| {
            questions_left = questions_left.checked_sub(1)?;
            matches!(question.answer(&WORK), ObligationAnswer::Proved(..)).then_some(())
        };
        let function = &module.functions[module.kernel.body];
        let (mut proved, mut failed): (Vec<AccessAxis>, FxHashSet<AccessAxis>) = (vec![], FxHashSet::default());
        // If an access is not in the footprint, nothing is proved about it.
        for access in &footprint.accesses {
            for axis in (0..access.indices.len()).map(|axis| (access.site, axis as u8)) {
                if !self.open.contains(&axis) || failed.contains(&axis) {
                    continue;
                }
                let question = property_obligations::axis_in_bounds(function, launch, footprint, access, axis.1.into());
                if question.is_some_and(|question| prove(&question).is_none()) {
                    failed.insert(axis);
                } else if !proved.contains(&axis) {
                    proved.push(axis);
                }
            }
        }
        self.questions_left = questions_left;
        proved.retain(|axis| !failed.contains(axis));
        proved
    }
}
