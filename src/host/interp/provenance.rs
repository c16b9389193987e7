//! Provenance trace of one execution: which array expressions produced which values, for later queries (`clk why`).
//!
//! Input: each expression that is evaluated while launches are recorded. Output: [`TraceStep`]s, expressions on arrays
//! with their operands and results. Each evaluation collects the values of its direct subexpressions, so the
//! implementations of operations need no code for tracing. Arrays are identified by their storage, which a step keeps
//! alive.
//!
//! The trace does not record:
//!
//! - expressions inside derivatives;
//! - writes to parts of arrays, because each would cost a copy;
//! - anything after the results exceed [`MAX_BYTES`] (`is_full` is then set).
//!
//! Numbers are traced like arrays. The step of a number in a variable is that of its last assignment, or of its
//! definition if there was no assignment. While a trace is recorded, bytecode keeps floats in `HostValue`s instead of
//! slots (`CodeMode::traced`), so that their operations are evaluated as expressions.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::array::Array;
use crate::value::HostValue;
use clk_base::source::{FileId, Span};
use clk_check::typed::{Expr, ExprKind, FnRef, GlobalId, LocalId, Program, ScriptChunk, SliceIndex, SmolStr, Type};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, UnaryOp};

use super::recorded_launch::is_same_array;

/// An operand of an expression.
#[derive(Clone)]
pub struct TraceOperand {
    pub span: Span,
    pub value: HostValue,
    /// The step that produced the operand, if it was recorded.
    pub step: Option<usize>,
}

/// An evaluated expression.
pub struct TraceStep {
    pub op: TraceOp,
    pub span: Span,
    /// The operands, in order of evaluation.
    pub operands: Vec<TraceOperand>,
    pub result: HostValue,
    /// Number of launches that were recorded before the evaluation of the expression ended.
    pub launches: usize,
}

/// The operation of an expression.
pub enum TraceOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Convert(Scalar),
    Index(Vec<IndexSyntax>),
    /// A builtin, its number of positional arguments, and its named arguments with their locations.
    Builtin(Builtin, usize, Vec<(SmolStr, Span)>),
    /// An array literal.
    Literal,
    /// A literal or constant of the program.
    Constant,
    /// A scalar function, applied elementwise.
    Lift,
    /// An operation that queries do not follow, with its description for the answer.
    Other(&'static str),
}

/// Syntax of an index: a single value, or a range with the parts that were written.
pub enum IndexSyntax {
    One,
    Range { start: bool, end: bool, step: bool, inclusive: bool },
}

/// Maximum total size in bytes of the recorded results. [`MAX_STEPS`] is the maximum number of steps. Recording stops
/// when either is reached.
const MAX_BYTES: usize = 1 << 30;
const MAX_STEPS: usize = 1 << 20;
/// Maximum number of steps whose result is a number, so that a long loop over numbers leaves room for arrays.
const MAX_NUMBER_STEPS: usize = 1 << 18;

/// A variable, in the trace. A variable of a function belongs to one activation, identified by the address of its
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TracedVariable {
    Global(GlobalId),
    Local(usize, LocalId),
}

/// The steps of a run.
#[derive(Default)]
pub struct ProvenanceTrace {
    pub steps: Vec<TraceStep>,
    /// Whether steps were dropped because a limit was exceeded.
    pub is_full: bool,
    bytes: usize,
    /// Number of steps whose result is a number.
    number_count: usize,
    /// The step of the last evaluated expression, if it was recorded.
    last_step: Option<usize>,
    /// For each expression, by its start: its last step whose result is a number.
    number_steps: FxHashMap<(FileId, u32), usize>,
    /// For each variable that was assigned a number: the step that produced its current value, or `None` if unknown.
    pub(super) assigned: FxHashMap<TracedVariable, Option<usize>>,
    /// The script chunk that is running. It declares the variables outside of functions.
    pub(super) chunk: Option<Arc<ScriptChunk>>,
    /// Operands of the current expression that were evaluated so far. `enclosing` is the location of that expression.
    pub(super) operands: Vec<TraceOperand>,
    pub(super) enclosing: Option<Span>,
}

/// The origin of an element.
pub enum ElementOrigin {
    /// An elementwise operation. The first field has the position of the element in each operand (`None` if the operand
    /// is not an array). The second field is the recomputed result, if it differs from the array's element.
    Each(Vec<Option<usize>>, Option<HostValue>),
    /// A copy of an operand's element: the index of the operand, and the position of the element in it.
    Moved(usize, usize),
    /// A reduction of operand elements.
    Reduced(ReductionOrigin),
    /// The element does not depend on an array.
    Created,
    /// The origin is unknown. The field is the reason.
    Unknown(String),
}

/// A reduction, with the operand elements that explain its result, such as the largest term of a sum.
pub struct ReductionOrigin {
    /// The number of reduced elements; for a matrix product, the number of products of two elements.
    pub count: usize,
    /// The noun for `count` in messages: "elements" or "products".
    pub unit: &'static str,
    /// Text between `unit` and the witness in messages, such as "of which the largest is".
    pub relation: &'static str,
    /// The element that explains the result, or the two factors of a product: operand index and position of each.
    pub witness: Vec<(usize, usize)>,
}

impl ProvenanceTrace {
    /// Returns the step that produced an array, with its index. This is the first step whose result is the array; later
    /// steps with that result returned the array unchanged.
    pub fn producing_step(&self, array: &Array) -> Option<(usize, &TraceStep)> {
        self.steps.iter().enumerate().find(|(_, step)| step.created(array))
    }
}

impl ProvenanceTrace {
    pub(super) fn add_step(&mut self, step: TraceStep) {
        self.last_step = None;
        if let HostValue::Array(array) = &step.result
            && step.created(array)
        {
            self.bytes = self.bytes.saturating_add(array.byte_len());
        }
        self.is_full |= self.bytes > MAX_BYTES || self.steps.len() >= MAX_STEPS;
        if !self.is_full {
            if let HostValue::Scalar(_) = step.result {
                let place = (step.span.file, step.span.start);
                if self.number_count == MAX_NUMBER_STEPS {
                    self.number_steps.remove(&place);
                    return;
                }
                self.number_count += 1;
                self.number_steps.insert(place, self.steps.len());
            }
            self.last_step = Some(self.steps.len());
            self.steps.push(step);
        }
    }

    /// Returns the index of the last step, if it is the expression at `span` and produced `value`.
    pub(super) fn last_step_for(&self, span: Span, value: &HostValue) -> Option<usize> {
        self.last_step.filter(|last| self.steps[*last].produced(span, value))
    }

    /// Returns the index of the step of a variable's initializer, if it produced the number `value`. `name` is the
    /// location of the variable's name in its definition, and `text` is the text of that file.
    pub(super) fn definition_step(&self, name: Span, text: &str, value: &HostValue) -> Option<usize> {
        let after_name = text.get(name.end as usize..)?;
        let sign = after_name.find('=').filter(|at| !after_name[..*at].contains(['\n', ',', ')']))?;
        let rest = &after_name[sign + 1..];
        let start = name.end as usize + sign + 1 + (rest.len() - rest.trim_start().len());
        let step = *self.number_steps.get(&(name.file, start as u32))?;
        let gave = self.steps.get(step)?;
        gave.produced(gave.span, value).then_some(step)
    }
}

impl TraceStep {
    /// Returns whether this step is the expression at `span` with the result `value`. It is not if the result was
    /// converted after the step.
    pub(super) fn produced(&self, span: Span, value: &HostValue) -> bool {
        let is_it = match (&self.result, value) {
            (HostValue::Array(own), HostValue::Array(other)) => is_same_array(own, other),
            (HostValue::Scalar(own), HostValue::Scalar(other)) => own == other,
            _ => false,
        };
        is_it && self.span == span
    }

    fn created(&self, array: &Array) -> bool {
        let is_it = |value: &HostValue| matches!(value, HostValue::Array(own) if is_same_array(own, array));
        is_it(&self.result) && !self.operands.iter().any(|operand| is_it(&operand.value))
    }
}

impl TraceOp {
    pub(super) fn of_expr(program: &Program, expr: &Expr) -> Option<TraceOp> {
        Some(match &expr.kind {
            ExprKind::Unary { op, .. } => TraceOp::Unary(*op),
            ExprKind::Binary { op, .. } => TraceOp::Binary(*op),
            ExprKind::Convert { to, .. } => TraceOp::Convert(*to),
            ExprKind::Index { indices, .. } => TraceOp::Index(indices.iter().map(|_| IndexSyntax::One).collect()),
            ExprKind::Slice { indices, .. } => TraceOp::Index(indices.iter().map(IndexSyntax::of_index).collect()),
            ExprKind::Builtin { builtin, args, named } => {
                let named_args = named.iter().map(|(name, value)| (name.clone(), value.span)).collect();
                TraceOp::Builtin(*builtin, args.len(), named_args)
            }
            ExprKind::Array(_) => TraceOp::Literal,
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Const(_) | ExprKind::ConstParam(_) => TraceOp::Constant,
            // A function with array parameters is not applied elementwise.
            ExprKind::Lift { callee: FnRef::Fn { id, .. }, .. }
                if !program.fns[*id].sig.params.iter().any(|param| matches!(param.ty, Type::Array(_))) =>
            {
                TraceOp::Lift
            }
            ExprKind::Lift { .. } => TraceOp::Other("the result of a function"),
            ExprKind::ConvertParam { .. } => TraceOp::Other("a conversion to a type that a function is given"),
            ExprKind::Bitcast { .. } => TraceOp::Other("the same bits in another type"),
            ExprKind::Swizzle { .. } => TraceOp::Other("components of vectors"),
            ExprKind::Field { .. } | ExprKind::TupleField { .. } | ExprKind::DynField { .. } => {
                TraceOp::Other("a field of a value")
            }
            ExprKind::Derive(_) | ExprKind::CustomVjp(_) => TraceOp::Other("a derivative"),
            _ => return None,
        })
    }
}

impl IndexSyntax {
    fn of_index(index: &SliceIndex) -> IndexSyntax {
        match index {
            SliceIndex::At(_) | SliceIndex::Of(_) => IndexSyntax::One,
            SliceIndex::Range { start, end, inclusive, step } => IndexSyntax::Range {
                start: start.is_some(),
                end: end.is_some(),
                step: step.is_some(),
                inclusive: *inclusive,
            },
        }
    }
}
