//! Dot products: a loop whose body is `acc = acc + a[…] * b[…]` runs chunk by chunk with the sum in vector registers,
//! instead of one iteration at a time. Every lane adds the same products in the same order.

use std::marker::PhantomData;

use super::code::AccessOperands;
use super::group::{Op, ThreadGroup};
use super::group_registers::CHUNK;
use super::lanes::OpStep;
use super::lanes::wide::WideLanes;
use super::memory::{AddressRun, resolve_affine};
use super::op_shape::{LoopKind, OpShape, OperandRole, RegisterRole, Width};

/// The addresses of an operand, by chunk and iteration.
#[derive(Clone, Copy)]
struct OperandStream {
    addr: *const u8,
    /// All lanes of a chunk load the same element.
    broadcast: bool,
    /// Chunks per row, and the bytes from row to row.
    row: usize,
    pitch: isize,
    /// Bytes from iteration to iteration.
    iteration: isize,
}

impl OperandStream {
    fn chunk(&self, chunk: usize) -> *const u8 {
        let across = if self.broadcast { 0 } else { chunk % self.row * 4 * CHUNK };
        self.addr.wrapping_offset((chunk / self.row) as isize * self.pitch + across as isize)
    }
}

/// Stands in front of the loop of counter `y`, whose accesses are `a` and `b` (numbers), whose sum is `d` and whose end
/// is `x`. If the accesses have another form, the loop itself follows.
pub(crate) struct Dot<V>(PhantomData<V>);

impl<V: WideLanes> OpStep for Dot<V> {
    const SHAPE: OpShape = OpShape::new("dot")
        .d(RegisterRole::Lanes(Width::Four))
        .x(OperandRole::Target)
        .y(OperandRole::Loop(LoopKind::Words));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `y` is a loop of `i32`, with a counter (G4). C1: `d` is a register of 4-byte lanes, with all
        // chunks of the full group (G1). The streams are within memory for all iterations and chunks. C3: there is an
        // op behind.
        unsafe {
            let o = &*op;
            let iterations = g.counters[o.y as usize].max_trips;
            if !g.mask.full || !g.shape.lanes.is_multiple_of(CHUNK) {
                return op.add(1);
            }
            let (Some(a), Some(b)) = (stream(g, o.a, o, iterations), stream(g, o.b, o, iterations)) else {
                return op.add(1);
            };
            let sum = g.registers.slot(o.d).ptr;
            let chunks = g.shape.lanes / CHUNK;
            let mut chunk = 0;
            if let Some((factors, row)) = common_row(a, b) {
                while V::ROOMY && chunk + 8 <= chunks {
                    sum_rows::<V, 8>(sum, chunk, factors, row, iterations);
                    chunk += 8;
                }
                while chunk + 4 <= chunks {
                    sum_rows::<V, 4>(sum, chunk, factors, row, iterations);
                    chunk += 4;
                }
            }
            while chunk + 4 <= chunks {
                run::<V, 4>(sum, chunk, a, b, iterations);
                chunk += 4;
            }
            while chunk < chunks {
                run::<V, 1>(sum, chunk, a, b, iterations);
                chunk += 1;
            }
            g.op_at(o.x)
        }
    }
}

/// Returns the operands of an access over all iterations, if they are in bounds and lie in rows of chunks.
#[inline(always)]
unsafe fn stream(g: &mut ThreadGroup, access: u16, op: &Op, iterations: u64) -> Option<OperandStream> {
    // SAFETY: C4: `y` is the op's loop, which it stands in front of. An access that does not exist is none of two loads
    // of this op.
    let (first, iteration) = unsafe { over_budget(g, access.into(), op.y, iterations) }?;
    layout(&first, iteration)
}

/// Returns the first iteration of an access of loop `number`, and the bytes from iteration to iteration, if all
/// iterations are in bounds.
///
/// # Safety
/// Access and loop are of the group's code, and the loop is about to begin.
#[inline(always)]
pub(crate) unsafe fn over_budget(
    g: &mut ThreadGroup,
    access: u32,
    number: u32,
    iterations: u64,
) -> Option<(AddressRun, isize)> {
    // SAFETY: C4: access and loop are the code's (indexing checks it), and the loop's local and step are uniform
    // `i32`s. C5: both accesses are affine, of bases that are uniform.
    unsafe {
        let code = &*g.code;
        let number_of_access = access;
        let access: &AccessOperands = &code.accesses[access as usize];
        let def = &code.loops[number as usize];
        let first = resolve_affine(g, access, number_of_access)?;
        // Indices are linear in the iteration: if the last one is in bounds as well, so are those in between.
        let start = g.registers.first::<i32>(def.local);
        let last_iteration = i32::try_from(iterations.checked_sub(1)?).ok()?;
        let last = start.checked_add(g.registers.first::<i32>(def.step).checked_mul(last_iteration)?)?;
        g.registers.broadcast(def.local, last);
        let end = resolve_affine(g, access, number_of_access);
        g.registers.broadcast(def.local, start);
        let distance = end?.addr as isize - first.addr as isize;
        Some((first, if last_iteration == 0 { 0 } else { distance / last_iteration as isize }))
    }
}

fn layout(run: &AddressRun, iteration: isize) -> Option<OperandStream> {
    let (count, stride) = (run.count, run.stride);
    let fits = count[2] == 1 && count[3] == 1 && count[0] % CHUNK == 0 && (stride[0] == 0 || stride[0] == 4);
    fits.then(|| OperandStream {
        addr: run.addr,
        broadcast: stride[0] == 0,
        row: count[0] / CHUNK,
        pitch: stride[1],
        iteration,
    })
}

/// Returns the factors and the row, where every chunk has a factor of its own and all share one row.
fn common_row(a: OperandStream, b: OperandStream) -> Option<(OperandStream, OperandStream)> {
    let (factors, row) = if a.broadcast { (a, b) } else { (b, a) };
    let fits = factors.broadcast && !row.broadcast && factors.row == 1 && row.row == 1 && row.pitch == 0;
    fits.then_some((factors, row))
}

/// Sums the products of `N` chunks with one row, which is loaded once per iteration.
#[inline(always)]
unsafe fn sum_rows<V: WideLanes, const N: usize>(
    sum: *mut u8,
    chunk: usize,
    factors: OperandStream,
    row: OperandStream,
    iterations: u64,
) {
    // SAFETY: the caller's streams are within memory for all iterations; `sum` has the chunks from `chunk` on. G6: `V`
    // is for this machine.
    unsafe {
        let to = sum.add(chunk * 4 * CHUNK);
        let mut acc: [V; N] = std::array::from_fn(|k| V::load(to.add(k * 4 * CHUNK)));
        let (mut p, mut q) = (factors.chunk(chunk), row.chunk(chunk));
        for _ in 0..iterations {
            let y = V::load(q);
            for k in 0..N {
                acc[k] = acc[k].add(V::broadcast(p.wrapping_offset(k as isize * factors.pitch)).mul(y));
            }
            p = p.wrapping_offset(factors.iteration);
            q = q.wrapping_offset(row.iteration);
        }
        for (k, acc) in acc.into_iter().enumerate() {
            acc.store(to.add(k * 4 * CHUNK));
        }
    }
}

#[inline(always)]
unsafe fn run<V: WideLanes, const N: usize>(
    sum: *mut u8,
    chunk: usize,
    a: OperandStream,
    b: OperandStream,
    iterations: u64,
) {
    // SAFETY: the caller's operands are those of [`sum_up`].
    unsafe {
        match (a.broadcast, b.broadcast) {
            (true, true) => sum_up::<V, N, true, true>(sum, chunk, a, b, iterations),
            (true, false) => sum_up::<V, N, true, false>(sum, chunk, a, b, iterations),
            (false, true) => sum_up::<V, N, false, true>(sum, chunk, a, b, iterations),
            (false, false) => sum_up::<V, N, false, false>(sum, chunk, a, b, iterations),
        }
    }
}

#[inline(always)]
unsafe fn operand<V: WideLanes, const BROADCAST: bool>(at: *const u8) -> V {
    // SAFETY: the caller's address is that of a chunk, or of one element that is the same for all lanes.
    unsafe { if BROADCAST { V::broadcast(at) } else { V::load(at) } }
}

#[inline(always)]
unsafe fn sum_up<V: WideLanes, const N: usize, const A: bool, const B: bool>(
    sum: *mut u8,
    chunk: usize,
    a: OperandStream,
    b: OperandStream,
    iterations: u64,
) {
    // SAFETY: the caller's streams are within memory for all iterations; `sum` has the chunks from `chunk` on. G6: `V`
    // is for this machine.
    unsafe {
        let to = sum.add(chunk * 4 * CHUNK);
        let mut acc: [V; N] = std::array::from_fn(|k| V::load(to.add(k * 4 * CHUNK)));
        let mut p: [*const u8; N] = std::array::from_fn(|k| a.chunk(chunk + k));
        let mut q: [*const u8; N] = std::array::from_fn(|k| b.chunk(chunk + k));
        for _ in 0..iterations {
            for k in 0..N {
                acc[k] = acc[k].add(operand::<V, A>(p[k]).mul(operand::<V, B>(q[k])));
                p[k] = p[k].wrapping_offset(a.iteration);
                q[k] = q[k].wrapping_offset(b.iteration);
            }
        }
        for (k, acc) in acc.into_iter().enumerate() {
            acc.store(to.add(k * 4 * CHUNK));
        }
    }
}
