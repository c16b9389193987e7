//! The values of index expressions in one thread: solves `i + 1 = 5` for the index of the thread, and evaluates
//! conditions with it.

use rustc_hash::FxHashMap;

use super::context::FaultContext;
use super::thread_variance::ThreadCount;
use clk_check::typed::*;
use clk_runtime::LaunchExtents;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// Whether an index expression has the wanted value for some thread. The last variant is the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SolvedIndex {
    Solved,
    Unknown,
    /// No thread and no iteration gives the expression this value.
    OtherElement,
}

/// What is known about one thread: the values of its indices and loop variables, and the extents of one array.
pub(super) struct ThreadValues<'c, 'a> {
    pub case: &'c FaultContext<'a>,
    dims: FxHashMap<u32, i128>,
    locals: FxHashMap<LocalId, i128>,
    /// `global_idx`
    global: [Option<i128>; 3],
}

impl<'c, 'a> ThreadValues<'c, 'a> {
    /// Knows the dimensions that `shape` determines as the shape of an array of this type.
    pub fn new(case: &'c FaultContext<'a>, array: &ArrayType, shape: &[u32]) -> Self {
        let named = array.dims.iter().zip(shape).filter_map(|(dim, &extent)| match dim {
            Dim::Name(dim) => Some((*dim, extent.into())),
            _ => None,
        });
        ThreadValues { case, dims: named.collect(), locals: FxHashMap::default(), global: [None; 3] }
    }

    /// Returns the value of a thread index or of a loop variable.
    pub fn local(&self, id: LocalId) -> Option<i128> {
        self.locals.get(&id).copied()
    }

    pub fn global_index(&self, lane: u8) -> Option<i128> {
        *self.global.get(usize::from(lane))?
    }

    /// Chooses the values of the unknown index in `e` such that `e` has this value.
    pub fn solve(&mut self, e: &Expr, value: i128) -> SolvedIndex {
        if let Some(known) = self.evaluate(e) {
            return if known == value { SolvedIndex::Solved } else { SolvedIndex::OtherElement };
        }
        if let Some((ThreadCount::Grid, lane)) = self.case.number(e)
            && let Some(global) = self.global.get_mut(usize::from(lane))
        {
            *global = Some(value);
            return SolvedIndex::Solved;
        }
        match &e.kind {
            ExprKind::Local(id) => {
                let Some(local) = self.case.body.locals.get(*id) else { return SolvedIndex::Unknown };
                if matches!(local.kind, LocalKind::ThreadIndex | LocalKind::Loop) {
                    self.locals.insert(*id, value);
                    return SolvedIndex::Solved;
                }
                let defined = self.case.definition(e);
                if std::ptr::eq(defined, e) { SolvedIndex::Unknown } else { self.solve(defined, value) }
            }
            ExprKind::Binary { op: BinaryOp::Add, left, right } => match (self.evaluate(left), self.evaluate(right)) {
                (Some(known), None) => self.solve(right, value - known),
                (None, Some(known)) => self.solve(left, value - known),
                _ => SolvedIndex::Unknown,
            },
            ExprKind::Binary { op: BinaryOp::Sub, left, right } => match (self.evaluate(left), self.evaluate(right)) {
                (Some(known), None) => self.solve(right, known - value),
                (None, Some(known)) => self.solve(left, value + known),
                _ => SolvedIndex::Unknown,
            },
            _ => SolvedIndex::Unknown,
        }
    }

    /// Returns the value of an integer or, as 0 or 1, of a condition; `None` if it depends on unknown values.
    pub fn evaluate(&self, e: &Expr) -> Option<i128> {
        let value = self.evaluate_exactly(e)?;
        // Values outside of the type wrap.
        let fits = |scalar: Scalar| scalar == Scalar::Bool || ScalarValue::from_integer(scalar, value).is_some();
        matches!(e.ty, Type::Scalar(scalar) if fits(scalar)).then_some(value)
    }

    fn evaluate_exactly(&self, e: &Expr) -> Option<i128> {
        match &e.kind {
            ExprKind::Int(n) => Some(*n),
            ExprKind::Bool(value) => Some(i128::from(*value)),
            ExprKind::Dim(dim) => self.dims.get(dim).copied(),
            ExprKind::Const(id) => self.case.program.consts.get(*id)?.const_value,
            ExprKind::Local(id) => self.local(*id).or_else(|| {
                let defined = self.case.definition(e);
                if std::ptr::eq(defined, e) { None } else { self.evaluate(defined) }
            }),
            ExprKind::Swizzle { base, lanes } => {
                let ([lane], ExprKind::Variable(variable)) = (&lanes[..], &base.kind) else { return None };
                let LaunchExtents::Grid { grid, block } = self.case.extents else { return None };
                let size = i128::from(*block.get(usize::from(*lane))?);
                match variable {
                    Builtin::BlockDim => Some(size),
                    Builtin::GridDim => Some(i128::from(*grid.get(usize::from(*lane))?)),
                    Builtin::GlobalIdx => self.global_index(*lane),
                    Builtin::BlockIdx => self.global_index(*lane)?.checked_div(size),
                    Builtin::ThreadIdx => self.global_index(*lane)?.checked_rem(size),
                    _ => None,
                }
            }
            ExprKind::Convert { expr, .. } if matches!(&e.ty, Type::Scalar(scalar) if scalar.is_int()) => {
                self.evaluate(expr)
            }
            ExprKind::Unary { op: UnaryOp::Neg, expr } => Some(-self.evaluate(expr)?),
            ExprKind::Unary { op: UnaryOp::Not, expr } if e.ty == Type::Scalar(Scalar::Bool) => {
                Some(1 - self.evaluate(expr)?)
            }
            ExprKind::Binary { op: BinaryOp::And, left, right } => match (self.evaluate(left), self.evaluate(right)) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (left, right) => left.and(right),
            },
            ExprKind::Binary { op: BinaryOp::Or, left, right } => match (self.evaluate(left), self.evaluate(right)) {
                (Some(1), _) | (_, Some(1)) => Some(1),
                (left, right) => left.and(right),
            },
            ExprKind::Binary { op, left, right } => {
                let (a, b) = (self.evaluate(left)?, self.evaluate(right)?);
                match op {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Sub => a.checked_sub(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    BinaryOp::Div => a.checked_div(b),
                    BinaryOp::Rem => a.checked_rem(b),
                    BinaryOp::Eq => Some(i128::from(a == b)),
                    BinaryOp::Ne => Some(i128::from(a != b)),
                    BinaryOp::Lt => Some(i128::from(a < b)),
                    BinaryOp::Le => Some(i128::from(a <= b)),
                    BinaryOp::Gt => Some(i128::from(a > b)),
                    BinaryOp::Ge => Some(i128::from(a >= b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
