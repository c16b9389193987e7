//! Accesses that are in bounds in every launch that a kernel's signature describes, so that devices need not test them.
//!
//! Input: the kernel's body as it runs, and such a launch in symbols ([`Declared`]). Output: the axes of accesses that are proved to be
//! in bounds ([`Inside`]), of those that range analysis leaves open: all others cost nothing here. What the host tests at
//! every launch is tried first. Of promises about arrays a proof uses only how elements compare with numbers, which is
//! quickly tested.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::apart::{self, Apart};
use super::claim;
use super::def::{Footprint, Given};
use super::form::{constant, single};
use super::parts::{self, CutArray, Parted, Refusal};
use super::question::{Answer, Question};
use super::settle::settle;
use super::whole::{Numbers, Whole, known};
use crate::base::linear::Budget;
use crate::ir::def::Module;
use crate::ir::ranges::{self, Ranges, Setting, Site};

/// Proofs are about launches whose dimensions and numbers of elements of an array are at most this.
pub const MOST_ELEMENTS: u64 = 1 << 29;

/// The work for an answer, and the answers for a kernel: some milliseconds in all, a part of what compiling its text takes.
const WORK: Budget = Budget { cases: 60, exchanges: 1_500 };
const MAX_QUESTIONS: usize = 400;

/// What holds of every launch that a kernel's signature describes, up to [`MOST_ELEMENTS`].
pub struct Declared {
    /// With all promises about arrays.
    all: Given,
    /// With those about how elements compare with numbers.
    given: Given,
    /// The same, without promises about arrays.
    plain: Given,
    /// The footprint in these.
    found: OnceLock<Option<Footprint>>,
    inside: OnceLock<Inside>,
    whole: OnceLock<Whole>,
    apart: OnceLock<Vec<Apart>>,
}

/// The axes along which accesses are proved to be in bounds.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    pub axes: FxHashMap<Site, Vec<u8>>,
    /// The proofs of some rest on promises about arrays.
    pub on_promises: bool,
}

impl Declared {
    pub fn new(mut given: Given) -> Declared {
        let all = given.clone();
        given.variables.promised.retain(|_, promised| {
            (promised.ascending, promised.distinct) = (false, false);
            !promised.all.is_empty()
        });
        let mut plain = given.clone();
        plain.variables.promised.clear();
        let (inside, whole) = (OnceLock::new(), OnceLock::new());
        Declared { all, given, plain, found: OnceLock::new(), inside, whole, apart: OnceLock::new() }
    }

    /// Returns the accesses of the kernel's body that are proved to be in bounds.
    pub fn inside(&self, module: &Module) -> &Inside {
        self.inside.get_or_init(|| self.examine(module))
    }

    /// Returns what is proved of each memory, in launches that keep all promises and whose threads reach the same barriers.
    pub fn apart(&self, module: &Module) -> &[Apart] {
        self.apart.get_or_init(|| apart::apart(module, &self.all))
    }

    /// Returns the arrays that launches write as a whole, as far as that depends on all of them alone.
    pub fn whole(&self, module: &Module) -> &Whole {
        let of = |found| Whole::of(module, &self.plain, found);
        self.whole.get_or_init(|| self.found(module).map(of).unwrap_or_default())
    }

    /// Returns the positions of the arrays that a launch writes as a whole and that the kernel does not read.
    pub fn written(&self, module: &Module, launch: &Numbers<'_>) -> Vec<u32> {
        self.whole(module).written(&self.plain, launch)
    }

    /// Cuts a launch into parts: see [`parts`].
    pub fn parted(
        &self,
        module: &Module,
        launch: &Numbers<'_>,
        arrays: &[CutArray],
        made: &[u32],
    ) -> Result<Parted, Refusal> {
        match self.found(module) {
            Some(found) => parts::parted(module, &self.plain, found, launch, arrays, made),
            None => Err(Refusal::Other { span: None, why: "what the kernel accesses cannot be followed".into() }),
        }
    }

    /// As [`Declared::parted`], by the footprint of this launch alone: what might overflow in another one does not here.
    pub fn parted_alone(
        &self,
        module: &Module,
        launch: &Numbers<'_>,
        arrays: &[CutArray],
        made: &[u32],
    ) -> Result<Parted, Refusal> {
        let mut given = self.plain.clone();
        for (form, n) in known(&self.plain, launch) {
            if let Some(var) = single(&form) {
                let at = &mut given.variables.variables[var.index()];
                (at.low, at.high) = (n, n);
            }
        }
        match settled(module, &given) {
            Some(found) => parts::parted(module, &given, &found, launch, arrays, made),
            None => Err(Refusal::Other { span: None, why: "what the kernel accesses cannot be followed".into() }),
        }
    }

    fn found(&self, module: &Module) -> Option<&Footprint> {
        self.found.get_or_init(|| settled(module, &self.plain)).as_ref()
    }

    fn examine(&self, module: &Module) -> Inside {
        let block = self.given.grid.as_ref().and_then(|grid| {
            let sizes = grid.block.each_ref().map(|extent| constant(extent).and_then(|n| u32::try_from(n).ok()));
            sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default))
        });
        let open = ranges::analyze(module, Setting { largest: 2 * MOST_ELEMENTS, block, assume: true });
        let mut search = Search { module, open: axes(&open), left: MAX_QUESTIONS };
        let mut inside = Inside::default();
        let found = if search.open.is_empty() { None } else { self.found(module) };
        let proved = found.map_or(vec![], |found| search.proved(&self.plain, found));
        search.open.retain(|axis| !proved.contains(axis));
        let more = !self.given.variables.promised.is_empty() && !search.open.is_empty();
        let found = if more { settled(module, &self.given) } else { None };
        let promised = found.map_or(vec![], |found| search.proved(&self.given, &found));
        inside.on_promises = !promised.is_empty();
        for (site, axis) in proved.into_iter().chain(promised) {
            inside.axes.entry(site).or_default().push(axis);
        }
        inside
    }
}

/// Returns a footprint that rests on no operation which might overflow; none if the kernel is not followed.
fn settled(module: &Module, given: &Given) -> Option<Footprint> {
    let mut left = MAX_QUESTIONS;
    let mut prove = |question: &Question| {
        left = left.checked_sub(1)?;
        matches!(question.answer(&WORK), Answer::Never(..)).then_some(())
    };
    let settled = settle(module, given, &mut prove)?;
    settled.found.stopped.is_none().then_some(settled.found)
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
    fn proved(&mut self, given: &Given, found: &Footprint) -> Vec<Axis> {
        let (module, mut left) = (self.module, self.left);
        let mut prove = |question: &Question| {
            left = left.checked_sub(1)?;
            matches!(question.answer(&WORK), Answer::Never(..)).then_some(())
        };
        let function = &module.functions[module.kernel.body];
        let (mut proved, mut failed): (Vec<Axis>, FxHashSet<Axis>) = (vec![], FxHashSet::default());
        // One that is not known to be reached is not known to be in bounds.
        for touch in &found.accesses {
            for axis in (0..touch.indices.len()).map(|axis| (touch.at, axis as u8)) {
                if !self.open.contains(&axis) || failed.contains(&axis) {
                    continue;
                }
                let question = claim::outside(function, given, found, touch, axis.1.into());
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
