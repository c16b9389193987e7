//! Builds element kernels: the kernels that compute the numbers and elements of a tile program.
//!
//! Input: a tile statement in the body of a kernel. Output: a kernel `threads(row, column)` of its own. Each element
//! kernel computes the numbers to which the statement refers again, since they depend only on the block and on loop
//! counters: their statements are copied from the body.

use std::collections::HashMap;

use super::context::{BodyLowering, ModuleLowering};
use super::emit::ExprEmitter;
use super::instance::Instance;
use super::tile_expr::{AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow};
use super::tile_stmt::TileRegion;
use clk_base::arena::Arena;
use clk_base::source::Span;
use clk_check::typed::{self, Program};
use clk_ir::build::build_module;
use clk_ir::def::{
    Axis, BuiltinIndex, Expr, ExprId, ExprKind, Function, FunctionId, Label, LaunchForm, LocalId, MemId, MemorySpace,
    Module, Scalar, Stmt, StmtKind, Ty,
};
use clk_ir::tiles::TileVar;
use clk_ir::visit::each_stmt_mut;

const I32: Ty = Ty::Scalar(Scalar::I32);

/// A kernel whose body is lowered.
#[derive(Clone, Copy)]
pub(super) struct BodyWithRegions<'e> {
    pub program: &'e Program,
    pub kernel: &'e typed::Kernel,
    pub locals: &'e Arena<typed::Local>,
    pub instance: &'e Instance,
    /// The body, whose statements are `block`, and the functions that it calls.
    pub function: &'e Function,
    pub block: &'e [Stmt],
    pub functions: &'e Arena<Function>,
    pub regions: &'e [TileRegion],
}

/// What is known where a step is: the values and tiles to which it may refer.
pub(super) struct StepScope<'e> {
    pub body: BodyWithRegions<'e>,
    /// The number of rows of all tiles. The first accumulator determines it.
    pub rows: u32,
    pub tiles: Vec<TileVar>,
    /// The shared arrays that are tiles, and their positions in `tiles`.
    pub shared_tiles: Vec<(MemId, usize)>,
    /// The tiles that are the results of reductions, by the memory that contains them.
    pub reduction_tiles: HashMap<MemId, usize>,
    /// The counters of loops with steps.
    pub counters: Vec<LocalId>,
    /// Earlier statements that compute values, in this block and those around it.
    pub stmts: Vec<&'e [Stmt]>,
    /// Earlier regions that compute values for one statement only.
    pub operands: Vec<&'e [Stmt]>,
    /// The values that are the same in all threads, by the expression that refers to them.
    pub uniform_values: HashMap<ExprId, ExprId>,
}

impl<'e> StepScope<'e> {
    pub fn new(body: BodyWithRegions<'e>) -> StepScope<'e> {
        StepScope {
            body,
            rows: 0,
            tiles: vec![],
            shared_tiles: vec![],
            reduction_tiles: HashMap::new(),
            counters: vec![],
            stmts: vec![],
            operands: vec![],
            uniform_values: HashMap::new(),
        }
    }

    pub fn counter_names(&self) -> impl Iterator<Item = &'e str> {
        self.counters.iter().map(|&counter| self.body.function.locals[counter].name.as_str())
    }

    /// Returns the tile that an expression is: a shared array, or the result of a reduction.
    pub fn tile_of(&self, expr: &TileExpr) -> Option<usize> {
        let TileNode::Part(part) = &expr.node else { return None };
        let by_rows = [TileAxisIndex::From(AxisRange::ALL)];
        match (self.reduction_tiles.get(&part.memory), part.axes.as_slice()) {
            (Some(&tile), [rows, TileAxisIndex::At(_)]) if by_rows == [*rows] => Some(tile),
            (None, _) if part.is_whole() => {
                self.shared_tiles.iter().find(|(known, _)| *known == part.memory).map(|(_, tile)| *tile)
            }
            _ => None,
        }
    }

    /// Returns a tile all of whose elements are represented by one value.
    pub fn as_tile(&self, tile: usize, value: ExprId, span: Span) -> TileExpr {
        let TileVar { scalar, columns, .. } = self.tiles[tile];
        let shape = [self.rows].into_iter().chain(columns).collect();
        TileExpr { shape, scalar, node: TileNode::Same(value), span }
    }
}

/// An element kernel under construction.
pub(super) struct ElementKernel<'b, 'a, 'u> {
    pub body: BodyLowering<'a, 'u>,
    /// The row and the column of the element.
    pub at: [ExprId; 2],
    scope: &'b StepScope<'b>,
    block: [ExprId; 3],
    counters: Vec<ExprId>,
    /// The elements of tiles that are parameters, and the tiles.
    operands: Vec<(Option<usize>, ExprId)>,
    // The copies of what belongs to the body of the kernel.
    exprs: HashMap<ExprId, ExprId>,
    locals: HashMap<LocalId, LocalId>,
    memories: HashMap<MemId, MemId>,
    labels: HashMap<Label, Label>,
    functions: HashMap<FunctionId, FunctionId>,
}

impl ElementKernel<'_, '_, '_> {
    /// Builds a kernel. Its last parameters are elements of tiles; all kernels of the tile program have the other ones.
    pub fn build(
        scope: &StepScope<'_>,
        operands: &[(Option<usize>, Ty)],
        fill: impl FnOnce(&mut ElementKernel<'_, '_, '_>) -> Option<()>,
    ) -> Option<Module> {
        let (kernel, instance) = (scope.body.kernel, scope.body.instance);
        let mut unit = ModuleLowering::of_kernel(scope.body.program, instance);
        let out = ExprEmitter::new(format!("{}_step", kernel.name), kernel.span);
        let dims = kernel.sig.dims.len();
        let mut body = BodyLowering::new(&mut unit, &instance.arguments, dims, scope.body.locals, out);
        body.launch_parameters(kernel, instance).ok()?;
        let mut value = |name: &str, ty: Ty| body.out.at(kernel.span).value(name, ty);
        let block = ["block_x", "block_y", "block_z"].map(|name| value(name, I32));
        let counters = scope.counter_names().map(|name| value(name, I32)).collect();
        let operands = operands.iter().map(|&(tile, ty)| (tile, value("x", ty))).collect();
        let at = [0, 1].map(|k| body.out.at(kernel.span).index(k));
        let memories = (scope.body.function.memories.iter())
            .filter(|(_, memory)| matches!(memory.space, MemorySpace::Global { .. }))
            .map(|(id, _)| (id, id))
            .collect();
        let (exprs, locals, labels, functions) = Default::default();
        let mut element =
            ElementKernel { body, at, scope, block, counters, operands, exprs, locals, memories, labels, functions };
        scope.stmts.iter().copied().flatten().try_for_each(|stmt| element.stmt(stmt))?;
        fill(&mut element)?;
        let builder = element.body.out.into_builder();
        let functions = std::mem::take(&mut unit.functions);
        (!unit.has_errors()).then(|| build_module(functions, builder, LaunchForm::Threads { rank: 2 }))
    }

    /// Returns the element of a tile that is the parameter at this position.
    pub fn operand(&self, position: usize) -> Option<ExprId> {
        self.operands.get(position).map(|(_, value)| *value)
    }

    /// Returns the span of an expression of the body.
    pub fn span(&self, id: ExprId) -> Span {
        self.scope.body.function.spans[id]
    }

    /// Copies a tile expression of the body to this kernel. Elements of tiles are parameters.
    pub fn tile(&mut self, tile: &TileExpr) -> Option<TileExpr> {
        if let Some(number) = self.scope.tile_of(tile) {
            let (_, value) = self.operands.iter().find(|(operand, _)| *operand == Some(number))?;
            return Some(self.scope.as_tile(number, *value, tile.span));
        }
        let node = match &tile.node {
            TileNode::Same(value) => TileNode::Same(self.value(*value)?),
            TileNode::Count => TileNode::Count,
            TileNode::Part(TileWindow { memory, axes }) => {
                let axes = axes.iter().map(|axis| match *axis {
                    TileAxisIndex::At(index) => self.value(index).map(TileAxisIndex::At),
                    TileAxisIndex::From(AxisRange { start, step, end }) => {
                        let mut bound = |bound: Option<ExprId>| match bound {
                            Some(bound) => self.value(bound).map(Some),
                            None => Some(None),
                        };
                        Some(TileAxisIndex::From(AxisRange { start: bound(start)?, step, end: bound(end)? }))
                    }
                });
                let axes = axes.collect::<Option<Vec<_>>>()?;
                TileNode::Part(TileWindow { memory: self.memory(*memory)?, axes })
            }
            TileNode::Transposed(of) => TileNode::Transposed(Box::new(self.tile(of)?)),
            TileNode::Reshaped(of) => TileNode::Reshaped(Box::new(self.tile(of)?)),
            TileNode::Each(op, parts) => {
                let parts = parts.iter().map(|part| self.tile(part)).collect::<Option<Vec<_>>>()?;
                let op = match op {
                    TileElementOp::Call(function, ty) => TileElementOp::Call(self.function(*function), *ty),
                    op => op.clone(),
                };
                TileNode::Each(op, parts)
            }
        };
        Some(TileExpr { shape: tile.shape.clone(), node, ..*tile })
    }

    /// Returns the value of an expression of the body. If it belongs to the operands of a statement, copies the code
    /// that computes these operands.
    pub fn value(&mut self, id: ExprId) -> Option<ExprId> {
        if let Some(&value) = self.exprs.get(&id) {
            return Some(value);
        }
        if let Some(&value) = self.scope.uniform_values.get(&id) {
            return self.value(value);
        }
        if self.scope.body.function.exprs[id].kind.is_free() {
            return self.copy(id);
        }
        let defines = |stmt: &Stmt| {
            let mut found = matches!(stmt.kind, StmtKind::Let(defined) if defined == id);
            stmt.kind.results(|result| found |= result == id);
            found
        };
        let region = self.scope.operands.iter().rev().find(|region| region.iter().any(defines))?;
        region.iter().try_for_each(|stmt| self.stmt(stmt))?;
        self.exprs.get(&id).copied()
    }

    /// Copies a statement that computes values. The code of tile statements in it is not copied.
    fn stmt(&mut self, stmt: &Stmt) -> Option<()> {
        if let Some((number, body)) = TileRegion::of(&stmt.kind) {
            let is_code = matches!(self.scope.body.regions.get(number), Some(TileRegion::Operands));
            return if is_code { body.iter().try_for_each(|stmt| self.stmt(stmt)) } else { Some(()) };
        }
        if let StmtKind::Let(id) = stmt.kind {
            return self.copy(id).map(drop);
        }
        let (mut kind, mut copied) = (stmt.kind.clone(), Some(()));
        kind.operands_mut(|operand| match self.value(*operand) {
            Some(value) => *operand = value,
            None => copied = None,
        });
        if let Some(local) = kind.local_mut() {
            *local = self.local(*local);
        }
        kind.memories_mut(|memory| match self.written_memory(*memory) {
            Some(own) => *memory = own,
            None => copied = None,
        });
        match &mut kind {
            StmtKind::For { label, .. } | StmtKind::Loop { label, .. } | StmtKind::Block { label, .. } => {
                let own = self.body.out.label();
                self.labels.insert(*label, own);
                *label = own;
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => *label = *self.labels.get(label)?,
            StmtKind::Call { function, .. } => *function = self.function(*function),
            _ => {}
        }
        copied?;
        for block in kind.blocks_mut() {
            let inner = std::mem::take(block);
            self.body.out.open();
            let copied = inner.iter().try_for_each(|stmt| self.stmt(stmt));
            *block = self.body.out.close().0;
            copied?;
        }
        kind.results_mut(|result| {
            let own = self.body.out.result(self.scope.body.function.exprs[*result].ty, stmt.span);
            self.exprs.insert(*result, own);
            *result = own;
        });
        self.body.out.stmt(kind, stmt.span);
        Some(())
    }

    /// Copies an expression, which is evaluated here.
    fn copy(&mut self, id: ExprId) -> Option<ExprId> {
        let Expr { kind, ty } = &self.scope.body.function.exprs[id];
        let (mut kind, mut copied) = (kind.clone(), Some(()));
        let value = match &kind {
            ExprKind::Id(BuiltinIndex::Block, axis) => Some(match axis {
                Axis::X => self.block[0],
                Axis::Y => self.block[1],
                Axis::Z => self.block[2],
            }),
            ExprKind::Read(local) => {
                let counter = self.scope.counters.iter().position(|counter| counter == local);
                match counter {
                    Some(counter) => Some(self.counters[counter]),
                    // The local has a value only if the statement that writes it has been copied.
                    None => {
                        kind = ExprKind::Read(*self.locals.get(local)?);
                        None
                    }
                }
            }
            ExprKind::Result => return None,
            _ => None,
        };
        let value = match value {
            Some(value) => value,
            None => {
                kind.operands_mut(|operand| match self.value(*operand) {
                    Some(value) => *operand = value,
                    None => copied = None,
                });
                if let Some(memory) = kind.memory_mut() {
                    *memory = self.memory(*memory)?;
                }
                copied?;
                self.body.out.value(kind, *ty, self.span(id))
            }
        };
        self.exprs.insert(id, value);
        Some(value)
    }

    fn local(&mut self, id: LocalId) -> LocalId {
        let declared = &self.scope.body.function.locals[id];
        *self.locals.entry(id).or_insert_with(|| self.body.out.local(&declared.name, declared.ty, declared.span))
    }

    /// Returns an array that is read. An array of a thread has values only if the statements that write it have been
    /// copied.
    fn memory(&mut self, id: MemId) -> Option<MemId> {
        match self.scope.body.function.memories[id].space {
            MemorySpace::Constant => self.written_memory(id),
            _ => self.memories.get(&id).copied(),
        }
    }

    fn written_memory(&mut self, id: MemId) -> Option<MemId> {
        let declared = &self.scope.body.function.memories[id];
        if let (None, MemorySpace::Constant | MemorySpace::Local) = (self.memories.get(&id), declared.space) {
            let own = self.body.out.at(declared.span).copied_memory(declared.clone());
            self.memories.insert(id, own);
        }
        self.memories.get(&id).copied()
    }

    /// Copies a function, and those that it calls.
    fn function(&mut self, id: FunctionId) -> FunctionId {
        if let Some(&own) = self.functions.get(&id) {
            return own;
        }
        let mut copy = self.scope.body.functions[id].clone();
        each_stmt_mut(&mut copy.body, &mut |stmt| {
            if let StmtKind::Call { function, .. } = &mut stmt.kind {
                *function = self.function(*function);
            }
        });
        let own = self.body.unit.functions.push(copy);
        self.functions.insert(id, own);
        own
    }
}
