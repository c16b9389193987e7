//! Donation: the result of an expression is written over an operand that nobody else reads any more, so that it takes no memory of its
//! own. In: a node that is about to be computed, and its plan. Out: the storage of the operand with the result, or nothing.
//!
//! An operand dies if all that hold it are operations which are computed now and have no other readers, as in `x = x * 2.0 + y`
//! once the variable holds the result. The kernel reads each of its elements once, where it writes the result's.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::stop;
use crate::device::Control;
use crate::device::storage::Storage;
use crate::host::array::{Array, Data, Work};
use crate::host::graph::node::{Node, Op, Operand, node_of};
use crate::host::graph::plan::{Input, Plan, Source};
use crate::host::graph::run::{controlled, place};
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;

/// Operations, of all elements, that a processor does without looking whether it is to stop: a result that is written in part over
/// its operand could not be computed again. It takes about a second.
const MOST_UNSTOPPED: u64 = 1 << 32;
/// A function of floats, in operations.
const FUNCTION: usize = 16;

/// An operand of a node; without a work, of the one that is computed.
struct Holder {
    work: Option<Arc<dyn Work>>,
    operand: usize,
}

type Holders = FxHashMap<*const Data, Vec<Holder>>;

/// Computes the bytes of a node in the storage of an operand; `None` if there is none that can be written, and nothing has changed.
pub(super) fn in_place(root: &Node, plan: &mut Plan, element: Source, len: usize) -> Outcome<Option<Storage>> {
    let site = place(&root.site, plan, len);
    if len < site.donates_from() || !is_brief(plan, site, len / root.scalar.size()) {
        return Ok(None);
    }
    let fits = |i: &usize| is_candidate(plan, *i, root, len);
    let candidates: Vec<usize> = (0..plan.inputs.len()).filter(fits).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let mut holders = holders(root);
    // The plan holds it, too.
    let dies = |input: &Input| {
        let data = input.array.data();
        holders.get(&Arc::as_ptr(data)).is_some_and(|of| of.len() + 1 == Arc::strong_count(data))
    };
    let Some(donor) = candidates.into_iter().find(|&i| dies(&plan.inputs[i])) else { return Ok(None) };
    if !site.device().is_remote() {
        // What may fail is done before something is written.
        plan.inputs.iter().try_for_each(|input| input.array.bytes().map(drop))?;
    }
    let holders = holders.remove(&Arc::as_ptr(plan.inputs[donor].array.data())).unwrap_or_default();
    let gift = Gift::take(root, plan, donor, holders)?;
    gift.spend(root, plan, element, site)
}

/// Returns whether a kernel may run to its end.
fn is_brief(plan: &Plan, site: &Site, elements: usize) -> bool {
    let cost = |op: Op| if matches!(op, Op::Math(_)) { FUNCTION } else { 1 };
    let all = plan.steps.iter().map(|step| cost(step.op)).sum::<usize>();
    site.device().is_remote() || (elements as u64).saturating_mul(all as u64) <= MOST_UNSTOPPED
}

/// Returns whether a result with the bytes of a node may take the place of an input, if that has no other readers.
fn is_candidate(plan: &Plan, i: usize, root: &Node, len: usize) -> bool {
    let input = &plan.inputs[i];
    let same = |other: &&Input| Arc::ptr_eq(other.array.data(), input.array.data());
    // Another copy on the device would be made to be written.
    let is_own = |storage: &Storage| match &*storage.remote() {
        Some(remote) => Arc::strong_count(remote) == 1,
        None => storage.here().is_some(),
    };
    input.view.is_none()
        && input.picks.is_empty()
        && input.scalar == root.scalar
        && input.strides.iter().all(|&stride| stride != 0)
        && !plan.guards
        && !root.op.may_fault(&root.operands())
        && plan.inputs.iter().filter(same).count() == 1
        && input.array.data().computed().is_some_and(|storage| storage.len() == len && is_own(storage))
}

/// Returns who holds which data, among the operations that are computed for nobody but this one.
fn holders(root: &Node) -> Holders {
    let mut holders = Holders::default();
    let mut waiting: Vec<Option<Arc<dyn Work>>> = vec![None];
    while let Some(work) = waiting.pop() {
        let Some(node) = work.as_deref().map_or(Some(root), node_of) else { continue };
        for (operand, found) in node.operands().iter().enumerate() {
            let Operand::Array(array, _) = found else { continue };
            let own = holders.entry(Arc::as_ptr(array.data())).or_default();
            own.push(Holder { work: work.clone(), operand });
            if own.len() == Arc::strong_count(array.data()) {
                waiting.extend(array.data().work().filter(|work| node_of(&**work).is_some()).map(Some));
            }
        }
    }
    holders
}

/// An operand that has been taken from those that hold it.
struct Gift {
    array: Array,
    holders: Vec<Holder>,
    donor: usize,
}

impl Gift {
    fn take(root: &Node, plan: &mut Plan, donor: usize, holders: Vec<Holder>) -> Outcome<Gift> {
        let input = &mut plan.inputs[donor];
        let nothing = Array::unplaced(input.scalar, &[0])?;
        let array = std::mem::replace(&mut input.array, nothing.clone());
        plan.donor = Some(donor);
        let gift = Gift { array, holders, donor };
        gift.hand(root, &nothing);
        Ok(gift)
    }

    /// Gives this array to all who held the operand.
    fn hand(&self, root: &Node, array: &Array) {
        for holder in &self.holders {
            let node = holder.work.as_deref().map_or(Some(root), node_of);
            let mut operands = node.map(Node::operands_mut);
            if let Some(Operand::Array(place, _)) = operands.as_mut().and_then(|all| all.get_mut(holder.operand)) {
                *place = array.clone();
            }
        }
    }

    /// Has the kernel write the storage. If it does not run, everybody has the operand again.
    fn spend(mut self, root: &Node, plan: &mut Plan, element: Source, site: &Site) -> Outcome<Option<Storage>> {
        let (kind, shape) = (self.array.element().clone(), self.array.shape().to_vec());
        let nothing = Array::unplaced(root.scalar, &[0])?;
        let mut storage = match std::mem::replace(&mut self.array, nothing).into_storage() {
            Ok(storage) => storage,
            // Somebody else has taken it meanwhile.
            Err(array) => {
                self.back(root, plan, array);
                return Ok(None);
            }
        };
        let control = Control { stop: Arc::default(), ..site.control().clone() };
        let written = stop::watched(None, || {
            controlled(plan, element, (root.scalar, &root.shape), site, (&mut storage, &[]), &control)
        });
        match written {
            Ok(()) => Ok(Some(storage)),
            Err(problem) => {
                self.back(root, plan, Array::with_storage(kind, &shape, storage)?);
                Err(problem)
            }
        }
    }

    fn back(&self, root: &Node, plan: &mut Plan, array: Array) {
        self.hand(root, &array);
        plan.donor = None;
        plan.inputs[self.donor].array = array;
    }
}
