//! Emits steps with the instructions of sm_90a: TMA copies and asynchronous products, with warp specialization as in
//! CUTLASS.
//!
//! Input: a tile program. Output: code in which the first warpgroup copies and transposes windows, and the other
//! warpgroups compute. The code waits for a product before the first step that accesses its operands or its result. If
//! a loop begins and ends with products, and the first product does not depend on the last one, iterations overlap: the
//! steps between the products run while the last product of the previous iteration is in progress.

use super::*;

/// Limit of shared memory per block in bytes.
const SHARED_LIMIT: u32 = 227 * 1024;
const MOST_STAGES: u32 = 8;

/// A loop whose iterations overlap: software pipelining of its two products.
struct PipelinedLoop<'a> {
    first: &'a TileStepOp,
    /// The steps between the two products. `steps` do not depend on the last product of the previous iteration; `rest`
    /// must wait for it.
    steps: Vec<&'a TileStepOp>,
    rest: Vec<&'a TileStepOp>,
    last: &'a TileStepOp,
}

impl<'a> PipelinedLoop<'a> {
    fn of(body: &'a [TileStepOp]) -> Option<PipelinedLoop<'a>> {
        let [first @ TileStepOp::Product { .. }, between @ .., last @ TileStepOp::Product { .. }] = body else {
            return None;
        };
        let simple = between.iter().all(|op| matches!(op, TileStepOp::Each { .. } | TileStepOp::Fold { .. }));
        if !simple || first.depends_on(last) {
            return None;
        }
        // The steps of an iteration must not write the first operand of the first product.
        if let TileStepOp::Product { a: MmaOperand::Held(tile), .. } = first
            && between.iter().any(|op| op.accessed_tiles().1.contains(tile))
        {
            return None;
        }
        let (mut steps, mut rest): (Vec<&TileStepOp>, Vec<&TileStepOp>) = (vec![], vec![]);
        for op in between {
            let waits = op.depends_on(last) || rest.iter().any(|earlier| op.depends_on(earlier));
            if waits { rest.push(op) } else { steps.push(op) }
        }
        Some(PipelinedLoop { first, steps, rest, last })
    }
}

/// The task of a warp in the first warpgroup.
#[derive(Clone, Copy)]
enum ProducerRole {
    Copy,
    /// Waits for copies, and transposes windows in shared memory.
    Transpose,
}

impl TileLoad {
    fn copy(&self, to: &str, barrier: &str) -> String {
        let TileLoad { from: LoadSource::Map(map), boxes, length, at, is_transposed, scalar, .. } = self else {
            return String::new();
        };
        let at: Vec<String> = at.iter().rev().map(|function| format!("{function}(0, 0)")).collect();
        let (at, width) = (at.join(", "), 128 / scalar.size());
        match is_transposed {
            true => format!("tiles::copy_across<{boxes}, {length}>({to}, map{map}_, {barrier}, {at});"),
            false => format!("tiles::copy<{boxes}, {length}, {width}>({to}, map{map}_, {barrier}, {at});"),
        }
    }

    /// Returns the code that transposes the window after the copy.
    fn transpose(&self, at: &str) -> String {
        let TileLoad { boxes, length, is_transposed, .. } = self;
        if *is_transposed { format!("tiles::turn<{boxes}, {length}>({at});") } else { String::new() }
    }
}

impl TileStepContext {
    /// Returns the size of dynamic shared memory in bytes: alignment, dedicated windows, stages, and barriers.
    pub(super) fn shared_of_tma(&self) -> u32 {
        1024 + self.dedicated_bytes() + self.stages * (self.stage_bytes + 24) + 16
    }

    pub(super) fn lay_out_tma(&mut self, ops: &[TileStepOp]) -> Option<()> {
        self.stage_bytes = ops.iter().map(|op| op.staged_bytes()[0]).max().unwrap_or(0);
        if self.stage_bytes > 0 {
            let stage_room = SHARED_LIMIT.checked_sub(1024 + self.dedicated_bytes() + 16)?;
            let stages = (stage_room / (self.stage_bytes + 24)).min(MOST_STAGES);
            // The minimum number of stages: two products in progress need this many.
            let least = 2 * ops.iter().map(TileStepOp::loads).max().unwrap_or(0);
            self.stages = Some(stages).filter(|&stages| stages >= least)?;
        }
        Some(())
    }

    /// Returns the definitions of the instructions for the products.
    pub(super) fn wgmma_instructions(&self, ops: &[TileStepOp]) -> String {
        let mut kinds = vec![];
        self.kinds(ops.iter(), &mut kinds);
        kinds.sort_unstable();
        kinds.dedup();
        kinds.iter().map(|&(columns, kind)| instruction(columns, kind)).collect()
    }

    fn kinds<'a>(&self, ops: impl Iterator<Item = &'a TileStepOp>, found: &mut Vec<(u32, &'static str)>) {
        for op in ops {
            if let TileStepOp::Product { sum, b, .. } = op {
                found.push((self.held[*sum].columns.unwrap_or(0), kind(b.scalar)));
            }
            self.kinds(Box::new(op.nested()) as Box<dyn Iterator<Item = &TileStepOp>>, found);
        }
    }

    /// Writes the body of the kernel, after the lambdas.
    pub(super) fn write_tma(&mut self, ops: &[TileStepOp], out: &mut IndentedText<'_>) {
        let (once, stages, bytes) = (self.dedicated_bytes(), self.stages, self.stage_bytes);
        out.line("extern __shared__ unsigned char room_[];");
        out.line("const tiles::u32 base_ = (tiles::u32(__cvta_generic_to_shared(room_)) + 1023) & ~1023u;");
        out.line(&format!("const tiles::u32 barriers_ = base_ + {};", once + stages * bytes));
        out.line(&format!("const tiles::u32 ready_ = barriers_ + {};", 24 * stages));
        if stages > 0 {
            let turns = self.has_transposes;
            out.line(&format!("tiles::Ring<{stages}, {bytes}, {turns}> ring_(base_ + {once}, barriers_);"));
        }
        out.open("if (threadIdx.x == 0) {");
        if stages > 0 {
            out.line(&format!("ring_.create({});", self.warpgroups));
        }
        out.line("tiles::create(ready_, 1);");
        if self.has_transposes {
            out.line("tiles::create(ready_ + 8, tiles::TURNERS);");
        }
        out.line("tiles::created();");
        out.close();
        out.line("__syncthreads();");
        out.line("const int warpgroup_ = int(threadIdx.x >> 7) - 1;");
        // Distribute the registers of a block: copying warpgroups need fewer than computing ones.
        let registers = match (self.warpgroups, self.has_transposes) {
            (2, false) => Some((24, 240)),
            (2, true) => Some((88, 208)),
            (3, false) => Some((32, 160)),
            (3, true) => Some((88, 136)),
            _ => None,
        };
        out.open("if (warpgroup_ < 0) {");
        if let Some((few, _)) = registers {
            out.line(&format!("asm volatile(\"setmaxnreg.dec.sync.aligned.u32 {few};\");"));
        }
        if self.has_transposes {
            out.open("if (threadIdx.x >= 32) {");
            if once > 0 {
                out.line("tiles::wait(ready_, 0);");
            }
            self.dedicated_loads
                .iter()
                .filter_map(TileLoad::dedicated)
                .for_each(|(load, at)| out.line(&load.transpose(&at)));
            out.line("tiles::turned(ready_ + 8);");
            self.copies(ops, ProducerRole::Transpose, out);
            out.line("return;");
            out.close();
        }
        out.line("if (threadIdx.x != 0) return;");
        if once > 0 {
            out.line(&format!("tiles::arrive_and_expect(ready_, {once});"));
        }
        self.dedicated_loads
            .iter()
            .filter_map(TileLoad::dedicated)
            .for_each(|(load, at)| out.line(&load.copy(&at, "ready_")));
        self.copies(ops, ProducerRole::Copy, out);
        out.line("return;");
        out.close();
        if let Some((_, many)) = registers {
            out.line(&format!("asm volatile(\"setmaxnreg.inc.sync.aligned.u32 {many};\");"));
        }
        if once > 0 {
            out.line("tiles::wait(ready_, 0);");
            if self.has_transposes {
                out.line("tiles::wait(ready_ + 8, 0);");
            }
        }
        self.emit_compute_warpgroups(ops, out);
    }

    // Code of the copying warpgroup

    fn copies(&mut self, ops: &[TileStepOp], what: ProducerRole, out: &mut IndentedText<'_>) {
        for op in ops {
            match op {
                TileStepOp::Product { a, b, .. } => {
                    for load in staged(a, b) {
                        let (copy, turn, bytes) = (load.copy("to_", "full_"), load.transpose("at_"), load.bytes());
                        out.line(&match what {
                            ProducerRole::Copy => {
                                format!("ring_.fill({bytes}, [&](tiles::u32 to_, tiles::u32 full_) {{ {copy} }});")
                            }
                            ProducerRole::Transpose => format!("ring_.turn([&](tiles::u32 at_) {{ {turn} }});"),
                        });
                    }
                }
                TileStepOp::If { function, then, other } if op.loads() > 0 => {
                    self.emit_branches(function, out, |this, first, out| {
                        this.copies(if first { then } else { other }, what, out)
                    });
                }
                TileStepOp::Repeat { counter, bounds, step, body } if op.loads() > 0 => {
                    let (counter, left) = self.begin_loop(*counter, bounds, *step, out);
                    match PipelinedLoop::of(body) {
                        Some(rotated) => {
                            out.open(&format!("if ({left} != 0) {{"));
                            self.copies(std::slice::from_ref(rotated.first), what, out);
                            out.open(&format!("while (--{left} != 0) {{"));
                            out.line(&format!("{counter} += {step};"));
                            self.copies(std::slice::from_ref(rotated.first), what, out);
                            out.line(&format!("{counter} -= {step};"));
                            self.copies(std::slice::from_ref(rotated.last), what, out);
                            out.line(&format!("{counter} += {step};"));
                            out.close();
                            self.copies(std::slice::from_ref(rotated.last), what, out);
                            out.close();
                        }
                        None => {
                            out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                            self.copies(body, what, out);
                            out.close();
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Writes a loop with overlapping products if that is possible. Returns whether it was written.
    pub(super) fn emit_overlapped_loop(
        &mut self,
        body: &[TileStepOp],
        next: &str,
        left: &str,
        out: &mut IndentedText<'_>,
    ) -> bool {
        match (PipelinedLoop::of(body), body) {
            (Some(rotated), _) => self.emit_pipelined_loop(&rotated, next, left, out),
            (None, [op @ TileStepOp::Product { a: MmaOperand::Load(_), .. }]) => {
                self.emit_product_loop(op, next, left, out)
            }
            _ => return false,
        }
        true
    }

    /// Writes a loop whose body is one product. An iteration begins its product before it waits for the product of the
    /// previous iteration.
    fn emit_product_loop(&mut self, op: &TileStepOp, next: &str, left: &str, out: &mut IndentedText<'_>) {
        let TileStepOp::Product { sum, .. } = op else { return };
        let (number, flag) = (self.stages_taken, format!("again_{left}"));
        let stages: Vec<usize> = (number..number + stage_count(op)).collect();
        let fence = format!("tiles::fence({});", self.held[*sum].name);
        out.line(&fence);
        out.line(&format!("bool {flag} = false;"));
        stages.iter().for_each(|k| out.line(&format!("tiles::Stage last{k}_ = {{}};")));
        out.open(&format!("for (; {left} != 0; {left}--) {{"));
        self.pending_products.push(PendingProduct { sum: *sum, factor: None, stages: vec![] });
        self.step(op, out);
        self.pending_products.clear();
        out.line("tiles::wait_products<1>();");
        for k in &stages {
            out.line(&format!("if ({flag}) tiles::release(last{k}_);"));
            out.line(&format!("last{k}_ = stage{k}_;"));
        }
        out.line(&format!("{flag} = true;"));
        out.line(next);
        out.close();
        out.line("tiles::wait_products<0>();");
        out.line(&fence);
        stages.iter().for_each(|k| out.line(&format!("if ({flag}) tiles::release(last{k}_);")));
    }

    fn emit_pipelined_loop(&mut self, loop_: &PipelinedLoop<'_>, next: &str, left: &str, out: &mut IndentedText<'_>) {
        let PipelinedLoop { first, steps, rest, last } = loop_;
        out.open(&format!("if ({left} != 0) {{"));
        self.step(first, out);
        self.wait_for_products(0, out);
        self.steps(steps.iter().copied(), out);
        let flag = format!("again_{left}");
        out.line(&format!("bool {flag} = false;"));
        let number = self.stages_taken;
        // Writes code for the last product of the previous iteration, if there was one.
        let before = |this: &mut Self, out: &mut IndentedText<'_>| {
            let TileStepOp::Product { sum, a, b, .. } = last else { return };
            let first_stage = number + stage_count(first);
            out.line("tiles::wait_products<0>();");
            out.line(&format!("tiles::fence({});", this.held[*sum].name));
            if let MmaOperand::Held(tile) = a {
                out.line(&format!("tiles::fence({});", this.held[*tile].name));
            }
            for k in 0..staged(a, b).len() {
                out.line(&format!("if ({flag}) tiles::release(stage{}_);", first_stage + k));
            }
        };
        for k in 0..stage_count(last) {
            out.line(&format!("tiles::Stage stage{}_ = {{}};", number + stage_count(first) + k));
        }
        out.open(&format!("while (--{left} != 0) {{"));
        before(self, out);
        self.steps(rest.iter().copied(), out);
        self.step(first, out);
        self.reissue_product(last, out);
        out.line(&format!("{flag} = true;"));
        out.line(next);
        self.wait_for_products(1, out);
        self.pending_products.clear();
        self.steps(steps.iter().copied(), out);
        out.close();
        before(self, out);
        self.steps(rest.iter().copied(), out);
        self.step(last, out);
        self.wait_for_products(0, out);
        out.close();
    }

    /// Writes the beginning of a product whose stage variables have already been declared.
    fn reissue_product(&mut self, op: &TileStepOp, out: &mut IndentedText<'_>) {
        let mut text = String::new();
        self.step(op, &mut IndentedText { text: &mut text, level: out.level });
        out.text.push_str(&text.replace("const tiles::Stage ", ""));
    }

    pub(super) fn begin_product(
        &mut self,
        sum: usize,
        terms: u32,
        fresh: bool,
        a: &MmaOperand,
        b: &TileLoad,
        out: &mut IndentedText<'_>,
    ) {
        let factor = if let MmaOperand::Held(tile) = a { Some(*tile) } else { None };
        let (mut stages_taken, mut stages) = (self.stages_taken, vec![]);
        let [left, right] = self.factors(a, b, |load| match load.place {
            LoadPlacement::Dedicated(at) => format!("base_ + {at}"),
            LoadPlacement::Ring => {
                let stage = format!("stage{stages_taken}_");
                stages_taken += 1;
                out.line(&format!("const tiles::Stage {stage} = ring_.take();"));
                stages.push(stage.clone());
                format!("{stage}.address")
            }
        });
        self.stages_taken = stages_taken;
        let sums = &self.held[sum].name;
        if self.pending_products.iter().all(|flight| flight.sum != sum) {
            out.line(&format!("tiles::fence({sums});"));
        }
        if factor.is_some() {
            out.line(&format!("tiles::fence({left});"));
        }
        out.line("tiles::begin();");
        let kind = kind(b.scalar);
        out.line(&format!("tiles::multiply<{terms}>(tiles::{kind}{{}}, {sums}, {left}, {right}, {fresh});"));
        out.line("tiles::commit();");
        self.pending_products.push(PendingProduct { sum, factor, stages });
    }

    /// Writes a wait for the products on which a step depends. No wait is necessary between products that add to the
    /// same accumulator, because they execute in order.
    pub(super) fn wait_for_dependencies(&mut self, op: &TileStepOp, out: &mut IndentedText<'_>) {
        let (reads, writes) = op.accessed_tiles();
        let is_product = matches!(op, TileStepOp::Product { .. });
        let meets = |flight: &PendingProduct| {
            let in_order = is_product && writes.contains(&flight.sum);
            let sums = !in_order && (reads.contains(&flight.sum) || writes.contains(&flight.sum));
            sums || flight.factor.is_some_and(|tile| writes.contains(&tile))
        };
        if let Some(at) = self.pending_products.iter().rposition(meets) {
            let left = self.pending_products.len() - 1 - at;
            self.wait_for_products(left, out);
        }
    }

    /// Writes a wait until at most `left` products are in progress.
    pub(super) fn wait_for_products(&mut self, left: usize, out: &mut IndentedText<'_>) {
        if self.pending_products.len() <= left {
            return;
        }
        out.line(&format!("tiles::wait_products<{left}>();"));
        let done = self.pending_products.len() - left;
        for PendingProduct { sum, factor, stages } in self.pending_products.drain(..done) {
            for tile in [Some(sum), factor].into_iter().flatten() {
                out.line(&format!("tiles::fence({});", self.held[tile].name));
            }
            stages.iter().for_each(|stage| out.line(&format!("tiles::release({stage});")));
        }
    }
}

/// Returns the number of stages that a product reads.
fn stage_count(op: &TileStepOp) -> usize {
    op.loads() as usize
}

/// Returns C++ definitions of the instructions that multiply 64 rows by `columns` columns: one with the first operand
/// in shared memory, and one with it in registers.
fn instruction(columns: u32, kind: &str) -> String {
    let n = columns / 2;
    let list = |f: &dyn Fn(u32) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
    let (sums, outs) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(sums[{i}])")));
    let low = kind.to_lowercase();
    // Instructions for 16-bit operands have flags for operands that are not contiguous along the summed axis.
    let turns = kind != "Tf32";
    let terms = if turns { 16 } else { 8 };
    let op = format!("wgmma.mma_async.sync.aligned.m64n{columns}k{terms}.f32.{low}.{low} {{{sums}}}, ");
    let head = format!("__device__ __forceinline__ void instruction({kind}, float (&sums)[{n}], ");
    let fresh = |at: u32| format!("    asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{at}, 0;\\n\"\n");
    let (both, one) = match turns {
        true => (format!(", %{}, %{}", n + 3, n + 4), format!(", %{}", n + 6)),
        false => Default::default(),
    };
    let (both_given, one_given) =
        if turns { (", \"n\"(!ALONG_A), \"n\"(!ALONG_B)", ", \"n\"(!ALONG_B)") } else { ("", "") };
    let mut text =
        format!("template <bool ALONG_A, bool ALONG_B>\n{head}u64 a, u64 b, bool fresh) {{\n{}", fresh(n + 2));
    let _ = write!(
        text,
        "        \"{op}%{n}, %{}, p, 1, 1{both};\\n}}\"\n        : {outs}\n        \
         : \"l\"(a), \"l\"(b), \"r\"(int(!fresh)){both_given});\n}}\n",
        n + 1,
    );
    let _ = write!(
        text,
        "template <bool ALONG_B>\n{head}u32 a0, u32 a1, u32 a2, u32 a3, u64 b, bool fresh) {{\n{}\
         \x20       \"{op}{{%{n}, %{}, %{}, %{}}}, %{}, p, 1, 1{one};\\n}}\"\n        : {outs}\n        \
         : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"l\"(b), \"r\"(int(!fresh)){one_given});\n}}\n",
        fresh(n + 5),
        n + 1,
        n + 2,
        n + 3,
        n + 4,
    );
    text
}
