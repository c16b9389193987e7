//! `mma` against integers: the published models of tensor cores, in exact arithmetic of its own.
//!
//! In: random bits. Out: the same bits of the results from the interpreter and from machine code. A group of products and the sum so far
//! are cut to so many bits below the largest exponent, added, and cut to an `f32`.

use clk_lang::device::Control;
use clk_lang::device::sim::{Isa, Jit};
use clk_lang::lang::cores::Cores;
use clk_lang::lower::Sums;

use crate::random::Random;
use crate::{run, run_adding, sets};

const CASES: usize = 48;
const ROWS: usize = 4;
const TERMS: usize = 40;

/// A format of factors: bits of the fraction and of the exponent.
type Format = (u32, u32);

/// Formats, the types that hold them, the functions that round to them, the bits that are rounded away, and the terms of a group.
const FORMATS: [(Format, &str, &str, u32, usize); 3] =
    [((7, 8), "bf16", "", 0, 16), ((10, 5), "f16", "", 0, 16), ((10, 8), "f32", "tf32", 13, 8)];

/// Models: the bits that are kept, and by what the terms of a group are divided.
const MODELS: [(Cores, i32, usize); 2] = [(Cores::Sm90, 25, 1), (Cores::Sm80, 24, 2)];

/// A finite float as an integer times a power of two, with the exponent as it is written; or what it is else.
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

/// Cuts the terms to a common grid, adds them, and cuts the sum to an `f32`.
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
    // The distance of neighbors, as a power of two.
    let step = (top - 23).max(-149);
    let kept = if step >= unit { size.checked_shr((step - unit) as u32).unwrap_or(0) } else { size << (unit - step) };
    sign | if top < -126 { kept as u32 } else { ((top + 127) as u32) << 23 | (kept as u32 & 0x7f_ffff) }
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

/// Returns bits of all kinds: any, moderate numbers, and tiny ones whose sums cancel.
fn bits(random: &mut Random, kind: usize, (fraction, exponent): Format) -> u32 {
    let width = fraction + exponent + 1;
    let any = random.next() as u32 & ((1u64 << width) - 1) as u32;
    let bias = (1 << (exponent - 1)) - 1;
    let near = |field: u32| any & !(((1 << exponent) - 1) << fraction) | field << fraction;
    match kind {
        0 => any,
        1 => near(bias - 2 + random.below(5) as u32),
        2 => near(random.below(3) as u32),
        _ => [0, 1 << (width - 1), near(bias)][random.below(3)],
    }
}

#[test]
fn mma_has_the_bits_of_tensor_cores() {
    for model in MODELS {
        mma_has_the_bits_of(model);
    }
}

fn mma_has_the_bits_of((cores, kept, divisor): (Cores, i32, usize)) {
    let mut random = Random(17);
    for (format, name, rounded, behind, group) in FORMATS {
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
            want.push(factors.chunks(group / divisor).fold(first, |before, group| step(before, group, format, kept)));
        }
        // Less than a half of a step is rounded away.
        let mut given = |bits: Vec<u32>| -> Vec<u32> {
            let more = |bits| if matches!(parts(bits, format), Parts::Infinite { .. }) { 0 } else { 1 << behind >> 1 };
            bits.into_iter().map(|bits| bits << behind | random.below(more(bits)) as u32).collect()
        };
        let (a, b) = (given(a), given(b));
        let wide = |bits: &[u32]| bits.iter().map(|bits| format!("{bits}u32, ")).collect::<String>();
        let (a, b, sums, wanted) = (wide(&a), wide(&b), wide(&c), wide(&want));
        let raw = if behind > 0 { "u32" } else { "u16" };
        let text = format!(
            "kernel k(a: [{name}; R, 40], b: [{name}; S, 4], c: [f32; R, 4], out d: [f32; R, 4]) grid(ceil_div(R, 4)) block(16) {{\n    \
             let i = 4 * block_idx.x\n    let j = 40 * block_idx.x\n    shared acc: [f32; 4, 4]\n    acc = c[i..i + 4, ..]\n    \
             acc = mma(acc, {rounded}(a[i..i + 4, ..]), {rounded}(b[j..j + 40, ..]))\n    d[i..i + 4, ..] = acc\n}}\n\
             let a = bitcast({name}, reshape({raw}([{a}]), -1, 40))\nlet b = bitcast({name}, reshape({raw}([{b}]), -1, 4))\n\
             let c = bitcast(f32, reshape([{sums}], -1, 4))\nlet d = reshape(bitcast(u32, k(a, b, c)), -1)\n\
             let want = [{wanted}]\nfor i in 0..len(d) {{ if d[i] != want[i] {{ print(\"{{i}}: {{d[i]:x}} {{want[i]:x}}\") }} }}\n"
        );
        for isa in sets() {
            for jit in [Jit::Off, Jit::Always] {
                let (found, _) = run_adding(Sums::Cut(cores), &text, isa, jit, Control::default());
                assert!(found.is_empty(), "{name} of {cores} ({isa}, {jit}):\n{found}");
            }
        }
    }
}

/// Returns what `tf32` gives, from powers of two and a rounding of `f64`.
fn to_tf32(bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    if x.is_nan() {
        // The sign and the first bits of the fraction stay.
        return bits >> 13 << 13 | 1 << 22;
    }
    let step = 2f64.powi((bits >> 23 & 255).max(1) as i32 - 127 - 10);
    let near = (f64::from(x) / step).round_ties_even() * step;
    // Beyond the largest number, which 2^128 is, `f32` has an infinity.
    (near as f32).to_bits()
}

#[test]
fn tf32_rounds_to_the_nearest_on_host_and_devices() {
    let mut random = Random(19);
    let fractions = |field: u32| {
        [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2fff, 0x3000, 0x3001, 0x7f_f000, 0x7f_ffff].map(|f| field << 23 | f)
    };
    let mut given: Vec<u32> = [0, 1, 2, 126, 127, 253, 254, 255].into_iter().flat_map(fractions).collect();
    given.extend(given.clone().into_iter().map(|bits| bits | 1 << 31));
    given.extend((0..20_000).map(|_| random.next() as u32));
    let listed = |bits: &mut dyn Iterator<Item = u32>| bits.map(|bits| format!("{bits}u32, ")).collect::<String>();
    let (all, want) = (listed(&mut given.iter().copied()), listed(&mut given.iter().map(|&bits| to_tf32(bits))));
    // In a loop over elements, of vectors, where threads part ways, and on the host.
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
            let found = run(&text, isa, jit, Control::default());
            assert!(found.is_empty(), "({isa}, {jit}):\n{found}");
        }
    }
}

/// Returns an expression of a factor with so many rows and columns, for arrays `{name}`, `{name}t` (transposed) and `{name}z` (three axes).
/// Starts are before and behind the edge, and some ends are inside.
fn factor(random: &mut Random, name: &str, [rows, columns]: [usize; 2], rounded: &str) -> String {
    let mut start = || format!("p + {}", random.below(9)).replace("p + 0", "p");
    let (i, j) = (start(), start());
    let range = |start: &str, count: usize| format!("{start}..{start} + {count}");
    let (r, c) = (range(&i, rows), range(&j, columns));
    let part = match random.below(7) {
        0 => return format!("transpose({rounded}({name}t[{c}, {r}]))"),
        1 => return format!("{rounded}(transpose({name}t[{c}, {r}]))"),
        2 => format!("{name}[{i}..min({i} + {rows}, {}), {c}]", random.below(40)),
        3 => format!("{name}[{i}..{i} + {} step 3, {c}]", 3 * rows),
        4 => format!("{name}z[{}, {r}, {c}]", random.below(3)),
        5 if rows.is_multiple_of(2) => {
            let half = range(&i, rows / 2);
            return format!("{rounded}(reshape({name}z[{}, {half}, {c}], {rows}, {columns}))", range(&j, 2));
        }
        _ => format!("{name}[{r}, {c}]"),
    };
    format!("{rounded}({part})")
}

/// Without vectors each thread adds up its own elements, as the text of tiles is lowered; with them, a block does so at once.
#[test]
fn products_of_tiles_of_all_sizes_have_the_bits_of_their_threads() {
    let mut random = Random(23);
    for case in 0..24 {
        let (format, name, rounded, behind, _) = FORMATS[case % 3];
        let [rows, columns, terms] = [23, 37, 60].map(|most| 1 + random.below(most));
        let (a, b) =
            (factor(&mut random, "a", [rows, terms], rounded), factor(&mut random, "b", [terms, columns], rounded));
        let raw = if behind > 0 { "u32" } else { "u16" };
        let mut numbers = |count: usize, format: Format, behind: u32| -> String {
            let kind = [1, 1, 2, 0][random.below(4)];
            let of = |random: &mut Random| {
                let kind = if random.below(40) == 0 { 3 } else { kind };
                bits(random, kind, format) << behind | if behind > 0 { random.next() as u32 & 0x3ff } else { 0 }
            };
            (0..count).map(|_| format!("{}{raw}, ", of(&mut random))).collect()
        };
        let mut text = String::new();
        for array in ["a", "at", "b", "bt"] {
            text +=
                &format!("let {array} = bitcast({name}, reshape([{}], 37, 41))\n", numbers(37 * 41, format, behind));
        }
        for array in ["az", "bz"] {
            text += &format!(
                "let {array} = bitcast({name}, reshape([{}], 3, 19, 23))\n",
                numbers(3 * 19 * 23, format, behind)
            );
        }
        let sums: String =
            (0..rows * columns).map(|at| format!("{}u32, ", bits(&mut random, at % 4, (23, 8)))).collect();
        let matrices: String = ["a", "at", "b", "bt"].map(|array| format!("{array}: [{name}; P, Q], ")).concat();
        let block = [32, 96, 100, 128][random.below(4)];
        text = format!(
            "kernel k({matrices}az: [{name}; X, Y, Z], bz: [{name}; X, Y, Z], c: [f32; R, C], out d: [f32; 3, R, C]) grid(3) block({block}) {{\n    \
             let p = 7 * block_idx.x - 5\n    shared acc: [f32; {rows}, {columns}]\n    acc = c[0..{rows}, 0..{columns}]\n    \
             acc = mma(acc, {a}, {b})\n    acc = mma(acc, {a}, {b})\n    \
             d[block_idx.x, 0..{rows}, 0..{columns}] = acc\n}}\n{text}\
             let c = bitcast(f32, reshape([{sums}], {rows}, {columns}))\n\
             let d = reshape(bitcast(u32, k(a, at, b, bt, az, bz, c)), -1)\nfor i in 0..len(d) {{ print(\"{{d[i]:x}}\") }}\n"
        );
        for sums in [Sums::Cut(Cores::Sm90), Sums::Cut(Cores::Sm80), Sums::Rounded] {
            let with = |isa: Isa, jit: Jit, workers: usize| {
                let found = run_adding(sums, &text, isa, jit, Control { workers, ..Control::default() }).0;
                if sums != Sums::Rounded {
                    return found;
                }
                // Which of several NaNs a sum of `f32` is, is not said.
                let bits = |line: &str| u32::from_str_radix(line.trim_start_matches("0x"), 16).expect("bits");
                let is_nan = |line: &str| f32::from_bits(bits(line)).is_nan();
                found.lines().map(|line| format!("{}\n", if is_nan(line) { "nan" } else { line })).collect()
            };
            let expected = with(Isa::Base, Jit::Off, 1);
            assert!(expected.lines().count() == 3 * rows * columns, "{text}\n{expected}");
            for isa in sets() {
                for (jit, workers) in [(Jit::Off, 1), (Jit::Always, 2), (Jit::Forced, 7)] {
                    let found = with(isa, jit, workers);
                    let other = found.lines().zip(expected.lines()).enumerate().find(|(_, (x, y))| x != y);
                    assert!(found == expected, "{sums:?} ({isa}, {jit}, {workers} workers), {other:?}:\n{text}");
                }
            }
        }
    }
}
