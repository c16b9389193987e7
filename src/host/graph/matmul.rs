//! Matrix products and products of matrices and vectors, with a specified order of additions.
//!
//! # Order
//! The terms `a[i, k] * b[k, j]` of an element are divided into runs of 512 consecutive terms. The sum of a run is a
//! chain of fused multiply-adds, `fma(a[i, k], b[k, j], sum)`, in the order of `k`, starting from 0. The sums of the
//! runs are added in order, starting from 0; a zero result is positive. Elements of `f16` and `bf16` are accumulated in
//! `f32` and rounded once. The relative error is at most that of `512 + n / 512` roundings. All kernels compute
//! bit-identical results, however they divide the work. For small results, a GPU computes the runs in parallel
//! (split-k).
//!
//! If an operand is a vector, the terms are computed exactly in `f64` (rounded for `f64` operands), added in the order
//! of [`reduce`](mod@crate::graph::reduce), as in `sum(f64(a) * f64(x), axis = …)`, and rounded once. The
//! products are not stored in memory.
//!
//! # Integers
//! Sums of products of integers are exact. An accumulator type is exact if it can hold `n` times the largest product,
//! according to the operand types or to the largest elements. If there is none, intermediate results have 128 bits or
//! more.

use crate::array::strided::Lattice;
use crate::array::{Array, ElementType, MAX_EXTENT, byte_count, no_memory, shape_text};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{self, defer, internal_error};
use crate::graph::integer_range::max_magnitude;
use crate::graph::library_kernels::{self, LibraryArgument};
use crate::graph::node::{ElementwiseOp, NodeOperand, ReductionOp, ReductionShape};
use crate::graph::reduce::reduce;
use crate::graph::view::strided_source;
use crate::problem::{HostResult, RuntimeError};
use clk_runtime::Isa;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::exact::{is_representable, limits};
use clk_scalar::ops::{BinaryOp, MathFn};
use clk_scalar::{Scalar, ScalarValue, dynamic};
use clk_sim::product as packed;
pub(crate) use clk_sim::product::GemmSizes;

/// Maximum number of multiplications in a product that is computed on the host.
const MAX_HOST_PRODUCTS: usize = 512;
/// Minimum number of rows and columns of a result that is computed in tiles.
const MIN_TILED: usize = 16;
/// Minimum number of rows and columns of a result that is computed in large tiles.
const MIN_LARGE_TILES: usize = 96;

/// Minimum extents of float products that the CPU computes with packed operands instead of a DeviceIR kernel.
const MIN_PACKED: usize = 8;

/// Number of terms in a run, as in `std.linalg`.
const RUN: usize = packed::RUN_TERMS;
/// Maximum number of runs that are computed in parallel.
const MAX_SPLITS: usize = 64;
/// With at least this number of tiles, a GPU computes the runs of an element sequentially.
const MANY_TILES: usize = 200;
/// With at least this number of threads, a GPU computes the runs of an element sequentially.
const MANY_THREADS: usize = 1 << 17;

/// Shared memory in bytes that two resident blocks of `matmul_words` need if they keep their accumulators in shared
/// memory.
const ACCUMULATOR_BYTES: u32 = 2 * 98 * 1024;

/// Number of rows and columns of a tile on the CPU.
const BLOCK: usize = 64;
/// Minimum number of tiles for the tiled kernel on the CPU.
const MIN_BLOCKS: usize = 4;
/// Number of rows that a CPU thread computes at a time if it does not use tiles. With vectors of 16 columns, the
/// accumulators fit into registers.
const STRIP: usize = 8;

/// The result of a product. Integer results may still have to be converted to the result type.
pub(crate) enum MatmulResult {
    Done(Array),
    /// Exact integers in an element type that may be wider than the operand type.
    Wide(Array),
    /// Exact integers in row-major order; `None` for results that do not fit 128 bits.
    Exact(Vec<Option<i128>>),
}

/// Returns the products of two batches of matrices, as an array of this shape. One of the batches may be a single
/// matrix.
pub(crate) fn matmul(
    exec: &ExecContext,
    a: &Array,
    b: &Array,
    sizes: GemmSizes,
    shape: &[usize],
) -> HostResult<MatmulResult> {
    let scalar = a.scalar().ok_or_else(|| internal_error("a product of structs"))?;
    let GemmSizes { batch, rows, inner, columns } = sizes;
    if inner == 0 || batch * rows * columns == 0 {
        return Array::zeros(scalar, shape).map(MatmulResult::Done);
    }
    let is_on_host = |array: &Array| array.data().computed().is_some_and(|storage| storage.here().is_some());
    let work = [batch, rows, inner, columns].iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    if work.is_some_and(|work| work <= MAX_HOST_PRODUCTS) && is_on_host(a) && is_on_host(b) {
        return matmul_on_host(a, b, scalar, sizes, shape);
    }
    let too_large = || {
        let title = format!("a product of the shape {} is too large for one launch", shape_text(shape));
        Err(RuntimeError::new("E0520", title).help("compute it in parts"))
    };
    if [batch, rows, columns].iter().any(|&n| n > MAX_EXTENT - 256) || inner > MAX_EXTENT - RUN {
        return too_large();
    }
    let add = |wide: Scalar| {
        if wide.is_float() { LibraryArgument::Math(MathFn::Fma) } else { LibraryArgument::Function("fused", wide) }
    };
    let wide = match scalar {
        Scalar::F16 | Scalar::Bf16 => Scalar::F32,
        _ if scalar.is_int() => match exact_accumulator(exec, a, b, scalar, inner)? {
            Some(wide) => wide,
            None => return exact_matmul(exec, a, b, scalar, sizes, shape),
        },
        _ => scalar,
    };
    let context = product_context(exec, a, b, batch * rows * columns * wide.size());
    let words = context.is_gpu() && scalar == Scalar::F32 && batch == 1;
    if words && inner % 4 == 0 && columns % 4 == 0 && rows <= 65_535 * 128 {
        return vectorized_matmul(&context, a, b, sizes, shape).map(MatmulResult::Done);
    }
    if !context.is_gpu()
        && let Some(product) = matmul_on_cpu(&context, a, b, sizes, shape)?
    {
        return Ok(MatmulResult::Done(product));
    }
    let types = [LibraryArgument::Type(scalar), LibraryArgument::Type(wide), add(wide)];
    let is_cpu = !context.is_gpu();
    let has_few_blocks = is_cpu
        && (inner < MIN_TILED || columns < BLOCK * 3 / 4 || batch * (rows / BLOCK) * (columns / BLOCK) < MIN_BLOCKS);
    // On a GPU, tiles are faster than one thread per element even if a result fills only a small part of each tile.
    let narrow = rows.min(columns) < MIN_TILED && (is_cpu || rows.max(columns) < MIN_LARGE_TILES || inner < MIN_TILED);
    let (executable, extents, splits) = if has_few_blocks || narrow {
        let strip = if is_cpu && rows >= STRIP && columns >= MIN_TILED { STRIP } else { 1 };
        let splits = if is_cpu || batch * rows * columns >= MANY_THREADS { 1 } else { split_count(inner) };
        let own = [LibraryArgument::Number(strip as i32), LibraryArgument::Number((splits > 1).into())];
        let arguments = [types.as_slice(), &own].concat();
        let strips = GemmSizes { rows: rows.div_ceil(strip), batch: splits * batch, ..sizes };
        (library_kernels::library_kernel(&context, "product_strips", &arguments)?, thread_extents(strips), splits)
    } else {
        let size: usize = if is_cpu || rows.min(columns) < MIN_LARGE_TILES { 1 } else { 2 };
        let tiles = |n: usize| n.div_ceil(64 * size);
        let Some(blocks) = batch.checked_mul(tiles(rows) * tiles(columns)).filter(|&n| n <= MAX_EXTENT) else {
            return too_large();
        };
        let splits = if is_cpu || blocks >= MANY_TILES { 1 } else { split_count(inner) };
        let (name, number, block) = match is_cpu {
            true => ("product_blocks", if wide.size() > 4 { 32 } else { 64 }, [64, 8, 1]),
            false => ("product_tiled", size as i32, [256, 1, 1]),
        };
        let arguments = [types.as_slice(), &[LibraryArgument::Number(number)]].concat();
        let extents = LaunchExtents::Grid { grid: [(splits * blocks) as u32, 1, 1], block };
        (library_kernels::library_kernel(&context, name, &arguments)?, extents, splits)
    };
    let product = sum_of_splits(&context, wide, splits, shape, |storage| {
        let mut args = operand_args(a, b, sizes)?;
        args.push(Arg::ArrayMut { storage, shape: evaluate::to_extents(&[splits, batch, rows, columns]) });
        library_kernels::launch(&context, &*executable, extents, &mut args, &ElementType::Scalar(wide), shape)
    })?;
    if scalar.is_float() && wide != scalar {
        let product = defer(
            exec,
            ElementwiseOp::Convert(scalar),
            vec![NodeOperand::Array(product, shape.to_vec())],
            scalar,
            scalar.into(),
            shape,
        )?;
        return Ok(MatmulResult::Done(product));
    }
    Ok(if wide == scalar { MatmulResult::Done(product) } else { MatmulResult::Wide(product) })
}

/// Computes the product with the CPU's own packed kernels, if it is large enough. Views are read without copying.
fn matmul_on_cpu(
    context: &ExecContext,
    a: &Array,
    b: &Array,
    sizes: GemmSizes,
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let GemmSizes { rows, inner, columns, .. } = sizes;
    if rows.min(inner).min(columns) < MIN_PACKED {
        return Ok(None);
    }
    match (context.device().capabilities().host_instruction_set, a.scalar()) {
        (Some(isa), Some(Scalar::F32)) => packed_matmul::<f32>(context, isa, a, b, sizes, shape),
        (Some(isa), Some(Scalar::F64)) => packed_matmul::<f64>(context, isa, a, b, sizes, shape),
        _ => Ok(None),
    }
}

fn packed_matmul<T: packed::MicroKernelScalar>(
    context: &ExecContext,
    isa: Isa,
    a: &Array,
    b: &Array,
    sizes: GemmSizes,
    shape: &[usize],
) -> HostResult<Option<Array>> {
    let GemmSizes { rows, inner, columns, .. } = sizes;
    let a = MatmulOperand::from_array(context, a, [rows, inner]);
    let b = MatmulOperand::from_array(context, b, [inner, columns]);
    let element = ElementType::Scalar(a.array.scalar().ok_or_else(|| internal_error("a product of structs"))?);
    let (left, right) = (a.packed_factor::<T>()?, b.packed_factor::<T>()?);
    let mut storage = Storage::unset(byte_count(&element, shape)?);
    let Ok(bytes) = storage.bytes_mut() else { return Err(no_memory(&element, shape)) };
    let done = packed::multiply_matrices(
        isa,
        context.control().workers,
        &left,
        &right,
        sizes,
        bytemuck::cast_slice_mut(bytes),
    );
    match done {
        Some(()) => Array::with_storage(element, shape, storage).map(Some),
        None => Ok(None),
    }
}

/// A batch of matrices that are strided views of an array.
struct MatmulOperand {
    array: Array,
    offset: usize,
    /// The distances in elements from one matrix, row and column to the next.
    strides: [isize; 3],
}

impl MatmulOperand {
    fn from_array(context: &ExecContext, array: &Array, [m, n]: [usize; 2]) -> MatmulOperand {
        let through_view = strided_source(array).and_then(|(source, lattice)| {
            let matrices = lattice.shape.len().checked_sub(2)?;
            let (outer, inner) = (lattice.shape.split_at(matrices), lattice.strides.split_at(matrices));
            let outer = Lattice { shape: outer.0.to_vec(), offset: 0, strides: inner.0.to_vec() }.merge_axes();
            let batch = match *outer.strides {
                [] => 0,
                [stride] => stride,
                _ => return None,
            };
            let &[row, column] = inner.1 else { return None };
            context.forget_result(array);
            Some(MatmulOperand { array: source, offset: lattice.offset, strides: [batch, row, column] })
        });
        through_view.unwrap_or_else(|| {
            let batch = if array.count() == m * n { 0 } else { m * n };
            MatmulOperand { array: array.clone(), offset: 0, strides: [batch as isize, n as isize, 1] }
        })
    }

    fn packed_factor<T: packed::MicroKernelScalar>(&self) -> HostResult<packed::MatrixBatch<'_, T>> {
        let elements = bytemuck::cast_slice(self.array.bytes()?);
        Ok(packed::MatrixBatch { elements, offset: self.offset, strides: self.strides })
    }
}

/// Returns the number of runs that are computed in parallel (split-k) for a product with `inner` terms; 1 if there are
/// too many runs.
fn split_count(inner: usize) -> usize {
    Some(inner.div_ceil(RUN)).filter(|&parts| parts <= MAX_SPLITS).unwrap_or(1)
}

/// Computes a product with split-k: `launch` runs the kernel that computes the sum of each run; then the sums are added
/// in order.
fn sum_of_splits(
    context: &ExecContext,
    scalar: Scalar,
    parts: usize,
    shape: &[usize],
    launch: impl FnOnce(&mut Storage) -> HostResult<()>,
) -> HostResult<Array> {
    let element = ElementType::Scalar(scalar);
    let bytes = byte_count(&element, shape)?;
    let mut storage = Storage::unset(bytes * parts);
    launch(&mut storage)?;
    if parts == 1 {
        return Array::with_storage(element, shape, storage);
    }
    let count = bytes / scalar.size();
    let mut sums = Storage::unset(bytes);
    let mut args = vec![Arg::Array { storage: &storage, shape: evaluate::to_extents(&[parts, count]) }];
    args.push(Arg::ArrayMut { storage: &mut sums, shape: evaluate::to_extents(&[count]) });
    let executable = library_kernels::library_kernel(context, "sum_of_parts", &[LibraryArgument::Type(scalar)])?;
    library_kernels::launch(
        context,
        &*executable,
        LaunchExtents::Threads([count as u32, 1, 1]),
        &mut args,
        &element,
        shape,
    )?;
    drop(args);
    Array::with_storage(element, shape, sums)
}

fn thread_extents(GemmSizes { batch, rows, columns, .. }: GemmSizes) -> LaunchExtents {
    LaunchExtents::Threads([batch as u32, rows as u32, columns as u32])
}

/// Returns the context (CPU or GPU) in which to compute a product whose result has `len` bytes.
fn product_context(context: &ExecContext, a: &Array, b: &Array, len: usize) -> ExecContext {
    let len = len.max(a.byte_len()).max(b.byte_len());
    evaluate::choose_context(context, [a, b].into_iter(), len)
}

fn operand_args<'a>(a: &'a Array, b: &'a Array, sizes: GemmSizes) -> HostResult<Vec<Arg<'a>>> {
    let GemmSizes { rows, inner, columns, .. } = sizes;
    let side = |array: &'a Array, m: usize, n: usize| -> HostResult<Arg<'a>> {
        let shape = evaluate::to_extents(&[array.count() / (m * n), m, n]);
        Ok(Arg::Array { storage: array.storage()?, shape })
    };
    Ok(vec![side(a, rows, inner)?, side(b, inner, columns)?])
}

/// Computes the product of two `f32` matrices whose rows are multiples of four, with the vectorized GPU kernel.
fn vectorized_matmul(
    context: &ExecContext,
    a: &Array,
    b: &Array,
    sizes: GemmSizes,
    shape: &[usize],
) -> HostResult<Array> {
    let GemmSizes { rows, inner, columns, .. } = sizes;
    let tiles = [columns.div_ceil(128), rows.div_ceil(128)];
    let parts = if tiles.iter().product::<usize>() >= MANY_TILES { 1 } else { split_count(inner) };
    let keeps_accumulators = parts == 1
        && inner > RUN
        && context.device().capabilities().shared_memory_per_block.is_some_and(|bytes| bytes >= ACCUMULATOR_BYTES);
    let arguments = [LibraryArgument::Number((parts > 1).into()), LibraryArgument::Number(keeps_accumulators.into())];
    let executable = library_kernels::library_kernel(context, "matmul_words", &arguments)?;
    sum_of_splits(context, Scalar::F32, parts, shape, |storage| {
        let matrix_extents = |m: usize, n: usize| evaluate::to_extents(&[m, n / 4]);
        let mut args = vec![
            Arg::Array { storage: a.storage()?, shape: matrix_extents(rows, inner) },
            Arg::Array { storage: b.storage()?, shape: matrix_extents(inner, columns) },
            Arg::ArrayMut { storage, shape: evaluate::to_extents(&[parts, rows, columns / 4]) },
        ];
        let grid = [tiles[0] as u32, tiles[1] as u32, parts as u32];
        let extents = LaunchExtents::Grid { grid, block: [128, 1, 1] };
        library_kernels::launch(context, &*executable, extents, &mut args, &ElementType::Scalar(Scalar::F32), shape)
    })
}

/// Returns a type in which sums of `inner` products of these integers are exact.
fn exact_accumulator(
    context: &ExecContext,
    a: &Array,
    b: &Array,
    scalar: Scalar,
    inner: usize,
) -> HostResult<Option<Scalar>> {
    let (least, most) = limits(scalar);
    let largest = least.abs().max(most);
    let bound = |x: i128, y: i128| x.checked_mul(y).and_then(|n| n.checked_mul(inner as i128));
    let by_type = bound(largest, largest);
    let is_exact = |ty: Scalar, bound: Option<i128>| bound.is_some_and(|bound| is_representable(ty, bound));
    if is_exact(Scalar::I32, by_type) {
        return Ok(Some(Scalar::I32));
    }
    let (Some(x), Some(y)) = (max_magnitude(context, a)?, max_magnitude(context, b)?) else {
        return Ok(Some(Scalar::I64).filter(|_| is_exact(Scalar::I64, by_type)));
    };
    let bound_by_values = bound(x, y);
    Ok([scalar, Scalar::I32, Scalar::I64].into_iter().find(|ty| is_exact(*ty, bound_by_values)))
}

/// Computes matrix products of integers whose intermediate results need more than 64 bits.
fn exact_matmul(
    context: &ExecContext,
    a: &Array,
    b: &Array,
    scalar: Scalar,
    sizes: GemmSizes,
    shape: &[usize],
) -> HostResult<MatmulResult> {
    let GemmSizes { batch, rows, columns, .. } = sizes;
    let wide = if scalar.is_signed() { Scalar::I64 } else { Scalar::U64 };
    let arguments = [
        LibraryArgument::Type(scalar),
        LibraryArgument::Type(wide),
        LibraryArgument::Number(scalar.is_signed().into()),
    ];
    let context = product_context(context, a, b, batch * rows * columns * 16);
    let executable = library_kernels::library_kernel(&context, "product_exact", &arguments)?;
    let bytes = byte_count(&ElementType::Scalar(Scalar::U64), shape)?;
    let (mut low, mut rest) = (Storage::unset(bytes), Storage::unset(bytes));
    let mut args = operand_args(a, b, sizes)?;
    for storage in [&mut low, &mut rest] {
        args.push(Arg::ArrayMut { storage, shape: evaluate::to_extents(&[batch, rows, columns]) });
    }
    library_kernels::launch(
        &context,
        &*executable,
        thread_extents(sizes),
        &mut args,
        &ElementType::Scalar(Scalar::U64),
        shape,
    )?;
    drop(args);
    let low = Array::with_storage(ElementType::Scalar(Scalar::U64), shape, low)?;
    let rest = Array::with_storage(ElementType::Scalar(Scalar::I64), shape, rest)?;
    let numbers = low.items::<u64>()?.iter().zip(rest.items::<i64>()?);
    let number = |(&low, &rest): (&u64, &i64)| (rest != i64::MIN).then(|| (i128::from(rest) << 64) | i128::from(low));
    Ok(MatmulResult::Exact(numbers.map(number).collect()))
}

/// Computes a small product on the host, term by term.
fn matmul_on_host(a: &Array, b: &Array, scalar: Scalar, sizes: GemmSizes, shape: &[usize]) -> HostResult<MatmulResult> {
    let GemmSizes { batch, rows, inner, columns } = sizes;
    let (left, right) = (a.bytes()?, b.bytes()?);
    let read =
        |bytes: &[u8], at: usize| ScalarValue::from_bytes(scalar, bytes.get(at * scalar.size()..).unwrap_or(&[]));
    // The index of the last matrix of each operand; 0 if the operand is a single matrix, which all products share.
    let (of_a, of_b) = (a.count() / (rows * inner) - 1, b.count() / (inner * columns) - 1);
    let pairs = |position: usize| {
        let (z, i, j) = (position / (rows * columns), position / columns % rows, position % columns);
        let (p, q) = (z.min(of_a) * rows + i, z.min(of_b) * inner);
        (0..inner).map(move |k| (read(left, p * inner + k), read(right, (q + k) * columns + j)))
    };
    let count = batch * rows * columns;
    if scalar.is_int() {
        let term = |(x, y): (ScalarValue, ScalarValue)| x.as_integer()?.checked_mul(y.as_integer()?);
        let sum = |position| pairs(position).try_fold(0i128, |sum, pair| sum.checked_add(term(pair)?));
        return Ok(MatmulResult::Exact((0..count).map(sum).collect()));
    }
    let wide = if scalar.size() < 4 { Scalar::F32 } else { scalar };
    let zero = ScalarValue::zero(wide);
    let mut result = Array::zeros(scalar, shape)?;
    for (position, place) in result.bytes_mut()?.chunks_exact_mut(scalar.size()).enumerate() {
        let add = |sum, (x, y): (ScalarValue, ScalarValue)| {
            dynamic::math(MathFn::Fma, &[x.to_type(wide), y.to_type(wide), sum])
        };
        let sum = pairs(position).try_fold(zero, add).and_then(|sum| dynamic::binary(BinaryOp::Add, sum, zero));
        let sum = sum.map_err(evaluate::scalar_error)?;
        place.copy_from_slice(&sum.to_type(scalar).to_bytes()[..scalar.size()]);
    }
    Ok(MatmulResult::Done(result))
}

/// Multiplies two operands elementwise, and returns the sums of the products along an axis of their common shape. The
/// result has the shape `outer`.
pub(crate) fn dot_products(
    context: &ExecContext,
    a: NodeOperand,
    b: NodeOperand,
    shape: &[usize],
    axis: usize,
    outer: &[usize],
) -> HostResult<MatmulResult> {
    let scalar = a.scalar().ok_or_else(|| internal_error("a product of structs"))?;
    if shape.contains(&0) {
        return Array::zeros(scalar, outer).map(MatmulResult::Done);
    }
    let terms = SumTerms { shape, axis, outer };
    if scalar.is_float() {
        let product = terms.product(context, BinaryOp::Mul.into(), &a, &b, Scalar::F64)?;
        return terms.sum(context, &product, Scalar::F64, scalar).map(MatmulResult::Done);
    }
    let unsigned = |wide: Scalar| if scalar.is_signed() { Scalar::I64 } else { wide };
    match scalar.bits() {
        // `i64` is exact: the sum of fewer than 2^31 products of at most 32 bits fits.
        8 | 16 => {
            let product = terms.product(context, BinaryOp::Mul.into(), &a, &b, Scalar::I64)?;
            terms.sum(context, &product, Scalar::I64, Scalar::I64).map(MatmulResult::Wide)
        }
        32 => {
            let product = terms.product(context, BinaryOp::Mul.into(), &a, &b, unsigned(Scalar::U64))?;
            Ok(MatmulResult::Exact(terms.exact_sum(context, &product, false)?.into_iter().map(Some).collect()))
        }
        _ => {
            let low = terms.product(context, BinaryOp::Mul.into(), &a, &b, scalar)?;
            let high = terms.product(context, ElementwiseOp::Math(MathFn::MulHi), &a, &b, scalar)?;
            let (low, high) = (terms.exact_sum(context, &low, true)?, terms.exact_sum(context, &high, false)?);
            let number = |(low, high): (i128, i128)| high.checked_mul(1 << 64)?.checked_add(low);
            Ok(MatmulResult::Exact(low.into_iter().zip(high).map(number).collect()))
        }
    }
}

impl From<BinaryOp> for ElementwiseOp {
    fn from(op: BinaryOp) -> ElementwiseOp {
        ElementwiseOp::Binary(op)
    }
}

/// The shape of the terms of a sum, the axis along which they are added, and the shape of the result.
struct SumTerms<'a> {
    shape: &'a [usize],
    axis: usize,
    outer: &'a [usize],
}

impl SumTerms<'_> {
    /// Applies an elementwise operation to operands with the shape of the terms.
    fn apply(&self, context: &ExecContext, op: ElementwiseOp, operands: Vec<NodeOperand>) -> HostResult<Array> {
        let types: Vec<Scalar> = operands.iter().filter_map(NodeOperand::scalar).collect();
        let scalar = op.result_type(&types).ok_or_else(|| internal_error("a product of operands without one"))?;
        defer(context, op, operands, scalar, ElementType::Scalar(scalar), self.shape)
    }

    fn convert(&self, context: &ExecContext, operand: &NodeOperand, to: Scalar) -> HostResult<NodeOperand> {
        if operand.scalar() == Some(to) {
            return Ok(operand.clone());
        }
        // The result has the shape of the terms, so that the conversion can be fused into their kernel.
        self.apply(context, ElementwiseOp::Convert(to), vec![operand.clone()]).map(|array| self.term(array))
    }

    fn term(&self, array: Array) -> NodeOperand {
        NodeOperand::Array(array, self.shape.to_vec())
    }

    fn product(
        &self,
        context: &ExecContext,
        op: ElementwiseOp,
        a: &NodeOperand,
        b: &NodeOperand,
        wide: Scalar,
    ) -> HostResult<Array> {
        self.apply(context, op, vec![self.convert(context, a, wide)?, self.convert(context, b, wide)?])
    }

    /// Adds the terms in the accumulator type `wide`, and converts the sums to the type `result`.
    fn sum(&self, context: &ExecContext, terms: &Array, wide: Scalar, result: Scalar) -> HostResult<Array> {
        let groups: Vec<u8> =
            (0..self.shape.len()).map(|k| 1 + u8::from(k > self.axis) - u8::from(k < self.axis)).collect();
        let rows = ReductionShape::for_axis(self.shape, self.axis);
        let sum =
            ReductionOp { combine: ElementwiseOp::Binary(BinaryOp::Add), accumulator: wide, divisor: None, result };
        let sums = reduce(context, &sum, terms, self.shape, &groups, rows)?;
        sums.ok_or_else(|| internal_error("a sum of too many axes"))?.with_shape(self.outer)
    }

    /// Adds 64-bit integers exactly. With `unsigned`, their bits are interpreted as unsigned integers.
    fn exact_sum(&self, context: &ExecContext, terms: &Array, unsigned: bool) -> HostResult<Vec<i128>> {
        let scalar = terms.scalar().ok_or_else(|| internal_error("a sum of structs"))?;
        let number = |n: i64| NodeOperand::Scalar(ScalarValue::of(n).to_type(scalar));
        let half = |array: Array| -> HostResult<Vec<i64>> {
            let NodeOperand::Array(wide, _) = self.convert(context, &self.term(array), Scalar::I64)? else {
                return Err(internal_error("a sum of scalars"));
            };
            Ok(self.sum(context, &wide, Scalar::I64, Scalar::I64)?.items::<i64>()?.to_vec())
        };
        let mask =
            |array: Array| self.apply(context, BinaryOp::BitAnd.into(), vec![self.term(array), number(0xffff_ffff)]);
        let mut high = self.apply(context, BinaryOp::Shr.into(), vec![self.term(terms.clone()), number(32)])?;
        if unsigned {
            high = mask(high)?;
        }
        let (high, low) = (half(high)?, half(mask(terms.clone())?)?);
        Ok(high.into_iter().zip(low).map(|(high, low)| (i128::from(high) << 32) + i128::from(low)).collect())
    }
}
