//! Stores that several threads may do at one place, with one value: a race that leaves one result, but whose derivative each of
//! them would take.
//!
//! Also sums in types that are too narrow. Input is a kernel with its activity, output a refusal. A store counts as one thread's if an index tells threads apart, or if it
//! stands behind a comparison for equality that does. This looks at the form of indices; `clk prove` and `--check` say what races.

use super::active::Activity;
use super::lost::Lost;
use crate::ir::def::{
    Access, BinOp, Block, ExprId, ExprKind, Function, Id3, Kernel, KernelParam, Place, Scalar, Space, Stmt, StmtKind,
    Ty,
};

/// Refuses stores of active values that more than one thread may do at one place.
pub(super) fn refusal(f: &Function, activity: &Activity) -> Result<(), Lost> {
    Search { f, activity }.block(&f.body, false)
}

/// Refuses adjoints of `f16` and `bf16` that are sums of the parts of several threads: such sums soon stop to grow.
pub(super) fn narrow(kernel: &Kernel, f: &Function, active: &[bool], own: &[bool]) -> Result<(), Lost> {
    let is_narrow = |ty: Ty| matches!(ty.scalar(), Scalar::F16 | Scalar::Bf16);
    for (param, _) in kernel.params.iter().zip(active).filter(|(_, active)| **active) {
        let (name, sums) = match param {
            KernelParam::Value { name, ty } => (name, is_narrow(*ty)),
            KernelParam::Array { name, access, memory } => {
                let leaves = &f.memories[*memory].layout.leaves;
                let added = !own[memory.index()] && *access != Access::Out;
                (name, added && leaves.iter().any(|leaf| is_narrow(leaf.ty)))
            }
        };
        if sums {
            let label =
                format!("the adjoint of `{name}` is a sum of many parts, for which its type has too few digits");
            return Err(Lost::new(kernel.span, label, "convert it to `f32` before the launch"));
        }
    }
    Ok(())
}

struct Search<'a> {
    f: &'a Function,
    activity: &'a Activity,
}

impl Search<'_> {
    fn block(&self, block: &Block, alone: bool) -> Result<(), Lost> {
        block.iter().try_for_each(|stmt| self.stmt(stmt, alone))
    }

    fn stmt(&self, stmt: &Stmt, alone: bool) -> Result<(), Lost> {
        match &stmt.kind {
            StmtKind::Store { place, value, .. } => {
                let seen = !matches!(self.f.memories[place.memory].space, Space::Local | Space::Constant);
                let active = self.activity.place(self.f, place) && self.activity.expr(*value);
                if seen && active && !alone && !self.tells_apart(place) {
                    let label = "several threads may store here, and each would take the whole derivative";
                    return Err(Lost::new(stmt.span, label, "let one of them store it: `if thread_idx.x == 0 { … }`"));
                }
                Ok(())
            }
            StmtKind::If { cond, then, other } => {
                self.block(then, alone || self.selects(*cond))?;
                self.block(other, alone)
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                self.block(body, alone)
            }
            _ => Ok(()),
        }
    }

    /// Whether an index differs from thread to thread, or two of them are the quotient and the remainder of one.
    fn tells_apart(&self, place: &Place) -> bool {
        let divides = |op: BinOp| place.indices.iter().any(|&index| self.has(index, op) && self.varies(index));
        place.indices.iter().any(|&index| self.is_own(index)) || divides(BinOp::Div) && divides(BinOp::Rem)
    }

    /// Whether an expression has another value in each thread, as far as its form tells: a position of the thread, moved and scaled.
    /// What is read from variables and arrays is taken for one.
    fn is_own(&self, id: ExprId) -> bool {
        match &self.f.exprs[id].kind {
            ExprKind::Id(Id3::Thread | Id3::Global, _)
            | ExprKind::Index(_)
            | ExprKind::LaneIdx
            | ExprKind::WarpIdx
            | ExprKind::Read(_)
            | ExprKind::Load { .. }
            | ExprKind::Result => true,
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Xor, left, right } => {
                self.is_own(*left) || self.is_own(*right)
            }
            ExprKind::Binary { op: BinOp::Shl, left, .. } | ExprKind::Convert(left) => self.is_own(*left),
            ExprKind::Extract { value, .. } => self.is_own(*value),
            ExprKind::Compose(parts) => parts.iter().any(|&part| self.is_own(part)),
            ExprKind::Select { then, other, .. } => self.is_own(*then) && self.is_own(*other),
            _ => false,
        }
    }

    /// Whether a condition holds for one thread of those that compare: `t == 0`, also as a part of `&&`.
    fn selects(&self, cond: ExprId) -> bool {
        match &self.f.exprs[cond].kind {
            ExprKind::Binary { op: BinOp::Eq, left, right } => self.varies(*left) || self.varies(*right),
            ExprKind::Binary { op: BinOp::And, left, right } => self.selects(*left) || self.selects(*right),
            _ => false,
        }
    }

    fn varies(&self, id: ExprId) -> bool {
        let kind = &self.f.exprs[id].kind;
        if matches!(kind, ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result) || self.is_own(id) {
            return true;
        }
        let mut found = false;
        kind.operands(|operand| found |= self.varies(operand));
        found
    }

    fn has(&self, id: ExprId, wanted: BinOp) -> bool {
        let kind = &self.f.exprs[id].kind;
        let mut found = matches!(kind, ExprKind::Binary { op, .. } if *op == wanted);
        kind.operands(|operand| found |= self.has(operand, wanted));
        found
    }
}
