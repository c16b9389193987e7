//! Recognizes tile programs: kernels that compute only with tiles, as steps that a whole block executes.
//!
//! A statement becomes a step. Its elements are computed by a kernel of its own, in which elements of tiles are
//! parameters, so that a device may keep tiles anywhere. Each such kernel computes the numbers to which the statement
//! refers again, since they depend only on the block and on loop counters.

use super::context::{BodyLowering, LoweredLocal, ModuleLowering};
use super::emit::ExprEmitter;
use super::error::Fallible;
use super::instance::Instance;
use super::mma_emulation::{GROUP, is_narrow_factor};
use super::tile_expr::{AxisRange, TileAxisIndex, TileDim, TileElementOp, TileExpr, TileNode, TileWindow};
use super::tiles::TileReductionOp;
use clk_base::arena::Arena;
use clk_base::source::Span;
use clk_check::typed::{self, Block, Expr, ExprKind, LocalId, Pattern, Program, Stmt, StmtKind, Type};
use clk_check::visit;
use clk_ir::build::build_module;
use clk_ir::def::{self, Access, ElementLayout, ExprId, Extent, LaunchForm, Memory, MemorySpace, Module, Scalar, Ty};
use clk_ir::tiles::{
    AccessedArrays, ArrayShape, ArrayWindow, TileAxis, TileGemmOperand, TileProgram, TileStep, TileTarget, TileVar,
    accessed_arrays, is_elementwise, updates_in_place,
};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn};
use std::cell::Cell;

const I32: Ty = Ty::Scalar(Scalar::I32);

/// The maximum number of elements of a tile or a window.
const MAX_LEN: u64 = 1 << 24;

/// Why a kernel has no tile program, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileRefusal {
    pub span: Span,
    pub reason: &'static str,
}

/// Returns the tile program of a kernel that has one.
pub(super) fn find(program: &Program, kernel: &typed::Kernel, instance: &Instance) -> Result<TileProgram, TileRefusal> {
    let refusal = |reason| TileRefusal { span: kernel.name_span, reason };
    let (typed::Geometry::Grid { .. }, Some(typed)) = (&kernel.geometry, kernel.body.as_deref()) else {
        return Err(refusal("it is not a `grid` kernel"));
    };
    let is_product = |stmts: &[Stmt]| stmts.iter().any(has_product);
    if typed.root.tail.is_some() || !is_product(&typed.root.stmts) {
        return Err(refusal("it does not assign a matrix product (`mma`) to a tile"));
    }
    let mut finder = TileProgramFinder {
        program,
        kernel,
        instance,
        typed,
        rows: 0,
        read: vec![],
        held: vec![],
        known: vec![],
        counters: vec![],
        names: vec![],
        scope: vec![],
        filled: vec![],
        stored: vec![],
        loops: 0,
        refusal: Cell::new(None),
    };
    finder.declarations_in(&typed.root.stmts);
    let Some(arrays) = finder.array_shapes() else { return Err(refusal("its parameters cannot be lowered")) };
    let Some(steps) = finder.steps(&typed.root.stmts) else {
        return Err(finder.refusal.get().unwrap_or(refusal("it has no tiles")));
    };
    let TileProgramFinder { rows, held: tiles, names: counters, .. } = finder;
    Ok(TileProgram { sums: instance.sums, rows, arrays, tiles, counters, steps })
}

/// Whether a statement, or one in it, assigns a product; others are not worth the search.
fn has_product(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Assign { value, .. } => matches!(value.kind, ExprKind::Builtin { builtin: Builtin::Mma, .. }),
        _ => blocks(stmt).any(|block| block.stmts.iter().any(has_product)),
    }
}

/// Returns whether the value of a `let` may fault.
fn may_fault(stmt: &Stmt) -> bool {
    let StmtKind::Let { value: Some(value), .. } = &stmt.kind else { return false };
    let mut found = false;
    visit::expr(value, &mut |expr| {
        found |= match &expr.kind {
            ExprKind::Binary { op, .. } => {
                matches!(op, BinaryOp::Div | BinaryOp::Rem) && !matches!(&expr.ty, Type::Scalar(ty) if ty.is_float())
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Local(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Variable(_)
            | ExprKind::Unary { .. }
            | ExprKind::TupleField { .. }
            | ExprKind::Field { .. }
            | ExprKind::Tuple(_) => false,
            _ => true,
        };
    });
    found
}

/// Returns the blocks of a loop or a branch.
fn blocks(stmt: &Stmt) -> impl Iterator<Item = &Block> {
    let (one, other) = match &stmt.kind {
        StmtKind::For { body, .. } => (Some(&**body), None),
        StmtKind::Expr { expr, .. } => match &expr.kind {
            ExprKind::If { then, other, .. } => (Some(&**then), other.as_deref()),
            _ => (None, None),
        },
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

/// A declaration that later statements may refer to.
#[derive(Clone, Copy)]
enum Scoped<'e> {
    Let(&'e Stmt),
    Counter(usize, LocalId),
}

struct TileProgramFinder<'e> {
    program: &'e Program,
    kernel: &'e typed::Kernel,
    instance: &'e Instance,
    typed: &'e typed::Body,
    /// The number of rows of all tiles: those of the first accumulator.
    rows: u32,
    /// The locals whose elements are read, other than by products of which they are the left operand.
    read: Vec<LocalId>,
    held: Vec<TileVar>,
    /// The shared arrays that are tiles, and their positions in `held`.
    known: Vec<(LocalId, usize)>,
    counters: Vec<LocalId>,
    names: Vec<String>,
    scope: Vec<Scoped<'e>>,
    /// Tiles with values, and arrays that were stored to.
    filled: Vec<usize>,
    stored: Vec<u32>,
    /// The loops around the statement.
    loops: usize,
    /// The first reason for which the search failed.
    refusal: Cell<Option<TileRefusal>>,
}

/// What a statement's kernel has as its parameters.
struct TileKernelParams<'b> {
    at: [ExprId; 2],
    operands: &'b [ExprId],
}

impl<'e> TileProgramFinder<'e> {
    /// Collects the loop counters, and what the products show about shared arrays.
    fn declarations_in(&mut self, stmts: &'e [Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::For { var, .. } => {
                    self.counters.push(*var);
                    let local = self.typed.locals.get(*var);
                    self.names.push(local.map_or_else(String::new, |local| local.name.to_string()));
                }
                StmtKind::Assign { place, op, value } => self.accesses_in(place, *op, value),
                _ => {}
            }
            blocks(stmt).for_each(|block| self.declarations_in(&block.stmts));
        }
    }

    /// Collects the locals that an assignment reads, and the rows of an accumulator.
    fn accesses_in(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr) {
        let mut read = vec![];
        let mut collect = |expr: &Expr| {
            visit::expr(expr, &mut |expr| {
                if let ExprKind::Local(local) = expr.kind {
                    read.push(local);
                }
            });
        };
        if op.is_some() {
            collect(place);
        }
        match &value.kind {
            ExprKind::Builtin { builtin: Builtin::Mma, args, .. } => {
                let is_tile = |arg: &&Expr| matches!(arg.kind, ExprKind::Local(_));
                args.iter().skip(1).filter(|arg| !is_tile(arg)).for_each(collect);
                if let (ExprKind::Local(sum), 0) = (&place.kind, self.rows) {
                    self.rows = shared_extents(&self.typed.root.stmts, *sum)
                        .and_then(|(extents, span)| self.shared_memory(*sum, extents, span))
                        .and_then(|memory| matrix_extents(&memory))
                        .map_or(0, |(rows, _)| rows);
                }
            }
            _ => collect(value),
        }
        self.read.extend(read);
    }

    /// Returns the shapes of the kernel's array parameters.
    fn array_shapes(&self) -> Option<Vec<ArrayShape>> {
        let sig = &self.kernel.sig;
        let name_of = |dim: &typed::Dim| match dim {
            typed::Dim::Name(dim) => sig.dims.get(*dim as usize).map(|declared| declared.name.to_string()),
            _ => None,
        };
        let mut found = vec![];
        self.scratch(|body| {
            for (at, declared) in sig.params.iter().enumerate() {
                let Type::Array(array) = &declared.ty else { continue };
                let Some(LoweredLocal::Array(memory)) = body.slots.get(&LocalId::new(at)) else { continue };
                let memory = &body.out.function().memories[*memory];
                if let (MemorySpace::Global { param, .. }, true) =
                    (memory.space, memory.extents.len() == array.dims.len())
                {
                    found.push(ArrayShape { param, dims: array.dims.iter().map(name_of).collect() });
                }
            }
            Ok(())
        })?;
        Some(found)
    }

    fn steps(&mut self, stmts: &'e [Stmt]) -> Option<Vec<TileStep>> {
        let (scope, mut steps) = (self.scope.len(), vec![]);
        for stmt in stmts {
            if self.stmt(stmt, &mut steps).is_none() {
                return self.refuse(stmt.span, "this statement is not a step that a whole block executes");
            }
        }
        // Element kernels of later steps compute the numbers of a `let`. Without a later step, a fault would be lost.
        let is_number = |stmt: &&Stmt| matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Shared { .. });
        if let Some(unused) = stmts.iter().rev().take_while(is_number).find(|stmt| may_fault(stmt)) {
            return self.refuse(unused.span, "no step uses this number, which may fault");
        }
        self.scope.truncate(scope);
        Some(steps)
    }

    fn stmt(&mut self, stmt: &'e Stmt, steps: &mut Vec<TileStep>) -> Option<()> {
        match &stmt.kind {
            StmtKind::Shared { local, extents } => self.declare(*local, extents, stmt.span),
            StmtKind::Let { pattern, value: Some(value), .. } => {
                let is_number = names_numbers(pattern, &value.ty, &self.typed.locals);
                is_number.then(|| self.scope.push(Scoped::Let(stmt)))
            }
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value, steps),
            StmtKind::For { var, iter, body, .. } => self.repeat(*var, iter, body).map(|step| steps.push(step)),
            StmtKind::Expr { expr, .. } => self.branch(expr).map(|step| steps.push(step)),
            _ => None,
        }
    }

    /// Records why the search fails, unless a reason is known already. Returns `None`.
    fn refuse<T>(&self, span: Span, reason: &'static str) -> Option<T> {
        let refusal = self.refusal.take().unwrap_or(TileRefusal { span, reason });
        self.refusal.set(Some(refusal));
        None
    }

    /// Declares a shared array. It becomes a tile if it has one axis or two, and the rows of all tiles. Statements that
    /// use other shared arrays are not steps.
    fn declare(&mut self, local: LocalId, extents: &'e [Expr], span: Span) -> Option<()> {
        let memory = self.shared_memory(local, extents, span)?;
        if let (0, Some((rows, _))) = (self.rows, matrix_extents(&memory)) {
            self.rows = rows;
        }
        let [leaf] = memory.layout.leaves.as_slice() else { return Some(()) };
        if let (Ty::Scalar(scalar), true, Some((rows, columns))) =
            (leaf.ty, leaf.path.is_empty(), matrix_extents(&memory))
            && self.has_rows(rows, columns)
        {
            let name = self.typed.locals.get(local)?.name.to_string();
            let is_lhs = columns.is_some() && is_narrow_factor(scalar) && !self.read.contains(&local);
            let tile = self.keep(TileVar { name, scalar, columns, is_lhs });
            self.known.push((local, tile));
        }
        Some(())
    }

    fn shared_memory(&self, local: LocalId, extents: &'e [Expr], span: Span) -> Option<Memory> {
        let mut declared = None;
        self.scratch(|body| {
            body.shared(local, extents, span)?;
            if let Some(LoweredLocal::Array(memory)) = body.slots.get(&local) {
                declared = Some(body.out.function().memories[*memory].clone());
            }
            Ok(())
        })?;
        declared
    }

    /// Returns whether a tile can have this shape.
    fn has_rows(&self, rows: u32, columns: Option<u32>) -> bool {
        let len = u64::from(rows) * columns.map_or(1, u64::from);
        rows == self.rows && (1..=MAX_LEN).contains(&len)
    }

    fn hold(&mut self, name: String, scalar: Scalar, columns: Option<u32>) -> usize {
        self.keep(TileVar { name, scalar, columns, is_lhs: false })
    }

    fn hold_factor(&mut self, name: String, scalar: Scalar, columns: u32) -> Option<usize> {
        let is_factor = scalar == Scalar::F32 || is_narrow_factor(scalar);
        let tile = TileVar { name, scalar, columns: Some(columns), is_lhs: true };
        (is_factor && self.has_rows(self.rows, Some(columns))).then(|| self.keep(tile))
    }

    fn keep(&mut self, tile: TileVar) -> usize {
        self.held.push(tile);
        self.held.len() - 1
    }

    fn tile_of(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::Local(id) = expr.kind else { return None };
        self.known.iter().find(|(known, _)| *known == id).map(|(_, tile)| *tile)
    }

    fn repeat(&mut self, var: LocalId, iter: &'e Expr, body: &'e Block) -> Option<TileStep> {
        let ExprKind::Range { start, end: Some(end), inclusive: false, step } = &iter.kind else { return None };
        let counter = self.counters.iter().position(|known| *known == var)?;
        let is_i32 = |expr: &Expr| expr.ty == Type::Scalar(Scalar::I32);
        if body.tail.is_some() || !is_i32(end) || !start.as_deref().is_none_or(is_i32) {
            return None;
        }
        let start = self.module(I32, &[], |body, _| match start {
            Some(start) => body.scalar(start),
            None => Ok(body.out.i32(0, end.span)),
        })?;
        let end = self.module(I32, &[], |body, _| body.scalar(end))?;
        let mut by = Some(1);
        if let Some(step) = step {
            self.scratch(|body| body.number(step).map(|number| by = number))?;
        }
        let step = by.and_then(|by| i32::try_from(by).ok()).filter(|&by| by > 0)? as u32;
        let (filled, scope) = (self.filled.len(), self.scope.len());
        self.scope.push(Scoped::Counter(counter, var));
        self.loops += 1;
        let steps = self.steps(&body.stmts)?;
        self.loops -= 1;
        self.scope.truncate(scope);
        // There may be no iteration.
        self.filled.truncate(filled);
        Some(TileStep::Repeat { counter, bounds: Box::new([start, end]), step, body: steps })
    }

    /// Returns the step of an `if`.
    fn branch(&mut self, expr: &'e Expr) -> Option<TileStep> {
        let ExprKind::If { cond, then, other } = &expr.kind else { return None };
        if then.tail.is_some() || other.as_ref().is_some_and(|other| other.tail.is_some()) {
            return None;
        }
        let condition = self.module(I32, &[], |body, _| {
            let cond = body.scalar(cond)?;
            Ok(body.out.convert(cond, Scalar::I32, expr.span))
        })?;
        let before = self.filled.clone();
        let then = self.steps(&then.stmts)?;
        let filled = std::mem::replace(&mut self.filled, before);
        let other = other.as_ref().map_or(Some(vec![]), |other| self.steps(&other.stmts))?;
        self.filled.retain(|tile| filled.contains(tile));
        Some(TileStep::If { cond: condition, then, other })
    }

    fn assign(
        &mut self,
        place: &'e Expr,
        op: Option<BinaryOp>,
        value: &'e Expr,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        if let ExprKind::Builtin { builtin: Builtin::Mma, args, .. } = &value.kind {
            let ([sum, a, b], None, Some(to)) = (args.as_slice(), op, self.tile_of(place)) else { return None };
            if !self.is_filled(self.tile_of(sum).filter(|sum| *sum == to)?) {
                return self.refuse(sum.span, "the tile may have no values here");
            }
            let step = self.product(to, a, b, steps)?;
            steps.push(step);
            return Some(());
        }
        let found = TileOperands::of(self, value, steps)?;
        match (self.tile_of(place), &place.kind) {
            (Some(to), _) => self.each(to, op, value, &found, steps),
            (None, ExprKind::Slice { .. }) => self.store(place, op, value, &found, steps),
            _ => None,
        }
    }

    fn is_filled(&self, tile: usize) -> bool {
        self.filled.contains(&tile)
    }

    /// Adds the step that computes a tile of a value.
    fn each(
        &mut self,
        to: usize,
        op: Option<BinaryOp>,
        value: &Expr,
        found: &TileOperands,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let TileVar { scalar, columns, is_lhs, .. } = self.held[to];
        let shape: Vec<u32> = [self.rows].into_iter().chain(columns).collect();
        let mut operands = found.operands.clone();
        if op.is_some() && !operands.contains(&to) {
            operands.push(to);
        }
        self.have_columns(&operands, columns)?;
        // A factor is given as numbers that are rounded to it.
        let given = if is_lhs { Scalar::F32 } else { scalar };
        let element = self.module(Ty::Scalar(given), &operands, |body, made| {
            self.bind(body, &operands, found, made)?;
            let mut from = body.tile(value)?;
            if let (Some(op), Some(at)) = (op, operands.iter().position(|operand| *operand == to)) {
                let before = self.as_tile(to, made.operands[at], value.span);
                from = body.each(TileElementOp::Binary(op), vec![before, from], scalar, value.span)?;
            }
            if from.scalar != scalar {
                return Err(super::error::internal(value.span, "a tile of another type"));
            }
            if let (true, TileNode::Each(TileElementOp::Convert(_), parts)) = (given != scalar, &from.node)
                && let [number] = parts.as_slice()
                && number.scalar == given
            {
                from = number.clone();
            }
            let element = self.element_at(body, &from, &shape, made)?;
            Ok(body.out.convert(element, given, value.span))
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
        place: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
        found: &TileOperands,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let (mut shape, mut param) = (vec![], None);
        let element = self.effect(&found.operands, |body, made| {
            self.bind(body, &found.operands, found, made)?;
            let (mut from, to) = (body.tile(value)?, body.tile(place)?);
            if let Some(op) = op {
                from = body.each(TileElementOp::Binary(op), vec![to.clone(), from], to.scalar, place.span)?;
            }
            let TileNode::Part(target) = to.node.clone() else {
                return Err(super::error::internal(place.span, "an assignment to a value"));
            };
            if let MemorySpace::Global { param: position, .. } = body.out.function().memories[target.memory].space {
                param = Some(position);
            }
            body.check_tile_shape(&from, &to)?;
            // Of more axes: the rows run along all but the last one.
            let matrix = match to.shape.as_slice() {
                [others @ .., columns] if others.len() > 1 => vec![others.iter().product(), *columns],
                shape => shape.to_vec(),
            };
            let from = if matrix == to.shape { Some(from) } else { as_matrix(from, &to.shape, &matrix) };
            let from = from.ok_or_else(|| super::error::internal(place.span, "elements of other places"))?;
            let element = self.element_at(body, &from, &matrix, made)?;
            let at = match to.shape.len() {
                n @ 0..=2 => body.broadcast_index(&made.at[..n], &to.shape, place.span),
                _ => {
                    let position = body.position_of(&made.at, &matrix, place.span);
                    body.indices_of(position, &to.shape, place.span)
                }
            };
            shape = matrix;
            body.store_window_element(&target, &at, element, place.span)
        })?;
        let (rows, columns) = match shape.as_slice() {
            [rows] => (*rows, None),
            [rows, columns] => (*rows, Some(*columns)),
            _ => return None,
        };
        if !self.has_rows(rows, columns) {
            return self.refuse(place.span, "it stores other rows than those of the tiles");
        }
        self.have_columns(&found.operands, columns)?;
        let param = param?;
        if accessed_arrays(&element).stores != [param] {
            return None;
        }
        // Another thread may have written the same element before.
        if self.loops > 0 || self.stored.contains(&param) {
            steps.push(TileStep::Barrier);
        }
        self.stored.push(param);
        steps.push(TileStep::Map { to: TileTarget::Array(columns), operands: found.operands.clone(), element });
        Some(())
    }

    /// Computes an element, if those of other tiles that it is computed of are at the same place.
    fn element_at(
        &self,
        body: &mut BodyLowering<'_, '_>,
        from: &TileExpr,
        shape: &[u32],
        made: &TileKernelParams<'_>,
    ) -> Fallible<ExprId> {
        let axes = [TileDim::Row, TileDim::Column];
        let whole = TileExpr {
            shape: shape.to_vec(),
            node: TileNode::Each(TileElementOp::Convert(from.scalar), vec![from.clone()]),
            ..*from
        };
        if shape.is_empty() || shape.len() > 2 || !whole.is_in_place(&axes[..shape.len()]) {
            return Err(super::error::internal(from.span, "elements of other places"));
        }
        let at = body.broadcast_index(&made.at[..shape.len()], &from.shape, from.span);
        body.tile_element(from, &at)
    }

    /// Returns `Some` if the operands of a step have its columns, or one value for each row.
    fn have_columns(&self, operands: &[usize], columns: Option<u32>) -> Option<()> {
        let fits = |&tile: &usize| self.held[tile].columns.is_none_or(|own| Some(own) == columns);
        operands.iter().all(fits).then_some(())
    }

    fn as_tile(&self, tile: usize, value: ExprId, span: Span) -> TileExpr {
        let TileVar { scalar, columns, .. } = self.held[tile];
        let shape = [self.rows].into_iter().chain(columns).collect();
        TileExpr { shape, scalar, node: TileNode::Same(value), span }
    }

    /// Makes elements of tiles, and what reductions gave, known to a body.
    fn bind(
        &self,
        body: &mut BodyLowering<'_, '_>,
        operands: &[usize],
        found: &TileOperands,
        made: &TileKernelParams<'_>,
    ) -> Fallible<()> {
        for (&tile, &value) in operands.iter().zip(made.operands) {
            for (local, _) in self.known.iter().filter(|(_, known)| *known == tile) {
                body.tiles.insert(*local, self.as_tile(tile, value, Span::default()));
            }
            for (span, _) in found.given.iter().filter(|(_, given)| *given == tile) {
                body.reduction_results.insert(*span, self.as_tile(tile, value, *span));
            }
        }
        Ok(())
    }

    /// Returns a product, as the sum and the factors.
    fn product(&mut self, sum: usize, a: &Expr, b: &Expr, steps: &mut Vec<TileStep>) -> Option<TileStep> {
        let TileVar { scalar: Scalar::F32, columns: Some(columns), .. } = self.held[sum] else { return None };
        let rows = self.rows;
        let (b, [terms, width]) = self.part(b)?;
        let scalar = b.scalar;
        let (a, shape) = match self.tile_of(a) {
            Some(tile) => (TileGemmOperand::Tile(tile), [rows, self.held[tile].columns?]),
            None => match self.part(a) {
                Some((part, shape)) => (TileGemmOperand::Window(part), shape),
                // An expression of tiles.
                None => {
                    let found = TileOperands::of(self, a, steps)?;
                    let tile = self.hold_factor("factor".into(), scalar, terms)?;
                    self.each(tile, None, a, &found, steps)?;
                    (TileGemmOperand::Tile(tile), [rows, terms])
                }
            },
        };
        let fits = match &a {
            TileGemmOperand::Tile(tile) => {
                let TileVar { scalar: own, is_lhs: is_factor, .. } = self.held[*tile];
                self.is_filled(*tile) && own == scalar && is_factor
            }
            TileGemmOperand::Window(part) => part.scalar == scalar,
        };
        let fits = fits && shape == [rows, terms] && width == columns && terms.is_multiple_of(GROUP);
        fits.then_some(TileStep::Mma { sum, terms, a, b })
    }

    /// Returns a factor that is a part of an array that nobody writes, and the rows and columns that it has as a
    /// factor.
    fn part(&self, expr: &Expr) -> Option<(ArrayWindow, [u32; 2])> {
        let mut found = None;
        self.scratch(|body| {
            let (tile, is_rounded) = unrounded(body.tile(expr)?);
            let Some(MatrixWindow { part, transposed }) = MatrixWindow::of(&tile) else { return Ok(()) };
            let memory = &body.out.function().memories[part.memory];
            // Of `f32`, tensor cores multiply what is rounded, and nothing else is.
            if let (MemorySpace::Global { param, access: Access::In }, true) =
                (memory.space, is_rounded == (tile.scalar == Scalar::F32))
            {
                found = Some((param, tile.scalar, transposed, tile.shape.clone(), windows(&tile)));
            }
            Ok(())
        })?;
        let (param, scalar, transposed, shape, windows) = found?;
        let windows = windows?;
        let len = windows.iter().map(|&(extent, ..)| u64::from(extent)).fold(1, u64::saturating_mul);
        if !(1..=MAX_LEN).contains(&len) {
            return None;
        }
        let is_factor = scalar == Scalar::F32 || is_narrow_factor(scalar);
        if !is_factor || windows.len() > ArrayWindow::MAX_AXES || windows.len() < 2 {
            return None;
        }
        let start = |axis: usize| {
            self.module(I32, &[], |body, _| {
                let (tile, _) = unrounded(body.tile(expr)?);
                match MatrixWindow::of(&tile).and_then(|matrix| matrix.part.axes.get(axis).copied()) {
                    Some(TileAxisIndex::At(start) | TileAxisIndex::From(AxisRange { start: Some(start), .. }))
                        if body.out.ty(start) == I32 =>
                    {
                        Ok(start)
                    }
                    Some(TileAxisIndex::From(AxisRange { start: None, .. })) => Ok(body.out.i32(0, expr.span)),
                    _ => Err(super::error::internal(expr.span, "a start that is no `i32`")),
                }
            })
        };
        let axis = |(at, &(extent, step, is_index)): (usize, &(u32, u32, bool))| {
            Some(TileAxis { start: start(at)?, extent, step, is_index })
        };
        let axes = windows.iter().enumerate().map(axis).collect::<Option<Vec<TileAxis>>>()?;
        let element = self.module(Ty::Scalar(scalar), &[], |body, made| {
            let (tile, _) = unrounded(body.tile(expr)?);
            let [row, column] = made.at;
            let at = if transposed { [column, row] } else { [row, column] };
            body.tile_element(&tile, &at)
        })?;
        let part = ArrayWindow { param, scalar, transposed, axes, element };
        let shape = <[u32; 2]>::try_from(shape).ok()?;
        let [rows, columns] = part.extents();
        let fits = shape == if transposed { [columns, rows] } else { [rows, columns] };
        fits.then_some((part, shape))
    }

    // Kernels

    /// Lowers something that is not kept.
    fn scratch(&self, fill: impl FnOnce(&mut BodyLowering<'_, '_>) -> Fallible<()>) -> Option<()> {
        self.made(&[], |body, _| fill(body)).map(drop)
    }

    /// Makes a kernel that computes a value.
    fn module(
        &self,
        ty: Ty,
        operands: &[usize],
        fill: impl FnOnce(&mut BodyLowering<'_, '_>, &TileKernelParams<'_>) -> Fallible<ExprId>,
    ) -> Option<Module> {
        let module = self.effect(operands, |body, made| {
            let value = fill(body, made)?;
            let span = body.out.function().span;
            if body.out.ty(value) != ty {
                return Err(super::error::internal(span, "a value of another type"));
            }
            let memory = body.out.at(span).array("result", Access::Out, ElementLayout::plain(ty), 0);
            let place = def::Place { memory, indices: vec![], leaf: 0, component: None };
            body.out.stmt(def::StmtKind::Store { place, value, hint: def::CacheHint::None }, span);
            Ok(())
        })?;
        let result = module.kernel.params.len().checked_sub(1)? as u32;
        (accessed_arrays(&module).stores == [result]).then_some(module)
    }

    /// Makes a kernel of elements that stores.
    fn effect(
        &self,
        operands: &[usize],
        fill: impl FnOnce(&mut BodyLowering<'_, '_>, &TileKernelParams<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        let made = self.made(operands, fill)?;
        let access_of = |param: u32| made.kernel.params.get(param as usize).and_then(def::KernelParam::access);
        let AccessedArrays { loads, stores } = accessed_arrays(&made);
        let is_allowed =
            |param: u32| access_of(param) == Some(Access::In) || stores == [param] && updates_in_place(&made, param);
        if !loads.into_iter().all(is_allowed) {
            return self.refuse(made.kernel.span, "a tile program does not read an array that it writes");
        }
        let is_elementwise = made.functions.iter().all(|(_, function)| is_elementwise(function));
        is_elementwise.then_some(made)
    }

    fn made(
        &self,
        operands: &[usize],
        fill: impl FnOnce(&mut BodyLowering<'_, '_>, &TileKernelParams<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        let span = self.kernel.name_span;
        if !operands.iter().all(|&tile| self.is_filled(tile)) {
            return self.refuse(span, "a tile may be read before it has values");
        }
        if operands.iter().any(|&tile| self.held[tile].is_lhs) {
            return self.refuse(span, "a step reads elements of a left operand of products");
        }
        let types: Vec<Ty> = operands.iter().map(|&tile| Ty::Scalar(self.held[tile].scalar)).collect();
        self.kernel_of(&types, fill)
    }

    /// Makes a kernel with parameters of these types behind those of all kernels of this program.
    fn kernel_of(
        &self,
        types: &[Ty],
        fill: impl FnOnce(&mut BodyLowering<'_, '_>, &TileKernelParams<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        let span = self.kernel.span;
        let mut unit = ModuleLowering::of_kernel(self.program, self.instance);
        let (dims, locals) = (self.kernel.sig.dims.len(), &self.typed.locals);
        let out = ExprEmitter::new(format!("{}_step", self.kernel.name), span);
        let mut body = BodyLowering::new(&mut unit, &self.instance.arguments, dims, locals, out);
        body.launch_parameters(self.kernel, self.instance).ok()?;
        let block = ["block_x", "block_y", "block_z"].map(|name| body.out.at(span).value(name, I32));
        let counters: Vec<ExprId> = self.names.iter().map(|name| body.out.at(span).value(name.as_str(), I32)).collect();
        let operands: Vec<ExprId> = types.iter().map(|&ty| body.out.at(span).value("x", ty)).collect();
        let at = [0, 1].map(|k| body.out.at(span).index(k));
        body.block = Some(block);
        for scoped in &self.scope {
            match scoped {
                Scoped::Let(stmt) => body.stmt(stmt).ok()?,
                Scoped::Counter(counter, var) => {
                    body.slots.insert(*var, LoweredLocal::Value(vec![counters[*counter]]));
                }
            }
        }
        fill(&mut body, &TileKernelParams { at, operands: &operands }).ok()?;
        let builder = body.out.into_builder();
        let functions = std::mem::take(&mut unit.functions);
        (!unit.has_errors()).then(|| build_module(functions, builder, LaunchForm::Threads { rank: 2 }))
    }
}

/// A part of an array as a matrix, whose columns are along the last axis.
struct MatrixWindow<'t> {
    part: &'t TileWindow,
    transposed: bool,
}

impl MatrixWindow<'_> {
    fn of(tile: &TileExpr) -> Option<MatrixWindow<'_>> {
        let (transposed, of) = match &tile.node {
            TileNode::Transposed(of) => (true, &**of),
            _ => (false, tile),
        };
        let part = match &of.node {
            TileNode::Part(part) => part,
            TileNode::Reshaped(inner) => match &inner.node {
                TileNode::Part(part) if inner.shape.last() == of.shape.last() => part,
                _ => return None,
            },
            _ => return None,
        };
        Some(MatrixWindow { part, transposed })
    }
}

/// Returns a part of an array without what rounds its elements to tf32, and whether something does.
fn unrounded(tile: TileExpr) -> (TileExpr, bool) {
    let TileExpr { shape, scalar, node, span } = tile;
    let (node, is_rounded) = match node {
        TileNode::Each(TileElementOp::Builtin(Builtin::Math(MathFn::Tf32)), parts) if parts.len() == 1 => {
            let node = parts.into_iter().map(|part| unrounded(part).0.node).next();
            (node.unwrap_or(TileNode::Count), true)
        }
        TileNode::Transposed(of) => {
            let (of, is_rounded) = unrounded(*of);
            (TileNode::Transposed(Box::new(of)), is_rounded)
        }
        TileNode::Reshaped(of) => {
            let (of, is_rounded) = unrounded(*of);
            (TileNode::Reshaped(Box::new(of)), is_rounded)
        }
        node => (node, false),
    };
    (TileExpr { shape, scalar, node, span }, is_rounded)
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

/// Returns the extents and steps along all axes of the array that a matrix is a part of, and whether the part has one
/// index there. `None` if the part ends before the edge of the array, or if its rows are not contiguous.
fn windows(tile: &TileExpr) -> Option<Vec<(u32, u32, bool)>> {
    let MatrixWindow { part, .. } = MatrixWindow::of(tile)?;
    let mut shape = match &tile.node {
        TileNode::Transposed(of) | TileNode::Reshaped(of) => match &of.node {
            TileNode::Reshaped(inner) => inner.shape.iter(),
            _ => of.shape.iter(),
        },
        _ => tile.shape.iter(),
    };
    let (last, others) = part.axes.split_last()?;
    let of = |along: &TileAxisIndex, shape: &mut std::slice::Iter<'_, u32>| match along {
        TileAxisIndex::At(_) => Some((1, 1, true)),
        TileAxisIndex::From(AxisRange { step, end: None, .. }) => Some((*shape.next()?, *step, false)),
        TileAxisIndex::From(_) => None,
    };
    let mut found = others.iter().map(|along| of(along, &mut shape)).collect::<Option<Vec<_>>>()?;
    found.push(of(last, &mut shape).filter(|&(_, step, is_index)| step == 1 && !is_index)?);
    Some(found)
}

/// Returns the extents of a shared array, and the span of its declaration.
fn shared_extents(stmts: &[Stmt], wanted: LocalId) -> Option<(&[Expr], Span)> {
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Shared { local, extents } => (*local == wanted).then_some((extents.as_slice(), stmt.span)),
        _ => blocks(stmt).find_map(|block| shared_extents(&block.stmts, wanted)),
    })
}

/// Returns the rows and columns of an array with known extents. An array with one axis has no columns.
fn matrix_extents(memory: &Memory) -> Option<(u32, Option<u32>)> {
    let known = |extent: &Extent| if let Extent::Known(n) = extent { Some(*n) } else { None };
    match memory.extents.as_slice() {
        [rows] => Some((known(rows)?, None)),
        [rows, columns] => Some((known(rows)?, Some(known(columns)?))),
        _ => None,
    }
}

/// Returns whether a pattern names only numbers that do not change.
fn names_numbers(pattern: &Pattern, ty: &Type, locals: &Arena<typed::Local>) -> bool {
    match (pattern, ty) {
        (Pattern::Local(id), Type::Scalar(_)) => !locals[*id].mutable,
        (Pattern::Discard, Type::Scalar(_)) => true,
        (Pattern::Tuple(parts), Type::Tuple(types)) => {
            parts.iter().zip(types.iter()).all(|(part, ty)| names_numbers(part, ty, locals))
        }
        _ => false,
    }
}

/// The tiles that an expression is computed of: those that it names, and what its reductions give.
#[derive(Default)]
struct TileOperands {
    operands: Vec<usize>,
    given: Vec<(Span, usize)>,
}

impl TileOperands {
    /// Adds the steps of an expression's reductions.
    fn of(finder: &mut TileProgramFinder<'_>, value: &Expr, steps: &mut Vec<TileStep>) -> Option<TileOperands> {
        let (mut found, mut ok) = (TileOperands::default(), true);
        visit::expr(value, &mut |expr| {
            let is_inner =
                found.given.iter().any(|(span, _)| span.start <= expr.span.start && expr.span.end <= span.end);
            if !ok || is_inner {
                return;
            }
            let operand = match reduction(expr) {
                Some((fold, of, axis)) => {
                    let given = finder.reduced(fold, of, axis, steps);
                    ok &= given.is_some();
                    given.inspect(|&tile| found.given.push((expr.span, tile)))
                }
                None => finder.tile_of(expr),
            };
            found.operands.extend(operand.filter(|operand| !found.operands.contains(operand)));
        });
        ok.then_some(found)
    }
}

/// Returns how elements are put together, of what, and along which axis.
fn reduction(expr: &Expr) -> Option<(TileReductionOp, &Expr, Option<&Expr>)> {
    let ExprKind::Builtin { builtin, args, named } = &expr.kind else { return None };
    args.first().filter(|of| matches!(of.ty, Type::Array(_)))?;
    let axis = args.get(1).or(named.first().map(|(_, axis)| axis));
    let fold = match builtin {
        Builtin::Sum => TileReductionOp::Operator(BinaryOp::Add),
        Builtin::Math(f @ (MathFn::Min | MathFn::Max)) if args.len() == 1 || !named.is_empty() => {
            TileReductionOp::Math(*f)
        }
        _ => return None,
    };
    Some((fold, args.first()?, axis))
}

impl TileProgramFinder<'_> {
    /// Adds the steps that reduce along the columns; returns the tile of the result.
    fn reduced(
        &mut self,
        fold: TileReductionOp,
        of: &Expr,
        axis: Option<&Expr>,
        steps: &mut Vec<TileStep>,
    ) -> Option<usize> {
        let mut number = None;
        let axis = axis?;
        self.scratch(|body| body.number(axis).map(|n| number = n))?;
        if number != Some(1) {
            return None;
        }
        let of = match self.tile_of(of) {
            Some(tile) => tile,
            None => self.computed(of, steps)?,
        };
        let TileVar { scalar, columns: Some(_), is_lhs: is_factor, .. } = self.held[of] else { return None };
        if !self.is_filled(of) || is_factor {
            return None;
        }
        let ty = Ty::Scalar(scalar);
        let module = self.kernel_of(&[ty, ty], |body, made| {
            let span = body.out.function().span;
            let value = body.reduce_pair(fold, made.operands[0], made.operands[1], span)?;
            let memory = body.out.at(span).array("result", Access::Out, ElementLayout::plain(ty), 0);
            let place = def::Place { memory, indices: vec![], leaf: 0, component: None };
            body.out.stmt(def::StmtKind::Store { place, value, hint: def::CacheHint::None }, span);
            Ok(())
        })?;
        let to = self.hold("folded".into(), scalar, None);
        self.filled.push(to);
        steps.push(TileStep::Reduce { to, of, combine: module });
        Some(to)
    }

    /// Adds the steps that compute an expression of whole tiles; returns the tile.
    fn computed(&mut self, value: &Expr, steps: &mut Vec<TileStep>) -> Option<usize> {
        let found = TileOperands::of(self, value, steps)?;
        let mut of = None;
        let made = self.made(&found.operands, |body, made| {
            self.bind(body, &found.operands, &found, made)?;
            let tile = body.tile(value)?;
            of = Some((tile.shape, tile.scalar));
            Ok(())
        });
        made?;
        let (shape, scalar) = of?;
        let &[rows, columns] = shape.as_slice() else { return None };
        if !self.has_rows(rows, Some(columns)) {
            return None;
        }
        let tile = self.hold("value".into(), scalar, Some(columns));
        self.each(tile, None, value, &found, steps)?;
        Some(tile)
    }
}
