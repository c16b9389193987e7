//! Tests random tile kernels: the vectorized operations that replace loops over tiles must give the same bits as the
//! loops.
//!
//! `CLK_RANDOM_PROGRAMS` is the number of kernels, `CLK_RANDOM_SEED` the first seed.

use std::sync::Arc;

use clk_compile::{NoFiles, Session, default_instance};
use clk_ir::PreparedKernel;
use clk_ir::def::MmaPrecision;
use clk_runtime::Isa;
use clk_runtime::{Control, Device, LaunchConfig, LaunchExtents};
use clk_scalar::tensor_core_model::TensorCoreModel;
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::{Jit, Simulator};
use clk_testing::random::Random;
use clk_testing::setting;
use clk_testing::tile_steps::{Arguments, Array, launch_arguments};

/// Extents of tiles. They are near the sizes of the vectors, panels and groups of terms that the vectorized operations
/// use.
const EXTENTS: [u32; 14] = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40];

/// A kernel that is being written.
struct Text {
    random: Random,
    rows: u32,
    columns: u32,
    inner: u32,
    /// The type of the operands; `f32` operands are rounded by `tf32`.
    factor: Scalar,
    in_loop: bool,
}

impl Text {
    fn new(seed: u64) -> Text {
        let mut random = Random::from_seed(seed);
        let [rows, columns, inner] = [0; 3].map(|_| EXTENTS[random.next_below(EXTENTS.len())]);
        let factor = [Scalar::F16, Scalar::Bf16, Scalar::F32][random.next_below(3)];
        Text { random, rows, columns, inner, factor, in_loop: false }
    }

    /// Returns a block-uniform index expression for the start of a window: inside an array, before it or past its end.
    fn start(&mut self) -> String {
        let n = self.random.next_below(30);
        match self.random.next_below(if self.in_loop { 8 } else { 5 }) {
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
        match self.random.next_below(8) {
            0 => format!("{start}..{start} + {} step 3", 3 * count),
            1 if !start.starts_with(|c: char| c.is_ascii_digit()) => {
                let edge = self.random.pick(&["H", "9", "(4 * bx)"]);
                format!("{start}..min({start} + {count}, {edge})")
            }
            _ => format!("{start}..{start} + {count}"),
        }
    }

    /// Returns a window of an array with two or three axes.
    fn part(&mut self, [rows, columns]: [u32; 2], [two, three]: [&str; 2]) -> String {
        let (down, across) = (self.range(rows), self.range(columns));
        match self.random.next_below(5) {
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

    /// Returns an operand of a product: a window of an array, a tile, or a computed tile.
    fn multiplied(&mut self, [rows, columns]: [u32; 2], tile: &str) -> String {
        let arrays = ["factors", "boxes"];
        let operand = match self.random.next_below(6) {
            0 | 1 => self.part([rows, columns], arrays),
            2 => format!("transpose({})", self.part([columns, rows], arrays)),
            3 => format!("{tile} + {}", self.part([rows, columns], arrays)),
            4 if self.factor != Scalar::F32 => {
                let number = self.number([rows, columns]);
                format!("{}({number})", self.factor)
            }
            _ => tile.into(),
        };
        if self.factor == Scalar::F32 { format!("tf32({operand})") } else { operand }
    }

    fn product(&mut self, sum: &str) -> String {
        let (rows, columns, inner) = (self.rows, self.columns, self.inner);
        let (a, b) = (self.multiplied([rows, inner], "left"), self.multiplied([inner, columns], "right"));
        format!("mma({sum}, {a}, {b})")
    }

    fn expression(&mut self, depth: u32) -> String {
        let (rows, columns) = (self.rows, self.columns);
        if depth == 0 {
            return match self.random.next_below(5) {
                0 => self.number([rows, columns]),
                1 => format!("transpose({})", self.number([columns, rows])),
                2 => format!("reshape(f32(arange({rows})), {rows}, 1)"),
                3 => "acc".into(),
                _ => "other".into(),
            };
        }
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.random.next_below(5) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - 0.5 * {b})"),
            2 => format!("select({a} > {b}, {a}, {b})"),
            3 => format!("(other + reshape(max(acc + {a}, axis = 1), {rows}, 1))"),
            _ => format!("(acc - sum(acc + {b}, axis = 0))"),
        }
    }

    fn statement(&mut self) -> String {
        let (rows, columns, inner) = (self.rows, self.columns, self.inner);
        match self.random.next_below(10) {
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
                let body: Vec<String> = (0..1 + self.random.next_below(3)).map(|_| self.statement()).collect();
                self.in_loop = false;
                format!("for k in bx..W step 16 {{\n        {}\n    }}", body.join("\n        "))
            }
        }
    }

    fn kernel(&mut self) -> String {
        let (rows, columns, inner, of) = (self.rows, self.columns, self.inner, self.factor);
        let body: Vec<String> = (0..2 + self.random.next_below(5)).map(|_| self.statement()).collect();
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
            ["0.0", "-0.0"][self.random.next_below(2)],
            body.join("\n    ")
        )
    }

    /// Returns arrays of random extents as arguments for the kernel.
    fn arguments(&mut self) -> Arguments {
        let [h, w] = [0; 2].map(|_| 1 + self.random.next_below(50) as u32);
        let (d, kind) = (1 + self.random.next_below(3) as u32, self.random.next_below(5));
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

    /// Returns a random array. `kind` selects moderate numbers, numbers of all magnitudes, or numbers with NaNs and
    /// infinities among them.
    fn array(&mut self, shape: &[u32], scalar: Scalar, kind: usize) -> Array {
        let count = shape.iter().product::<u32>();
        let mut one = || {
            let near = (self.random.next_below(2001) as f32 - 1000.0) / 500.0;
            let strange = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-42, 3e38, 6e4];
            let number = match kind {
                0 => near,
                1 => near * 2f32.powi(self.random.next_below(30) as i32 - 15),
                2 => near * 2f32.powi(self.random.next_below(250) as i32 - 130),
                3 if self.random.next_below(20) == 0 => strange[self.random.next_below(strange.len())],
                _ => (near * 3.0).trunc(),
            };
            ScalarValue::of(number).to_type(scalar).bits as u32
        };
        Array::new(shape, scalar, (0..count).map(|_| one()).collect::<Vec<_>>())
    }
}

fn compiled(source: &str, sums: MmaPrecision) -> Arc<PreparedKernel> {
    let mut session = Session::default();
    let outcome = session.add("main.clk", source, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{source}", outcome.diagnostics);
    let (id, _) = session.program.kernels.iter().find(|(_, kernel)| kernel.name == "tiled").expect("a kernel");
    let instance =
        clk_lower::Instance { sums, ..default_instance(&session.program, id).expect("no compile-time arguments") };
    let module = clk_lower::lower(&session.program, &instance).unwrap_or_else(|errors| panic!("{errors:#?}\n{source}"));
    Arc::new(clk_pass::prepare(module).expect("it is sound"))
}

/// Launches a kernel on a simulator; returns the resulting arrays or its fault.
fn launched(simulator: Simulator, kernel: &Arc<PreparedKernel>, initial: &Arguments) -> Result<Arguments, String> {
    let mut arguments = initial.clone();
    let executable = simulator.load(kernel.clone(), None);
    let control = Control::default();
    let extents = LaunchExtents::Grid { grid: [3, 2, 1], block: [32, 1, 1] };
    let outcome =
        executable.launch(&LaunchConfig::from(extents).synchronous(), &mut launch_arguments(&mut arguments), &control);
    outcome.map(|_| arguments).map_err(|fault| format!("{:?}", fault.kind))
}

/// Returns the first difference between the results of two launches, with both values, or their faults if these differ.
fn difference(actual: &Result<Arguments, String>, expected: &Result<Arguments, String>) -> Option<String> {
    let (Ok(actual), Ok(expected)) = (actual, expected) else {
        let [actual, expected] = [actual, expected].map(|ran| ran.as_ref().err());
        return (actual != expected).then(|| format!("{actual:?}, not {expected:?}"));
    };
    let written = actual.iter().zip(expected).filter(|((_, written), _)| *written);
    written.map(|((actual, _), (expected, _))| (actual.elements(), expected.elements())).find_map(
        |(actual, expected)| {
            let [actual, expected] =
                [actual, expected].map(|bits| bits.into_iter().map(f32::from_bits).collect::<Vec<f32>>());
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            let at = (0..expected.len()).find(|&k| !same(actual[k], expected[k]))?;
            Some(format!("element {at} is {:?}, not {:?}", actual[at], expected[at]))
        },
    )
}

#[test]
fn collective_loops_match_the_bits_of_separate_threads() {
    let (count, first) = (setting("CLK_RANDOM_PROGRAMS", 10), setting("CLK_RANDOM_SEED", 1));
    let (mut products, mut copies) = (0, 0);
    for seed in first..first + count {
        let mut text = Text::new(seed);
        let source = text.kernel();
        let sums = [
            MmaPrecision::TensorCore(TensorCoreModel::Sm90),
            MmaPrecision::TensorCore(TensorCoreModel::Sm90),
            MmaPrecision::TensorCore(TensorCoreModel::Sm80),
            MmaPrecision::Sequential,
        ];
        let sums = sums[text.random.next_below(sums.len())];
        let kernel = compiled(&source, sums);
        let shown = clk_ir::text::print(&kernel.module);
        products += shown.matches(" adds @").count();
        copies += shown.matches(" copies @").count();
        let arguments = text.arguments();
        // An index that depends on the block may be out of bounds; then all simulators report the same fault.
        let expected = launched(Simulator::with_isa(Isa::Base).with_jit(Jit::Off), &kernel, &arguments);
        for &isa in Isa::ALL.iter().filter(|isa| isa.is_supported()) {
            for jit in [Jit::Off, Jit::Always] {
                let actual = launched(Simulator::with_isa(isa).with_jit(jit), &kernel, &arguments);
                let differs = difference(&actual, &expected);
                assert_eq!(differs, None, "seed {seed}, {} {jit:?}, {sums:?}:\n{source}", isa.name());
            }
        }
    }
    assert!(products > count as usize && copies > count as usize, "{products} products, {copies} copies");
}

/// The comparison of two launches detects that they compute with different precisions of `mma`.
#[test]
fn bit_differences_are_detected() {
    let differs = (1..9).filter(|&seed| {
        let mut text = Text::new(seed);
        let source = text.kernel();
        let arguments = text.arguments();
        let [one, other] = [MmaPrecision::TensorCore(TensorCoreModel::Sm90), MmaPrecision::Sequential]
            .map(|sums| launched(Simulator::with_isa(Isa::Base), &compiled(&source, sums), &arguments));
        difference(&one, &other).is_some()
    });
    assert!(differs.count() > 2);
}
