//! Warnings about unused variables, imports, constants and values.

use rustc_hash::FxHashSet;

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::cx::Cx;
use crate::check::typed::*;
use crate::check::walk;
use crate::lang::builtin::Builtin;
use crate::syntax::ast::{self, ItemKind};

/// Warns about locals that are never read, and `var`s that never change: a loop that waits for one to change never ends.
pub(crate) fn body(cx: &mut Cx<'_>, root: &Block) {
    let mut found = Vec::new();
    let whiles = whiles(root);
    for ((id, local), info) in cx.locals.iter().zip(&cx.info) {
        // What could not be declared was reported.
        if local.name.starts_with('_') || cx.vars.shallow(&local.ty) == Type::Error {
            continue;
        }
        let quiet = format!("_{}", local.name);
        match local.kind {
            LocalKind::Var | LocalKind::Shared if !info.used => {
                let said = if info.assigned { "is written but never read" } else { "is never used" };
                let d =
                    Diagnostic::warning("W0001", format!("`{}` {said}", local.name)).at(local.span, "declared here");
                found.push(if info.assigned {
                    d
                } else {
                    d.fix(
                        format!("call it `{quiet}` if that is meant"),
                        local.span,
                        quiet,
                        Applicability::MaybeIncorrect,
                    )
                });
            }
            // Two parameters of the same name have already been reported.
            LocalKind::Param(_) if !info.used && !info.assigned && !twice(cx, &local.name) => {
                let d = Diagnostic::warning("W0002", format!("the parameter `{}` is never used", local.name))
                    .at(local.span, "declared here")
                    .fix(
                        format!("call it `{quiet}` if that is meant"),
                        local.span,
                        quiet,
                        Applicability::MaybeIncorrect,
                    );
                found.push(d);
            }
            LocalKind::Var if local.mutable && !info.assigned => {
                let shared = |other: &super::cx::Info| other.word == info.word && other.assigned;
                if let Some(word) = info.word.filter(|_| !cx.info.iter().any(shared)) {
                    if let Some(cond) = endless(cx, &whiles, id) {
                        found.push(
                            Diagnostic::warning(
                                "W0009",
                                format!("`{}` never changes, so this loop never ends", local.name),
                            )
                            .at(local.span, "declared with `var`")
                            .because(cond, "once this holds, it holds for ever")
                            .help("is the assignment that should change it missing?"),
                        );
                        continue;
                    }
                    let d = Diagnostic::warning("W0009", format!("`{}` never changes", local.name))
                        .at(local.span, "declared with `var`")
                        .fix("declare it with `let`", word, "let", Applicability::MachineApplicable);
                    found.push(d);
                }
            }
            _ => {}
        }
    }
    cx.diagnostics.append(&mut found);
}

/// A loop that only its condition can end, and the variables in that.
struct While {
    cond: Span,
    reads: Vec<LocalId>,
}

fn whiles(root: &Block) -> Vec<While> {
    let mut found = vec![];
    walk::stmts(root, &mut |stmt| {
        let StmtKind::While { cond, body, .. } = &stmt.kind else { return };
        let (mut leaves, mut depends, mut reads) = (false, false, vec![]);
        walk::stmts(body, &mut |stmt| leaves |= matches!(stmt.kind, StmtKind::Break | StmtKind::Return(_)));
        walk::expr(cond, &mut |e| match &e.kind {
            ExprKind::Local(id) => reads.push(*id),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {}
            ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => {}
            ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Convert { .. } => {}
            // Memory, files and the like may change.
            _ => depends = true,
        });
        if !leaves && !depends {
            found.push(While { cond: cond.span, reads });
        }
    });
    found
}

/// Returns the condition of a loop that reads this variable, and others that never change either.
fn endless(cx: &Cx<'_>, whiles: &[While], id: LocalId) -> Option<Span> {
    let fixed = |id: &LocalId| {
        let scalar = cx.locals.get(*id).is_some_and(|local| matches!(cx.vars.shallow(&local.ty), Type::Scalar(_)));
        scalar && cx.info.get(id.index()).is_some_and(|info| !info.assigned)
    };
    whiles.iter().find(|one| one.reads.contains(&id) && one.reads.iter().all(fixed)).map(|one| one.cond)
}

fn twice(cx: &Cx<'_>, name: &str) -> bool {
    cx.sig.params.iter().filter(|p| p.name == name).count() > 1
}

/// Warns about unused imports. A source of imports only (a REPL entry) is left alone.
pub(crate) fn imports(file: &ast::File, used: &FxHashSet<SmolStr>, found: &mut Vec<Diagnostic>) {
    let only_imports = file.items.iter().all(|i| matches!(i.kind, ItemKind::Import(_) | ItemKind::Error(_)));
    if only_imports {
        return;
    }
    let mut unused = |name: &str, span: Span| {
        if !used.contains(name) {
            let d =
                Diagnostic::warning("W0003", format!("`{name}` is imported but not used")).at(span, "imported here");
            found.push(d.help("take it out"));
        }
    };
    for item in &file.items {
        let ItemKind::Import(import) = &item.kind else { continue };
        match &import.what {
            ast::ImportWhat::Module { .. } => {
                if let Some(name) = crate::check::alias::module_alias(import) {
                    unused(&name, import.span);
                }
            }
            ast::ImportWhat::Names(names) => {
                for (name, alias) in names {
                    let local = alias.as_ref().unwrap_or(name);
                    unused(&local.text, local.span);
                }
            }
        }
    }
}

/// Warns about constants that a whole script never uses.
pub(crate) fn consts(file: &ast::File, used: &FxHashSet<SmolStr>, found: &mut Vec<Diagnostic>) {
    let has_stmts = file.items.iter().any(|i| matches!(i.kind, ItemKind::Stmt(_)));
    let has_bodies = file.items.iter().any(|i| matches!(i.kind, ItemKind::Kernel(_)));
    if !(has_stmts && has_bodies) {
        return;
    }
    for item in &file.items {
        if let ItemKind::Const(c) = &item.kind
            && !used.contains(&c.name.text)
            && !c.name.text.starts_with('_')
        {
            let d = Diagnostic::warning("W0004", format!("the constant `{}` is never used", c.name.text));
            found.push(d.at(c.name.span, "defined here").help("take it out"));
        }
    }
}

/// Whether an expression has no effect besides its value.
pub(crate) fn only_gives(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Local(_)
        | ExprKind::Global(_)
        | ExprKind::Const(_)
        | ExprKind::ConstParam(_)
        | ExprKind::Dim(_)
        | ExprKind::Variable(_)
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Convert { .. }
        | ExprKind::ConvertParam { .. }
        | ExprKind::Bitcast { .. }
        | ExprKind::Vector { .. }
        | ExprKind::Swizzle { .. }
        | ExprKind::Field { .. }
        | ExprKind::TupleField { .. }
        | ExprKind::Index { .. }
        | ExprKind::Slice { .. }
        | ExprKind::Range { .. } => e.ty != Type::Error,
        ExprKind::Tuple(parts) | ExprKind::Array(parts) | ExprKind::Struct { fields: parts, .. } => {
            e.ty != Type::Error && e.ty != Type::Unit && parts.iter().all(only_gives)
        }
        ExprKind::Builtin { builtin, .. } => {
            matches!(builtin, Builtin::Math(_) | Builtin::Text(_)) && e.ty != Type::Error
        }
        _ => false,
    }
}
