//! Names of the emitted text: those that a C++ name must not take, because Clk gives them a meaning in kernels.

use smol_str::SmolStr;

/// Reserved words, types, and the builtins that kernels use, in alphabetical order.
const RESERVED: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "assert",
    "assume",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_compare_exchange",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_sub",
    "atomic_xor",
    "ballot",
    "barrier",
    "barrier_all",
    "barrier_any",
    "barrier_count",
    "batch",
    "bench",
    "bf16",
    "bitcast",
    "block",
    "block_dim",
    "block_idx",
    "bool",
    "break",
    "cached",
    "cbrt",
    "ceil",
    "ceil_div",
    "clamp",
    "clz",
    "const",
    "continue",
    "copysign",
    "cos",
    "cosh",
    "cross",
    "ctz",
    "dot",
    "else",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expect",
    "expm1",
    "f16",
    "f32",
    "f64",
    "false",
    "fence",
    "fence_block",
    "floor",
    "fma",
    "fn",
    "for",
    "fract",
    "global_idx",
    "grid",
    "grid_barrier",
    "grid_dim",
    "hypot",
    "i16",
    "i32",
    "i64",
    "i8",
    "if",
    "import",
    "in",
    "inout",
    "isfinite",
    "isinf",
    "isnan",
    "kernel",
    "lane_idx",
    "len",
    "length",
    "let",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "loop",
    "match_any",
    "max",
    "min",
    "mma",
    "mul_hi",
    "no_grad",
    "normalize",
    "on",
    "out",
    "popcount",
    "pow",
    "print",
    "return",
    "reverse_bits",
    "round",
    "rsqrt",
    "saturating_add",
    "saturating_sub",
    "select",
    "shape",
    "shared",
    "shuffle",
    "shuffle_down",
    "shuffle_up",
    "shuffle_xor",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "step",
    "str",
    "streaming",
    "struct",
    "tan",
    "tanh",
    "test",
    "tf32",
    "tgamma",
    "thread_idx",
    "threads",
    "time",
    "true",
    "trunc",
    "tune",
    "u16",
    "u32",
    "u64",
    "u8",
    "var",
    "warp_all",
    "warp_any",
    "warp_barrier",
    "warp_idx",
    "warp_reduce_add",
    "warp_reduce_and",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_or",
    "warp_reduce_xor",
    "warp_size",
    "while",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_neg",
    "wrapping_sub",
];

/// Returns whether a name has a meaning in Clk kernels, such as `out`, `length` or `f32x4`.
pub(crate) fn is_reserved(name: &str) -> bool {
    if RESERVED.binary_search(&name).is_ok() {
        return true;
    }
    is_type(name)
}

/// Returns whether a name is a scalar or vector type of Clk: `f32`, `f32x4`.
pub(crate) fn is_type(name: &str) -> bool {
    let scalar = match name.rsplit_once('x') {
        Some((scalar, "2" | "3" | "4")) => scalar,
        _ => name,
    };
    matches!(scalar, "bf16" | "f16" | "f32" | "f64" | "bool")
        || matches!(scalar.strip_prefix(['i', 'u']), Some("8" | "16" | "32" | "64"))
}

/// Returns a name that Clk accepts for a C++ name: the name itself, with a suffix if it is reserved or begins with two
/// underscores.
pub(crate) fn clk_name(name: &str) -> SmolStr {
    if is_reserved(name) || name == "_" { SmolStr::from(format!("{name}_")) } else { SmolStr::from(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_in_order() {
        assert!(RESERVED.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn names_of_clk_get_a_suffix() {
        assert_eq!(clk_name("length"), "length_");
        assert_eq!(clk_name("f32x4"), "f32x4_");
        assert_eq!(clk_name("index"), "index");
        assert_eq!(clk_name("max2"), "max2");
    }
}
