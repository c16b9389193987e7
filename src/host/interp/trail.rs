//! What expressions of a run did with arrays, kept for whoever asks later where an element came from.
//!
//! Input: each expression that is evaluated while launches are kept. Output: [`Step`]s: an expression that takes or gives arrays, with
//! the values of its operands and its result. Idea: an evaluation collects the values of what was evaluated directly within it, in order,
//! so that no operation has to know of it. Arrays are values, and a step keeps its own: what has the same storage later is the same array.
//!
//! Nothing is kept while derivatives are taken, and nothing more once the arrays that expressions made take [`MOST_BYTES`]: what is missing
//! then is known to be missing. What is written in a part of an array is not kept: each write would cost a copy. Of a number in a variable
//! the step is that of the last assignment, else the last one of its definition, if that gave this number. So that there are steps of
//! numbers, code is built as for derivatives, with floats as values.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::source::{FileId, Span};
use crate::check::typed::{Chunk, Expr, ExprKind, FnRef, GlobalId, LocalId, Program, SliceIndex, SmolStr, Type};
use crate::host::array::Array;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;

use super::record::is_same;

/// An operand of an expression.
#[derive(Clone)]
pub struct Operand {
    pub span: Span,
    pub value: Value,
    /// The step of the operand's own expression.
    pub step: Option<usize>,
}

/// An expression that was evaluated.
pub struct Step {
    pub what: What,
    pub span: Span,
    /// In order of evaluation.
    pub operands: Vec<Operand>,
    pub result: Value,
    /// The number of launches before its result was there.
    pub launches: usize,
}

/// What an expression did.
pub enum What {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Convert(Scalar),
    Index(Vec<Bounds>),
    /// The number of arguments, and the names of those that have names.
    Builtin(Builtin, usize, Vec<(SmolStr, Span)>),
    /// An array literal.
    Literal,
    /// A number of the program.
    Constant,
    /// A function of scalars, for each element.
    Lift,
    /// Another operation, in words.
    Other(&'static str),
}

/// Which parts of an index were written.
pub enum Bounds {
    One,
    Range { start: bool, end: bool, step: bool, inclusive: bool },
}

/// Bytes of the results of steps, and steps, beyond which no more are kept.
const MOST_BYTES: usize = 1 << 30;
const MOST_STEPS: usize = 1 << 20;
/// Steps that gave numbers, beyond which no more of these are kept: a long loop over numbers leaves room for arrays.
const MOST_NUMBERS: usize = 1 << 18;

/// A variable: one of a function is that of an activation, by the address of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    Global(GlobalId),
    Local(usize, LocalId),
}

/// The steps so far.
#[derive(Default)]
pub struct Trail {
    pub steps: Vec<Step>,
    /// Whether there were more than were kept.
    pub is_full: bool,
    bytes: usize,
    /// How many steps gave numbers.
    count: usize,
    /// The step of the last expression, if that was kept.
    last: Option<usize>,
    /// The last steps that gave numbers, by where their expressions begin.
    numbers: FxHashMap<(FileId, u32), usize>,
    /// The steps that last gave numbers to variables that were assigned to; `None` for a number of which no step is known.
    pub(super) assigned: FxHashMap<Variable, Option<usize>>,
    /// The part of the script that runs, of which variables outside of functions are.
    pub(super) chunk: Option<Arc<Chunk>>,
    /// What was evaluated within the current expression, and where that stands.
    pub(super) operands: Vec<Operand>,
    pub(super) within: Option<Span>,
}

/// What an element was made of.
pub enum Origin {
    /// An operation on the elements at these positions, by operand (`None`: it is no array). With the result of the operation on them, done
    /// once more, if that is known and is not what the array has.
    Each(Vec<Option<usize>>, Option<Value>),
    /// The same element of an operand.
    Moved(usize, usize),
    /// A reduction of elements of the operands.
    Reduced(Reduced),
    /// It was made of no array.
    Created,
    /// It is not known, and why.
    Unknown(String),
}

/// A reduction, and what explains the result.
pub struct Reduced {
    /// The number of elements, or of products of two.
    pub count: usize,
    /// What they are.
    pub of: &'static str,
    /// What is said of them, or of the one that explains the result.
    pub is: &'static str,
    /// The elements of that one: the operand and the position of each.
    pub at: Vec<(usize, usize)>,
}

impl Trail {
    /// Returns the first step that made an array, with its number: later ones passed it on.
    pub fn maker(&self, array: &Array) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| step.made(array))
    }
}

impl Trail {
    pub(super) fn keep(&mut self, step: Step) {
        self.last = None;
        if let Value::Array(array) = &step.result
            && step.made(array)
        {
            self.bytes = self.bytes.saturating_add(array.byte_len());
        }
        self.is_full |= self.bytes > MOST_BYTES || self.steps.len() >= MOST_STEPS;
        if !self.is_full {
            if let Value::Scalar(_) = step.result {
                let place = (step.span.file, step.span.start);
                if self.count == MOST_NUMBERS {
                    self.numbers.remove(&place);
                    return;
                }
                self.count += 1;
                self.numbers.insert(place, self.steps.len());
            }
            self.last = Some(self.steps.len());
            self.steps.push(step);
        }
    }

    /// Returns the last step, if it is that of the expression at a place, which has this value.
    pub(super) fn gave_last(&self, span: Span, value: &Value) -> Option<usize> {
        self.last.filter(|last| self.steps[*last].gave(span, value))
    }

    /// Returns the step that gave a number to a variable, of which this is the definition, with the text of its file.
    pub(super) fn definition(&self, name: Span, text: &str, value: &Value) -> Option<usize> {
        let behind = text.get(name.end as usize..)?;
        let sign = behind.find('=').filter(|at| !behind[..*at].contains(['\n', ',', ')']))?;
        let rest = &behind[sign + 1..];
        let start = name.end as usize + sign + 1 + (rest.len() - rest.trim_start().len());
        let step = *self.numbers.get(&(name.file, start as u32))?;
        let gave = self.steps.get(step)?;
        gave.gave(gave.span, value).then_some(step)
    }
}

impl Step {
    /// Returns whether this is the expression at a place, and has this value: an operand may have been converted since.
    pub(super) fn gave(&self, span: Span, value: &Value) -> bool {
        let is_it = match (&self.result, value) {
            (Value::Array(own), Value::Array(other)) => is_same(own, other),
            (Value::Scalar(own), Value::Scalar(other)) => own == other,
            _ => false,
        };
        is_it && self.span == span
    }

    fn made(&self, array: &Array) -> bool {
        let is_it = |value: &Value| matches!(value, Value::Array(own) if is_same(own, array));
        is_it(&self.result) && !self.operands.iter().any(|operand| is_it(&operand.value))
    }
}

impl What {
    pub(super) fn of(program: &Program, expr: &Expr) -> Option<What> {
        Some(match &expr.kind {
            ExprKind::Unary { op, .. } => What::Unary(*op),
            ExprKind::Binary { op, .. } => What::Binary(*op),
            ExprKind::Convert { to, .. } => What::Convert(*to),
            ExprKind::Index { indices, .. } => What::Index(indices.iter().map(|_| Bounds::One).collect()),
            ExprKind::Slice { indices, .. } => What::Index(indices.iter().map(Bounds::of).collect()),
            ExprKind::Builtin { builtin, args, named } => {
                let named = named.iter().map(|(name, value)| (name.clone(), value.span)).collect();
                What::Builtin(*builtin, args.len(), named)
            }
            ExprKind::Array(_) => What::Literal,
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Const(_) | ExprKind::ConstParam(_) => What::Constant,
            // A function that takes arrays gets them as a whole.
            ExprKind::Lift { callee: FnRef::Fn { id, .. }, .. }
                if !program.fns[*id].sig.params.iter().any(|param| matches!(param.ty, Type::Array(_))) =>
            {
                What::Lift
            }
            ExprKind::Lift { .. } => What::Other("the result of a function"),
            ExprKind::ConvertParam { .. } => What::Other("a conversion to a type that a function is given"),
            ExprKind::Bitcast { .. } => What::Other("the same bits as another type"),
            ExprKind::Swizzle { .. } => What::Other("components of vectors"),
            ExprKind::Field { .. } | ExprKind::TupleField { .. } | ExprKind::DynField { .. } => {
                What::Other("a field of a value")
            }
            ExprKind::Derive(_) | ExprKind::Stated(_) => What::Other("a derivative"),
            _ => return None,
        })
    }
}

impl Bounds {
    fn of(index: &SliceIndex) -> Bounds {
        match index {
            SliceIndex::At(_) | SliceIndex::Of(_) => Bounds::One,
            SliceIndex::Range { start, end, inclusive, step } => Bounds::Range {
                start: start.is_some(),
                end: end.is_some(),
                step: step.is_some(),
                inclusive: *inclusive,
            },
        }
    }
}
