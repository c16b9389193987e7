//! Checks the `assume` and `expect` clauses of a kernel.
//!
//! Input: the expressions of the clauses, in the kernel's scope. Output: conditions that the host tests at every
//! launch, and promises. A promise is an assumption about the elements of an integer array: `all(x < N)`,
//! `ascending(x)`, `distinct(x)`, `permutation(x)`.

use crate::build::{BOOL, I32, bare};
use crate::context::Cx;
use crate::infer::TypeClass;
use crate::typed::*;
use crate::{finish as finished, suggestions, visit};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::{self, Builtin};
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast;

/// The names of promises about arrays.
const PROMISES: [&str; 4] = ["all", "ascending", "distinct", "permutation"];

/// Checks all `assume` clauses.
pub(crate) fn assumes(cx: &mut Cx<'_>, clauses: &[ast::Expr]) -> Vec<Assume> {
    let reads = cx.initialization.early_reads.len();
    let mut all = vec![];
    for clause in clauses {
        check_clause(cx, clause, &mut all);
    }
    cx.initialization.early_reads.truncate(reads);
    all
}

/// Checks the expectations in an `expect` clause.
pub(crate) fn expects(cx: &mut Cx<'_>, words: &[ast::Expr]) -> Vec<Expect> {
    let mut all: Vec<Expect> = vec![];
    for word in words {
        match expected(word) {
            Ok(what) => match all.iter().find(|other| other.expected.is_like(what)) {
                Some(other) => {
                    let text = what.text();
                    let name = text.split(' ').next().unwrap_or(&text);
                    let d = Diagnostic::error("E0416", format!("`{name}` is expected twice"));
                    cx.report(d.at(word.span, "again here").because(other.span, "expected here"));
                }
                None if matches!(what, Expected::MaxUlp(_)) && !cx.sig.params.iter().any(gives_floats) => {
                    let d = Diagnostic::error("E0416", "`max_ulp` is about floats, but no written array holds any");
                    cx.report(d.at(word.span, "in this clause"));
                }
                None => all.push(Expect { expected: what, span: word.span }),
            },
            Err(d) => cx.report(*d),
        }
    }
    all
}

/// Returns whether a parameter is an array that the kernel writes and whose elements may contain floats.
fn gives_floats(param: &Param) -> bool {
    let may_hold_floats = |element: &Type| match element {
        Type::Scalar(scalar) | Type::Vector(scalar, _) => scalar.is_float(),
        _ => true,
    };
    matches!(&param.ty, Type::Array(array) if may_hold_floats(&array.element)) && param.access != Access::In
}

/// Parses an expectation: a name such as `race_free`, or a name with a limit, such as `sectors <= 4`.
fn expected(word: &ast::Expr) -> Result<Expected, Box<Diagnostic>> {
    let name_of =
        |e: &ast::Expr| if let ast::ExprKind::Name(name) = &e.kind { name.text.to_string() } else { String::new() };
    let limit = |name: &str| Expected::LIMITS.iter().find(|(keyword, _)| *keyword == name).map(|(_, limit)| limit);
    let (name, bound) = match &word.kind {
        ast::ExprKind::Binary { op, left, right, .. } if op.is_comparison() => (name_of(left), Some((*op, &**right))),
        _ => (name_of(word), None),
    };
    let keyword = Expected::ALL.iter().find(|(keyword, _)| *keyword == name);
    let invalid = |title: String, help: &str| {
        Err(Box::new(Diagnostic::error("E0416", title).at(word.span, "in this clause").help(help)))
    };
    match (keyword, limit(&name), bound) {
        (Some((_, what)), _, None) => Ok(*what),
        (Some(_), _, Some(_)) => invalid(format!("`{name}` has no limit"), &format!("write `{name}`")),
        (
            None,
            Some(limit),
            Some((BinaryOp::Le, ast::Expr { kind: ast::ExprKind::Int { value, suffix: None }, .. })),
        ) => match u32::try_from(*value) {
            Ok(most) if most > 0 || name == "max_ulp" => Ok(limit(most)),
            _ => invalid(format!("`{name}` can't be limited to {value}"), &format!("write `{name} <= 1`, or more")),
        },
        (None, Some(_), _) => invalid(
            format!("`{name}` takes a limit, an integer"),
            &format!("write `{name} <= 1`, with `<=` and a number"),
        ),
        (None, None, _) => Err(Box::new(unknown(word, &name))),
    }
}

fn unknown(word: &ast::Expr, name: &str) -> Diagnostic {
    let d = Diagnostic::error("E0416", "this can't be expected of a kernel").at(word.span, "in this clause");
    let words =
        Expected::ALL.iter().map(|(keyword, _)| *keyword).chain(Expected::LIMITS.iter().map(|(keyword, _)| *keyword));
    let is_whole = |near: &str| {
        matches!(word.kind, ast::ExprKind::Name(_)) && Expected::ALL.iter().any(|(keyword, _)| *keyword == near)
    };
    let d = match suggestions::nearest(name, words) {
        Some(near) if is_whole(near) => {
            d.fix(format!("write `{near}`"), word.span, near, Applicability::MaybeIncorrect)
        }
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    };
    d.help("`expect` takes `in_bounds`, `race_free`, `written`, `barriers`, `no_overflow` and `any_order`")
        .help("and limits: `bank_ways <= 1`, `sectors <= 4`, `max_ulp <= 2`")
}

/// Substitutes the inferred types in the conditions.
pub(crate) fn finish(cx: &mut Cx<'_>, assumes: &mut [Assume]) {
    for assume in assumes {
        match &mut assume.kind {
            AssumeKind::Condition(expr) | AssumeKind::Array { promise: ArrayPromise::All { bound: expr, .. }, .. } => {
                finished::expr(cx, expr);
            }
            AssumeKind::Array { .. } => {}
        }
    }
}

fn check_clause(cx: &mut Cx<'_>, clause: &ast::Expr, all: &mut Vec<Assume>) {
    cx.record_skipped(clause);
    if let ast::ExprKind::Call { callee, args } = &bare(clause).kind
        && let ast::ExprKind::Name(name) = &callee.kind
    {
        if PROMISES.contains(&name.text.as_str()) {
            if let Some(entry) = builtin::find(&name.text) {
                cx.record_use(name.span, NameTarget::Builtin(entry.name));
            }
            return match &args[..] {
                [ast::Arg { name: None, value, .. }] => promises(cx, &name.text, value, clause.span, all),
                _ => refuse(cx, clause.span, &format!("`{}` is about one array", name.text)),
            };
        }
        if let Some(near) = suggestions::nearest(&name.text, PROMISES.into_iter())
            && cx.lookup(&name.text).is_none()
        {
            let d = malformed(&format!("`{}` is not a promise about an array", name.text));
            cx.report(d.at(name.span, format!("did you mean `{near}`?")));
            return;
        }
    }
    if let ast::ExprKind::Binary { op, left, right, .. } = &bare(clause).kind
        && op.is_comparison()
        && (names_array(cx, left) || names_array(cx, right))
    {
        let d = malformed("an assumption about the elements of an array says `all`");
        let d = d.at(clause.span, "this compares a whole array");
        let start = Span { end: clause.span.start, ..clause.span };
        let edits = vec![(start, "all(".to_string()), (clause.span.after(), ")".to_string())];
        cx.report(d.fix_all("write `all(…)`", edits, Applicability::MachineApplicable));
        return;
    }
    let before = cx.diagnostics.len();
    let condition = cx.expr(clause, Some(&BOOL));
    if measures(&condition) {
        let d = malformed("an assumption names the dimensions of arrays").at(clause.span, "with `len` or `shape` here");
        cx.report(d.help("use the dimension's name from the array's type: `x: [f32; N]` has `N`"));
        return;
    }
    if cx.diagnostics.len() == before
        && cx.uniform(&condition, "an assumption", "E0415")
        && cx.coerce(&condition, &BOOL, None)
    {
        all.push(Assume { kind: AssumeKind::Condition(condition), span: clause.span });
    }
}

/// Checks the argument of a promise: an array, a comparison of an array, or several comparisons joined by `&&`.
fn promises(cx: &mut Cx<'_>, word: &str, value: &ast::Expr, span: Span, all: &mut Vec<Assume>) {
    if word != "all" {
        let promise = match word {
            "ascending" => ArrayPromise::Ascending,
            "distinct" => ArrayPromise::Distinct,
            _ => ArrayPromise::Permutation,
        };
        if let Some((param, rank)) = array(cx, value) {
            if rank != 1 {
                return refuse(cx, value.span, &format!("`{word}` is about arrays with one axis"));
            }
            all.push(Assume { kind: AssumeKind::Array { param, promise }, span });
        }
        return;
    }
    match &bare(value).kind {
        ast::ExprKind::Binary { op: BinaryOp::And, left, right, .. } => {
            promises(cx, word, left, span, all);
            promises(cx, word, right, span, all);
        }
        ast::ExprKind::Binary { op, left, right, .. } if op.is_comparison() => {
            let (elements, bound, op) = match names_array(cx, left) {
                true => (left, right, *op),
                false => (right, left, mirrored(*op)),
            };
            let Some((param, _)) = array(cx, elements) else { return };
            let before = cx.diagnostics.len();
            let bound = cx.expr(bound, Some(&I32));
            if measures(&bound) {
                return refuse(cx, value.span, "use the names of dimensions from the types of arrays");
            }
            if cx.diagnostics.len() == before
                && cx.uniform(&bound, "the bound of an assumption", "E0415")
                && cx.require_kind(&bound, TypeClass::Int, "the bound of an assumption")
            {
                let promise = ArrayPromise::All { op, bound };
                all.push(Assume { kind: AssumeKind::Array { param, promise }, span });
            }
        }
        _ => refuse(cx, value.span, "`all` compares the elements of an array with a number: `all(x < N)`"),
    }
}

/// Returns `b op a` for `a op b`.
fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        op => op,
    }
}

fn names_array(cx: &mut Cx<'_>, e: &ast::Expr) -> bool {
    let ast::ExprKind::Name(name) = &bare(e).kind else { return false };
    cx.sig.params.iter().any(|p| p.name == name.text && matches!(p.ty, Type::Array(_)))
}

/// Returns the position of an array parameter of integers, and its number of axes.
fn array(cx: &mut Cx<'_>, e: &ast::Expr) -> Option<(u32, usize)> {
    let before = cx.diagnostics.len();
    let value = cx.expr(e, None);
    if cx.diagnostics.len() > before {
        return None;
    }
    let (ExprKind::Local(id), Type::Array(array)) = (&value.kind, &value.ty) else {
        refuse(cx, e.span, "an array is expected here, a parameter of the kernel");
        return None;
    };
    let Some(LocalKind::Param(access)) = cx.locals.get(*id).map(|local| local.kind) else {
        refuse(cx, e.span, "an array is expected here, a parameter of the kernel");
        return None;
    };
    let is_int = match &array.element {
        Type::Scalar(scalar) => scalar.is_int(),
        Type::Param(i) => cx
            .sig
            .generics
            .get(*i as usize)
            .is_some_and(|generic| matches!(generic.kind, GenericKind::Type { bound: TypeBound::Int })),
        _ => false,
    };
    if !is_int {
        refuse(cx, e.span, "promises are about arrays of integers");
        return None;
    }
    if access == Access::Out {
        refuse(cx, e.span, "an `out` array has no elements before the launch");
        return None;
    }
    Some((id.index() as u32, array.dims.len()))
}

/// Returns whether an expression calls `len` or `shape`.
fn measures(e: &Expr) -> bool {
    let mut calls_extent = false;
    visit::expr(e, &mut |e| {
        calls_extent |= matches!(&e.kind, ExprKind::Builtin { builtin: Builtin::Len | Builtin::Shape, .. });
    });
    calls_extent
}

fn malformed(title: &str) -> Diagnostic {
    Diagnostic::error("E0415", title.to_string())
}

fn refuse(cx: &mut Cx<'_>, span: Span, title: &str) {
    let d = malformed(title).at(span, "in this assumption");
    cx.report(d.help("write `assume N > 0` or another condition on dimensions and scalar parameters").help(
        "or, for an integer array, `all(x >= 0)`, `all(x < N)`, `ascending(x)`, `distinct(x)`, `permutation(x)`",
    ));
}
