//! Variables of a function to which a pointer refers that also refers to other variables or arrays: `p = c ? &a : &b`.
//! They become arrays with one element, between which `pointer_choice` selects.

use super::arith::realize;
use super::lower::{Local, Lower};
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::CType;
use super::value::{ArrayInfo, CppPlace, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey};
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::rc::Rc;

impl Lower<'_, '_> {
    /// Makes a variable an array in the next pass. Returns false if it cannot be one.
    pub(crate) fn note_pointed(&mut self, place: &CppPlace) -> bool {
        let PlaceKind::Variable { key, .. } = place.kind else { return false };
        let is_plain = match &place.ty {
            CType::Record(id) => {
                let record = self.t.record(*id);
                !record.is_union && !self.t.has_array(*id) && self.t.pointer_fields(*id).is_empty()
            }
            other => other.is_arithmetic() || matches!(other, CType::Vector(..)),
        };
        if !is_plain || !self.facts.pointed.insert(key) {
            return false;
        }
        self.facts.changed = true;
        self.facts.reset_bases = true;
        true
    }

    pub(crate) fn is_pointed(&self, key: VariableKey) -> bool {
        self.facts.pointed.contains(&key)
    }

    /// Declares a variable as an array with one element.
    pub(crate) fn declare_pointed(
        &mut self,
        name: &SmolStr,
        ty: CType,
        value: Option<Value>,
        key: VariableKey,
        span: SourceSpan,
    ) -> Res<()> {
        let clk = self.fresh(name);
        let text = self.pointed_text(&ty);
        let value = match value {
            None if self.facts.passed.contains(&key) => Some(self.zero_value(&ty, span)?),
            value => value,
        };
        let value = value.map(|value| Expr::new(ExprKind::List(vec![realize(&value)]), span));
        self.push(StmtKind::Declare { name: clk.clone(), mutable: true, ty: text, value }, span);
        let local = self.pointed_local(name, clk, ty, key, span);
        self.declare(name, local);
        Ok(())
    }

    /// Declares the parameter `parameter` as an array with one element. Returns the declaration of the array: its name,
    /// type and value.
    pub(crate) fn pointed_copy(
        &mut self,
        name: &str,
        parameter: SmolStr,
        ty: CType,
        key: VariableKey,
        span: SourceSpan,
    ) -> (SmolStr, String, Expr, SourceSpan) {
        let copy = self.fresh(name);
        let value = Expr::new(ExprKind::List(vec![Expr::name(parameter, span)]), span);
        let text = self.pointed_text(&ty);
        let local = self.pointed_local(name, copy.clone(), ty, key, span);
        self.declare(name, local);
        (copy, text, value, span)
    }

    fn pointed_text(&self, ty: &CType) -> String {
        format!("[{}; 1]", self.t.type_text(ty))
    }

    /// Returns the variable that is the element of an array.
    fn pointed_local(&self, name: &str, clk: SmolStr, ty: CType, key: VariableKey, span: SourceSpan) -> Local {
        let info = ArrayInfo {
            expr: Expr::name(clk, span),
            element: ty.clone(),
            axes: 1,
            space: Space::Local,
            key,
            name: name.into(),
        };
        let unit = self.t.size_of(&ty).unwrap_or(1);
        let base = PointerBase::Array(Rc::new(info));
        let pointer = Pointer { base, prefix: vec![], index: None, unit, to: ty.clone() };
        Local::Alias(CppPlace { kind: PlaceKind::At(pointer), ty, span })
    }

    /// Returns whether the scope has the array of a pointer. If not, its block has not begun or has ended, and C++
    /// allows no access.
    pub(crate) fn exists_here(&self, pointer: &Pointer) -> bool {
        let key = match &pointer.base {
            PointerBase::Array(info) if info.space == Space::Local => info.key,
            PointerBase::Object(place) if self.variables.in_blocks.contains(&self.root(place)) => self.root(place),
            _ => return true,
        };
        let is_own = |local: &Local| match local {
            Local::Variable { key: own, .. } => *own == key,
            Local::Array { info, .. } => info.key == key,
            Local::Alias(place) => self.root(place) == key,
            _ => false,
        };
        self.locals.iter().flat_map(|scope| scope.values()).any(is_own)
            || self.this.as_ref().is_some_and(|this| self.root(this) == key)
    }
}
