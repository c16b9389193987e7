//! Names of types.

use super::row::{ClkEquivalent, ForeignName, NameOrigin};

const fn name(names: &'static str, clk: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Other, names, ClkEquivalent::Name(clk))
}

const fn absent(names: &'static str, reason: &'static str, alternative: &'static str) -> ForeignName {
    ForeignName::new(NameOrigin::Other, names, ClkEquivalent::Absent { reason, alternative })
}

pub(super) const ROWS: &[ForeignName] = &[
    ForeignName::new(NameOrigin::Python, "bool str", ClkEquivalent::Same),
    name("float float32 float32_t Float32", "f32"),
    name("double float64 Float64", "f64"),
    name("half __half float16 Float16", "f16"),
    name("__nv_bfloat16 bfloat16", "bf16"),
    name("int int32 int32_t signed Int32 size_t usize", "i32"),
    name("uint uint32 uint32_t unsigned UInt32", "u32"),
    name("short int16 int16_t", "i16"),
    name("ushort uint16 uint16_t", "u16"),
    name("char int8 int8_t", "i8"),
    name("uchar byte uint8 uint8_t UInt8", "u8"),
    name("int64 int64_t Int64 long longlong isize ptrdiff_t ssize_t", "i64"),
    name("uint64 uint64_t UInt64 ulong", "u64"),
    name("boolean Bool bool_", "bool"),
    name("string String char*", "str"),
    name("float2 vec2", "f32x2"),
    name("float3 vec3", "f32x3"),
    name("float4 vec4", "f32x4"),
    name("double2", "f64x2"),
    name("double3", "f64x3"),
    name("double4", "f64x4"),
    name("int2", "i32x2"),
    name("int3", "i32x3"),
    name("int4", "i32x4"),
    name("uint2", "u32x2"),
    name("uint3", "u32x3"),
    name("uint4", "u32x4"),
    name("uchar4", "u8x4"),
    name("half2 __half2", "f16x2"),
    absent("void", "a function without a value states no type", "leave the result type out"),
    absent(
        "constexpr",
        "a compile-time constant is not a parameter in parentheses",
        "write `kernel f<const BLOCK: i32 = 64>(…)`",
    ),
    absent("auto", "types are inferred", "leave the type out"),
    absent(
        "Tensor ndarray Array Vec",
        "an array type states elements and extents",
        "write `[f32; N]` or `[f32; M, N]`",
    ),
];
