//! Computing a node when its result is needed: its rows by one kernel if it reduces some, else what its plan says.

use std::any::Any;

use crate::device::profile::standing_at;
use crate::device::storage::Storage;
use crate::host::array::{AlignedBytes, Element, Work, no_memory};
use crate::host::graph::donate;
use crate::host::graph::node::{Node, Operand, node_of};
use crate::host::graph::place::is_for_device;
use crate::host::graph::plan::{Plan, Source};
use crate::host::graph::rows;
use crate::host::graph::run::{SMALL, compute, now};
use crate::host::problem::Outcome;

/// The operations below a small result among which an array of a device is looked for.
const DEPTH: usize = 4;

/// Returns whether a device alone has what an operand is computed from.
fn is_there(operand: &Operand, depth: usize) -> bool {
    let Operand::Array(array, _) = operand else { return false };
    if let Some(storage) = array.data().computed() {
        return storage.here().is_none() && storage.remote().is_some();
    }
    let of_node = |node: &Node| node.operands().iter().any(|operand| is_there(operand, depth - 1));
    depth > 0 && array.data().work().is_some_and(|work| node_of(&*work).is_some_and(of_node))
}

impl Work for Node {
    fn run(&self, len: usize) -> Outcome<Storage> {
        let _place = self.site.counts().then(|| standing_at(self.span));
        // A few scalars are fetched in less time than a kernel takes, even if one for them is known: unless a kernel needs them, which
        // then need not wait for what the device has to do before.
        let stays = is_for_device() && self.operands().iter().any(|operand| is_there(operand, DEPTH));
        if len <= SMALL * self.scalar.size() && !stays {
            let mut bytes =
                AlignedBytes::zeroed(len).ok_or_else(|| no_memory(&Element::Scalar(self.scalar), &self.shape))?;
            now(self.op, &self.operands(), &self.shape, &mut bytes, self.scalar.size())?;
            return Ok(Storage::of_bytes(bytes));
        }
        if let Some(storage) = rows::of_node(self)? {
            return Ok(storage);
        }
        let mut plan = Plan::of(self)?;
        let last = Source::Step(plan.steps.len().saturating_sub(1));
        if let Some(storage) = donate::in_place(self, &mut plan, last, len)? {
            return Ok(storage);
        }
        let wait = self.op.may_fault(&self.operands());
        compute(&plan, last, (self.scalar, &self.shape), &self.site, len, wait)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
