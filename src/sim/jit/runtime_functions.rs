//! Functions that compiled code calls. A call processes one vector of 16 or 8 lanes (8 or 4 with AVX2). Results are
//! bit-identical to the interpreter's.
//!
//! Operands and results are passed in memory, with 64 bytes per operand. The result overwrites the first operand.

use crate::atomics;
use crate::group_registers::CHUNK;
use crate::jit::frame;
use crate::lanes::arith;
use crate::lanes::{Fn1, Fn2};
use crate::lir::LaneElem;
use crate::warp_ops;
use clk_scalar::ops::{AtomicOp, MathFn, WarpOp};
use clk_scalar::{Scalar, ScalarValue};

type LaneChunk = [f32; CHUNK];

/// Declares the generic functions with one and with two operands for an instruction set.
macro_rules! callable {
    ($one:ident $two:ident $lanes:literal $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $one<F: Fn1<f32, Out = f32>>(at: *mut LaneChunk) {
            // SAFETY: R2: machine code has stored the one operand of the function.
            let x = unsafe { &mut *at };
            for i in 0..$lanes {
                x[i] = F::call(x[i]);
            }
        }

        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $two<F: Fn2<f32, Out = f32>>(at: *mut LaneChunk) {
            // SAFETY: R2: machine code has stored both operands of the function.
            let (x, y) = unsafe { (&mut *at, &*at.add(1)) };
            for i in 0..$lanes {
                x[i] = F::call(x[i], y[i]);
            }
        }
    };
}

callable!(one two 16 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");
callable!(one_of_8_wide two_of_8_wide 8 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");
callable!(one_of_8 two_of_8 8 "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");
callable!(one_of_4 two_of_4 4 "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");

/// The buffers of an atomic: values, byte offsets, and results.
#[repr(C)]
struct AtomicArgs {
    values: [u8; 64],
    offsets: [i32; 16],
    results: [u8; 64],
}

/// Declares the atomics on floats of one type. They update the elements of the lanes whose bits are set, in lane order.
/// `alone`: no other worker thread accesses the memory.
macro_rules! updates {
    ($name:ident $bits:ty, $float:ty, $scalar:expr) => {
        unsafe extern "sysv64" fn $name<const OP: u8>(at: *mut AtomicArgs, base: *mut u8, mask: u32, alone: u64) {
            // SAFETY: R2, R9: machine code has stored operands of this type, and the addresses of the lanes in the mask
            // have been checked. If other workers access the elements, the elements are aligned and accessed
            // atomically.
            unsafe {
                let at = &mut *at;
                let (values, results) = (at.values.as_ptr().cast::<$bits>(), at.results.as_mut_ptr().cast::<$bits>());
                let (lanes, first) = (mask.trailing_ones() as usize, at.offsets[0]);
                let in_a_row = |lane: usize| at.offsets[lane] == first + (lane * size_of::<$bits>()) as i32;
                if OP == 0 && alone != 0 && u64::from(mask) + 1 == 1 << lanes && (1..lanes).all(in_a_row) {
                    let to = base.offset(first as isize).cast::<$bits>();
                    for lane in 0..lanes {
                        let old = to.add(lane).read_unaligned();
                        let sum = <$float>::from_bits(old) + <$float>::from_bits(values.add(lane).read());
                        let bits = if sum.is_nan() { $scalar.canonical_nan() as $bits } else { sum.to_bits() };
                        to.add(lane).write_unaligned(bits);
                        results.add(lane).write(old);
                    }
                    return;
                }
                for lane in (0..16).filter(|lane| mask >> lane & 1 != 0) {
                    let value = ScalarValue { ty: $scalar, bits: values.add(lane).read().into() };
                    let to = base.offset(at.offsets[lane] as isize);
                    let old = atomics::update_element(to, alone != 0, operation(OP), value, None);
                    results.add(lane).write(old.bits as $bits);
                }
            }
        }
    };
}

updates!(update_f32 u32, f32, Scalar::F32);
updates!(update_f64 u64, f64, Scalar::F64);

const fn operation(number: u8) -> AtomicOp {
    match number {
        0 => AtomicOp::Add,
        1 => AtomicOp::Sub,
        2 => AtomicOp::Min,
        _ => AtomicOp::Max,
    }
}

/// Returns the address of the function for an atomic on floats.
pub(crate) fn update(op: AtomicOp, elem: LaneElem) -> usize {
    macro_rules! pick {
        ($number:literal) => {
            match elem {
                LaneElem::F64 => update_f64::<$number> as *const () as usize,
                _ => update_f32::<$number> as *const () as usize,
            }
        };
    }
    match op {
        AtomicOp::Add => pick!(0),
        AtomicOp::Sub => pick!(1),
        AtomicOp::Min => pick!(2),
        AtomicOp::Max => pick!(3),
        other => unreachable!("no runtime function for {other:?}"),
    }
}

/// Returns the address of the math function for vectors with this number of lanes, for AVX-512 (`evex`) or AVX2.
pub(crate) fn address(function: MathFn, evex: bool, lanes: usize) -> usize {
    macro_rules! pick {
        ($($of:ident)* => $f:ident) => {{
            let [whole, half, eight, four] = [$($of::<arith::$f> as *const () as usize),*];
            match (evex, lanes) {
                (true, ..=8) => half,
                (true, _) => whole,
                (false, ..=4) => four,
                (false, _) => eight,
            }
        }};
        ($f:ident) => {
            pick!(one one_of_8_wide one_of_8 one_of_4 => $f)
        };
    }
    match function {
        MathFn::Exp => pick!(Exp),
        MathFn::Exp2 => pick!(Exp2),
        MathFn::Exp10 => pick!(Exp10),
        MathFn::Expm1 => pick!(Expm1),
        MathFn::Log => pick!(Log),
        MathFn::Log2 => pick!(Log2),
        MathFn::Log10 => pick!(Log10),
        MathFn::Log1p => pick!(Log1p),
        MathFn::Sin => pick!(Sin),
        MathFn::Cos => pick!(Cos),
        MathFn::Sinh => pick!(Sinh),
        MathFn::Cosh => pick!(Cosh),
        MathFn::Tanh => pick!(Tanh),
        MathFn::Erf => pick!(Erf),
        MathFn::Pow => pick!(two two_of_8_wide two_of_8 two_of_4 => Pow),
        other => unreachable!("{other:?} is not called"),
    }
}

/// Declares the warp operations on elements of one size. The frame contains the operand for all lanes of the batch, and
/// the source lanes of a shuffle. `active` has a bit for each active lane; for votes, `holds` has a bit for each lane
/// that votes yes. Returns 1 if only some lanes of a warp are active.
macro_rules! warps {
    ($name:ident $bits:ty) => {
        unsafe extern "sysv64" fn $name(at: *mut u8, active: u64, lane: u64, holds: u64, op: u32, elem: u32) -> u32 {
            let (op, scalar) = (OPERATIONS[op as usize], SCALARS[elem as usize]);
            // SAFETY: R2: machine code has stored the lanes of this type, of up to four vectors, in the frame, which
            // has a header.
            unsafe {
                let header = |offset: i32| at.add(offset as usize).cast::<u64>().read() as usize;
                // Warp operations run only for whole blocks, so the frame has the block's extents.
                let block = header(frame::ROW_END) * header(frame::NX);
                let values = at.add(frame::WARP as usize).cast::<$bits>();
                let words = at.add(frame::WARP as usize).cast::<u32>();
                let source_lanes = at.add(frame::SOURCE_LANES as usize).cast::<i32>();
                for first in [0, warp_ops::LANES] {
                    let taking = (active >> first) as u32;
                    if taking == 0 {
                        continue;
                    }
                    let count = warp_ops::LANES.min(block - (lane as usize / 4 + first));
                    let all = u32::MAX >> (warp_ops::LANES - count);
                    if taking & all != all {
                        return 1;
                    }
                    let ballot = (holds >> first) as u32 & all;
                    let mut inputs: [$bits; warp_ops::LANES] = [0; warp_ops::LANES];
                    for i in 0..count {
                        inputs[i] = values.add(first + i).read();
                    }
                    let write_all = |word: u32| (0..count).for_each(|i| words.add(first + i).write(word));
                    match op {
                        WarpOp::Ballot => write_all(ballot),
                        WarpOp::Any => write_all(if ballot != 0 { u32::MAX } else { 0 }),
                        WarpOp::All => write_all(if ballot == all { u32::MAX } else { 0 }),
                        WarpOp::MatchAny => {
                            for i in 0..count {
                                let same = (0..count).filter(|&j| inputs[j] == inputs[i]);
                                words.add(first + i).write(same.fold(0, |bits, j| bits | 1 << j));
                            }
                        }
                        WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
                            for i in 0..count {
                                let amount = source_lanes.add(first + i).read().into();
                                values.add(first + i).write(inputs[warp_ops::source_lane(op, i, amount, count)]);
                            }
                        }
                        _ => {
                            let value = |bits: $bits| ScalarValue { ty: scalar, bits: bits.into() };
                            let both = |a: $bits, b: $bits| {
                                warp_ops::combine(op, value(a), value(b)).map_or(0, |v| v.bits as $bits)
                            };
                            let float = |a: $bits| f32::from_bits(a as u32);
                            match (op, scalar) {
                                (WarpOp::ReduceAdd, Scalar::F32) => warp_ops::butterfly(&mut inputs, count, |a, b| {
                                    (float(a) + float(b)).to_bits() as $bits
                                }),
                                (WarpOp::ReduceAdd, Scalar::I32 | Scalar::U32) => {
                                    let add = |a: $bits, b: $bits| (a as u32).wrapping_add(b as u32) as $bits;
                                    warp_ops::butterfly(&mut inputs, count, add)
                                }
                                _ => warp_ops::butterfly(&mut inputs, count, both),
                            }
                            (0..count).for_each(|i| values.add(first + i).write(inputs[i]));
                        }
                    }
                }
            }
            0
        }
    };
}

warps!(warp_of_words u32);
warps!(warp_of_wide u64);

const OPERATIONS: [WarpOp; 14] = [
    WarpOp::Shuffle,
    WarpOp::ShuffleUp,
    WarpOp::ShuffleDown,
    WarpOp::ShuffleXor,
    WarpOp::Ballot,
    WarpOp::Any,
    WarpOp::All,
    WarpOp::ReduceAdd,
    WarpOp::ReduceMin,
    WarpOp::ReduceMax,
    WarpOp::ReduceAnd,
    WarpOp::ReduceOr,
    WarpOp::ReduceXor,
    WarpOp::MatchAny,
];

const SCALARS: [Scalar; 6] = [Scalar::F32, Scalar::F64, Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];

/// Returns the address of the function for a warp operation, and the numbers with which it encodes the operation and
/// the element type.
pub(crate) fn of_warp(op: WarpOp, elem: LaneElem) -> (usize, i32, i32) {
    let number = OPERATIONS.iter().position(|o| *o == op).unwrap_or(0) as i32;
    let scalar = SCALARS.iter().position(|s| LaneElem::from_scalar(*s) == Some(elem)).unwrap_or(0) as i32;
    let address = if elem.is_wide() { warp_of_wide as *const () } else { warp_of_words as *const () };
    (address as usize, number, scalar)
}
