//! Execution of strips: a run of arithmetic processes the lanes a few chunks at a time, with intermediate values in
//! vector registers.
//!
//! The compiler turns each run of ops that only compute into a small program for two accumulators
//! (`compile::strip`). An accumulator is as many chunks as fit in vector registers, so that one dispatch serves all
//! of them, and only values with later uses are stored. Every step still rounds by itself.

mod def;

use std::marker::PhantomData;
use std::mem::MaybeUninit;

pub(crate) use self::def::{Micro, StripDef, StripOpcode, StripOperand};
use super::control_flow::{NextUniform, stop_interrupted};
use super::current_mask::CurrentMask;
use super::group::{Op, OpFn, ThreadGroup};
use super::group_registers::CHUNK;
use super::lanes::wide::{self, WideLanes};
use super::lanes::{OpStep, mask, pick_vectors};
use super::op_shape::{OpShape, OperandRole};
use clk_runtime::Isa;

/// Limits on the operands of a strip: of all, and of temporaries.
pub(crate) const PLACES: usize = 96;
pub(crate) const SCRATCH: usize = 24;

/// The address of an operand.
#[derive(Clone, Copy)]
struct OperandAddress {
    ptr: *mut u8,
    /// Bytes from chunk to chunk within an accumulator.
    inner: usize,
    /// Bytes from chunk to chunk of the group.
    outer: usize,
}

/// The addresses of an accumulator's chunks in one operand.
trait Row: Copy {
    fn at(self, k: usize) -> *mut u8;
}

/// The operands of a strip for the chunks that are in the accumulators.
trait OperandTable: Copy {
    type Row: Row;
    /// # Safety
    /// The strip has this operand.
    unsafe fn row(self, place: u8) -> Self::Row;
}

/// Adjacent chunks.
#[derive(Clone, Copy)]
struct ChunkBlock {
    entries: *const OperandAddress,
    chunk: usize,
}

#[derive(Clone, Copy)]
struct EvenRow {
    ptr: *mut u8,
    step: usize,
}

impl OperandTable for ChunkBlock {
    type Row = EvenRow;
    #[inline(always)]
    unsafe fn row(self, place: u8) -> EvenRow {
        // SAFETY: C8: the strip has this operand, and `find` has written its entry.
        let entry = unsafe { &*self.entries.add(place.into()) };
        EvenRow { ptr: entry.ptr.wrapping_add(self.chunk * entry.outer), step: entry.inner }
    }
}

impl Row for EvenRow {
    #[inline(always)]
    fn at(self, k: usize) -> *mut u8 {
        self.ptr.wrapping_add(k * self.step)
    }
}

/// Arbitrary chunks.
#[derive(Clone, Copy)]
struct Mixed<const K: usize>(*const [*mut u8; K]);

#[derive(Clone, Copy)]
struct MixedRow(*const *mut u8);

impl<const K: usize> OperandTable for Mixed<K> {
    type Row = MixedRow;
    #[inline(always)]
    unsafe fn row(self, place: u8) -> MixedRow {
        MixedRow(self.0.wrapping_add(place.into()).cast())
    }
}

impl Row for MixedRow {
    #[inline(always)]
    fn at(self, k: usize) -> *mut u8 {
        // SAFETY: `k` is a chunk of the accumulator.
        unsafe { *self.0.add(k) }
    }
}

/// Temporary memory of a running strip.
#[repr(align(64))]
struct StripScratch<const K: usize> {
    scratch: [[[u8; 4 * CHUNK]; K]; SCRATCH],
    /// The operand of accumulator chunks that are vacant, that is, have no chunk of the group.
    nowhere: [u8; 4 * CHUNK],
    /// The (empty) mask of vacant accumulator chunks.
    nobody: [u8; 4 * CHUNK],
}

/// A strip that is about to run.
struct Setup<'a, const K: usize> {
    def: &'a StripDef,
    room: *mut StripScratch<K>,
    entries: [MaybeUninit<OperandAddress>; PLACES],
    mixed: [MaybeUninit<[*mut u8; K]>; PLACES],
}

impl<'a, const K: usize> Setup<'a, K> {
    #[inline(always)]
    fn new(def: &'a StripDef, room: *mut StripScratch<K>) -> Self {
        let entries = [const { MaybeUninit::uninit() }; PLACES];
        Setup { def, room, entries, mixed: [const { MaybeUninit::uninit() }; PLACES] }
    }

    /// Looks up the operands. (Separate from `new`, whose result might be copied.)
    #[inline(always)]
    unsafe fn find(&mut self, g: &ThreadGroup) {
        for (entry, &place) in self.entries.iter_mut().zip(&self.def.places) {
            // SAFETY: C8: registers and masks of operands are the code's; the room is the strip's.
            entry.write(unsafe { entry_of(g, place, self.room) });
        }
    }

    #[inline(always)]
    fn block(&self, chunk: usize) -> ChunkBlock {
        ChunkBlock { entries: self.entries.as_ptr().cast(), chunk }
    }

    #[inline(always)]
    fn mixed(&self) -> Mixed<K> {
        Mixed(self.mixed.as_ptr().cast())
    }

    /// Assigns a chunk of the group to chunk `k` of the accumulators; `None` leaves that vacant.
    #[inline(always)]
    unsafe fn seat(&mut self, k: usize, chunk: Option<usize>) {
        // SAFETY: `find` has written an entry for each operand; the room is that of this run.
        unsafe {
            for (at, place) in self.def.places.iter().enumerate() {
                let entry = self.entries[at].assume_init();
                let ptr = match (place, chunk) {
                    (StripOperand::Scratch(_), _) => entry.ptr.wrapping_add(k * entry.inner),
                    (_, Some(chunk)) => entry.ptr.wrapping_add(chunk * entry.outer),
                    (StripOperand::Mask | StripOperand::Kept(_), None) => (&raw mut (*self.room).nobody).cast(),
                    (StripOperand::Reg(_), None) if entry.outer == 0 => entry.ptr,
                    (StripOperand::Reg(_), None) => (&raw mut (*self.room).nowhere).cast(),
                };
                self.mixed[at].as_mut_ptr().cast::<*mut u8>().add(k).write(ptr);
            }
        }
    }

    /// Makes all chunks of the accumulators vacant.
    #[inline(always)]
    unsafe fn clear(&mut self) {
        // SAFETY: the room is that of this run; `seat` reads no more of it than addresses.
        unsafe {
            (*self.room).nowhere = [0; 4 * CHUNK];
            (*self.room).nobody = [0; 4 * CHUNK];
            for k in 0..K {
                self.seat(k, None);
            }
        }
    }
}

#[inline(always)]
unsafe fn entry_of<const K: usize>(g: &ThreadGroup, place: StripOperand, room: *mut StripScratch<K>) -> OperandAddress {
    // SAFETY: C8: registers and masks of operands are the code's. Temporaries are among those of the room.
    unsafe {
        let lanes = 4 * CHUNK;
        match place {
            StripOperand::Reg(reg) => {
                let slot = g.registers.slot(reg);
                OperandAddress { ptr: slot.ptr, inner: slot.stride, outer: slot.stride }
            }
            StripOperand::Scratch(k) => {
                let ptr = (&raw mut (*room).scratch).cast::<u8>().add(usize::from(k) * K * lanes);
                OperandAddress { ptr, inner: lanes, outer: 0 }
            }
            StripOperand::Mask => OperandAddress { ptr: g.mask.lanes.cast_mut().cast(), inner: lanes, outer: lanes },
            StripOperand::Kept(mask) => OperandAddress { ptr: mask::mask_ptr(g, mask), inner: lanes, outer: lanes },
        }
    }
}

/// What a strip reports of the mask that it computes: accumulator chunks with active lanes, and whether some lanes
/// became inactive.
#[derive(Clone, Copy, Default)]
struct StripMask {
    left: u64,
    lost: bool,
}

/// Returns the next chunk with active lanes (short gaps between such may be covered too).
#[inline(always)]
fn next_chunk(mask: &CurrentMask, from: usize) -> Option<usize> {
    for &(lo, hi) in mask.ranges.as_slice() {
        if from < hi as usize {
            return Some(from.max(lo as usize));
        }
    }
    None
}

/// Runs strip `y`. If it computes a mask, that becomes current, and execution continues at `x` if it is empty.
///
/// If `c` is [`TURNS`], the strip and the ops from `x` to here are the body of the loop whose [`NextUniform`] follows:
/// all iterations run here.
pub(crate) struct Strip<V, const K: usize>(PhantomData<V>);

/// Value of `c` for a strip that runs all iterations of a loop, see [`Strip`].
pub(crate) const TURNS: u16 = 1;

impl<V: WideLanes, const K: usize> OpStep for Strip<V, K> {
    const SHAPE: OpShape = OpShape::new("strip").y(OperandRole::Strip);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `y` is a strip. C8: its operands have 4-byte lanes, in the chunks of the mask (G1, G2), or in the
        // room; vacant chunks have memory of the room. What it writes are registers of lanes, temporaries, and the mask
        // that it computes. C7: with [`TURNS`], the loop's end is behind, and the ops from `x` on only continue. C3:
        // another op follows.
        unsafe {
            let code = &*g.code;
            let mut room = MaybeUninit::<StripScratch<K>>::uninit();
            let mut setup = Setup::new(code.strips.get_unchecked((*op).y as usize), room.as_mut_ptr());
            setup.find(g);
            let micros = setup.def.micros.as_slice();
            loop {
                let mut found = mask::ActiveChunks::default();
                let mut lost = false;
                let mut next = next_chunk(&g.mask, 0);
                while let Some(chunk) = next {
                    // Running over inactive lanes between the ranges of active chunks is harmless.
                    if chunk + K > g.mask.hi {
                        break;
                    }
                    let kept = run::<V, K, _>(micros, setup.block(chunk));
                    found.add_all(chunk, kept.left);
                    lost |= kept.lost;
                    next = next_chunk(&g.mask, chunk + K);
                }
                if let Some(chunk) = next {
                    setup.clear();
                    for k in 0..g.mask.hi - chunk {
                        setup.seat(k, Some(chunk + k));
                    }
                    let kept = run::<V, K, _>(micros, setup.mixed());
                    found.add_all(chunk, kept.left);
                    lost |= kept.lost;
                }
                if let Some(mask) = setup.def.kept {
                    let some = mask::keep_found(g, mask, found, lost);
                    return if some { op.add(1) } else { g.op_at((*op).x) };
                }
                if (*op).c != TURNS {
                    return op.add(1);
                }
                let goes_on = NextUniform::step(g, op.add(1));
                let mut early = g.op_at((*op).x);
                if goes_on != early {
                    return goes_on;
                }
                while early != op {
                    early = ((*early).run.call)(g, early);
                    if early.is_null() {
                        return early;
                    }
                }
            }
        }
    }
}

/// A loop whose body is one strip that computes the mask of the lanes still in the loop: where a chunk has no lanes
/// left, another chunk takes its place in the accumulators, so that they stay full until the end. Stands in front of
/// the loop's backward jump; continues at `x`.
pub(crate) struct StripLoop<V, const K: usize>(PhantomData<V>);

/// The chunks in the accumulators of a loop.
struct Seats<const K: usize> {
    /// One bit for each accumulator chunk that is not vacant.
    taken: u64,
    chunk: [usize; K],
    /// The iteration in which each chunk entered.
    since: [u64; K],
    /// The smallest of `since`.
    oldest: u64,
}

impl<const K: usize> Seats<K> {
    /// Assigns the next chunks of the group to vacant places.
    #[inline(always)]
    unsafe fn fill(&mut self, g: &ThreadGroup, setup: &mut Setup<'_, K>, next: &mut usize, iteration: u64) {
        self.oldest = iteration;
        for k in 0..K {
            if self.taken >> k & 1 == 0 {
                let chunk = next_chunk(&g.mask, *next);
                // SAFETY: C8, and `find` has run: the setup is the caller's.
                unsafe { setup.seat(k, chunk) };
                if let Some(chunk) = chunk {
                    (self.chunk[k], self.since[k]) = (chunk, iteration);
                    self.taken |= 1 << k;
                    *next = chunk + 1;
                }
            } else {
                self.oldest = self.oldest.min(self.since[k]);
            }
        }
    }
}

impl<V: WideLanes, const K: usize> OpStep for StripLoop<V, K> {
    const SHAPE: OpShape =
        OpShape::new("strip loop").x(OperandRole::Target).y(OperandRole::Strip).before(&["again if"]);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4, C8: as in [`Strip`]. C7: the loop's backward jump is behind.
        unsafe {
            let code = &*g.code;
            let mut room = MaybeUninit::<StripScratch<K>>::uninit();
            let mut setup = Setup::new(code.strips.get_unchecked((*op).y as usize), room.as_mut_ptr());
            setup.find(g);
            let micros = setup.def.micros.as_slice();
            setup.clear();
            let mut seats = Seats::<K> { taken: 0, chunk: [0; K], since: [0; K], oldest: 0 };
            // Chunks iterate independently; the loop counts as many iterations as the chunk that takes most.
            let (mut next, mut iteration, mut most, mut stopped) = (0, 0, 0, false);
            let mut left = mask::ActiveChunks::default();
            seats.fill(g, &mut setup, &mut next, iteration);
            while seats.taken != 0 {
                let here = run::<V, K, _>(micros, setup.mixed()).left;
                iteration += 1;
                let mut free = seats.taken & !here;
                if here != 0 && !stopped && iteration - seats.oldest > most {
                    // An iteration counts if some chunk that stays has now run more iterations than any before.
                    let since = (0..K).filter(|k| here >> k & 1 != 0).map(|k| seats.since[k]).min();
                    if iteration - since.unwrap_or(iteration) > most {
                        most += 1;
                        stopped = !g.budget.count_iteration();
                    }
                }
                if stopped {
                    // The launch has been asked to stop: no chunk runs more iterations than the first one did.
                    for k in (0..K).filter(|k| here >> k & 1 != 0) {
                        if iteration - seats.since[k] >= most {
                            left.add(seats.chunk[k], true);
                            free |= 1 << k;
                        }
                    }
                }
                if free != 0 {
                    seats.taken &= !free;
                    seats.fill(g, &mut setup, &mut next, iteration);
                }
            }
            if stopped {
                mask::keep_found(g, setup.def.kept.unwrap_or_default(), left, true);
                return stop_interrupted(g, (*op.add(1)).y);
            }
            g.op_at((*op).x)
        }
    }
}

/// Runs the whole program for `K` chunks.
#[inline(always)]
unsafe fn run<V: WideLanes, const K: usize, T: OperandTable>(micros: &[Micro], table: T) -> StripMask {
    // SAFETY: C8: operations name operands of the table only, whose rows have `K` chunks of 4-byte lanes: of registers
    // in the chunks of the mask, of the room, or of masks. A masked store touches active lanes only. G6: `V` is for
    // this machine.
    unsafe {
        const { assert!(K <= MOST_CHUNKS) };
        let mut kept = StripMask::default();
        let zero = V::of([0; CHUNK]);
        let (mut a, mut b) = ([zero; K], [zero; K]);
        for micro in micros {
            let m = table.row(micro.m);
            // Expands `$e` for each chunk with a constant index `$k`, so that the compiler keeps accumulators in
            // registers throughout.
            macro_rules! alone {
                ($k:ident, $e:expr) => {
                    alone!(@ $k, $e, 0, 1, 2, 3, 4, 5, 6, 7)
                };
                (@ $k:ident, $e:expr, $($at:literal),*) => {{
                    $(if $at < K {
                        #[allow(non_upper_case_globals)]
                        const $k: usize = $at;
                        $e
                    })*
                }};
            }
            // The same, with `$v` the chunk of `m`.
            macro_rules! each {
                ($k:ident, $v:ident, $e:expr) => {
                    alone!($k, {
                        let $v = V::load(m.at($k));
                        $e
                    })
                };
            }
            // The same, with `$w` the chunk of `n` besides.
            macro_rules! both {
                ($k:ident, $v:ident, $w:ident, $e:expr) => {{
                    let n = table.row(micro.n);
                    alone!($k, {
                        let $v = V::load(m.at($k));
                        let $w = V::load(n.at($k));
                        $e
                    })
                }};
            }
            match micro.code {
                StripOpcode::Load => each!(k, v, a[k] = v),
                StripOpcode::LoadB => each!(k, v, b[k] = v),
                StripOpcode::Store => alone!(k, a[k].store(m.at(k))),
                StripOpcode::StoreB => alone!(k, b[k].store(m.at(k))),
                StripOpcode::StoreMasked => {
                    let n = table.row(micro.n);
                    alone!(k, a[k].store_masked(m.at(k), V::load(n.at(k))));
                }
                StripOpcode::Add => each!(k, v, a[k] = a[k].add(v)),
                StripOpcode::Sub => each!(k, v, a[k] = a[k].sub(v)),
                StripOpcode::SubFrom => each!(k, v, a[k] = v.sub(a[k])),
                StripOpcode::Mul => each!(k, v, a[k] = a[k].mul(v)),
                StripOpcode::AddB => each!(k, v, b[k] = b[k].add(v)),
                StripOpcode::SubB => each!(k, v, b[k] = b[k].sub(v)),
                StripOpcode::SubFromB => each!(k, v, b[k] = v.sub(b[k])),
                StripOpcode::MulB => each!(k, v, b[k] = b[k].mul(v)),
                StripOpcode::AddAB => alone!(k, a[k] = a[k].add(b[k])),
                StripOpcode::SubAB => alone!(k, a[k] = a[k].sub(b[k])),
                StripOpcode::SubFromAB => alone!(k, a[k] = b[k].sub(a[k])),
                StripOpcode::MulAB => alone!(k, a[k] = a[k].mul(b[k])),
                StripOpcode::LoadAdd => both!(k, v, w, a[k] = v.add(w)),
                StripOpcode::LoadSub => both!(k, v, w, a[k] = v.sub(w)),
                StripOpcode::LoadMul => both!(k, v, w, a[k] = v.mul(w)),
                StripOpcode::LoadAddB => both!(k, v, w, b[k] = v.add(w)),
                StripOpcode::LoadSubB => both!(k, v, w, b[k] = v.sub(w)),
                StripOpcode::LoadMulB => both!(k, v, w, b[k] = v.mul(w)),
                StripOpcode::Square => alone!(k, a[k] = a[k].mul(a[k])),
                StripOpcode::SquareB => alone!(k, b[k] = b[k].mul(b[k])),
                StripOpcode::Double => alone!(k, a[k] = a[k].add(a[k])),
                StripOpcode::DoubleB => alone!(k, b[k] = b[k].add(b[k])),
                StripOpcode::AddAdd => both!(k, v, w, a[k] = a[k].add(v).add(w)),
                StripOpcode::AddSub => both!(k, v, w, a[k] = a[k].add(v).sub(w)),
                StripOpcode::AddMul => both!(k, v, w, a[k] = a[k].add(v).mul(w)),
                StripOpcode::SubAdd => both!(k, v, w, a[k] = a[k].sub(v).add(w)),
                StripOpcode::SubSub => both!(k, v, w, a[k] = a[k].sub(v).sub(w)),
                StripOpcode::SubMul => both!(k, v, w, a[k] = a[k].sub(v).mul(w)),
                StripOpcode::FromAdd => both!(k, v, w, a[k] = v.sub(a[k]).add(w)),
                StripOpcode::FromSub => both!(k, v, w, a[k] = v.sub(a[k]).sub(w)),
                StripOpcode::FromMul => both!(k, v, w, a[k] = v.sub(a[k]).mul(w)),
                StripOpcode::MulAdd => both!(k, v, w, a[k] = a[k].mul(v).add(w)),
                StripOpcode::MulSub => both!(k, v, w, a[k] = a[k].mul(v).sub(w)),
                StripOpcode::MulFrom => both!(k, v, w, a[k] = w.sub(a[k].mul(v))),
                StripOpcode::MulMul => both!(k, v, w, a[k] = a[k].mul(v).mul(w)),
                StripOpcode::Accumulate => {
                    let sum = table.row(micro.q);
                    both!(k, v, w, {
                        let to = sum.at(k);
                        a[k] = v.mul(w).add(V::load(to));
                        a[k].store(to);
                    });
                }
                StripOpcode::Div => each!(k, v, a[k] = a[k].div(v)),
                StripOpcode::DivInto => each!(k, v, a[k] = v.div(a[k])),
                StripOpcode::Min => each!(k, v, a[k] = a[k].min(v)),
                StripOpcode::Max => each!(k, v, a[k] = a[k].max(v)),
                StripOpcode::Lt => each!(k, v, a[k] = a[k].lt(v)),
                StripOpcode::Le => each!(k, v, a[k] = a[k].le(v)),
                StripOpcode::Gt => each!(k, v, a[k] = v.lt(a[k])),
                StripOpcode::Ge => each!(k, v, a[k] = v.le(a[k])),
                StripOpcode::Eq => each!(k, v, a[k] = a[k].eq(v)),
                StripOpcode::Ne => each!(k, v, a[k] = a[k].ne(v)),
                StripOpcode::AddI => each!(k, v, a[k] = a[k].add_i(v)),
                StripOpcode::SubI => each!(k, v, a[k] = a[k].sub_i(v)),
                StripOpcode::SubFromI => each!(k, v, a[k] = v.sub_i(a[k])),
                StripOpcode::MulI => each!(k, v, a[k] = a[k].mul_i(v)),
                StripOpcode::LtI => each!(k, v, a[k] = a[k].lt_i(v)),
                StripOpcode::LeI => each!(k, v, a[k] = a[k].le_i(v)),
                StripOpcode::GtI => each!(k, v, a[k] = v.lt_i(a[k])),
                StripOpcode::GeI => each!(k, v, a[k] = v.le_i(a[k])),
                StripOpcode::LtU => each!(k, v, a[k] = a[k].lt_u(v)),
                StripOpcode::LeU => each!(k, v, a[k] = a[k].le_u(v)),
                StripOpcode::GtU => each!(k, v, a[k] = v.lt_u(a[k])),
                StripOpcode::GeU => each!(k, v, a[k] = v.le_u(a[k])),
                StripOpcode::EqI => each!(k, v, a[k] = a[k].eq_i(v)),
                StripOpcode::NeI => each!(k, v, a[k] = a[k].ne_i(v)),
                StripOpcode::And => each!(k, v, a[k] = a[k].and(v)),
                StripOpcode::Or => each!(k, v, a[k] = a[k].or(v)),
                StripOpcode::Xor => each!(k, v, a[k] = a[k].xor(v)),
                StripOpcode::Neg => alone!(k, a[k] = a[k].neg()),
                StripOpcode::Abs => alone!(k, a[k] = a[k].abs()),
                StripOpcode::Sqrt => alone!(k, a[k] = a[k].sqrt()),
                StripOpcode::Rsqrt => alone!(k, a[k] = a[k].rsqrt()),
                StripOpcode::NegI => alone!(k, a[k] = zero.sub_i(a[k])),
                StripOpcode::Not => alone!(k, a[k] = a[k].xor(V::of([!0; CHUNK]))),
                StripOpcode::FromI => alone!(k, a[k] = a[k].i_as_f()),
                StripOpcode::FromU => alone!(k, a[k] = a[k].u_as_f()),
                StripOpcode::Fma => both!(k, v, w, a[k] = a[k].fma(v, w)),
                StripOpcode::Select => both!(k, v, w, a[k] = v.select(w, a[k])),
                StripOpcode::Ahead => alone!(k, fetch_to_write(m.at(k).wrapping_add(K * 4 * CHUNK))),
                StripOpcode::Keep | StripOpcode::KeepNot => {
                    let not = micro.code == StripOpcode::KeepNot;
                    let n = table.row(micro.n);
                    kept.left = 0;
                    alone!(k, {
                        let old = V::load(n.at(k));
                        let (stay, go) =
                            if not { (old.without(a[k]), old.and(a[k])) } else { (old.and(a[k]), old.without(a[k])) };
                        kept.lost |= go.any();
                        kept.left |= u64::from(stay.any()) << k;
                        stay.store(m.at(k));
                    });
                }
            }
        }
        kept
    }
}

/// Prefetches the cache line at an address, which need not be valid, for writing.
#[inline(always)]
fn fetch_to_write(at: *const u8) {
    // SAFETY: a hint, which has no effect on invalid addresses.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The largest number of chunks of an accumulator: the macros above name each.
const MOST_CHUNKS: usize = 8;

/// Returns the ops of a strip and of a loop around one. Two accumulators and the temporaries of an operation fill the
/// vector registers.
pub(crate) fn strip(isa: Isa) -> (OpFn, OpFn) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => (pick_vectors::<Strip<wide::V512, 8>>(isa), pick_vectors::<StripLoop<wide::V512, 8>>(isa)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => (pick_vectors::<Strip<wide::V256, 4>>(isa), pick_vectors::<StripLoop<wide::V256, 4>>(isa)),
        _ => (
            pick_vectors::<Strip<wide::Portable, 4>>(Isa::Base),
            pick_vectors::<StripLoop<wide::Portable, 4>>(Isa::Base),
        ),
    }
}
