//! Generates unique identifiers that differ from the reserved words of C++ and CUDA.

use rustc_hash::FxHashSet;

/// Reserved identifiers: C++ keywords, and names that all generated code uses.
const TAKEN: &str = "alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl concept \
const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double \
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept \
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof \
static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union \
unsigned using virtual void volatile wchar_t while xor xor_eq \
threadIdx blockIdx blockDim gridDim warpSize i8 i16 i64 u8 u16 u64 f16 bf16 faults fault_word prints Faults Prints grid_arrivals printed \
min max abs main assert printf malloc free memcpy memset size_t isnan isinf isfinite \
to_float to_f16 to_bf16 to_odd to_i8 to_u8 to_i16 to_u16 to_i32 to_u32 to_i64 to_u64 fused quotient remainder magnitude power \
saturated saturating_add saturating_sub sign tf32 turns raw wide report stopped print block_number thread_number \
grouped aligned step take put Word \
atomic_load atomic_store atomic_update warp_size shuffle butterfly grid_barrier select dynamic_shared \
first at turn tensor_cores map_of_a map_of_b packed_a packed_b Left left write tiles";

const FUNCTIONS: &str = "fmin fmax fabs sqrt fma fmod floor ceil rint round trunc copysign rsqrt cbrt exp exp2 exp10 expm1 \
log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot pow erf erfc lgamma tgamma j0 j1 \
jn y0 y1 yn norm rnorm rhypot ldexp frexp modf remquo nextafter logb ilogb";

/// The set of names that are in use.
pub(crate) struct UsedNames {
    used: FxHashSet<String>,
}

impl Default for UsedNames {
    /// Returns the names that CUDA C++ defines.
    fn default() -> UsedNames {
        let mut used: FxHashSet<String> = TAKEN.split_whitespace().map(str::to_string).collect();
        // Math functions on f64. The corresponding functions on f32 have the suffix `f`.
        for name in FUNCTIONS.split_whitespace() {
            used.extend([name.to_string(), format!("{name}f")]);
        }
        UsedNames { used }
    }
}

impl UsedNames {
    /// Returns an unused name similar to `wanted`.
    pub fn fresh(&mut self, wanted: &str) -> String {
        let base = sanitized(wanted);
        let mut name = base.clone();
        let mut number = 2;
        while !self.used.insert(name.clone()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        name
    }
}

/// Reduces a name to letters, digits and single underscores. C++ reserves names with two consecutive underscores, or
/// with an underscore before a capital letter.
pub(crate) fn sanitized(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !text.ends_with('_') {
            text.push(c);
        }
    }
    let text = text.trim_matches('_');
    match text.chars().next() {
        Some(c) if c.is_ascii_alphabetic() => text.to_string(),
        _ => format!("v{text}"),
    }
}
