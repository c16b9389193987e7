//! Visitors: over the syntax tree for names, and over typed bodies for expressions.

use crate::check::typed::*;
use crate::syntax::ast::{self, ExprKind as Ast};

/// Visits every name that an expression of the syntax tree uses, except inside of blocks. The flag passed to `visit` says
/// that the name is called.
pub(crate) fn names<'e>(e: &'e ast::Expr, visit: &mut dyn FnMut(&'e ast::Name, bool)) {
    match &e.kind {
        Ast::Name(n) => visit(n, false),
        Ast::Call { callee, args } => {
            match &callee.kind {
                Ast::Name(n) => visit(n, true),
                _ => names(callee, visit),
            }
            args.iter().for_each(|a| names(&a.value, visit));
        }
        Ast::Field { base, .. } => names(base, visit),
        Ast::Index { base, args } => {
            names(base, visit);
            args.iter().for_each(|a| names(a, visit));
        }
        Ast::Unary { expr, .. } | Ast::Paren(expr) => names(expr, visit),
        Ast::Binary { left, right, .. } => {
            names(left, visit);
            names(right, visit);
        }
        Ast::Tuple(parts) | Ast::Array(parts) => parts.iter().for_each(|p| names(p, visit)),
        Ast::Struct { fields, .. } => fields.iter().for_each(|(_, e)| names(e, visit)),
        Ast::If { cond, then, other } => {
            names(cond, visit);
            if let Some(tail) = &then.tail {
                names(tail, visit);
            }
            if let Some(other) = other {
                names(other, visit);
            }
        }
        Ast::Block(b) => {
            if let Some(tail) = &b.tail {
                names(tail, visit);
            }
        }
        _ => {}
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

/// Visits every expression of a typed block, in pre-order.
pub fn exprs(b: &Block, visit: &mut dyn FnMut(&Expr)) {
    for s in &b.stmts {
        match &s.kind {
            StmtKind::Let { value, declared, .. } => {
                value.iter().for_each(|e| expr(e, visit));
                for extent in declared.iter().flat_map(|declared| &declared.extents) {
                    if let Extent::Is(e) = extent {
                        expr(e, visit);
                    }
                }
            }
            StmtKind::LocalArray { extents, init, .. } => {
                extents.iter().for_each(|e| expr(e, visit));
                match init {
                    ArrayInit::None => {}
                    ArrayInit::Fill(e) | ArrayInit::Copy(e) => expr(e, visit),
                    ArrayInit::Elements(es) => es.iter().for_each(|e| expr(e, visit)),
                }
            }
            StmtKind::Shared { extents, .. } => extents.iter().for_each(|e| expr(e, visit)),
            StmtKind::Assign { place, value, .. } => {
                expr(place, visit);
                expr(value, visit);
            }
            StmtKind::Expr { expr: e, .. } => expr(e, visit),
            StmtKind::For { iter, body, .. } => {
                expr(iter, visit);
                exprs(body, visit);
            }
            StmtKind::While { cond, body, .. } => {
                expr(cond, visit);
                exprs(body, visit);
            }
            StmtKind::Loop { body } | StmtKind::Batch { body } | StmtKind::On { body, .. } => exprs(body, visit),
            StmtKind::Break | StmtKind::Continue => {}
            StmtKind::Return(value) => value.iter().for_each(|e| expr(e, visit)),
        }
    }
    if let Some(tail) = &b.tail {
        expr(tail, visit);
    }
}

pub fn expr(e: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(e);
    let opt = |e: &Option<Box<Expr>>, visit: &mut dyn FnMut(&Expr)| {
        if let Some(e) = e {
            expr(e, visit);
        }
    };
    match &e.kind {
        ExprKind::Unary { expr: e, .. }
        | ExprKind::Convert { expr: e, .. }
        | ExprKind::ConvertParam { expr: e, .. }
        | ExprKind::Bitcast { expr: e }
        | ExprKind::Swizzle { base: e, .. }
        | ExprKind::Field { base: e, .. }
        | ExprKind::TupleField { base: e, .. }
        | ExprKind::DynField { base: e, .. } => expr(e, visit),
        ExprKind::Binary { left, right, .. } => {
            expr(left, visit);
            expr(right, visit);
        }
        ExprKind::Vector { parts: es }
        | ExprKind::Tuple(es)
        | ExprKind::Array(es)
        | ExprKind::Struct { fields: es, .. }
        | ExprKind::Call { args: es, .. }
        | ExprKind::Lift { args: es, .. } => es.iter().for_each(|e| expr(e, visit)),
        ExprKind::Derive(derive) => {
            expr(&derive.of, visit);
            derive.seed.iter().for_each(|e| expr(e, visit));
        }
        ExprKind::Stated(stated) => {
            stated.args.iter().for_each(|e| expr(e, visit));
            expr(&stated.rule.of, visit);
            expr(&stated.rule.back, visit);
        }
        ExprKind::Str(parts) => {
            for part in parts {
                if let StrPart::Value { expr: e, .. } = part {
                    expr(e, visit);
                }
            }
        }
        ExprKind::Index { base, indices } => {
            expr(base, visit);
            indices.iter().for_each(|e| expr(e, visit));
        }
        ExprKind::Slice { base, indices } => {
            expr(base, visit);
            for index in indices {
                match index {
                    SliceIndex::At(e) | SliceIndex::Of(e) => expr(e, visit),
                    SliceIndex::Range { start, end, step, .. } => {
                        [start, end, step].into_iter().flatten().for_each(|e| expr(e, visit));
                    }
                }
            }
        }
        ExprKind::Builtin { args, named, .. } => {
            args.iter().for_each(|e| expr(e, visit));
            named.iter().for_each(|(_, e)| expr(e, visit));
        }
        ExprKind::Launch(launch) => launch.args.iter().flatten().for_each(|e| expr(e, visit)),
        ExprKind::Range { start, end, step, .. } => {
            opt(start, visit);
            opt(end, visit);
            opt(step, visit);
        }
        ExprKind::If { cond, then, other } => {
            expr(cond, visit);
            exprs(then, visit);
            if let Some(other) = other {
                exprs(other, visit);
            }
        }
        ExprKind::Block(b) | ExprKind::Time(b) => exprs(b, visit),
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Local(_)
        | ExprKind::Global(_)
        | ExprKind::Const(_)
        | ExprKind::ConstParam(_)
        | ExprKind::Dim(_)
        | ExprKind::Variable(_)
        | ExprKind::Error => {}
    }
}

/// Returns the root expression of an access path.
pub fn root(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Index { base, .. }
        | ExprKind::Slice { base, .. }
        | ExprKind::Field { base, .. }
        | ExprKind::TupleField { base, .. }
        | ExprKind::DynField { base, .. }
        | ExprKind::Swizzle { base, .. } => root(base),
        _ => e,
    }
}

/// Returns the blocks of a statement, with the condition or the range that each depends on.
pub fn inner(stmt: &Stmt) -> Vec<(Option<&Expr>, &Block)> {
    match &stmt.kind {
        StmtKind::For { iter, body, .. } => vec![(Some(iter), body)],
        StmtKind::While { cond, body, .. } => vec![(Some(cond), body)],
        StmtKind::Loop { body } | StmtKind::On { body, .. } | StmtKind::Batch { body } => vec![(None, body)],
        StmtKind::Let { value: Some(e), .. } | StmtKind::Assign { value: e, .. } | StmtKind::Expr { expr: e, .. } => {
            branches(e)
        }
        _ => vec![],
    }
}

/// As [`inner`], of an expression that is a block or an `if`.
pub fn branches(e: &Expr) -> Vec<(Option<&Expr>, &Block)> {
    match &e.kind {
        ExprKind::If { cond, then, other } => {
            std::iter::once(&**then).chain(other.as_deref()).map(|block| (Some(&**cond), block)).collect()
        }
        ExprKind::Block(block) => vec![(None, block)],
        _ => vec![],
    }
}

/// Returns all blocks directly inside of a block.
pub fn all_inner(block: &Block) -> impl Iterator<Item = (Option<&Expr>, &Block)> {
    block.stmts.iter().flat_map(inner).chain(block.tail.iter().flat_map(|tail| branches(tail)))
}

/// Visits all statements of a block and of the blocks in it.
pub fn stmts<'a>(block: &'a Block, visit: &mut dyn FnMut(&'a Stmt)) {
    block.stmts.iter().for_each(&mut *visit);
    all_inner(block).for_each(|(_, inner)| stmts(inner, visit));
}
