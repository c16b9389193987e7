//! Strips: a run of arithmetic goes over the lanes a few chunks at a time, and what it works on stays in vector registers.
//!
//! The compiler makes a small program for two accumulators of each run of ops that only compute (`compile::strip`). An
//! accumulator is as many chunks as fit in vector registers, so that one dispatch is paid for them all, and only values that are
//! wanted again are stored. Every step still rounds by itself.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::code::{MaskId, Op, Reg};
use super::code::OpFn;
use super::control::interrupted;
use super::group::{CHUNK, Group, MAX_LANES};
use super::lanes::wide::{self, Wide};
use super::lanes::{Isa, Step, arith, mask, pick};

/// Where an operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Reg(Reg),
    /// A strip's own room for a value.
    Scratch(u8),
    /// The lanes of the mask that is current when the strip begins.
    Mask,
    /// The lanes of the mask that it makes.
    Kept(MaskId),
}

/// What a step does. `a` and `b` are the accumulators, `m`, `n` and `q` places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[rustfmt::skip]
pub enum Code {
    /// `a = m`
    Load, LoadB,
    /// `m = a`
    Store, StoreB,
    /// `m = a` in the lanes of mask `n`.
    StoreMasked,
    // `a = a op m`
    Add, Sub, SubFrom, Mul,
    // `b = b op m`
    AddB, SubB, SubFromB, MulB,
    // `a = a op b`
    AddAB, SubAB, SubFromAB, MulAB,
    // `a = m op n`
    LoadAdd, LoadSub, LoadMul,
    // `b = m op n`
    LoadAddB, LoadSubB, LoadMulB,
    /// `a = a op a`
    Square, SquareB, Double, DoubleB,
    // `a = (a op m) op n`
    AddAdd, AddSub, AddMul, SubAdd, SubSub, SubMul, FromAdd, FromSub, FromMul, MulAdd, MulSub, MulFrom, MulMul,
    /// `q = a = m * n + q`
    Accumulate,
    // `a = a op m`
    Div, DivInto, Min, Max, Lt, Le, Gt, Ge, Eq, Ne,
    AddI, SubI, SubFromI, MulI, LtI, LeI, GtI, GeI, LtU, LeU, GtU, GeU, EqI, NeI,
    And, Or, Xor,
    // `a = f(a)`
    Neg, Abs, Sqrt, Rsqrt, NegI, Not, FromI, FromU,
    /// `a = a * m + n`, rounded once.
    Fma,
    /// `a = a ? m : n`
    Select,
    /// `m = n & a`, where `n` is the old mask and `m` the new one.
    Keep,
    /// `m = n & !a`
    KeepNot,
}

#[derive(Clone, Copy, Debug)]
pub struct Micro {
    pub code: Code,
    pub m: u8,
    pub n: u8,
    pub q: u8,
}

/// A strip's program.
#[derive(Clone, Debug, Default)]
pub struct StripDef {
    pub places: Vec<Place>,
    pub micros: Vec<Micro>,
    /// The mask that it makes.
    pub kept: Option<MaskId>,
}

/// The most places of a strip, and of them in its own room.
pub const PLACES: usize = 96;
pub const SCRATCH: usize = 24;

/// A place as the loops see it.
#[derive(Clone, Copy)]
struct Entry {
    ptr: *mut u8,
    /// Bytes from chunk to chunk within an accumulator,
    inner: usize,
    /// and from chunk to chunk of the group.
    outer: usize,
}

impl Entry {
    #[inline(always)]
    fn at(&self, chunk: usize) -> *mut u8 {
        self.ptr.wrapping_add(chunk * self.outer)
    }
}

#[repr(align(64))]
struct Room<const K: usize>(#[allow(dead_code)] [[[u8; 4 * CHUNK]; K]; SCRATCH]);

/// Runs strip `y`. If it keeps a mask, that one becomes current, and where no lane is left the run goes on at `x`.
pub struct Strip<V, const K: usize>(PhantomData<V>);

/// What a strip finds out about the mask that it makes.
#[derive(Default)]
struct Kept {
    found: mask::Found,
    lost: bool,
    /// Chunks of the block that have lanes left.
    here: u64,
}

impl<V: Wide, const K: usize> Step for Strip<V, K> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let code = &*g.code;
            let def = code.strips.get_unchecked((*op).y as usize);
            let mut room = MaybeUninit::<Room<K>>::uninit();
            let table = table::<K>(g, def, room.as_mut_ptr().cast());
            let table = table.as_ptr().cast::<Entry>();
            let mut kept = Kept::default();
            each_block::<K>(g, |chunk, whole| {
                if whole {
                    run::<V, K>(&def.micros, table, chunk, &mut kept);
                } else {
                    run::<V, 1>(&def.micros, table, chunk, &mut kept);
                }
            });
            match def.kept {
                Some(mask) if mask::keep_found(g, mask, kept.found, kept.lost) => op.add(1),
                Some(_) => g.at((*op).x),
                None => op.add(1),
            }
        }
    }
}

/// Calls `f` with the first chunk of each block of the current mask: of `K` chunks, or of one.
#[inline(always)]
fn each_block<const K: usize>(g: &Group, mut f: impl FnMut(usize, bool)) {
    let mut done = 0;
    for &(lo, hi) in g.stretches.list() {
        let mut chunk = done.max(lo as usize);
        while chunk < hi as usize {
            // Lanes between the stretches are no one's: it does no harm to go over them as well.
            let whole = chunk + K <= g.hi;
            f(chunk, whole);
            chunk += if whole { K } else { 1 };
        }
        done = chunk;
    }
}

#[inline(always)]
unsafe fn table<const K: usize>(g: &Group, def: &StripDef, room: *mut u8) -> [MaybeUninit<Entry>; PLACES] {
    let mut table = [const { MaybeUninit::<Entry>::uninit() }; PLACES];
    for (entry, &place) in table.iter_mut().zip(&def.places) {
        entry.write(unsafe { entry_of::<K>(g, place, room) });
    }
    table
}

/// A loop whose body is one strip that keeps the mask of the lanes in the loop: every block takes all its turns before the next
/// one does. In front of the op that would go back; goes on at `x`.
pub struct StripLoop<V, const K: usize>(PhantomData<V>);

/// Turns of the blocks of a loop. Blocks do not know of one another; together they took as many as the one that took most.
struct Turns {
    most: u64,
    /// Something outside wants the launch to stop: no block goes further than `most`.
    stopped: bool,
}

impl Turns {
    /// Whether a block that has taken `turn` turns may take another.
    #[inline(always)]
    fn again(&mut self, g: &mut Group, turn: u64) -> bool {
        if turn > self.most && !self.stopped {
            self.most = turn;
            self.stopped = !g.turn();
        }
        turn < self.most || !self.stopped
    }
}

impl<V: Wide, const K: usize> Step for StripLoop<V, K> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let code = &*g.code;
            let def = code.strips.get_unchecked((*op).y as usize);
            let mut room = MaybeUninit::<Room<K>>::uninit();
            let table = table::<K>(g, def, room.as_mut_ptr().cast());
            let table = table.as_ptr().cast::<Entry>();
            let mut turns = Turns { most: 0, stopped: false };
            let mut left = mask::Found::default();
            let mut blocks = [(0, false); MAX_BLOCKS];
            let mut count = 0;
            each_block::<K>(g, |chunk, whole| {
                blocks[count] = (chunk as u16, whole);
                count += 1;
            });
            for &(chunk, whole) in blocks.iter().take(count) {
                let chunk = usize::from(chunk);
                let mut turn = 0;
                let mut alive = if whole { (1u64 << K) - 1 } else { 1 };
                // While several chunks have lanes the block stays together.
                while alive.count_ones() > 1 && (turn == 0 || turns.again(g, turn)) {
                    alive = one_turn::<V, K>(def, table, chunk);
                    turn += 1;
                }
                if alive.count_ones() == 1 {
                    let alone = chunk + alive.trailing_zeros() as usize;
                    while alive != 0 && (turn == 0 || turns.again(g, turn)) {
                        alive = one_turn::<V, 1>(def, table, alone) << (alone - chunk);
                        turn += 1;
                    }
                }
                (0..K).for_each(|k| left.add(chunk + k, alive >> k & 1 != 0));
            }
            if turns.stopped {
                mask::keep_found(g, def.kept.unwrap_or_default(), left, true);
                return interrupted(g, (*op.add(1)).y);
            }
            g.at((*op).x)
        }
    }
}

/// One block or more for each chunk of the largest group.
const MAX_BLOCKS: usize = MAX_LANES / CHUNK;

/// One turn of a block; a bit for each chunk that has lanes left.
#[inline(always)]
unsafe fn one_turn<V: Wide, const K: usize>(def: &StripDef, table: *const Entry, chunk: usize) -> u64 {
    let mut kept = Kept::default();
    unsafe { run::<V, K>(&def.micros, table, chunk, &mut kept) };
    kept.here
}

#[inline(always)]
unsafe fn entry_of<const K: usize>(g: &Group, place: Place, room: *mut u8) -> Entry {
    unsafe {
        let lanes = 4 * CHUNK;
        match place {
            Place::Reg(reg) => {
                let slot = g.slot(reg);
                Entry { ptr: slot.ptr, inner: slot.stride, outer: slot.stride }
            }
            Place::Scratch(k) => Entry { ptr: room.add(usize::from(k) * K * lanes), inner: lanes, outer: 0 },
            Place::Mask => Entry { ptr: g.mask.cast_mut().cast(), inner: lanes, outer: lanes },
            Place::Kept(mask) => Entry { ptr: mask::mask_ptr(g, mask), inner: lanes, outer: lanes },
        }
    }
}

/// The whole program for `K` chunks.
#[inline(always)]
unsafe fn run<V: Wide, const K: usize>(micros: &[Micro], table: *const Entry, chunk: usize, kept: &mut Kept) {
    unsafe {
        let zero = V::of([0; CHUNK]);
        let (mut a, mut b) = ([zero; K], [zero; K]);
        for micro in micros {
            let place = |at: u8| {
                let entry = &*table.add(at.into());
                (entry.at(chunk), entry.inner)
            };
            let (p, s) = place(micro.m);
            // `$v` is each chunk of `m` in turn.
            macro_rules! each {
                ($k:ident, $v:ident, $e:expr) => {
                    for $k in 0..K {
                        let $v = V::load(p.wrapping_add($k * s));
                        $e
                    }
                };
            }
            // As well as `$w` of `n`.
            macro_rules! both {
                ($k:ident, $v:ident, $w:ident, $e:expr) => {{
                    let (q, t) = place(micro.n);
                    for $k in 0..K {
                        let $v = V::load(p.wrapping_add($k * s));
                        let $w = V::load(q.wrapping_add($k * t));
                        $e
                    }
                }};
            }
            macro_rules! alone {
                ($k:ident, $e:expr) => {
                    for $k in 0..K {
                        $e
                    }
                };
            }
            match micro.code {
                Code::Load => each!(k, v, a[k] = v),
                Code::LoadB => each!(k, v, b[k] = v),
                Code::Store => alone!(k, a[k].store(p.wrapping_add(k * s))),
                Code::StoreB => alone!(k, b[k].store(p.wrapping_add(k * s))),
                Code::StoreMasked => {
                    let (q, t) = place(micro.n);
                    alone!(k, a[k].store_masked(p.wrapping_add(k * s), V::load(q.wrapping_add(k * t))));
                }
                Code::Add => each!(k, v, a[k] = a[k].add(v)),
                Code::Sub => each!(k, v, a[k] = a[k].sub(v)),
                Code::SubFrom => each!(k, v, a[k] = v.sub(a[k])),
                Code::Mul => each!(k, v, a[k] = a[k].mul(v)),
                Code::AddB => each!(k, v, b[k] = b[k].add(v)),
                Code::SubB => each!(k, v, b[k] = b[k].sub(v)),
                Code::SubFromB => each!(k, v, b[k] = v.sub(b[k])),
                Code::MulB => each!(k, v, b[k] = b[k].mul(v)),
                Code::AddAB => alone!(k, a[k] = a[k].add(b[k])),
                Code::SubAB => alone!(k, a[k] = a[k].sub(b[k])),
                Code::SubFromAB => alone!(k, a[k] = b[k].sub(a[k])),
                Code::MulAB => alone!(k, a[k] = a[k].mul(b[k])),
                Code::LoadAdd => both!(k, v, w, a[k] = v.add(w)),
                Code::LoadSub => both!(k, v, w, a[k] = v.sub(w)),
                Code::LoadMul => both!(k, v, w, a[k] = v.mul(w)),
                Code::LoadAddB => both!(k, v, w, b[k] = v.add(w)),
                Code::LoadSubB => both!(k, v, w, b[k] = v.sub(w)),
                Code::LoadMulB => both!(k, v, w, b[k] = v.mul(w)),
                Code::Square => alone!(k, a[k] = a[k].mul(a[k])),
                Code::SquareB => alone!(k, b[k] = b[k].mul(b[k])),
                Code::Double => alone!(k, a[k] = a[k].add(a[k])),
                Code::DoubleB => alone!(k, b[k] = b[k].add(b[k])),
                Code::AddAdd => both!(k, v, w, a[k] = a[k].add(v).add(w)),
                Code::AddSub => both!(k, v, w, a[k] = a[k].add(v).sub(w)),
                Code::AddMul => both!(k, v, w, a[k] = a[k].add(v).mul(w)),
                Code::SubAdd => both!(k, v, w, a[k] = a[k].sub(v).add(w)),
                Code::SubSub => both!(k, v, w, a[k] = a[k].sub(v).sub(w)),
                Code::SubMul => both!(k, v, w, a[k] = a[k].sub(v).mul(w)),
                Code::FromAdd => both!(k, v, w, a[k] = v.sub(a[k]).add(w)),
                Code::FromSub => both!(k, v, w, a[k] = v.sub(a[k]).sub(w)),
                Code::FromMul => both!(k, v, w, a[k] = v.sub(a[k]).mul(w)),
                Code::MulAdd => both!(k, v, w, a[k] = a[k].mul(v).add(w)),
                Code::MulSub => both!(k, v, w, a[k] = a[k].mul(v).sub(w)),
                Code::MulFrom => both!(k, v, w, a[k] = w.sub(a[k].mul(v))),
                Code::MulMul => both!(k, v, w, a[k] = a[k].mul(v).mul(w)),
                Code::Accumulate => {
                    let (to, u) = place(micro.q);
                    both!(k, v, w, {
                        let to = to.wrapping_add(k * u);
                        a[k] = v.mul(w).add(V::load(to));
                        a[k].store(to);
                    });
                }
                Code::Div => each!(k, v, a[k] = a[k].div(v)),
                Code::DivInto => each!(k, v, a[k] = v.div(a[k])),
                Code::Min => each!(k, v, a[k] = a[k].min(v)),
                Code::Max => each!(k, v, a[k] = a[k].max(v)),
                Code::Lt => each!(k, v, a[k] = a[k].lt(v)),
                Code::Le => each!(k, v, a[k] = a[k].le(v)),
                Code::Gt => each!(k, v, a[k] = v.lt(a[k])),
                Code::Ge => each!(k, v, a[k] = v.le(a[k])),
                Code::Eq => each!(k, v, a[k] = a[k].eq(v)),
                Code::Ne => each!(k, v, a[k] = a[k].ne(v)),
                Code::AddI => each!(k, v, a[k] = a[k].add_i(v)),
                Code::SubI => each!(k, v, a[k] = a[k].sub_i(v)),
                Code::SubFromI => each!(k, v, a[k] = v.sub_i(a[k])),
                Code::MulI => each!(k, v, a[k] = a[k].mul_i(v)),
                Code::LtI => each!(k, v, a[k] = a[k].lt_i(v)),
                Code::LeI => each!(k, v, a[k] = a[k].le_i(v)),
                Code::GtI => each!(k, v, a[k] = v.lt_i(a[k])),
                Code::GeI => each!(k, v, a[k] = v.le_i(a[k])),
                Code::LtU => each!(k, v, a[k] = a[k].lt_u(v)),
                Code::LeU => each!(k, v, a[k] = a[k].le_u(v)),
                Code::GtU => each!(k, v, a[k] = v.lt_u(a[k])),
                Code::GeU => each!(k, v, a[k] = v.le_u(a[k])),
                Code::EqI => each!(k, v, a[k] = a[k].eq_i(v)),
                Code::NeI => each!(k, v, a[k] = a[k].ne_i(v)),
                Code::And => each!(k, v, a[k] = a[k].and(v)),
                Code::Or => each!(k, v, a[k] = a[k].or(v)),
                Code::Xor => each!(k, v, a[k] = a[k].xor(v)),
                Code::Neg => alone!(k, a[k] = a[k].neg()),
                Code::Abs => alone!(k, a[k] = a[k].abs()),
                Code::Sqrt => alone!(k, a[k] = a[k].sqrt()),
                Code::Rsqrt => alone!(k, a[k] = a[k].rsqrt()),
                Code::NegI => alone!(k, a[k] = zero.sub_i(a[k])),
                Code::Not => alone!(k, a[k] = a[k].xor(V::of([!0; CHUNK]))),
                Code::FromI => alone!(k, a[k] = a[k].map1::<i32, ToF32>()),
                Code::FromU => alone!(k, a[k] = a[k].map1::<u32, ToF32>()),
                Code::Fma => both!(k, v, w, a[k] = a[k].map3::<f32, arith::Fma>(v, w)),
                Code::Select => both!(k, v, w, a[k] = v.select(w, a[k])),
                Code::Keep | Code::KeepNot => {
                    let not = micro.code == Code::KeepNot;
                    let (q, t) = place(micro.n);
                    kept.here = 0;
                    for k in 0..K {
                        let old = V::load(q.wrapping_add(k * t));
                        let (stay, go) =
                            if not { (old.without(a[k]), old.and(a[k])) } else { (old.and(a[k]), old.without(a[k])) };
                        kept.lost |= go.any();
                        kept.found.add(chunk + k, stay.any());
                        kept.here |= u64::from(stay.any()) << k;
                        stay.store(p.wrapping_add(k * s));
                    }
                }
            }
        }
    }
}

type ToF32 = super::lanes::convert::To<f32>;

/// The op of a strip, and of a loop around one. Two accumulators and what an act needs besides fill the vector registers.
pub fn strip(isa: Isa) -> (OpFn, OpFn) {
    match isa {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => (pick::<Strip<wide::V512, 8>>(isa), pick::<StripLoop<wide::V512, 8>>(isa)),
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx2 => (pick::<Strip<wide::V256, 2>>(isa), pick::<StripLoop<wide::V256, 2>>(isa)),
        _ => (pick::<Strip<wide::Portable, 2>>(Isa::Base), pick::<StripLoop<wide::Portable, 2>>(Isa::Base)),
    }
}
