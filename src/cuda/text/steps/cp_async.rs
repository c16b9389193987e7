//! Emits steps with the instructions of all GPUs from sm_80 on: `cp.async` copies of 16-byte chunks, and synchronous
//! products.
//!
//! Input: a tile program. Output: code in which all threads of a block compute and copy. A stage contains the windows
//! of one product. A resumable function with its own loop counters prefetches the windows of later products. All
//! threads synchronize before a product reads a stage. At this point, the stage's windows are complete and no thread
//! reads the previous stage any more, so it is refilled.

use super::*;

/// Alignment of windows in shared memory, in bytes.
const ALIGN: u32 = 128;
/// `PREFETCH_BYTES` is the total size of stages that suffices to hide the latency of copies. The other constants are
/// the maximum number of stages and the preferred minimum number.
const PREFETCH_BYTES: u32 = 64 * 1024;
const MOST_STAGES: u32 = 6;
const STAGES: u32 = 3;
/// Bytes of shared memory that the system reserves for each block. The limit for one block already excludes its
/// reserved memory.
const RESERVED: u32 = 1024;

impl TileLoad {
    /// Returns the number of 16-byte chunks in a row of the window.
    fn vectors_per_row(&self) -> u32 {
        let LoadSource::Array { axes, .. } = &self.from else { return 0 };
        axes.last().map_or(0, |[columns, _]| columns * self.scalar.size() as u32 / 16)
    }

    fn copy_vectors(&self, to: &str, threads: u32) -> String {
        let LoadSource::Array { name, extents, axes } = &self.from else { return String::new() };
        let mut outer_axes = self.at.iter().zip(extents).zip(axes).rev();
        let first = outer_axes.next().map_or(String::new(), |((at, extent), _)| format!("{at}(0, 0), {extent}"));
        let others = outer_axes
            .map(|((at, extent), [count, step])| format!(", tiles::Along<{count}, {step}>{{{at}(0, 0), {extent}}}"));
        let others: String = others.collect();
        let (kind, pieces) = (kind(self.scalar), self.vectors_per_row());
        format!("tiles::copy<tiles::{kind}, {threads}, {pieces}>({}, {name}, {first}{others});", self.part(to))
    }

    /// Returns the code that rounds the window's elements after the copy, if necessary.
    fn rounding(&self, at: &str, threads: u32) -> Option<String> {
        let round = || format!("tiles::round_own<{threads}, {}>({});", self.vectors_per_row(), self.part(at));
        (self.scalar == Scalar::F32).then(round)
    }
}

/// The prefetch function that is being generated.
#[derive(Default)]
struct TileCopyLoop {
    /// The variables of the function whose values persist between calls.
    variables: Vec<String>,
    /// The number of points in the function at which a call can resume.
    resume_points: usize,
}

/// Returns the windows of a product that are in its stage, and their byte offsets in the stage.
fn stage_offsets<'a>(a: &'a MmaOperand, b: &'a TileLoad) -> Vec<(&'a TileLoad, u32)> {
    let mut at = 0;
    let mut place = |load: &'a TileLoad| {
        at += load.bytes();
        (load, at - load.bytes())
    };
    staged(a, b).into_iter().map(&mut place).collect()
}

impl TileStepContext {
    /// Returns the size of dynamic shared memory in bytes: alignment, dedicated windows, and stages.
    pub(super) fn shared_of_cp_async(&self) -> u32 {
        ALIGN + self.dedicated_bytes() + self.stages * self.stage_bytes
    }

    pub(super) fn lay_out_cp_async(&mut self, ops: &[TileStepOp], room: u32) -> Option<()> {
        self.stage_bytes = ops.iter().map(|op| op.staged_bytes()[1]).max().unwrap_or(0);
        let besides = ALIGN + self.dedicated_bytes();
        let most = |room: u32| room.checked_sub(besides)?.checked_div(self.stage_bytes);
        if self.stage_bytes == 0 {
            return (besides <= room).then_some(());
        }
        let preferred = (PREFETCH_BYTES / self.stage_bytes).clamp(STAGES, MOST_STAGES);
        // Two blocks of four warps can run concurrently if each has only two stages.
        let with_two_blocks = (self.warpgroups == 1).then(|| most((room + RESERVED) / 2 - RESERVED)).flatten();
        let most = with_two_blocks.filter(|&stages| stages > 1).or_else(|| most(room))?;
        self.stages = Some(most.min(preferred)).filter(|&stages| stages > 0)?;
        Some(())
    }

    pub(super) fn write_cp_async(&mut self, ops: &[TileStepOp], out: &mut IndentedText<'_>) {
        let (once, stages, bytes, threads) = (self.dedicated_bytes(), self.stages, self.stage_bytes, self.threads());
        out.line("extern __shared__ unsigned char room_[];");
        let down = ALIGN - 1;
        out.line(&format!(
            "const tiles::u32 base_ = (tiles::u32(__cvta_generic_to_shared(room_)) + {down}) & ~{down}u;"
        ));
        out.line("const int warpgroup_ = int(threadIdx.x >> 7);");
        let parts = self.dedicated_loads.clone();
        if once > 0 {
            parts
                .iter()
                .filter_map(TileLoad::dedicated)
                .for_each(|(load, at)| out.line(&load.copy_vectors(&at, threads)));
            out.line("tiles::commit();");
        }
        if stages > 0 {
            out.line(&format!("tiles::Ring<{stages}, {bytes}> ring_(base_ + {once});"));
            self.emit_prefetch_function(ops, out);
            if stages > 1 {
                out.line("#pragma unroll 1");
                out.line(&format!("for (int k_ = 1; k_ < {stages}; k_++) ahead_();"));
            }
        }
        if once > 0 {
            out.line(&format!("tiles::copied<{}>();", stages.saturating_sub(1)));
            let rounding = |(load, at): (&TileLoad, String)| load.rounding(&at, threads);
            parts.iter().filter_map(TileLoad::dedicated).filter_map(rounding).for_each(|line| out.line(&line));
            out.line("__syncthreads();");
        }
        self.emit_compute_warpgroups(ops, out);
    }

    /// Writes the prefetch function: each call copies the windows of the next product.
    fn emit_prefetch_function(&mut self, ops: &[TileStepOp], out: &mut IndentedText<'_>) {
        let (mut prefetch, mut body) = (TileCopyLoop::default(), String::new());
        self.emit_prefetch_copies(ops, &mut prefetch, &mut IndentedText { text: &mut body, level: out.level + 2 });
        out.line("// What is copied next.");
        out.line("int next_ = 0;");
        prefetch.variables.iter().for_each(|name| out.line(&format!("tiles::u32 {name} = 0;")));
        let counters = self.counters.clone();
        (0..counters.len()).for_each(|k| out.line(&format!("int ahead{k}_ = 0;")));
        out.open("const auto copy_ = [&](const tiles::u32 to_) __attribute__((always_inline)) {");
        out.open("switch (next_) {");
        out.line("case 0:");
        out.text.push_str(&body);
        out.line("next_ = -1;");
        out.close();
        out.level -= 1;
        out.line("};");
        out.open("const auto ahead_ = [&]() __attribute__((always_inline)) {");
        let exchange = |out: &mut IndentedText<'_>| {
            counters.iter().enumerate().for_each(|(k, name)| out.line(&format!("tiles::exchange({name}, ahead{k}_);")));
        };
        exchange(out);
        out.line("copy_(ring_.fill());");
        exchange(out);
        out.line("tiles::commit();");
        out.level -= 1;
        out.line("};");
    }

    fn emit_prefetch_copies(&mut self, ops: &[TileStepOp], prefetch: &mut TileCopyLoop, out: &mut IndentedText<'_>) {
        for op in ops.iter().filter(|op| op.loads() > 0) {
            match op {
                TileStepOp::Product { a, b, .. } => {
                    let threads = self.threads();
                    for (load, at) in stage_offsets(a, b) {
                        out.line(&load.copy_vectors(&format!("to_ + {at}"), threads));
                    }
                    prefetch.resume_points += 1;
                    out.line(&format!("next_ = {};", prefetch.resume_points));
                    out.line("return;");
                    out.line(&format!("case {}:;", prefetch.resume_points));
                }
                TileStepOp::If { function, then, other } => {
                    self.emit_branches(function, out, |this, first, out| {
                        this.emit_prefetch_copies(if first { then } else { other }, prefetch, out);
                    });
                }
                TileStepOp::Repeat { counter, bounds, step, body } => {
                    let (counter, left) = self.loop_variables(*counter);
                    self.emit_loop_start(&counter, &left, bounds, *step, out);
                    prefetch.variables.push(left.clone());
                    out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                    self.emit_prefetch_copies(body, prefetch, out);
                    out.close();
                }
                _ => {}
            }
        }
    }

    /// Writes a synchronous product: it is complete when the statement ends.
    pub(super) fn product(
        &mut self,
        sum: usize,
        terms: u32,
        fresh: bool,
        a: &MmaOperand,
        b: &TileLoad,
        out: &mut IndentedText<'_>,
    ) {
        let (parts, stage, threads) = (stage_offsets(a, b), format!("stage{}_", self.stages_taken), self.threads());
        if !parts.is_empty() {
            self.stages_taken += 1;
            let roundings = parts.iter().filter_map(|(load, at)| load.rounding(&format!("at_ + {at}"), threads));
            let roundings = roundings.collect::<Vec<_>>().join(" ");
            out.line(&format!("const tiles::u32 {stage} = ring_.take(ahead_, [&](tiles::u32 at_) {{ {roundings} }});"));
        }
        let mut parts = parts.iter();
        let [left, right] = self.factors(a, b, |load| match load.place {
            LoadPlacement::Dedicated(at) => format!("base_ + {at}"),
            LoadPlacement::Ring => format!("{stage} + {}", parts.next().map_or(0, |(_, at)| *at)),
        });
        let (kind, sums) = (kind(b.scalar), &self.held[sum].name);
        out.line(&format!("tiles::multiply<{terms}>(tiles::{kind}{{}}, {sums}, {left}, {right}, {fresh});"));
    }
}
