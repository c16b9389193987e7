//! Tests random kernels with limits on warp costs, whose lanes leave loops in different iterations.
//!
//! Runs must not exceed the proved limits on costs, and must not report faults that contradict other proved properties.
//! The device that counts costs does not use proofs. Lanes leave loops by `while` conditions on memory, `break`,
//! `continue`, `return`, ragged `for` bounds, and early returns of functions. Loops are nested and occur under
//! divergent conditions. All lanes leave the other loops together.

use std::sync::{Arc, Mutex};

use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::NoFiles;
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::{Checks, CostCounting, PreparedKernel};
use clk_prove::{ProofVerdict, Property, prove_kernel};
use clk_runtime::{
    Arg, Capabilities, Control, Device, DeviceWrapper, Executable, Fault, FaultKind, LaunchConfig, PrintedText,
};
use clk_sim::Simulator;

use super::{compiled, contradicted, kernels};
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

#[derive(Debug, Default)]
pub struct Tally {
    pub kernels: u64,
    /// Numbers of limits on warp costs that are proved, refuted, and undecided.
    pub proved: u64,
    pub refuted: u64,
    pub open: u64,
    /// Number of proved limits of kernels in which an access after a loop depends on the iteration in which lanes left
    /// the loop.
    pub counted: u64,
    /// Other proved properties.
    pub others: u64,
    pub runs: u64,
    /// Number of runs in which a warp reached exactly the proved limit.
    pub tight: u64,
    /// The largest cost of a warp in any run.
    pub most: WarpCosts,
}

/// The largest costs of an access by a warp: passes in shared memory, and sectors in global memory.
type WarpCosts = [u32; 2];

/// A simulator that counts warp costs in every launch.
#[derive(Default)]
struct Counting {
    simulator: Simulator,
    paid: Arc<Mutex<WarpCosts>>,
}

struct Loaded {
    executable: Arc<dyn Executable>,
    paid: Arc<Mutex<WarpCosts>>,
}

impl DeviceWrapper for Counting {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    // Without `checks`, checked launches would run on another simulator.
    fn capabilities(&self) -> Capabilities {
        Capabilities { checks: true, ..Capabilities::SYNCHRONOUS }
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        // This kernel has no information about its launches, so the run does not rely on proofs.
        let plain = PreparedKernel::new(kernel.module.clone(), kernel.checks);
        let counting = PreparedKernel { cost_counting: Some(CostCounting::Kernel), ..plain };
        Arc::new(Loaded { executable: self.simulator.load(Arc::new(counting), sources), paid: self.paid.clone() })
    }
}

impl Executable for Loaded {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        // Waits for the launch, because the counts are available only after it.
        let result = self.executable.launch(&config.synchronous(), args, control);
        let worst_accesses = std::mem::take(&mut *control.worst_accesses.lock().expect("the list"));
        let mut paid = self.paid.lock().expect("the counts");
        for fault in worst_accesses {
            if let FaultKind::Crowd(access) = fault.kind {
                let most = &mut paid[usize::from(!access.shared)];
                *most = access.count.max(*most);
            }
        }
        result
    }

    fn depends_on_promises(&self) -> bool {
        self.executable.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.executable.prepare_block_shape(block);
    }
}

struct Writer {
    random: Random,
    text: String,
    depth: usize,
    /// Names of locals that loops change.
    counts: Vec<String>,
    /// For each open block, the length of `counts` at its beginning.
    known: Vec<usize>,
    /// Variables of open `for` loops.
    loops: Vec<String>,
    next: usize,
    shared: bool,
    /// Whether threads may leave loops by `return`.
    returns: bool,
}

impl Writer {
    fn next_below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    fn of(&mut self, all: &[&str]) -> String {
        self.random.pick(all).to_string()
    }

    fn count(&mut self) -> String {
        let at = self.random.next_below(self.counts.len());
        self.counts[at].clone()
    }

    fn fresh(&mut self, letter: &str) -> String {
        self.next += 1;
        format!("{letter}{}", self.next)
    }

    fn line(&mut self, line: &str) {
        self.text += &"    ".repeat(self.depth + 1);
        self.text += line;
        self.text.push('\n');
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.depth += 1;
        self.known.push(self.counts.len());
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.counts.truncate(self.known.pop().unwrap_or_default());
        self.line("}");
    }

    /// Returns an expression whose value varies between lanes, or a uniform one.
    fn limit(&mut self) -> String {
        self.of(&["n[i]", "n[i]", "n[i]", "m", "n[i] % 4", "t % 5", "n[0]", "N", "8", "n[i] / 2"])
    }

    fn condition(&mut self) -> String {
        let (count, limit) = (self.count(), self.limit());
        let sign = self.of(&["==", ">", ">=", "!="]);
        match self.next_below(4) {
            0 => format!("{count} {sign} {limit}"),
            1 => format!("n[i] {sign} {}", self.next_below(8)),
            2 => format!("m {sign} {}", self.next_below(8)),
            _ => format!("{count} + t {sign} {limit}"),
        }
    }

    fn term(&mut self) -> String {
        let count = self.count();
        let inner = self.loops.last().cloned().unwrap_or_else(|| "t".into());
        match self.next_below(12) {
            0..3 => "t".into(),
            3..6 => count,
            6 => format!("{} * {count}", [3, 8, 32, 33][self.next_below(4)]),
            7 => "32 * t".into(),
            8 => inner,
            9 => format!("{count} / {}", 2 + self.next_below(3)),
            10 => format!("{count} % {}", 2 + self.next_below(7)),
            _ => self.of(&["m", "31 - t % 32", "0", "t / 4"]),
        }
    }

    fn index(&mut self) -> String {
        let first = self.term();
        match self.next_below(3) {
            0 => first,
            1 => format!("{first} + {}", self.next_below(9)),
            _ => format!("{first} + {}", self.term()),
        }
    }

    /// Writes an access within bounds.
    fn access(&mut self) {
        let at = self.fresh("at");
        let index = self.index();
        let (array, extent) = match self.next_below(3) {
            0 if self.shared => ("s", 1024),
            _ => ("x", 2048),
        };
        self.line(&format!("let {at} = {index}"));
        let access = match (array, self.next_below(4)) {
            ("s", 0) => format!("s[{at}] = 1.0"),
            ("s", 1) => format!("atomic_add(q[{at}], 1)"),
            _ => format!("sum += {array}[{at}]"),
        };
        self.line(&format!("if {at} >= 0 && {at} < {extent} {{ {access} }}"));
    }

    fn advance(&mut self) {
        let (count, by) = (self.count(), 1 + self.next_below(3));
        let line = match self.next_below(6) {
            0 => format!("{count} += t % 3"),
            1 => format!("{count} = {} + {by}", self.count()),
            _ => format!("{count} += {by}"),
        };
        self.line(&line);
    }

    fn inside(&mut self) {
        for _ in 0..1 + self.next_below(2) {
            match self.next_below(6) {
                0 => self.access(),
                1 if self.depth < 3 => self.repeat(),
                2 => {
                    let condition = self.condition();
                    self.open(&format!("if {condition} {{"));
                    self.advance();
                    self.close();
                }
                _ => self.advance(),
            }
        }
    }

    /// Writes a loop that lanes leave together or separately.
    fn repeat(&mut self) {
        let (limit, condition) = (self.limit(), self.condition());
        match self.next_below(6) {
            0 => {
                let count = self.count();
                self.open(&format!("while {count} < {limit} {{"));
                self.inside();
                self.line(&format!("{count} += 1"));
                self.close();
            }
            1 => {
                let turns = self.fresh("turns");
                self.line(&format!("var {turns} = 0"));
                self.open("loop {");
                self.line(&format!("if {condition} {{ break }}"));
                self.inside();
                self.line(&format!("{turns} += 1"));
                self.line(&format!("if {turns} > {} {{ break }}", 3 + self.next % 5));
                self.close();
                self.counts.push(turns);
            }
            2 | 3 => {
                let (k, leave) = (self.fresh("k"), self.of(&["break", "continue", "break"]));
                let end = 2 + self.next_below(9);
                self.open(&format!("for {k} in 0..{end} {{"));
                self.loops.push(k.clone());
                let count = self.count();
                self.line(&format!("if {condition} {{ {leave} }}"));
                self.line(&format!("{count} = {k} + {}", self.next % 3));
                self.inside();
                if self.returns && self.random.next_below(4) == 0 {
                    self.line(&format!("if n[i] == {k} + 3 {{ return }}"));
                }
                self.loops.pop();
                self.close();
            }
            4 => {
                let k = self.fresh("k");
                self.open(&format!("for {k} in 0..{limit} {{"));
                self.loops.push(k);
                self.inside();
                self.loops.pop();
                self.close();
            }
            _ => {
                let count = self.count();
                self.line(&format!("{count} += steps({limit}, {})", self.next % 7));
            }
        }
    }
}

const STEPS: &str = "fn steps(n: i32, least: i32) -> i32 {
    var c = 0
    while c < 12 {
        if c >= n { return c }
        c += 1 + least % 2
    }
    c + least
}
";

/// Returns the text of a random kernel, and its limits on bank conflicts and sectors.
pub fn kernel(seed: u64) -> (String, [u32; 2]) {
    let random = Random::from_seed(seed);
    let mut w = Writer {
        random,
        text: String::new(),
        depth: 0,
        counts: vec!["c".into(), "d".into()],
        known: vec![],
        loops: vec![],
        next: 0,
        shared: false,
        returns: false,
    };
    for _ in 0..4 {
        w.random.word();
    }
    let block = [16, 32, 64][w.next_below(3)];
    let head = match w.next_below(3) {
        0 => "threads(i: N)".to_string(),
        1 => format!("grid(N / {block}) block({block})"),
        _ => format!("grid(N / {block}) block({}, {})", block / 2, 2),
    };
    let grid = head.starts_with("grid");
    let limits = [[1, 1, 2, 4, 8, 32][w.next_below(6)], [1, 4, 4, 5, 8, 9, 16, 33][w.next_below(8)]];
    w.text = format!("{STEPS}kernel k(n: [i32; N], x: [f32; 2048], m: i32, inout y: [f32; N]) {head}\n");
    w.text += &format!("    expect bank_ways <= {}, sectors <= {}\n{{\n", limits[0], limits[1]);
    if grid {
        let rank2 = head.contains("block(8,") || head.contains("block(16,") || head.contains("block(32,");
        match rank2 {
            true => w.line(&format!("let t = thread_idx.x + {} * thread_idx.y", block / 2)),
            false => w.line("let t = thread_idx.x"),
        }
        w.line(&format!("let i = {block} * block_idx.x + t"));
        w.shared = w.next_below(3) > 0;
        if w.shared {
            w.line("shared s: [f32; 1024]");
            w.line("shared q: [i32; 1024]");
            w.line(&format!("for f in t..1024 step {block} {{"));
            w.line("    s[f] = 1.0");
            w.line("    q[f] = 0");
            w.line("}");
            w.line("barrier()");
        }
    } else {
        w.line("let t = i");
    }
    w.returns = w.next_below(3) == 0;
    w.line("var sum = 0.0");
    let start = w.of(&["0", "0", "t", "m", "n[i]"]);
    w.line(&format!("var c = {start}"));
    w.line("var d = 0");
    for _ in 0..1 + w.next_below(2) {
        if w.next_below(4) == 0 {
            let condition = w.condition();
            w.open(&format!("if {condition} {{"));
            w.repeat();
            w.close();
        } else {
            w.repeat();
        }
        for _ in 0..1 + w.next_below(2) {
            w.access();
        }
    }
    w.line("atomic_add(y[i], sum)");
    (w.text + "}\n", limits)
}

/// Returns whether the index of an access at the outermost nesting level uses a local that loops change.
fn depends_on_loops(text: &str) -> bool {
    let is_local = |word: &str| matches!(word, "c" | "d") || word.starts_with("turns");
    let indices = text.lines().filter(|line| line.starts_with("    let at"));
    indices.flat_map(|line| line.split(' ')).any(is_local)
}

/// Proves properties of a kernel; if any is proved, runs it with several sizes and contents.
pub fn compare(seed: u64, tally: &mut Tally) {
    let (text, limits) = kernel(seed);
    let mut session = compiled("divergent.clk", &text).unwrap_or_else(|| panic!("seed {seed} has mistakes: {text}"));
    let (id, _) = kernels(&session).into_iter().next_back().expect("a kernel");
    let report = prove_kernel(&session.program, id);
    let is_proved = |property: Property| matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
    let own = [Property::BankWays(limits[0]), Property::Sectors(limits[1])];
    let proved: Vec<Property> = Property::ALL.into_iter().filter(|property| is_proved(*property)).collect();
    tally.kernels += 1;
    tally.others += proved.len() as u64;
    for property in own {
        match report.verdict(property) {
            Some(ProofVerdict::Proved { .. }) => {
                tally.proved += 1;
                tally.counted += u64::from(depends_on_loops(&text));
            }
            Some(ProofVerdict::Refuted { .. }) => tally.refuted += 1,
            _ => tally.open += 1,
        }
    }
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let device = Arc::new(Counting::default());
    let paid = device.paid.clone();
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: 1, checks, max_steps: 100_000, ..Control::default() };
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    // Two devices without checks, which differ only in the order of threads.
    let plain = |backward: bool| {
        let control = Control { workers: 1, max_steps: 100_000, reverse_order: backward, ..Control::default() };
        let device = Arc::new(Simulator::default());
        Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device })
    };
    let mut pair = [plain(false), plain(true)];
    // For kernels with `grid`, the sizes are multiples of all block sizes; others may have any number of threads.
    let sizes = if text.contains("grid(") { [64, 128, 64, 192, 64, 128] } else { [1, 31, 32, 33, 64, 100] };
    for (serial, size) in sizes.into_iter().enumerate() {
        let most = [2, 9, 40][random.next_below(3)];
        let numbers: Vec<String> = (0..size).map(|_| random.next_below(most).to_string()).collect();
        let script = format!(
            "var y{serial} = zeros({size})\nk([{}], ones(2048), {}, y{serial})\nprint(y{serial})\n",
            numbers.join(", "),
            random.next_below(12)
        );
        let outcome = session.add(&format!("<{serial}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        *paid.lock().expect("the counts") = [0; 2];
        let mut diagnostics: Vec<Diagnostic> = vec![];
        for chunk in outcome.chunks.clone() {
            diagnostics.extend(
                interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()).err().map(|error| *error),
            );
        }
        diagnostics.extend(interpreter.take_warnings());
        tally.runs += 1;
        let most = *paid.lock().expect("the counts");
        tally.most = [tally.most[0].max(most[0]), tally.most[1].max(most[1])];
        for ((property, limit), paid) in own.into_iter().zip(limits).zip(most) {
            if is_proved(property) {
                assert!(paid <= limit, "seed {seed}: {paid} paid, {} proved\n{text}{script}", property.name());
                tally.tight += u64::from(paid == limit);
            }
        }
        if proved.contains(&Property::Order) && diagnostics.is_empty() {
            let mut shown = pair.iter_mut().map(|interpreter| {
                let mut world = CapturedOutput::default();
                for chunk in outcome.chunks.clone() {
                    interpreter.run_chunk(&session, chunk, &mut world).expect("a run without faults");
                }
                world.0
            });
            assert_eq!(shown.next(), shown.next(), "seed {seed}: the order matters\n{text}{script}");
        }
        for diagnostic in diagnostics {
            let property = match diagnostic.code {
                "E0612" => Some(Property::NoOverflow),
                code => contradicted(code),
            };
            assert!(
                property.is_none_or(|property| !proved.contains(&property)),
                "seed {seed}: {} {} contradicts a proof\n{text}{script}",
                diagnostic.code,
                diagnostic.title
            );
        }
    }
}
