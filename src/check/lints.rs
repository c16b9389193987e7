//! Warnings about unused variables, imports, constants and values.

use rustc_hash::FxHashSet;

use crate::context::Cx;
use crate::copies::changed_copy;
use crate::exclusive_access::NamedVariable;
use crate::expr::conversion_edits;
use crate::mutations;
use crate::typed::*;
use crate::visit;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{AtomicOp, BinaryOp, MathFn, UnaryOp};
use clk_syntax::ast::{self, ItemKind};

/// Warns about locals that are never read, about `var`s that never change, and about loops that never end because their
/// bodies change no variable of their condition.
pub(crate) fn body(cx: &mut Cx<'_>, root: &Block) {
    let mut warnings = Vec::new();
    let loops = endless_loops(cx, root);
    warnings.extend(loops.iter().filter_map(|one| endless_loop(cx, one)));
    let mut copies = vec![];
    let local = |variable| match variable {
        NamedVariable::Local(id) => cx.locals.get(id).map(|local| (&local.name, local.span)),
        // Other bodies, and later entries of a session, may read a variable of the script.
        NamedVariable::Global(_) => None,
    };
    visit::stmts(root, &mut |stmt| copies.extend(changed_copy(&local, &[root], stmt)));
    for ((id, local), info) in cx.locals.iter().zip(&cx.info) {
        // Errors in declarations have been reported already.
        if local.name.starts_with('_') || cx.vars.shallow(&local.ty) == Type::Error {
            continue;
        }
        let unused_name = format!("_{}", local.name);
        match local.kind {
            LocalKind::Var if copies.iter().any(|(copy, _)| *copy == NamedVariable::Local(id)) => {}
            LocalKind::Var | LocalKind::Shared if !info.used => {
                let problem = if info.assigned { "is written but never read" } else { "is never used" };
                let d =
                    Diagnostic::warning("W0001", format!("`{}` {problem}", local.name)).at(local.span, "declared here");
                warnings.push(if info.assigned {
                    d
                } else if let Some(hidden) = hidden_by(cx, root, id) {
                    assign_hidden(cx, d, (local, info.keyword), hidden)
                } else {
                    d.fix(
                        format!("call it `{unused_name}` if that is intended"),
                        local.span,
                        unused_name,
                        Applicability::MaybeIncorrect,
                    )
                });
            }
            // Two parameters of the same name have already been reported.
            LocalKind::Param(_) if !info.used && !info.assigned && !is_declared_twice(cx, &local.name) => {
                let d = Diagnostic::warning("W0002", format!("the parameter `{}` is never used", local.name))
                    .at(local.span, "declared here")
                    .fix(
                        format!("call it `{unused_name}` if that is intended"),
                        local.span,
                        unused_name,
                        Applicability::MaybeIncorrect,
                    );
                warnings.push(d);
            }
            LocalKind::Var if local.mutable && !info.assigned => {
                let shared = |other: &super::context::Info| other.keyword == info.keyword && other.assigned;
                if let Some(word) = info.keyword.filter(|_| !cx.info.iter().any(shared)) {
                    if loops.iter().any(|one| one.reads.contains(&NamedVariable::Local(id))) {
                        continue;
                    }
                    let d = Diagnostic::warning("W0009", format!("`{}` never changes", local.name))
                        .at(local.span, "declared with `var`")
                        .fix("declare it with `let`", word, "let", Applicability::MachineApplicable);
                    warnings.push(d);
                }
            }
            _ => {}
        }
    }
    visit::stmts(root, &mut |stmt| warnings.extend(empty_countdown(stmt)));
    warnings.extend(root.stmts.iter().filter_map(|stmt| repeated_update(cx, root, stmt)));
    visit::exprs(root, &mut |e| {
        let found = suspicious_operation(e).or_else(|| converted_quotient(cx, root, e));
        warnings.extend(found.or_else(|| zero_quotient(e)).or_else(|| idle_limit(e)));
    });
    warnings.extend(copies.into_iter().map(|(_, warning)| warning));
    cx.diagnostics.append(&mut warnings);
}

/// Warns if all threads of a block add the same shared element to the same place, as in `atomic_add(total[0], sums[0])`
/// after a reduction. Only statements of the body itself are examined, because conditions may select one thread.
fn repeated_update(cx: &Cx<'_>, root: &Block, stmt: &Stmt) -> Option<Diagnostic> {
    let StmtKind::Expr { expr, .. } = &stmt.kind else { return None };
    let ExprKind::Builtin { builtin: Builtin::Atomic(AtomicOp::Add | AtomicOp::Sub), args, .. } = &expr.kind else {
        return None;
    };
    let [place, value] = &args[..] else { return None };
    let (mut reads_shared, mut returns) = (false, false);
    visit::expr(value, &mut |e| {
        let is_shared = |id: &LocalId| cx.locals.get(*id).is_some_and(|local| local.kind == LocalKind::Shared);
        reads_shared |= matches!(&e.kind, ExprKind::Local(id) if is_shared(id));
    });
    visit::stmts(root, &mut |stmt| returns |= matches!(stmt.kind, StmtKind::Return(_)));
    let are_uniform = is_plainly_uniform(cx, place) && is_plainly_uniform(cx, value);
    if !cx.in_blocks() || !reads_shared || returns || !are_uniform || cx.divergence.has_blocks_of_one_thread {
        return None;
    }
    Some(
        Diagnostic::warning("W0015", "every thread of the block adds the same element")
            .at(expr.span, "no index here depends on the thread")
            .help("let one thread do it: `if thread_idx.x == 0 { … }`")
            .note("the statement runs once for each thread, so a block of 64 threads adds the element 64 times"),
    )
}

/// Returns whether an expression consists of elements of arrays with indices that are the same for all threads of a
/// block.
fn is_plainly_uniform(cx: &Cx<'_>, e: &Expr) -> bool {
    let mut is_uniform = true;
    visit::expr(e, &mut |e| {
        is_uniform &= match &e.kind {
            ExprKind::Local(id) => {
                let is_array = |local: &Local| matches!(cx.vars.shallow(&local.ty), Type::Array(_));
                cx.locals.get(*id).is_some_and(|local| is_array(local) || local.kind == LocalKind::Shared)
            }
            ExprKind::Variable(variable) => {
                matches!(variable, Builtin::BlockIdx | Builtin::GridDim | Builtin::BlockDim)
            }
            ExprKind::Int(_) | ExprKind::Const(_) | ExprKind::Dim(_) | ExprKind::ConstParam(_) => true,
            ExprKind::Index { .. } | ExprKind::Swizzle { .. } | ExprKind::Binary { .. } => true,
            _ => false,
        };
    });
    is_uniform
}

/// Warns about a loop over a literal range whose end is less than its start: `5..0`. Named bounds may be equal to such
/// numbers on purpose.
fn empty_countdown(stmt: &Stmt) -> Option<Diagnostic> {
    let StmtKind::For { iter, .. } = &stmt.kind else { return None };
    let ExprKind::Range { start: Some(start), end: Some(end), step: None, .. } = &iter.kind else { return None };
    let literal = |e: &Expr| match &e.kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => match expr.kind {
            ExprKind::Int(value) => Some(-value),
            _ => None,
        },
        _ => None,
    };
    let (from, to) = (literal(start)?, literal(end)?);
    (from > to).then(|| {
        Diagnostic::warning("W0006", "this loop never runs")
            .at(iter.span, format!("a range counts up, but {from} is greater than {to}"))
            .fix("count down with `step -1`", iter.span.after(), " step -1", Applicability::MaybeIncorrect)
    })
}

/// Warns about a quotient that loses its fraction, `sum(counts) / len(counts)`, and about comparisons that never
/// change, `n >= 0` for an unsigned `n`.
fn suspicious_operation(e: &Expr) -> Option<Diagnostic> {
    if let ExprKind::Builtin { builtin: Builtin::Math(MathFn::Abs), .. } = &e.kind {
        let element = match &e.ty {
            Type::Array(array) => &array.element,
            other => other,
        };
        let Type::Scalar(scalar) = element else { return None };
        return scalar.is_unsigned().then(|| {
            Diagnostic::warning("W0014", "`abs` of an unsigned number changes nothing")
                .at(e.span, format!("`{}` has no negative values", scalar.name()))
                .help("a difference below 0 wraps: convert the operands first, `abs(i32(a) - i32(b))`")
        });
    }
    let ExprKind::Binary { op, left, right } = &e.kind else { return None };
    let Type::Scalar(scalar) = left.ty else { return None };
    let is_call = |e: &Expr, of: Builtin| matches!(&e.kind, ExprKind::Builtin { builtin, .. } if *builtin == of);
    match op {
        BinaryOp::Div if scalar.is_int() && is_call(left, Builtin::Sum) && is_call(right, Builtin::Len) => {
            let d = integer_quotient(left, right).at(e.span, "this average is an integer");
            Some(match summed_variable(left) == summed_variable(right) {
                true => d.help("`mean(x)` is the average of the elements as a float"),
                false => d,
            })
        }
        BinaryOp::Ge | BinaryOp::Lt if scalar.is_unsigned() && matches!(right.kind, ExprKind::Int(0)) => {
            let value = *op == BinaryOp::Ge;
            let d = Diagnostic::warning("W0014", format!("this comparison is always `{value}`"))
                .at(e.span, format!("`{}` has no negative values", scalar.name()));
            Some(d.help("count in a signed type, such as `i32`"))
        }
        _ => None,
    }
}

/// Returns the variable whose elements `sum(x)` adds up or `len(x)` counts.
fn summed_variable(e: &Expr) -> Option<NamedVariable> {
    match &e.kind {
        ExprKind::Builtin { args, .. } => args.first().and_then(NamedVariable::of),
        _ => None,
    }
}

/// Warns about `arange(10) / 10`, whose elements are all 0.
fn zero_quotient(e: &Expr) -> Option<Diagnostic> {
    let ExprKind::Binary { op: BinaryOp::Div, left, right } = &e.kind else { return None };
    let ExprKind::Builtin { builtin: Builtin::Arange, args, .. } = &left.kind else { return None };
    let Type::Array(array) = &left.ty else { return None };
    let (Type::Scalar(scalar), [count]) = (&array.element, &args[..]) else { return None };
    let is_below = match (&count.kind, &right.kind) {
        (ExprKind::Int(n), ExprKind::Int(divisor)) => n <= divisor,
        _ => NamedVariable::of(count).is_some_and(|n| Some(n) == NamedVariable::of(right)),
    };
    if !scalar.is_int() || !is_below {
        return None;
    }
    Some(integer_quotient(left, right).at(e.span, "every element is 0"))
}

/// Builds the warning about a division of integers that was probably meant to have a fraction.
fn integer_quotient(left: &Expr, right: &Expr) -> Diagnostic {
    let edits = [left, right].into_iter().flat_map(|operand| conversion_edits(operand.span, "f32")).collect();
    Diagnostic::warning("W0013", "the quotient of integers has no fraction").fix_all(
        "convert both operands with `f32(…)`",
        edits,
        Applicability::MaybeIncorrect,
    )
}

/// Warns about `min(p + 50, 255)` of a `u8`, which changes nothing: the sum wraps before.
fn idle_limit(e: &Expr) -> Option<Diagnostic> {
    let ExprKind::Builtin { builtin: Builtin::Math(function @ (MathFn::Min | MathFn::Max)), args, .. } = &e.kind else {
        return None;
    };
    let scalar = match &e.ty {
        Type::Scalar(scalar) => *scalar,
        Type::Array(array) => match array.element {
            Type::Scalar(scalar) => scalar,
            _ => return None,
        },
        _ => return None,
    };
    let limit = match function {
        MathFn::Min => (1i128 << scalar.bits().min(64)) - 1,
        _ => 0,
    };
    let has_limit = args.iter().any(|arg| matches!(arg.kind, ExprKind::Int(value) if value == limit));
    if !scalar.is_unsigned() || !has_limit || !args.iter().any(|arg| !matches!(arg.kind, ExprKind::Int(_))) {
        return None;
    }
    let (name, bound, sum) = match function {
        MathFn::Min => ("min", "greater", "i32(x) + 50"),
        _ => ("max", "less", "i32(x) - 50"),
    };
    let d = Diagnostic::warning("W0014", format!("`{name}` with {limit} changes nothing"))
        .at(e.span, format!("no `{}` is {bound} than {limit}, because sums and differences wrap", scalar.name()));
    Some(match scalar.bits() {
        ..=16 => d.help(format!("convert the operands first: `{}({name}({sum}, {limit}))`", scalar.name())),
        _ => d,
    })
}

/// Returns the declaration that `let total = total + v` hides: that of another variable of the same name, which the
/// value reads.
fn hidden_by(cx: &Cx<'_>, root: &Block, id: LocalId) -> Option<(NamedVariable, Span)> {
    let name = &cx.locals.get(id)?.name;
    let (mut hidden, mut initial) = (None, None);
    visit::stmts(root, &mut |stmt| {
        if let StmtKind::Let { pattern: Pattern::Local(declared), value: Some(value), .. } = &stmt.kind
            && *declared == id
        {
            initial = Some(value.span);
            visit::expr(value, &mut |e| {
                let read = match e.kind {
                    ExprKind::Local(local) => cx.locals.get(local).map(|local| &local.name),
                    ExprKind::Global(global) => cx.global(global).map(|global| &global.name),
                    _ => None,
                };
                if read == Some(name) {
                    hidden = NamedVariable::of(e);
                }
            });
        }
    });
    hidden.or_else(|| hidden_variable(cx, root, id)).zip(initial)
}

/// Returns the variable of the script with the name and type of a local that is read after the local's declaration.
/// W0007 reports hidden locals.
fn hidden_variable(cx: &Cx<'_>, root: &Block, id: LocalId) -> Option<NamedVariable> {
    let local = cx.locals.get(id)?;
    let mut hidden = None;
    visit::exprs(root, &mut |e| {
        let ExprKind::Global(other) = e.kind else { return };
        let Some(global) = cx.global(other).filter(|global| global.mutable && global.name == local.name) else {
            return;
        };
        let is_earlier = global.span.file == local.span.file && global.span.end <= local.span.start;
        let is_read_after = e.span.start >= local.span.end;
        if is_earlier && is_read_after && cx.vars.shallow(&global.ty) == cx.vars.shallow(&local.ty) {
            hidden = Some(NamedVariable::Global(other));
        }
    });
    hidden
}

/// Adds advice to the warning about an unused variable that hides the one that was meant to change. `value` is its
/// initial value.
fn assign_hidden(
    cx: &Cx<'_>,
    d: Diagnostic,
    (local, keyword): (&Local, Option<Span>),
    (hidden, value): (NamedVariable, Span),
) -> Diagnostic {
    let (declared, outer) = match hidden {
        NamedVariable::Local(id) => {
            let keyword = cx.info.get(id.index()).and_then(|info| info.keyword);
            (cx.locals.get(id).map(|local| (local.span, local.mutable)), keyword)
        }
        NamedVariable::Global(id) => (cx.global(id).map(|global| (global.span, global.mutable)), cx.global_keyword(id)),
    };
    // Parameters and the variables of loops cannot be declared with `var`.
    let (Some((declared, is_mutable)), Some(keyword), Some(outer)) = (declared, keyword, outer) else { return d };
    let mut edits = vec![(Span { end: local.span.start, ..keyword }, String::new())];
    // The type, if there is one, belongs to the declaration.
    edits.push((Span { start: local.span.end, end: value.start, ..keyword }, " = ".to_owned()));
    if !is_mutable {
        edits.push((outer, "var".to_owned()));
    }
    d.because(declared, format!("this `{}` keeps its value", local.name)).fix_all(
        format!("a declaration makes another variable; to change this one, write `{} = …`", local.name),
        edits,
        Applicability::MaybeIncorrect,
    )
}

/// Warns about `f32(hits / n)`, which converts a quotient after its fraction is lost. Quotients of numbers that may be
/// indices are often meant: `f32(i / W)` is a row.
fn converted_quotient(cx: &Cx<'_>, root: &Block, e: &Expr) -> Option<Diagnostic> {
    let ExprKind::Convert { expr: quotient, .. } = &e.kind else { return None };
    let ExprKind::Binary { op: BinaryOp::Div, left, right } = &quotient.kind else { return None };
    let (Type::Scalar(to), Type::Scalar(from)) = (&e.ty, &quotient.ty) else { return None };
    let (dividend, is_count) = match &left.kind {
        ExprKind::Local(id) => cx.locals.get(*id).map(|local| (&local.name, local.mutable))?,
        ExprKind::Global(id) => (&cx.global(*id)?.name, true),
        _ => return None,
    };
    // `i / N` in a kernel with `threads(i: N)`
    let is_zero = match (&left.kind, &right.kind) {
        (ExprKind::Local(id), ExprKind::Dim(dim)) => cx.info.get(id.index())?.dim_of_range == Some(*dim),
        _ => false,
    };
    let divisor = match &right.kind {
        ExprKind::Local(id) => cx.locals.get(*id)?.name.to_string(),
        ExprKind::Global(id) => cx.global(*id)?.name.to_string(),
        ExprKind::Dim(id) => cx.sig.dims.get(*id as usize)?.name.to_string(),
        ExprKind::Builtin { builtin: Builtin::Len, args, .. } => match NamedVariable::of(args.first()?)? {
            NamedVariable::Local(id) => format!("len({})", cx.locals.get(id)?.name),
            NamedVariable::Global(id) => format!("len({})", cx.global(id)?.name),
        },
        _ => return None,
    };
    let variable = NamedVariable::of(left);
    let mut is_index = false;
    visit::exprs(root, &mut |e| {
        if let ExprKind::Index { indices, .. } = &e.kind {
            let mut look = |e: &Expr| is_index |= NamedVariable::of(e) == variable;
            indices.iter().for_each(|index| visit::expr(index, &mut look));
        }
    });
    if !to.is_float() || !from.is_int() || (!is_count || is_index) && !is_zero {
        return None;
    }
    let to = to.name();
    let label = match is_zero {
        true => format!("`{dividend}` is less than `{divisor}`, so this is 0"),
        false => format!("this is an integer before `{to}` converts it"),
    };
    Some(
        Diagnostic::warning("W0013", "the quotient of integers has no fraction")
            .at(quotient.span, label)
            .help(format!("convert the operands: `{to}({dividend}) / {to}({divisor})`")),
    )
}

/// A `while` loop that never ends, because its body changes no variable of its condition and does not leave it.
struct EndlessLoop {
    cond: Span,
    /// The variables that the condition reads.
    reads: Vec<NamedVariable>,
}

fn endless_loops(cx: &Cx<'_>, root: &Block) -> Vec<EndlessLoop> {
    let mut loops = vec![];
    visit::stmts(root, &mut |stmt| {
        let StmtKind::While { cond, body, .. } = &stmt.kind else { return };
        let (mut leaves, mut depends, mut reads) = (false, false, vec![]);
        visit::stmts(body, &mut |stmt| leaves |= matches!(stmt.kind, StmtKind::Break | StmtKind::Return(_)));
        visit::exprs(body, &mut |e| {
            leaves |= match &e.kind {
                ExprKind::Builtin { builtin, .. } => *builtin == Builtin::Exit,
                // A function of the host may call `exit`.
                ExprKind::Call { .. } | ExprKind::Lift { .. } => !cx.in_kernel(),
                _ => false,
            }
        });
        visit::expr(cond, &mut |e| match &e.kind {
            ExprKind::Local(_) | ExprKind::Global(_) => reads.extend(NamedVariable::of(e)),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {}
            ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => {}
            ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Convert { .. } => {}
            ExprKind::Builtin { builtin: Builtin::Len | Builtin::Shape, .. } => {}
            // Other expressions may depend on memory or files, which can change.
            _ => depends = true,
        });
        let is_read = |e: &Expr| NamedVariable::of(e).is_some_and(|variable| reads.contains(&variable));
        let changes = mutations::of_expr(cx.program, cond, &is_read)
            .or_else(|| mutations::of_block(cx.program, body, &is_read))
            .is_some();
        if !leaves && !depends && !changes && !reads.is_empty() {
            loops.push(EndlessLoop { cond: cond.span, reads });
        }
    });
    loops
}

/// Warns about a loop that never ends. Names the variable that the loop was probably meant to change.
fn endless_loop(cx: &Cx<'_>, one: &EndlessLoop) -> Option<Diagnostic> {
    let variables = one.reads.iter().filter_map(|variable| match *variable {
        NamedVariable::Local(id) => cx.locals.get(id).map(|local| (&local.name, local.mutable, local.span)),
        NamedVariable::Global(id) => cx.global(id).map(|global| (&global.name, global.mutable, global.span)),
    });
    let (name, is_mutable, declared) = variables.max_by_key(|(_, is_mutable, _)| *is_mutable)?;
    let d = Diagnostic::warning("W0009", format!("`{name}` never changes, so this loop never ends"))
        .at(one.cond, "once this holds, it holds for ever")
        .because(declared, "declared here");
    Some(match is_mutable {
        true => d.help("is the assignment that should change it missing from the body?"),
        false => d.help(format!("declare `{name}` with `var`, and change it in the body")),
    })
}

fn is_declared_twice(cx: &Cx<'_>, name: &str) -> bool {
    cx.sig.params.iter().filter(|p| p.name == name).count() > 1
}

/// Returns the items of the text itself. In a session, definitions of earlier entries follow them.
fn own_items(file: &ast::SourceFile) -> impl Iterator<Item = &ast::Item> {
    let own = file.items.first().map(|item| item.span.file);
    file.items.iter().filter(move |item| Some(item.span.file) == own)
}

/// Warns about unused imports. A source that contains only imports, such as a REPL entry, gets no warnings.
pub(crate) fn imports(file: &ast::SourceFile, used: &FxHashSet<SmolStr>, warnings: &mut Vec<Diagnostic>) {
    let only_imports = own_items(file).all(|i| matches!(i.kind, ItemKind::Import(_) | ItemKind::Error(_)));
    if only_imports {
        return;
    }
    let mut unused = |name: &str, span: Span| {
        if !used.contains(name) {
            let d =
                Diagnostic::warning("W0003", format!("`{name}` is imported but not used")).at(span, "imported here");
            warnings.push(d.help("remove it"));
        }
    };
    for item in &file.items {
        let ItemKind::Import(import) = &item.kind else { continue };
        match &import.items {
            ast::ImportItems::Module { .. } => {
                if let Some(name) = crate::import_alias::module_alias(import) {
                    unused(&name.text, import.span);
                }
            }
            ast::ImportItems::Names(names) => {
                for (name, alias) in names {
                    let local = alias.as_ref().unwrap_or(name);
                    unused(&local.text, local.span);
                }
            }
        }
    }
}

/// Warns about constants of a script that the script never uses.
pub(crate) fn consts(file: &ast::SourceFile, used: &FxHashSet<SmolStr>, warnings: &mut Vec<Diagnostic>) {
    let has_stmts = own_items(file).any(|i| matches!(i.kind, ItemKind::Stmt(_)));
    let has_bodies = own_items(file).any(|i| matches!(i.kind, ItemKind::Kernel(_)));
    if !(has_stmts && has_bodies) {
        return;
    }
    for item in &file.items {
        if let ItemKind::Const(c) = &item.kind
            && !used.contains(&c.name.text)
            && !c.name.text.starts_with('_')
        {
            let d = Diagnostic::warning("W0004", format!("the constant `{}` is never used", c.name.text));
            warnings.push(d.at(c.name.span, "defined here").help("remove it"));
        }
    }
}

/// Returns whether an expression has no side effect.
pub(crate) fn has_no_effect(e: &Expr) -> bool {
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
            e.ty != Type::Error && e.ty != Type::Unit && parts.iter().all(has_no_effect)
        }
        ExprKind::Builtin { builtin, .. } => {
            matches!(builtin, Builtin::Math(_) | Builtin::Text(_)) && e.ty != Type::Error
        }
        _ => false,
    }
}
