//! Functions that compiled code calls: one vector of 16 lanes at a time, or of 8 with AVX2, with the bits of the interpreter's loops.
//!
//! Input and output are in memory: the operands, 64 bytes each, and in place of the first one the result.

use crate::device::sim::group::CHUNK;
use crate::device::sim::lanes::arith;
use crate::device::sim::lanes::{Fn1, Fn2};
use crate::lang::ops::MathFn;

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
