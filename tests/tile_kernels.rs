//! Random kernels of tiles: what stands for whole loops of them on processors with vector instructions has the bits of the loops.
//!
//! `CLK_RANDOM_PROGRAMS` is how many kernels there are, `CLK_RANDOM_SEED` the first one.

#[path = "common/random.rs"]
mod random;
#[allow(dead_code)]
mod tile_steps;

use std::sync::Arc;

use clk_lang::compile::{NoFiles, Session, default_instance};
use clk_lang::device::sim::{Isa, Jit, Simulator};
use clk_lang::device::{Control, Device, Extents};
use clk_lang::ir::Prepared;
use clk_lang::ir::def::Sums;
use clk_lang::lang::cores::Cores;
use clk_lang::lang::scalar::{Scalar, Value};
use clk_lang::{ir, lower, pass};
use random::Random;
use tile_steps::{Arguments, Array, passed};

/// Extents of tiles: around those of vectors, panels and groups of terms.
const EXTENTS: [u32; 14] = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40];

/// A kernel that is being written.
struct Text {
    random: Random,
    rows: u32,
    columns: u32,
    inner: u32,
    /// The type of the factors; `f32` is rounded by `tf32`.
    factor: Scalar,
    in_loop: bool,
}

impl Text {
    fn new(seed: u64) -> Text {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let [rows, columns, inner] = [0; 3].map(|_| EXTENTS[random.below(EXTENTS.len())]);
        let factor = [Scalar::F16, Scalar::Bf16, Scalar::F32][random.below(3)];
        Text { random, rows, columns, inner, factor, in_loop: false }
    }

    /// Returns a number of the block: inside of arrays, before or behind them.
    fn start(&mut self) -> String {
        let n = self.random.below(30);
        match self.random.below(if self.in_loop { 8 } else { 5 }) {
            0 => format!("{n}"),
            1 => format!("(bx - {n})"),
            2 => format!("(3 * bx + {n})"),
            3 => "(5 * by - 4)".into(),
            4 => ["(H - 3)", "(W - 1)", "(by - H)"][n % 3].into(),
            5 => "(2 * k - 1)".into(),
            _ => "k".into(),
        }
    }

    fn range(&mut self, count: u32) -> String {
        let start = self.start();
        match self.random.below(8) {
            0 => format!("{start}..{start} + {} step 3", 3 * count),
            1 if !start.starts_with(|c: char| c.is_ascii_digit()) => {
                let edge = self.random.of(&["H", "9", "(4 * bx)"]);
                format!("{start}..min({start} + {count}, {edge})")
            }
            _ => format!("{start}..{start} + {count}"),
        }
    }

    /// Returns a part of an array of two or of three axes.
    fn part(&mut self, [rows, columns]: [u32; 2], [two, three]: [&str; 2]) -> String {
        let (down, across) = (self.range(rows), self.range(columns));
        match self.random.below(5) {
            0 => format!("{three}[bx % D, {down}, {across}]"),
            1 => format!("{three}[{down}, by % 2, {across}]"),
            2 if rows.is_multiple_of(2) => {
                let half = self.range(rows / 2);
                format!("reshape({three}[bx..bx + 2, {half}, {across}], {rows}, {columns})")
            }
            _ => format!("{two}[{down}, {across}]"),
        }
    }

    fn number(&mut self, shape: [u32; 2]) -> String {
        self.part(shape, ["numbers", "more"])
    }

    /// Returns what is multiplied: a part, a tile, or what is computed.
    fn multiplied(&mut self, [rows, columns]: [u32; 2], tile: &str) -> String {
        let arrays = ["factors", "boxes"];
        let found = match self.random.below(6) {
            0 | 1 => self.part([rows, columns], arrays),
            2 => format!("transpose({})", self.part([columns, rows], arrays)),
            3 => format!("{tile} + {}", self.part([rows, columns], arrays)),
            4 if self.factor != Scalar::F32 => {
                let number = self.number([rows, columns]);
                format!("{}({number})", self.factor)
            }
            _ => tile.into(),
        };
        if self.factor == Scalar::F32 { format!("tf32({found})") } else { found }
    }

    fn product(&mut self, sum: &str) -> String {
        let (rows, columns, inner) = (self.rows, self.columns, self.inner);
        let (a, b) = (self.multiplied([rows, inner], "left"), self.multiplied([inner, columns], "right"));
        format!("mma({sum}, {a}, {b})")
    }

    fn expression(&mut self, depth: u32) -> String {
        let (rows, columns) = (self.rows, self.columns);
        if depth == 0 {
            return match self.random.below(5) {
                0 => self.number([rows, columns]),
                1 => format!("transpose({})", self.number([columns, rows])),
                2 => format!("reshape(f32(arange({rows})), {rows}, 1)"),
                3 => "acc".into(),
                _ => "other".into(),
            };
        }
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.random.below(5) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - 0.5 * {b})"),
            2 => format!("select({a} > {b}, {a}, {b})"),
            3 => format!("(other + reshape(max(acc + {a}, axis = 1), {rows}, 1))"),
            _ => format!("(acc - sum(acc + {b}, axis = 0))"),
        }
    }

    fn statement(&mut self) -> String {
        let (rows, columns, inner) = (self.rows, self.columns, self.inner);
        match self.random.below(10) {
            0..3 => format!("acc = {}", self.product("acc")),
            3 => format!("other = {}", self.product("acc")),
            4 => {
                let before = self.product("acc");
                format!("acc = {}", self.product(&before))
            }
            5 => format!("acc = {}", self.expression(2)),
            6 => format!("other[bx..bx + {rows}, by - 1..by - 1 + {columns}] = {}", self.expression(1)),
            7 => format!("left = {}", self.part([rows, inner], ["factors", "boxes"])),
            8 => format!("right = transpose({})", self.part([columns, inner], ["factors", "boxes"])),
            _ if self.in_loop => format!("if bx > 0 {{ acc = {} }}", self.product("other")),
            _ => {
                self.in_loop = true;
                let body: Vec<String> = (0..1 + self.random.below(3)).map(|_| self.statement()).collect();
                self.in_loop = false;
                format!("for k in bx..W step 16 {{\n        {}\n    }}", body.join("\n        "))
            }
        }
    }

    fn kernel(&mut self) -> String {
        let (rows, columns, inner, of) = (self.rows, self.columns, self.inner, self.factor);
        let body: Vec<String> = (0..2 + self.random.below(5)).map(|_| self.statement()).collect();
        let product = self.product("acc");
        format!(
            "kernel tiled(factors: [{of}; H, W], boxes: [{of}; D, H, W], numbers: [f32; H, W], more: [f32; D, H, W],
    out o: [f32; 2, 3, {rows}, {columns}], out cut: [f32; R, C]) grid(3, 2) block(32) {{
    let (bx, by) = (block_idx.x, block_idx.y)
    shared acc: [f32; {rows}, {columns}]
    shared other: [f32; {rows}, {columns}]
    shared left: [{of}; {rows}, {inner}]
    shared right: [{of}; {inner}, {columns}]
    acc = {}
    other = 1.0
    left = factors[by..by + {rows}, bx..bx + {inner}]
    right = factors[bx..bx + {inner}, by - 1..by - 1 + {columns}]
    {}
    acc = {product}
    o[by, bx, .., ..] = acc + 0.5 * other
    cut[{rows} * by..{rows} * by + {rows}, {columns} * bx..{columns} * bx + {columns}] = acc
}}
",
            ["0.0", "-0.0"][self.random.below(2)],
            body.join("\n    ")
        )
    }

    /// Returns arrays for the kernel, of random extents.
    fn arguments(&mut self) -> Arguments {
        let [h, w] = [0; 2].map(|_| 1 + self.random.below(50) as u32);
        let (d, kind) = (1 + self.random.below(3) as u32, self.random.below(5));
        let (rows, columns, of) = (self.rows, self.columns, self.factor);
        vec![
            (self.array(&[h, w], of, kind), false),
            (self.array(&[d, h, w], of, kind), false),
            (self.array(&[h, w], Scalar::F32, kind), false),
            (self.array(&[d, h, w], Scalar::F32, kind), false),
            (Array::zeros(&[2, 3, rows, columns], Scalar::F32), true),
            (Array::zeros(&[2 * rows - 1, 3 * columns - 1], Scalar::F32), true),
        ]
    }

    /// Returns an array; some are of numbers of all sizes, or of those that are none.
    fn array(&mut self, shape: &[u32], scalar: Scalar, kind: usize) -> Array {
        let count = shape.iter().product::<u32>();
        let mut one = || {
            let near = (self.random.below(2001) as f32 - 1000.0) / 500.0;
            let strange = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-42, 3e38, 6e4];
            let number = match kind {
                0 => near,
                1 => near * 2f32.powi(self.random.below(30) as i32 - 15),
                2 => near * 2f32.powi(self.random.below(250) as i32 - 130),
                3 if self.random.below(20) == 0 => strange[self.random.below(strange.len())],
                _ => (near * 3.0).trunc(),
            };
            Value::of(number).to_type(scalar).bits as u32
        };
        Array::new(shape, scalar, (0..count).map(|_| one()).collect::<Vec<_>>())
    }
}

fn compiled(source: &str, sums: Sums) -> Arc<Prepared> {
    let mut session = Session::default();
    let outcome = session.add("main.clk", source, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{source}", outcome.diagnostics);
    let (id, _) = session.program.kernels.iter().find(|(_, kernel)| kernel.name == "tiled").expect("a kernel");
    let instance =
        lower::Instance { sums, ..default_instance(&session.program, id).expect("no compile-time arguments") };
    let module = lower::lower(&session.program, &instance).unwrap_or_else(|errors| panic!("{errors:#?}\n{source}"));
    Arc::new(pass::prepare(module).expect("it is sound"))
}

/// A launch of a kernel on a simulator: the arrays that it leaves, or its fault.
fn launched(simulator: Simulator, kernel: &Arc<Prepared>, given: &Arguments) -> Result<Arguments, String> {
    let mut arguments = given.clone();
    let executable = simulator.load(kernel.clone());
    let control = Control { wait: true, ..Control::default() };
    let extents = Extents::Grid { grid: [3, 2, 1], block: [32, 1, 1] };
    let outcome = executable.launch(extents, &mut passed(&mut arguments), &control);
    outcome.map(|_| arguments).map_err(|fault| format!("{:?}", fault.kind))
}

/// Returns where two launches differ in what they write, with both numbers, or which faults they have if these differ.
fn difference(found: &Result<Arguments, String>, wanted: &Result<Arguments, String>) -> Option<String> {
    let (Ok(found), Ok(wanted)) = (found, wanted) else {
        let [found, wanted] = [found, wanted].map(|ran| ran.as_ref().err());
        return (found != wanted).then(|| format!("{found:?}, not {wanted:?}"));
    };
    let written = found.iter().zip(wanted).filter(|((_, written), _)| *written);
    written.map(|((found, _), (wanted, _))| (found.elements(), wanted.elements())).find_map(|(found, wanted)| {
        let [found, wanted] = [found, wanted].map(|bits| bits.into_iter().map(f32::from_bits).collect::<Vec<f32>>());
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
        let at = (0..wanted.len()).find(|&k| !same(found[k], wanted[k]))?;
        Some(format!("element {at} is {:?}, not {:?}", found[at], wanted[at]))
    })
}

#[test]
fn loops_that_are_done_at_once_have_the_bits_of_their_threads() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (count, first) = (number("CLK_RANDOM_PROGRAMS", 10), number("CLK_RANDOM_SEED", 1));
    let (mut products, mut copies) = (0, 0);
    for seed in first..first + count {
        let mut text = Text::new(seed);
        let source = text.kernel();
        let sums = [Sums::Cut(Cores::Sm90), Sums::Cut(Cores::Sm90), Sums::Cut(Cores::Sm80), Sums::Rounded];
        let sums = sums[text.random.below(sums.len())];
        let kernel = compiled(&source, sums);
        let shown = ir::text::print(&kernel.module);
        products += shown.matches(" adds @").count();
        copies += shown.matches(" copies @").count();
        let given = text.arguments();
        // An index of a block can be outside of an axis that has one: then the fault is the same.
        let wanted = launched(Simulator::with(Isa::Base).compiling(Jit::Off), &kernel, &given);
        for &isa in Isa::ALL.iter().filter(|isa| isa.is_here()) {
            for jit in [Jit::Off, Jit::Always] {
                let found = launched(Simulator::with(isa).compiling(jit), &kernel, &given);
                let differs = difference(&found, &wanted);
                assert_eq!(differs, None, "seed {seed}, {} {jit:?}, {sums:?}:\n{source}", isa.name());
            }
        }
    }
    assert!(products > count as usize && copies > count as usize, "{products} products, {copies} copies");
}

/// Another model of tensor cores gives other bits, which the comparison finds.
#[test]
fn other_bits_are_found() {
    let differs = (1..9).filter(|&seed| {
        let mut text = Text::new(seed);
        let source = text.kernel();
        let given = text.arguments();
        let [one, other] = [Sums::Cut(Cores::Sm90), Sums::Rounded]
            .map(|sums| launched(Simulator::with(Isa::Base), &compiled(&source, sums), &given));
        difference(&one, &other).is_some()
    });
    assert!(differs.count() > 2);
}
