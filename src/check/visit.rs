//! Visitors of the typed tree. [`Visit`] and [`VisitMut`] have one method per kind of node. By default, it calls the
//! `walk_*` function of that kind, which visits the children in a fixed order. A visitor overrides the methods of the
//! nodes that it handles, and calls the `walk_*` function to visit their children. [`exprs`], [`blocks`] and [`stmts`]
//! call a closure for each node.

use std::sync::Arc;

use crate::typed::*;

/// Defines a visitor trait and its `walk_*` functions. The matches in them list all variants, so that a new variant
/// must be added here.
macro_rules! visitor {
    ($(#[$doc:meta])* $Visit:ident<$($life:lifetime)?>, [$($mut:ident)?], |$vjp:ident| $rule:expr) => {
        $(#[$doc])*
        pub trait $Visit$(<$life>)?: Sized {
            fn visit_block(&mut self, block: &$($life)? $($mut)? Block) {
                walk_block(self, block);
            }

            fn visit_stmt(&mut self, stmt: &$($life)? $($mut)? Stmt) {
                walk_stmt(self, stmt);
            }

            fn visit_declared_type(&mut self, declared: &$($life)? $($mut)? DeclaredType) {
                walk_declared_type(self, declared);
            }

            fn visit_array_init(&mut self, init: &$($life)? $($mut)? ArrayInit) {
                walk_array_init(self, init);
            }

            fn visit_expr(&mut self, expr: &$($life)? $($mut)? Expr) {
                walk_expr(self, expr);
            }

            fn visit_str_part(&mut self, part: &$($life)? $($mut)? StrPart) {
                walk_str_part(self, part);
            }

            fn visit_slice_index(&mut self, index: &$($life)? $($mut)? SliceIndex) {
                walk_slice_index(self, index);
            }

            /// Visits a function and its custom derivative.
            fn visit_rule(&mut self, rule: &$($life)? $($mut)? Rule) {
                walk_rule(self, rule);
            }

            fn visit_launch(&mut self, launch: &$($life)? $($mut)? LaunchExpr) {
                walk_launch(self, launch);
            }

            fn visit_fn_ref(&mut self, callee: &$($life)? $($mut)? FnRef) {
                walk_fn_ref(self, callee);
            }

            fn visit_generic_arg(&mut self, arg: &$($life)? $($mut)? GenericArg) {
                walk_generic_arg(self, arg);
            }

            /// Visits the type of an expression, a declared type or a type argument. The types inside of it are not
            /// visited.
            fn visit_type(&mut self, _: &$($life)? $($mut)? Type) {}
        }

        /// Visits the children of a block.
        pub fn walk_block<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, block: &$($life)? $($mut)? Block) {
            for stmt in &$($mut)? block.stmts {
                v.visit_stmt(stmt);
            }
            if let Some(tail) = &$($mut)? block.tail {
                v.visit_expr(tail);
            }
        }

        /// Visits the children of a statement.
        pub fn walk_stmt<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, stmt: &$($life)? $($mut)? Stmt) {
            match &$($mut)? stmt.kind {
                StmtKind::Let { pattern: _, value, declared } => {
                    if let Some(value) = value {
                        v.visit_expr(value);
                    }
                    if let Some(declared) = declared {
                        v.visit_declared_type(declared);
                    }
                }
                StmtKind::LocalArray { local: _, extents, init } => {
                    for extent in extents {
                        v.visit_expr(extent);
                    }
                    v.visit_array_init(init);
                }
                StmtKind::Shared { local: _, extents } => {
                    for extent in extents {
                        v.visit_expr(extent);
                    }
                }
                StmtKind::Assign { place, op: _, value } => {
                    v.visit_expr(place);
                    v.visit_expr(value);
                }
                StmtKind::Expr { expr, quiet: _ } => v.visit_expr(expr),
                StmtKind::For { var: _, iter: before, body, unroll: _ }
                | StmtKind::While { cond: before, body, unroll: _ } => {
                    v.visit_expr(before);
                    v.visit_block(body);
                }
                StmtKind::Loop { body } | StmtKind::Batch { body } => v.visit_block(body),
                StmtKind::Break | StmtKind::Continue => {}
                StmtKind::Return(value) => {
                    if let Some(value) = value {
                        v.visit_expr(value);
                    }
                }
                StmtKind::On { device: OnDevice::Sim(number) | OnDevice::Gpu(number), body } => {
                    if let Some(number) = number {
                        v.visit_expr(number);
                    }
                    v.visit_block(body);
                }
            }
        }

        /// Visits the children of a declared type.
        pub fn walk_declared_type<$($life,)? V: $Visit$(<$life>)?>(
            v: &mut V,
            declared: &$($life)? $($mut)? DeclaredType,
        ) {
            v.visit_type(&$($mut)? declared.ty);
            for extent in &$($mut)? declared.extents {
                match extent {
                    DeclaredExtent::Is(expr) => v.visit_expr(expr),
                    DeclaredExtent::Named(_) => {}
                }
            }
        }

        /// Visits the children of the initial value of an array.
        pub fn walk_array_init<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, init: &$($life)? $($mut)? ArrayInit) {
            match init {
                ArrayInit::None => {}
                ArrayInit::Fill(value) | ArrayInit::Copy(value) => v.visit_expr(value),
                ArrayInit::Elements(elements) => {
                    for element in elements {
                        v.visit_expr(element);
                    }
                }
            }
        }

        /// Visits the type and the children of an expression.
        // Inlining halves the number of stack frames for a deeply nested expression.
        #[inline(always)]
        pub fn walk_expr<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, expr: &$($life)? $($mut)? Expr) {
            v.visit_type(&$($mut)? expr.ty);
            match &$($mut)? expr.kind {
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
                ExprKind::Str(parts) => {
                    for part in parts {
                        v.visit_str_part(part);
                    }
                }
                ExprKind::Unary { op: _, expr: operand }
                | ExprKind::Convert { to: _, expr: operand }
                | ExprKind::ConvertParam { to: _, expr: operand }
                | ExprKind::Bitcast { expr: operand }
                | ExprKind::Swizzle { base: operand, lanes: _ }
                | ExprKind::Field { base: operand, field: _ }
                | ExprKind::TupleField { base: operand, field: _ }
                | ExprKind::DynField { base: operand, name: _ } => v.visit_expr(operand),
                ExprKind::Binary { op: _, left, right } => {
                    v.visit_expr(left);
                    v.visit_expr(right);
                }
                ExprKind::Vector { parts }
                | ExprKind::Tuple(parts)
                | ExprKind::Array(parts)
                | ExprKind::Struct { id: _, fields: parts } => {
                    for part in parts {
                        v.visit_expr(part);
                    }
                }
                ExprKind::Index { base, indices } => {
                    v.visit_expr(base);
                    for index in indices {
                        v.visit_expr(index);
                    }
                }
                ExprKind::Slice { base, indices } => {
                    v.visit_expr(base);
                    for index in indices {
                        v.visit_slice_index(index);
                    }
                }
                ExprKind::Call { callee, args } | ExprKind::Lift { callee, args } => {
                    v.visit_fn_ref(callee);
                    for arg in args {
                        v.visit_expr(arg);
                    }
                }
                ExprKind::Builtin { builtin: _, args, named } => {
                    for arg in args {
                        v.visit_expr(arg);
                    }
                    for (_, arg) in named {
                        v.visit_expr(arg);
                    }
                }
                ExprKind::Derive(derive) => {
                    let Derive { kind: _, of, wrt: _, seed } = &$($mut)? **derive;
                    v.visit_expr(of);
                    if let Some(seed) = seed {
                        v.visit_expr(seed);
                    }
                }
                ExprKind::CustomVjp($vjp) => {
                    for arg in &$($mut)? $vjp.args {
                        v.visit_expr(arg);
                    }
                    v.visit_rule($rule);
                }
                ExprKind::Launch(launch) => v.visit_launch(launch),
                ExprKind::Range { start, end, inclusive: _, step } => {
                    for bound in [start, end, step].into_iter().flatten() {
                        v.visit_expr(bound);
                    }
                }
                ExprKind::If { cond, then, other } => {
                    v.visit_expr(cond);
                    v.visit_block(then);
                    if let Some(other) = other {
                        v.visit_block(other);
                    }
                }
                ExprKind::Block(block) | ExprKind::Time(block) => v.visit_block(block),
            }
        }

        /// Visits the children of a part of a text.
        pub fn walk_str_part<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, part: &$($life)? $($mut)? StrPart) {
            match part {
                StrPart::Text(_) => {}
                StrPart::Value { expr, format: _ } => v.visit_expr(expr),
            }
        }

        /// Visits the children of an index of a slice.
        pub fn walk_slice_index<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, index: &$($life)? $($mut)? SliceIndex) {
            match index {
                SliceIndex::At(expr) | SliceIndex::Of(expr) => v.visit_expr(expr),
                SliceIndex::Range { start, end, inclusive: _, step } => {
                    for bound in [start, end, step].into_iter().flatten() {
                        v.visit_expr(bound);
                    }
                }
            }
        }

        /// Visits the children of a custom derivative.
        pub fn walk_rule<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, rule: &$($life)? $($mut)? Rule) {
            let Rule { params: _, of, cotangent: _, back, active: _ } = rule;
            v.visit_expr(of);
            v.visit_expr(back);
        }

        /// Visits the children of a launch.
        pub fn walk_launch<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, launch: &$($life)? $($mut)? LaunchExpr) {
            let LaunchExpr { kernel: _, generics, args, dims, grid, block, left_off: _ } = launch;
            for generic in generics {
                v.visit_generic_arg(generic);
            }
            for arg in args.into_iter().flatten() {
                v.visit_expr(arg);
            }
            for (_, dim) in dims {
                v.visit_expr(dim);
            }
            for size in [grid, block].into_iter().flatten() {
                v.visit_expr(size);
            }
        }

        /// Visits the children of a callee.
        pub fn walk_fn_ref<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, callee: &$($life)? $($mut)? FnRef) {
            match callee {
                FnRef::Fn { id: _, generics } => {
                    for generic in generics {
                        v.visit_generic_arg(generic);
                    }
                }
                FnRef::Param(_) | FnRef::Builtin(_) => {}
            }
        }

        /// Visits the children of a compile-time argument.
        pub fn walk_generic_arg<$($life,)? V: $Visit$(<$life>)?>(v: &mut V, arg: &$($life)? $($mut)? GenericArg) {
            match arg {
                GenericArg::Type(ty) => v.visit_type(ty),
                GenericArg::Const(expr) => v.visit_expr(expr),
                GenericArg::Fn(callee) => v.visit_fn_ref(callee),
                GenericArg::Error | GenericArg::Infer => {}
            }
        }
    };
}

visitor! {
    /// A visitor of the typed tree.
    Visit<'a>, [], |vjp| &vjp.rule
}

/// The `walk_*` functions of [`VisitMut`].
pub mod walk_mut {
    use super::*;

    visitor! {
        /// A visitor of the typed tree that may change it.
        VisitMut<>, [mut], |vjp| Arc::make_mut(&mut vjp.rule)
    }
}

pub use walk_mut::VisitMut;

struct ExprVisitor<'v>(&'v mut dyn FnMut(&Expr));

impl Visit<'_> for ExprVisitor<'_> {
    fn visit_expr(&mut self, e: &Expr) {
        (self.0)(e);
        walk_expr(self, e);
    }
}

/// Visits every expression of a block, in pre-order.
pub fn exprs(block: &Block, visit: &mut dyn FnMut(&Expr)) {
    ExprVisitor(visit).visit_block(block);
}

/// Visits every expression of a statement, in pre-order.
pub fn stmt_exprs(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    ExprVisitor(visit).visit_stmt(stmt);
}

/// Visits an expression and every expression in it, in pre-order.
pub fn expr(e: &Expr, visit: &mut dyn FnMut(&Expr)) {
    ExprVisitor(visit).visit_expr(e);
}

struct BlockVisitor<'v, 'a>(&'v mut dyn FnMut(&'a Block));

impl<'a> Visit<'a> for BlockVisitor<'_, 'a> {
    fn visit_block(&mut self, block: &'a Block) {
        (self.0)(block);
        walk_block(self, block);
    }
}

/// Visits a block and every block in it, also those in expressions.
pub fn blocks<'a>(block: &'a Block, visit: &mut dyn FnMut(&'a Block)) {
    BlockVisitor(visit).visit_block(block);
}

/// Returns the base of an access: `x` for `x[i]`, `x[a..b]`, `x.field` or `x.yz`.
pub fn base(e: &Expr) -> Option<&Expr> {
    match &e.kind {
        ExprKind::Index { base, .. }
        | ExprKind::Slice { base, .. }
        | ExprKind::Field { base, .. }
        | ExprKind::TupleField { base, .. }
        | ExprKind::DynField { base, .. }
        | ExprKind::Swizzle { base, .. } => Some(base),
        _ => None,
    }
}

/// Returns the root expression of an access path.
pub fn root(e: &Expr) -> &Expr {
    let mut e = e;
    while let Some(inner) = base(e) {
        e = inner;
    }
    e
}

/// Returns the blocks of a statement, each with the condition or range that determines whether or how often it is
/// executed.
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

/// Like [`inner`], for an expression that is a block or an `if`.
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

/// Visits all statements of a block and of the blocks directly in it ([`all_inner`]), but not those of blocks inside
/// other expressions.
pub fn stmts<'a>(block: &'a Block, visit: &mut dyn FnMut(&'a Stmt)) {
    block.stmts.iter().for_each(&mut *visit);
    all_inner(block).for_each(|(_, inner)| stmts(inner, visit));
}
