//! Unpacking: patterns of several names, and assignments to several places.

use crate::assign::UNDECLARED;
use crate::build::{bare, make};
use crate::context::Cx;
use crate::stmt::LetDeclaration;
use crate::typed::*;
use crate::value_advice;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_syntax::ast::{self, ExprKind as Ast};

impl Cx<'_> {
    /// Returns the types of the parts of a value that is unpacked into several names or places. Reports an error if
    /// their number differs.
    pub(crate) fn part_types(&mut self, ty: &Type, names: usize, span: Span, value: Option<&ast::Expr>) -> Vec<Type> {
        match self.vars.shallow(ty) {
            Type::Tuple(types) if types.len() == names => types.to_vec(),
            Type::Unknown => vec![Type::Unknown; names],
            Type::Error => vec![Type::Error; names],
            other => {
                let actual = self.ty_text(&other);
                let mismatch = Diagnostic::error("E0320", format!("`{actual}` can't be unpacked into {names} names"))
                    .at(span, "the number of names must match the value");
                self.report(match value {
                    Some(value) => value_advice::unpacking_help(mismatch, names, &other, value),
                    None => mismatch,
                });
                vec![Type::Error; names]
            }
        }
    }

    /// Rewrites a vector to a tuple of its components, if there are as many components as names.
    pub(crate) fn components_as_tuple(&mut self, value: Expr, names: usize) -> Expr {
        let Type::Vector(scalar, lanes) = self.vars.shallow(&value.ty) else { return value };
        if usize::from(lanes) != names {
            return value;
        }
        let (ty, span) = (value.ty.clone(), value.span);
        let component = |base: Expr, lane: u8| {
            make(ExprKind::Swizzle { base: Box::new(base), lanes: vec![lane] }, Type::Scalar(scalar), span)
        };
        let mut stmts = vec![];
        let parts: Vec<Expr> = match value.kind {
            ExprKind::Local(_) | ExprKind::Variable(_) => {
                (0..lanes).map(|lane| component(value.clone(), lane)).collect()
            }
            ExprKind::Swizzle { base, lanes } if matches!(base.kind, ExprKind::Local(_) | ExprKind::Variable(_)) => {
                lanes.into_iter().map(|lane| component((*base).clone(), lane)).collect()
            }
            _ => {
                let id = self.hidden_local(ty.clone(), span);
                let kind = StmtKind::Let { pattern: Pattern::Local(id), value: Some(value), declared: None };
                stmts.push(Stmt { kind, span });
                (0..lanes).map(|lane| component(make(ExprKind::Local(id), ty.clone(), span), lane)).collect()
            }
        };
        let ty = Type::Tuple(parts.iter().map(|part| part.ty.clone()).collect());
        let tuple = make(ExprKind::Tuple(parts), ty.clone(), span);
        if stmts.is_empty() {
            return tuple;
        }
        make(ExprKind::Block(Block { stmts, tail: Some(Box::new(tuple)), span }), ty, span)
    }

    /// Declares the variable of `for (a, b) in …`, which has no name. Returns it, and the statement at the beginning of
    /// the body that binds the names to the parts of an element.
    pub(crate) fn unpack_element(
        &mut self,
        pattern: &ast::Pattern,
        names: usize,
        span: Span,
        iter: &ast::Expr,
        ty: Type,
        varying: bool,
    ) -> (LocalId, Stmt) {
        let id = self.hidden_local(ty.clone(), span);
        let value = self.components_as_tuple(make(ExprKind::Local(id), ty, span), names);
        let declaration = LetDeclaration { mutable: false, pattern, ty: None, value: Some(iter), span };
        let pattern = self.bind_pattern(&declaration, pattern, &value.ty);
        self.mark_varying_parts(&pattern, &value, varying);
        (id, Stmt { kind: StmtKind::Let { pattern, value: Some(value), declared: None }, span })
    }

    /// Checks `(a, b) = value`: computes the value, then assigns its parts from left to right.
    pub(crate) fn assign_parts(&mut self, places: &[ast::Expr], value: &ast::Expr, span: Span, out: &mut Vec<Stmt>) {
        if self.are_undeclared(places) {
            let begin = Span { end: span.start, ..span };
            let d = Diagnostic::error(UNDECLARED, "new names without `let`").at(span, "these are not declared").fix(
                "write `let`",
                begin,
                "let ",
                Applicability::MaybeIncorrect,
            );
            self.report(d);
            return;
        }
        let before = self.divergence.varying_reads;
        let hints: Option<Vec<Type>> = places.iter().map(|place| self.type_of_variable(place)).collect();
        let hint = hints.map(|types| Type::Tuple(types.into()));
        let checked = self.expr(value, hint.as_ref());
        let checked = self.components_as_tuple(checked, places.len());
        let types = self.part_types(&checked.ty, places.len(), span, Some(value));
        let parts: Vec<LocalId> = types.iter().map(|ty| self.hidden_local(ty.clone(), value.span)).collect();
        let pattern = Pattern::Tuple(parts.iter().map(|id| Pattern::Local(*id)).collect());
        self.mark_varying_parts(&pattern, &checked, self.divergence.varying_reads != before);
        out.push(Stmt { kind: StmtKind::Let { pattern, value: Some(checked), declared: None }, span: value.span });
        for ((place, id), ty) in places.iter().zip(parts).zip(types) {
            if is_ignored(place) {
                continue;
            }
            let part = make(ExprKind::Local(id), ty, value.span);
            let kind = self.assign_checked(place, None, part, before);
            out.push(Stmt { kind, span: place.span });
        }
    }

    /// Returns whether all places are names that are not declared.
    fn are_undeclared(&mut self, places: &[ast::Expr]) -> bool {
        let mut names = places.iter().filter(|place| !is_ignored(place)).peekable();
        names.peek().is_some()
            && names.all(|place| matches!(&bare(place).kind, Ast::Name(name) if self.is_undeclared(name)))
    }
}

/// Returns whether a place is `_`, which ignores a part.
fn is_ignored(place: &ast::Expr) -> bool {
    matches!(&bare(place).kind, Ast::Name(name) if name.text == "_")
}
