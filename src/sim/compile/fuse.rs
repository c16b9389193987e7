//! Peephole fusion: frequent sequences of ops become one op. Each function looks at the last op written and replaces it
//! if its result has no other use.

use super::state::{LaneTree, LastOp, OpClass, PeepholePattern, StripRole};
use super::*;
use crate::affine_compare;
use crate::dot::Dot;
use crate::events::ReportDot;
use crate::lanes::fused::{self, ChainOp, Maskable};
use crate::lanes::mask::{Keep, KeepBoth};
use crate::lanes::pick_wide;
use crate::strip::StripOpcode as Act;
use clk_scalar::Scalar;
use clk_scalar::ops::MathFn;

/// Returns a chain as an expression tree for a strip.
fn chain_tree(first: BinOp, links: &[ChainOp], regs: &[Reg]) -> Option<LaneTree> {
    let mut tree = LaneTree::of(strip::act_of(first, Scalar::F32)?, regs.get(..2)?);
    for (link, &reg) in links.iter().zip(regs.get(2..)?) {
        let act = strip::act_of(link.op, Scalar::F32)?;
        let other = LaneTree::Reg(reg);
        tree = LaneTree::Act(act, if link.reversed { vec![other, tree] } else { vec![tree, other] });
    }
    Some(tree)
}

fn act_of_masked(function: Maskable) -> Act {
    match function {
        Maskable::AddF => Act::Add,
        Maskable::SubF => Act::Sub,
        Maskable::MulF => Act::Mul,
        Maskable::MinF => Act::Min,
        Maskable::MaxF => Act::Max,
        Maskable::AddI => Act::AddI,
        Maskable::SubI => Act::SubI,
    }
}

impl<'a> KernelCompiler<'a> {
    fn last_op(&self) -> Option<&LastOp> {
        self.writer
            .last
            .as_ref()
            .filter(|l| l.at + 1 == self.writer.ops.len() && self.writer.section == CodeSection::Body)
    }

    fn note(&mut self, d: Reg, what: PeepholePattern) {
        if self.writer.section == CodeSection::Body && !self.writer.ops.is_empty() {
            self.writer.last = Some(LastOp { at: self.writer.ops.len() - 1, d, what });
        }
    }

    /// Remembers the binary operator that was just written.
    pub(crate) fn note_binary(&mut self, op: BinOp, scalar: Scalar, d: Reg, a: Reg, b: Reg) {
        let uniform = self.is_uniform_reg(d);
        let what = match scalar {
            Scalar::F32 if fused::starts(op) => PeepholePattern::Chain { op, links: vec![], regs: vec![a, b] },
            Scalar::F32 | Scalar::I32 | Scalar::U32 if op.is_comparison() && uniform => {
                PeepholePattern::Compare { op, scalar, a, b }
            }
            Scalar::I32 | Scalar::U32 if op == BinOp::Add => {
                PeepholePattern::Maskable { function: Maskable::AddI, a, b }
            }
            Scalar::I32 | Scalar::U32 if op == BinOp::Sub => {
                PeepholePattern::Maskable { function: Maskable::SubI, a, b }
            }
            Scalar::Bool if op == BinOp::And => PeepholePattern::And { a, b },
            _ => return,
        };
        self.note(d, what);
    }

    pub(crate) fn note_not(&mut self, d: Reg, a: Reg) {
        self.note(d, PeepholePattern::Not { a });
    }

    pub(crate) fn note_affine_compare(&mut self, op: BinOp, scalar: Scalar, d: Reg, x: u32) {
        self.note(d, PeepholePattern::Affine { op, scalar, x });
    }

    pub(crate) fn note_math(&mut self, function: MathFn, d: Reg, regs: &[Reg]) {
        let function = match function {
            MathFn::Min => Maskable::MinF,
            MathFn::Max => Maskable::MaxF,
            _ => return,
        };
        if let &[a, b] = regs {
            self.note(d, PeepholePattern::Maskable { function, a, b });
        }
    }

    /// Returns whether the value in a register is used only here: the expression has one use, and no expression that
    /// shares the register (an operand or a consumer of the same bits) has another.
    fn is_temporary(&self, e: ExprId, reg: Reg) -> bool {
        if self.uses.count[e] != 1 || self.registers.held[reg as usize] >= PERMANENT {
            return false;
        }
        let kind = &self.f.exprs[e].kind;
        if !uses::may_share(kind) {
            return true;
        }
        let mut sharing = vec![];
        kind.operands(|o| {
            sharing.extend(self.values.by_expr.get(&o).filter(|v| v.contains(&CompiledValue::Reg(reg))).map(|_| o))
        });
        match sharing.as_slice() {
            [] => true,
            &[one] => self.is_temporary(one, reg),
            _ => false,
        }
    }

    /// Fuses `left op right` into the chain written last, if that is one of the operands.
    pub fn chain(&mut self, op: BinOp, left: (ExprId, Reg), right: (ExprId, Reg)) -> Option<CompiledValue> {
        let last = self.last_op()?;
        let PeepholePattern::Chain { op: first, links, regs } = &last.what else {
            return None;
        };
        let reversed = last.d != left.1;
        let (inner, other) = if reversed { (right, left) } else { (left, right) };
        if inner.1 != last.d || other.1 == last.d || !self.is_temporary(inner.0, inner.1) {
            return None;
        }
        let link = ChainOp { op, reversed };
        let run = match links.as_slice() {
            [] => fused::two(*first, link, self.isa),
            [one] if !op.is_comparison() => fused::three(*first, *one, link, self.isa),
            _ => None,
        }?;
        let (first, mut links, mut regs) = (*first, links.clone(), regs.clone());
        links.push(link);
        regs.push(other.1);
        let uniform = regs.iter().all(|&r| self.is_uniform_reg(r));
        if uniform != self.is_uniform_reg(inner.1) {
            return None;
        }
        self.writer.ops.pop();
        let d = self.result(uniform, Scalar::F32);
        let x = regs.get(3).copied().unwrap_or(NONE).into();
        self.emit(run, Op { d, a: regs[0], b: regs[1], c: regs[2], x, ..nothing() });
        self.computes(d, chain_tree(first, &links, &regs));
        self.writer.last = None;
        if !op.is_comparison() {
            self.note(d, PeepholePattern::Chain { op: first, links, regs });
        }
        Some(CompiledValue::Reg(d))
    }

    /// Fuses a masked write with the op that just computed its value.
    pub(crate) fn masked_write(&mut self, value: ExprId, d: Reg, a: Reg) -> bool {
        let Some(last) = self.last_op().filter(|l| l.d == a) else {
            return false;
        };
        if !self.is_temporary(value, a) || self.is_uniform_reg(d) {
            return false;
        }
        let (function, a, b) = match &last.what {
            PeepholePattern::Maskable { function, a, b } => (*function, *a, *b),
            PeepholePattern::Chain { op, links, regs } if links.is_empty() => {
                let function = match op {
                    BinOp::Add => Maskable::AddF,
                    BinOp::Sub => Maskable::SubF,
                    _ => Maskable::MulF,
                };
                (function, regs[0], regs[1])
            }
            _ => return false,
        };
        self.writer.ops.pop();
        self.writer.last = None;
        self.emit(fused::masked(function, self.isa), Op { d, a, b, ..nothing() });
        self.computes(d, Some(LaneTree::of(act_of_masked(function), &[a, b])));
        self.only_active();
        true
    }

    /// Emits a jump unless (`negate`: if) the uniform condition holds.
    pub(crate) fn jump_unless(&mut self, cond: ExprId, a: Reg, negate: bool) -> usize {
        let last = self.last_op().filter(|l| l.d == a && self.is_temporary(cond, a)).cloned();
        match last.map(|l| l.what) {
            Some(PeepholePattern::Compare { op, scalar, a, b }) => {
                self.writer.ops.pop();
                self.writer.last = None;
                let run = control_flow::compare_jump(op, scalar, negate);
                self.emit_jump(run, Op { a, b, ..nothing() })
            }
            _ => {
                let run = if negate { plain::<control_flow::JumpIf>() } else { plain::<control_flow::JumpUnless>() };
                self.emit_jump(run, Op { a, ..nothing() })
            }
        }
    }

    /// Emits the op that keeps in mask `b` the lanes where a condition holds (`negate`: does not hold).
    pub fn keep(&mut self, cond: ExprId, mut a: Reg, mut negate: bool, b: MaskId) -> usize {
        let mut once = self.is_temporary(cond, a);
        if let Some(LastOp { what: PeepholePattern::Not { a: inner }, d, .. }) = self.last_op().cloned()
            && d == a
            && once
        {
            self.writer.ops.pop();
            self.writer.last = self.writer.before_not.take();
            (a, negate) = (inner, !negate);
            once = match self.f.exprs[cond].kind {
                ExprKind::Unary { value, .. } => self.is_temporary(value, a),
                _ => false,
            };
        }
        if let Some(LastOp { what: PeepholePattern::And { a: p, b: q }, d, .. }) = self.last_op().cloned()
            && d == a
            && once
            && !negate
        {
            self.writer.ops.pop();
            self.writer.last = None;
            let run = pick_wide!(self.isa, V => KeepBoth<V>);
            let at = self.emit_jump(run, Op { a: p, c: q, b, ..nothing() });
            self.role(StripRole::Keep { conditions: vec![p, q], negate: false, mask: b });
            return at;
        }
        if let Some(LastOp { what: PeepholePattern::Affine { op, scalar, x }, d, .. }) = self.last_op().cloned()
            && d == a
            && once
            && let Some(Op { a: never, b: always, .. }) = self.writer.ops.pop()
        {
            self.writer.last = None;
            let op = if negate { affine_compare::opposite(op) } else { op };
            let run = affine_compare::compare_keep(op, scalar, self.isa);
            return self.emit_jump(run, Op { d, a: never, b, c: always, y: x, ..nothing() });
        }
        let run = match negate {
            true => pick_wide!(self.isa, V => Keep<V, true>),
            false => pick_wide!(self.isa, V => Keep<V, false>),
        };
        let at = self.emit_jump(run, Op { a, b, ..nothing() });
        self.role(StripRole::Keep { conditions: vec![a], negate, mask: b });
        at
    }

    /// Reserves an op for a [`Dot`] in front of a loop's body; it has no effect unless [`KernelCompiler::try_dot`]
    /// fills it in.
    pub(crate) fn reserve_dot(&mut self, n: u32) -> usize {
        if self.is_observed() {
            self.emit(plain::<ReportDot>(), Op { y: n, ..nothing() });
        }
        let run = pick_wide!(self.isa, V => Dot<V>);
        self.emit_jump(run, Op { y: n, ..nothing() })
    }

    /// If the body that was just written is `acc = acc + a[…] * b[…]`, turns the reserved op into one that runs the
    /// whole loop.
    pub(crate) fn try_dot(&mut self, dot: usize, def: &ForDef) {
        let tells = self.is_observed();
        let all = self.writer.ops[dot + 1..].iter().zip(&self.writer.annotations[dot + 1..]);
        let body: Vec<(Op, OpClass)> =
            all.filter(|(_, mark)| mark.sort != OpClass::ReportedAccess).map(|(op, mark)| (*op, mark.sort)).collect();
        let told = self.writer.ops.len() - dot - 1 - body.len();
        let [(first, a), (second, b), (sum, _)] = body.as_slice() else {
            return self.drop_dot(dot);
        };
        let Some(LastOp { what: PeepholePattern::Chain { op: BinOp::Mul, links, regs }, d, .. }) = self.last_op()
        else {
            return self.drop_dot(dot);
        };
        let adds = matches!(links.as_slice(), [ChainOp { op: BinOp::Add, .. }]);
        let accesses = [first.x, second.x].map(|x| self.tables.accesses.get(x as usize));
        let [Some(p), Some(q)] = accesses else {
            return self.drop_dot(dot);
        };
        let loads = [a, b].iter().all(|sort| **sort == OpClass::AffineLoad);
        let (regs, accumulates) =
            ([regs[0], regs[1]], regs.get(2) == Some(d) && sum.d == *d && !self.is_uniform_reg(*d));
        let operands = (p.regs == regs[..1] && q.regs == regs[1..]) || (q.regs == regs[..1] && p.regs == regs[1..]);
        let floats = p.scalar == Scalar::F32 && q.scalar == Scalar::F32 && def.scalar == Scalar::I32;
        if adds && loads && accumulates && operands && floats && regs[0] != regs[1] {
            let (a, b, d) = (first.x, second.x, *d);
            if let (Ok(a), Ok(b)) = (u16::try_from(a), u16::try_from(b)) {
                let op = &mut self.writer.ops[dot];
                (op.a, op.b, op.c, op.d) = (a, b, 0, d);
                if tells {
                    // Loads of memory that needs no checks have no events.
                    self.writer.ops[dot - 1].x = self.touches(dot + 1).first().copied().unwrap_or(0);
                    self.writer.ops[dot - 1].c = told as u16;
                }
                if let Some(region) = self.flow.scopes.last_mut() {
                    region.ends.push(dot);
                }
                return;
            }
        }
        self.drop_dot(dot);
    }

    /// The loop has another form: the reserved op becomes a jump to the next op.
    pub(crate) fn drop_dot(&mut self, dot: usize) {
        if self.is_observed() {
            self.writer.ops[dot - 1].c = 0;
        }
        self.writer.ops[dot] = Op { run: plain::<control_flow::JumpOp>(), x: dot as u32 + 1, ..nothing() };
    }

    /// Returns whether `f32` operators of this kind may join a chain.
    pub(crate) fn joins(op: BinOp, scalar: Scalar) -> bool {
        scalar == Scalar::F32 && (fused::starts(op) || matches!(op, BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge))
    }
}
