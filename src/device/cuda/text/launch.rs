//! Application of the rules of [`abi`](super::abi) to a launch.

use super::abi::{CudaKernel, Geometry, LaunchFacts, MAX_GRID, NARROW, Piece, Place, PlaceKind, Size, symbol};
use super::generator::Gen;
use super::product;
use crate::base::source::Span;
use crate::device::Extents;
use crate::ir::def::*;
use crate::ir::ranges::{Bound, Symbol};
use crate::lang::scalar::{Value, dynamic, format};

/// The geometry of a CUDA launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

/// A failure to lay out shared memory, and the span of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedFault {
    pub why: SharedRefusal,
    pub span: Span,
}

/// Why a block cannot have its shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SharedRefusal {
    /// It needs this many bytes.
    Bytes(u64),
    /// The array with this name would have this extent.
    Extent(String, i64),
}

/// The maximum shared memory of a block, as in the simulator.
pub(crate) const SHARED_LIMIT: u64 = 227 * 1024;

/// Returns whether a narrow text suffices: 32 bits hold every offset, and no index comes near their limit.
pub(crate) fn is_narrow(module: &Module, facts: &dyn LaunchFacts) -> bool {
    let fits = |n: u64| n <= NARROW;
    let arrays = (0..module.kernel.params.len()).all(|param| {
        let rank = facts.rank(param).unwrap_or(0);
        let extents: Vec<u64> = (0..rank).filter_map(|axis| facts.extent(param, axis)).map(u64::from).collect();
        let elements = extents.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        extents.iter().all(|&n| fits(n)) && elements.is_some_and(|n| n <= i32::MAX as u64)
    });
    arrays
        && match facts.extents() {
            Extents::Threads(sizes) => {
                // Rows and planes also determine the number of blocks, for which CUDA has lower limits.
                fits(sizes[0].into()) && fits(sizes[1].into()) && fits(sizes[2].into()) && {
                    let rank = match module.kernel.form {
                        Form::Threads { rank } => rank,
                        Form::Grid => 1,
                    };
                    (0..rank.saturating_sub(1) as usize).all(|k| sizes[k] <= MAX_GRID[1])
                }
            }
            Extents::Grid { grid, block } => (0..3).all(|k| fits(u64::from(grid[k]) * u64::from(block[k]))),
        }
}

impl CudaKernel {
    /// Returns the places of the accesses that the text guards, one for each.
    pub fn guarded(&self) -> Vec<Span> {
        let access = |place: &&Place| matches!(place.kind, PlaceKind::OutOfBounds { .. });
        self.places.iter().filter(access).map(|place| place.span).collect()
    }

    /// Returns whether the text's assumptions hold for a launch.
    pub(crate) fn assumptions_hold(&self, facts: &dyn LaunchFacts) -> bool {
        self.assumptions.iter().all(|bound| holds(bound, facts) == Some(true))
    }

    /// Returns the extents that parameters and conditions of the text refer to.
    pub(crate) fn own_extents(&self, extents: Extents) -> Extents {
        match (self.geometry, extents) {
            (Geometry::Product { tile, .. }, Extents::Grid { grid, .. }) => product::extents(tile, grid),
            _ => extents,
        }
    }

    /// Returns grid and block; `None` if there is nothing to run. Blocks of a product take one tile after the other, so that there may
    /// be fewer of them.
    pub(crate) fn grid(&self, extents: Extents) -> Option<Grid> {
        match (self.geometry, self.own_extents(extents)) {
            (Geometry::Product { own, threads, .. }, Extents::Threads([rows, columns, _])) => {
                let tiles = product::tiles(own, rows, columns).try_into().ok().filter(|&tiles| tiles > 0);
                tiles.map(|tiles| Grid { grid: [tiles, 1, 1], block: [threads, 1, 1] })
            }
            (Geometry::Threads { rank, block, covers }, Extents::Threads(sizes)) => {
                let mut grid = [1; 3];
                for (axis, blocks) in grid.iter_mut().enumerate().take(rank as usize) {
                    let size = sizes[rank as usize - 1 - axis];
                    *blocks = size.div_ceil(covers[axis]).min(MAX_GRID[axis]);
                }
                grid.iter().all(|&n| n > 0).then_some(Grid { grid, block })
            }
            (Geometry::Tiles { threads, .. }, Extents::Grid { grid, block }) => {
                grid.iter().chain(&block).all(|&n| n > 0).then_some(Grid { grid, block: [threads, 1, 1] })
            }
            (_, Extents::Grid { grid, block }) => {
                grid.iter().chain(&block).all(|&n| n > 0).then_some(Grid { grid, block })
            }
            (Geometry::Grid | Geometry::Tiles { .. }, Extents::Threads(_)) => None,
        }
    }

    /// Returns the bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(&self, module: &Module, facts: &dyn LaunchFacts) -> Result<u32, SharedFault> {
        match self.geometry {
            Geometry::Product { shared, .. } | Geometry::Tiles { shared, .. } => return Ok(shared),
            _ => {}
        }
        let function = &module.functions[module.kernel.body];
        let mut used = 0u64;
        for array in &self.dynamic_shared {
            let mut bytes = array.element as u64;
            for extent in &array.extents {
                let n = match extent {
                    Size::Known(n) => u64::from(*n),
                    Size::Computed(id) => {
                        let value = evaluate(function, *id, facts).and_then(Value::as_integer);
                        let extent = value.map_or(i64::MIN, |n| i64::try_from(n).unwrap_or(i64::MAX));
                        let why = || SharedRefusal::Extent(array.name.clone(), extent);
                        u64::try_from(extent).map_err(|_| SharedFault { why: why(), span: array.span })?
                    }
                };
                bytes = bytes.saturating_mul(n);
            }
            used = used.next_multiple_of(16).saturating_add(bytes);
            let total = used.saturating_add(self.static_shared.into());
            if total > SHARED_LIMIT {
                return Err(SharedFault { why: SharedRefusal::Bytes(total), span: array.span });
            }
        }
        Ok(used.next_multiple_of(16) as u32)
    }

    /// Returns the text in a print buffer, ordered by block, and within a block (or a `threads` kernel) by statement and thread;
    /// and the number of lost records.
    pub fn printed(&self, buffer: &[u8]) -> (String, u64) {
        let word =
            |at: usize| buffer.get(4 * at..4 * at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let threads = matches!(self.geometry, Geometry::Threads { .. });
        let (used, capacity) = (word(0) as usize, word(1) as usize);
        let mut records = vec![];
        let (mut at, mut lost) = (2, 0);
        while at < 2 + used.min(capacity) && word(at) != 0 {
            let (number, thread, block) = (word(at + 2), word(at + 3), long(at + 4));
            let group = if threads { 0 } else { block };
            let who = if threads { block } else { thread.into() };
            records.push(((group, number, who), at));
            at += word(at) as usize;
        }
        if used > capacity {
            lost = (used - capacity.min(at - 2)) as u64;
        }
        records.sort();
        let mut text = String::new();
        for (_, at) in records {
            let Some(pieces) = self.prints.get(word(at + 1) as usize) else { continue };
            let values = (at + 6..at + word(at) as usize).step_by(2).map(long);
            text.push_str(&message(pieces, values));
        }
        (text, lost)
    }
}

/// Formats a message with its values.
pub(crate) fn message(pieces: &[Piece], values: impl IntoIterator<Item = u64>) -> String {
    let mut values = values.into_iter();
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Value(ty, spec) => {
                let lanes = values.by_ref().take(ty.lanes() as usize).map(|bits| {
                    let value = Value::from_bits(ty.scalar(), bits);
                    format::format(value, spec).unwrap_or_else(|_| format::plain(value))
                });
                let lanes: Vec<String> = lanes.collect();
                match ty {
                    Ty::Scalar(_) => text.push_str(&lanes.concat()),
                    Ty::Vector(..) => text.push_str(&format!("({})", lanes.join(", "))),
                }
            }
        }
    }
    text
}

/// Returns whether a bound holds; `None` if the launch has no such constant.
fn holds(bound: &Bound, facts: &dyn LaunchFacts) -> Option<bool> {
    let left = match bound.left {
        Some(left) => symbol(facts, left)?,
        None => 0,
    };
    let right = match bound.right {
        Ok(right) => symbol(facts, right)?,
        Err(number) => number.into(),
    };
    Some(left + i128::from(bound.plus) <= right)
}

/// Evaluates a launch-uniform expression; `None` if it has no value or is not uniform.
fn evaluate(function: &Function, id: ExprId, facts: &dyn LaunchFacts) -> Option<Value> {
    let expr = function.exprs.get(id)?;
    let number = |n: u32| Some(Value::of(n as i32));
    let of = |id: ExprId| evaluate(function, id, facts);
    match &expr.kind {
        ExprKind::Const(bits) => Some(Value { ty: expr.ty.scalar(), bits: *bits }),
        ExprKind::Param(i) => facts.value(*i as usize),
        ExprKind::Id(id, axis) => match (id, facts.extents()) {
            (Id3::BlockDim, Extents::Grid { block, .. }) => number(block[*axis as usize]),
            (Id3::GridDim, Extents::Grid { grid, .. }) => number(grid[*axis as usize]),
            _ => None,
        },
        ExprKind::Extent(memory, axis) => match function.memories[*memory].space {
            Space::Global { param, .. } => number(facts.extent(param as usize, *axis as usize)?),
            _ => None,
        },
        ExprKind::Unary { op, value } => dynamic::unary(*op, of(*value)?).ok(),
        ExprKind::Binary { op, left, right } => dynamic::binary(op.operator(), of(*left)?, of(*right)?).ok(),
        ExprKind::Math { function, args } => {
            let args: Option<Vec<Value>> = args.iter().map(|&arg| of(arg)).collect();
            dynamic::math(*function, &args?).ok()
        }
        ExprKind::Select { cond, then, other } => of(if of(*cond)?.is_true() { *then } else { *other }),
        ExprKind::Convert(value) => Some(of(*value)?.to_type(expr.ty.scalar())),
        ExprKind::Bitcast(value) => dynamic::bitcast(expr.ty.scalar(), of(*value)?).ok(),
        _ => None,
    }
}

impl Gen<'_> {
    /// Returns a bound in words.
    pub fn bound(&self, bound: &Bound) -> String {
        let left = match (bound.left, bound.plus) {
            (None, plus) => plus.to_string(),
            (Some(left), 0) => self.symbol_name(left),
            (Some(left), plus) if plus > 0 => format!("{} + {plus}", self.symbol_name(left)),
            (Some(left), plus) => format!("{} - {}", self.symbol_name(left), -plus),
        };
        let right = match bound.right {
            Ok(right) => self.symbol_name(right),
            Err(number) => number.to_string(),
        };
        format!("{left} <= {right}")
    }

    fn symbol_name(&self, symbol: Symbol) -> String {
        let axis = |k: u8| ["x", "y", "z"][k as usize % 3];
        match symbol {
            Symbol::Extent { param, axis } => format!("extent {axis} of {}", self.params[param as usize]),
            Symbol::Param(i) => self.params[i as usize].clone(),
            Symbol::Index(k) => self.indices.get(k as usize).map_or(String::new(), |(_, extent)| extent.clone()),
            Symbol::BlockDim(k) => format!("blockDim.{}", axis(k)),
            Symbol::GridDim(k) => format!("gridDim.{}", axis(k)),
            Symbol::Threads(k) => format!("gridDim.{0} * blockDim.{0}", axis(k)),
        }
    }
}
