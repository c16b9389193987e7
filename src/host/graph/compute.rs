//! Computing a node when its result is needed: its rows by one kernel if it reduces some, else what its plan says.

use std::any::Any;

use crate::device::storage::Storage;
use crate::host::array::{AlignedBytes, Element, Work, no_memory};
use crate::host::graph::donate;
use crate::host::graph::node::Node;
use crate::host::graph::plan::{Plan, Source};
use crate::host::graph::rows;
use crate::host::graph::run::{SMALL, compute, now};
use crate::host::problem::Outcome;

impl Work for Node {
    fn run(&self, len: usize) -> Outcome<Storage> {
        // A few scalars are fetched in less time than a kernel takes, even if one for them is known.
        if len <= SMALL * self.scalar.size() {
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
