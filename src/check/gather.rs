//! Indexing by arrays: `x[at]` with an array of positions, `x[rows, columns]` with one position each per axis, and `x[mask]`.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::Cx;
use crate::check::infer::{Kind, array};
use crate::check::make::make;
use crate::check::typed::*;
use crate::lang::scalar::Scalar;
use crate::syntax::ast::{self, ExprKind as Ast};

/// An index that is an array.
pub struct List {
    pub span: Span,
    pub ty: ArrayType,
    /// The number of axes of the result before those of the index.
    pub before: usize,
}

impl Cx<'_> {
    /// Returns the type of an index that is an array of positions or of truth values.
    pub fn list_of(&mut self, index: &Expr) -> Option<ArrayType> {
        let Type::Array(by) = self.vars.shallow(&index.ty) else { return None };
        self.vars.admit_integers(&by.element);
        let is_list = match self.vars.scalar_kind(&by.element) {
            Some(Kind::Int | Kind::Num) => self.vars.require(&by.element, Kind::Int),
            _ => self.vars.shallow(&by.element) == Type::Scalar(Scalar::Bool),
        };
        is_list.then(|| by.as_ref().clone())
    }

    /// Whether only the run shows if an index is a position, a range or an array.
    pub fn is_open_index(&self, index: &Expr) -> bool {
        match self.vars.shallow(&index.ty) {
            Type::Unknown => true,
            Type::Array(a) => self.vars.shallow(&a.element) == Type::Unknown,
            _ => false,
        }
    }

    /// Checks `base[args]` of a value that only the run knows.
    pub fn unknown_element(&mut self, base: Expr, args: &[ast::Expr], span: Span) -> Expr {
        if args.iter().any(|a| matches!(a.kind, Ast::Range { .. })) {
            let indices = args.iter().map(|a| self.slice_index(a, &Dim::Unknown, None).0).collect();
            return make(ExprKind::Slice { base: Box::new(base), indices }, Type::Unknown, span);
        }
        let indices = args.iter().map(|a| self.expr(a, None)).collect();
        make(ExprKind::Index { base: Box::new(base), indices }, Type::Unknown, span)
    }

    /// Types an access of which some indices are arrays; `dims` are the axes that the others leave.
    pub fn by_lists(
        &mut self,
        (base, a): (Expr, &ArrayType),
        indices: Vec<SliceIndex>,
        mut dims: Vec<Dim>,
        lists: &[List],
        span: Span,
    ) -> Expr {
        self.need_host(span, "indexing by an array");
        let rest = a.dims.iter().skip(indices.len());
        let is_mask = |list: &List| self.vars.shallow(&list.ty.element) == Type::Scalar(Scalar::Bool);
        let found = match lists {
            [mask] if is_mask(mask) && indices.len() == 1 && mask.ty.dims.len() <= a.dims.len() => {
                let rest = a.dims.iter().skip(mask.ty.dims.len()).cloned();
                Some(std::iter::once(Dim::Unknown).chain(rest).collect())
            }
            [list] if !is_mask(list) || list.ty.dims.len() == 1 => {
                let own = if is_mask(list) { &[Dim::Unknown] } else { list.ty.dims.as_slice() };
                dims.splice(list.before..list.before, own.iter().cloned());
                dims.extend(rest.cloned());
                Some(dims)
            }
            [first, ..]
                if lists.len() == indices.len() && lists.iter().all(|l| !is_mask(l) && l.ty.dims.len() == 1) =>
            {
                Some(first.ty.dims.iter().chain(rest).cloned().collect())
            }
            _ => None,
        };
        let Some(dims) = found else {
            let place = lists.last().map_or(span, |list| list.span);
            let d = Diagnostic::error("E0309", "these indices can't be used together")
                .at(place, "an array as an index")
                .help("an array of positions stands among ranges and single positions, or every index is one: `x[rows, columns]`")
                .help("a mask of several axes is the only index: `x[mask]`");
            self.report(d);
            return self.bad(span);
        };
        let ty = array(a.element.clone(), dims);
        make(ExprKind::Slice { base: Box::new(base), indices }, ty, span)
    }
}
