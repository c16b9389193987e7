//! Assembles the tile program of a kernel from its tile statements.
//!
//! Input: the body of a kernel in DeviceIR, in which the code of tile statements and of their operands is marked as
//! regions. Output: steps that a whole block executes, if the kernel computes only with tiles. A kernel of its own
//! (`element_kernel`) computes the elements of a step. Elements of tiles are its parameters, so that a device may keep
//! tiles anywhere.

use std::cell::Cell;
use std::collections::HashMap;

use super::element_kernel::{BodyWithRegions, ElementKernel, StepScope};
use super::mma_emulation::{GROUP, is_narrow_factor};
use super::tile_expr::{AxisRange, TileAxisIndex, TileDim, TileElementOp, TileExpr, TileNode, TileWindow};
use super::tile_stmt::{TileReductionOp, TileRegion, TileStmt};
use super::tile_window::PlainWindow;
use clk_base::source::Span;
use clk_ir::def::{
    self, Access, Block, ElementLayout, ExprId, Function, LocalId, MemId, Memory, MemorySpace, Module, Scalar, Stmt,
    StmtKind, Ty,
};
use clk_ir::tiles::{
    AccessedArrays, ArrayShape, ArrayWindow, TileAxis, TileGemmOperand, TileProgram, TileStep, TileTarget, TileVar,
    accessed_arrays, is_elementwise, updates_in_place,
};
use clk_ir::visit::each_stmt;
use clk_scalar::ops::BinaryOp;

const I32: Ty = Ty::Scalar(Scalar::I32);

/// The maximum number of elements of a tile or a window.
const MAX_LEN: u64 = 1 << 24;

/// Why a kernel has no tile program, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileRefusal {
    pub span: Span,
    pub reason: &'static str,
}

/// Returns the tile program of a kernel that has one. `arrays` are the shapes of its parameters.
pub(super) fn assemble(of: BodyWithRegions<'_>, arrays: Vec<ArrayShape>) -> Result<TileProgram, TileRefusal> {
    let refusal = |reason| TileRefusal { span: of.kernel.name_span, reason };
    let is_product = |region: &TileRegion| region.stmt().is_some_and(|stmt| matches!(stmt, TileStmt::Product { .. }));
    if !of.regions.iter().any(is_product) {
        return Err(refusal("it does not assign a matrix product (`mma`) to a tile"));
    }
    let mut assembler = TileProgramAssembler {
        scope: StepScope::new(of),
        read: vec![],
        filled: vec![],
        stored: vec![],
        loops: 0,
        refusal: Cell::new(None),
    };
    let steps = assembler.declarations(of.block, &mut WrittenIn::default()).and_then(|()| assembler.steps(of.block));
    let Some(steps) = steps else { return Err(assembler.refusal.get().unwrap_or(refusal("it has no tiles"))) };
    let counters = assembler.scope.counter_names().map(String::from).collect();
    let StepScope { rows, tiles, .. } = assembler.scope;
    Ok(TileProgram { sums: of.instance.sums, rows, arrays, tiles, counters, steps })
}

/// For each mutable local and each array of a thread that statements write, the block of steps in which they do.
#[derive(Default)]
struct WrittenIn {
    blocks: usize,
    locals: HashMap<LocalId, usize>,
    memories: HashMap<MemId, usize>,
}

impl WrittenIn {
    /// Records that a statement is in this block. Returns `false` if a statement of another block writes the same
    /// variable or array.
    fn writes(&mut self, f: &Function, stmt: &Stmt, block: usize) -> bool {
        let mut is_only = true;
        each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            let memories = match &stmt.kind {
                StmtKind::Write { local, .. } => {
                    is_only &= *self.locals.entry(*local).or_insert(block) == block;
                    &[]
                }
                StmtKind::Store { place, .. } => std::slice::from_ref(&place.memory),
                StmtKind::Declare(memory) => std::slice::from_ref(memory),
                StmtKind::Call { memories, .. } => memories.as_slice(),
                _ => &[],
            };
            for memory in memories.iter().filter(|&&memory| f.memories[memory].space == MemorySpace::Local) {
                is_only &= *self.memories.entry(*memory).or_insert(block) == block;
            }
        });
        is_only
    }
}

struct TileProgramAssembler<'e> {
    scope: StepScope<'e>,
    /// The shared arrays that are used other than as left operands of products.
    read: Vec<MemId>,
    /// Tiles with values, and arrays that were stored to.
    filled: Vec<usize>,
    stored: Vec<u32>,
    /// The loops around the statement.
    loops: usize,
    /// The first reason for which the search failed.
    refusal: Cell<Option<TileRefusal>>,
}

impl<'e> TileProgramAssembler<'e> {
    fn region(&self, stmt: &'e Stmt) -> Option<(&'e TileRegion, &'e Block)> {
        TileRegion::of(&stmt.kind).and_then(|(number, body)| Some((self.scope.body.regions.get(number)?, body)))
    }

    /// Collects the loop counters, the uniform values, the shared arrays that statements read, and the number of rows.
    /// Refuses kernels in which statements of several blocks write the same variable, since its value may then come
    /// from another branch or iteration.
    fn declarations(&mut self, block: &'e [Stmt], written: &mut WrittenIn) -> Option<()> {
        written.blocks += 1;
        let number = written.blocks;
        for stmt in block {
            match (self.region(stmt), &stmt.kind) {
                (Some((region, body)), _) => {
                    if let Some(stmt) = region.stmt() {
                        self.accesses_in(stmt);
                    }
                    let is_code = matches!(region, TileRegion::Expansion)
                        || matches!(region.stmt(), Some(TileStmt::Uniform { .. }));
                    if !is_code {
                        self.declarations(body, written)?;
                    }
                }
                (None, StmtKind::For { local, body, .. }) if self.has_tiles(body) => {
                    self.scope.counters.push(*local);
                    self.declarations(body, written)?;
                }
                (None, StmtKind::If { then, other, .. }) if self.has_tiles(then) || self.has_tiles(other) => {
                    self.declarations(then, written)?;
                    self.declarations(other, written)?;
                }
                _ if !written.writes(self.scope.body.function, stmt, number) => {
                    return self.refuse(stmt.span, "a variable changes its value");
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Collects the shared arrays that a statement reads, and the rows of an accumulator.
    fn accesses_in(&mut self, stmt: &TileStmt) {
        let mut read = vec![];
        let mut collect = |_: &TileExpr, part: &TileWindow| read.push(part.memory);
        match stmt {
            TileStmt::Declare(_) => {}
            TileStmt::Uniform { value, result } => drop(self.scope.uniform_values.insert(*result, *value)),
            TileStmt::Assign { to, op, value, .. } => {
                value.each_part(&mut collect);
                if op.is_some() {
                    to.each_part(&mut collect);
                }
            }
            TileStmt::Reduce { of, .. } => of.each_part(&mut collect),
            TileStmt::Product { to, a, b, .. } => {
                for operand in [a, b] {
                    if !self.is_shared(operand) {
                        operand.each_part(&mut collect);
                    }
                }
                if self.scope.rows == 0 {
                    self.scope.rows =
                        matrix_extents(&self.scope.body.function.memories[to.memory]).map_or(0, |(rows, _)| rows);
                }
            }
        }
        self.read.extend(read);
    }

    /// Returns whether a tile is a whole shared array.
    fn is_shared(&self, tile: &TileExpr) -> bool {
        let is_shared = |part: &TileWindow| self.scope.body.function.memories[part.memory].space == MemorySpace::Shared;
        matches!(&tile.node, TileNode::Part(part) if part.is_whole() && is_shared(part))
    }

    /// Returns whether a block contains tile statements.
    fn has_tiles(&self, block: &'e [Stmt]) -> bool {
        let mut found = false;
        each_stmt(block, &mut |stmt| {
            found |= self.region(stmt).is_some_and(|(region, _)| region.stmt().is_some());
        });
        found
    }

    fn steps(&mut self, block: &'e [Stmt]) -> Option<Vec<TileStep>> {
        let (scope, operands, mut steps) = (self.scope.stmts.len(), self.scope.operands.len(), vec![]);
        // Element kernels of later steps compute the numbers of the scope. Without a later step, a fault would be lost.
        let mut unused = None;
        for stmt in block {
            let before = steps.len();
            if self.stmt(stmt, &mut steps).is_none() {
                return self.refuse(stmt.span, "this statement is not a step that a whole block executes");
            }
            if matches!(self.region(stmt), Some((TileRegion::Operands, _))) {
                continue;
            }
            let own_operands = self.scope.operands.split_off(operands);
            if steps.len() > before {
                unused = None;
            } else if self.region(stmt).is_none() {
                let code: Vec<&[Stmt]> = own_operands.into_iter().chain([std::slice::from_ref(stmt)]).collect();
                if code.iter().any(|stmts| may_fault(self.scope.body.function, stmts)) {
                    unused = unused.or(Some(stmt.span));
                }
                self.scope.stmts.extend(code);
            }
        }
        if let Some(span) = unused {
            return self.refuse(span, "no step uses this number, which may fault");
        }
        self.scope.stmts.truncate(scope);
        Some(steps)
    }

    fn stmt(&mut self, stmt: &'e Stmt, steps: &mut Vec<TileStep>) -> Option<()> {
        match (self.region(stmt), &stmt.kind) {
            (Some((TileRegion::Stmt(tile), body)), _) => self.tile_stmt(tile, body, steps),
            (Some((TileRegion::Operands, body)), _) => self.operands_in(body, steps),
            (Some((TileRegion::Expansion, _)), _) => None,
            (None, StmtKind::For { local, start, end, step, inclusive: false, body, .. }) if self.has_tiles(body) => {
                let step = self.repeat(*local, [*start, *end], *step, body)?;
                steps.push(step);
                Some(())
            }
            (None, StmtKind::If { cond, then, other }) if self.has_tiles(then) || self.has_tiles(other) => {
                let step = self.branch(*cond, then, other)?;
                steps.push(step);
                Some(())
            }
            (None, _) => computes_numbers(self.scope.body.function, stmt).then_some(()),
        }
    }

    /// Adds the steps of tile statements in operands, and makes the operands' values available.
    fn operands_in(&mut self, body: &'e [Stmt], steps: &mut Vec<TileStep>) -> Option<()> {
        self.inner_regions(body, steps)?;
        self.scope.operands.push(body);
        Some(())
    }

    fn inner_regions(&mut self, body: &'e [Stmt], steps: &mut Vec<TileStep>) -> Option<()> {
        body.iter().try_for_each(|stmt| match self.region(stmt) {
            Some((TileRegion::Stmt(tile), body)) => self.tile_stmt(tile, body, steps),
            Some((TileRegion::Operands, body)) => self.operands_in(body, steps),
            Some((TileRegion::Expansion, _)) | None => Some(()),
        })
    }

    fn tile_stmt(&mut self, stmt: &'e TileStmt, body: &'e [Stmt], steps: &mut Vec<TileStep>) -> Option<()> {
        if !matches!(stmt, TileStmt::Uniform { .. }) {
            self.inner_regions(body, steps)?;
        }
        match stmt {
            TileStmt::Uniform { .. } => Some(()),
            TileStmt::Declare(memory) => self.declare(*memory),
            TileStmt::Assign { to, target, op, value, .. } => match self.scope.tile_of(to) {
                Some(tile) => self.each(tile, op.map(|op| (op, to)), value, steps),
                None => self.store(to, target, *op, value, steps),
            },
            TileStmt::Reduce { to, of, axis, fold } => {
                let tile = self.reduce(of, *axis, *fold, steps)?;
                self.scope.reduction_tiles.insert(to.memory, tile);
                Some(())
            }
            TileStmt::Product { to, acc, a, b } => {
                let (_, sum) = *self.scope.shared_tiles.iter().find(|(memory, _)| *memory == to.memory)?;
                if !self.is_filled(self.scope.tile_of(acc).filter(|acc| *acc == sum)?) {
                    return self.refuse(acc.span, "the tile may have no values here");
                }
                let step = self.product(sum, a, b, steps)?;
                steps.push(step);
                Some(())
            }
        }
    }

    /// Records why the search fails, unless a reason is known already. Returns `None`.
    pub(super) fn refuse<T>(&self, span: Span, reason: &'static str) -> Option<T> {
        let refusal = self.refusal.take().unwrap_or(TileRefusal { span, reason });
        self.refusal.set(Some(refusal));
        None
    }

    /// Declares a shared array. It becomes a tile if it has one axis or two, and the rows of all tiles. Statements that
    /// use other shared arrays are not steps.
    fn declare(&mut self, id: MemId) -> Option<()> {
        let memory = &self.scope.body.function.memories[id];
        let [leaf] = memory.layout.leaves.as_slice() else { return Some(()) };
        if let (Ty::Scalar(scalar), true, Some((rows, columns))) =
            (leaf.ty, leaf.path.is_empty(), matrix_extents(memory))
            && self.has_rows(rows, columns)
        {
            let is_lhs = columns.is_some() && is_narrow_factor(scalar) && !self.read.contains(&id);
            let tile = self.add_tile(TileVar { name: memory.name.clone(), scalar, columns, is_lhs });
            self.scope.shared_tiles.push((id, tile));
        }
        Some(())
    }

    /// Returns whether a tile can have this shape.
    fn has_rows(&self, rows: u32, columns: Option<u32>) -> bool {
        let len = u64::from(rows) * columns.map_or(1, u64::from);
        rows == self.scope.rows && (1..=MAX_LEN).contains(&len)
    }

    fn new_tile(&mut self, name: &str, scalar: Scalar, columns: Option<u32>) -> usize {
        self.add_tile(TileVar { name: name.into(), scalar, columns, is_lhs: false })
    }

    fn add_tile(&mut self, tile: TileVar) -> usize {
        self.scope.tiles.push(tile);
        self.scope.tiles.len() - 1
    }

    /// Returns the tiles that an expression reads.
    fn tiles_of(&self, expr: &TileExpr) -> Vec<usize> {
        let mut found = vec![];
        expr.each_part(&mut |part, _| {
            if let Some(tile) = self.scope.tile_of(part)
                && !found.contains(&tile)
            {
                found.push(tile);
            }
        });
        found
    }

    fn repeat(&mut self, local: LocalId, bounds: [ExprId; 2], step: ExprId, body: &'e [Stmt]) -> Option<TileStep> {
        let counter = self.scope.counters.iter().position(|known| *known == local)?;
        let step = match self.scope.body.function.exprs[step] {
            def::Expr { kind: def::ExprKind::Const(step), ty: I32 } => u32::try_from(step).ok(),
            _ => None,
        };
        let step = step.filter(|&step| (1..=i32::MAX as u32).contains(&step))?;
        let [Some(start), Some(end)] = bounds.map(|bound| self.module(I32, &[], |kernel| kernel.value(bound))) else {
            return None;
        };
        let (filled, loops) = (self.filled.len(), self.loops);
        self.loops += 1;
        let body = self.steps(body)?;
        self.loops = loops;
        // There may be no iteration.
        self.filled.truncate(filled);
        Some(TileStep::Repeat { counter, bounds: Box::new([start, end]), step, body })
    }

    /// Returns the step of an `if`.
    fn branch(&mut self, cond: ExprId, then: &'e [Stmt], other: &'e [Stmt]) -> Option<TileStep> {
        let cond = self.module(I32, &[], |kernel| {
            let value = kernel.value(cond)?;
            Some(kernel.body.out.convert(value, Scalar::I32, kernel.span(cond)))
        })?;
        let before = self.filled.clone();
        let then = self.steps(then)?;
        let filled = std::mem::replace(&mut self.filled, before);
        let other = self.steps(other)?;
        self.filled.retain(|tile| filled.contains(tile));
        Some(TileStep::If { cond, then, other })
    }

    fn is_filled(&self, tile: usize) -> bool {
        self.filled.contains(&tile)
    }

    /// Adds the step that computes a tile of a value. With an operator, the tile is also its left operand.
    fn each(
        &mut self,
        to: usize,
        op: Option<(BinaryOp, &TileExpr)>,
        value: &TileExpr,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let TileVar { scalar, columns, is_lhs, .. } = self.scope.tiles[to];
        let shape: Vec<u32> = [self.scope.rows].into_iter().chain(columns).collect();
        let mut operands = self.tiles_of(value);
        if op.is_some() && !operands.contains(&to) {
            operands.push(to);
        }
        self.have_columns(&operands, columns)?;
        // Left operands are computed as `f32`, and rounded when they are stored.
        let element_scalar = if is_lhs { Scalar::F32 } else { scalar };
        let element = self.module(Ty::Scalar(element_scalar), &operands, |kernel| {
            let mut from = kernel.tile(value)?;
            if let Some((op, to)) = op {
                let parts = vec![kernel.tile(to)?, from];
                from = kernel.body.each(TileElementOp::Binary(op), parts, scalar, value.span).ok()?;
            }
            if from.scalar != scalar {
                return None;
            }
            if let (true, TileNode::Each(TileElementOp::Convert(_), parts)) = (element_scalar != scalar, &from.node)
                && let [number] = parts.as_slice()
                && number.scalar == element_scalar
            {
                from = number.clone();
            }
            let element = element_at(kernel, &from, &shape)?;
            Some(kernel.body.out.convert(element, element_scalar, value.span))
        })?;
        if !self.filled.contains(&to) {
            self.filled.push(to);
        }
        steps.push(TileStep::Map { to: TileTarget::Tile(to), operands, element });
        Some(())
    }

    /// Adds the step that stores a value to a part of an array.
    fn store(
        &mut self,
        to: &TileExpr,
        target: &TileWindow,
        op: Option<BinaryOp>,
        value: &TileExpr,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let MemorySpace::Global { param, .. } = self.scope.body.function.memories[target.memory].space else {
            return None;
        };
        // An array with more axes: the rows run along all but the last one.
        let matrix = match to.shape.as_slice() {
            [others @ .., columns] if others.len() > 1 => vec![others.iter().product(), *columns],
            shape => shape.to_vec(),
        };
        let operands = self.tiles_of(value);
        let element = self.effect(&operands, |kernel| {
            let (mut from, place) = (kernel.tile(value)?, kernel.tile(to)?);
            let TileNode::Part(target) = place.node.clone() else { return None };
            if let Some(op) = op {
                from = kernel.body.each(TileElementOp::Binary(op), vec![place, from], to.scalar, to.span).ok()?;
            }
            let from = if matrix == to.shape { from } else { as_matrix(from, &to.shape, &matrix)? };
            let element = element_at(kernel, &from, &matrix)?;
            let (body, at) = (&mut kernel.body, kernel.at);
            let at = match to.shape.len() {
                n @ 0..=2 => body.broadcast_index(&at[..n], &to.shape, to.span),
                _ => {
                    let position = body.position_of(&at, &matrix, to.span);
                    body.indices_of(position, &to.shape, to.span)
                }
            };
            body.store_window_element(&target, &at, element, to.span).ok()
        })?;
        let (rows, columns) = match matrix.as_slice() {
            [rows] => (*rows, None),
            [rows, columns] => (*rows, Some(*columns)),
            _ => return None,
        };
        if !self.has_rows(rows, columns) {
            return self.refuse(to.span, "it stores other rows than those of the tiles");
        }
        self.have_columns(&operands, columns)?;
        if accessed_arrays(&element).stores != [param] {
            return None;
        }
        // Another thread may have written the same element before.
        if self.loops > 0 || self.stored.contains(&param) {
            steps.push(TileStep::Barrier);
        }
        self.stored.push(param);
        steps.push(TileStep::Map { to: TileTarget::Array(columns), operands, element });
        Some(())
    }

    /// Returns `Some` if the operands of a step have its columns, or one value for each row.
    fn have_columns(&self, operands: &[usize], columns: Option<u32>) -> Option<()> {
        let fits = |&tile: &usize| self.scope.tiles[tile].columns.is_none_or(|own| Some(own) == columns);
        operands.iter().all(fits).then_some(())
    }

    /// Returns the step that adds a product.
    fn product(&mut self, sum: usize, a: &TileExpr, b: &TileExpr, steps: &mut Vec<TileStep>) -> Option<TileStep> {
        let TileVar { scalar: Scalar::F32, columns: Some(columns), .. } = self.scope.tiles[sum] else { return None };
        let rows = self.scope.rows;
        let (b, [terms, width]) = self.window(b)?;
        let scalar = b.scalar;
        let (a, shape) = match self.scope.tile_of(a) {
            Some(tile) => (TileGemmOperand::Tile(tile), [rows, self.scope.tiles[tile].columns?]),
            None => match self.window(a) {
                Some((part, shape)) => (TileGemmOperand::Window(part), shape),
                // An expression of tiles.
                None if scalar == Scalar::F32 || is_narrow_factor(scalar) => {
                    if !self.has_rows(rows, Some(terms)) {
                        return None;
                    }
                    let tile = TileVar { name: "factor".into(), scalar, columns: Some(terms), is_lhs: true };
                    let tile = self.add_tile(tile);
                    self.each(tile, None, a, steps)?;
                    (TileGemmOperand::Tile(tile), [rows, terms])
                }
                None => return None,
            },
        };
        let fits = match &a {
            TileGemmOperand::Tile(tile) => {
                let TileVar { scalar: own, is_lhs: is_factor, .. } = self.scope.tiles[*tile];
                self.is_filled(*tile) && own == scalar && is_factor
            }
            TileGemmOperand::Window(part) => part.scalar == scalar,
        };
        let fits = fits && shape == [rows, terms] && width == columns && terms.is_multiple_of(GROUP);
        fits.then_some(TileStep::Mma { sum, terms, a, b })
    }

    /// Returns an operand of a product that is a window of an array that the kernel does not write, and the rows and
    /// columns that it has as an operand.
    fn window(&self, operand: &TileExpr) -> Option<(ArrayWindow, [u32; 2])> {
        let PlainWindow { tile, part, matrix, transposed, rounded } = PlainWindow::of(operand)?;
        let MemorySpace::Global { param, access: Access::In } = self.scope.body.function.memories[part.memory].space
        else {
            return None;
        };
        // Tensor cores round `f32` operands, and no other ones.
        let is_operand = if tile.scalar == Scalar::F32 { rounded } else { is_narrow_factor(tile.scalar) };
        if !is_operand || !(2..=ArrayWindow::MAX_AXES).contains(&part.axes.len()) {
            return None;
        }
        let (mut extents, mut axes) = (tile.shape.iter(), vec![]);
        for along in &part.axes {
            let (start, extent, step, is_index) = match *along {
                TileAxisIndex::At(start) => (Some(start), 1, 1, true),
                // A window that ends before the edge of the array is not an operand.
                TileAxisIndex::From(AxisRange { end: Some(_), .. }) => return None,
                TileAxisIndex::From(AxisRange { start, step, .. }) => (start, *extents.next()?, step, false),
            };
            let start = self.module(I32, &[], |kernel| match start {
                Some(start) => kernel.value(start),
                None => Some(kernel.body.out.i32(0, operand.span)),
            })?;
            axes.push(TileAxis { start, extent, step, is_index });
        }
        // Rows are contiguous.
        let is_contiguous = axes.last().is_some_and(|axis| axis.step == 1 && !axis.is_index);
        let len = axes.iter().fold(1, |len: u64, axis| len.saturating_mul(axis.extent.into()));
        let element = self.module(Ty::Scalar(tile.scalar), &[], |kernel| {
            let part = kernel.tile(tile)?;
            let node = if matrix == tile.shape { part.node } else { TileNode::Reshaped(Box::new(part)) };
            let own = TileExpr { shape: matrix.to_vec(), node, ..*tile };
            kernel.body.tile_element(&own, &kernel.at).ok()
        })?;
        let part = ArrayWindow { param, scalar: tile.scalar, transposed, axes, element };
        let fits = is_contiguous && (1..=MAX_LEN).contains(&len) && part.extents() == *matrix;
        fits.then(|| (part, if transposed { [matrix[1], matrix[0]] } else { [matrix[0], matrix[1]] }))
    }

    /// Adds the steps that reduce along the columns; returns the tile of the result.
    fn reduce(
        &mut self,
        of: &TileExpr,
        axis: usize,
        fold: TileReductionOp,
        steps: &mut Vec<TileStep>,
    ) -> Option<usize> {
        let (&[rows, columns], 1) = (of.shape.as_slice(), axis) else { return None };
        let tile = match self.scope.tile_of(of) {
            Some(tile) => tile,
            None if self.has_rows(rows, Some(columns)) => {
                let tile = self.new_tile("value", of.scalar, Some(columns));
                self.each(tile, None, of, steps)?;
                tile
            }
            None => return None,
        };
        let TileVar { scalar, columns: Some(_), is_lhs: false, .. } = self.scope.tiles[tile] else { return None };
        if !self.is_filled(tile) {
            return None;
        }
        let ty = Ty::Scalar(scalar);
        let combine = ElementKernel::build(&self.scope, &[(None, ty), (None, ty)], |kernel| {
            let span = kernel.body.out.function().span;
            let value = kernel.body.reduce_pair(fold, kernel.operand(0)?, kernel.operand(1)?, span).ok()?;
            store_result(kernel, ty, value);
            Some(())
        })?;
        let to = self.new_tile("folded", scalar, None);
        self.filled.push(to);
        steps.push(TileStep::Reduce { to, of: tile, combine });
        Some(to)
    }

    // Kernels

    /// Makes a kernel that computes a value.
    fn module(
        &self,
        ty: Ty,
        operands: &[usize],
        fill: impl FnOnce(&mut ElementKernel<'_, '_, '_>) -> Option<ExprId>,
    ) -> Option<Module> {
        let module = self.effect(operands, |kernel| {
            let value = fill(kernel)?;
            (kernel.body.out.ty(value) == ty).then(|| store_result(kernel, ty, value))
        })?;
        let result = module.kernel.params.len().checked_sub(1)? as u32;
        (accessed_arrays(&module).stores == [result]).then_some(module)
    }

    /// Makes a kernel of elements that stores.
    fn effect(
        &self,
        operands: &[usize],
        fill: impl FnOnce(&mut ElementKernel<'_, '_, '_>) -> Option<()>,
    ) -> Option<Module> {
        let span = self.scope.body.kernel.name_span;
        if !operands.iter().all(|&tile| self.is_filled(tile)) {
            return self.refuse(span, "a tile may be read before it has values");
        }
        if operands.iter().any(|&tile| self.scope.tiles[tile].is_lhs) {
            return self.refuse(span, "a step reads elements of a left operand of products");
        }
        let types: Vec<(Option<usize>, Ty)> =
            operands.iter().map(|&tile| (Some(tile), Ty::Scalar(self.scope.tiles[tile].scalar))).collect();
        let module = ElementKernel::build(&self.scope, &types, fill)?;
        let access_of = |param: u32| module.kernel.params.get(param as usize).and_then(def::KernelParam::access);
        let AccessedArrays { loads, stores } = accessed_arrays(&module);
        let is_allowed =
            |param: u32| access_of(param) == Some(Access::In) || stores == [param] && updates_in_place(&module, param);
        if !loads.into_iter().all(is_allowed) {
            return self.refuse(module.kernel.span, "a tile program does not read an array that it writes");
        }
        let is_elementwise = module.functions.iter().all(|(_, function)| is_elementwise(function));
        is_elementwise.then_some(module)
    }
}

/// Stores the result of an element kernel to a parameter of its own.
fn store_result(kernel: &mut ElementKernel<'_, '_, '_>, ty: Ty, value: ExprId) {
    let out = &mut kernel.body.out;
    let span = out.function().span;
    let memory = out.at(span).array("result", Access::Out, ElementLayout::plain(ty), 0);
    let place = def::Place { memory, indices: vec![], leaf: 0, component: None };
    out.stmt(StmtKind::Store { place, value, hint: def::CacheHint::None }, span);
}

/// Computes an element, if it depends only on elements of other tiles at the same position.
fn element_at(kernel: &mut ElementKernel<'_, '_, '_>, from: &TileExpr, shape: &[u32]) -> Option<ExprId> {
    let axes = [TileDim::Row, TileDim::Column];
    let whole = TileExpr {
        shape: shape.to_vec(),
        node: TileNode::Each(TileElementOp::Convert(from.scalar), vec![from.clone()]),
        ..*from
    };
    if shape.is_empty() || shape.len() > 2 || !whole.is_in_place(&axes[..shape.len()]) {
        return None;
    }
    let at = kernel.body.broadcast_index(&kernel.at[..shape.len()], &from.shape, from.span);
    kernel.body.tile_element(from, &at).ok()
}

/// Returns whether a statement only computes values, with no effects that other threads see and no jumps out of it.
fn computes_numbers(f: &Function, stmt: &Stmt) -> bool {
    let (mut labels, mut is_number) = (vec![], true);
    each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        labels.extend(stmt.kind.label());
        is_number &= match &stmt.kind {
            StmtKind::Let(_)
            | StmtKind::Write { .. }
            | StmtKind::If { .. }
            | StmtKind::For { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Block { .. }
            | StmtKind::Call { .. }
            | StmtKind::Declare(_) => true,
            StmtKind::Store { place, .. } => f.memories[place.memory].space == MemorySpace::Local,
            StmtKind::Break(label) | StmtKind::Continue(label) => labels.contains(label),
            _ => false,
        };
    });
    is_number
}

/// Returns whether statements that only compute values may fault.
fn may_fault(f: &Function, stmts: &[Stmt]) -> bool {
    use def::{BinOp, ExprKind};
    let mut found = false;
    each_stmt(stmts, &mut |stmt| {
        found |= match &stmt.kind {
            StmtKind::Let(id) => match &f.exprs[*id].kind {
                ExprKind::Load { .. } => true,
                ExprKind::Binary { op: BinOp::Div | BinOp::Rem, .. } => f.exprs[*id].ty.scalar().is_int(),
                _ => false,
            },
            StmtKind::Write { .. } | StmtKind::If { .. } | StmtKind::Block { .. } | StmtKind::Break(_) => false,
            _ => true,
        };
    });
    found
}

/// Returns a value that is assigned to an array of more than two axes as one that is assigned to a matrix with the same
/// elements.
fn as_matrix(from: TileExpr, shape: &[u32], matrix: &[u32]) -> Option<TileExpr> {
    let TileExpr { scalar, span, .. } = from;
    if from.shape.len() < 2 {
        return Some(from);
    }
    if from.shape != shape {
        return None;
    }
    let node = match from.node {
        // A tile that was given more axes has its own again.
        TileNode::Reshaped(of) if of.shape == matrix => return Some(*of),
        TileNode::Each(step, parts) => {
            TileNode::Each(step, parts.into_iter().map(|part| as_matrix(part, shape, matrix)).collect::<Option<_>>()?)
        }
        _ => TileNode::Reshaped(Box::new(from)),
    };
    Some(TileExpr { shape: matrix.to_vec(), scalar, node, span })
}

/// Returns the rows and columns of an array with known extents. An array with one axis has no columns.
fn matrix_extents(memory: &Memory) -> Option<(u32, Option<u32>)> {
    match memory.extents.as_slice() {
        [rows] => Some((rows.known()?, None)),
        [rows, columns] => Some((rows.known()?, Some(columns.known()?))),
        _ => None,
    }
}
