//! Generates random kernels that write a flat array at the index of an element of a matrix or a volume, such as
//! `r * W + c`, and kernels that just miss some elements. Compares the proofs with runs at many small sizes.

use std::fmt::Write;
use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::NoFiles;
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_prove::{ProofVerdict, Property, prove_kernel};
use clk_runtime::Control;
use clk_sim::Simulator;

use super::{compiled, contradicted, kernels};
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

/// Counts of kernels by their verdict on unwritten elements.
#[derive(Debug, Default)]
pub struct Tally {
    /// Kernels that write all elements by construction, and how many of them are proved to do so.
    pub complete: u64,
    pub proved: u64,
    /// Kernels with a random change, which usually leaves elements unwritten.
    pub changed: u64,
    pub changed_proved: u64,
    pub changed_refuted: u64,
    pub runs: u64,
    /// Runs without faults in which elements were unwritten.
    pub incomplete_runs: u64,
}

/// A random kernel and the extent of its array.
struct FlatKernel {
    text: String,
    /// The axes' names or numbers.
    dims: Vec<String>,
    /// The positions of the dimensions whose product is the extent of the array, and a number that is added to it.
    extent: (Vec<usize>, usize),
    is_changed: bool,
}

struct Writer {
    random: Random,
    /// The number of random changes that are still allowed.
    changes: usize,
}

impl Writer {
    fn next_below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    /// Returns whether to make a change at one of several places of the kernel.
    fn changes(&mut self) -> bool {
        let change = self.changes > 0 && self.next_below(6) == 0;
        self.changes -= usize::from(change);
        change
    }

    fn either(&mut self, right: &str, wrong: &[&str]) -> String {
        if self.changes() { self.random.pick(wrong).to_string() } else { right.to_string() }
    }

    /// Writes one of two equivalent forms of the index whose digits are `names`, the most significant first.
    fn index(&mut self, names: &[String], dims: &[String]) -> String {
        let strides: Vec<String> = (0..dims.len())
            .map(|at| match self.changes() {
                true if self.next_below(2) == 0 => format!("({} + 1)", dims[at]),
                true => dims[self.next_below(dims.len())].clone(),
                false => dims[at].clone(),
            })
            .collect();
        let form = self.next_below(3);
        let mut text = String::new();
        for (at, name) in names.iter().enumerate() {
            if form == 0 {
                text = if at == 0 { name.clone() } else { format!("({text}) * {} + {name}", strides[at]) };
                continue;
            }
            let after = strides[at + 1..].join(" * ");
            let separator = if at == 0 { "" } else { " + " };
            let _ = match (at + 1 == names.len(), form) {
                (true, _) => write!(text, "{separator}{name}"),
                (_, 1) => write!(text, "{separator}{name} * ({after})"),
                _ => write!(text, "{separator}{name} * {after}"),
            };
        }
        text
    }
}

/// Writes a kernel. Each axis of the matrix or volume is covered by an index of the launch, by a loop, or by both.
fn kernel(seed: u64) -> FlatKernel {
    let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut w = Writer { random, changes: 0 };
    for _ in 0..4 {
        w.random.word();
    }
    w.changes = [0, 0, 1, 2][w.next_below(4)];
    let allowed = w.changes;
    let rank = 2 + usize::from(w.next_below(3) == 0);
    let mut dims: Vec<String> = ["R", "W", "D"][..rank].iter().map(|name| (*name).to_string()).collect();
    if w.next_below(4) == 0 {
        let at = w.next_below(rank);
        dims[at] = ["1", "3", "4", "5"][w.next_below(4)].to_string();
    }
    let is_grid = w.next_below(3) > 0;
    let (mut head, mut body, mut guards, mut names) = (vec![], vec![], vec![], vec![]);
    let (mut grid, mut block) = (vec![], vec![]);
    let mut loops = 0;
    for (at, dim) in dims.iter().enumerate() {
        let (name, axis) = (["r", "c", "z"][at].to_string(), ["x", "y", "z"][grid.len()]);
        let size = [1, 2, 3, 4][w.next_below(4)];
        let first = w.either("0", &["1"]);
        let last = w.either(dim, &[&format!("{dim} - 1"), &format!("({dim} + 1) / 2")]);
        let kind = w.next_below(6);
        let spreads = match kind {
            0 => {
                let step = w.either("1", &["2"]);
                body.push(format!("for {name} in {first}..{last} step {step} {{"));
                loops += 1;
                false
            }
            _ if !is_grid => {
                head.push(format!("{name}: {dim}"));
                true
            }
            1 => {
                grid.push(dim.clone());
                block.push("1".to_string());
                body.push(format!("let {name} = block_idx.{axis}"));
                true
            }
            2 | 3 => {
                let blocks = match kind {
                    2 => (1 + w.next_below(3)).to_string(),
                    _ => format!("ceil_div({dim}, {})", 2 * size),
                };
                let count = if kind == 2 { blocks.clone() } else { format!("grid_dim.{axis}") };
                let step = w.either(&format!("{count} * {size}"), &[&format!("{count} * {size} + 1")]);
                let from = w.either("", &["1 + "]);
                grid.push(blocks);
                block.push(size.to_string());
                body.push(format!("for {name} in {from}global_idx.{axis}..{last} step {step} {{"));
                loops += 1;
                false
            }
            4 => {
                // The thread writes several elements of a tile.
                let tile = size * 2;
                let times = w.either("2", &["1"]);
                grid.push(w.either(&format!("ceil_div({dim}, {tile})"), &[&format!("{dim} / {tile}")]));
                block.push(size.to_string());
                body.push(format!("for k{at} in 0..{times} {{"));
                body.push(format!("let {name} = block_idx.{axis} * {tile} + k{at} * {size} + thread_idx.{axis}"));
                loops += 1;
                true
            }
            _ => {
                grid.push(w.either(&format!("ceil_div({dim}, {size})"), &[&format!("{dim} / {size}")]));
                block.push(size.to_string());
                body.push(format!("let {name} = global_idx.{axis}"));
                true
            }
        };
        if spreads && (is_grid || first != "0" || last != *dim) {
            guards.push(format!("{name} < {last}"));
        }
        if spreads && first != "0" {
            guards.push(format!("{name} >= {first}"));
        }
        names.push(match w.next_below(8) {
            0 => format!("({dim} - {} - {name})", w.either("1", &["0", "2"])),
            _ => name,
        });
    }
    // The digits of the index in any order.
    let mut order: Vec<usize> = (0..rank).collect();
    for at in 1..rank {
        order.swap(at, w.next_below(at + 1));
    }
    let mut extent: Vec<usize> = (0..rank).collect();
    if w.next_below(2) == 0 {
        extent.clone_from(&order);
    }
    if w.changes() {
        extent[0] = w.next_below(rank);
    }
    let more = usize::from(w.changes());
    let digits: Vec<String> = order.iter().map(|&at| names[at].clone()).collect();
    let strides: Vec<String> = order.iter().map(|&at| dims[at].clone()).collect();
    let index = w.index(&digits, &strides);
    let mut length = extent.iter().map(|&at| dims[at].clone()).collect::<Vec<_>>().join(" * ");
    if more > 0 {
        length += " + 1";
    }
    let is_changed = w.changes < allowed;
    if is_changed {
        guards.push(format!("{index} >= 0 && {index} < {length}"));
    }
    let geometry = match (is_grid && !grid.is_empty(), head.is_empty()) {
        (true, _) => format!("grid({}) block({})", grid.join(", "), block.join(", ")),
        (_, true) => "threads(_: 1)".into(),
        _ => format!("threads({})", head.join(", ")),
    };
    let shape = dims.join(", ");
    let mut text = format!("kernel k(_x: [i32; {shape}], out y: [i32; {length}]) {geometry} {{\n");
    body.iter().for_each(|line| text += &format!("    {line}\n"));
    let condition = if guards.is_empty() { "true".to_string() } else { guards.join(" && ") };
    let _ = writeln!(text, "    if {condition} {{ y[{index}] = 1 }}");
    text += &"    }\n".repeat(loops);
    FlatKernel { text: text + "}\n", dims, extent: (extent, more), is_changed }
}

/// Proves that a random kernel writes all elements; whether or not it is proved, runs the kernel at many sizes. No run
/// may contradict a proof.
pub fn compare(seed: u64, tally: &mut Tally) {
    let FlatKernel { text, dims, extent: (extent, more), is_changed } = kernel(seed);
    let mut session = compiled("random.clk", &text).unwrap_or_else(|| panic!("seed {seed} has errors\n{text}"));
    let (id, _) = kernels(&session).into_iter().next().expect("a kernel");
    let report = prove_kernel(&session.program, id);
    let is_proved = |property: Property| matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
    let written = is_proved(Property::Written);
    let is_refuted = matches!(report.verdict(Property::Written), Some(ProofVerdict::Refuted { .. }));
    let counts = if is_changed {
        [(&mut tally.changed, true), (&mut tally.changed_proved, written), (&mut tally.changed_refuted, is_refuted)]
    } else {
        assert!(!is_refuted, "seed {seed}: a kernel that writes all elements is refuted\n{text}");
        [(&mut tally.complete, true), (&mut tally.proved, written), (&mut tally.changed_refuted, false)]
    };
    counts.into_iter().for_each(|(count, is_counted)| *count += u64::from(is_counted));
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: 1, checks, max_steps: 100_000, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let sizes: &[usize] = if dims.len() == 2 { &[0, 1, 2, 3, 4, 5, 9] } else { &[0, 1, 2, 5] };
    let total = sizes.len().pow(dims.len() as u32);
    for case in 0..total {
        let (mut rest, mut values, mut fixed) = (case, vec![], false);
        for dim in &dims {
            let value = sizes[rest % sizes.len()];
            // The launches differ only in named dimensions.
            fixed |= dim.parse::<usize>().is_ok() && rest % sizes.len() > 0;
            values.push(dim.parse().unwrap_or(value));
            rest /= sizes.len();
        }
        if fixed {
            continue;
        }
        let length = extent.iter().map(|&at| values[at]).product::<usize>() + more;
        let shape = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let script = format!(
            "var y{case} = zeros({length}, type = i32)\nk(zeros({shape}, type = i32), y{case})\nprint(sum(y{case}))\n"
        );
        let outcome = session.add(&format!("<{case}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let mut diagnostics: Vec<Diagnostic> = vec![];
        let mut world = CapturedOutput::default();
        for chunk in outcome.chunks.clone() {
            if let Err(error) = interpreter.run_chunk(&session, chunk, &mut world) {
                diagnostics.push(*error);
            }
        }
        diagnostics.extend(interpreter.take_warnings());
        tally.runs += 1;
        let is_wrong = |diagnostic: &&Diagnostic| match diagnostic.code {
            "E0612" => is_proved(Property::NoOverflow),
            code => contradicted(code).is_some_and(is_proved),
        };
        if let Some(wrong) = diagnostics.iter().find(is_wrong) {
            panic!("seed {seed}, {values:?}: {} {} contradicts a proof\n{text}", wrong.code, wrong.title);
        }
        if !diagnostics.iter().any(|diagnostic| diagnostic.code.starts_with('E')) {
            // Every write stores 1, and unwritten elements are 0.
            let is_whole = world.0.trim() == length.to_string();
            assert!(is_whole || !written, "seed {seed}, {values:?}: not all elements are written\n{text}");
            assert!(is_whole || is_changed, "seed {seed}, {values:?}: the generator is wrong\n{text}");
            tally.incomplete_runs += u64::from(!is_whole);
        }
    }
}
