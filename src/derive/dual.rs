//! Forward mode: every active value is followed by its tangent, in the same control flow.
//!
//! Input: a kernel without calls. Output: the kernel with the tangents of its active parameters as further parameters. A tangent
//! that is known to be zero is not computed.

use rustc_hash::FxHashMap;

use super::active::{Activity, Mode, activity, refusal};
use super::companion::{Companions, active_values};
use super::def::{Derived, Role};
use super::lost::Lost;
use super::product;
use super::rules::{Maker, constant, operands, times_partial};
use super::warp;
use crate::ir::build::{FunctionBuilder, module};
use crate::ir::def::*;
use crate::lang::ops::{AtomicOp, UnaryOp};

pub(super) struct Dual<'a> {
    b: FunctionBuilder,
    f: &'a Function,
    activity: Activity,
    companions: Companions,
    tangents: FxHashMap<ExprId, ExprId>,
    params: FxHashMap<u32, ExprId>,
}

impl Maker for Dual<'_> {
    fn builder(&mut self) -> &mut FunctionBuilder {
        &mut self.b
    }

    fn here(&mut self, id: ExprId) -> ExprId {
        id
    }
}

pub(super) fn derive(module_of: &Module, active: &[bool], again: bool) -> Result<Derived, Lost> {
    let kernel = &module_of.kernel;
    let f = &module_of.functions[kernel.body];
    let activity = activity(f, active);
    refusal(kernel, f, &activity, if again { Mode::ForwardAgain } else { Mode::Forward })?;
    let mut b = FunctionBuilder::over(kernel, f);
    let mut roles: Vec<Role> = (0..kernel.params.len()).map(Role::Primal).collect();
    let mut params = FxHashMap::default();
    for (position, name, ty) in active_values(kernel, active) {
        params.insert(position as u32, b.value(name, ty));
        roles.push(Role::Tangent(position));
    }
    let companions =
        Companions::add(&mut b, f, &activity, &mut roles, &|ty| ty, |param, access| (Role::Tangent(param), access));
    let mut dual = Dual { b, f, activity, companions, tangents: FxHashMap::default(), params };
    dual.block(&f.body)?;
    let mut made = module(Default::default(), dual.b, kernel.form);
    made.kernel.name = format!("{}_jvp", kernel.name);
    made.kernel.span = kernel.span;
    let (counting, totals, recorders) = (None, None, vec![]);
    Ok(Derived { module: made, params: roles, counting, recorders, gathers: vec![], totals, has_effect: true })
}

impl Dual<'_> {
    fn block(&mut self, block: &Block) -> Result<(), Lost> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn inner(&mut self, block: &Block) -> Result<Block, Lost> {
        self.b.push_block();
        let done = self.block(block);
        let made = self.b.pop_block();
        done.map(|()| made)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Lost> {
        self.b.set_span(stmt.span);
        let mut kind = stmt.kind.clone();
        if let StmtKind::For { together: Some(Together::Product(product)), .. } = kind {
            self.b.stmt(kind);
            product::tangent(&mut self.b, self.f, &self.companions, product);
            return Ok(());
        }
        for inner in kind.blocks_mut() {
            *inner = self.inner(&std::mem::take(inner))?;
        }
        self.b.set_span(stmt.span);
        self.b.stmt(kind);
        match &stmt.kind {
            StmtKind::Let(id) if self.activity.expr(*id) => {
                if let Some(tangent) = self.of(*id)? {
                    self.tangents.insert(*id, tangent);
                }
            }
            StmtKind::Write { local, value } => {
                if let Some(&own) = self.companions.locals.get(local) {
                    let tangent = self.or_zero(*value);
                    self.b.write(own, tangent);
                }
            }
            StmtKind::Store { place, value, hint } if self.activity.place(self.f, place) => {
                if let Some(own) = self.companions.place(place, place.indices.clone()) {
                    let tangent = self.or_zero(*value);
                    self.b.store_place(own, tangent, *hint);
                }
            }
            // Threads that take an adjoint have stored one value, so that any of them may take the tangent.
            StmtKind::Atomic { op: AtomicOp::Exchange, place, value, result: Some(result), .. }
                if self.activity.place(self.f, place) =>
            {
                if let Some(own) = self.companions.place(place, place.indices.clone()) {
                    let tangent = self.or_zero(*value);
                    let taken = self.b.atomic(AtomicOp::Exchange, own, tangent, None);
                    self.tangents.insert(*result, taken);
                }
            }
            StmtKind::Atomic { op, place, value, .. } if self.activity.place(self.f, place) => {
                let tangent = self.tangent(*value);
                if let (Some(own), Some(tangent)) = (self.companions.place(place, place.indices.clone()), tangent) {
                    debug_assert!(matches!(op, AtomicOp::Add | AtomicOp::Sub), "others are refused");
                    self.b.atomic_quiet(*op, own, tangent, None);
                }
            }
            StmtKind::Warp { op, value, lane, among, result } if self.activity.expr(*result) => {
                if let Some(tangent) = self.tangent(*value) {
                    let operands =
                        warp::Operands { op: *op, value: *value, lane: *lane, among: *among, result: *result };
                    let tangent = warp::tangent(self, &operands, tangent);
                    self.tangents.insert(*result, tangent);
                }
            }
            StmtKind::Declare(memory) => {
                if let Some(&own) = self.companions.memories.get(memory) {
                    self.b.declare(own);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the tangent of an operand; none if it is zero.
    fn tangent(&self, id: ExprId) -> Option<ExprId> {
        match self.f.exprs[id].kind {
            ExprKind::Param(param) => self.params.get(&param).copied(),
            _ => self.tangents.get(&id).copied(),
        }
    }

    fn or_zero(&mut self, id: ExprId) -> ExprId {
        let ty = self.f.exprs[id].ty;
        self.tangent(id).unwrap_or_else(|| constant(&mut self.b, ty, 0.0))
    }

    /// Computes the tangent of an active expression.
    fn of(&mut self, id: ExprId) -> Result<Option<ExprId>, Lost> {
        let f = self.f;
        let Expr { kind, ty } = &f.exprs[id];
        let made = match kind {
            ExprKind::Read(local) => self.companions.locals.get(local).map(|&own| self.b.read(own)),
            ExprKind::Load { place, hint } => {
                self.companions.place(place, place.indices.clone()).map(|own| self.b.load_place(own, *hint))
            }
            ExprKind::Unary { value, .. } => self.tangent(*value).map(|t| self.b.unary(UnaryOp::Neg, t)),
            ExprKind::Binary { .. } | ExprKind::Math { .. } => return self.by_rules(id),
            ExprKind::Select { cond, then, other } => {
                if self.tangent(*then).is_none() && self.tangent(*other).is_none() {
                    return Ok(None);
                }
                let (then, other) = (self.or_zero(*then), self.or_zero(*other));
                Some(self.b.select(*cond, then, other))
            }
            ExprKind::Convert(value) => self.tangent(*value).map(|t| self.b.convert(t, ty.scalar())),
            ExprKind::Compose(parts) => {
                if parts.iter().all(|&part| self.tangent(part).is_none()) {
                    return Ok(None);
                }
                let parts: Vec<ExprId> = parts.iter().map(|&part| self.or_zero(part)).collect();
                Some(self.b.compose(&parts))
            }
            ExprKind::Extract { value, lane } => self.tangent(*value).map(|t| self.b.extract(t, *lane)),
            _ => None,
        };
        Ok(made)
    }

    fn by_rules(&mut self, id: ExprId) -> Result<Option<ExprId>, Lost> {
        let f = self.f;
        let mut sum: Option<ExprId> = None;
        for (position, operand) in operands(&f.exprs[id].kind).into_iter().enumerate() {
            let Some(tangent) = self.tangent(operand) else { continue };
            let Some(part) = times_partial(self, f, id, position, tangent)? else { continue };
            sum = Some(sum.map_or(part, |sum| self.b.binary(BinOp::Add, sum, part)));
        }
        Ok(sum)
    }
}
