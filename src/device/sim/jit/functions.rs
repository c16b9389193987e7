//! Functions that compiled code calls: one vector of 16 lanes at a time, or of 8 with AVX2, with the bits of the interpreter's loops.
//!
//! Input and output are in memory: the operands, 64 bytes each, and in place of the first one the result.

use crate::device::sim::atomics;
use crate::device::sim::group::CHUNK;
use crate::device::sim::lane::Elem;
use crate::device::sim::lanes::arith;
use crate::device::sim::lanes::{Fn1, Fn2};
use crate::lang::ops::{AtomicOp, MathFn};
use crate::lang::scalar::{Scalar, Value};

type Lanes = [f32; CHUNK];

/// Declares the functions of one and of two operands for an instruction set.
macro_rules! callable {
    ($one:ident $two:ident $lanes:literal $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $one<F: Fn1<f32, Out = f32>>(at: *mut Lanes) {
            // SAFETY: R2: machine code puts as many operands there as the function takes, one.
            let x = unsafe { &mut *at };
            for i in 0..$lanes {
                x[i] = F::call(x[i]);
            }
        }

        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $two<F: Fn2<f32, Out = f32>>(at: *mut Lanes) {
            // SAFETY: R2: machine code puts as many operands there as the function takes, two.
            let (x, y) = unsafe { (&mut *at, &*at.add(1)) };
            for i in 0..$lanes {
                x[i] = F::call(x[i], y[i]);
            }
        }
    };
}

callable!(one two 16 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");
callable!(one_of_8 two_of_8 8 "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");

/// The operands of an atomic: values, byte offsets, and what the lanes find.
#[repr(C)]
struct Updates {
    values: [u8; 64],
    offsets: [i32; 16],
    found: [u8; 64],
}

/// Declares an atomic on floats of a type: the lanes whose bits are set, the first one first. `alone`: nobody else accesses them.
macro_rules! updates {
    ($name:ident $float:ty, $scalar:expr) => {
        unsafe extern "sysv64" fn $name<const OP: u8>(at: *mut Updates, base: *mut u8, mask: u32, alone: u64) {
            // SAFETY: R2, R9: machine code puts operands of this type there, and the addresses of the lanes in the mask have been
            // checked. If other workers access them, they are aligned, and accessed atomically.
            unsafe {
                let at = &mut *at;
                let (values, found) = (at.values.as_ptr().cast::<$float>(), at.found.as_mut_ptr().cast::<$float>());
                for lane in (0..16).filter(|lane| mask >> lane & 1 != 0) {
                    let value = Value { ty: $scalar, bits: values.add(lane).read().into() };
                    let to = base.offset(at.offsets[lane] as isize);
                    let old = atomics::update(to, alone != 0, operation(OP), value, None);
                    found.add(lane).write(old.bits as $float);
                }
            }
        }
    };
}

updates!(update_f32 u32, Scalar::F32);
updates!(update_f64 u64, Scalar::F64);

const fn operation(number: u8) -> AtomicOp {
    match number {
        0 => AtomicOp::Add,
        1 => AtomicOp::Sub,
        2 => AtomicOp::Min,
        _ => AtomicOp::Max,
    }
}

/// Returns the address of the function for an atomic on floats.
pub(crate) fn update(op: AtomicOp, elem: Elem) -> usize {
    macro_rules! pick {
        ($number:literal) => {
            match elem {
                Elem::F64 => update_f64::<$number> as *const () as usize,
                _ => update_f32::<$number> as *const () as usize,
            }
        };
    }
    match op {
        AtomicOp::Add => pick!(0),
        AtomicOp::Sub => pick!(1),
        AtomicOp::Min => pick!(2),
        AtomicOp::Max => pick!(3),
        other => unreachable!("{other:?} is not called"),
    }
}

/// Returns the address of a function that LaneIR calls, for AVX-512 or for AVX2.
pub(crate) fn address(function: MathFn, evex: bool) -> usize {
    macro_rules! pick {
        ($one:ident $eight:ident $f:ident) => {
            if evex { $one::<arith::$f> as *const () as usize } else { $eight::<arith::$f> as *const () as usize }
        };
        ($f:ident) => {
            pick!(one one_of_8 $f)
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
        MathFn::Pow => pick!(two two_of_8 Pow),
        other => unreachable!("{other:?} is not called"),
    }
}
