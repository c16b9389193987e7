//! Warns about changes of copies that nothing reads: after `var row = m[0, ..]`, the assignment `row[1] = 9.0` does not
//! change `m`. A slice is a copy, not a view as in NumPy.

use crate::exclusive_access::NamedVariable;
use crate::typed::*;
use crate::visit;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

/// Returns the warnings about variables of a whole script, whose tests and benches are known.
pub fn changed_copies_of_script(program: &Program, main: ModuleId) -> Vec<Diagnostic> {
    let chunks = program.chunks.iter().filter(|chunk| chunk.module == main).map(|chunk| &chunk.body.root);
    let sections = program.tests.iter().chain(program.benches.iter()).map(|(_, section)| &section.body.root);
    let roots: Vec<&Block> = chunks.chain(sections).collect();
    let global = |variable| match variable {
        NamedVariable::Local(_) => None,
        NamedVariable::Global(id) => program.globals.get(id).map(|global| (&global.name, global.span)),
    };
    let mut warnings = vec![];
    for root in &roots {
        visit::stmts(root, &mut |stmt| {
            warnings.extend(changed_copy(&global, &roots, stmt).map(|(_, warning)| warning));
        });
    }
    warnings
}

/// Returns the copy that a statement declares, with a warning, if `roots` only assign its elements. `declared` returns
/// the name and the place of the variables that are examined.
pub(crate) fn changed_copy<'p>(
    declared: &dyn std::ops::Fn(NamedVariable) -> Option<(&'p SmolStr, Span)>,
    roots: &[&Block],
    stmt: &Stmt,
) -> Option<(NamedVariable, Diagnostic)> {
    let StmtKind::Let { pattern, value: Some(value), .. } = &stmt.kind else { return None };
    let ExprKind::Slice { base, .. } = &value.kind else { return None };
    let copy = match pattern {
        Pattern::Local(id) => NamedVariable::Local(*id),
        Pattern::Global(id) => NamedVariable::Global(*id),
        _ => return None,
    };
    let ((name, span), (whole, _)) = (declared(copy)?, declared(NamedVariable::of(base)?)?);
    let (mut uses, mut written) = (0, vec![]);
    for root in roots {
        visit::exprs(root, &mut |e| uses += usize::from(NamedVariable::of(e) == Some(copy)));
        visit::stmts(root, &mut |stmt| {
            if let StmtKind::Assign { place, .. } = &stmt.kind
                && matches!(place.kind, ExprKind::Index { .. } | ExprKind::Slice { .. })
                && NamedVariable::of(visit::root(place)) == Some(copy)
            {
                written.push(place.span);
            }
        });
    }
    let first = *written.first().filter(|_| written.len() == uses && !name.starts_with('_'))?;
    let warning = Diagnostic::warning("W0001", format!("`{name}` is a copy, so this does not change `{whole}`"))
        .at(first, "nothing reads the changed copy")
        .because(span, "copied here")
        .help(format!("assign to the elements of `{whole}`: `{whole}[…] = …`"));
    Some((copy, warning))
}
