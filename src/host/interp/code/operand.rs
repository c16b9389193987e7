//! Operands of tree nodes. Operands that are scalars or contain statements are outlined: they get their own code, and
//! computed locals replace them in the tree.

use clk_check::typed::{Access, ArrayInit, Block, DeclaredType, Expr, ExprKind, FnRef, LaunchExpr, Param};
use clk_check::visit::{VisitMut, walk_mut};
use clk_scalar::builtin::Builtin;

use super::build::CodeBuilder;

impl CodeBuilder<'_> {
    /// Returns the expression for an operand in its tree node: a computed local if the operand is outlined.
    pub fn operand(&mut self, expr: &Expr) -> Expr {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Local(_) | ExprKind::Global(_) => {
                expr.clone()
            }
            ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => expr.clone(),
            ExprKind::If { .. } | ExprKind::Block(_) => self.outline_operand(expr),
            _ if self.is_native(expr) => self.outline_operand(expr),
            _ => self.shaped(expr),
        }
    }

    /// Returns the expression with its operands outlined.
    pub fn shaped(&mut self, expr: &Expr) -> Expr {
        let mut shaped = expr.clone();
        match &mut shaped.kind {
            ExprKind::Call { callee, args } => {
                let params = match callee {
                    FnRef::Fn { id, .. } => &self.program.fns[*id].sig.params[..],
                    FnRef::Param(_) | FnRef::Builtin(_) => &[],
                };
                for (i, arg) in args.iter_mut().enumerate() {
                    *arg = self.argument(arg, params.get(i));
                }
                self.visit_fn_ref(callee);
            }
            ExprKind::Derive(derive) => {
                derive.of = self.shaped(&derive.of);
                derive.seed.iter_mut().for_each(|seed| *seed = self.operand(seed));
            }
            // The function and its VJP rule run in a separate frame, so only the arguments are operands here.
            ExprKind::CustomVjp(stated) => stated.args.iter_mut().for_each(|arg| *arg = self.operand(arg)),
            ExprKind::Launch(launch) => self.launch(launch),
            // A failed assertion shows both sides of its condition, so a comparison stays in the tree.
            ExprKind::Builtin { builtin: Builtin::Assert, args, .. } => {
                for (i, arg) in args.iter_mut().enumerate() {
                    let keeps_kind = i == 0
                        && match &arg.kind {
                            ExprKind::Binary { op, .. } => op.is_comparison(),
                            ExprKind::Builtin { builtin, .. } => matches!(builtin, Builtin::Close | Builtin::All),
                            _ => false,
                        };
                    *arg = if keeps_kind { self.shaped(arg) } else { self.operand(arg) };
                }
            }
            ExprKind::Time(block) => {
                let body = self.outline_block(block);
                *block = Block { stmts: Vec::new(), tail: Some(Box::new(body)), span: block.span };
            }
            ExprKind::If { .. } | ExprKind::Block(_) => return self.outline_operand(expr),
            _ => walk_mut::walk_expr(self, &mut shaped),
        }
        shaped
    }

    fn launch(&mut self, launch: &mut LaunchExpr) {
        let params = &self.program.kernels[launch.kernel].sig.params;
        for (i, arg) in launch.args.iter_mut().enumerate() {
            if let Some(arg) = arg {
                *arg = self.argument(arg, params.get(i));
            }
        }
        launch.generics.iter_mut().for_each(|generic| self.visit_generic_arg(generic));
        launch.dims.iter_mut().for_each(|(_, extent)| self.visit_expr(extent));
        [&mut launch.grid, &mut launch.block].into_iter().flatten().for_each(|size| self.visit_expr(size));
    }

    /// Returns the expression for an argument in its tree node. Arguments passed by reference stay lvalues.
    fn argument(&mut self, arg: &Expr, param: Option<&Param>) -> Expr {
        match param {
            Some(param) if param.access != Access::In => self.place(arg),
            _ => self.operand(arg),
        }
    }

    /// Returns an lvalue with its indices outlined.
    pub fn place(&mut self, place: &Expr) -> Expr {
        let mut shaped = place.clone();
        match &mut shaped.kind {
            ExprKind::Index { base, indices } => {
                **base = self.place(base);
                indices.iter_mut().for_each(|index| self.visit_expr(index));
            }
            ExprKind::Slice { base, indices } => {
                **base = self.place(base);
                indices.iter_mut().for_each(|index| self.visit_slice_index(index));
            }
            ExprKind::Field { base, .. }
            | ExprKind::TupleField { base, .. }
            | ExprKind::DynField { base, .. }
            | ExprKind::Swizzle { base, .. } => **base = self.place(base),
            _ => {}
        }
        shaped
    }

    /// Returns a declared type with its extents outlined.
    pub fn declared(&mut self, declared: &DeclaredType) -> DeclaredType {
        let mut shaped = declared.clone();
        self.visit_declared_type(&mut shaped);
        shaped
    }

    /// Returns an initial value with its operands outlined.
    pub fn initializer(&mut self, init: &ArrayInit) -> ArrayInit {
        let mut shaped = init.clone();
        self.visit_array_init(&mut shaped);
        shaped
    }
}

/// Replaces the operands of an expression, not those inside of them.
impl VisitMut for CodeBuilder<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        *expr = self.operand(expr);
    }
}
