//! Accesses that are in bounds in every launch that a kernel's signature describes, so that devices need not test them.
//!
//! Input: the kernel's body as it runs, and such a launch in symbols ([`Declared`]). Output: the axes of accesses that are proved to be
//! in bounds ([`Inside`]), of those that range analysis leaves open: all others cost nothing here. What the host tests at
//! every launch is tried first. Of promises about arrays a proof uses only how elements compare with numbers, which is
//! quickly tested.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::claim;
use super::def::Given;
use super::form::constant;
use super::question::{Answer, Question};
use super::settle::settle;
use crate::base::linear::Budget;
use crate::ir::def::Module;
use crate::ir::ranges::{self, Ranges, Setting, Site};

/// Proofs are about launches whose dimensions and numbers of elements of an array are at most this.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 29;

/// The work for an answer, and the answers for a kernel: some milliseconds in all, a part of what compiling its text takes.
const WORK: Budget = Budget { cases: 60, exchanges: 1_500 };
const MAX_QUESTIONS: usize = 400;

/// What holds of every launch that a kernel's signature describes, up to [`MOST_ELEMENTS`].
pub(crate) struct Declared {
    given: Given,
    inside: OnceLock<Inside>,
}

/// The axes along which accesses are proved to be in bounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    pub axes: FxHashMap<Site, Vec<u8>>,
    /// The proofs of some rest on promises about arrays.
    pub on_promises: bool,
}

impl Declared {
    pub fn new(mut given: Given) -> Declared {
        given.variables.promised.retain(|_, promised| {
            (promised.ascending, promised.distinct) = (false, false);
            !promised.all.is_empty()
        });
        Declared { given, inside: OnceLock::new() }
    }

    /// Returns the accesses of the kernel's body that are proved to be in bounds.
    pub fn inside(&self, module: &Module) -> &Inside {
        self.inside.get_or_init(|| self.examine(module))
    }

    fn examine(&self, module: &Module) -> Inside {
        let block = self.given.grid.as_ref().and_then(|grid| {
            let sizes = grid.block.each_ref().map(|extent| constant(extent).and_then(|n| u32::try_from(n).ok()));
            sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default))
        });
        let open = ranges::analyze(module, Setting { largest: 2 * MOST_ELEMENTS, block, assume: true });
        let mut search = Search { module, open: axes(&open), left: MAX_QUESTIONS };
        let mut inside = Inside::default();
        let mut given = self.given.clone();
        given.variables.promised.clear();
        let proved = search.proved(&given);
        search.open.retain(|axis| !proved.contains(axis));
        let promised = match self.given.variables.promised.is_empty() {
            true => vec![],
            false => search.proved(&self.given),
        };
        inside.on_promises = !promised.is_empty();
        for (site, axis) in proved.into_iter().chain(promised) {
            inside.axes.entry(site).or_default().push(axis);
        }
        inside
    }
}

/// An axis of an access.
type Axis = (Site, u8);

fn axes(open: &Ranges) -> FxHashSet<Axis> {
    open.guards.iter().flat_map(|(site, axes)| axes.iter().map(|&axis| (*site, axis))).collect()
}

struct Search<'a> {
    module: &'a Module,
    open: FxHashSet<Axis>,
    /// Questions that may still be asked.
    left: usize,
}

impl Search<'_> {
    /// Returns those of the open axes of accesses that are in bounds.
    fn proved(&mut self, given: &Given) -> Vec<Axis> {
        let (module, mut left) = (self.module, self.left);
        let mut prove = |question: &Question| {
            left = left.checked_sub(1)?;
            matches!(question.answer(&WORK), Answer::Never(..)).then_some(())
        };
        let function = &module.functions[module.kernel.body];
        let settled = if self.open.is_empty() { None } else { settle(module, given, &mut prove) };
        let Some(settled) = settled.filter(|settled| settled.found.stopped.is_none()) else { return vec![] };
        let (mut proved, mut failed): (Vec<Axis>, FxHashSet<Axis>) = (vec![], FxHashSet::default());
        // One that is not known to be reached is not known to be in bounds.
        for touch in &settled.found.accesses {
            for axis in (0..touch.indices.len()).map(|axis| (touch.at, axis as u8)) {
                if !self.open.contains(&axis) || failed.contains(&axis) {
                    continue;
                }
                let question = claim::outside(function, given, &settled.found, touch, axis.1.into());
                if question.is_some_and(|question| prove(&question).is_none()) {
                    failed.insert(axis);
                } else if !proved.contains(&axis) {
                    proved.push(axis);
                }
            }
        }
        self.left = left;
        proved.retain(|axis| !failed.contains(axis));
        proved
    }
}
