//! Verification of expressions: their types, and whether they are visible where they are used.

use super::verifier::{ExprVisibility, FunctionVerifier};
use super::violation::{is_int_scalar, is_type};
use crate::def::*;
use crate::typing::{self, I32, TypingError};
use clk_scalar::Scalar;

/// How a memory location is accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceUse {
    Read,
    Write,
}

impl FunctionVerifier<'_> {
    /// Checks that an expression may be used as an operand at this point. Returns its type if so.
    pub fn operand(&mut self, id: ExprId) -> Option<Ty> {
        let function = self.function;
        let Some(expr) = function.exprs.get(id) else {
            self.report(format!("%{} does not exist", id.index()));
            return None;
        };
        if expr.kind.is_free() {
            if self.checked.insert(id) {
                self.expr_type(id);
            }
            return Some(expr.ty);
        }
        match self.states.get(id.index()) {
            Some(ExprVisibility::Visible) => {}
            Some(ExprVisibility::OutOfScope) => self.report(format!("%{} is used outside its block", id.index())),
            _ => self.report(format!("%{} is used before it is evaluated", id.index())),
        }
        Some(expr.ty)
    }

    /// Checks an operand that must have a given type.
    pub fn operand_of_type(&mut self, id: ExprId, ty: Ty, role: &str) {
        if let Some(actual) = self.operand(id) {
            self.require(actual == ty, || format!("{role} is %{} of {actual}, not {ty}", id.index()));
        }
    }

    /// Checks a `Let`.
    pub fn evaluate(&mut self, id: ExprId) -> bool {
        let function = self.function;
        let Some(expr) = function.exprs.get(id) else {
            self.report(format!("%{} does not exist", id.index()));
            return false;
        };
        if expr.kind.is_free() {
            self.operand(id);
            return false;
        }
        self.require(expr.kind != ExprKind::Result, || format!("a let of the result %{}", id.index()));
        expr.kind.operands(|operand| {
            self.operand(operand);
        });
        self.expr_type(id);
        self.define(id)
    }

    /// Checks an expression that is the result of a statement.
    pub fn result(&mut self, id: ExprId, ty: Option<Ty>) -> bool {
        let Some(expr) = self.function.exprs.get(id) else {
            self.report(format!("%{} does not exist", id.index()));
            return false;
        };
        let actual = expr.ty;
        self.require(expr.kind == ExprKind::Result, || format!("%{} is not a result", id.index()));
        self.require(ty.is_none_or(|ty| ty == actual), || {
            format!(
                "the result %{} is {}, not {}",
                id.index(),
                actual,
                ty.map_or_else(String::new, |ty| ty.to_string())
            )
        });
        expr.kind == ExprKind::Result && self.define(id)
    }

    fn define(&mut self, id: ExprId) -> bool {
        let fresh = self.states.get(id.index()) == Some(&ExprVisibility::Waiting);
        self.require(fresh, || format!("%{} is evaluated twice", id.index()));
        if let Some(state) = self.states.get_mut(id.index()) {
            *state = ExprVisibility::Visible;
        }
        fresh
    }

    /// Compares an expression's type with the result type of its operation.
    pub fn expr_type(&mut self, id: ExprId) {
        let Some(expr) = self.function.exprs.get(id) else { return };
        if !self.require(is_type(expr.ty), || format!("%{} has no proper type", id.index())) {
            return;
        }
        match self.result_type(&expr.kind, expr.ty) {
            Ok(Some(ty)) => {
                self.require(ty == expr.ty, || {
                    format!("%{} is {}, but its operation has the type {}", id.index(), expr.ty, ty)
                });
            }
            Ok(None) => {}
            Err(error) => self.report(format!("%{}: {error}", id.index())),
        }
    }

    fn ty(&self, id: ExprId) -> Option<Ty> {
        self.function.exprs.get(id).map(|e| e.ty).filter(|&ty| is_type(ty))
    }

    fn tys(&self, ids: &[ExprId]) -> Option<Vec<Ty>> {
        ids.iter().map(|&id| self.ty(id)).collect()
    }

    /// Returns the result type of an operation; `None` if an operand is invalid, which has already been reported.
    fn result_type(&mut self, kind: &ExprKind, own: Ty) -> Result<Option<Ty>, TypingError> {
        use ExprKind::*;
        let result = match kind {
            Const(bits) => return constant(*bits, own).map(Some),
            Param(i) => return self.param(*i).map(Some),
            Id(..) | LaneIdx | WarpIdx if self.is_threads() => Err(TypingError::ThreadId),
            Id(..) | LaneIdx | WarpIdx => Ok(I32),
            Index(k) => match self.module.kernel.form {
                LaunchForm::Threads { rank } if *k < rank => Ok(I32),
                _ => Err(TypingError::NoIndex(*k)),
            },
            Extent(memory, axis) => match self.function.memories.get(*memory) {
                Some(m) if (*axis as usize) < m.extents.len() => Ok(I32),
                Some(m) => Err(TypingError::NoAxis { axis: *axis, memory: m.name.clone() }),
                None => Err(TypingError::NoMemory(*memory)),
            },
            Read(local) => match self.function.locals.get(*local) {
                Some(local) => Ok(local.ty),
                None => Err(TypingError::NoLocal(*local)),
            },
            Load { place, .. } => self.place(place, PlaceUse::Read),
            Unary { op, value } => return self.ty(*value).map(|ty| typing::unary(*op, ty)).transpose(),
            Binary { op, left, right } => {
                return self.ty(*left).zip(self.ty(*right)).map(|(l, r)| typing::binary(*op, l, r)).transpose();
            }
            Math { function, args } => {
                return self.tys(args).map(|tys| typing::math(*function, &tys)).transpose();
            }
            Select { cond, then, other } => {
                let tys = self.tys(&[*cond, *then, *other]);
                return match tys.as_deref() {
                    Some(&[c, t, o]) => typing::select(c, t, o).map(Some),
                    _ => Ok(None),
                };
            }
            Convert(value) => return self.ty(*value).map(|ty| typing::convert(ty, own)).transpose(),
            Bitcast(value) => return self.ty(*value).map(|ty| typing::bitcast(ty, own)).transpose(),
            Compose(parts) => return self.tys(parts).map(|tys| typing::compose(&tys)).transpose(),
            Extract { value, lane } => return self.ty(*value).map(|ty| typing::extract(ty, *lane)).transpose(),
            Result => Ok(own),
        };
        result.map(Some)
    }

    fn param(&self, i: u32) -> Result<Ty, TypingError> {
        let actual = if self.is_body() {
            match self.module.kernel.params.get(i as usize) {
                Some(KernelParam::Value { ty, .. }) => Some(*ty),
                _ => None,
            }
        } else {
            self.function.params.get(i as usize).copied()
        };
        actual.ok_or(TypingError::NoParam(i))
    }

    /// Returns the type of a memory location. Checks the number and types of its indices and the permitted access, but
    /// not whether the indices are visible.
    pub fn place(&self, place: &Place, usage: PlaceUse) -> Result<Ty, TypingError> {
        let Some(memory) = self.function.memories.get(place.memory) else {
            return Err(TypingError::NoMemory(place.memory));
        };
        if place.indices.len() != memory.extents.len() {
            let (count, rank) = (place.indices.len(), memory.extents.len());
            return Err(TypingError::IndexCount { count, memory: memory.name.clone(), rank });
        }
        for &index in &place.indices {
            if let Some(ty) = self.ty(index)
                && !is_int_scalar(ty)
            {
                return Err(TypingError::Index { memory: memory.name.clone(), index: ty });
            }
        }
        if usage == PlaceUse::Write && access(memory) == Access::In {
            return Err(TypingError::ReadOnly(memory.name.clone()));
        }
        typing::leaf(&memory.layout, place.leaf, place.component)
    }
}

/// Returns how a memory may be accessed.
pub(super) fn access(memory: &Memory) -> Access {
    match memory.space {
        MemorySpace::Global { access, .. } | MemorySpace::Param { access, .. } => access,
        MemorySpace::Shared | MemorySpace::Local => Access::InOut,
        MemorySpace::Constant => Access::In,
    }
}

fn constant(bits: u64, ty: Ty) -> Result<Ty, TypingError> {
    let Ty::Scalar(scalar) = ty else { return Err(TypingError::Constant(ty)) };
    let is_in_range = match scalar {
        Scalar::Bool => bits <= 1,
        _ => scalar.bits() == 64 || bits >> scalar.bits() == 0,
    };
    if is_in_range { Ok(ty) } else { Err(TypingError::ConstantBits { bits, scalar }) }
}
