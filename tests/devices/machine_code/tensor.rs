//! Compares `mma` with the published models of tensor cores, implemented here in exact integer arithmetic.
//!
//! For random inputs, the interpreter and machine code must give the bits of the model: a group of products and the
//! accumulator are truncated to a fixed number of bits below the largest exponent, added, and truncated to an `f32`.

use clk_lower::MmaPrecision;
use clk_runtime::Control;
use clk_runtime::Isa;
use clk_scalar::tensor_core_model::TensorCoreModel;
use clk_sim::Jit;

use super::{run, run_adding, sets};
use clk_testing::random::Random;

const CASES: usize = 48;
const ROWS: usize = 4;
const TERMS: usize = 40;

/// A floating-point format: the number of bits of the fraction and of the exponent.
type Format = (u32, u32);

/// Each entry: an operand format, its storage type, the function that rounds to it, the number of bits that rounding
/// drops, and the number of terms that are added at once (a group).
const FORMATS: [(Format, &str, &str, u32, usize); 3] =
    [((7, 8), "bf16", "", 0, 16), ((10, 5), "f16", "", 0, 16), ((10, 8), "f32", "tf32", 13, 8)];

/// The tensor core models: the number of bits that they keep, and the divisor of the number of terms in a group.
const MODELS: [(TensorCoreModel, i32, usize); 2] = [(TensorCoreModel::Sm90, 25, 1), (TensorCoreModel::Sm80, 24, 2)];

/// A finite float as an integer times a power of two, with its stored exponent; or an infinity or NaN.
enum Parts {
    Finite { significand: i128, exponent: i32 },
    Infinite { negative: bool },
    Nan,
}

fn parts(bits: u32, (fraction, exponent): Format) -> Parts {
    let negative = bits >> (fraction + exponent) & 1 == 1;
    let (field, rest) = (bits >> fraction & ((1 << exponent) - 1), bits & ((1 << fraction) - 1));
    let bias = (1 << (exponent - 1)) - 1;
    match (field, rest) {
        (field, 0) if field == (1 << exponent) - 1 => Parts::Infinite { negative },
        (field, _) if field == (1 << exponent) - 1 => Parts::Nan,
        (field, rest) => {
            let size = i128::from(rest) + if field > 0 { 1 << fraction } else { 0 };
            let significand = if negative { -size } else { size };
            Parts::Finite { significand, exponent: field.max(1) as i32 - bias }
        }
    }
}

/// A term: an integer times 2 to the power of `exponent - fraction`.
struct Term {
    significand: i128,
    exponent: i32,
    fraction: u32,
}

/// Truncates the terms to a common grid, adds them, and truncates the sum to an `f32`.
fn sum(terms: &[Term], bits: i32) -> u32 {
    let nonzero = || terms.iter().filter(|term| term.significand != 0);
    let Some(largest) = nonzero().map(|term| term.exponent).max() else { return 0 };
    let cut = |term: &Term| {
        let by = bits - term.fraction as i32 + term.exponent - largest;
        let size = term.significand.abs();
        let size = if by >= 0 { size << by } else { size.checked_shr(-by as u32).unwrap_or(0) };
        if term.significand < 0 { -size } else { size }
    };
    let total: i128 = nonzero().map(cut).sum();
    let (size, unit) = (total.unsigned_abs(), largest - bits);
    if size == 0 {
        return 0;
    }
    let top = 127 - size.leading_zeros() as i32 + unit;
    let sign = u32::from(total < 0) << 31;
    if top > 127 {
        return sign | 0x7f80_0000;
    }
    // The distance between adjacent floats near the sum, as an exponent of two.
    let step = (top - 23).max(-149);
    let mantissa =
        if step >= unit { size.checked_shr((step - unit) as u32).unwrap_or(0) } else { size << (unit - step) };
    sign | if top < -126 { mantissa as u32 } else { ((top + 127) as u32) << 23 | (mantissa as u32 & 0x7f_ffff) }
}

fn step(before: u32, factors: &[(u32, u32)], format: Format, bits: i32) -> u32 {
    let (mut terms, mut infinite, mut nan) = (vec![], [false; 2], false);
    match parts(before, (23, 8)) {
        Parts::Finite { significand, exponent } => terms.push(Term { significand, exponent, fraction: 23 }),
        Parts::Infinite { negative } => infinite[usize::from(negative)] = true,
        Parts::Nan => nan = true,
    }
    for &(a, b) in factors {
        let negative = (a ^ b) >> (format.0 + format.1) & 1 == 1;
        match (parts(a, format), parts(b, format)) {
            (Parts::Finite { significand: x, exponent: e }, Parts::Finite { significand: y, exponent: f }) => {
                terms.push(Term { significand: x * y, exponent: e + f, fraction: 2 * format.0 });
            }
            (Parts::Nan, _) | (_, Parts::Nan) => nan = true,
            (Parts::Finite { significand: 0, .. }, _) | (_, Parts::Finite { significand: 0, .. }) => nan = true,
            _ => infinite[usize::from(negative)] = true,
        }
    }
    match infinite {
        _ if nan => 0x7fff_ffff,
        [true, true] => 0x7fff_ffff,
        [true, false] => 0x7f80_0000,
        [false, true] => 0xff80_0000,
        [false, false] => sum(&terms, bits),
    }
}

/// Returns arbitrary bits, moderate numbers, or tiny numbers whose sums cancel.
fn bits(random: &mut Random, kind: usize, (fraction, exponent): Format) -> u32 {
    let width = fraction + exponent + 1;
    let any = random.word() as u32 & ((1u64 << width) - 1) as u32;
    let bias = (1 << (exponent - 1)) - 1;
    let near = |field: u32| any & !(((1 << exponent) - 1) << fraction) | field << fraction;
    match kind {
        0 => any,
        1 => near(bias - 2 + random.next_below(5) as u32),
        2 => near(random.next_below(3) as u32),
        _ => [0, 1 << (width - 1), near(bias)][random.next_below(3)],
    }
}

#[test]
fn mma_matches_the_bits_of_tensor_cores() {
    for model in MODELS {
        mma_has_the_bits_of(model);
    }
}

fn mma_has_the_bits_of((cores, kept_bits, divisor): (TensorCoreModel, i32, usize)) {
    let mut random = Random(17);
    for (format, name, rounded, rounded_bits, group) in FORMATS {
        let mut of = |count: usize, format: Format| -> Vec<u32> {
            let each = count / CASES;
            (0..count).map(|at| bits(&mut random, at / each % 4, format)).collect()
        };
        let (a, b) = (of(CASES * ROWS * TERMS, format), of(CASES * TERMS * ROWS, format));
        let c = of(CASES * ROWS * ROWS, (23, 8));
        let mut want = vec![];
        for (at, &first) in c.iter().enumerate() {
            let (case, row, column) = (at / (ROWS * ROWS), at / ROWS % ROWS, at % ROWS);
            let factor = |k: usize| (a[(case * ROWS + row) * TERMS + k], b[(case * TERMS + k) * ROWS + column]);
            let factors: Vec<(u32, u32)> = (0..TERMS).map(factor).collect();
            want.push(
                factors.chunks(group / divisor).fold(first, |before, group| step(before, group, format, kept_bits)),
            );
        }
        // Adds low bits, of less than half a ULP, which rounding drops.
        let mut with_specials = |bits: Vec<u32>| -> Vec<u32> {
            let more =
                |bits| if matches!(parts(bits, format), Parts::Infinite { .. }) { 0 } else { 1 << rounded_bits >> 1 };
            bits.into_iter().map(|bits| bits << rounded_bits | random.next_below(more(bits)) as u32).collect()
        };
        let (a, b) = (with_specials(a), with_specials(b));
        let wide = |bits: &[u32]| bits.iter().map(|bits| format!("{bits}u32, ")).collect::<String>();
        let (a, b, sums, expected) = (wide(&a), wide(&b), wide(&c), wide(&want));
        let raw = if rounded_bits > 0 { "u32" } else { "u16" };
        let text = format!(
            "kernel k(a: [{name}; R, 40], b: [{name}; S, 4], c: [f32; R, 4], out d: [f32; R, 4]) grid(ceil_div(R, 4)) block(16) {{\n    \
             let i = 4 * block_idx.x\n    let j = 40 * block_idx.x\n    shared acc: [f32; 4, 4]\n    acc = c[i..i + 4, ..]\n    \
             acc = mma(acc, {rounded}(a[i..i + 4, ..]), {rounded}(b[j..j + 40, ..]))\n    d[i..i + 4, ..] = acc\n}}\n\
             let a = bitcast({name}, reshape({raw}([{a}]), -1, 40))\nlet b = bitcast({name}, reshape({raw}([{b}]), -1, 4))\n\
             let c = bitcast(f32, reshape([{sums}], -1, 4))\nlet d = reshape(bitcast(u32, k(a, b, c)), -1)\n\
             let want = [{expected}]\nfor i in 0..len(d) {{ if d[i] != want[i] {{ print(\"{{i}}: {{d[i]:x}} {{want[i]:x}}\") }} }}\n"
        );
        for isa in sets() {
            for jit in [Jit::Off, Jit::Always] {
                let (mismatches, _) = run_adding(MmaPrecision::TensorCore(cores), &text, isa, jit, Control::default());
                assert!(mismatches.is_empty(), "{name} of {cores} ({isa}, {jit}):\n{mismatches}");
            }
        }
    }
}

/// Returns the expected result of `tf32`, from powers of two and rounding in `f64`.
fn to_tf32(bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    if x.is_nan() {
        // A NaN keeps its sign and the first bits of its fraction.
        return bits >> 13 << 13 | 1 << 22;
    }
    let step = 2f64.powi((bits >> 23 & 255).max(1) as i32 - 127 - 10);
    let near = (f64::from(x) / step).round_ties_even() * step;
    // 2^128 is larger than every `f32`, so the conversion gives infinity.
    (near as f32).to_bits()
}

#[test]
fn tf32_rounds_to_the_nearest_on_host_and_devices() {
    let mut random = Random(19);
    let fractions = |field: u32| {
        [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2fff, 0x3000, 0x3001, 0x7f_f000, 0x7f_ffff].map(|f| field << 23 | f)
    };
    let mut inputs: Vec<u32> = [0, 1, 2, 126, 127, 253, 254, 255].into_iter().flat_map(fractions).collect();
    inputs.extend(inputs.clone().into_iter().map(|bits| bits | 1 << 31));
    inputs.extend((0..20_000).map(|_| random.word() as u32));
    let listed = |bits: &mut dyn Iterator<Item = u32>| bits.map(|bits| format!("{bits}u32, ")).collect::<String>();
    let (all, want) = (listed(&mut inputs.iter().copied()), listed(&mut inputs.iter().map(|&bits| to_tf32(bits))));
    // Rounds in a loop over elements, on vectors, in divergent threads, and on the host.
    let text = format!(
        "kernel plain(x: [f32; N], out y: [f32; N]) threads(i: N) {{ y[i] = tf32(x[i]) }}\n\
         kernel pairs(x: [f32x2; N], out y: [f32x2; N]) threads(i: N) {{ y[i] = tf32(x[i]) }}\n\
         kernel blocks(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {{\n    \
         let i = global_idx.x\n    if i < N {{\n        if bitcast(u32, x[i]) % 2 == 1 {{ y[i] = tf32(x[i]) }} else {{ y[i] = -tf32(-x[i]) }}\n    }}\n}}\n\
         let want = [{want}]\nlet bits = [{all}]\nlet x = bitcast(f32, bits)\n\
         let found = stack(bitcast(u32, plain(x)), bitcast(u32, bitcast(f32, pairs(bitcast(f32x2, x)))), bitcast(u32, blocks(x)), bitcast(u32, tf32(x)))\n\
         for way in 0..4 {{ for i in 0..len(bits) {{\n    \
         if found[way, i] != want[i] {{ print(\"{{way}}: {{bits[i]:x}} {{found[way, i]:x}} {{want[i]:x}}\") }}\n}} }}\n\
         for i in 0..len(bits) step 97 {{ if bitcast(u32, tf32(x[i])) != want[i] {{ print(\"{{bits[i]:x}} alone\") }} }}\n"
    );
    for isa in sets() {
        for jit in [Jit::Off, Jit::Always] {
            let mismatches = run(&text, isa, jit, Control::default());
            assert!(mismatches.is_empty(), "({isa}, {jit}):\n{mismatches}");
        }
    }
}

/// Returns an expression for an operand of the given size, from arrays `{name}`, `{name}t` (transposed) and `{name}z`
/// (three axes). A window may begin before or after the edge of the array, and may be cut off inside the array.
fn factor(random: &mut Random, name: &str, [rows, columns]: [usize; 2], rounded: &str) -> String {
    let mut start = || format!("p + {}", random.next_below(9)).replace("p + 0", "p");
    let (i, j) = (start(), start());
    let range = |start: &str, count: usize| format!("{start}..{start} + {count}");
    let (r, c) = (range(&i, rows), range(&j, columns));
    let part = match random.next_below(7) {
        0 => return format!("transpose({rounded}({name}t[{c}, {r}]))"),
        1 => return format!("{rounded}(transpose({name}t[{c}, {r}]))"),
        2 => format!("{name}[{i}..min({i} + {rows}, {}), {c}]", random.next_below(40)),
        3 => format!("{name}[{i}..{i} + {} step 3, {c}]", 3 * rows),
        4 => format!("{name}z[{}, {r}, {c}]", random.next_below(3)),
        5 if rows.is_multiple_of(2) => {
            let half = range(&i, rows / 2);
            return format!("{rounded}(reshape({name}z[{}, {half}, {c}], {rows}, {columns}))", range(&j, 2));
        }
        _ => format!("{name}[{r}, {c}]"),
    };
    format!("{rounded}({part})")
}

/// Without vectorization, each thread computes its own elements of a product, as lowered. With it, one operation
/// computes the product for the whole block. The bits must be the same.
#[test]
fn tile_products_of_all_sizes_match_the_bits_of_their_threads() {
    let mut random = Random(23);
    for case in 0..24 {
        let (format, name, rounded, rounded_bits, _) = FORMATS[case % 3];
        let [rows, columns, terms] = [23, 37, 60].map(|most| 1 + random.next_below(most));
        let (a, b) =
            (factor(&mut random, "a", [rows, terms], rounded), factor(&mut random, "b", [terms, columns], rounded));
        let raw = if rounded_bits > 0 { "u32" } else { "u16" };
        let mut numbers = |count: usize, format: Format, rounded_bits: u32| -> String {
            let kind = [1, 1, 2, 0][random.next_below(4)];
            let of = |random: &mut Random| {
                let kind = if random.next_below(40) == 0 { 3 } else { kind };
                bits(random, kind, format) << rounded_bits
                    | if rounded_bits > 0 { random.word() as u32 & 0x3ff } else { 0 }
            };
            (0..count).map(|_| format!("{}{raw}, ", of(&mut random))).collect()
        };
        let mut text = String::new();
        for array in ["a", "at", "b", "bt"] {
            text += &format!(
                "let {array} = bitcast({name}, reshape([{}], 37, 41))\n",
                numbers(37 * 41, format, rounded_bits)
            );
        }
        for array in ["az", "bz"] {
            text += &format!(
                "let {array} = bitcast({name}, reshape([{}], 3, 19, 23))\n",
                numbers(3 * 19 * 23, format, rounded_bits)
            );
        }
        let sums: String =
            (0..rows * columns).map(|at| format!("{}u32, ", bits(&mut random, at % 4, (23, 8)))).collect();
        let matrices: String = ["a", "at", "b", "bt"].map(|array| format!("{array}: [{name}; P, Q], ")).concat();
        let block = [32, 96, 100, 128][random.next_below(4)];
        text = format!(
            "kernel k({matrices}az: [{name}; X, Y, Z], bz: [{name}; X, Y, Z], c: [f32; R, C], out d: [f32; 3, R, C]) grid(3) block({block}) {{\n    \
             let p = 7 * block_idx.x - 5\n    shared acc: [f32; {rows}, {columns}]\n    acc = c[0..{rows}, 0..{columns}]\n    \
             acc = mma(acc, {a}, {b})\n    acc = mma(acc, {a}, {b})\n    \
             d[block_idx.x, 0..{rows}, 0..{columns}] = acc\n}}\n{text}\
             let c = bitcast(f32, reshape([{sums}], {rows}, {columns}))\n\
             let d = reshape(bitcast(u32, k(a, at, b, bt, az, bz, c)), -1)\nfor i in 0..len(d) {{ print(\"{{d[i]:x}}\") }}\n"
        );
        for sums in [
            MmaPrecision::TensorCore(TensorCoreModel::Sm90),
            MmaPrecision::TensorCore(TensorCoreModel::Sm80),
            MmaPrecision::Sequential,
        ] {
            let with = |isa: Isa, jit: Jit, workers: usize| {
                let output = run_adding(sums, &text, isa, jit, Control { workers, ..Control::default() }).0;
                if sums != MmaPrecision::Sequential {
                    return output;
                }
                // It is unspecified which of several NaNs a sum of `f32` returns.
                let bits = |line: &str| u32::from_str_radix(line.trim_start_matches("0x"), 16).expect("bits");
                let is_nan = |line: &str| f32::from_bits(bits(line)).is_nan();
                output.lines().map(|line| format!("{}\n", if is_nan(line) { "nan" } else { line })).collect()
            };
            let expected = with(Isa::Base, Jit::Off, 1);
            assert!(expected.lines().count() == 3 * rows * columns, "{text}\n{expected}");
            for isa in sets() {
                for (jit, workers) in [(Jit::Off, 1), (Jit::Always, 2), (Jit::Forced, 7)] {
                    let actual = with(isa, jit, workers);
                    let other = actual.lines().zip(expected.lines()).enumerate().find(|(_, (x, y))| x != y);
                    assert!(actual == expected, "{sums:?} ({isa}, {jit}, {workers} workers), {other:?}:\n{text}");
                }
            }
        }
    }
}
