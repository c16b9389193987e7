//! Visitors of the names and dimensions in the syntax tree.

use clk_syntax::ast::{self, ExprKind as Ast};

/// Visits every name that an expression of the syntax tree uses, except in the statements of blocks. The flag that
/// `visit` receives is true if the name is called.
pub(crate) fn names<'e>(e: &'e ast::Expr, visit: &mut dyn FnMut(&'e ast::Name, bool)) {
    walk(e, true, visit);
}

/// Like [`names`], but does not visit the values of blocks either, so that all names are in the scope of the
/// expression.
pub(crate) fn names_outside_blocks<'e>(e: &'e ast::Expr, visit: &mut dyn FnMut(&'e ast::Name, bool)) {
    walk(e, false, visit);
}

fn walk<'e>(e: &'e ast::Expr, with_blocks: bool, visit: &mut dyn FnMut(&'e ast::Name, bool)) {
    match &e.kind {
        Ast::Name(n) => visit(n, false),
        Ast::Call { callee, args } => {
            match &callee.kind {
                Ast::Name(n) => visit(n, true),
                _ => walk(callee, with_blocks, visit),
            }
            args.iter().for_each(|a| walk(&a.value, with_blocks, visit));
        }
        Ast::Field { base, .. } => walk(base, with_blocks, visit),
        Ast::Launch { callee, grid, block, args } => {
            walk(callee, with_blocks, visit);
            walk(grid, with_blocks, visit);
            walk(block, with_blocks, visit);
            args.iter().for_each(|a| walk(&a.value, with_blocks, visit));
        }
        Ast::Range { start, end, step, .. } => {
            [start, end, step].into_iter().flatten().for_each(|e| walk(e, with_blocks, visit));
        }
        Ast::Str(parts) => {
            for part in parts {
                if let ast::StrPart::Value { expr, .. } = part {
                    walk(expr, with_blocks, visit);
                }
            }
        }
        Ast::Index { base, args } => {
            walk(base, with_blocks, visit);
            args.iter().for_each(|a| walk(a, with_blocks, visit));
        }
        Ast::Unary { expr, .. } | Ast::Paren(expr) => walk(expr, with_blocks, visit),
        Ast::Binary { left, right, .. } => {
            walk(left, with_blocks, visit);
            walk(right, with_blocks, visit);
        }
        Ast::Tuple(parts) | Ast::Array(parts) => parts.iter().for_each(|p| walk(p, with_blocks, visit)),
        Ast::Struct { fields, .. } => fields.iter().for_each(|(_, e)| walk(e, with_blocks, visit)),
        Ast::If { cond, then, other } => {
            walk(cond, with_blocks, visit);
            if let Some(tail) = then.tail.as_ref().filter(|_| with_blocks) {
                walk(tail, with_blocks, visit);
            }
            if let Some(other) = other {
                walk(other, with_blocks, visit);
            }
        }
        Ast::Block(b) => {
            if let Some(tail) = b.tail.as_ref().filter(|_| with_blocks) {
                walk(tail, with_blocks, visit);
            }
        }
        Ast::Int { .. } | Ast::Float { .. } | Ast::Bool(_) | Ast::Time(_) | Ast::Error => {}
    }
}

/// Visits every dimension of the array types in a type, in source order.
pub(crate) fn dims<'t>(t: &'t ast::Type, visit: &mut dyn FnMut(&'t ast::Expr)) {
    match &t.kind {
        ast::TypeKind::Array { element, dims: extents } => {
            dims(element, visit);
            extents.iter().for_each(visit);
        }
        ast::TypeKind::Tuple(parts) => parts.iter().for_each(|p| dims(p, visit)),
        ast::TypeKind::Placed { ty, .. } => dims(ty, visit),
        ast::TypeKind::Name(_) | ast::TypeKind::Fn { .. } => {}
    }
}
