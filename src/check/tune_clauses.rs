//! Checks the `tune` clauses of a kernel. A clause has the name of a compile-time constant with a default, and a list
//! of values for it.
//!
//! Output: the constants with their values. The default is one of the values and satisfies the conditions in `assume`
//! clauses.

use crate::build::bare;
use crate::context::Cx;
use crate::tune_configs;
use crate::typed::*;
use crate::{finish, suggestions};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::{Scalar, ScalarValue};
use clk_syntax::ast;

const CODE: &str = "E0417";

/// Checks all `tune` clauses.
pub(crate) fn clauses(cx: &mut Cx<'_>, clauses: &[ast::Tune]) -> Vec<Tunable> {
    let mut all: Vec<Tunable> = vec![];
    for clause in clauses {
        let Some((param, ty)) = constant(cx, &clause.name) else {
            cx.record_skipped(&clause.values);
            continue;
        };
        let span = clause.name.span.to(clause.values.span);
        if let Some(before) = all.iter().find(|other| other.param == param) {
            let d = Diagnostic::error(CODE, format!("the values of `{}` are listed twice", clause.name.text));
            cx.report(d.at(clause.name.span, "again here").because(before.span, "listed here"));
            cx.record_skipped(&clause.values);
            continue;
        }
        match values(cx, &clause.name.text, ty, &clause.values) {
            Some(values) => all.push(Tunable { param, values, span }),
            None => cx.record_skipped(&clause.values),
        }
    }
    all
}

/// Looks up a compile-time constant, and returns its position and type. Reports an error and returns `None` if it can't
/// be tuned.
fn constant(cx: &mut Cx<'_>, name: &ast::Name) -> Option<(u32, Scalar)> {
    let sig = cx.sig;
    let position = sig.generics.iter().position(|generic| generic.name == name.text);
    let Some((at, generic)) = position.and_then(|at| Some((at, sig.generics.get(at)?))) else {
        let names = sig.generics.iter().map(|generic| generic.name.as_str());
        let d = Diagnostic::error(CODE, format!("the kernel has no compile-time constant `{}`", name.text));
        let d = d.at(name.span, "tuned here");
        let declared = format!("declare it: `kernel name<const {}: i32 = 64>(…)`, with the default", name.text);
        cx.report(match suggestions::nearest(&name.text, names) {
            Some(near) => {
                d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect).help(declared)
            }
            None => d.help(declared),
        });
        return None;
    };
    cx.record_use(name.span, NameTarget::Local(generic.name_span));
    let error = |title: String| Diagnostic::error(CODE, title).at(name.span, "tuned here");
    let (ty, default) = match &generic.kind {
        GenericKind::Const { ty: Type::Scalar(ty), default } if ty.is_int() || *ty == Scalar::Bool => (*ty, default),
        GenericKind::Const { ty: Type::Error, .. } => return None,
        _ => {
            let d = error(format!("`{}` is neither an integer nor a `bool`", name.text));
            cx.report(d.because(generic.span, "declared here").help("only such constants can be tuned"));
            return None;
        }
    };
    let Some(default) = default else {
        let d = error(format!("`{}` is tuned, and has no default", name.text));
        let example = if ty == Scalar::Bool { "true" } else { "64" };
        let help = format!("give it one: `const {}: {ty} = {example}`", name.text);
        cx.report(
            d.because(generic.span, "declared here")
                .help(help)
                .note("launches use the default until another value has been measured"),
        );
        return None;
    };
    let shapes = &sig.dim_exprs;
    if let Some(extent) = shapes.iter().find(|e| reads(e, at as u32)) {
        let d = error(format!("`{}` is tuned, and an array of the signature has an extent by it", name.text));
        cx.report(
            d.because(extent.span, "here")
                .help("tune only constants that change no shapes: results must not depend on them"),
        );
        return None;
    }
    let follows = sig.generics.iter().find(|other| match &other.kind {
        GenericKind::Const { default: Some(e), .. } => reads(e, at as u32),
        _ => false,
    });
    if let Some(other) = follows {
        let d = error(format!("`{}` is tuned, and the default of `{}` depends on it", name.text, other.name));
        cx.report(d.because(other.span, "here").help("compute it in the body"));
        return None;
    }
    if matches!(default.kind, ExprKind::Error) { None } else { Some((at as u32, ty)) }
}

fn reads(e: &Expr, param: u32) -> bool {
    let mut is_read = false;
    crate::visit::expr(e, &mut |e| is_read |= matches!(e.kind, ExprKind::ConstParam(i) if i == param));
    is_read
}

/// Returns the listed values of a constant.
fn values(cx: &mut Cx<'_>, name: &str, ty: Scalar, list: &ast::Expr) -> Option<Vec<ScalarValue>> {
    let ast::ExprKind::Array(items) = &bare(list).kind else {
        let d = Diagnostic::error(CODE, format!("the values of `{name}` must be listed"));
        cx.report(d.at(list.span, "this is not a list").help(format!("write `{name} in [32, 64, 128]`")));
        return None;
    };
    if items.is_empty() {
        let d = Diagnostic::error(CODE, format!("the list of values of `{name}` is empty"));
        cx.report(d.at(list.span, "nothing to choose from").help(format!("write `{name} in [32, 64, 128]`")));
        return None;
    }
    let mut all: Vec<(ScalarValue, Span)> = vec![];
    let mut ok = true;
    for item in items {
        let mut e = cx.expr_as(item, &Type::Scalar(ty));
        let before = cx.diagnostics.len();
        finish::expr(cx, &mut e);
        if e.ty != Type::Scalar(ty) || cx.diagnostics.len() > before {
            ok = false;
            continue;
        }
        let Some(value) = tune_configs::value(cx.program, &e, ty) else {
            let d = Diagnostic::error(CODE, format!("this value of `{name}` is not a constant"));
            cx.report(d.at(item.span, "known only at a launch").help("list literals, and expressions of constants"));
            ok = false;
            continue;
        };
        if let Some((_, before)) = all.iter().find(|(other, _)| *other == value) {
            let d = Diagnostic::error(CODE, format!("{} is listed twice for `{name}`", tune_configs::text(value)));
            cx.report(d.at(item.span, "again here").because(*before, "listed here"));
            ok = false;
            continue;
        }
        all.push((value, item.span));
    }
    ok.then(|| all.into_iter().map(|(value, _)| value).collect())
}

/// Checks the defaults of the constants, and that more than one configuration satisfies the `assume` conditions.
pub(crate) fn check_configs(cx: &mut Cx<'_>, kernel: &str, tunes: &[Tunable], assumes: &[Assume]) {
    let (sig, program) = (cx.sig, cx.program);
    let mut defaults = vec![];
    for tunable in tunes {
        let Some(generic) = sig.generics.get(tunable.param as usize) else { return };
        let Some(default) = tune_configs::default_of(program, sig, tunable.param) else {
            let d = Diagnostic::error(CODE, format!("the default of `{}` is too involved to be tuned", generic.name));
            cx.report(d.at(generic.span, "declared here").help("write a literal, or an expression of constants"));
            return;
        };
        if !tunable.values.contains(&default) {
            let title = format!("the default of `{}` is not among its values", generic.name);
            let d =
                Diagnostic::error(CODE, title).at(tunable.span, format!("{} is not here", tune_configs::text(default)));
            cx.report(d.because(generic.span, "the default").help("add it to the list"));
            return;
        }
        if !cx.uses.const_params.contains(&tunable.param) {
            let d =
                Diagnostic::warning("W0011", format!("`{}` is tuned, but `{kernel}` does not use it", generic.name));
            cx.report(d.at(tunable.span, "nothing depends on it"));
        }
        defaults.push(default);
    }
    let (Some(first), Some(last)) = (tunes.first(), tunes.last()) else { return };
    let whole = first.span.to(last.span);
    let count = tune_configs::count(tunes);
    if count > tune_configs::MOST {
        let d = Diagnostic::error(CODE, format!("`{kernel}` has {count} choices, which are too many to be measured"));
        let most = tune_configs::MOST;
        cx.report(d.at(whole, format!("at most {most} are possible")).help("list fewer values"));
        return;
    }
    if let Some(assume) = tune_configs::violated_assumption(program, tunes, assumes, &defaults) {
        let values = tunes.iter().zip(&defaults).filter_map(|(tunable, value)| {
            Some(format!("`{}` is {}", sig.generics.get(tunable.param as usize)?.name, tune_configs::text(*value)))
        });
        let values: Vec<String> = values.collect();
        let left = tune_configs::configs_meeting(program, tunes, assumes).len();
        let title = match left {
            0 => format!("no choice that `{kernel}` lists meets its conditions"),
            _ => format!("the defaults of `{kernel}` do not meet its conditions"),
        };
        let d = Diagnostic::error(CODE, title).at(assume.span, values.join(", ")).because(whole, "listed here");
        cx.report(d.help("change the defaults, the lists or the condition"));
        return;
    }
    if tune_configs::configs_meeting(program, tunes, assumes).len() == 1 {
        let d = Diagnostic::warning("W0011", format!("`{kernel}` has one choice only"));
        cx.report(d.at(whole, "nothing to choose from").help("list more values, or remove the clause"));
    }
}
