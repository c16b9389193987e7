//! Indexing by arrays: `x[at]` with an array of positions, `x[rows, .., columns]` with several, whose elements belong
//! together, and `x[mask]`.

use crate::build::make;
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_syntax::ast::{self, ExprKind as Ast};

/// An index that is an array: positions, or truth values.
pub struct ArrayIndex {
    pub span: Span,
    pub ty: ArrayType,
    /// The number of result axes before the axes of the index array.
    pub before: usize,
}

impl Cx<'_> {
    /// Returns the type of an index that is an array of positions or of truth values.
    pub fn array_index_type(&mut self, index: &Expr) -> Option<ArrayType> {
        let Type::Array(by) = self.vars.shallow(&index.ty) else { return None };
        self.vars.admit_integers(&by.element);
        let is_list = match self.vars.scalar_kind(&by.element) {
            Some(TypeClass::Int | TypeClass::Num) => self.vars.require(&by.element, TypeClass::Int),
            _ => self.vars.shallow(&by.element) == Type::Scalar(Scalar::Bool),
        };
        is_list.then(|| by.as_ref().clone())
    }

    /// Returns whether the type of an index is known only at run time: a position, a range or an array.
    pub fn is_open_index(&self, index: &Expr) -> bool {
        match self.vars.shallow(&index.ty) {
            Type::Unknown => true,
            Type::Array(a) => self.vars.shallow(&a.element) == Type::Unknown,
            _ => false,
        }
    }

    /// Checks `base[args]` for a base of unknown type.
    pub fn unknown_element(&mut self, base: Expr, args: &[ast::Expr], span: Span) -> Expr {
        if args.iter().any(|a| matches!(a.kind, Ast::Range { .. })) {
            let indices = args.iter().map(|a| self.slice_index(a, &Dim::Unknown, None).0).collect();
            return make(ExprKind::Slice { base: Box::new(base), indices }, Type::Unknown, span);
        }
        let indices = args.iter().map(|a| self.expr(a, None)).collect();
        make(ExprKind::Index { base: Box::new(base), indices }, Type::Unknown, span)
    }

    /// Checks an access with arrays among its indices. `dims` are the axes of the result that come from the other
    /// indices.
    pub fn array_index_access(
        &mut self,
        base: Expr,
        a: &ArrayType,
        indices: Vec<SliceIndex>,
        mut dims: Vec<Dim>,
        lists: &[ArrayIndex],
        span: Span,
    ) -> Expr {
        self.need_host(span, "indexing by an array");
        let rest = a.dims.iter().skip(indices.len());
        let is_mask = |list: &ArrayIndex| self.vars.shallow(&list.ty.element) == Type::Scalar(Scalar::Bool);
        let result_dims = match lists {
            [mask] if is_mask(mask) && indices.len() == 1 && mask.ty.dims.len() <= a.dims.len() => {
                let rest = a.dims.iter().skip(mask.ty.dims.len()).cloned();
                Some(std::iter::once(Dim::Unknown).chain(rest).collect())
            }
            [first, others @ ..] if lists.iter().all(|list| !is_mask(list) || list.ty.dims.len() == 1) => {
                if let Some(other) = others.iter().find(|other| other.ty.dims.len() != first.ty.dims.len()) {
                    let (a, b) = (self.dims_text(&first.ty.dims), self.dims_text(&other.ty.dims));
                    let d = Diagnostic::error("E0305", format!("indices of shape {a} and {b} do not belong together"))
                        .at(other.span, format!("this has shape {b}"))
                        .because(first.span, format!("this has shape {a}"))
                        .help("several arrays select the elements at corresponding positions: each has one for each result");
                    self.report(d);
                    return self.bad(span);
                }
                let own = if is_mask(first) { &[Dim::Unknown] } else { first.ty.dims.as_slice() };
                dims.splice(first.before..first.before, own.iter().cloned());
                dims.extend(rest.cloned());
                Some(dims)
            }
            _ => None,
        };
        let Some(dims) = result_dims else {
            let place =
                lists.iter().find(|list| is_mask(list) && list.ty.dims.len() != 1).map_or(span, |list| list.span);
            let d = Diagnostic::error("E0309", "these indices can't be used together")
                .at(place, "a mask of several axes")
                .help("a mask of several axes is the only index: `x[mask]`");
            self.report(d);
            return self.bad(span);
        };
        let ty = array(a.element.clone(), dims);
        make(ExprKind::Slice { base: Box::new(base), indices }, ty, span)
    }
}
