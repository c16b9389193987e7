//! Generates random kernels with `assume` clauses, proves their properties, and runs them with small arrays that
//! satisfy the clauses.

use std::sync::Arc;

use clk_compile::NoFiles;
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_prove::{ProofVerdict, Property, prove_kernel};
use clk_runtime::Control;
use clk_sim::Simulator;

use super::{compiled, contradicted, kernels};
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

/// Counts of kernels and runs.
#[derive(Debug, Default)]
pub struct Tally {
    pub kernels: u64,
    /// Kernels proved in bounds and free of races.
    pub proved: u64,
    /// Kernels whose `out` array is proved to be written completely.
    pub covered: u64,
    pub refuted: u64,
    pub runs: u64,
    /// Launches that violate an assumption.
    pub unmet: u64,
}

const CLAUSES: &[&str] = &[
    "all(a >= 0)",
    "all(a >= 0), all(a < M)",
    "all(a >= 0 && a <= M)",
    "all(a < A)",
    "all(a >= -1), all(a < k)",
    "all(a != 1)",
    "all(b < M)",
    "all(b < A), all(b >= 0)",
    "all(b <= k)",
    "ascending(a)",
    "ascending(b)",
    "ascending(a), all(a >= 0 && a <= M)",
    "distinct(a)",
    "distinct(b)",
    "permutation(a)",
    "permutation(b)",
    "A == N",
    "A == N + 1",
    "A > N",
    "M == A",
    "M >= N",
    "M > 0",
    "k >= 0",
    "k > 0 && k <= M",
    "k == 1 || k == 2",
    "!(k < 0 || k >= A)",
    "A % 2 == 0",
    "M - N > 1",
    "B == M, N <= B",
    "max(A, 1) <= M",
    "ceil_div(M, 2) == N",
    "N * 2 <= M",
];

/// Assumptions about a stride `k`, and about sizes.
const STEPS: &[&str] =
    &["k > 0", "k >= 0", "k >= -1", "k > 0 && k <= M", "k >= 0, k < N", "k >= 0, k <= N", "k >= 1, k <= N"];
const SIZES: &[&str] =
    &["N * k <= M", "M >= N * k", "(N - 1) * k < M", "M == N", "N * k <= M + 1", "N + k <= M", "k * 2 <= M", "M >= 1"];
/// Index expressions with a stride `k`, or with a remainder that wraps them around.
const TURNED: &[&str] = &[
    "i * k",
    "i * k + k - 1",
    "i / k * k",
    "k - i",
    "(i + k) % M",
    "(i + k) % N",
    "(k + i) % N",
    "(i - k + N) % N",
    "(i + N - k) % N",
    "(k - i + N) % N",
    "(N - 1 - i + k) % N",
    "(i + 1) % N",
    "(i - k) % N",
    "(i * k) % M",
    "(i * 3) % M",
    "(i + k) % 4",
    "(2 * i + k) % M",
    "(i / 2 + k) % M",
];

struct Writer {
    random: Random,
    names: Vec<String>,
    text: String,
    /// Whether the elements of `b` are `u8`; otherwise they are `i32`.
    narrow: bool,
}

impl Writer {
    fn index(&mut self, depth: usize) -> String {
        let name = self.names[self.random.next_below(self.names.len())].clone();
        if depth == 0 {
            return name;
        }
        let inner = self.index(depth - 1);
        match self.random.next_below(14) {
            0..=4 => format!("a[{inner}]"),
            5..=6 if self.narrow => format!("i32(b[{inner}])"),
            5..=6 => format!("b[{inner}]"),
            7 => format!("{inner} + 1"),
            8 => format!("{inner} - 1"),
            9 => format!("{inner} / 2"),
            10 => ["0", "1", "k", "A - 1"][self.random.next_below(4)].to_string(),
            11 => format!("min({inner}, {name})"),
            _ => name,
        }
    }

    fn condition(&mut self) -> String {
        let (left, right) = (self.index(1), self.index(1));
        let limit = ["A", "M", "N", "0", "k"][self.random.next_below(5)].to_string();
        match self.random.next_below(5) {
            0 => format!("{left} < {right}"),
            1 => format!("{left} == {right}"),
            2 => format!("{left} >= 0 && {left} < {limit}"),
            _ => format!("{left} < {limit}"),
        }
    }

    fn statement(&mut self, depth: usize) {
        let index = self.index(2);
        match self.random.next_below(if depth == 0 { 4 } else { 8 }) {
            0..=2 => self.text += &format!("y[{index}] = i\n"),
            3 => {
                let name = format!("v{}", self.text.len());
                let condition = self.condition();
                self.text += &format!("var {name} = 0\nif {condition} {{ {name} = {index} }}\n");
                if depth > 1 {
                    self.names.push(name);
                }
            }
            4 | 5 => {
                let condition = self.condition();
                self.text += &format!("if {condition} {{\n");
                self.statement(depth - 1);
                self.text += "}\n";
            }
            6 => {
                let end = self.index(2);
                let name = format!("q{}", self.text.len());
                self.text += &format!("for {name} in {index}..{end} {{\n");
                self.names.push(name);
                self.statement(depth - 1);
                self.names.pop();
                self.text += "}\n";
            }
            _ => {
                let name = format!("v{}", self.text.len());
                self.text += &format!("let {name} = {index}\n");
                if depth > 1 {
                    self.names.push(name);
                }
            }
        }
    }
}

pub fn kernel(seed: u64) -> String {
    let mut random = Random::from_seed(seed);
    for _ in 0..4 {
        random.word();
    }
    let mut clauses: Vec<&str> = (0..1 + random.next_below(5)).map(|_| random.pick(CLAUSES)).collect();
    let narrow = random.next_below(2) == 0;
    let grid = random.next_below(3) == 0;
    let steps = 1 + random.next_below(3);
    let written = random.next_below(2);
    let names = ["i", "i", "i + 1", "k"].iter().map(|name| (*name).to_string()).collect();
    let mut w = Writer { random, names, text: String::new(), narrow };
    // Some kernels write all of `y`, at indices from a permutation.
    let whole = w.random.next_below(4) == 0;
    if whole {
        clauses = vec![w.random.pick(&["permutation(a)", "distinct(a), all(a >= 0 && a < M)"]), "M == A, A == N"];
        let guard = ["", "if a[i] >= 0 ", "if i < N - 1 ", "if a[i] < A "][w.random.next_below(4)];
        let index = ["a[i]", "a[a[i]]", "a[N - 1 - i]", "a[i / 2]", "a[0]"][w.random.next_below(5)];
        w.text += &format!("{guard}{{ y[{index}] = i }}\n");
    }
    let turned = !whole && w.random.next_below(3) == 0;
    if turned {
        clauses = vec![w.random.pick(STEPS), w.random.pick(SIZES), w.random.pick(SIZES)];
        let index = w.random.pick(TURNED);
        let guard = ["", "", "if i > 0 ", "if i < k "][w.random.next_below(4)];
        w.text += &format!("{guard}{{ y[{index}] = x[i] }}\n");
    }
    for _ in 0..if whole || turned { 0 } else { steps } {
        w.statement(2);
    }
    let element = if narrow { "u8" } else { "i32" };
    let head = match grid {
        true => "grid(ceil_div(N, 4)) block(4)",
        false => "threads(i: N)",
    };
    let body = match grid {
        true => format!("let i = global_idx.x\nif i < N {{\n{}}}\n", w.text),
        false => w.text,
    };
    let clauses = clauses.join(", ");
    let access = ["out", "inout"][written];
    format!(
        "kernel k(a: [i32; A], b: [{element}; B], x: [i32; N], k: i32, {access} y: [i32; M]) {head}\nassume {clauses}\n{{\n{body}}}\n"
    )
}

/// Returns an array expression with random small elements.
fn contents(random: &mut Random, count: usize, m: usize, narrow: bool) -> String {
    let mut items: Vec<i64> = match random.next_below(4) {
        0 => (0..count).map(|_| random.next_below(m + 2) as i64 - 1).collect(),
        1 => (0..count as i64).collect(),
        _ => (0..count).map(|_| random.next_below(m + 1) as i64).collect(),
    };
    match random.next_below(3) {
        0 => items.sort_unstable(),
        1 => {
            for i in (1..count).rev() {
                items.swap(i, random.next_below(i + 1));
            }
        }
        _ => {}
    }
    let suffix = if narrow { "u8" } else { "" };
    let shown: Vec<String> =
        items.iter().map(|item| format!("{}{suffix}", if narrow { (*item).max(0) } else { *item })).collect();
    match count {
        0 => format!("zeros(0, type = {})", if narrow { "u8" } else { "i32" }),
        _ => format!("[{}]", shown.join(", ")),
    }
}

/// Returns a launch with small arrays.
pub fn launch(random: &mut Random, serial: usize, narrow: bool) -> String {
    let [n, m, long, other] = [5, 6, 6, 5].map(|most| random.next_below(most));
    // In half of the launches, all arrays but `b` have the same length, as permutations require.
    let (n, m) = if random.next_below(2) == 0 { (long, long) } else { (n, m) };
    let a = contents(random, long, m, false);
    let b = contents(random, other, m, narrow);
    let k = random.next_below(6) as i64 - 1;
    format!("var y{serial} = zeros({m}, type = i32)\nk({a}, {b}, zeros({n}, type = i32), {k}, y{serial})\n")
}

/// Proves properties of a random kernel; if any is proved, runs the kernel with small arrays.
pub fn compare(seed: u64, tally: &mut Tally) {
    let text = kernel(seed);
    let Some(mut session) = compiled("random.clk", &text) else { return };
    let Some((id, _)) = kernels(&session).into_iter().next() else { return };
    let report = prove_kernel(&session.program, id);
    let is_proved = |property| matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
    tally.kernels += 1;
    tally.proved += u64::from(is_proved(Property::InBounds) && is_proved(Property::RaceFree));
    tally.covered += u64::from(text.contains(", out y") && is_proved(Property::Written));
    tally.refuted += u64::from(report.is_refuted());
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: 1, checks, max_steps: 100_000, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let narrow = text.contains("b: [u8");
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    for serial in 0..60 {
        let script = launch(&mut random, serial, narrow);
        let outcome = session.add(&format!("<{serial}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let mut diagnostics = vec![];
        for chunk in outcome.chunks.clone() {
            if let Err(error) = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()) {
                diagnostics.push(*error);
            }
        }
        diagnostics.extend(interpreter.take_warnings());
        tally.runs += 1;
        tally.unmet += u64::from(diagnostics.iter().any(|d| d.code == "E0525"));
        for diagnostic in diagnostics {
            let property = match diagnostic.code {
                "E0612" => Some(Property::NoOverflow),
                code => contradicted(code),
            };
            assert!(
                !property.is_some_and(is_proved),
                "seed {seed}: {} {} contradicts a proof\n{text}{script}",
                diagnostic.code,
                diagnostic.title
            );
        }
    }
}
