//! Helpers to build typed trees by hand, so that lowering can be tested separately.

use std::sync::Arc;

use clk_base::source::{FileId, Span};
use clk_check::typed::*;
use clk_ir::verify::verify;
use clk_ir::{def, text};
use clk_lower::{GenericArgument, Instance, lower};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::decimal::Decimal;
use clk_scalar::ops::BinaryOp;

pub const BOOL: Type = Type::Scalar(Scalar::Bool);
pub const I32: Type = Type::Scalar(Scalar::I32);
pub const F32: Type = Type::Scalar(Scalar::F32);

pub fn span(start: usize) -> Span {
    Span::new(FileId(0), start, start + 1)
}

pub fn expr(kind: ExprKind, ty: Type) -> Expr {
    Expr { kind, ty, span: span(1) }
}

pub fn int(n: i128) -> Expr {
    expr(ExprKind::Int(n), I32)
}

pub fn float(x: f64) -> Expr {
    expr(ExprKind::Float(Decimal::from_f64(x)), F32)
}

pub fn boxed(e: Expr) -> Box<Expr> {
    Box::new(e)
}

pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let ty = if op.is_comparison() { BOOL } else { left.ty.clone() };
    expr(ExprKind::Binary { op, left: boxed(left), right: boxed(right) }, ty)
}

pub fn add(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Add, left, right)
}

pub fn mul(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Mul, left, right)
}

pub fn lt(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Lt, left, right)
}

pub fn and(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::And, left, right)
}

pub fn dim(i: u32) -> Expr {
    expr(ExprKind::Dim(i), I32)
}

pub fn index(base: Expr, indices: Vec<Expr>) -> Expr {
    let ty = match &base.ty {
        Type::Array(array) => array.element.clone(),
        other => other.clone(),
    };
    expr(ExprKind::Index { base: boxed(base), indices }, ty)
}

pub fn field(base: Expr, field: u32, ty: Type) -> Expr {
    expr(ExprKind::Field { base: boxed(base), field }, ty)
}

pub fn tuple_field(base: Expr, field: u32, ty: Type) -> Expr {
    expr(ExprKind::TupleField { base: boxed(base), field }, ty)
}

pub fn lanes(base: Expr, lanes: &[u8]) -> Expr {
    let ty = match (&base.ty, lanes.len()) {
        (Type::Vector(s, _), 1) => Type::Scalar(*s),
        (Type::Vector(s, _), n) => Type::Vector(*s, n as u8),
        (other, _) => other.clone(),
    };
    expr(ExprKind::Swizzle { base: boxed(base), lanes: lanes.to_vec() }, ty)
}

pub fn thread_x() -> Expr {
    lanes(expr(ExprKind::Variable(Builtin::ThreadIdx), Type::Vector(Scalar::I32, 3)), &[0])
}

pub fn call(id: FnId, generics: Vec<GenericArg>, args: Vec<Expr>, ty: Type) -> Expr {
    expr(ExprKind::Call { callee: FnRef::Fn { id, generics }, args }, ty)
}

pub fn builtin(builtin: Builtin, args: Vec<Expr>, ty: Type) -> Expr {
    expr(ExprKind::Builtin { builtin, args, named: vec![] }, ty)
}

pub fn if_else(cond: Expr, then: Block, other: Option<Block>, ty: Type) -> Expr {
    expr(ExprKind::If { cond: boxed(cond), then: Box::new(then), other: other.map(Box::new) }, ty)
}

pub fn tuple(parts: Vec<Expr>) -> Expr {
    let ty = Type::Tuple(parts.iter().map(|part| part.ty.clone()).collect());
    expr(ExprKind::Tuple(parts), ty)
}

pub fn array(element: Type, dims: Vec<Dim>) -> Type {
    Type::Array(Arc::new(ArrayType { element, dims }))
}

pub fn block(stmts: Vec<StmtKind>, tail: Option<Expr>) -> Block {
    let stmts = stmts.into_iter().map(|kind| Stmt { kind, span: span(2) }).collect();
    Block { stmts, tail: tail.map(Box::new), span: span(3) }
}

pub fn value(tail: Expr) -> Block {
    block(vec![], Some(tail))
}

pub fn assign(place: Expr, value: Expr) -> StmtKind {
    StmtKind::Assign { place: boxed(place), op: None, value }
}

pub fn update(place: Expr, op: BinaryOp, value: Expr) -> StmtKind {
    StmtKind::Assign { place: boxed(place), op: Some(op), value }
}

pub fn run(expr: Expr) -> StmtKind {
    StmtKind::Expr { expr, quiet: false }
}

pub fn range(start: Expr, end: Expr) -> Expr {
    expr(
        ExprKind::Range { start: Some(boxed(start)), end: Some(boxed(end)), inclusive: false, step: None },
        Type::Range,
    )
}

pub fn for_(var: &Expr, iter: Expr, body: Block) -> StmtKind {
    StmtKind::For { var: id(var), iter, body: Box::new(body), unroll: Unroll::Auto }
}

pub fn let_(local: &Expr, value: Expr) -> StmtKind {
    StmtKind::Let { pattern: Pattern::Local(id(local)), value: Some(value), declared: None }
}

/// Returns the variable that an expression from [`Locals::add`] refers to.
pub fn id(local: &Expr) -> LocalId {
    match local.kind {
        ExprKind::Local(id) => id,
        _ => panic!("a variable"),
    }
}

/// The locals of a body that is being built; the parameters come first.
#[derive(Default)]
pub struct Locals {
    pub arena: clk_base::arena::Arena<Local>,
    pub params: Vec<Param>,
}

impl Locals {
    pub fn param(&mut self, name: &str, access: Access, ty: Type) -> Expr {
        self.params.push(Param {
            name: name.into(),
            access,
            ty: ty.clone(),
            default: None,
            span: span(4),
            name_span: span(4),
        });
        self.push(name, ty, false, LocalKind::Param(access))
    }

    pub fn variable(&mut self, name: &str, ty: Type) -> Expr {
        self.push(name, ty, true, LocalKind::Var)
    }

    pub fn push(&mut self, name: &str, ty: Type, mutable: bool, kind: LocalKind) -> Expr {
        let id = self.arena.push(Local { name: name.into(), ty: ty.clone(), mutable, kind, span: span(5) });
        expr(ExprKind::Local(id), ty)
    }
}

pub fn generic_type(name: &str) -> Generic {
    Generic { name: name.into(), kind: GenericKind::Type { bound: TypeBound::Any }, span: span(6), name_span: span(6) }
}

pub fn generic_const(name: &str) -> Generic {
    Generic {
        name: name.into(),
        kind: GenericKind::Const { ty: I32, default: None },
        span: span(6),
        name_span: span(6),
    }
}

pub fn generic_fn(name: &str, params: Vec<Type>, result: Type) -> Generic {
    let ty = Arc::new(FnType { params, result });
    Generic { name: name.into(), kind: GenericKind::Fn { ty, default: None }, span: span(6), name_span: span(6) }
}

pub fn signature(dims: &[&str], generics: Vec<Generic>, params: Vec<Param>) -> Signature {
    let dims = dims.iter().map(|name| DimName { name: (*name).into(), span: span(7), of_result: false }).collect();
    Signature { generics, dims, params, dim_exprs: vec![] }
}

pub fn function(
    program: &mut Program,
    name: &str,
    generics: Vec<Generic>,
    locals: Locals,
    result: Type,
    root: Block,
) -> FnId {
    program.fns.push(Fn {
        name: name.into(),
        module: ModuleId::new(0),
        sig: signature(&["N"], generics, locals.params),
        result,
        result_span: span(8),
        body: Some(Arc::new(Body { locals: locals.arena, root })),
        space: ExecutionSpace::Both,
        span: span(8),
        name_span: span(8),
        doc: None,
    })
}

/// Adds a kernel to the program, with `threads(i: N)` if `index` is given, else with `grid(1) block(32)`.
pub fn kernel(
    program: &mut Program,
    name: &str,
    generics: Vec<Generic>,
    locals: Locals,
    index: Option<&Expr>,
    root: Block,
) -> KernelId {
    let geometry = match index {
        Some(index) => {
            Geometry::Threads { indices: vec![id(index)], extents: vec![dim(0)], block: None, span: span(9) }
        }
        None => Geometry::Grid { grid: vec![int(1)], block: vec![int(32)], span: span(9) },
    };
    program.kernels.push(Kernel {
        name: name.into(),
        module: ModuleId::new(0),
        sig: signature(&["N", "M"], generics, locals.params),
        geometry,
        assumes: vec![],
        expects: vec![],
        tunes: vec![],
        body: Some(Arc::new(Body { locals: locals.arena, root })),
        span: span(10),
        name_span: span(10),
        doc: None,
        cooperative: false,
    })
}

/// Lowers a kernel; the module has to verify.
pub fn lowered(program: &Program, kernel: KernelId, arguments: Vec<GenericArgument>) -> def::Module {
    match lower(program, &Instance::new(kernel, arguments)) {
        Err(errors) => panic!("{errors:#?}"),
        Ok(module) => match verify(module.clone()) {
            Ok(_) => module,
            Err(violations) => panic!("{violations:#?}\n{}", text::print(&module)),
        },
    }
}

/// Returns the IR text of a lowered kernel.
pub fn ir(program: &Program, kernel: KernelId, arguments: Vec<GenericArgument>) -> String {
    text::print(&lowered(program, kernel, arguments))
}

/// Returns the codes of the errors of lowering a kernel.
pub fn errors(program: &Program, kernel: KernelId, arguments: Vec<GenericArgument>) -> Vec<&'static str> {
    match lower(program, &Instance::new(kernel, arguments)) {
        Err(errors) => errors.into_iter().map(|error| error.code).collect(),
        Ok(_) => vec![],
    }
}
