//! The table of mathematical functions. Each row defines one function: its name, parameters, arithmetic, cost and
//! documentation.
//!
//! The macro [`math_functions`] passes the whole table to another macro, which generates code from some of the columns.
//! `clk_scalar::ops` generates the enum [`MathFn`](super::ops::MathFn) and a [`MathFnInfo`](super::ops::MathFnInfo) for
//! each function, `clk_scalar::builtin` reads the documentation, and `clk_scalar` generates the methods that compute
//! the functions. All other code uses [`MathFnInfo`](super::ops::MathFnInfo).
//!
//! # Format of a row
//! ```text
//! Variant "name" (parameters) method {f32, f64} cost [CUDA] "documentation";
//! ```
//! - A block of rows, such as `Floats { … }`, is a family ([`MathFamily`](super::ops::MathFamily)). It determines the
//!   operand types of its functions and the trait of `clk_scalar` that declares their methods.
//! - `{f32, f64}`: the Rust functions that compute an approximation for `f32` and for `f64`. The methods of the family
//!   `Approximations` are generated from them; `f16` and `bf16` use the `f32` function. In all other families the
//!   braces are empty, and the methods are written in `clk_scalar`.
//! - cost: the cost of a call in simple operations. 1 means that recomputing the function in every thread is
//!   practically free, 6 that it costs about as much as a division, 100 that it is more expensive.
//! - CUDA: the CUDA function. For floats, this is the name of the `double` function, and the `float` function has the
//!   suffix `f`. For integers, these are the names of the 32-bit and the 64-bit function. The brackets are empty if
//!   `clk_cuda` emits other code than a call.
//!
//! To add a function, add a row, a method, and a test. The simulator calls the method for one lane at a time, unless
//! `clk_sim::lanes` has a vectorized loop for the function.

/// Passes the table to another macro. `math_functions!(with a b)` expands to `with! { [a b] Numbers { … } Floats { … }
/// … }`: the arguments in brackets, then the table.
macro_rules! math_functions {
    ($with:ident $($with_it:tt)*) => {
        $with! {
            [$($with_it)*]
            // Functions of integers and floats.
            Numbers {
                Min "min" (x, y) op_min {} 1 ["fmin"] "The smaller of two values. If one of them is NaN, the result is the other. On the host, `min(x)` is the smallest element of an array, and `min(x, axis = k)` is the minimum along one axis.";
                Max "max" (x, y) op_max {} 1 ["fmax"] "The larger of two values. If one of them is NaN, the result is the other. On the host, `max(x)` is the largest element of an array, and `max(x, axis = k)` is the maximum along one axis.";
                Abs "abs" (x) op_abs {} 1 ["fabs"] "The absolute value. That of the smallest signed integer is the integer itself.";
                Clamp "clamp" (x, low, high) op_clamp {} 1 [] "`min(max(x, low), high)`.";
                Sign "sign" (x) op_sign {} 1 [] "-1, 0 or 1 with the sign of `x`. NaN and signed zeros are returned unchanged.";
            }
            // Functions of floats with correctly rounded results.
            Floats {
                Sqrt "sqrt" (x) op_sqrt {} 6 ["sqrt"] "The square root, correctly rounded.";
                Fma "fma" (x, y, z) op_fma {} 1 ["fma"] "`x * y + z` with one rounding.";
                Floor "floor" (x) op_floor {} 1 ["floor"] "The largest integer that is not above `x`.";
                Ceil "ceil" (x) op_ceil {} 1 ["ceil"] "The smallest integer that is not below `x`.";
                Round "round" (x) op_round {} 1 ["rint"] "The nearest integer, with ties to even.";
                Trunc "trunc" (x) op_trunc {} 1 ["trunc"] "`x` rounded toward zero to an integer.";
                Fract "fract" (x) op_fract {} 1 [] "`x - floor(x)`.";
                Copysign "copysign" (x, y) op_copysign {} 1 ["copysign"] "`x` with the sign of `y`.";
            }
            // Functions of floats with a `bool` result.
            Tests {
                IsNan "isnan" (x) op_isnan {} 1 ["isnan"] "Whether `x` is not a number.";
                IsInf "isinf" (x) op_isinf {} 1 ["isinf"] "Whether `x` is an infinity.";
                IsFinite "isfinite" (x) op_isfinite {} 1 ["isfinite"] "Whether `x` is neither NaN nor an infinity.";
            }
            // Functions of floats whose error is below a documented number of ULPs. `f16` and `bf16` round the `f32`
            // result.
            Approximations {
                Rsqrt "rsqrt" (x) op_rsqrt {math32::rsqrt, math64::rsqrt} 100 ["rsqrt"] "`1 / sqrt(x)`.";
                Cbrt "cbrt" (x) op_cbrt {math32::cbrt, libm::cbrt} 100 ["cbrt"] "The cube root.";
                Exp "exp" (x) op_exp {math32::exp, libm::exp} 100 ["exp"] "e to the power of `x`.";
                Exp2 "exp2" (x) op_exp2 {math32::exp2, libm::exp2} 100 ["exp2"] "2 to the power of `x`.";
                Exp10 "exp10" (x) op_exp10 {math32::exp10, libm::exp10} 100 ["exp10"] "10 to the power of `x`.";
                Expm1 "expm1" (x) op_expm1 {math32::expm1, libm::expm1} 100 ["expm1"] "`exp(x) - 1`, accurate near 0.";
                Log "log" (x) op_log {math32::log, libm::log} 100 ["log"] "The natural logarithm.";
                Log2 "log2" (x) op_log2 {math32::log2, libm::log2} 100 ["log2"] "The logarithm to base 2.";
                Log10 "log10" (x) op_log10 {math32::log10, libm::log10} 100 ["log10"] "The logarithm to base 10.";
                Log1p "log1p" (x) op_log1p {math32::log1p, libm::log1p} 100 ["log1p"] "`log(1 + x)`, accurate near 0.";
                Sin "sin" (x) op_sin {trig32::sin, libm::sin} 100 ["sin"] "The sine of an angle in radians.";
                Cos "cos" (x) op_cos {trig32::cos, libm::cos} 100 ["cos"] "The cosine of an angle in radians.";
                Tan "tan" (x) op_tan {trig32::tan, libm::tan} 100 ["tan"] "The tangent of an angle in radians.";
                Asin "asin" (x) op_asin {trig32::asin, libm::asin} 100 ["asin"] "The angle whose sine is `x`.";
                Acos "acos" (x) op_acos {trig32::acos, libm::acos} 100 ["acos"] "The angle whose cosine is `x`.";
                Atan "atan" (x) op_atan {trig32::atan, libm::atan} 100 ["atan"] "The angle whose tangent is `x`.";
                Atan2 "atan2" (y, x) op_atan2 {trig32::atan2, libm::atan2} 100 ["atan2"] "The angle of the point (x, y), from -pi to pi.";
                Sinh "sinh" (x) op_sinh {math32::sinh, libm::sinh} 100 ["sinh"] "The hyperbolic sine.";
                Cosh "cosh" (x) op_cosh {math32::cosh, libm::cosh} 100 ["cosh"] "The hyperbolic cosine.";
                Tanh "tanh" (x) op_tanh {math32::tanh, libm::tanh} 100 ["tanh"] "The hyperbolic tangent.";
                Asinh "asinh" (x) op_asinh {math32::asinh, libm::asinh} 100 ["asinh"] "The inverse of `sinh`.";
                Acosh "acosh" (x) op_acosh {math32::acosh, math64::acosh} 100 ["acosh"] "The inverse of `cosh`.";
                Atanh "atanh" (x) op_atanh {math32::atanh, libm::atanh} 100 ["atanh"] "The inverse of `tanh`.";
                Hypot "hypot" (x, y) op_hypot {math32::hypot, libm::hypot} 100 ["hypot"] "`sqrt(x*x + y*y)` without overflow.";
                Erf "erf" (x) op_erf {math32::erf, libm::erf} 100 ["erf"] "The error function.";
                Erfc "erfc" (x) op_erfc {math32::erfc, libm::erfc} 100 ["erfc"] "`1 - erf(x)`, accurate for large `x`.";
                Lgamma "lgamma" (x) op_lgamma {math32::lgamma, libm::lgamma} 100 ["lgamma"] "The logarithm of the absolute value of the gamma function.";
                Tgamma "tgamma" (x) op_tgamma {math32::tgamma, libm::tgamma} 100 ["tgamma"] "The gamma function.";
            }
            // Like `Approximations`, but with integer methods too, which the operator `**` uses.
            Powers {
                Pow "pow" (x, y) op_pow {} 100 ["pow"] "`x` to the power of `y`.";
            }
            // Functions of `f32` with exact results. The `f64` method is the identity, for shadow programs, which
            // compute with `f64` instead of `f32`.
            Singles {
                Tf32 "tf32" (x) op_tf32 {} 1 [] "`x` rounded to the nearest `tf32` number, with ties to even: 10 fraction bits and the exponent range of `f32`. Tensor cores multiply such numbers in `mma`. Values that round above the largest one become infinite, and NaN stays NaN.";
            }
            // Functions of integers.
            Integers {
                Popcount "popcount" (x) op_popcount {} 1 ["__popc", "__popcll"] "The number of bits that are set.";
                Clz "clz" (x) op_clz {} 1 [] "The number of leading zero bits.";
                Ctz "ctz" (x) op_ctz {} 1 [] "The number of trailing zero bits.";
                ReverseBits "reverse_bits" (x) op_reverse_bits {} 1 ["__brev", "__brevll"] "The bits in reverse order.";
                MulHi "mul_hi" (x, y) op_mul_hi {} 1 [] "The high half of the double-width product.";
                WrappingAdd "wrapping_add" (x, y) op_add {} 1 [] "Addition modulo 2^bits, without an overflow fault.";
                WrappingSub "wrapping_sub" (x, y) op_sub {} 1 [] "Subtraction modulo 2^bits.";
                WrappingMul "wrapping_mul" (x, y) op_mul {} 1 [] "Multiplication modulo 2^bits.";
                WrappingNeg "wrapping_neg" (x) op_neg {} 1 [] "Negation modulo 2^bits.";
                SaturatingAdd "saturating_add" (x, y) op_saturating_add {} 1 [] "Addition clamped to the limits of the type.";
                SaturatingSub "saturating_sub" (x, y) op_saturating_sub {} 1 [] "Subtraction clamped to the limits of the type.";
            }
        }
    };
}

pub(crate) use math_functions;
