//! The tape: a record of the operations of a differentiated function.

use std::sync::{Arc, Mutex, PoisonError};

use super::kernel::GradLaunch;
use super::tape_op::TapeOp;
use super::trace_value::trace;
use super::value_shape::ValueShape;
use crate::graph::ExecContext;
use crate::problem::{HostResult, NO_GRAD, RuntimeError};
use crate::value::{GradLink, HostValue};
use clk_base::source::Span;

/// The operations that were recorded at one differentiation level, in order. Each node is a value that can have an
/// adjoint.
#[derive(Debug, Default)]
pub(crate) struct GradTape {
    pub(super) nodes: Mutex<Vec<TapeNode>>,
    /// For each statement that was executed, the number of nodes before it, and its location.
    statements: Mutex<Vec<(u32, Span)>>,
}

/// A node of the tape: a parameter, or the result of an operation.
#[derive(Debug)]
pub(super) struct TapeNode {
    /// The operation that computed the node; `None` for a parameter.
    pub op: Option<TapeOp>,
    pub operands: Vec<TapeOperand>,
    /// The value, if the derivative needs it.
    pub result: Option<HostValue>,
    pub shape: ValueShape,
}

#[derive(Debug)]
pub(super) struct TapeOperand {
    /// The index of the operand's node, if the operand is traced at this level.
    pub node: Option<u32>,
    /// The value, if the derivative needs it.
    pub value: Option<HostValue>,
    /// The shape of the operand; `None` for an untyped literal and for a condition.
    pub shape: Option<ValueShape>,
}

impl GradTape {
    /// Records that the following nodes belong to the statement at this location.
    pub fn enter_statement(&self, at: Span) {
        let count = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).len() as u32;
        let mut places = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if places.last().is_some_and(|(since, _)| *since == count) {
            places.pop();
        }
        if places.last().is_none_or(|(_, place)| *place != at) {
            places.push((count, at));
        }
    }

    /// Returns the location of the statement that a node belongs to.
    pub(super) fn statement_of(&self, step: usize) -> Option<Span> {
        let places = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let next = places.partition_point(|(since, _)| *since as usize <= step);
        places.get(next.checked_sub(1)?).map(|(_, place)| *place)
    }

    /// Returns the tape of values with these links, if one of them is a node of a tape.
    pub(super) fn for_links(links: &[Option<GradLink>]) -> Option<Arc<GradTape>> {
        links.iter().flatten().find_map(|link| match link {
            GradLink::Node(tape, _) => tape.clone().downcast().ok(),
            GradLink::Tangent(_) | GradLink::Audit(_) => None,
        })
    }

    /// Adds a parameter. Returns the traced value, and the index of its node.
    pub fn leaf(self: &Arc<GradTape>, value: HostValue, level: u32) -> HostResult<(HostValue, u32)> {
        let form = ValueShape::for_value(&value)
            .ok_or_else(|| not_differentiable(&format!("a `{}` has no derivative", value.type_name())))?;
        let node = self.push(TapeNode { op: None, operands: vec![], result: None, shape: form });
        Ok((trace(value, level, GradLink::Node(self.clone(), node)), node))
    }

    pub(super) fn push(&self, step: TapeNode) -> u32 {
        let mut steps = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step);
        (steps.len() - 1) as u32
    }

    pub(super) fn record(
        &self,
        op: &TapeOp,
        args: Vec<HostValue>,
        links: &[Option<GradLink>],
        result: &HostValue,
    ) -> Option<u32> {
        let form = ValueShape::for_value(result)?;
        let (needs_operands, needs_result) = op.needed_values();
        let count = links.iter().flatten().count();
        let operand = |(arg, link): (HostValue, &Option<GradLink>)| {
            let node = link.as_ref().and_then(GradLink::node);
            // The derivative of a product with respect to one factor does not need the value of that factor.
            let is_lone_factor = op.is_product() && count == usize::from(node.is_some());
            let needed = needs_operands && !is_lone_factor;
            TapeOperand { node, shape: ValueShape::for_value(&arg), value: needed.then_some(arg) }
        };
        let operands = args.into_iter().zip(links).map(operand).collect();
        let result = needs_result.then(|| result.clone());
        Some(self.push(TapeNode { op: Some(op.clone()), operands, result, shape: form }))
    }
}

/// The kind of error that a gradient check reports: wrong rules, or points at which an operation is not differentiable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AuditTarget {
    WrongRules,
    Kinks,
}

/// A gradient check that is called for each operation.
pub(super) trait DerivativeCheck: Send + Sync {
    fn target(&self) -> AuditTarget;
    /// Checks the derivative of an operation. `active` marks the operands that are differentiated.
    fn check_op(
        &self,
        exec: &ExecContext,
        op: &TapeOp,
        args: &[HostValue],
        active: &[bool],
        result: &HostValue,
    ) -> HostResult<()>;
    fn check_launch(
        &self,
        exec: &ExecContext,
        launch: &GradLaunch,
        args: &[HostValue],
        active: &[bool],
    ) -> HostResult<()>;
}

/// The link of traced values in a gradient check of single operations. It checks each operation on them.
pub(crate) struct DerivativeAuditor(pub(super) Box<dyn DerivativeCheck>);

impl DerivativeAuditor {
    /// Returns the auditor of values with these links, if they have one, and the link for the result of an operation on
    /// them.
    pub(super) fn for_links(links: &[Option<GradLink>]) -> Option<(Arc<DerivativeAuditor>, GradLink)> {
        links.iter().flatten().find_map(|link| match link {
            GradLink::Audit(auditor) => Some((auditor.clone().downcast().ok()?, link.clone())),
            _ => None,
        })
    }
}

/// Returns the error for an operation that has no derivative.
pub(crate) fn not_differentiable(what: &str) -> RuntimeError {
    RuntimeError::new("E0720", "the derivative is lost here").label(what).help(NO_GRAD)
}
