//! Programs of tiles: kernels that compute with tiles of values alone, as the steps of a block that hardware can run in its own way.
//!
//! In: a typed kernel. Out: its [`Tiles`], or nothing where it is none. Idea: a statement becomes a step, and what it computes of an
//! element a kernel of its own, in which elements of tiles are parameters; so it matters to nobody where tiles are. The numbers that
//! a statement refers to are computed anew in each of these kernels, since they depend on the block and on counters of loops alone.

use super::emit::Emitter;
use super::error::Fallible;
use super::instance::Instance;
use super::product::{is_of_elements, names_numbers};
use super::tensor::{GROUP, is_narrow_factor};
use super::tile::{Along, Node, Part, Place, Step, Tile, Window};
use super::tiles::Fold;
use super::unit::{Body, Slot, Unit};
use crate::base::source::Span;
use crate::check::typed::{self, Block, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, Type};
use crate::check::walk;
use crate::ir::build::module;
use crate::ir::def::{
    self, Access, ExprId, Extent, Form, HeldTile, Layout, Module, Scalar, Space, TileAxis, TileFactor, TilePart,
    TileStep, TileTarget, Tiles, Ty,
};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn};

const I32: Ty = Ty::Scalar(Scalar::I32);

/// Rows are computed in groups of this size, and columns in groups of that one.
const ROWS: u32 = 64;
const COLUMNS: u32 = 8;
const MOST_ROWS: u32 = 192;
const MOST_COLUMNS: u32 = 256;
/// The elements of a box along an axis, with those that its steps leave out, and these steps.
const MOST_BOX: u32 = 256;
const MOST_BOX_STEP: u32 = 8;

/// Returns the steps of a kernel that is a program of tiles.
pub(super) fn tiles(program: &Program, kernel: &typed::Kernel, instance: &Instance) -> Option<Tiles> {
    let typed::Geometry::Grid { .. } = kernel.geometry else { return None };
    let typed = kernel.body.as_deref()?;
    let is_product = |stmts: &[Stmt]| stmts.iter().any(has_product);
    // Where `mma` adds in `f32` nothing has tensor cores, but the program remains one whose tiles a GPU holds in registers.
    let cores = instance.sums.cores();
    if typed.root.tail.is_some() || !is_product(&typed.root.stmts) {
        return None;
    }
    let mut finder = Finder {
        program,
        kernel,
        instance,
        typed,
        rows: None,
        held: vec![],
        known: vec![],
        counters: vec![],
        names: vec![],
        scope: vec![],
        filled: vec![],
        stored: vec![],
        loops: 0,
    };
    finder.counters_in(&typed.root.stmts);
    let steps = finder.steps(&typed.root.stmts)?;
    Some(Tiles { cores, rows: finder.rows?, held: finder.held, counters: finder.names, steps })
}

/// Whether a statement, or one in it, assigns a product; others are not worth the search.
fn has_product(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Assign { value, .. } => matches!(value.kind, ExprKind::Builtin { builtin: Builtin::Mma, .. }),
        _ => blocks(stmt).any(|block| block.stmts.iter().any(has_product)),
    }
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

struct Finder<'e> {
    program: &'e Program,
    kernel: &'e typed::Kernel,
    instance: &'e Instance,
    typed: &'e typed::Body,
    rows: Option<u32>,
    held: Vec<HeldTile>,
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
}

/// What a statement's kernel has as its parameters.
struct Made<'b> {
    at: [ExprId; 2],
    operands: &'b [ExprId],
}

impl<'e> Finder<'e> {
    fn counters_in(&mut self, stmts: &'e [Stmt]) {
        for stmt in stmts {
            if let StmtKind::For { var, .. } = &stmt.kind {
                self.counters.push(*var);
                self.names.push(self.typed.locals.get(*var).map_or_else(String::new, |local| local.name.to_string()));
            }
            blocks(stmt).for_each(|block| self.counters_in(&block.stmts));
        }
    }

    fn steps(&mut self, stmts: &'e [Stmt]) -> Option<Vec<TileStep>> {
        let (scope, mut steps) = (self.scope.len(), vec![]);
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Shared { local, extents } => self.declare(*local, extents, stmt.span)?,
                StmtKind::Let { pattern, value: Some(value), .. } => {
                    names_numbers(pattern, &value.ty, &self.typed.locals)
                        .then(|| self.scope.push(Scoped::Let(stmt)))?;
                }
                StmtKind::Assign { place, op, value } => self.assign(place, *op, value, &mut steps)?,
                StmtKind::For { var, iter, body, .. } => steps.push(self.repeat(*var, iter, body)?),
                StmtKind::Expr { expr, .. } => steps.push(self.branch(expr)?),
                _ => return None,
            }
        }
        self.scope.truncate(scope);
        Some(steps)
    }

    fn declare(&mut self, local: LocalId, extents: &'e [Expr], span: Span) -> Option<()> {
        let typed = self.typed;
        let mut declared = None;
        self.scratch(|body| {
            body.shared(local, extents, span)?;
            if let Some(Slot::Array(memory)) = body.slots.get(&local) {
                declared = Some(body.out.function().memories[*memory].clone());
            }
            Ok(())
        })?;
        let memory = declared?;
        let [leaf] = memory.layout.leaves.as_slice() else { return None };
        let (Ty::Scalar(scalar), true) = (leaf.ty, leaf.path.is_empty()) else { return None };
        let known = |extent: &Extent| if let Extent::Known(n) = extent { Some(*n) } else { None };
        let (rows, columns) = match memory.extents.as_slice() {
            [rows] => (known(rows)?, None),
            [rows, columns] => (known(rows)?, Some(known(columns)?)),
            _ => return None,
        };
        self.has_rows(rows, columns)?;
        let name = typed.locals.get(local)?.name.to_string();
        self.known.push((local, self.held.len()));
        self.hold(name, scalar, columns).map(drop)
    }

    /// Whether tiles of this shape can be held.
    fn has_rows(&mut self, rows: u32, columns: Option<u32>) -> Option<()> {
        let fits = rows.is_multiple_of(ROWS) && rows <= MOST_ROWS && *self.rows.get_or_insert(rows) == rows;
        let fits = fits && columns.is_none_or(|n| n.is_multiple_of(COLUMNS) && n <= MOST_COLUMNS);
        fits.then_some(())
    }

    fn hold(&mut self, name: String, scalar: Scalar, columns: Option<u32>) -> Option<usize> {
        if is_narrow_factor(scalar) {
            return self.hold_factor(name, scalar, columns?);
        }
        let is_word = matches!(scalar, Scalar::F32 | Scalar::I32 | Scalar::U32);
        is_word.then(|| self.keep(HeldTile { name, scalar, columns, is_factor: false }))
    }

    fn hold_factor(&mut self, name: String, scalar: Scalar, columns: u32) -> Option<usize> {
        let tile = HeldTile { name, scalar, columns: Some(columns), is_factor: true };
        columns.is_multiple_of(GROUP).then(|| self.keep(tile))
    }

    fn keep(&mut self, tile: HeldTile) -> usize {
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
        let step = by.and_then(|by| u32::try_from(by).ok()).filter(|&by| by > 0 && by <= 1 << 20)?;
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
                return None;
            }
            let step = self.product(to, a, b, steps)?;
            steps.push(step);
            return Some(());
        }
        let found = Found::of(self, value, steps)?;
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
        found: &Found,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let HeldTile { scalar, columns, .. } = self.held[to];
        let shape = self.shape(columns)?;
        let mut operands = found.operands.clone();
        if op.is_some() && !operands.contains(&to) {
            operands.push(to);
        }
        // A factor is given as numbers that are rounded to it.
        let given = if is_narrow_factor(scalar) { Scalar::F32 } else { scalar };
        let element = self.module(Ty::Scalar(given), &operands, |body, made| {
            self.bind(body, &operands, found, made)?;
            let mut from = body.tile(value)?;
            if let (Some(op), Some(at)) = (op, operands.iter().position(|operand| *operand == to)) {
                let before = self.as_tile(to, made.operands[at], value.span);
                from = body.each(Step::Binary(op), vec![before, from], scalar, value.span)?;
            }
            if from.scalar != scalar {
                return Err(super::error::internal(value.span, "a tile of another type"));
            }
            if let (true, Node::Each(Step::Convert(_), parts)) = (given != scalar, &from.node)
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
        steps.push(TileStep::Each { to: TileTarget::Held(to), operands, element });
        Some(())
    }

    /// Adds the step that stores a value to a part of an array.
    fn store(
        &mut self,
        place: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
        found: &Found,
        steps: &mut Vec<TileStep>,
    ) -> Option<()> {
        let (mut shape, mut param) = (vec![], None);
        let element = self.effect(&found.operands, |body, made| {
            self.bind(body, &found.operands, found, made)?;
            let (from, to) = (body.tile(value)?, body.tile(place)?);
            let Node::Part(target) = to.node.clone() else {
                return Err(super::error::internal(place.span, "an assignment to a value"));
            };
            if let Space::Global { param: position, .. } = body.out.function().memories[target.memory].space {
                param = Some(position);
            }
            body.tile_fits(&from, &to)?;
            // Of more axes: the rows run along all but the last one.
            let matrix = match to.shape.as_slice() {
                [others @ .., columns] if others.len() > 1 => vec![others.iter().product(), *columns],
                shape => shape.to_vec(),
            };
            let from = if matrix == to.shape { Some(from) } else { as_matrix(from, &to.shape, &matrix) };
            let from = from.ok_or_else(|| super::error::internal(place.span, "elements of other places"))?;
            let element = self.element_at(body, &from, &matrix, made)?;
            let at = match to.shape.len() {
                n @ 0..=2 => made.at[..n].to_vec(),
                _ => {
                    let position = body.position_of(&made.at, &matrix, place.span);
                    body.indices_of(position, &to.shape, place.span)
                }
            };
            shape = matrix;
            body.put(&target, &at, element, place.span)
        })?;
        let (rows, columns) = match shape.as_slice() {
            [rows] => (*rows, None),
            [rows, columns] => (*rows, Some(*columns)),
            _ => return None,
        };
        self.has_rows(rows, columns)?;
        // Another thread may have read the same element before.
        if op.is_some() {
            return None;
        }
        // Or written it.
        if self.loops > 0 || self.stored.contains(&param?) {
            steps.push(TileStep::Meet);
        }
        self.stored.push(param?);
        steps.push(TileStep::Each { to: TileTarget::Array(columns), operands: found.operands.clone(), element });
        Some(())
    }

    /// Computes an element, if those of other tiles that it is computed of are at the same place.
    fn element_at(&self, body: &mut Body<'_, '_>, from: &Tile, shape: &[u32], made: &Made<'_>) -> Fallible<ExprId> {
        let axes = [Place::Row, Place::Column];
        let whole =
            Tile { shape: shape.to_vec(), node: Node::Each(Step::Convert(from.scalar), vec![from.clone()]), ..*from };
        if shape.is_empty() || shape.len() > 2 || !whole.is_in_place(&axes[..shape.len()]) {
            return Err(super::error::internal(from.span, "elements of other places"));
        }
        let at = body.broadcast_index(&made.at[..shape.len()], &from.shape, from.span);
        body.tile_element(from, &at)
    }

    fn shape(&self, columns: Option<u32>) -> Option<Vec<u32>> {
        Some([self.rows?].into_iter().chain(columns).collect())
    }

    fn as_tile(&self, tile: usize, value: ExprId, span: Span) -> Tile {
        let HeldTile { scalar, columns, .. } = self.held[tile];
        let shape = self.rows.into_iter().chain(columns).collect();
        Tile { shape, scalar, node: Node::Same(value), span }
    }

    /// Makes elements of tiles, and what reductions gave, known to a body.
    fn bind(&self, body: &mut Body<'_, '_>, operands: &[usize], found: &Found, made: &Made<'_>) -> Fallible<()> {
        for (&tile, &value) in operands.iter().zip(made.operands) {
            for (local, _) in self.known.iter().filter(|(_, known)| *known == tile) {
                body.tiles.insert(*local, self.as_tile(tile, value, Span::default()));
            }
            for (span, _) in found.given.iter().filter(|(_, given)| *given == tile) {
                body.given.insert(*span, self.as_tile(tile, value, *span));
            }
        }
        Ok(())
    }

    /// Returns a product, as the sum and the factors.
    fn product(&mut self, sum: usize, a: &Expr, b: &Expr, steps: &mut Vec<TileStep>) -> Option<TileStep> {
        let HeldTile { scalar: Scalar::F32, columns: Some(columns), .. } = self.held[sum] else { return None };
        let rows = self.rows?;
        let (b, [terms, width]) = self.part(b)?;
        let scalar = b.scalar;
        let (a, shape) = match self.tile_of(a) {
            Some(tile) => (TileFactor::Held(tile), [rows, self.held[tile].columns?]),
            None => match self.part(a) {
                Some((part, shape)) => (TileFactor::Part(part), shape),
                // An expression of tiles.
                None => {
                    let found = Found::of(self, a, steps)?;
                    let tile = self.hold_factor("factor".into(), scalar, terms)?;
                    self.each(tile, None, a, &found, steps)?;
                    (TileFactor::Held(tile), [rows, terms])
                }
            },
        };
        let fits = match &a {
            TileFactor::Held(tile) => {
                let HeldTile { scalar: own, is_factor, .. } = self.held[*tile];
                self.is_filled(*tile) && own == scalar && is_factor
            }
            TileFactor::Part(part) => part.scalar == scalar,
        };
        let fits = fits && shape == [rows, terms] && width == columns && terms.is_multiple_of(GROUP);
        fits.then_some(TileStep::Product { sum, terms, a, b })
    }

    /// Returns a factor that is a part of an array that nobody writes, and the rows and columns that it has as a factor.
    fn part(&self, expr: &Expr) -> Option<(TilePart, [u32; 2])> {
        let mut found = None;
        self.scratch(|body| {
            let (tile, is_rounded) = unrounded(body.tile(expr)?);
            let Some(Matrix { part, transposed }) = Matrix::of(&tile) else { return Ok(()) };
            let memory = &body.out.function().memories[part.memory];
            // Of `f32`, tensor cores multiply what is rounded, and nothing else is.
            if let (Space::Global { param, access: Access::In }, true) =
                (memory.space, is_rounded == (tile.scalar == Scalar::F32))
            {
                found = Some((param, tile.scalar, transposed, tile.shape.clone(), windows(&tile)));
            }
            Ok(())
        })?;
        let (param, scalar, transposed, shape, windows) = found?;
        let windows = windows?;
        let is_factor = scalar == Scalar::F32 || is_narrow_factor(scalar);
        if !is_factor || windows.len() > TilePart::MOST_AXES || windows.len() < 2 {
            return None;
        }
        let start = |axis: usize| {
            self.module(I32, &[], |body, _| {
                let (tile, _) = unrounded(body.tile(expr)?);
                match Matrix::of(&tile).and_then(|matrix| matrix.part.along.get(axis).copied()) {
                    Some(Along::At(start) | Along::From(Window { start: Some(start), .. }))
                        if body.out.ty(start) == I32 =>
                    {
                        Ok(start)
                    }
                    Some(Along::From(Window { start: None, .. })) => Ok(body.out.i32(0, expr.span)),
                    _ => Err(super::error::internal(expr.span, "a start that is no `i32`")),
                }
            })
        };
        let axis = |(at, &(extent, step)): (usize, &(u32, u32))| Some(TileAxis { start: start(at)?, extent, step });
        let axes = windows.iter().enumerate().map(axis).collect::<Option<Vec<TileAxis>>>()?;
        let element = self.module(Ty::Scalar(scalar), &[], |body, made| {
            let (tile, _) = unrounded(body.tile(expr)?);
            let [row, column] = made.at;
            let at = if transposed { [column, row] } else { [row, column] };
            body.tile_element(&tile, &at)
        })?;
        let part = TilePart { param, scalar, transposed, axes, element };
        let shape = <[u32; 2]>::try_from(shape).ok()?;
        let [rows, columns] = part.extents();
        let fits = shape == if transposed { [columns, rows] } else { [rows, columns] };
        (fits && rows <= MOST_COLUMNS && columns <= MOST_COLUMNS).then_some((part, shape))
    }

    // Kernels

    /// Lowers something that is not kept.
    fn scratch(&self, fill: impl FnOnce(&mut Body<'_, '_>) -> Fallible<()>) -> Option<()> {
        self.made(&[], |body, _| fill(body)).map(drop)
    }

    /// Makes a kernel that computes a value.
    fn module(
        &self,
        ty: Ty,
        operands: &[usize],
        fill: impl FnOnce(&mut Body<'_, '_>, &Made<'_>) -> Fallible<ExprId>,
    ) -> Option<Module> {
        self.effect(operands, |body, made| {
            let value = fill(body, made)?;
            let span = body.out.function().span;
            if body.out.ty(value) != ty {
                return Err(super::error::internal(span, "a value of another type"));
            }
            let memory = body.out.at(span).array("result", Access::Out, Layout::plain(ty), 0);
            let place = def::Place { memory, indices: vec![], leaf: 0, component: None };
            body.out.stmt(def::StmtKind::Store { place, value, hint: def::Hint::None }, span);
            Ok(())
        })
    }

    /// Makes a kernel of elements that stores.
    fn effect(
        &self,
        operands: &[usize],
        fill: impl FnOnce(&mut Body<'_, '_>, &Made<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        let made = self.made(operands, fill)?;
        let is_of_elements =
            made.functions.iter().all(|(_, function)| is_of_elements(function) && reads_inputs(function));
        is_of_elements.then_some(made)
    }

    fn made(
        &self,
        operands: &[usize],
        fill: impl FnOnce(&mut Body<'_, '_>, &Made<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        if !operands.iter().all(|&tile| self.is_filled(tile) && !self.held[tile].is_factor) {
            return None;
        }
        let types: Vec<Ty> = operands.iter().map(|&tile| Ty::Scalar(self.held[tile].scalar)).collect();
        self.kernel_of(&types, fill)
    }

    /// Makes a kernel with parameters of these types behind those of all kernels of this program.
    fn kernel_of(
        &self,
        types: &[Ty],
        fill: impl FnOnce(&mut Body<'_, '_>, &Made<'_>) -> Fallible<()>,
    ) -> Option<Module> {
        let span = self.kernel.span;
        let mut unit = Unit::of_kernel(self.program, self.instance);
        let (dims, locals) = (self.kernel.sig.dims.len(), &self.typed.locals);
        let out = Emitter::new(format!("{}_step", self.kernel.name), span);
        let mut body = Body::new(&mut unit, &self.instance.arguments, dims, locals, out);
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
                    body.slots.insert(*var, Slot::Value(vec![counters[*counter]]));
                }
            }
        }
        fill(&mut body, &Made { at, operands: &operands }).ok()?;
        let builder = body.out.into_builder();
        let functions = std::mem::take(&mut unit.functions);
        (!unit.has_errors()).then(|| module(functions, builder, Form::Threads { rank: 2 }))
    }
}

/// A part of an array as a matrix, whose columns are along the last axis.
struct Matrix<'t> {
    part: &'t Part,
    transposed: bool,
}

impl Matrix<'_> {
    fn of(tile: &Tile) -> Option<Matrix<'_>> {
        let (transposed, of) = match &tile.node {
            Node::Transposed(of) => (true, &**of),
            _ => (false, tile),
        };
        let part = match &of.node {
            Node::Part(part) => part,
            Node::Reshaped(inner) => match &inner.node {
                Node::Part(part) if inner.shape.last() == of.shape.last() => part,
                _ => return None,
            },
            _ => return None,
        };
        Some(Matrix { part, transposed })
    }
}

/// Returns a part of an array without what rounds its elements to tf32, and whether something does.
fn unrounded(tile: Tile) -> (Tile, bool) {
    let Tile { shape, scalar, node, span } = tile;
    let (node, is_rounded) = match node {
        Node::Each(Step::Builtin(Builtin::Math(MathFn::Tf32)), parts) if parts.len() == 1 => {
            let node = parts.into_iter().map(|part| unrounded(part).0.node).next();
            (node.unwrap_or(Node::Count), true)
        }
        Node::Transposed(of) => {
            let (of, is_rounded) = unrounded(*of);
            (Node::Transposed(Box::new(of)), is_rounded)
        }
        Node::Reshaped(of) => {
            let (of, is_rounded) = unrounded(*of);
            (Node::Reshaped(Box::new(of)), is_rounded)
        }
        node => (node, false),
    };
    (Tile { shape, scalar, node, span }, is_rounded)
}

/// Returns a value that is assigned to an array of more than two axes as one that is assigned to a matrix with the same elements.
fn as_matrix(from: Tile, shape: &[u32], matrix: &[u32]) -> Option<Tile> {
    let Tile { scalar, span, .. } = from;
    if from.shape.len() < 2 {
        return Some(from);
    }
    if from.shape != shape {
        return None;
    }
    let node = match from.node {
        // A tile that was given more axes has its own again.
        Node::Reshaped(of) if of.shape == matrix => return Some(*of),
        Node::Each(step, parts) => {
            Node::Each(step, parts.into_iter().map(|part| as_matrix(part, shape, matrix)).collect::<Option<_>>()?)
        }
        _ => Node::Reshaped(Box::new(from)),
    };
    Some(Tile { shape: matrix.to_vec(), scalar, node, span })
}

/// Returns the extents and steps along all axes of the array that a matrix is a part of, if copies of boxes can read it.
fn windows(tile: &Tile) -> Option<Vec<(u32, u32)>> {
    let Matrix { part, .. } = Matrix::of(tile)?;
    let mut shape = match &tile.node {
        Node::Transposed(of) | Node::Reshaped(of) => match &of.node {
            Node::Reshaped(inner) => inner.shape.iter(),
            _ => of.shape.iter(),
        },
        _ => tile.shape.iter(),
    };
    let (last, others) = part.along.split_last()?;
    let of = |along: &Along, shape: &mut std::slice::Iter<'_, u32>| match along {
        Along::At(_) => Some((1, 1)),
        Along::From(Window { step, end: None, .. }) if *step <= MOST_BOX_STEP => Some((*shape.next()?, *step)),
        Along::From(_) => None,
    };
    let mut found = others.iter().map(|along| of(along, &mut shape)).collect::<Option<Vec<_>>>()?;
    found.push(of(last, &mut shape).filter(|&(_, step)| step == 1 && matches!(last, Along::From(_)))?);
    found.iter().all(|(extent, step)| (extent - 1) * step < MOST_BOX).then_some(found)
}

/// Whether a function loads only what no thread writes.
fn reads_inputs(function: &def::Function) -> bool {
    function.exprs.iter().all(|(_, expr)| match &expr.kind {
        def::ExprKind::Load { place, .. } => {
            let inputs =
                |space| matches!(space, Space::Global { access: Access::In, .. } | Space::Local | Space::Constant);
            inputs(function.memories[place.memory].space)
        }
        _ => true,
    })
}

/// The tiles that an expression is computed of: those that it names, and what its reductions give.
#[derive(Default)]
struct Found {
    operands: Vec<usize>,
    given: Vec<(Span, usize)>,
}

impl Found {
    /// Adds the steps of an expression's reductions.
    fn of(finder: &mut Finder<'_>, value: &Expr, steps: &mut Vec<TileStep>) -> Option<Found> {
        let (mut found, mut ok) = (Found::default(), true);
        walk::expr(value, &mut |expr| {
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
fn reduction(expr: &Expr) -> Option<(Fold, &Expr, Option<&Expr>)> {
    let ExprKind::Builtin { builtin, args, named } = &expr.kind else { return None };
    let axis = args.get(1).or(named.first().map(|(_, axis)| axis));
    let fold = match builtin {
        Builtin::Sum => Fold::Operator(BinaryOp::Add),
        Builtin::Math(f @ (MathFn::Min | MathFn::Max)) if args.len() == 1 || !named.is_empty() => Fold::Math(*f),
        _ => return None,
    };
    Some((fold, args.first()?, axis))
}

impl Finder<'_> {
    /// Adds the steps that reduce along the columns; returns the tile of the result.
    fn reduced(&mut self, fold: Fold, of: &Expr, axis: Option<&Expr>, steps: &mut Vec<TileStep>) -> Option<usize> {
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
        let HeldTile { scalar, columns: Some(_), is_factor, .. } = self.held[of] else { return None };
        if !self.is_filled(of) || is_factor {
            return None;
        }
        let ty = Ty::Scalar(scalar);
        let module = self.kernel_of(&[ty, ty], |body, made| {
            let span = body.out.function().span;
            let value = body.folded(fold, made.operands[0], made.operands[1], span)?;
            let memory = body.out.at(span).array("result", Access::Out, Layout::plain(ty), 0);
            let place = def::Place { memory, indices: vec![], leaf: 0, component: None };
            body.out.stmt(def::StmtKind::Store { place, value, hint: def::Hint::None }, span);
            Ok(())
        })?;
        let to = self.hold("folded".into(), scalar, None)?;
        self.filled.push(to);
        steps.push(TileStep::Fold { to, of, fold: module });
        Some(to)
    }

    /// Adds the steps that compute an expression of whole tiles; returns the tile.
    fn computed(&mut self, value: &Expr, steps: &mut Vec<TileStep>) -> Option<usize> {
        let found = Found::of(self, value, steps)?;
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
        self.has_rows(rows, Some(columns))?;
        let tile = self.hold("value".into(), scalar, Some(columns))?;
        self.each(tile, None, value, &found, steps)?;
        Some(tile)
    }
}
