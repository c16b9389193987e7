//! A builder for functions that maintains types, spans and blocks.
//!
//! Creating an expression that is not free (see [`ExprKind::is_free`]) also adds its `Let` to the innermost open block.
//! Callers therefore create expressions in evaluation order. If operands have the wrong types, the builder picks some
//! result type, and the verifier reports the error later.
//!
//! ```
//! use clk_ir::{build::{FunctionBuilder, build_module}, def::*, typing::F32};
//! let mut b = FunctionBuilder::new("double");
//! let x = b.array("x", Access::In, ElementLayout::plain(F32), 1);
//! let r = b.array("r", Access::Out, ElementLayout::plain(F32), 1);
//! let i = b.index(0);
//! let v = b.load(x, &[i]);
//! let sum = b.binary(BinOp::Add, v, v);
//! b.store(r, &[i], sum);
//! let module = build_module(Default::default(), b, LaunchForm::Threads { rank: 1 });
//! assert!(clk_ir::verify::verify(module).is_ok());
//! ```

use rustc_hash::FxHashMap;

use crate::def::*;
use crate::typing;
use crate::visit::each_stmt;
use clk_base::arena::{Arena, SideTable};
use clk_base::source::Span;
use clk_scalar::ScalarValue;
use clk_scalar::ops::{AtomicOp, BarrierKind, MathFn, UnaryOp, WarpOp};

/// One function under construction.
pub struct FunctionBuilder {
    function: Function,
    /// The parameters of the kernel, if this function is a kernel's body.
    kernel_params: Vec<KernelParam>,
    cooperative: bool,
    /// Open blocks, outermost first; never empty.
    open: Vec<Block>,
    labels: u32,
    span: Span,
    free: FxHashMap<Expr, ExprId>,
}

/// The bounds and step of a loop that [`FunctionBuilder::for_`] adds.
#[derive(Clone, Copy, Debug)]
pub struct IrForRange {
    pub start: ExprId,
    pub end: ExprId,
    pub step: ExprId,
    pub inclusive: bool,
}

/// Returns a module of `functions` (callees first) and a kernel whose body is `body`.
pub fn build_module(mut functions: Arena<Function>, body: FunctionBuilder, form: LaunchForm) -> Module {
    let (params, cooperative) = (body.kernel_params.clone(), body.cooperative);
    let function = body.finish();
    let (name, span) = (function.name.clone(), function.span);
    let body = functions.push(function);
    Module { functions, kernel: Kernel { name, body, form, params, cooperative, gemm: None, tile_program: None, span } }
}

impl FunctionBuilder {
    pub fn new(name: impl Into<String>) -> Self {
        let function = Function {
            name: name.into(),
            params: vec![],
            results: vec![],
            locals: Arena::new(),
            memories: Arena::new(),
            exprs: Arena::new(),
            spans: SideTable::default(),
            body: vec![],
            span: Span::default(),
            calls: vec![],
        };
        FunctionBuilder {
            function,
            kernel_params: vec![],
            cooperative: false,
            open: vec![vec![]],
            labels: 0,
            span: Span::default(),
            free: FxHashMap::default(),
        }
    }

    /// Starts a new body for a kernel. It has the declarations and expressions of `body`, but no statements yet.
    pub fn with_declarations_of(kernel: &Kernel, body: &Function) -> Self {
        let mut labels = 0;
        each_stmt(&body.body, &mut |stmt| {
            if let Some(label) = stmt.kind.label() {
                labels = labels.max(label.0.saturating_add(1));
            }
        });
        FunctionBuilder {
            function: Function { body: vec![], ..body.clone() },
            kernel_params: kernel.params.clone(),
            cooperative: kernel.cooperative,
            open: vec![vec![]],
            labels,
            span: body.span,
            free: FxHashMap::default(),
        }
    }

    /// Sets the span of the whole function.
    pub fn function_span(&mut self, span: Span) {
        self.function.span = span;
    }

    /// Sets the span of everything created after this call. Returns the previous span, so that the caller can restore
    /// it.
    pub fn set_span(&mut self, span: Span) -> Span {
        std::mem::replace(&mut self.span, span)
    }

    pub fn span(&self) -> Span {
        self.span
    }

    pub fn ty(&self, expr: ExprId) -> Ty {
        self.function.exprs.get(expr).map_or(typing::I32, |e| e.ty)
    }

    /// Returns the function so far, without its open blocks.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Closes all open blocks and returns the function.
    pub fn finish(mut self) -> Function {
        while self.open.len() > 1 {
            let block = self.pop_block();
            let label = self.label();
            self.block(label, block);
        }
        self.function.body = self.open.pop().unwrap_or_default();
        self.function
    }

    // Signature, locals, memories

    /// Adds a value parameter of a function (not of a kernel).
    pub fn param(&mut self, ty: Ty) -> ExprId {
        let position = self.function.params.len() as u32;
        self.function.params.push(ty);
        self.free(ExprKind::Param(position), ty)
    }

    /// Adds a value parameter of a kernel.
    pub fn value(&mut self, name: impl Into<String>, ty: Ty) -> ExprId {
        let position = self.kernel_params.len() as u32;
        self.kernel_params.push(KernelParam::Value { name: name.into(), ty });
        self.free(ExprKind::Param(position), ty)
    }

    /// Adds an array parameter of a kernel.
    pub fn array(&mut self, name: impl Into<String>, access: Access, layout: ElementLayout, rank: usize) -> MemId {
        let name = name.into();
        let param = self.kernel_params.len() as u32;
        let space = MemorySpace::Global { param, access };
        let memory = self.memory(name.clone(), space, layout, vec![Extent::Launch; rank]);
        self.kernel_params.push(KernelParam::Array { name, access, memory });
        memory
    }

    /// Adds an array parameter of a function, whose extents come from the caller.
    pub fn array_param(
        &mut self,
        name: impl Into<String>,
        access: Access,
        layout: ElementLayout,
        rank: usize,
    ) -> MemId {
        let is_param = |m: &&Memory| matches!(m.space, MemorySpace::Param { .. });
        let position = self.function.memories.iter().filter(|(_, m)| is_param(m)).count() as u32;
        self.memory(name, MemorySpace::Param { position, access }, layout, vec![Extent::Launch; rank])
    }

    pub fn memory(
        &mut self,
        name: impl Into<String>,
        space: MemorySpace,
        layout: ElementLayout,
        extents: Vec<Extent>,
    ) -> MemId {
        self.memory_of(name, space, layout, extents, [])
    }

    /// Adds an array of constants, with its scalars in the order of [`Memory::values`].
    pub fn constants(
        &mut self,
        name: impl Into<String>,
        layout: ElementLayout,
        extents: Vec<Extent>,
        values: impl IntoIterator<Item = u64>,
    ) -> MemId {
        self.memory_of(name, MemorySpace::Constant, layout, extents, values)
    }

    fn memory_of(
        &mut self,
        name: impl Into<String>,
        space: MemorySpace,
        layout: ElementLayout,
        extents: Vec<Extent>,
        values: impl IntoIterator<Item = u64>,
    ) -> MemId {
        let values = values.into_iter().collect();
        self.copied_memory(Memory { name: name.into(), space, layout, extents, values, span: self.span })
    }

    /// Adds a memory of another function. Its extents are known.
    pub fn copied_memory(&mut self, memory: Memory) -> MemId {
        self.function.memories.push(memory)
    }

    pub fn local(&mut self, name: impl Into<String>, ty: Ty) -> LocalId {
        self.function.locals.push(Local { name: name.into(), ty, span: self.span })
    }

    pub fn results(&mut self, results: Vec<Ty>) {
        self.function.results = results;
    }

    // Expressions

    fn push(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        let id = self.function.exprs.push(Expr { kind, ty });
        self.function.spans.push(self.span);
        id
    }

    /// Returns a free expression. Equal free expressions share an id.
    pub fn free(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        let expr = Expr { kind, ty };
        if let Some(&id) = self.free.get(&expr) {
            return id;
        }
        let id = self.push(expr.kind.clone(), ty);
        self.free.insert(expr, id);
        id
    }

    /// Returns an expression of this kind and type. Unless it is free, it is evaluated at the current position.
    pub fn expr(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        if kind.is_free() {
            return self.free(kind, ty);
        }
        let id = self.push(kind, ty);
        self.stmt(StmtKind::Let(id));
        id
    }

    /// Returns an expression without a `Let`, as an [`Extent::Dynamic`] requires.
    pub fn expr_without_let(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        if kind.is_free() { self.free(kind, ty) } else { self.push(kind, ty) }
    }

    pub fn constant(&mut self, value: ScalarValue) -> ExprId {
        self.free(ExprKind::Const(value.bits), Ty::Scalar(value.ty))
    }

    pub fn bool(&mut self, value: bool) -> ExprId {
        self.free(ExprKind::Const(value as u64), typing::BOOL)
    }

    pub fn i32(&mut self, value: i32) -> ExprId {
        self.free(ExprKind::Const(value as u32 as u64), typing::I32)
    }

    pub fn f32(&mut self, value: f32) -> ExprId {
        self.free(ExprKind::Const(value.to_bits() as u64), typing::F32)
    }

    pub fn id(&mut self, id: BuiltinIndex, axis: Axis) -> ExprId {
        self.free(ExprKind::Id(id, axis), typing::I32)
    }

    pub fn index(&mut self, k: u8) -> ExprId {
        self.free(ExprKind::Index(k), typing::I32)
    }

    pub fn lane_idx(&mut self) -> ExprId {
        self.free(ExprKind::LaneIdx, typing::I32)
    }

    pub fn warp_idx(&mut self) -> ExprId {
        self.free(ExprKind::WarpIdx, typing::I32)
    }

    pub fn extent(&mut self, memory: MemId, axis: u8) -> ExprId {
        self.free(ExprKind::Extent(memory, axis), typing::I32)
    }

    pub fn read(&mut self, local: LocalId) -> ExprId {
        let ty = self.function.locals.get(local).map_or(typing::I32, |l| l.ty);
        self.expr(ExprKind::Read(local), ty)
    }

    pub fn load_place(&mut self, place: Place, hint: CacheHint) -> ExprId {
        let ty = typing::place(&self.function, &place).unwrap_or(typing::I32);
        self.expr(ExprKind::Load { place, hint }, ty)
    }

    /// Loads a whole element of scalar or vector type.
    pub fn load(&mut self, memory: MemId, indices: &[ExprId]) -> ExprId {
        self.load_place(Place { memory, indices: indices.to_vec(), leaf: 0, component: None }, CacheHint::None)
    }

    pub fn unary(&mut self, op: UnaryOp, value: ExprId) -> ExprId {
        let ty = self.ty(value);
        self.expr(ExprKind::Unary { op, value }, typing::unary(op, ty).unwrap_or(ty))
    }

    pub fn binary(&mut self, op: BinOp, left: ExprId, right: ExprId) -> ExprId {
        let ty = self.ty(left);
        let result = typing::binary(op, ty, self.ty(right)).unwrap_or(ty);
        self.expr(ExprKind::Binary { op, left, right }, result)
    }

    pub fn math(&mut self, function: MathFn, args: &[ExprId]) -> ExprId {
        let tys: Vec<Ty> = args.iter().map(|&a| self.ty(a)).collect();
        let ty = typing::math(function, &tys).unwrap_or(tys.first().copied().unwrap_or(typing::I32));
        self.expr(ExprKind::Math { function, args: args.to_vec() }, ty)
    }

    pub fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId) -> ExprId {
        let ty = self.ty(then);
        self.expr(ExprKind::Select { cond, then, other }, ty)
    }

    /// Converts each lane to another scalar type. Returns the value itself if it already has that type.
    pub fn convert(&mut self, value: ExprId, to: Scalar) -> ExprId {
        let ty = self.ty(value);
        if ty.scalar() == to {
            return value;
        }
        self.expr(ExprKind::Convert(value), ty.with_scalar(to))
    }

    pub fn bitcast(&mut self, value: ExprId, to: Scalar) -> ExprId {
        let ty = self.ty(value);
        if ty.scalar() == to {
            return value;
        }
        self.expr(ExprKind::Bitcast(value), ty.with_scalar(to))
    }

    pub fn compose(&mut self, parts: &[ExprId]) -> ExprId {
        let scalar = parts.first().map_or(Scalar::I32, |&p| self.ty(p).scalar());
        self.expr(ExprKind::Compose(parts.to_vec()), Ty::Vector(scalar, parts.len() as u8))
    }

    /// Broadcasts `value` to all lanes of a vector.
    pub fn broadcast(&mut self, value: ExprId, lanes: u8) -> ExprId {
        self.compose(&vec![value; lanes as usize])
    }

    pub fn extract(&mut self, value: ExprId, lane: u8) -> ExprId {
        let ty = Ty::Scalar(self.ty(value).scalar());
        self.expr(ExprKind::Extract { value, lane }, ty)
    }

    // Statements

    pub fn stmt(&mut self, kind: StmtKind) {
        let span = self.span;
        if let Some(block) = self.open.last_mut() {
            block.push(Stmt { kind, span });
        }
    }

    pub fn write(&mut self, local: LocalId, value: ExprId) {
        self.stmt(StmtKind::Write { local, value });
    }

    /// Declares a new local and writes its initial value.
    pub fn variable(&mut self, name: impl Into<String>, value: ExprId) -> LocalId {
        let local = self.local(name, self.ty(value));
        self.write(local, value);
        local
    }

    pub fn store_place(&mut self, place: Place, value: ExprId, hint: CacheHint) {
        self.stmt(StmtKind::Store { place, value, hint });
    }

    /// Stores a whole element of scalar or vector type.
    pub fn store(&mut self, memory: MemId, indices: &[ExprId], value: ExprId) {
        self.store_place(Place { memory, indices: indices.to_vec(), leaf: 0, component: None }, value, CacheHint::None);
    }

    /// Adds an atomic operation whose old value is used.
    pub fn atomic(&mut self, op: AtomicOp, place: Place, value: ExprId, compare: Option<ExprId>) -> ExprId {
        let ty = typing::place(&self.function, &place).unwrap_or(typing::I32);
        let result = self.push(ExprKind::Result, ty);
        self.stmt(StmtKind::Atomic { op, place, value, compare, result: Some(result) });
        result
    }

    /// Adds an atomic operation whose old value is unused.
    pub fn atomic_unused(&mut self, op: AtomicOp, place: Place, value: ExprId, compare: Option<ExprId>) {
        self.stmt(StmtKind::Atomic { op, place, value, compare, result: None });
    }

    /// Adds a barrier. Returns its result if the kind of barrier has one.
    pub fn barrier(&mut self, kind: BarrierKind, value: Option<ExprId>) -> Option<ExprId> {
        self.cooperative |= kind == BarrierKind::Grid;
        let result = typing::barrier(kind).1.map(|ty| self.push(ExprKind::Result, ty));
        self.stmt(StmtKind::Barrier { kind, value, result });
        result
    }

    pub fn warp(&mut self, op: WarpOp, value: ExprId, lane: Option<ExprId>) -> ExprId {
        self.warp_masked(op, value, lane, None)
    }

    /// Adds a warp operation. `among` is the mask of the participating lanes.
    pub fn warp_masked(&mut self, op: WarpOp, value: ExprId, lane: Option<ExprId>, among: Option<ExprId>) -> ExprId {
        let ty = self.ty(value);
        let result = self.push(ExprKind::Result, typing::warp(op, ty).unwrap_or(ty));
        self.stmt(StmtKind::Warp { op, value, lane, among, result });
        result
    }

    pub fn fence(&mut self, scope: FenceScope) {
        self.stmt(StmtKind::Fence(scope));
    }

    /// Adds a call of a function. Returns one expression for each of the types in `results`.
    pub fn call(&mut self, function: FunctionId, results: &[Ty], args: &[ExprId], memories: &[MemId]) -> Vec<ExprId> {
        let results: Vec<ExprId> = results.iter().map(|&ty| self.push(ExprKind::Result, ty)).collect();
        self.stmt(StmtKind::Call {
            function,
            args: args.to_vec(),
            memories: memories.to_vec(),
            results: results.clone(),
        });
        results
    }

    pub fn return_(&mut self, values: &[ExprId]) {
        self.stmt(StmtKind::Return(values.to_vec()));
    }

    pub fn assert(&mut self, cond: ExprId, message: Vec<MessageSegment>) {
        self.stmt(StmtKind::Assert { cond, message });
    }

    pub fn print(&mut self, parts: Vec<MessageSegment>) {
        self.stmt(StmtKind::Print { parts });
    }

    pub fn declare(&mut self, memory: MemId) {
        self.stmt(StmtKind::Declare(memory));
    }

    // Nested blocks

    /// Returns the statements of the innermost open block so far.
    pub fn open_block(&self) -> &[Stmt] {
        self.open.last().map_or(&[], Vec::as_slice)
    }

    /// Returns the innermost open block, to which statements are added.
    pub fn open_block_mut(&mut self) -> Option<&mut Block> {
        self.open.last_mut()
    }

    /// Opens a new innermost block. [`pop_block`](Self::pop_block) closes it.
    pub fn push_block(&mut self) {
        self.open.push(vec![]);
    }

    /// Closes the innermost open block and returns it, for `if_`, `for_`, `loop_` or `block`.
    pub fn pop_block(&mut self) -> Block {
        if self.open.len() > 1 { self.open.pop().unwrap_or_default() } else { vec![] }
    }

    /// Returns the statements that `fill` adds, as a separate block.
    pub fn in_block(&mut self, fill: impl FnOnce(&mut Self)) -> Block {
        self.push_block();
        fill(self);
        self.pop_block()
    }

    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    pub fn if_(&mut self, cond: ExprId, then: Block, other: Block) {
        self.stmt(StmtKind::If { cond, then, other });
    }

    pub fn if_else(&mut self, cond: ExprId, then: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self)) {
        let then = self.in_block(then);
        let other = self.in_block(other);
        self.if_(cond, then, other);
    }

    pub fn if_then(&mut self, cond: ExprId, then: impl FnOnce(&mut Self)) {
        self.if_else(cond, then, |_| ());
    }

    pub fn for_(&mut self, label: Label, local: LocalId, range: IrForRange, unroll: Unroll, body: Block) {
        let IrForRange { start, end, step, inclusive } = range;
        self.stmt(StmtKind::For { label, local, start, end, step, inclusive, unroll, collective: None, body });
    }

    /// Adds `for name in start..end` with a variable of the type of `start`; `fill` gets its label and its value.
    pub fn for_range(&mut self, name: &str, start: ExprId, end: ExprId, fill: impl FnOnce(&mut Self, Label, ExprId)) {
        let ty = self.ty(start);
        let step = self.constant(ScalarValue::of(1i32).to_type(ty.scalar()));
        let (label, local) = (self.label(), self.local(name, ty));
        self.push_block();
        let value = self.read(local);
        fill(self, label, value);
        let body = self.pop_block();
        self.for_(label, local, IrForRange { start, end, step, inclusive: false }, Unroll::Auto, body);
    }

    pub fn loop_(&mut self, label: Label, unroll: Unroll, body: Block) {
        self.stmt(StmtKind::Loop { label, unroll, body });
    }

    pub fn block(&mut self, label: Label, body: Block) {
        self.stmt(StmtKind::Block { label, body });
    }

    pub fn break_(&mut self, label: Label) {
        self.stmt(StmtKind::Break(label));
    }

    pub fn continue_(&mut self, label: Label) {
        self.stmt(StmtKind::Continue(label));
    }
}
