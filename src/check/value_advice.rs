//! Advice in errors about values of unexpected types: functions without a result type, tuples and vectors that are
//! taken apart, and array literals with many wrong elements.

use rustc_hash::FxHashSet;

use crate::build::bare;
use crate::context::Cx;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_syntax::ast::{self, ExprKind as Ast};

impl Cx<'_> {
    /// Adds a fix to the warning about an unused value at the end of a function without a result type.
    pub fn suggest_result_type(&mut self, block: &Block, before: usize) {
        let Some(Stmt { kind: StmtKind::Expr { expr, .. }, .. }) = block.stmts.last() else { return };
        let (span, ty) = (expr.span, expr.ty.clone());
        let is_about_end = |d: &Diagnostic| d.code == "W0005" && d.primary() == Some(span);
        let Some(at) = (before..self.diagnostics.len()).find(|&at| is_about_end(&self.diagnostics[at])) else { return };
        let mut d = self.diagnostics[at].clone();
        d.help.clear();
        self.diagnostics[at] = self.result_type_fix(d, &ty);
    }

    /// Suggests a result type for a function that has none, but gives a value of this type.
    pub fn result_type_fix(&self, d: Diagnostic, ty: &Type) -> Diagnostic {
        let Some(place) = self.missing_result else { return d };
        let ty = self.vars.finish(ty);
        match ty {
            Type::Scalar(_) | Type::Vector(..) | Type::Param(_) | Type::Struct(_) => {
                let text = self.ty_text(&ty);
                let title = format!("declare the result type: `-> {text}`");
                d.fix(title, place, format!("-> {text} "), Applicability::MaybeIncorrect)
            }
            _ => d.help("a function that gives a value declares its type: `fn name(x: f32) -> f32 { … }`"),
        }
    }

    /// Adds a label at the function that gives no value, if `e` is a call of one without a result type.
    pub fn without_result(&self, d: Diagnostic, e: &Expr) -> Diagnostic {
        let ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } = &e.kind else { return d };
        match self.program.fns.get(*id) {
            Some(f) if f.result == Type::Unit => d
                .because(f.name_span, format!("`{}` has no result type", f.name))
                .help(format!("declare the type of its value: `fn {}(…) -> f32 {{ … }}`", f.name)),
            _ => d,
        }
    }

    /// Replaces errors of the same title at elements of an array literal by the first one with a count of the others.
    /// `before` is the number of diagnostics before the literal.
    pub fn merge_element_errors(&mut self, before: usize, parts: &[ast::Expr]) {
        let mut elements = FxHashSet::default();
        element_spans(parts, &mut elements);
        let mut kept: Vec<(Diagnostic, usize)> = vec![];
        for d in self.diagnostics.split_off(before) {
            let is_element = d.code == "E0301" && d.primary().is_some_and(|span| elements.contains(&span));
            match kept.iter_mut().find(|(first, _)| is_element && first.title == d.title) {
                Some((_, others)) => *others += 1,
                None => kept.push((d, 0)),
            }
        }
        self.diagnostics.extend(kept.into_iter().map(|(mut d, others)| {
            if others > 0 {
                // A fix of one element of many does not help.
                d.fixes.clear();
                let (elements, verb) = if others == 1 { ("element", "has") } else { ("elements", "have") };
                d = d.note(format!("{others} other {elements} of this array {verb} the same error"));
            }
            d
        }));
    }
}

/// Suggests the components for a vector that is unpacked into fewer or as many names: `(thread_idx.x, thread_idx.y)`.
pub(crate) fn unpacking_help(d: Diagnostic, names: usize, ty: &Type, value: &ast::Expr) -> Diagnostic {
    let Type::Vector(_, lanes) = ty else { return d };
    match &bare(value).kind {
        Ast::Name(name) if names <= usize::from(*lanes) => {
            let components = ["x", "y", "z", "w"].into_iter().take(names);
            let components: Vec<String> = components.map(|component| format!("{}.{component}", name.text)).collect();
            let text = format!("({})", components.join(", "));
            d.fix(format!("write `{text}`"), value.span, text, Applicability::MaybeIncorrect)
        }
        _ => d.help("the components of a vector are `.x .y .z .w`"),
    }
}

/// Suggests `t.1` for `t[1]`, where `t` is a tuple of `length` parts.
pub(crate) fn tuple_part_help(d: Diagnostic, base: Span, whole: Span, args: &[ast::Expr], length: usize) -> Diagnostic {
    let place = Span { start: base.end, ..whole };
    match args {
        [ast::Expr { kind: Ast::Int { value, .. }, .. }] if usize::try_from(*value).is_ok_and(|part| part < length) => {
            d.fix(format!("write `.{value}`"), place, format!(".{value}"), Applicability::MachineApplicable)
        }
        _ => d.help("the parts of a tuple have numbers as names: `.0`, `.1`"),
    }
}

/// Collects the spans of the elements of a nested array literal.
fn element_spans(parts: &[ast::Expr], spans: &mut FxHashSet<Span>) {
    for part in parts {
        match &bare(part).kind {
            Ast::Array(inner) => element_spans(inner, spans),
            _ => drop(spans.insert(part.span)),
        }
    }
}
