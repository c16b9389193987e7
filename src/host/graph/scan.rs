//! Cumulative sums along an axis, in an order that depends on the axis's length alone.
//!
//! # Order
//! The elements are divided into runs of 16. The sum up to an element is the sum of all runs before, plus the sum within its run, which
//! adds one element after the other. The sum of all runs before is computed in the same way from the sums of the runs: the sum of all
//! runs of 16 such sums before, plus the sum within the run of sums; and so on. So an element takes part in `15 log16(n)` additions at
//! most. Floats are added in `f64` and each result is rounded once.
//!
//! # Kernels
//! A block computes a tile of three levels, 4096 elements, in shared memory: first the sum of each tile, then, with the sums before,
//! its elements. The sums of tiles are scanned in the same way. The kernels are those of `std.scan`.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element, MAX_EXTENT, byte_count, shape_text};
use crate::host::graph::fold::SMALL;
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::Rows;
use crate::host::graph::run::{self, broken};
use crate::host::graph::site::Site;
use crate::host::problem::{Outcome, Problem};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value, dynamic};

const TILE: usize = 4096;
const RUN: usize = 16;
const THREADS: u32 = 256;

/// Types of a scan: that in which it adds, and that of its results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adds {
    pub wide: Scalar,
    pub result: Scalar,
}

/// Returns the sums up to each element along the rows of an array, as blocks of rows.
pub(crate) fn scan(array: &Array, rows: Rows, adds: Adds) -> Outcome<Array> {
    let Rows { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| broken("sums of structs"))?;
    let count = outer * len * inner;
    if count == 0 {
        return Array::zeros(adds.result, &[outer, len, inner]);
    }
    let here = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if count <= SMALL && here {
        return on_host(array, scalar, rows, adds);
    }
    let size = count * adds.wide.size();
    let site = run::nearest(&Site::current(), std::iter::once(array), size).clone();
    level(&site, array, rows, adds, false)
}

/// Scans the rows of an array; if `behind`, the results are the sums before each element.
pub(super) fn level(site: &Site, array: &Array, rows: Rows, adds: Adds, behind: bool) -> Outcome<Array> {
    let Rows { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| broken("sums of structs"))?;
    let tiles = len.div_ceil(TILE);
    let shape = [outer, len, inner];
    let blocks = [outer, tiles, inner].iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let Some(blocks) = blocks.filter(|&n| n <= MAX_EXTENT) else {
        let title = format!("cumulative sums of the shape {} are too large for one launch", shape_text(&shape));
        return Err(Problem::new("E0520", title).help("compute them in parts"));
    };
    let extents = Extents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1] };
    let input = || -> Outcome<Arg<'_>> { Ok(Arg::Array { storage: array.storage()?, shape: run::extents(&shape) }) };
    let of_tiles = [outer, tiles, inner];
    let near = Given::Number((!site.is_gpu()).into());
    let before = if tiles == 1 {
        Array::unplaced(adds.wide, &of_tiles)?
    } else {
        let given = [Given::Type(scalar), Given::Type(adds.wide), near];
        let executable = library::kernel(site, "ordered_totals", &given)?;
        let element = Element::Scalar(adds.wide);
        let mut storage = Storage::unset(byte_count(&element, &of_tiles)?);
        let mut args = vec![input()?, Arg::ArrayMut { storage: &mut storage, shape: run::extents(&of_tiles) }];
        library::launch(site, &*executable, extents, &mut args, (&element, &of_tiles))?;
        drop(args);
        let totals = Array::with_storage(element, &of_tiles, storage)?;
        level(site, &totals, Rows { outer, len: tiles, inner }, Adds { result: adds.wide, ..adds }, true)?
    };
    let types = [scalar, adds.wide, adds.result].map(Given::Type);
    let given = [types.as_slice(), &[Given::Number(behind.into()), near]].concat();
    let executable = library::kernel(site, "ordered_scan", &given)?;
    let element = Element::Scalar(adds.result);
    let mut storage = Storage::unset(byte_count(&element, &shape)?);
    let mut args = vec![
        input()?,
        Arg::Array { storage: before.storage()?, shape: run::extents(&of_tiles) },
        Arg::ArrayMut { storage: &mut storage, shape: run::extents(&shape) },
    ];
    library::launch(site, &*executable, extents, &mut args, (&element, &shape))?;
    drop(args);
    Array::with_storage(element, &shape, storage)
}

/// Scans a small array on the host, in the same order.
fn on_host(array: &Array, scalar: Scalar, Rows { outer, len, inner }: Rows, adds: Adds) -> Outcome<Array> {
    let bytes = array.bytes()?;
    let mut result = Array::zeros(adds.result, &[outer, len, inner])?;
    let (size, places) = (adds.result.size(), result.bytes_mut()?);
    for column in 0..outer * inner {
        let at = |row: usize| ((column / inner) * len + row) * inner + column % inner;
        let element = |row: usize| {
            Value::from_bytes(scalar, bytes.get(at(row) * scalar.size()..).unwrap_or(&[])).to_type(adds.wide)
        };
        let elements: Vec<Value> = (0..len).map(element).collect();
        let (within, before) = (within(&elements)?, before(&elements, adds.wide)?);
        for (row, sum) in within.iter().enumerate() {
            let total = add(before[row / RUN], *sum)?.to_type(adds.result);
            places[at(row) * size..][..size].copy_from_slice(&total.to_bytes()[..size]);
        }
    }
    Ok(result)
}

fn add(a: Value, b: Value) -> Outcome<Value> {
    dynamic::binary(BinaryOp::Add, a, b).map_err(run::failed)
}

/// Returns the sums within each run.
fn within(elements: &[Value]) -> Outcome<Vec<Value>> {
    let mut sums: Vec<Value> = Vec::with_capacity(elements.len());
    for (i, &x) in elements.iter().enumerate() {
        let sum = if i % RUN == 0 { x } else { add(sums[i - 1], x)? };
        sums.push(sum);
    }
    Ok(sums)
}

/// Returns the sum of all runs before each run.
fn before(elements: &[Value], wide: Scalar) -> Outcome<Vec<Value>> {
    let sums = within(elements)?;
    let totals: Vec<Value> = sums.chunks(RUN).filter_map(|run| run.last().copied()).collect();
    if totals.len() == 1 {
        return Ok(vec![Value::zero(wide)]);
    }
    let (own, before) = (within(&totals)?, before(&totals, wide)?);
    let earlier = |run: usize| match run % RUN {
        0 => Ok(before[run / RUN]),
        _ => add(before[run / RUN], own[run - 1]),
    };
    (0..totals.len()).map(earlier).collect()
}
