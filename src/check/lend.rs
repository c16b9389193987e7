//! Exclusive access: a variable passed to an `out` or `inout` parameter may not be accessed otherwise during that call.
//!
//! Without this rule host and device would disagree: the host copies such arguments in and out, while a device parameter may
//! be the variable itself. A value that is computed before the call (numbers, elements, results) is a copy, so it may be
//! passed alongside; and a launch reads a copy of an array that it also writes.
//!
//! An element or field passed to `inout` is copied in before the call and copied out after it, in parameter order. Two
//! elements whose indices are equal at run time are therefore well-defined; two access paths that are statically the same are
//! an error.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::changes;
use crate::check::cx::{Cx, Reported};
use crate::check::typed::*;
use crate::check::walk::root;

/// The variable that an argument is.
#[derive(Clone, Copy, PartialEq)]
enum Variable {
    Local(LocalId),
    Global(GlobalId),
}

impl Variable {
    fn of(e: &Expr) -> Option<Variable> {
        match e.kind {
            ExprKind::Local(id) => Some(Variable::Local(id)),
            ExprKind::Global(id) => Some(Variable::Global(id)),
            _ => None,
        }
    }
}

/// Returns the steps of an access path from its root variable, outermost first.
fn steps(e: &Expr) -> Vec<&Expr> {
    let mut found = vec![];
    let mut e = e;
    while let ExprKind::Index { base, .. }
    | ExprKind::Slice { base, .. }
    | ExprKind::Field { base, .. }
    | ExprKind::TupleField { base, .. }
    | ExprKind::DynField { base, .. }
    | ExprKind::Swizzle { base, .. } = &e.kind
    {
        found.push(e);
        e = base;
    }
    found.reverse();
    found
}

/// Whether two access paths of one variable definitely overlap: they are equal, or one contains the other.
fn overlap(a: &Expr, b: &Expr) -> bool {
    steps(a).into_iter().zip(steps(b)).all(|(a, b)| match (&a.kind, &b.kind) {
        (ExprKind::Index { indices: a, .. }, ExprKind::Index { indices: b, .. }) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (ExprKind::Slice { indices: a, .. }, ExprKind::Slice { indices: b, .. }) => {
            a.iter().zip(b).all(|(a, b)| match (a, b) {
                (SliceIndex::At(a), SliceIndex::At(b)) => same(a, b),
                (a, b) => is_whole(a) || is_whole(b),
            })
        }
        (ExprKind::Slice { indices: row, .. }, ExprKind::Index { indices: at, .. })
        | (ExprKind::Index { indices: at, .. }, ExprKind::Slice { indices: row, .. }) => {
            row.iter().zip(at).all(|(row, at)| match row {
                SliceIndex::At(row) => same(row, at),
                row => is_whole(row),
            })
        }
        (ExprKind::Field { field: a, .. }, ExprKind::Field { field: b, .. })
        | (ExprKind::TupleField { field: a, .. }, ExprKind::TupleField { field: b, .. }) => a == b,
        (ExprKind::DynField { name: a, .. }, ExprKind::DynField { name: b, .. }) => a == b,
        (ExprKind::Swizzle { lanes: a, .. }, ExprKind::Swizzle { lanes: b, .. }) => a.iter().any(|l| b.contains(l)),
        _ => false,
    })
}

fn is_whole(index: &SliceIndex) -> bool {
    matches!(index, SliceIndex::Range { start: None, end: None, step: None, .. })
}

/// Whether two index expressions are statically the same, so that they have equal values.
fn same(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Local(a), ExprKind::Local(b)) => a == b,
        (ExprKind::Global(a), ExprKind::Global(b)) => a == b,
        (ExprKind::Const(a), ExprKind::Const(b)) => a == b,
        (ExprKind::ConstParam(a), ExprKind::ConstParam(b)) | (ExprKind::Dim(a), ExprKind::Dim(b)) => a == b,
        (ExprKind::Variable(a), ExprKind::Variable(b)) => a == b,
        (ExprKind::Swizzle { base: a, lanes: l }, ExprKind::Swizzle { base: b, lanes: m }) => l == m && same(a, b),
        (ExprKind::Unary { op: x, expr: a }, ExprKind::Unary { op: y, expr: b }) => x == y && same(a, b),
        (ExprKind::Binary { op: x, left: a, right: c }, ExprKind::Binary { op: y, left: b, right: d }) => {
            x == y && same(a, b) && same(c, d)
        }
        _ => false,
    }
}

impl Cx<'_> {
    /// Reports a variable that is passed twice to one call that modifies one of the two. Returns false in that case.
    pub fn lent_once(&mut self, name: &str, sig: &Signature, args: &[Option<&Expr>], launch: bool) -> bool {
        let given = || sig.params.iter().zip(args).filter_map(|(param, arg)| Some((param, (*arg)?)));
        for (i, (param, arg)) in given().enumerate() {
            let Some(variable) = Variable::of(root(arg)).filter(|_| param.access != Access::In) else { continue };
            let part = Variable::of(arg).is_none();
            for (k, (other, beside)) in given().enumerate() {
                let second = other.access != Access::In;
                if k == i || second && k < i {
                    continue;
                }
                let whole = Variable::of(beside) == Some(variable);
                let one = second && Variable::of(root(beside)) == Some(variable) && overlap(arg, beside);
                if one || whole && !part && !launch && matches!(other.ty, Type::Array(_)) {
                    let how = if second { "changed" } else { "read" };
                    let at = (beside.span, format!("{how} as `{}`", other.name));
                    self.lent_twice(arg, &param.name, name, at, (other, param));
                    return false;
                }
                if let Some(inner) = changes::of_expr(self.program, beside, &|e| Variable::of(e) == Some(variable)) {
                    let at = (inner, "changed here too, before the call begins".to_string());
                    self.lent_twice(arg, &param.name, name, at, (param, param));
                    return false;
                }
            }
        }
        true
    }

    fn lent_twice(&mut self, arg: &Expr, as_name: &str, callee: &str, at: (Span, String), params: (&Param, &Param)) {
        let variable = self.variable_name(arg);
        let (other, param) = params;
        let title = match other.access {
            Access::In => format!("`{callee}` is given `{variable}` to read and to change at once"),
            _ => format!("`{callee}` is given `{variable}` to change twice at once"),
        };
        let d = Diagnostic::error("E0326", title)
            .at(at.0, at.1)
            .because(arg.span, format!("changed as `{as_name}`"))
            .because(param.span, "what this parameter is given belongs to it until the call ends");
        let help = match other.access {
            Access::In if self.in_host() => format!("pass a copy to read: `let before = {variable}`"),
            Access::In => "read it where it is changed, or write the results to another array".to_string(),
            _ => "give each its own variable, and join the results behind the call".to_string(),
        };
        self.report(d.help(help));
    }

    fn variable_name(&self, e: &Expr) -> SmolStr {
        match Variable::of(root(e)) {
            Some(Variable::Local(id)) => self.locals.get(id).map(|l| l.name.clone()),
            Some(Variable::Global(id)) => self.global(id).map(|g| g.name.clone()),
            None => None,
        }
        .unwrap_or_default()
    }

    /// Reports a function that modifies its arguments where it would be used as a value: its changes would not reach the caller.
    pub fn keeps_arguments(&mut self, f: &Fn, span: Span, what: &str) -> Result<(), Reported> {
        let Some(param) = f.sig.params.iter().find(|p| p.access != Access::In) else { return Ok(()) };
        let d = Diagnostic::error("E0319", format!("`{}` changes its arguments, so it can't be {what}", f.name))
            .at(span, "what it changes would be lost")
            .because(param.span, "this parameter is changed")
            .help("call it for one variable at a time, or have it give its result as a value");
        Err(self.refuse(d))
    }
}
