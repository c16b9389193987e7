//! Cumulative sums (inclusive scan) along an axis, in an order that depends only on the length of the axis.
//!
//! # Order
//! The elements are divided into runs of 16 consecutive elements. The sum up to an element is the sum of all earlier
//! runs, plus the sequential sum of the elements in its own run. The sums of all earlier runs are a cumulative sum too,
//! which is computed recursively from the sums of the runs. Each element passes through at most `15 log16(n)`
//! additions. Floats are added in `f64`, and each result is rounded to its type once.
//!
//! # Kernels
//! A block computes a tile of 4096 elements (three levels of runs) in shared memory. A first kernel computes the sum of
//! each tile. The sums of the tiles are scanned recursively. Then a second kernel computes the elements. The kernels
//! are in `std.scan`.

use crate::array::{Array, ElementType, MAX_EXTENT, byte_count, shape_text};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{self, internal_error};
use crate::graph::library_kernels::{self, LibraryArgument};
use crate::graph::node::ReductionShape;
use crate::graph::reduce::MAX_HOST_SCALARS;
use crate::problem::{HostResult, RuntimeError};
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue, dynamic};

const TILE: usize = 4096;
const RUN: usize = 16;
const THREADS: u32 = 256;

/// The types of a scan: of the accumulator and of the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanTypes {
    pub accumulator: Scalar,
    pub result: Scalar,
}

/// Returns the cumulative sums of an array along the axis that `rows` describes.
pub(crate) fn scan(context: &ExecContext, array: &Array, rows: ReductionShape, types: ScanTypes) -> HostResult<Array> {
    let ReductionShape { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| internal_error("sums of structs"))?;
    let count = outer * len * inner;
    if count == 0 {
        return Array::zeros(types.result, &[outer, len, inner]);
    }
    let is_on_host = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if count <= MAX_HOST_SCALARS && is_on_host {
        return scan_on_host(array, scalar, rows, types);
    }
    let size = count * types.accumulator.size();
    let context = evaluate::choose_context(context, std::iter::once(array), size);
    scan_level(&context, array, rows, types, false)
}

/// Computes one level of a scan. With `exclusive`, each result is the sum of the elements before it, without its own
/// element.
pub(super) fn scan_level(
    context: &ExecContext,
    array: &Array,
    rows: ReductionShape,
    adds: ScanTypes,
    exclusive: bool,
) -> HostResult<Array> {
    let ReductionShape { outer, len, inner } = rows;
    let scalar = array.scalar().ok_or_else(|| internal_error("sums of structs"))?;
    let tiles = len.div_ceil(TILE);
    let shape = [outer, len, inner];
    let blocks = [outer, tiles, inner].iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let Some(blocks) = blocks.filter(|&n| n <= MAX_EXTENT) else {
        let title = format!("cumulative sums of the shape {} are too large for one launch", shape_text(&shape));
        return Err(RuntimeError::new("E0520", title).help("compute them in parts"));
    };
    let extents = LaunchExtents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1] };
    let input =
        || -> HostResult<Arg<'_>> { Ok(Arg::Array { storage: array.storage()?, shape: evaluate::to_extents(&shape) }) };
    let of_tiles = [outer, tiles, inner];
    let near = LibraryArgument::Number((!context.is_gpu()).into());
    let before = if tiles == 1 {
        Array::unplaced(adds.accumulator, &of_tiles)?
    } else {
        let arguments = [LibraryArgument::Type(scalar), LibraryArgument::Type(adds.accumulator), near];
        let executable = library_kernels::library_kernel(context, "ordered_totals", &arguments)?;
        let element = ElementType::Scalar(adds.accumulator);
        let mut storage = Storage::unset(byte_count(&element, &of_tiles)?);
        let mut args = vec![input()?, Arg::ArrayMut { storage: &mut storage, shape: evaluate::to_extents(&of_tiles) }];
        library_kernels::launch(context, &*executable, extents, &mut args, &element, &of_tiles)?;
        drop(args);
        let totals = Array::with_storage(element, &of_tiles, storage)?;
        scan_level(
            context,
            &totals,
            ReductionShape { outer, len: tiles, inner },
            ScanTypes { result: adds.accumulator, ..adds },
            true,
        )?
    };
    let types = [scalar, adds.accumulator, adds.result].map(LibraryArgument::Type);
    let arguments = [types.as_slice(), &[LibraryArgument::Number(exclusive.into()), near]].concat();
    let executable = library_kernels::library_kernel(context, "ordered_scan", &arguments)?;
    let element = ElementType::Scalar(adds.result);
    let mut storage = Storage::unset(byte_count(&element, &shape)?);
    let mut args = vec![
        input()?,
        Arg::Array { storage: before.storage()?, shape: evaluate::to_extents(&of_tiles) },
        Arg::ArrayMut { storage: &mut storage, shape: evaluate::to_extents(&shape) },
    ];
    library_kernels::launch(context, &*executable, extents, &mut args, &element, &shape)?;
    drop(args);
    Array::with_storage(element, &shape, storage)
}

/// Scans a small array on the host. The order of additions is the same as in the kernels.
fn scan_on_host(
    array: &Array,
    scalar: Scalar,
    ReductionShape { outer, len, inner }: ReductionShape,
    types: ScanTypes,
) -> HostResult<Array> {
    let bytes = array.bytes()?;
    let mut result = Array::zeros(types.result, &[outer, len, inner])?;
    let (size, places) = (types.result.size(), result.bytes_mut()?);
    for column in 0..outer * inner {
        let at = |row: usize| ((column / inner) * len + row) * inner + column % inner;
        let element = |row: usize| {
            ScalarValue::from_bytes(scalar, bytes.get(at(row) * scalar.size()..).unwrap_or(&[]))
                .to_type(types.accumulator)
        };
        let elements: Vec<ScalarValue> = (0..len).map(element).collect();
        let (sums_within_runs, before) =
            (sums_within_runs(&elements)?, sums_before_runs(&elements, types.accumulator)?);
        for (row, sum) in sums_within_runs.iter().enumerate() {
            let total = add(before[row / RUN], *sum)?.to_type(types.result);
            places[at(row) * size..][..size].copy_from_slice(&total.to_bytes()[..size]);
        }
    }
    Ok(result)
}

fn add(a: ScalarValue, b: ScalarValue) -> HostResult<ScalarValue> {
    dynamic::binary(BinaryOp::Add, a, b).map_err(evaluate::scalar_error)
}

/// Returns, for each element, the sum of the elements of its run up to it.
fn sums_within_runs(elements: &[ScalarValue]) -> HostResult<Vec<ScalarValue>> {
    let mut sums: Vec<ScalarValue> = Vec::with_capacity(elements.len());
    for (i, &x) in elements.iter().enumerate() {
        let sum = if i % RUN == 0 { x } else { add(sums[i - 1], x)? };
        sums.push(sum);
    }
    Ok(sums)
}

/// Returns, for each run, the sum of all earlier runs.
fn sums_before_runs(elements: &[ScalarValue], wide: Scalar) -> HostResult<Vec<ScalarValue>> {
    let sums = sums_within_runs(elements)?;
    let totals: Vec<ScalarValue> = sums.chunks(RUN).filter_map(|run| run.last().copied()).collect();
    if totals.len() == 1 {
        return Ok(vec![ScalarValue::zero(wide)]);
    }
    let (own, before) = (sums_within_runs(&totals)?, sums_before_runs(&totals, wide)?);
    let earlier = |run: usize| match run % RUN {
        0 => Ok(before[run / RUN]),
        _ => add(before[run / RUN], own[run - 1]),
    };
    (0..totals.len()).map(earlier).collect()
}
