//! Statements, blocks and patterns.

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::cx::{Cx, Fork, Home, Info, Parting, Slot};
use crate::check::eval;
use crate::check::expr::MAX_DEPTH;
use crate::check::generics::is_constant;
use crate::check::infer::{Kind, array};
use crate::check::lints;
use crate::check::make::{I32, bare, make};
use crate::check::typed::*;
use crate::check::types::Dims;
use crate::lang::builtin::Builtin;
use crate::lang::ops::BinaryOp;
use crate::syntax::ast::{self, ExprKind as Ast, StmtKind as AstStmt};

/// A variable declaration being checked.
struct Declaration<'e> {
    mutable: bool,
    pattern: &'e ast::Pattern,
    ty: Option<&'e ast::Type>,
    value: Option<&'e ast::Expr>,
    span: Span,
}

impl Declaration<'_> {
    /// Returns the span of the keyword `let` or `var`.
    fn word(&self) -> Span {
        Span { end: self.span.start + 3, ..self.span }
    }

    /// Returns the value if it is an integer in decimal digits, of which the context says the type.
    fn whole(&self) -> Option<Span> {
        let value = bare(self.value?);
        let Ast::Int { value: number, suffix: None } = &value.kind else { return None };
        let is_decimal = number.to_string().len() == (value.span.end - value.span.start) as usize;
        (self.ty.is_none() && is_decimal).then_some(value.span)
    }

    fn name(&self) -> Option<&ast::Name> {
        match self.pattern {
            ast::Pattern::Name(n) => Some(n),
            ast::Pattern::Tuple(..) => None,
        }
    }
}

impl Cx<'_> {
    /// Checks a block in a scope of its own. Without `value`, its last expression is an ordinary statement.
    pub fn block(&mut self, b: &ast::Block, value: bool, want: Option<&Type>) -> (Block, Type) {
        self.open();
        let checked = self.block_here(b, value, want);
        self.close();
        checked
    }

    fn block_here(&mut self, b: &ast::Block, value: bool, want: Option<&Type>) -> (Block, Type) {
        let mut stmts = Vec::with_capacity(b.stmts.len());
        let mut ends: Option<Span> = None;
        let mut warned = false;
        for s in &b.stmts {
            if let (Some(end), false) = (ends, warned) {
                self.unreachable(s.span, end);
                warned = true;
            }
            if self.stmt(s, &mut stmts) == Type::Never {
                ends = ends.or(Some(s.span));
            }
        }
        let mut ty = Type::Unit;
        let mut tail = None;
        if let Some(e) = &b.tail {
            if let (Some(end), false) = (ends, warned) {
                self.unreachable(e.span, end);
            }
            if value {
                let e = self.expr(e, want);
                ty = e.ty.clone();
                tail = Some(Box::new(e));
            } else if self.expr_stmt(e, true, &mut stmts) == Type::Never {
                ty = Type::Never;
            }
        }
        if ends.is_some() {
            ty = Type::Never;
        }
        (Block { stmts, tail, span: b.span }, ty)
    }

    fn unreachable(&mut self, span: Span, end: Span) {
        let d = Diagnostic::warning("W0006", "this is never reached")
            .at(span, "nothing gets here")
            .because(end, "everything ends or jumps away here");
        self.report(d);
    }

    /// Checks a statement and appends it to `out`. Returns `Never` if the statements after it are unreachable.
    pub fn stmt(&mut self, s: &ast::Stmt, out: &mut Vec<Stmt>) -> Type {
        self.depth += 1;
        let begin = self.vars.statement();
        let ty = if self.depth > MAX_DEPTH { self.too_deep(s.span).ty } else { self.stmt_inner(s, out) };
        self.vars.end_statement(begin);
        self.depth -= 1;
        ty
    }

    fn stmt_inner(&mut self, s: &ast::Stmt, out: &mut Vec<Stmt>) -> Type {
        let kind = match &s.kind {
            AstStmt::Let { mutable, pattern, ty, value } => {
                let d =
                    Declaration { mutable: *mutable, pattern, ty: ty.as_deref(), value: value.as_ref(), span: s.span };
                match self.declaration(&d) {
                    Some(kind) => kind,
                    None => return Type::Unit,
                }
            }
            AstStmt::Shared { name, ty } => match self.shared(name, ty, s.span) {
                Some(kind) => kind,
                None => return Type::Unit,
            },
            AstStmt::Assign { place, op, value } => self.assign(place, *op, value),
            AstStmt::Expr { expr, quiet } => return self.expr_stmt(expr, *quiet, out),
            AstStmt::For { var, iter, body, unroll } => self.for_loop(var, iter, body, *unroll),
            AstStmt::While { cond, body, unroll } => {
                let cond = self.condition(cond, Fork::While);
                let (body, _) = self.loop_body(body);
                self.end_condition();
                StmtKind::While { cond, body: Box::new(body), unroll: *unroll }
            }
            AstStmt::Loop { body } => {
                let (body, broke) = self.loop_body(body);
                out.push(Stmt { kind: StmtKind::Loop { body }, span: s.span });
                return if broke { Type::Unit } else { Type::Never };
            }
            AstStmt::Break | AstStmt::Continue => {
                let is_break = matches!(s.kind, AstStmt::Break);
                if self.loops == 0 {
                    let word = if is_break { "break" } else { "continue" };
                    let d = Diagnostic::error("E0322", format!("`{word}` outside of a loop"))
                        .at(s.span, "no loop is around this");
                    self.report(d);
                }
                self.broke |= is_break;
                let kind = if is_break { StmtKind::Break } else { StmtKind::Continue };
                out.push(Stmt { kind, span: s.span });
                return Type::Never;
            }
            AstStmt::Return(value) => {
                let value = self.return_value(value.as_ref(), s.span);
                if self.divergent.iter().any(Option::is_some) {
                    self.divergent_return.get_or_insert(s.span);
                }
                out.push(Stmt { kind: StmtKind::Return(value), span: s.span });
                return Type::Never;
            }
            AstStmt::On { device, body } => {
                self.need_host(s.span, "`on`");
                let device = self.on_device(device);
                let (body, _) = self.block(body, false, None);
                StmtKind::On { device, body }
            }
            AstStmt::Batch { body } => {
                self.need_host(s.span, "`batch`");
                let (body, _) = self.block(body, false, None);
                StmtKind::Batch { body }
            }
            AstStmt::Error => return Type::Unit,
        };
        out.push(Stmt { kind, span: s.span });
        Type::Unit
    }

    /// Checks an expression statement. Its value is unused, except as the last of a session's entry, which shows it.
    fn expr_stmt(&mut self, e: &ast::Expr, quiet: bool, out: &mut Vec<Stmt>) -> Type {
        let shown = self.home == Home::Script && self.outermost();
        let checked = match &bare(e).kind {
            Ast::If { cond, then, other } if !(shown && gives_value(then, other.as_deref())) => {
                self.if_statement(cond, then, other.as_deref(), e.span)
            }
            Ast::Block(b) => {
                let (block, ty) = self.block(b, shown, None);
                make(ExprKind::Block(block), ty, e.span)
            }
            _ => {
                let checked = self.expr(e, None);
                if self.measured == 0 && lints::only_gives(&checked) {
                    self.unused_result(&checked, shown);
                }
                checked
            }
        };
        let ty = if checked.ty == Type::Never { Type::Never } else { Type::Unit };
        let span = checked.span;
        out.push(Stmt { kind: StmtKind::Expr { expr: checked, quiet }, span });
        ty
    }

    /// Checks a block that is executed to be timed, so unused values in it are not reported.
    pub fn measured(&mut self, b: &ast::Block) -> Block {
        self.measured += 1;
        let (block, _) = self.block(b, false, None);
        self.measured -= 1;
        block
    }

    fn unused_result(&mut self, e: &Expr, top: bool) {
        let mut d = Diagnostic::warning("W0005", "this value is not used").at(e.span, "computed and thrown away");
        d = match &e.kind {
            ExprKind::Binary { op: BinaryOp::Eq, .. } => d.help("`==` compares; `=` assigns"),
            _ if top => d.help("`print(…)` shows it; a session shows the last value of an entry by itself"),
            _ => d.help("give it a name with `let`, or take it out"),
        };
        self.report(d);
    }

    // Declarations

    fn declaration(&mut self, d: &Declaration<'_>) -> Option<StmtKind> {
        let in_device = !self.in_host();
        let (mut extents, mut open) = (Vec::new(), Vec::new());
        let ty = d.ty.map(|t| {
            let mut dims = if in_device { Dims::Extents(&mut extents) } else { Dims::Free(&mut open) };
            self.ty(t, &mut dims)
        });
        let literal = d.value.is_some_and(|v| matches!(bare(v).kind, Ast::Array(_)));
        match (&ty, d.value) {
            (Some(Type::Array(_)), value) if in_device && value.is_none_or(|v| literal || self.is_fill(v)) => {
                return self.local_array(d, ty.unwrap_or_default(), extents);
            }
            (None, Some(value)) if in_device && literal => return self.literal_array(d, value),
            (None, None) => {
                let m = Diagnostic::error("E0324", "this variable needs a type or a value")
                    .at(d.span, "neither is given")
                    .help("write `var x = 0.0`, or `var x: f32`");
                self.report(m);
                self.bind_pattern(d, d.pattern, &Type::Error);
                return None;
            }
            _ => {}
        }
        let before = self.varying_reads;
        let value = match d.value {
            Some(v) => Some(match &ty {
                Some(ty) => self.declared_value(v, ty),
                None => self.expr(v, None),
            }),
            None => {
                if !d.mutable || matches!(ty, Some(Type::Array(_))) {
                    let m = Diagnostic::error("E0324", "this variable needs a value")
                        .at(d.span, "it would never have one")
                        .help(if d.mutable {
                            "write `= zeros(…)`"
                        } else {
                            "only a `var` may be given its value later"
                        });
                    self.report(m);
                }
                None
            }
        };
        let varying = self.varying_reads != before;
        if let (Some(ty @ Type::Array(_)), Some(value), Some(name)) = (&ty, &value, d.name())
            && self.home == Home::Fn
            && self.fills(value)
        {
            extents.iter().for_each(|e| self.constant_extent(e));
            let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
            self.keep_extents(local, &extents);
            return Some(StmtKind::LocalArray { local, extents, init: ArrayInit::Fill(value.clone()) });
        }
        if let (Some(ty @ Type::Array(_)), Some(value), Some(name)) = (&ty, &value, d.name())
            && matches!(self.vars.shallow(&value.ty), Type::Array(_))
            && self.is_device_array(ty)
        {
            self.check_storable(value, ty);
            let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
            self.keep_extents(local, &extents);
            return Some(StmtKind::LocalArray { local, extents, init: ArrayInit::Copy(value.clone()) });
        }
        let declared = d.ty.zip(ty.clone()).filter(|_| !self.in_kernel()).map(|(t, ty)| {
            let extents = if in_device { extents.into_iter().map(Extent::Is).collect() } else { open };
            Box::new(Declared { ty, extents, span: t.span })
        });
        let value_ty = value.as_ref().map(|v| v.ty.clone());
        let mut ty = ty.or(value_ty).unwrap_or_default();
        if let Some(value) = &value {
            self.check_storable(value, &ty);
        }
        if d.mutable && d.ty.is_none() && !self.is_device_array(&ty) {
            ty = self.open_dims(ty);
        }
        let known = value.as_ref().filter(|_| !d.mutable && d.name().is_some()).and_then(|v| eval::int(self, v));
        let pattern = self.bind_pattern(d, d.pattern, &ty);
        if let Some(value) = &value {
            self.parts_vary(&pattern, value, varying);
        }
        let info = match &pattern {
            Pattern::Local(id) => self.info.get_mut(id.index()),
            Pattern::Global(id) => self.global_info(*id),
            _ => None,
        };
        if let Some(info) = info {
            info.known = known;
            info.varying = varying;
        }
        Some(StmtKind::Let { pattern, value, declared })
    }

    /// Whether `= e` for an array declaration may be a fill value (`= 0.0`), not an array.
    fn is_fill(&self, e: &ast::Expr) -> bool {
        if !self.in_kernel() {
            return matches!(bare(e).kind, Ast::Int { .. } | Ast::Float { .. } | Ast::Bool(_) | Ast::Unary { .. });
        }
        true
    }

    /// Checks the initializer of a declaration that has a type.
    pub fn declared_value(&mut self, value: &ast::Expr, ty: &Type) -> Expr {
        let e = self.expr(value, Some(ty));
        if let (Type::Array(a), true) = (ty, self.in_host() || self.home == Home::Const)
            && self.fills(&e)
        {
            return self.filled_array(a.clone(), e);
        }
        let want = match ty {
            Type::Array(a) if self.home == Home::Fn && self.fills(&e) => a.element.clone(),
            _ => ty.clone(),
        };
        if e.ty != want {
            self.coerce_stated(&e, &want, None);
        }
        e
    }

    /// Whether the initializer of an array declaration is the value of each element.
    fn fills(&self, value: &Expr) -> bool {
        let ty = self.vars.shallow(&value.ty);
        matches!(ty, Type::Scalar(_) | Type::Param(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_))
    }

    /// Rewrites `var acc: [f32; 8] = 0.0` in a script to `full(8, 0.0)`.
    fn filled_array(&mut self, a: std::sync::Arc<ArrayType>, value: Expr) -> Expr {
        self.coerce(&value, &a.element, None);
        let span = value.span;
        let mut args = Vec::new();
        for dim in &a.dims {
            match dim {
                Dim::Known(n) => args.push(make(ExprKind::Int(i128::from(*n)), I32, span)),
                _ => {
                    let d = Diagnostic::error("E0324", "the shape of this array is open")
                        .at(span, "one value fills an array whose dimensions are numbers")
                        .help("write `full(n, value)`");
                    self.report(d);
                    return self.bad(span);
                }
            }
        }
        args.push(value);
        make(ExprKind::Builtin { builtin: Builtin::Full, args, named: vec![] }, Type::Array(a), span)
    }

    fn check_storable(&mut self, value: &Expr, ty: &Type) {
        match self.vars.shallow(ty) {
            Type::Unit | Type::Never => {
                let d = Diagnostic::error("E0301", "this gives no value to keep")
                    .at(value.span, "nothing comes back from here");
                self.report(d);
            }
            Type::Array(_) if self.is_device_array(ty) => self.note_read(value, value.span),
            Type::Array(_) if !self.in_host() => {
                let before = self.diagnostics.len();
                self.need_host(value.span, "a copy of an array whose extents are no constants");
                if let Some(d) = self.diagnostics.get_mut(before) {
                    d.help.push("a thread's own array has constant extents: `var a: [f32; 8] = 0.0`".into());
                }
            }
            _ => {}
        }
    }

    /// Whether an array can be a value on the device, which requires constant extents. In a function that already requires
    /// the host, arrays are never device values.
    pub fn is_device_array(&self, ty: &Type) -> bool {
        let Type::Array(array) = self.vars.shallow(ty) else { return false };
        let constant = |dim: &Dim| match dim {
            Dim::Known(_) | Dim::Local(_) => true,
            Dim::Expr(i) => self.sig.dim_exprs.get(*i as usize).is_some_and(|e| is_constant(e)),
            Dim::Name(_) | Dim::Unknown => false,
        };
        let here = self.in_kernel() || self.home == Home::Fn && self.needs.host.is_none();
        here && !array.dims.is_empty() && array.dims.iter().all(constant)
    }

    /// Replaces the extents of an array variable's type by unknown ones: assignments may change its shape.
    fn open_dims(&self, ty: Type) -> Type {
        match self.vars.shallow(&ty) {
            Type::Array(a) if self.in_host() || self.home == Home::Fn => {
                array(a.element.clone(), vec![Dim::Unknown; a.dims.len()])
            }
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.open_dims(p.clone())).collect()),
            _ => ty,
        }
    }

    fn local_array(&mut self, d: &Declaration<'_>, ty: Type, extents: Vec<Expr>) -> Option<StmtKind> {
        let Type::Array(a) = &ty else { return None };
        let Some(name) = d.name() else {
            self.bind_pattern(d, d.pattern, &Type::Error);
            return None;
        };
        for e in &extents {
            self.constant_extent(e);
        }
        let init = match d.value {
            None => ArrayInit::None,
            Some(value) => match &bare(value).kind {
                Ast::Array(_) => {
                    let e = self.expr(value, Some(&ty));
                    self.coerce(&e, &ty, None);
                    match e.kind {
                        ExprKind::Array(parts) => ArrayInit::Elements(parts),
                        _ => ArrayInit::None,
                    }
                }
                _ => {
                    let e = self.expr(value, Some(&a.element));
                    if matches!(self.vars.shallow(&e.ty), Type::Array(_)) {
                        self.coerce(&e, &ty, None);
                        self.check_storable(&e, &ty);
                        ArrayInit::Copy(e)
                    } else {
                        if e.ty != a.element {
                            self.coerce(&e, &a.element, None);
                        }
                        ArrayInit::Fill(e)
                    }
                }
            },
        };
        let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
        self.keep_extents(local, &extents);
        self.without_value(local, d);
        Some(StmtKind::LocalArray { local, extents, init })
    }

    /// Marks a variable as uninitialized if its declaration has no value.
    fn without_value(&mut self, local: LocalId, d: &Declaration<'_>) {
        if let (None, Some(info)) = (d.value, self.info.get_mut(local.index())) {
            info.unset = true;
        }
    }

    /// Records the extents of an array that are not plain numbers.
    fn keep_extents(&mut self, local: LocalId, extents: &[Expr]) {
        if extents.iter().any(|e| !matches!(e.kind, ExprKind::Int(_))) {
            self.extents.insert(local, extents.to_vec());
        }
    }

    fn constant_extent(&mut self, e: &Expr) {
        if !is_constant(e) {
            let d = Diagnostic::error("E0314", "the size of a local array has to be a constant")
                .at(e.span, "this is only known when the kernel runs")
                .help("use a `const`, or a const parameter of the kernel: `<const T: i32 = 16>`");
            self.report(d);
        }
    }

    /// Checks `let w = [0.25, 0.5, 0.25]` in device code, where it declares a local array.
    fn literal_array(&mut self, d: &Declaration<'_>, value: &ast::Expr) -> Option<StmtKind> {
        let e = self.expr(value, None);
        let Some(name) = d.name() else {
            self.bind_pattern(d, d.pattern, &e.ty.clone());
            return None;
        };
        let ty = e.ty.clone();
        let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
        let (Type::Array(a), ExprKind::Array(parts)) = (&ty, e.kind) else { return None };
        let extents = a.dims.iter().map(|dim| {
            let n = if let Dim::Known(n) = dim { *n } else { 0 };
            make(ExprKind::Int(i128::from(n)), I32, e.span)
        });
        Some(StmtKind::LocalArray { local, extents: extents.collect(), init: ArrayInit::Elements(parts) })
    }

    fn bind_pattern(&mut self, d: &Declaration<'_>, pattern: &ast::Pattern, ty: &Type) -> Pattern {
        match pattern {
            ast::Pattern::Name(name) if name.text == "_" => Pattern::Discard,
            ast::Pattern::Name(name) => {
                self.warn_hidden(name);
                if self.home == Home::Script && self.outermost() {
                    return Pattern::Global(self.declare_global(name, ty.clone(), d));
                }
                let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
                if let Some(info) = self.local_info(local) {
                    info.whole = d.whole();
                }
                self.without_value(local, d);
                Pattern::Local(local)
            }
            ast::Pattern::Tuple(parts, span) => {
                let types: Vec<Type> = match self.vars.shallow(ty) {
                    Type::Tuple(types) if types.len() == parts.len() => types.to_vec(),
                    Type::Unknown => vec![Type::Unknown; parts.len()],
                    Type::Error => vec![Type::Error; parts.len()],
                    other => {
                        let found = self.ty_text(&other);
                        let d = Diagnostic::error(
                            "E0320",
                            format!("`{found}` does not come apart into {} names", parts.len()),
                        )
                        .at(*span, "the number of names has to fit the value");
                        self.report(d);
                        vec![Type::Error; parts.len()]
                    }
                };
                Pattern::Tuple(parts.iter().zip(&types).map(|(p, t)| self.bind_pattern(d, p, t)).collect())
            }
        }
    }

    fn declare_global(&mut self, name: &ast::Name, ty: Type, d: &Declaration<'_>) -> GlobalId {
        let id = GlobalId::new(self.program.globals.len() + self.globals.len());
        self.globals.push(Global { name: name.text.clone(), ty, mutable: d.mutable, span: name.span });
        self.global_info.push(Info { word: Some(d.word()), whole: d.whole(), ..Info::default() });
        self.bind(name.text.clone(), Slot::Global(id));
        id
    }

    /// Warns about a variable that shadows a `var` of an outer block: usually a forgotten assignment.
    fn warn_hidden(&mut self, name: &ast::Name) {
        let Some(Slot::Local(id)) = self.names.get(name.text.as_str()).copied() else { return };
        if self.bound_here(&name.text) {
            return;
        }
        let Some(outer) = self.locals.get(id).filter(|l| l.mutable && l.kind == LocalKind::Var) else { return };
        let at = outer.span;
        let d = Diagnostic::warning("W0007", format!("this `{}` hides the variable of an outer block", name.text))
            .at(name.span, "a new variable, which ends with this block")
            .because(at, "this one keeps its value")
            .help(format!("to change the outer one, write `{} = …` without `let` or `var`", name.text));
        self.report(d);
    }

    fn shared(&mut self, name: &ast::Name, ty: &ast::Type, span: Span) -> Option<StmtKind> {
        match self.home {
            Home::Kernel { threads: false } => {}
            Home::Kernel { threads: true } => {
                self.need_device(span, "`shared`", true);
            }
            _ => {
                let d = Diagnostic::error("E0409", "`shared` memory belongs to a kernel")
                    .at(span, "there is no block here whose threads could share it")
                    .help("declare it in the kernel, and pass it to functions as an argument");
                self.report(d);
            }
        }
        let mut extents = Vec::new();
        let ty = self.ty(ty, &mut Dims::Extents(&mut extents));
        for e in &extents {
            self.uniform(e, "the size of a `shared` array", "E0409");
        }
        let ty = match ty {
            ty @ (Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) | Type::Param(_)) => {
                match self.is_element(&ty, span) {
                    Ok(()) => array(ty, vec![]),
                    Err(_) => Type::Error,
                }
            }
            other => other,
        };
        let local = self.declare(name, ty, true, LocalKind::Shared, None);
        self.keep_extents(local, &extents);
        Some(StmtKind::Shared { local, extents })
    }

    /// Reports an expression that is not uniform over the launch. Returns whether it is.
    pub fn uniform(&mut self, e: &Expr, what: &str, code: &'static str) -> bool {
        if self.is_uniform(e) {
            return true;
        }
        let d = Diagnostic::error(code, format!("{what} has to be the same for the whole launch"))
            .at(e.span, "only constants, dimensions and scalar parameters can stand here");
        let mut names_block = false;
        crate::check::walk::expr(e, &mut |e| names_block |= matches!(e.kind, ExprKind::Variable(Builtin::BlockDim)));
        self.report(match names_block {
            true => d.help("give the size of the block a name: `kernel k<const T: i32 = 32>(…) grid(…) block(T)`"),
            false => d.help("take the largest size that can be needed: a `const`, or a const parameter of the kernel"),
        });
        false
    }

    fn is_uniform(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Error => true,
            ExprKind::Local(id) => self.locals.get(*id).is_some_and(|l| matches!(l.kind, LocalKind::Param(_))),
            ExprKind::Unary { expr, .. } | ExprKind::Convert { expr, .. } => self.is_uniform(expr),
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                self.is_uniform(base)
            }
            ExprKind::Binary { left, right, .. } => self.is_uniform(left) && self.is_uniform(right),
            ExprKind::Builtin { builtin, args, .. } => {
                matches!(builtin, Builtin::Math(_) | Builtin::CeilDiv | Builtin::Select | Builtin::Len | Builtin::Shape)
                    && args.iter().all(|a| self.is_uniform(a))
            }
            _ => false,
        }
    }

    // Loops and jumps

    fn loop_body(&mut self, body: &ast::Block) -> (Block, bool) {
        if self.loops == 0 {
            self.loop_count += 1;
        }
        self.loops += 1;
        let outer = std::mem::replace(&mut self.broke, false);
        let (body, _) = self.block(body, false, None);
        let broke = std::mem::replace(&mut self.broke, outer);
        self.loops -= 1;
        (body, broke)
    }

    fn for_loop(&mut self, var: &ast::Name, iter: &ast::Expr, body: &ast::Block, unroll: ast::Unroll) -> StmtKind {
        let before = self.varying_reads;
        let begin = self.vars.statement();
        let (iter, ty) = self.iterated(iter);
        self.vars.end_statement(begin);
        let varying = self.varying_reads != before;
        self.open();
        let id = self.declare(var, ty, false, LocalKind::Loop, None);
        if let Some(info) = self.local_info(id) {
            info.varying = varying;
        }
        self.divergent.push(varying.then_some(Parting { at: iter.span, of: Fork::For }));
        let (body, _) = self.loop_body(body);
        self.divergent.pop();
        self.close();
        StmtKind::For { var: id, iter, body: Box::new(body), unroll }
    }

    fn iterated(&mut self, iter: &ast::Expr) -> (Expr, Type) {
        match &bare(iter).kind {
            Ast::Range { start, end, inclusive, step } => {
                if end.is_none() {
                    let d = Diagnostic::error("E0321", "this range has no end")
                        .at(iter.span, "the loop would not know where to stop");
                    self.report(d.help("write `0..n`, or use `loop` with a `break`"));
                }
                return self.range(start.as_deref(), end.as_deref(), *inclusive, step.as_deref(), iter.span);
            }
            Ast::Array(parts) => {
                let e = self.array_literal(parts, iter.span, None);
                let ty = match &e.ty {
                    Type::Array(a) if a.dims.len() == 1 => a.element.clone(),
                    Type::Strings => Type::Str,
                    Type::Unknown => Type::Unknown,
                    Type::Error => Type::Error,
                    _ => self.not_iterable(&e),
                };
                return (e, ty);
            }
            _ => {}
        }
        let e = self.expr(iter, None);
        let ty = match self.vars.shallow(&e.ty) {
            Type::Array(a) if a.dims.len() == 1 => a.element.clone(),
            Type::Range => I32,
            Type::Strings | Type::Str => Type::Str,
            Type::Unknown => Type::Unknown,
            Type::Error => Type::Error,
            _ => self.not_iterable(&e),
        };
        (e, ty)
    }

    fn not_iterable(&mut self, e: &Expr) -> Type {
        let found = self.ty_text(&e.ty);
        let mut d = Diagnostic::error("E0321", format!("a loop can't go through `{found}`"))
            .at(e.span, format!("this is `{found}`"));
        d = match self.vars.shallow(&e.ty) {
            ty if self.vars.scalar_kind(&ty) == Some(Kind::Int) || self.vars.kind(&ty).is_some() => d.fix(
                "loop over the numbers below it",
                Span { end: e.span.start, ..e.span },
                "0..",
                Applicability::MaybeIncorrect,
            ),
            Type::Array(_) => d.help("loop over its indices: `for i in 0..len(x) { … x[i, j] … }`"),
            _ => d.help("a loop goes through a range `a..b` or an array of one axis"),
        };
        self.report(d);
        Type::Error
    }

    fn return_value(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<Expr> {
        let Some(result) = self.result.clone() else {
            let e = value.map(|v| self.expr(v, None));
            let d = if self.in_kernel() {
                e.as_ref()?;
                Diagnostic::error("E0301", "a kernel gives its results through `out` arrays")
                    .at(span, "a kernel returns no value")
                    .help("declare a parameter `out r: [f32; N]`, and write `r[i] = …`")
            } else {
                Diagnostic::error("E0322", "`return` outside of a function").at(span, "there is nothing to return from")
            };
            self.report(d);
            return e;
        };
        match value {
            Some(v) => Some(self.expr_as(v, &result)),
            None => {
                if !matches!(result, Type::Unit | Type::Error) {
                    let text = self.ty_text(&result);
                    let d =
                        Diagnostic::error("E0310", format!("this function gives `{text}`, so `return` needs a value"))
                            .at(span, "nothing is returned here");
                    self.report(d);
                }
                None
            }
        }
    }

    fn on_device(&mut self, e: &ast::Expr) -> OnDevice {
        match &bare(e).kind {
            Ast::Name(n) if n.text == "sim" || n.text == "cpu" => return OnDevice::Sim(None),
            Ast::Name(n) if n.text == "gpu" => return OnDevice::Gpu(None),
            Ast::Call { callee, args } => {
                if let (Ast::Name(n), [arg]) = (&bare(callee).kind, args.as_slice())
                    && (n.text == "gpu" || n.text == "sim")
                {
                    let number = Some(Box::new(self.expr_as(&arg.value, &I32)));
                    return if n.text == "gpu" { OnDevice::Gpu(number) } else { OnDevice::Sim(number) };
                }
            }
            _ => {}
        }
        let d = Diagnostic::error("E0413", "this is no device")
            .at(e.span, "`sim`, `gpu`, `gpu(i)` or `sim(i)` was expected");
        self.report(d);
        OnDevice::Sim(None)
    }

    // Bodies

    /// Checks the body of a function, whose last expression is the result.
    pub fn function_body(&mut self, body: &ast::Block, result: &Type, result_span: Span) -> Block {
        if *result == Type::Unit {
            return self.block(body, false, None).0;
        }
        let (block, ty) = self.block(body, true, Some(result));
        // The value may be in the part that failed to parse.
        let broken = matches!(body.stmts.last().map(|s| &s.kind), Some(ast::StmtKind::Error)) && body.tail.is_none();
        match (&block.tail, &ty) {
            _ if broken => {}
            (_, Type::Never | Type::Error) => {}
            (Some(tail), _) if !(ty == Type::Unit && *result != Type::Error) => {
                let text = self.ty_text(result);
                self.coerce_stated(tail, result, Some((result_span, format!("the function gives `{text}`"))));
            }
            (_, _) if *result != Type::Error => {
                let text = self.ty_text(result);
                let d = Diagnostic::error("E0310", format!("this function gives `{text}`, but its end gives nothing"));
                let end = Span { start: body.span.end.saturating_sub(1), ..body.span };
                let d = match block.stmts.last().map(|s| &s.kind) {
                    Some(StmtKind::Expr { expr: value, .. }) if self.vars.shallow(&value.ty) != Type::Unit => d
                        .at(value.span, "this would be the value, but for the `;` behind it")
                        .help("take the `;` behind the last expression away"),
                    _ => {
                        d.at(end, "a value is missing here").help("end the body with the value, or with `return value`")
                    }
                };
                self.report(d.because(result_span, "declared here"));
            }
            _ => {}
        }
        block
    }
}

fn gives_value(then: &ast::Block, other: Option<&ast::Expr>) -> bool {
    then.tail.is_some()
        && match other.map(|o| &o.kind) {
            Some(Ast::Block(b)) => b.tail.is_some(),
            Some(Ast::If { then, other, .. }) => gives_value(then, other.as_deref()),
            Some(_) => true,
            None => false,
        }
}
