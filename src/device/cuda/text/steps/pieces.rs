//! Steps with the instructions of all GPUs from sm_80 on: copies of pieces of 16 bytes, and products at once.
//!
//! In: a program. Out: how the threads of a block, which all compute, copy besides: a stage has the parts of one product, and what is copied next, some
//! products ahead, is known to a function that goes on from where it was, with counters of its own. All threads meet where a stage is taken:
//! then its parts are there, and nobody reads the stage before, which is filled again.

use super::*;

/// The bytes that places in shared memory are multiples of.
const ALIGN: u32 = 128;
/// Bytes of stages that hide how long copies take; at most so many stages, and at least, if there is room.
const AHEAD: u32 = 64 * 1024;
const MOST_STAGES: u32 = 6;
const STAGES: u32 = 3;
/// Bytes of shared memory that the system has in each block: one of them is not in what a block can have.
const RESERVED: u32 = 1024;

impl Load {
    /// Returns the pieces in a row.
    fn pieces(&self) -> u32 {
        let From::Array { axes, .. } = &self.from else { return 0 };
        axes.last().map_or(0, |[columns, _]| columns * self.scalar.size() as u32 / 16)
    }

    fn copy_pieces(&self, to: &str, threads: u32) -> String {
        let From::Array { name, extents, axes } = &self.from else { return String::new() };
        let mut along = self.at.iter().zip(extents).zip(axes).rev();
        let first = along.next().map_or(String::new(), |((at, extent), _)| format!("{at}(0, 0), {extent}"));
        let others = along
            .map(|((at, extent), [count, step])| format!(", tiles::Along<{count}, {step}>{{{at}(0, 0), {extent}}}"));
        let others: String = others.collect();
        let (kind, pieces) = (kind(self.scalar), self.pieces());
        format!("tiles::copy<tiles::{kind}, {threads}, {pieces}>({}, {name}, {first}{others});", self.part(to))
    }

    /// Returns what is done with it behind the copy.
    fn finished(&self, at: &str, threads: u32) -> Option<String> {
        let round = || format!("tiles::round_own<{threads}, {}>({});", self.pieces(), self.part(at));
        (self.scalar == Scalar::F32).then(round)
    }
}

/// What is written of the function that copies ahead.
#[derive(Default)]
struct Ahead {
    /// The variables that it keeps.
    kept: Vec<String>,
    /// The places at which it stopped.
    stops: usize,
}

/// Returns the parts of a product that share a stage, and where they are in it.
fn in_stage<'a>(a: &'a Factor, b: &'a Load) -> Vec<(&'a Load, u32)> {
    let mut at = 0;
    let mut place = |load: &'a Load| {
        at += load.bytes();
        (load, at - load.bytes())
    };
    staged(a, b).into_iter().map(&mut place).collect()
}

impl Program {
    /// Returns the bytes of dynamic shared memory: alignment, parts, stages.
    pub(super) fn shared_of_pieces(&self) -> u32 {
        ALIGN + self.once_bytes() + self.stages * self.stage_bytes
    }

    pub(super) fn lay_out_pieces(&mut self, ops: &[Op], room: u32) -> Option<()> {
        self.stage_bytes = ops.iter().map(|op| op.staged_bytes()[1]).max().unwrap_or(0);
        let besides = ALIGN + self.once_bytes();
        let most = |room: u32| room.checked_sub(besides)?.checked_div(self.stage_bytes);
        if self.stage_bytes == 0 {
            return (besides <= room).then_some(());
        }
        let wanted = (AHEAD / self.stage_bytes).clamp(STAGES, MOST_STAGES);
        // Two blocks of four warps compute beside each other, if they have two stages each.
        let beside = (self.warpgroups == 1).then(|| most((room + RESERVED) / 2 - RESERVED)).flatten();
        let most = beside.filter(|&stages| stages > 1).or_else(|| most(room))?;
        self.stages = Some(most.min(wanted)).filter(|&stages| stages > 0)?;
        Some(())
    }

    pub(super) fn write_pieces(&mut self, ops: &[Op], out: &mut Out<'_>) {
        let (once, stages, bytes, threads) = (self.once_bytes(), self.stages, self.stage_bytes, self.threads());
        out.line("extern __shared__ unsigned char room_[];");
        let down = ALIGN - 1;
        out.line(&format!(
            "const tiles::u32 base_ = (tiles::u32(__cvta_generic_to_shared(room_)) + {down}) & ~{down}u;"
        ));
        out.line("const int warpgroup_ = int(threadIdx.x >> 7);");
        let parts = self.once.clone();
        if once > 0 {
            parts.iter().filter_map(Load::once).for_each(|(load, at)| out.line(&load.copy_pieces(&at, threads)));
            out.line("tiles::commit();");
        }
        if stages > 0 {
            out.line(&format!("tiles::Ring<{stages}, {bytes}> ring_(base_ + {once});"));
            self.ahead(ops, out);
            if stages > 1 {
                out.line("#pragma unroll 1");
                out.line(&format!("for (int k_ = 1; k_ < {stages}; k_++) ahead_();"));
            }
        }
        if once > 0 {
            out.line(&format!("tiles::copied<{}>();", stages.saturating_sub(1)));
            let finished = |(load, at): (&Load, String)| load.finished(&at, threads);
            parts.iter().filter_map(Load::once).filter_map(finished).for_each(|line| out.line(&line));
            out.line("__syncthreads();");
        }
        self.computing(ops, out);
    }

    /// Writes the function that copies the parts of the next product.
    fn ahead(&mut self, ops: &[Op], out: &mut Out<'_>) {
        let (mut ahead, mut body) = (Ahead::default(), String::new());
        self.copies_ahead(ops, &mut ahead, &mut Out { text: &mut body, level: out.level + 2 });
        out.line("// What is copied next.");
        out.line("int next_ = 0;");
        ahead.kept.iter().for_each(|name| out.line(&format!("tiles::u32 {name} = 0;")));
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
        let exchange = |out: &mut Out<'_>| {
            counters.iter().enumerate().for_each(|(k, name)| out.line(&format!("tiles::exchange({name}, ahead{k}_);")));
        };
        exchange(out);
        out.line("copy_(ring_.fill());");
        exchange(out);
        out.line("tiles::commit();");
        out.level -= 1;
        out.line("};");
    }

    fn copies_ahead(&mut self, ops: &[Op], ahead: &mut Ahead, out: &mut Out<'_>) {
        for op in ops.iter().filter(|op| op.loads() > 0) {
            match op {
                Op::Product { a, b, .. } => {
                    let threads = self.threads();
                    for (load, at) in in_stage(a, b) {
                        out.line(&load.copy_pieces(&format!("to_ + {at}"), threads));
                    }
                    ahead.stops += 1;
                    out.line(&format!("next_ = {};", ahead.stops));
                    out.line("return;");
                    out.line(&format!("case {}:;", ahead.stops));
                }
                Op::If { function, then, other } => {
                    self.either(function, out, |this, first, out| {
                        this.copies_ahead(if first { then } else { other }, ahead, out);
                    });
                }
                Op::Repeat { counter, bounds, step, body } => {
                    let (counter, left) = self.counts(*counter);
                    self.count(&counter, &left, bounds, *step, out);
                    ahead.kept.push(left.clone());
                    out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                    self.copies_ahead(body, ahead, out);
                    out.close();
                }
                _ => {}
            }
        }
    }

    /// Writes a product; all its threads are done with it where it ends.
    pub(super) fn product(&mut self, (sum, terms, fresh): (usize, u32, bool), a: &Factor, b: &Load, out: &mut Out<'_>) {
        let (parts, stage, threads) = (in_stage(a, b), format!("stage{}_", self.taken), self.threads());
        if !parts.is_empty() {
            self.taken += 1;
            let finished = parts.iter().filter_map(|(load, at)| load.finished(&format!("at_ + {at}"), threads));
            let finished = finished.collect::<Vec<_>>().join(" ");
            out.line(&format!("const tiles::u32 {stage} = ring_.take(ahead_, [&](tiles::u32 at_) {{ {finished} }});"));
        }
        let mut parts = parts.iter();
        let [left, right] = self.factors(a, b, |load| match load.place {
            Where::Once(at) => format!("base_ + {at}"),
            Where::Ring => format!("{stage} + {}", parts.next().map_or(0, |(_, at)| *at)),
        });
        let (kind, sums) = (kind(b.scalar), &self.held[sum].name);
        out.line(&format!("tiles::multiply<{terms}>(tiles::{kind}{{}}, {sums}, {left}, {right}, {fresh});"));
    }
}
