//! Functions that compiled code calls: one vector of 16 lanes at a time, with the bits of the interpreter's loops.
//!
//! Input and output are in memory: the operands, 64 bytes each, and in place of the first one the result.

use crate::device::sim::group::CHUNK;
use crate::device::sim::lanes::arith;
use crate::device::sim::lanes::{Fn1, Fn2};
use crate::lang::ops::MathFn;

type Lanes = [f32; CHUNK];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe extern "sysv64" fn one<F: Fn1<f32, Out = f32>>(at: *mut Lanes) {
    // SAFETY: R2: machine code puts as many operands there as the function takes, one.
    let x = unsafe { at.read() };
    let mut r = [0.0; CHUNK];
    for i in 0..CHUNK {
        r[i] = F::call(x[i]);
    }
    // SAFETY: as above.
    unsafe { at.write(r) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe extern "sysv64" fn two<F: Fn2<f32, Out = f32>>(at: *mut Lanes) {
    // SAFETY: R2: machine code puts as many operands there as the function takes, two.
    let (x, y) = unsafe { (at.read(), at.add(1).read()) };
    let mut r = [0.0; CHUNK];
    for i in 0..CHUNK {
        r[i] = F::call(x[i], y[i]);
    }
    // SAFETY: as above.
    unsafe { at.write(r) }
}

/// Returns the address of a function that LaneIR calls.
pub(crate) fn address(function: MathFn) -> usize {
    match function {
        MathFn::Exp => one::<arith::Exp> as *const () as usize,
        MathFn::Exp2 => one::<arith::Exp2> as *const () as usize,
        MathFn::Exp10 => one::<arith::Exp10> as *const () as usize,
        MathFn::Expm1 => one::<arith::Expm1> as *const () as usize,
        MathFn::Log => one::<arith::Log> as *const () as usize,
        MathFn::Log2 => one::<arith::Log2> as *const () as usize,
        MathFn::Log10 => one::<arith::Log10> as *const () as usize,
        MathFn::Log1p => one::<arith::Log1p> as *const () as usize,
        MathFn::Sin => one::<arith::Sin> as *const () as usize,
        MathFn::Cos => one::<arith::Cos> as *const () as usize,
        MathFn::Sinh => one::<arith::Sinh> as *const () as usize,
        MathFn::Cosh => one::<arith::Cosh> as *const () as usize,
        MathFn::Tanh => one::<arith::Tanh> as *const () as usize,
        MathFn::Erf => one::<arith::Erf> as *const () as usize,
        MathFn::Pow => two::<arith::Pow> as *const () as usize,
        other => unreachable!("{other:?} is not called"),
    }
}
