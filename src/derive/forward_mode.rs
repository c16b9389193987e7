//! Forward mode: computes the tangent of every active value next to the value itself, with unchanged control flow.
//!
//! Input: a kernel without calls. Output: the kernel with the tangents of its active parameters as additional
//! parameters. Tangents that are known to be zero are not computed.

use rustc_hash::FxHashMap;

use super::activity::{Activity, DerivativeMode, analyze_activity, check_differentiable};
use super::derived::{Derived, DerivedParamRole};
use super::error::NotDifferentiable;
use super::gemm;
use super::rules::{PrimalExprEmitter, constant, operands, times_partial};
use super::shadow::{Shadows, active_values};
use super::warp;
use clk_ir::build::{FunctionBuilder, build_module};
use clk_ir::def::*;
use clk_scalar::ops::{AtomicOp, UnaryOp};

/// The state of the generation of a tangent kernel.
pub(super) struct ForwardDerivative<'a> {
    b: FunctionBuilder,
    f: &'a Function,
    activity: Activity,
    shadows: Shadows,
    tangents: FxHashMap<ExprId, ExprId>,
    params: FxHashMap<u32, ExprId>,
}

impl PrimalExprEmitter for ForwardDerivative<'_> {
    fn builder(&mut self) -> &mut FunctionBuilder {
        &mut self.b
    }

    fn current_value(&mut self, id: ExprId) -> ExprId {
        id
    }
}

pub(super) fn derive(primal: &Module, active: &[bool], is_gradient: bool) -> Result<Derived, NotDifferentiable> {
    let kernel = &primal.kernel;
    let f = &primal.functions[kernel.body];
    let activity = analyze_activity(f, active);
    check_differentiable(
        kernel,
        f,
        &activity,
        if is_gradient { DerivativeMode::ForwardAgain } else { DerivativeMode::Forward },
    )?;
    let mut b = FunctionBuilder::with_declarations_of(kernel, f);
    let mut roles: Vec<DerivedParamRole> = (0..kernel.params.len()).map(DerivedParamRole::Primal).collect();
    let mut params = FxHashMap::default();
    for (position, name, ty) in active_values(kernel, active) {
        params.insert(position as u32, b.value(name, ty));
        roles.push(DerivedParamRole::Tangent(position));
    }
    let shadows = Shadows::add(&mut b, f, &activity, &mut roles, &|ty| ty, |param, access| {
        (DerivedParamRole::Tangent(param), access)
    });
    let mut dual = ForwardDerivative { b, f, activity, shadows, tangents: FxHashMap::default(), params };
    dual.block(&f.body)?;
    let mut derived = build_module(Default::default(), dual.b, kernel.form);
    derived.kernel.name = format!("{}_jvp", kernel.name);
    derived.kernel.span = kernel.span;
    let (counting, reduction, tape_loops) = (None, None, vec![]);
    Ok(Derived { module: derived, params: roles, counting, tape_loops, gathers: vec![], reduction, has_effect: true })
}

impl ForwardDerivative<'_> {
    fn block(&mut self, block: &Block) -> Result<(), NotDifferentiable> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn inner(&mut self, block: &Block) -> Result<Block, NotDifferentiable> {
        self.b.push_block();
        let done = self.block(block);
        let derived = self.b.pop_block();
        done.map(|()| derived)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), NotDifferentiable> {
        self.b.set_span(stmt.span);
        let mut kind = stmt.kind.clone();
        if let StmtKind::For { collective: Some(CollectiveLoop::Gemm(product)), .. } = kind {
            self.b.stmt(kind);
            gemm::emit_tangent(&mut self.b, self.f, &self.shadows, product);
            return Ok(());
        }
        for inner in kind.blocks_mut() {
            *inner = self.inner(&std::mem::take(inner))?;
        }
        self.b.set_span(stmt.span);
        self.b.stmt(kind);
        match &stmt.kind {
            StmtKind::Let(id) if self.activity.expr(*id) => {
                if let Some(tangent) = self.compute_tangent(*id)? {
                    self.tangents.insert(*id, tangent);
                }
            }
            StmtKind::Write { local, value } => {
                if let Some(&shadow) = self.shadows.locals.get(local) {
                    let tangent = self.tangent_or_zero(*value);
                    self.b.write(shadow, tangent);
                }
            }
            StmtKind::Store { place, value, hint } if self.activity.place(self.f, place) => {
                if let Some(shadow) = self.shadows.place(place, place.indices.clone()) {
                    let tangent = self.tangent_or_zero(*value);
                    self.b.store_place(shadow, tangent, *hint);
                }
            }
            // In an adjoint kernel, an atomic exchange reads the adjoint of an element and resets it to zero. If
            // several threads do so for one element, they stored the same value to the element in the primal kernel. So
            // it does not matter which of them receives the adjoint's tangent.
            StmtKind::Atomic { op: AtomicOp::Exchange, place, value, result: Some(result), .. }
                if self.activity.place(self.f, place) =>
            {
                if let Some(shadow) = self.shadows.place(place, place.indices.clone()) {
                    let tangent = self.tangent_or_zero(*value);
                    let old_tangent = self.b.atomic(AtomicOp::Exchange, shadow, tangent, None);
                    self.tangents.insert(*result, old_tangent);
                }
            }
            StmtKind::Atomic { op, place, value, .. } if self.activity.place(self.f, place) => {
                let tangent = self.tangent(*value);
                if let (Some(shadow), Some(tangent)) = (self.shadows.place(place, place.indices.clone()), tangent) {
                    debug_assert!(matches!(op, AtomicOp::Add | AtomicOp::Sub), "others are rejected");
                    self.b.atomic_unused(*op, shadow, tangent, None);
                }
            }
            StmtKind::Warp { op, value, lane, among, result } if self.activity.expr(*result) => {
                if let Some(tangent) = self.tangent(*value) {
                    let operands =
                        warp::WarpOperands { op: *op, value: *value, lane: *lane, among: *among, result: *result };
                    let tangent = warp::tangent(self, &operands, tangent);
                    self.tangents.insert(*result, tangent);
                }
            }
            StmtKind::Declare(memory) => {
                if let Some(&shadow) = self.shadows.memories.get(memory) {
                    self.b.declare(shadow);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the tangent of an operand; `None` if it is zero.
    fn tangent(&self, id: ExprId) -> Option<ExprId> {
        match self.f.exprs[id].kind {
            ExprKind::Param(param) => self.params.get(&param).copied(),
            _ => self.tangents.get(&id).copied(),
        }
    }

    fn tangent_or_zero(&mut self, id: ExprId) -> ExprId {
        let ty = self.f.exprs[id].ty;
        self.tangent(id).unwrap_or_else(|| constant(&mut self.b, ty, 0.0))
    }

    /// Computes the tangent of an active expression.
    fn compute_tangent(&mut self, id: ExprId) -> Result<Option<ExprId>, NotDifferentiable> {
        let f = self.f;
        let Expr { kind, ty } = &f.exprs[id];
        let tangent = match kind {
            ExprKind::Read(local) => self.shadows.locals.get(local).map(|&own| self.b.read(own)),
            ExprKind::Load { place, hint } => {
                self.shadows.place(place, place.indices.clone()).map(|own| self.b.load_place(own, *hint))
            }
            ExprKind::Unary { value, .. } => self.tangent(*value).map(|t| self.b.unary(UnaryOp::Neg, t)),
            ExprKind::Binary { .. } | ExprKind::Math { .. } => return self.apply_rules(id),
            ExprKind::Select { cond, then, other } => {
                if self.tangent(*then).is_none() && self.tangent(*other).is_none() {
                    return Ok(None);
                }
                let (then, other) = (self.tangent_or_zero(*then), self.tangent_or_zero(*other));
                Some(self.b.select(*cond, then, other))
            }
            ExprKind::Convert(value) => self.tangent(*value).map(|t| self.b.convert(t, ty.scalar())),
            ExprKind::Compose(parts) => {
                if parts.iter().all(|&part| self.tangent(part).is_none()) {
                    return Ok(None);
                }
                let parts: Vec<ExprId> = parts.iter().map(|&part| self.tangent_or_zero(part)).collect();
                Some(self.b.compose(&parts))
            }
            ExprKind::Extract { value, lane } => self.tangent(*value).map(|t| self.b.extract(t, *lane)),
            _ => None,
        };
        Ok(tangent)
    }

    fn apply_rules(&mut self, id: ExprId) -> Result<Option<ExprId>, NotDifferentiable> {
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
