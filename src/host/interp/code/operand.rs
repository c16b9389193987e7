//! Operands of nodes: the parts of an expression that have code of their own are made computed locals.

use crate::check::typed::{
    Access, ArrayInit, Block, Declared, Expr, ExprKind, Extent, FnRef, GenericArg, Launch, Param, SliceIndex, StrPart,
};
use crate::lang::builtin::Builtin;

use super::build::Builder;

impl Builder<'_> {
    /// Returns an expression to be evaluated as a part of a node.
    pub fn operand(&mut self, expr: &Expr) -> Expr {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Local(_) | ExprKind::Global(_) => {
                expr.clone()
            }
            ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => expr.clone(),
            ExprKind::If { .. } | ExprKind::Block(_) => self.computed(expr),
            _ if self.is_native(expr) => self.computed(expr),
            _ => self.shaped(expr),
        }
    }

    /// Returns an expression of the same kind, with its operands replaced.
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
                self.callee(callee);
            }
            ExprKind::Derive(derive) => {
                derive.of = self.shaped(&derive.of);
                derive.seed.iter_mut().for_each(|seed| *seed = self.operand(seed));
            }
            // What is called has a frame of its own.
            ExprKind::Stated(stated) => stated.args.iter_mut().for_each(|arg| *arg = self.operand(arg)),
            ExprKind::Launch(launch) => self.launch(launch),
            // A failed assertion shows the sides of its condition.
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
                let body = self.computed_block(block);
                *block = Block { stmts: Vec::new(), tail: Some(Box::new(body)), span: block.span };
            }
            ExprKind::If { .. } | ExprKind::Block(_) => return self.computed(expr),
            kind => self.parts(kind),
        }
        shaped
    }

    /// Replaces the operands of expressions that evaluate all of them as values.
    fn parts(&mut self, kind: &mut ExprKind) {
        match kind {
            ExprKind::Unary { expr: inner, .. }
            | ExprKind::Convert { expr: inner, .. }
            | ExprKind::ConvertParam { expr: inner, .. }
            | ExprKind::Bitcast { expr: inner }
            | ExprKind::Swizzle { base: inner, .. }
            | ExprKind::Field { base: inner, .. }
            | ExprKind::TupleField { base: inner, .. }
            | ExprKind::DynField { base: inner, .. } => self.replace(inner),
            ExprKind::Binary { left, right, .. } => {
                self.replace(left);
                self.replace(right);
            }
            ExprKind::Vector { parts: items }
            | ExprKind::Tuple(items)
            | ExprKind::Array(items)
            | ExprKind::Struct { fields: items, .. } => items.iter_mut().for_each(|item| self.replace(item)),
            ExprKind::Lift { callee, args } => {
                args.iter_mut().for_each(|arg| self.replace(arg));
                self.callee(callee);
            }
            ExprKind::Builtin { args, named, .. } => {
                args.iter_mut().for_each(|arg| self.replace(arg));
                named.iter_mut().for_each(|(_, arg)| self.replace(arg));
            }
            ExprKind::Str(parts) => {
                for part in parts {
                    if let StrPart::Value { expr, .. } = part {
                        self.replace(expr);
                    }
                }
            }
            ExprKind::Index { base, indices } => {
                self.replace(base);
                indices.iter_mut().for_each(|index| self.replace(index));
            }
            ExprKind::Slice { base, indices } => {
                self.replace(base);
                indices.iter_mut().for_each(|index| self.slice_index(index));
            }
            ExprKind::Range { start, end, step, .. } => {
                [start, end, step].into_iter().flatten().for_each(|bound| self.replace(bound));
            }
            _ => {}
        }
    }

    fn replace(&mut self, expr: &mut Expr) {
        *expr = self.operand(expr);
    }

    fn slice_index(&mut self, index: &mut SliceIndex) {
        match index {
            SliceIndex::At(expr) | SliceIndex::Of(expr) => self.replace(expr),
            SliceIndex::Range { start, end, step, .. } => {
                [start, end, step].into_iter().flatten().for_each(|bound| self.replace(bound));
            }
        }
    }

    fn callee(&mut self, callee: &mut FnRef) {
        if let FnRef::Fn { generics, .. } = callee {
            generics.iter_mut().for_each(|generic| self.generic(generic));
        }
    }

    fn generic(&mut self, generic: &mut GenericArg) {
        match generic {
            GenericArg::Const(expr) => self.replace(expr),
            GenericArg::Fn(callee) => self.callee(callee),
            GenericArg::Type(_) | GenericArg::Error | GenericArg::Infer => {}
        }
    }

    fn launch(&mut self, launch: &mut Launch) {
        let params = &self.program.kernels[launch.kernel].sig.params;
        for (i, arg) in launch.args.iter_mut().enumerate() {
            if let Some(arg) = arg {
                *arg = self.argument(arg, params.get(i));
            }
        }
        launch.generics.iter_mut().for_each(|generic| self.generic(generic));
        launch.dims.iter_mut().for_each(|(_, extent)| self.replace(extent));
        [&mut launch.grid, &mut launch.block].into_iter().flatten().for_each(|size| self.replace(size));
    }

    /// Returns an argument: one passed by reference stays a place.
    fn argument(&mut self, arg: &Expr, param: Option<&Param>) -> Expr {
        match param {
            Some(param) if param.access != Access::In => self.place(arg),
            _ => self.operand(arg),
        }
    }

    /// Returns an access path with its indices replaced.
    pub fn place(&mut self, place: &Expr) -> Expr {
        let mut shaped = place.clone();
        match &mut shaped.kind {
            ExprKind::Index { base, indices } => {
                **base = self.place(base);
                indices.iter_mut().for_each(|index| self.replace(index));
            }
            ExprKind::Slice { base, indices } => {
                **base = self.place(base);
                indices.iter_mut().for_each(|index| self.slice_index(index));
            }
            ExprKind::Field { base, .. }
            | ExprKind::TupleField { base, .. }
            | ExprKind::DynField { base, .. }
            | ExprKind::Swizzle { base, .. } => **base = self.place(base),
            _ => {}
        }
        shaped
    }

    pub fn declared(&mut self, declared: &Declared) -> Declared {
        let mut shaped = declared.clone();
        for extent in &mut shaped.extents {
            if let Extent::Is(expr) = extent {
                self.replace(expr);
            }
        }
        shaped
    }

    pub fn initializer(&mut self, init: &ArrayInit) -> ArrayInit {
        match init {
            ArrayInit::None => ArrayInit::None,
            ArrayInit::Fill(value) => ArrayInit::Fill(self.operand(value)),
            ArrayInit::Copy(value) => ArrayInit::Copy(self.operand(value)),
            ArrayInit::Elements(items) => ArrayInit::Elements(items.iter().map(|item| self.operand(item)).collect()),
        }
    }
}
