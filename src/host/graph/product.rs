//! Products of matrices and vectors.
//!
//! # Order
//! An element of a product of matrices is a sum of runs of 512 terms, added in their order from 0; a run is a chain of fused
//! multiplications and additions, `fma(a[i, k], b[k, j], sum)` for its `k` in order, from 0; a zero is positive. Elements of `f16` and
//! `bf16` are added in `f32`, and rounded once. So the relative error is at most that of `512 + n / 512` roundings, and the bits do not
//! depend on how the work is divided: several kernels compute the same, and where the result has few elements for a GPU, runs are
//! computed side by side.
//!
//! With a vector on one side or both, the products are exact in `f64` (those of `f64` are rounded) and are added in the order of
//! [`fold`](mod@crate::host::graph::fold), as if one wrote `sum(f64(a) * f64(x), axis = …)`, and rounded once. No product is stored.
//!
//! # Integers
//! Sums of products of integers are exact. The type in which they are added has to hold `n` times the largest products: first by the
//! types of the factors, then by their largest elements, and else the sums are computed in more than 128 bits.

pub(crate) use crate::device::sim::product::Sizes;
use crate::device::sim::{Isa, product as packed};
use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::strided::Lattice;
use crate::host::array::{Array, Element, MAX_EXTENT, byte_count, no_memory, shape_text};
use crate::host::graph::fold::fold;
use crate::host::graph::integers::magnitude;
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::{Fold, Op, Operand, Rows};
use crate::host::graph::run::{self, broken, defer};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::view::rearranged;
use crate::host::problem::{Outcome, Problem};
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::exact::{holds, limits};
use crate::lang::scalar::{Scalar, Value, dynamic};

/// The most multiplications of a product that is computed on the host.
const SMALL: usize = 512;
/// The least extents of results that are computed in tiles, and in the larger tiles.
const TILED: usize = 16;
const LARGE: usize = 96;

/// The least extents of products of floats that the processor packs rather than leaves to a kernel.
const PACKED: usize = 8;

/// The terms of a run, as in `std.linalg`; the most runs that are computed side by side, and the tiles and threads of a GPU from which
/// they are not.
const RUN: usize = packed::RUN;
const PARTS: usize = 64;
const MANY_TILES: usize = 200;
const MANY_THREADS: usize = 1 << 17;

/// The shared memory of a block from which two blocks of `matmul_words` that keep their sums in it fit beside each other.
const ROOM_FOR_SUMS: u32 = 2 * 98 * 1024;

/// The edge of a processor's tiles, and the fewest of them.
const BLOCK: usize = 64;
const WORKERS: usize = 4;
/// The rows that a thread of a processor computes elements of, outside tiles: with vectors of 16 columns, the sums fit into registers.
const STRIP: usize = 8;

/// A product, or the exact numbers that are to become one.
pub(crate) enum Product {
    Done(Array),
    /// Of a type that holds them all, which may be wider than that of the factors.
    Wide(Array),
    /// In order; `None` beyond 128 bits.
    Exact(Vec<Option<i128>>),
}

/// Returns the products of two batches of matrices, of which one may be a single matrix, in this shape.
pub(crate) fn matrices(a: &Array, b: &Array, sizes: Sizes, shape: &[usize]) -> Outcome<Product> {
    let scalar = a.scalar().ok_or_else(|| broken("a product of structs"))?;
    let Sizes { batch, rows, inner, columns } = sizes;
    if inner == 0 || batch * rows * columns == 0 {
        return Array::zeros(scalar, shape).map(Product::Done);
    }
    let here = |array: &Array| array.data().computed().is_some_and(|storage| storage.here().is_some());
    let work = [batch, rows, inner, columns].iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    if work.is_some_and(|work| work <= SMALL) && here(a) && here(b) {
        return on_host(a, b, scalar, sizes, shape);
    }
    let too_large = || {
        let title = format!("a product of the shape {} is too large for one launch", shape_text(shape));
        Err(Problem::new("E0520", title).help("compute it in parts"))
    };
    if [batch, rows, columns].iter().any(|&n| n > MAX_EXTENT - 256) || inner > MAX_EXTENT - RUN {
        return too_large();
    }
    let add = |wide: Scalar| if wide.is_float() { Given::Math(MathFn::Fma) } else { Given::Function("fused", wide) };
    let wide = match scalar {
        Scalar::F16 | Scalar::Bf16 => Scalar::F32,
        _ if scalar.is_int() => match accumulator(a, b, scalar, inner)? {
            Some(wide) => wide,
            None => return exactly(a, b, scalar, sizes, shape),
        },
        _ => scalar,
    };
    let site = site(a, b, batch * rows * columns * wide.size());
    let words = site.is_gpu() && scalar == Scalar::F32 && batch == 1;
    if words && inner % 4 == 0 && columns % 4 == 0 && rows <= 65_535 * 128 {
        return in_words(&site, a, b, sizes, shape).map(Product::Done);
    }
    if !site.is_gpu()
        && let Some(found) = on_processor(&site, a, b, sizes, shape)?
    {
        return Ok(Product::Done(found));
    }
    let types = [Given::Type(scalar), Given::Type(wide), add(wide)];
    let near = !site.is_gpu();
    let few =
        near && (inner < TILED || columns < BLOCK * 3 / 4 || batch * (rows / BLOCK) * (columns / BLOCK) < WORKERS);
    // A GPU reads what it multiplies faster in tiles, even if most of each is empty, than once for each product.
    let narrow = rows.min(columns) < TILED && (near || rows.max(columns) < LARGE || inner < TILED);
    let (executable, extents, parts) = if few || narrow {
        let strip = if near && rows >= STRIP && columns >= TILED { STRIP } else { 1 };
        let parts = if near || batch * rows * columns >= MANY_THREADS { 1 } else { parts_of(inner) };
        let own = [Given::Number(strip as i32), Given::Number((parts > 1).into())];
        let given = [types.as_slice(), &own].concat();
        let strips = Sizes { rows: rows.div_ceil(strip), batch: parts * batch, ..sizes };
        (library::kernel(&site, "product_strips", &given)?, threads(strips), parts)
    } else {
        let size: usize = if near || rows.min(columns) < LARGE { 1 } else { 2 };
        let tiles = |n: usize| n.div_ceil(64 * size);
        let Some(blocks) = batch.checked_mul(tiles(rows) * tiles(columns)).filter(|&n| n <= MAX_EXTENT) else {
            return too_large();
        };
        let parts = if near || blocks >= MANY_TILES { 1 } else { parts_of(inner) };
        let (name, number, block) = match near {
            true => ("product_blocks", if wide.size() > 4 { 32 } else { 64 }, [64, 8, 1]),
            false => ("product_tiled", size as i32, [256, 1, 1]),
        };
        let given = [types.as_slice(), &[Given::Number(number)]].concat();
        let extents = Extents::Grid { grid: [(parts * blocks) as u32, 1, 1], block };
        (library::kernel(&site, name, &given)?, extents, parts)
    };
    let found = in_parts(&site, wide, (parts, shape), |storage| {
        let mut args = sides(a, b, sizes)?;
        args.push(Arg::ArrayMut { storage, shape: run::extents(&[parts, batch, rows, columns]) });
        library::launch(&site, &*executable, extents, &mut args, (&Element::Scalar(wide), shape))
    })?;
    if scalar.is_float() && wide != scalar {
        let found =
            defer(Op::Convert(scalar), vec![Operand::Array(found, shape.to_vec())], scalar, scalar.into(), shape)?;
        return Ok(Product::Done(found));
    }
    Ok(if wide == scalar { Product::Done(found) } else { Product::Wide(found) })
}

/// The product by the processor's own tiles, if it is computed there and has some: views are read where they are.
fn on_processor(site: &Site, a: &Array, b: &Array, sizes: Sizes, shape: &[usize]) -> Outcome<Option<Array>> {
    let Sizes { rows, inner, columns, .. } = sizes;
    if rows.min(inner).min(columns) < PACKED {
        return Ok(None);
    }
    match (site.device().instructions(), a.scalar()) {
        (Some(isa), Some(Scalar::F32)) => in_tiles::<f32>((site, isa), a, b, sizes, shape),
        (Some(isa), Some(Scalar::F64)) => in_tiles::<f64>((site, isa), a, b, sizes, shape),
        _ => Ok(None),
    }
}

fn in_tiles<T: packed::Number>(
    (site, isa): (&Site, Isa),
    a: &Array,
    b: &Array,
    sizes: Sizes,
    shape: &[usize],
) -> Outcome<Option<Array>> {
    let Sizes { rows, inner, columns, .. } = sizes;
    let (a, b) = (Side::of(a, [rows, inner]), Side::of(b, [inner, columns]));
    let element = Element::Scalar(a.array.scalar().ok_or_else(|| broken("a product of structs"))?);
    let (left, right) = (a.factor::<T>()?, b.factor::<T>()?);
    let mut storage = Storage::unset(byte_count(&element, shape)?);
    let Ok(bytes) = storage.bytes_mut() else { return Err(no_memory(&element, shape)) };
    let done = packed::products((isa, site.control().workers), &left, &right, sizes, bytemuck::cast_slice_mut(bytes));
    match done {
        Some(()) => Array::with_storage(element, shape, storage).map(Some),
        None => Ok(None),
    }
}

/// A batch of matrices, and where their elements are in an array.
struct Side {
    array: Array,
    offset: usize,
    /// From one matrix, row and column to the next.
    strides: [isize; 3],
}

impl Side {
    fn of(array: &Array, [m, n]: [usize; 2]) -> Side {
        let looked_at = rearranged(array).and_then(|(source, lattice)| {
            let matrices = lattice.shape.len().checked_sub(2)?;
            let (outer, inner) = (lattice.shape.split_at(matrices), lattice.strides.split_at(matrices));
            let outer = Lattice { shape: outer.0.to_vec(), offset: 0, strides: inner.0.to_vec() }.merged();
            let batch = match *outer.strides {
                [] => 0,
                [stride] => stride,
                _ => return None,
            };
            let &[row, column] = inner.1 else { return None };
            Held::used(array);
            Some(Side { array: source, offset: lattice.offset, strides: [batch, row, column] })
        });
        looked_at.unwrap_or_else(|| {
            let batch = if array.count() == m * n { 0 } else { m * n };
            Side { array: array.clone(), offset: 0, strides: [batch as isize, n as isize, 1] }
        })
    }

    fn factor<T: packed::Number>(&self) -> Outcome<packed::Factor<'_, T>> {
        let elements = bytemuck::cast_slice(self.array.bytes()?);
        Ok(packed::Factor { elements, offset: self.offset, strides: self.strides })
    }
}

/// Returns in how many parts a product with so many terms is computed side by side.
fn parts_of(inner: usize) -> usize {
    Some(inner.div_ceil(RUN)).filter(|&parts| parts <= PARTS).unwrap_or(1)
}

/// Returns the sum of the parts that a launch computes, in their order.
fn in_parts(
    site: &Site,
    scalar: Scalar,
    (parts, shape): (usize, &[usize]),
    launch: impl FnOnce(&mut Storage) -> Outcome<()>,
) -> Outcome<Array> {
    let element = Element::Scalar(scalar);
    let bytes = byte_count(&element, shape)?;
    let mut storage = Storage::unset(bytes * parts);
    launch(&mut storage)?;
    if parts == 1 {
        return Array::with_storage(element, shape, storage);
    }
    let count = bytes / scalar.size();
    let mut sums = Storage::unset(bytes);
    let mut args = vec![Arg::Array { storage: &storage, shape: run::extents(&[parts, count]) }];
    args.push(Arg::ArrayMut { storage: &mut sums, shape: run::extents(&[count]) });
    let executable = library::kernel(site, "sum_of_parts", &[Given::Type(scalar)])?;
    library::launch(site, &*executable, Extents::Threads([count as u32, 1, 1]), &mut args, (&element, shape))?;
    drop(args);
    Array::with_storage(element, shape, sums)
}

fn threads(Sizes { batch, rows, columns, .. }: Sizes) -> Extents {
    Extents::Threads([batch as u32, rows as u32, columns as u32])
}

/// Returns where a product of so many bytes is computed.
fn site(a: &Array, b: &Array, len: usize) -> Site {
    let len = len.max(a.byte_len()).max(b.byte_len());
    run::nearest(&Site::current(), [a, b].into_iter(), len).clone()
}

fn sides<'a>(a: &'a Array, b: &'a Array, sizes: Sizes) -> Outcome<Vec<Arg<'a>>> {
    let Sizes { rows, inner, columns, .. } = sizes;
    let side = |array: &'a Array, m: usize, n: usize| -> Outcome<Arg<'a>> {
        let shape = run::extents(&[array.count() / (m * n), m, n]);
        Ok(Arg::Array { storage: array.storage()?, shape })
    };
    Ok(vec![side(a, rows, inner)?, side(b, inner, columns)?])
}

/// The product of two matrices of `f32` whose rows are whole groups of four, by the kernel for GPUs.
fn in_words(site: &Site, a: &Array, b: &Array, sizes: Sizes, shape: &[usize]) -> Outcome<Array> {
    let Sizes { rows, inner, columns, .. } = sizes;
    let tiles = [columns.div_ceil(128), rows.div_ceil(128)];
    let parts = if tiles.iter().product::<usize>() >= MANY_TILES { 1 } else { parts_of(inner) };
    let keeps = parts == 1 && inner > RUN && site.device().block_memory().is_some_and(|bytes| bytes >= ROOM_FOR_SUMS);
    let given = [Given::Number((parts > 1).into()), Given::Number(keeps.into())];
    let executable = library::kernel(site, "matmul_words", &given)?;
    in_parts(site, Scalar::F32, (parts, shape), |storage| {
        let of = |m: usize, n: usize| run::extents(&[m, n / 4]);
        let mut args = vec![
            Arg::Array { storage: a.storage()?, shape: of(rows, inner) },
            Arg::Array { storage: b.storage()?, shape: of(inner, columns) },
            Arg::ArrayMut { storage, shape: run::extents(&[parts, rows, columns / 4]) },
        ];
        let grid = [tiles[0] as u32, tiles[1] as u32, parts as u32];
        let extents = Extents::Grid { grid, block: [128, 1, 1] };
        library::launch(site, &*executable, extents, &mut args, (&Element::Scalar(Scalar::F32), shape))
    })
}

/// Returns a type in which sums of so many products of integers are exact.
fn accumulator(a: &Array, b: &Array, scalar: Scalar, inner: usize) -> Outcome<Option<Scalar>> {
    let (least, most) = limits(scalar);
    let largest = least.abs().max(most);
    let bound = |x: i128, y: i128| x.checked_mul(y).and_then(|n| n.checked_mul(inner as i128));
    let by_type = bound(largest, largest);
    let fits = |ty: Scalar, bound: Option<i128>| bound.is_some_and(|bound| holds(ty, bound));
    if fits(Scalar::I32, by_type) {
        return Ok(Some(Scalar::I32));
    }
    let (Some(x), Some(y)) = (magnitude(a)?, magnitude(b)?) else {
        return Ok(Some(Scalar::I64).filter(|_| fits(Scalar::I64, by_type)));
    };
    let found = bound(x, y);
    Ok([scalar, Scalar::I32, Scalar::I64].into_iter().find(|ty| fits(*ty, found)))
}

/// Products of integers that need more than 64 bits on the way.
fn exactly(a: &Array, b: &Array, scalar: Scalar, sizes: Sizes, shape: &[usize]) -> Outcome<Product> {
    let Sizes { batch, rows, columns, .. } = sizes;
    let wide = if scalar.is_signed() { Scalar::I64 } else { Scalar::U64 };
    let given = [Given::Type(scalar), Given::Type(wide), Given::Number(scalar.is_signed().into())];
    let site = site(a, b, batch * rows * columns * 16);
    let executable = library::kernel(&site, "product_exact", &given)?;
    let bytes = byte_count(&Element::Scalar(Scalar::U64), shape)?;
    let (mut low, mut rest) = (Storage::unset(bytes), Storage::unset(bytes));
    let mut args = sides(a, b, sizes)?;
    for storage in [&mut low, &mut rest] {
        args.push(Arg::ArrayMut { storage, shape: run::extents(&[batch, rows, columns]) });
    }
    library::launch(&site, &*executable, threads(sizes), &mut args, (&Element::Scalar(Scalar::U64), shape))?;
    drop(args);
    let low = Array::with_storage(Element::Scalar(Scalar::U64), shape, low)?;
    let rest = Array::with_storage(Element::Scalar(Scalar::I64), shape, rest)?;
    let numbers = low.items::<u64>()?.iter().zip(rest.items::<i64>()?);
    let number = |(&low, &rest): (&u64, &i64)| (rest != i64::MIN).then(|| (i128::from(rest) << 64) | i128::from(low));
    Ok(Product::Exact(numbers.map(number).collect()))
}

/// A product of few scalars, term by term.
fn on_host(a: &Array, b: &Array, scalar: Scalar, sizes: Sizes, shape: &[usize]) -> Outcome<Product> {
    let Sizes { batch, rows, inner, columns } = sizes;
    let (left, right) = (a.bytes()?, b.bytes()?);
    let read = |bytes: &[u8], at: usize| Value::from_bytes(scalar, bytes.get(at * scalar.size()..).unwrap_or(&[]));
    // Where a side's matrices begin: at the same place if all share one.
    let (of_a, of_b) = (a.count() / (rows * inner) - 1, b.count() / (inner * columns) - 1);
    let pairs = |position: usize| {
        let (z, i, j) = (position / (rows * columns), position / columns % rows, position % columns);
        let (p, q) = (z.min(of_a) * rows + i, z.min(of_b) * inner);
        (0..inner).map(move |k| (read(left, p * inner + k), read(right, (q + k) * columns + j)))
    };
    let count = batch * rows * columns;
    if scalar.is_int() {
        let term = |(x, y): (Value, Value)| x.as_integer()?.checked_mul(y.as_integer()?);
        let sum = |position| pairs(position).try_fold(0i128, |sum, pair| sum.checked_add(term(pair)?));
        return Ok(Product::Exact((0..count).map(sum).collect()));
    }
    let wide = if scalar.size() < 4 { Scalar::F32 } else { scalar };
    let zero = Value::zero(wide);
    let mut result = Array::zeros(scalar, shape)?;
    for (position, place) in result.bytes_mut()?.chunks_exact_mut(scalar.size()).enumerate() {
        let add = |sum, (x, y): (Value, Value)| dynamic::math(MathFn::Fma, &[x.to_type(wide), y.to_type(wide), sum]);
        let sum = pairs(position).try_fold(zero, add).and_then(|sum| dynamic::binary(BinaryOp::Add, sum, zero));
        let sum = sum.map_err(run::failed)?;
        place.copy_from_slice(&sum.to_type(scalar).to_bytes()[..scalar.size()]);
    }
    Ok(Product::Done(result))
}

/// Returns the sums of the products of two operands along an axis of their common shape, for a result of the shape `outer`.
pub(crate) fn dots(a: Operand, b: Operand, shape: &[usize], axis: usize, outer: &[usize]) -> Outcome<Product> {
    let scalar = a.scalar().ok_or_else(|| broken("a product of structs"))?;
    if shape.contains(&0) {
        return Array::zeros(scalar, outer).map(Product::Done);
    }
    let terms = Terms { shape, axis, outer };
    if scalar.is_float() {
        let product = terms.product(BinaryOp::Mul.into(), &a, &b, Scalar::F64)?;
        return terms.sum(&product, Scalar::F64, scalar).map(Product::Done);
    }
    let unsigned = |wide: Scalar| if scalar.is_signed() { Scalar::I64 } else { wide };
    match scalar.bits() {
        // Less than 2^31 products of 32 bits.
        8 | 16 => {
            let product = terms.product(BinaryOp::Mul.into(), &a, &b, Scalar::I64)?;
            terms.sum(&product, Scalar::I64, Scalar::I64).map(Product::Wide)
        }
        32 => {
            let product = terms.product(BinaryOp::Mul.into(), &a, &b, unsigned(Scalar::U64))?;
            Ok(Product::Exact(terms.exact_sum(&product, false)?.into_iter().map(Some).collect()))
        }
        _ => {
            let low = terms.product(BinaryOp::Mul.into(), &a, &b, scalar)?;
            let high = terms.product(Op::Math(MathFn::MulHi), &a, &b, scalar)?;
            let (low, high) = (terms.exact_sum(&low, true)?, terms.exact_sum(&high, false)?);
            let number = |(low, high): (i128, i128)| high.checked_mul(1 << 64)?.checked_add(low);
            Ok(Product::Exact(low.into_iter().zip(high).map(number).collect()))
        }
    }
}

impl From<BinaryOp> for Op {
    fn from(op: BinaryOp) -> Op {
        Op::Binary(op)
    }
}

/// Terms of sums, and the axis along which they are added.
struct Terms<'a> {
    shape: &'a [usize],
    axis: usize,
    outer: &'a [usize],
}

impl Terms<'_> {
    /// Applies an operation to all terms.
    fn apply(&self, op: Op, operands: Vec<Operand>) -> Outcome<Array> {
        let types: Vec<Scalar> = operands.iter().filter_map(Operand::scalar).collect();
        let scalar = op.result(&types).ok_or_else(|| broken("a product of operands without one"))?;
        defer(op, operands, scalar, Element::Scalar(scalar), self.shape)
    }

    fn converted(&self, operand: &Operand, to: Scalar) -> Outcome<Operand> {
        if operand.scalar() == Some(to) {
            return Ok(operand.clone());
        }
        // In the shape of the terms, so that it belongs to their kernel.
        self.apply(Op::Convert(to), vec![operand.clone()]).map(|array| self.term(array))
    }

    fn term(&self, array: Array) -> Operand {
        Operand::Array(array, self.shape.to_vec())
    }

    fn product(&self, op: Op, a: &Operand, b: &Operand, wide: Scalar) -> Outcome<Array> {
        self.apply(op, vec![self.converted(a, wide)?, self.converted(b, wide)?])
    }

    /// Adds the terms in a type.
    fn sum(&self, terms: &Array, wide: Scalar, result: Scalar) -> Outcome<Array> {
        let groups: Vec<u8> =
            (0..self.shape.len()).map(|k| 1 + u8::from(k > self.axis) - u8::from(k < self.axis)).collect();
        let rows = Rows::along(self.shape, self.axis);
        let sum = Fold { combine: Op::Binary(BinaryOp::Add), wide, divisor: None, result };
        let found = fold(&sum, terms, self.shape, &groups, rows)?;
        found.ok_or_else(|| broken("a sum of too many axes"))?.with_shape(self.outer)
    }

    /// Adds integers of 64 bits exactly; if `unsigned`, their bits are taken as those of unsigned ones.
    fn exact_sum(&self, terms: &Array, unsigned: bool) -> Outcome<Vec<i128>> {
        let scalar = terms.scalar().ok_or_else(|| broken("a sum of structs"))?;
        let number = |n: i64| Operand::Scalar(Value::of(n).to_type(scalar));
        let half = |array: Array| -> Outcome<Vec<i64>> {
            let Operand::Array(wide, _) = self.converted(&self.term(array), Scalar::I64)? else {
                return Err(broken("a sum of scalars"));
            };
            Ok(self.sum(&wide, Scalar::I64, Scalar::I64)?.items::<i64>()?.to_vec())
        };
        let mask = |array: Array| self.apply(BinaryOp::BitAnd.into(), vec![self.term(array), number(0xffff_ffff)]);
        let mut high = self.apply(BinaryOp::Shr.into(), vec![self.term(terms.clone()), number(32)])?;
        if unsigned {
            high = mask(high)?;
        }
        let (high, low) = (half(high)?, half(mask(terms.clone())?)?);
        Ok(high.into_iter().zip(low).map(|(high, low)| (i128::from(high) << 32) + i128::from(low)).collect())
    }
}
