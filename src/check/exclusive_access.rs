//! Exclusive access: a variable that is passed to an `out` or `inout` parameter must not be accessed in any other way
//! during the call.
//!
//! Without this rule, the result could differ between host and device: the host copies such arguments in and out, while
//! a device parameter may refer to the variable itself. A value that is computed before the call (a number, an element,
//! the result of a call) is a copy, so it may be passed to another parameter of the same call. If a launch reads and
//! writes the same array, it reads a copy.
//!
//! An element or field passed to `inout` is copied in before the call and copied out after it, in parameter order. If
//! the indices of two such elements are equal at run time, the result is therefore well-defined. If two access paths
//! are statically equal, it is an error.

use crate::context::{Cx, ErrorReported};
use crate::mutations;
use crate::typed::*;
use crate::visit::{base, root};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

/// The variable that an expression names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedVariable {
    Local(LocalId),
    Global(GlobalId),
}

impl NamedVariable {
    pub(crate) fn of(e: &Expr) -> Option<NamedVariable> {
        match e.kind {
            ExprKind::Local(id) => Some(NamedVariable::Local(id)),
            ExprKind::Global(id) => Some(NamedVariable::Global(id)),
            _ => None,
        }
    }
}

/// Returns the index, slice and field expressions of an access path, beginning with the one that is applied to the root
/// variable.
fn steps(e: &Expr) -> Vec<&Expr> {
    let mut path = vec![];
    let mut e = e;
    while let Some(base) = base(e) {
        path.push(e);
        e = base;
    }
    path.reverse();
    path
}

/// Returns whether two access paths of one variable definitely overlap: they are equal, or one contains the other.
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

/// Returns whether two index expressions are statically the same, so that they have equal values.
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
    /// Reports a variable that is passed twice to a call that modifies one of the two arguments. Returns false if it
    /// reports an error.
    pub fn check_exclusive_access(
        &mut self,
        name: &str,
        sig: &Signature,
        args: &[Option<&Expr>],
        launch: bool,
    ) -> bool {
        let pairs = || sig.params.iter().zip(args).filter_map(|(param, arg)| Some((param, (*arg)?)));
        for (i, (param, arg)) in pairs().enumerate() {
            let Some(variable) = NamedVariable::of(root(arg)).filter(|_| param.access != Access::In) else {
                continue;
            };
            let part = NamedVariable::of(arg).is_none();
            for (k, (other, other_arg)) in pairs().enumerate() {
                let second = other.access != Access::In;
                if k == i || second && k < i {
                    continue;
                }
                let whole = NamedVariable::of(other_arg) == Some(variable);
                let one = second && NamedVariable::of(root(other_arg)) == Some(variable) && overlap(arg, other_arg);
                if one || whole && !part && !launch && matches!(other.ty, Type::Array(_)) {
                    let verb = if second { "changed" } else { "read" };
                    let at = (other_arg.span, format!("{verb} as `{}`", other.name));
                    self.report_aliased_argument(arg, &param.name, name, at, (other, param));
                    return false;
                }
                if let Some(inner) =
                    mutations::of_expr(self.program, other_arg, &|e| NamedVariable::of(e) == Some(variable))
                {
                    let at = (inner, "changed here too, before the call begins".to_string());
                    self.report_aliased_argument(arg, &param.name, name, at, (param, param));
                    return false;
                }
            }
        }
        true
    }

    fn report_aliased_argument(
        &mut self,
        arg: &Expr,
        as_name: &str,
        callee: &str,
        at: (Span, String),
        params: (&Param, &Param),
    ) {
        let variable = self.variable_name(arg);
        let (other, param) = params;
        let title = match other.access {
            Access::In => format!("`{callee}` is given `{variable}` to read and to change at once"),
            _ => format!("`{callee}` is given `{variable}` to change twice at once"),
        };
        let d = Diagnostic::error("E0326", title)
            .at(at.0, at.1)
            .because(arg.span, format!("changed as `{as_name}`"))
            .because(param.span, "this parameter has exclusive access to its argument until the call ends");
        let help = match other.access {
            Access::In if self.in_host() => format!("pass a copy to read: `let before = {variable}`"),
            Access::In => "read it where it is changed, or write the results to another array".to_string(),
            _ => "give each its own variable, and combine the results after the call".to_string(),
        };
        self.report(d.help(help));
    }

    fn variable_name(&self, e: &Expr) -> SmolStr {
        match NamedVariable::of(root(e)) {
            Some(NamedVariable::Local(id)) => self.locals.get(id).map(|l| l.name.clone()),
            Some(NamedVariable::Global(id)) => self.global(id).map(|g| g.name.clone()),
            None => None,
        }
        .unwrap_or_default()
    }

    /// Reports a function that modifies its arguments if it is used as a value, because the caller would not see the
    /// modifications.
    pub fn require_read_only_params(&mut self, f: &Fn, span: Span, what: &str) -> Result<(), ErrorReported> {
        let Some(param) = f.sig.params.iter().find(|p| p.access != Access::In) else { return Ok(()) };
        let d = Diagnostic::error("E0319", format!("`{}` changes its arguments, so it can't be {what}", f.name))
            .at(span, "its changes would be lost")
            .because(param.span, "this parameter is changed")
            .help("call it for one variable at a time, or return the result as a value");
        Err(self.report_error(d))
    }
}
