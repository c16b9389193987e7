//! Generates random kernels as text, proves their properties, and runs them at all sizes up to 6.

use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::NoFiles;
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_prove::{ProofVerdict, Property, prove_kernel};
use clk_runtime::Control;
use clk_sim::Simulator;
use clk_testing::world::CapturedOutput;

use super::{compiled, contradicted, kernels};
use clk_testing::random::Random;

/// Counts of kernels by their verdicts on bounds and races.
#[derive(Debug, Default)]
pub struct Tally {
    pub kernels: u64,
    /// Kernels for which both properties are proved.
    pub proved: u64,
    /// Kernels for which one or both of the properties are refuted.
    pub refuted: u64,
    pub unknown: u64,
    /// Kernels for which every property is proved or refuted.
    pub decided: u64,
    /// Kernels with an `out` array whose elements are all proved to be written.
    pub covered: u64,
    /// Kernels that read shared memory, by the verdict on its initialization: proved and refuted.
    pub initialized: u64,
    pub uninitialized: u64,
    /// Kernels with atomic operations for which it is proved that the order of blocks and warps does not affect the
    /// results.
    pub ordered: u64,
    /// Number of runs that were compared with a run in the opposite order.
    pub reversed: u64,
    pub unconfirmed: usize,
    pub runs: u64,
    pub reports: u64,
}

struct Writer {
    random: Random,
    text: String,
    depth: usize,
    /// Names of integer variables in scope.
    names: Vec<String>,
    next: usize,
    shared: bool,
    flat: bool,
}

impl Writer {
    fn next_below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    fn name(&mut self) -> String {
        let at = self.random.next_below(self.names.len());
        self.names[at].clone()
    }

    fn index(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.next_below(8) {
                0 => self.next_below(5).to_string(),
                _ => self.name(),
            };
        }
        let inner = depth - 1;
        match self.next_below(16) {
            0..5 => self.name(),
            5..7 => format!("{} + {}", self.index(inner), self.next_below(3)),
            7 => format!("{} - {}", self.index(inner), self.next_below(3)),
            8 => format!("({} + {})", self.index(inner), self.index(inner)),
            9 => format!("({} - {})", self.index(inner), self.index(inner)),
            10 => format!("({}) * {}", self.index(inner), self.next_below(4)),
            11 => format!("({}) / {}", self.index(inner), 1 + self.next_below(4)),
            12 => format!("({}) % {}", self.index(inner), 1 + self.next_below(4)),
            13 => format!("min({}, {})", self.index(inner), self.index(inner)),
            14 => format!("max({}, {})", self.index(inner), self.index(inner)),
            _ => format!("(({}) ^ {})", self.name(), 1 << self.next_below(3)),
        }
    }

    fn condition(&mut self) -> String {
        let sign = ["<", "<=", ">", ">=", "==", "!="][self.next_below(6)];
        let one = format!("{} {sign} {}", self.index(1), self.index(1));
        match self.next_below(5) {
            0 => format!("{one} && {} > 0", self.index(1)),
            1 => format!("{one} || {} == 0", self.index(1)),
            2 => "x[0] > 0".into(),
            _ => one,
        }
    }

    fn line(&mut self, line: &str) {
        self.text += &"    ".repeat(self.depth + 1);
        self.text += line;
        self.text.push('\n');
    }

    fn block(&mut self, head: &str, steps: usize) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        let outer_count = self.names.len();
        for _ in 0..steps {
            self.statement();
        }
        self.names.truncate(outer_count);
        self.depth -= 1;
        self.line("}");
    }

    /// Writes code that accesses an element, mostly within bounds.
    fn access(&mut self) {
        let (array, extent) = match self.next_below(3) {
            0 if self.shared => ("s", "8"),
            1 => ("x", "N"),
            _ => ("y", "M"),
        };
        let index = self.index(2);
        let guarded = self.next_below(8) > 0;
        if array != "x" && self.next_below(5) == 0 {
            return self.update(array, &index, extent);
        }
        let access = match (array, self.next_below(4)) {
            ("x", _) => format!("let v{} = x[{index}]", self.next),
            ("y", 0) => format!("atomic_add(y[{index}], 1)"),
            (_, 1) => format!("let v{} = {array}[{index}]", self.next),
            _ => format!("{array}[{index}] = {}", self.next_below(3)),
        };
        self.next += 1;
        match guarded {
            true => self.line(&format!("if {index} >= 0 && {index} < {extent} {{ {access} }}")),
            false => self.line(&access),
        }
    }

    /// Writes an atomic update of an element within bounds, which may use the old value.
    fn update(&mut self, array: &str, index: &str, extent: &str) {
        let op = ["add", "add", "sub", "max", "min", "xor", "exchange", "store", "load"][self.next_below(9)];
        let value = if self.next_below(3) == 0 { self.name() } else { self.next_below(4).to_string() };
        let call = match op {
            "load" => format!("atomic_load({array}[{index}])"),
            _ => format!("atomic_{op}({array}[{index}], {value})"),
        };
        let name = format!("r{}", self.next);
        self.next += 1;
        let guard = format!("if {index} >= 0 && {index} < {extent}");
        if op == "store" || self.next_below(2) == 0 {
            return self.line(&format!("{guard} {{ {call} }}"));
        }
        self.line(&format!("var {name} = 0"));
        self.line(&format!("{guard} {{ {name} = {call} }}"));
        if self.next_below(2) == 0 {
            self.names.push(name);
        }
    }

    /// Writes code with which a block of `threads` threads writes all eight elements of `s`, or only some of them.
    fn fill(&mut self, threads: usize) {
        let condition = self.condition();
        let (first, last) = (self.next_below(8) / 6, 8 - self.next_below(8) / 6);
        match self.next_below(8) {
            0 => self.line("if t < 8 { s[t] = t }"),
            1 => self.line(&format!("for c in t + {first}..{last} step {threads} {{ s[c] = c }}")),
            2 => {
                self.line(&format!("if t == {first} {{ for c in {first}..{last} {{ s[c] = c }} }}"));
            }
            3 => {
                self.line(&format!("for c in 0..{} {{", 8 / threads));
                self.line(&format!("    if {condition} {{ s[c * {threads} + t] = 1 }}"));
                self.line(&format!("    else {{ s[{last} - 1 - t - c * {threads}] = 2 }}"));
                self.line("}");
            }
            4 => self.line(&format!("for c in 0..{} {{ s[{last} - 1 - t - c * {threads}] = c }}", last / threads)),
            5 => {
                let split = self.next_below(9);
                self.line(&format!("if t < {split} {{ s[t] = 1 }} else {{ s[t] = 2 }}"));
                self.line(&format!("for c in {threads} + t..{last} step {threads} {{ s[c] = t }}"));
            }
            6 => self.line(&format!("if {condition} {{ s[t] = t }}")),
            _ => return,
        }
        if self.next_below(3) > 0 {
            self.line("barrier()");
        }
    }

    /// Writes code that writes all elements of `y` in several statements, or that randomly leaves out some.
    fn cover(&mut self, grid: bool) {
        let off = |w: &mut Self, n: usize| if w.next_below(4) == 0 { w.next_below(n) } else { 0 };
        let condition = self.condition();
        let i = ["i", "t"][usize::from(grid && self.next_below(3) == 0)];
        let (least, most) = (off(self, 2), off(self, 3));
        let within = format!("{i} >= {least} && {i} < M");
        match self.next_below(10) {
            0 => {
                self.line(&format!("if {condition} {{ if {within} {{ y[{i}] = 1 }} }}"));
                self.line(&format!("else {{ if {i} < M {{ y[{i}] = 2 }} }}"));
            }
            1 => {
                self.line(&format!("if {condition} {{"));
                self.line(&format!("    if {within} {{ y[{i}] = 1 }}"));
                self.line("    return");
                self.line("}");
                self.line(&format!("if {i} < M {{ y[{i}] = 2 }}"));
            }
            2 => {
                let (at, edge) = (off(self, 2), off(self, 2));
                self.line(&format!("if {i} == {at} {{ if M > {edge} {{ y[{edge}] = 1 }} }}"));
                self.line(&format!("if {i} > {at} && {i} < M {{ y[{i}] = 2 }}"));
            }
            3 => {
                let first = 1 + off(self, 2);
                self.line(&format!("if {i} < M {{ y[M - {first} - {i}] = 1 }}"));
            }
            4 => {
                let step = [2, 4, 8][self.next_below(3)];
                self.line(&format!("for c in {i} + {least}..M step {step} {{"));
                self.line(&format!("    if {condition} {{ y[c] = 1 }} else {{ y[c] = 2 }}"));
                self.line("}");
            }
            5 => {
                let (width, rows) = ([2, 4, 8][self.next_below(3)], 1 + self.next_below(4));
                let all = width * rows + off(self, 2);
                self.line(&format!("assert(M <= {all})"));
                self.line(&format!("for c in {least}..{rows} {{"));
                self.line(&format!("    let at = c * {width} + {i}"));
                self.line(&format!("    if at < M && {i} < {width} {{ y[at] = c }}"));
                self.line("}");
            }
            6 => {
                let (a, b) = (1 + self.next_below(3), 1 + self.next_below(3));
                let c = if self.next_below(4) == 0 { 1 + self.next_below(3) } else { a };
                let at = format!("{i} / {a} * {c} + {i} % {}", if self.next_below(3) == 0 { b } else { a });
                self.line(&format!("if {at} < M {{ y[{at}] = 1 }}"));
            }
            7..9 => {
                // The threads of a block process the elements of a tile cyclically.
                let (width, rows) = (1 + self.next_below(4), 1 + self.next_below(4));
                let step = if self.next_below(4) == 0 { 1 + self.next_below(8) } else { [2, 4, 8][self.next_below(3)] };
                let (wide, high) = (width + off(self, 2), rows + off(self, 2));
                let first =
                    if grid && self.next_below(2) == 0 { format!("b * {} + ", wide * high) } else { String::new() };
                let start = if grid { "t" } else { "i" };
                self.line(&format!("for n in {start} + {least}..{} step {step} {{", width * rows));
                self.line(&format!("    let at = {first}n / {width} * {wide} + n % {width}"));
                self.line("    if at < M { y[at] = n }");
                self.line("}");
            }
            _ => {
                let from = self.index(1);
                self.line(&format!("var left = {from}"));
                self.line(&format!("while left > {most} {{ left -= 1 }}"));
                let at = ["left".to_string(), i.to_string(), i.to_string()][self.next_below(3)].clone();
                self.line(&format!("if {at} >= 0 && {at} < M {{ y[{at}] = left }}"));
            }
        }
    }

    fn statement(&mut self) {
        let deep = self.depth > 1;
        match self.next_below(14) {
            0 if !deep => {
                let condition = self.condition();
                self.block(&format!("if {condition}"), 1);
            }
            1 if !deep => {
                let from = self.index(1);
                let (to, step) = (self.index(1), 1 + self.next_below(3));
                let name = format!("k{}", self.next);
                self.next += 1;
                self.names.push(name.clone());
                self.block(&format!("for {name} in {from}..{to} step {step}"), 2);
                self.names.retain(|known| *known != name);
            }
            2 if !deep && self.depth == 0 => {
                let name = format!("w{}", self.next);
                self.next += 1;
                let first = self.index(1);
                let step = ["/= 2", "-= 1", "-= 2"][self.next_below(3)];
                self.line(&format!("var {name} = {first}"));
                self.names.push(name.clone());
                self.line(&format!("while {name} > 0 {{"));
                self.depth += 1;
                self.access();
                if self.shared && self.next_below(2) == 0 {
                    self.line("barrier()");
                }
                self.line(&format!("{name} {step}"));
                self.depth -= 1;
                self.line("}");
            }
            3..5 => {
                let value = self.index(2);
                let name = format!("a{}", self.next);
                self.next += 1;
                self.line(&format!("let {name} = {value}"));
                self.names.push(name);
            }
            5..7 if self.shared => self.line("barrier()"),
            7 if self.depth == 0 => {
                let condition = self.condition();
                self.line(&format!("if {condition} {{ return }}"));
            }
            8 if self.depth == 0 => {
                let (condition, one, two) = (self.condition(), self.index(1), self.index(1));
                let name = format!("b{}", self.next);
                self.next += 1;
                self.line(&format!("var {name} = {one}"));
                self.line(&format!("if {condition} {{ {name} = {two} }}"));
                self.names.push(name);
            }
            _ => self.access(),
        }
    }
}

fn writer(seed: u64, shared: bool) -> Writer {
    let mut random = Random::from_seed(seed);
    for _ in 0..4 {
        random.word();
    }
    Writer { random, text: String::new(), depth: 0, names: vec![], next: 0, shared, flat: true }
}

pub fn kernel(seed: u64) -> String {
    let mut w = writer(seed, false);
    let threads = [2, 4, 8][w.next_below(3)];
    let (head, names): (String, &[&str]) = match w.next_below(5) {
        0 => ("threads(i: M)".into(), &["i", "M", "N"]),
        1 => {
            w.flat = false;
            ("threads(i: N, j: M)".into(), &["i", "j", "M", "N"])
        }
        2 => (format!("grid(ceil_div(M, {threads})) block({threads})"), &["i", "t", "b", "M"]),
        3 => (format!("grid(N) block({threads})"), &["t", "b", "N", "M"]),
        _ => (format!("grid(1) block({threads})"), &["t", "M", "t"]),
    };
    let grid = head.starts_with("grid");
    w.names = names.iter().map(|name| (*name).to_string()).collect();
    let access = ["out", "inout"][w.next_below(2)];
    w.text = format!("kernel k(x: [i32; N], {access} y: [i32; M]) {head} {{\n");
    if grid {
        w.line("let t = thread_idx.x");
        w.line("let b = block_idx.x");
        w.line("let i = global_idx.x");
        if w.next_below(2) == 0 {
            w.shared = true;
            w.line("shared s: [i32; 8]");
            w.fill(threads);
        }
    }
    let steps = 2 + w.next_below(5);
    for _ in 0..steps {
        w.statement();
    }
    if (grid || w.flat) && w.next_below(3) == 0 {
        w.cover(grid);
    } else if w.flat && w.next_below(2) == 0 && w.names.iter().any(|name| name == "i") {
        w.line("if i < M { y[i] = 1 }");
    }
    w.text + "}\n"
}

/// Returns a kernel that fills shared memory, with or without gaps, and reads it.
pub fn kernel_with_shared_reads(seed: u64) -> String {
    let mut w = writer(seed, true);
    let threads = [2, 4, 8][w.next_below(3)];
    let grid = ["ceil_div(M, 8)", "N", "1"][w.next_below(3)];
    w.text = format!("kernel k(x: [i32; N], out y: [i32; M]) grid({grid}) block({threads}) {{\n");
    w.names = ["t", "b", "M"].map(String::from).to_vec();
    for line in ["let t = thread_idx.x", "let b = block_idx.x", "shared s: [i32; 8]", "var sum = 0"] {
        w.line(line);
    }
    for _ in 0..1 + w.next_below(2) {
        w.fill(threads);
        if w.next_below(4) == 0 {
            w.statement();
        }
    }
    let condition = w.condition();
    let (first, last, index) = (w.next_below(3), 6 + w.next_below(3), w.index(2));
    match w.next_below(4) {
        0 => w.line(&format!("for c in {first}..{last} {{ sum += s[c] }}")),
        1 => w.line(&format!("for c in t..{last} step {threads} {{ sum += s[c] }}")),
        2 => w.line(&format!("if {condition} {{ if t < {last} {{ sum += s[t] }} }}")),
        _ => w.line(&format!("if {index} >= {first} && {index} < {last} {{ sum += s[{index}] }}")),
    }
    w.line(&format!("let at = b * {threads} + t"));
    w.line("if at < M { y[at] = sum }");
    w.text + "}\n"
}

/// The arguments of a launch: the extents of `x` and `y`, and the text of further arguments.
pub struct RandomLaunch {
    pub n: usize,
    pub m: usize,
    pub others: String,
}

/// Returns launches at all sizes up to 6.
pub fn small_launches() -> Vec<RandomLaunch> {
    (0..=6).flat_map(|n| (0..=6).map(move |m| RandomLaunch { n, m, others: String::new() })).collect()
}

/// Proves properties of a random kernel; if any is proved, runs the kernel with these arguments.
pub fn compare(seed: u64, text: &str, launches: &[RandomLaunch], tally: &mut Tally) {
    let Some(mut session) = compiled("random.clk", text) else { return };
    let Some((id, _)) = kernels(&session).into_iter().next() else { return };
    let report = prove_kernel(&session.program, id);
    let proved: Vec<Property> = Property::ALL
        .into_iter()
        .filter(|property| matches!(report.verdict(*property), Some(ProofVerdict::Proved { .. })))
        .collect();
    tally.kernels += 1;
    let both = [Property::InBounds, Property::RaceFree].map(|property| report.verdict(property));
    if both.iter().all(|verdict| matches!(verdict, Some(ProofVerdict::Proved { .. }))) {
        tally.proved += 1;
    } else if both.iter().any(|verdict| matches!(verdict, Some(ProofVerdict::Refuted { .. }))) {
        tally.refuted += 1;
    } else {
        tally.unknown += 1;
    }
    let open = report.verdicts.iter().any(|(_, verdict)| matches!(verdict, ProofVerdict::Unknown { .. }));
    tally.decided += u64::from(!open);
    tally.unconfirmed += report.unconfirmed;
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: 1, checks, max_steps: 100_000, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    // Two devices without checks, which differ only in the order of threads.
    let backward = |backward: bool| {
        let control = Control { workers: 1, max_steps: 100_000, reverse_order: backward, ..Control::default() };
        let device = Arc::new(Simulator::default());
        Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device })
    };
    let mut pair = [backward(false), backward(true)];
    match report.verdict(Property::Initialized) {
        Some(ProofVerdict::Proved { .. }) => tally.initialized += 1,
        Some(ProofVerdict::Refuted { .. }) => tally.uninitialized += 1,
        _ => {}
    }
    tally.covered += u64::from(proved.contains(&Property::Written) && text.contains("out y"));
    let ordered = proved.contains(&Property::Order) && text.contains("atomic_");
    tally.ordered += u64::from(ordered);
    for (serial, RandomLaunch { n, m, others }) in launches.iter().enumerate() {
        let fill = ["zeros", "ones"][serial % 2];
        let script = format!(
            "var y{serial} = zeros({m}, type = i32)\nk({fill}({n}, type = i32), y{serial}{others})\nprint(y{serial})\n"
        );
        let outcome = session.add(&format!("<{serial}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let mut diagnostics: Vec<Diagnostic> = vec![];
        for chunk in outcome.chunks.clone() {
            if let Err(error) = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()) {
                diagnostics.push(*error);
            }
        }
        diagnostics.extend(interpreter.take_warnings());
        tally.runs += 1;
        if ordered && diagnostics.is_empty() {
            let mut shown = pair.iter_mut().map(|interpreter| {
                let mut world = CapturedOutput::default();
                for chunk in outcome.chunks.clone() {
                    interpreter.run_chunk(&session, chunk, &mut world).expect("a run without faults");
                }
                world.0
            });
            assert_eq!(shown.next(), shown.next(), "seed {seed}, N = {n}, M = {m}{others}: the order matters\n{text}");
            tally.reversed += 1;
        }
        for diagnostic in diagnostics {
            tally.reports += 1;
            let property = match diagnostic.code {
                "E0612" => Some(Property::NoOverflow),
                code => contradicted(code),
            };
            let wrong = property.is_some_and(|property| proved.contains(&property));
            assert!(
                !wrong,
                "seed {seed}, N = {n}, M = {m}{others}: {} {} contradicts a proof\n{text}",
                diagnostic.code, diagnostic.title
            );
        }
    }
}
