//! Steps with the instructions of sm_90a: copies of boxes, and products that run behind the threads.
//!
//! In: a program. Out: how its warpgroups share it out: the first one copies, by the tensor memory accelerator, and turns what has to be. A product is
//! waited for at the first step that touches what it reads or writes. A loop that begins and ends with a product runs them together: the first one of a
//! turn does not depend on the last one of the turn before, and so the steps between overlap with the latter.

use super::*;

/// Bytes of shared memory that a block can have.
const ROOM: u32 = 227 * 1024;
const MOST_STAGES: u32 = 8;

/// A loop whose products run together.
struct Rotated<'a> {
    first: &'a Op,
    /// What is done between the two, and what of it has to be done when the last product of the turn before is done.
    steps: Vec<&'a Op>,
    rest: Vec<&'a Op>,
    last: &'a Op,
}

impl<'a> Rotated<'a> {
    fn of(body: &'a [Op]) -> Option<Rotated<'a>> {
        let [first @ Op::Product { .. }, between @ .., last @ Op::Product { .. }] = body else { return None };
        let simple = between.iter().all(|op| matches!(op, Op::Each { .. } | Op::Fold { .. }));
        if !simple || first.depends(last) {
            return None;
        }
        // The first factor of the first product is not computed in the turn itself.
        if let Op::Product { a: Factor::Held(tile), .. } = first
            && between.iter().any(|op| op.touches().1.contains(tile))
        {
            return None;
        }
        let (mut steps, mut rest): (Vec<&Op>, Vec<&Op>) = (vec![], vec![]);
        for op in between {
            let waits = op.depends(last) || rest.iter().any(|earlier| op.depends(earlier));
            if waits { rest.push(op) } else { steps.push(op) }
        }
        Some(Rotated { first, steps, rest, last })
    }
}

/// What a warp of the first warpgroup does.
#[derive(Clone, Copy)]
enum Copying {
    Boxes,
    /// It waits for copies, and turns those that are to be.
    Turns,
}

impl Load {
    fn copy(&self, to: &str, barrier: &str) -> String {
        let Load { from: From::Map(map), boxes, length, at, is_turned, scalar, .. } = self else {
            return String::new();
        };
        let at: Vec<String> = at.iter().rev().map(|function| format!("{function}(0, 0)")).collect();
        let (at, width) = (at.join(", "), 128 / scalar.size());
        match is_turned {
            true => format!("tiles::copy_across<{boxes}, {length}>({to}, map{map}_, {barrier}, {at});"),
            false => format!("tiles::copy<{boxes}, {length}, {width}>({to}, map{map}_, {barrier}, {at});"),
        }
    }

    /// Returns what is done with it behind the copy.
    fn turn(&self, at: &str) -> String {
        let Load { boxes, length, is_turned, .. } = self;
        if *is_turned { format!("tiles::turn<{boxes}, {length}>({at});") } else { String::new() }
    }
}

impl Program {
    /// Returns the bytes of dynamic shared memory: alignment, parts, stages, barriers.
    pub(super) fn shared_of_boxes(&self) -> u32 {
        1024 + self.once_bytes() + self.stages * (self.stage_bytes + 24) + 16
    }

    pub(super) fn lay_out_boxes(&mut self, ops: &[Op]) -> Option<()> {
        self.stage_bytes = ops.iter().map(|op| op.staged_bytes()[0]).max().unwrap_or(0);
        if self.stage_bytes > 0 {
            let room = ROOM.checked_sub(1024 + self.once_bytes() + 16)?;
            let stages = (room / (self.stage_bytes + 24)).min(MOST_STAGES);
            // As many as two products take that are under way.
            let least = 2 * ops.iter().map(Op::loads).max().unwrap_or(0);
            self.stages = Some(stages).filter(|&stages| stages >= least)?;
        }
        Some(())
    }

    /// Returns the definitions of the instructions for the products.
    pub(super) fn instructions_behind(&self, ops: &[Op]) -> String {
        let mut kinds = vec![];
        self.kinds(ops.iter(), &mut kinds);
        kinds.sort_unstable();
        kinds.dedup();
        kinds.iter().map(|&(columns, kind)| instruction(columns, kind)).collect()
    }

    fn kinds<'a>(&self, ops: impl Iterator<Item = &'a Op>, found: &mut Vec<(u32, &'static str)>) {
        for op in ops {
            if let Op::Product { sum, b, .. } = op {
                found.push((self.held[*sum].columns.unwrap_or(0), kind(b.scalar)));
            }
            self.kinds(Box::new(op.inner()) as Box<dyn Iterator<Item = &Op>>, found);
        }
    }

    /// Writes the body of the text's function, behind the lambdas.
    pub(super) fn write_boxes(&mut self, ops: &[Op], out: &mut Out<'_>) {
        let (once, stages, bytes) = (self.once_bytes(), self.stages, self.stage_bytes);
        out.line("extern __shared__ unsigned char room_[];");
        out.line("const tiles::u32 base_ = (tiles::u32(__cvta_generic_to_shared(room_)) + 1023) & ~1023u;");
        out.line(&format!("const tiles::u32 barriers_ = base_ + {};", once + stages * bytes));
        out.line(&format!("const tiles::u32 ready_ = barriers_ + {};", 24 * stages));
        if stages > 0 {
            let turns = self.turns;
            out.line(&format!("tiles::Ring<{stages}, {bytes}, {turns}> ring_(base_ + {once}, barriers_);"));
        }
        out.open("if (threadIdx.x == 0) {");
        if stages > 0 {
            out.line(&format!("ring_.create({});", self.warpgroups));
        }
        out.line("tiles::create(ready_, 1);");
        if self.turns {
            out.line("tiles::create(ready_ + 8, tiles::TURNERS);");
        }
        out.line("tiles::created();");
        out.close();
        out.line("__syncthreads();");
        out.line("const int warpgroup_ = int(threadIdx.x >> 7) - 1;");
        // What the registers of a block amount to, shared out by who needs them.
        let registers = match (self.warpgroups, self.turns) {
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
        if self.turns {
            out.open("if (threadIdx.x >= 32) {");
            if once > 0 {
                out.line("tiles::wait(ready_, 0);");
            }
            self.once.iter().filter_map(Load::once).for_each(|(load, at)| out.line(&load.turn(&at)));
            out.line("tiles::turned(ready_ + 8);");
            self.copies(ops, Copying::Turns, out);
            out.line("return;");
            out.close();
        }
        out.line("if (threadIdx.x != 0) return;");
        if once > 0 {
            out.line(&format!("tiles::arrive_and_expect(ready_, {once});"));
        }
        self.once.iter().filter_map(Load::once).for_each(|(load, at)| out.line(&load.copy(&at, "ready_")));
        self.copies(ops, Copying::Boxes, out);
        out.line("return;");
        out.close();
        if let Some((_, many)) = registers {
            out.line(&format!("asm volatile(\"setmaxnreg.inc.sync.aligned.u32 {many};\");"));
        }
        if once > 0 {
            out.line("tiles::wait(ready_, 0);");
            if self.turns {
                out.line("tiles::wait(ready_ + 8, 0);");
            }
        }
        self.computing(ops, out);
    }

    // The warpgroup that copies

    fn copies(&mut self, ops: &[Op], what: Copying, out: &mut Out<'_>) {
        for op in ops {
            match op {
                Op::Product { a, b, .. } => {
                    for load in staged(a, b) {
                        let (copy, turn, bytes) = (load.copy("to_", "full_"), load.turn("at_"), load.bytes());
                        out.line(&match what {
                            Copying::Boxes => {
                                format!("ring_.fill({bytes}, [&](tiles::u32 to_, tiles::u32 full_) {{ {copy} }});")
                            }
                            Copying::Turns => format!("ring_.turn([&](tiles::u32 at_) {{ {turn} }});"),
                        });
                    }
                }
                Op::If { function, then, other } if op.loads() > 0 => {
                    self.either(function, out, |this, first, out| {
                        this.copies(if first { then } else { other }, what, out)
                    });
                }
                Op::Repeat { counter, bounds, step, body } if op.loads() > 0 => {
                    let (counter, left) = self.counted(*counter, bounds, *step, out);
                    match Rotated::of(body) {
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

    /// Writes a loop whose products overlap, if there is one that can.
    pub(super) fn overlapped(&mut self, body: &[Op], next: &str, left: &str, out: &mut Out<'_>) -> bool {
        match (Rotated::of(body), body) {
            (Some(rotated), _) => self.rotated(&rotated, next, left, out),
            (None, [op @ Op::Product { a: Factor::Load(_), .. }]) => self.chained(op, next, left, out),
            _ => return false,
        }
        true
    }

    /// Writes a loop over nothing but a product: a turn waits for the product of the turn before.
    fn chained(&mut self, op: &Op, next: &str, left: &str, out: &mut Out<'_>) {
        let Op::Product { sum, .. } = op else { return };
        let (number, again) = (self.taken, format!("again_{left}"));
        let stages: Vec<usize> = (number..number + staged_by(op)).collect();
        let fence = format!("tiles::fence({});", self.held[*sum].name);
        out.line(&fence);
        out.line(&format!("bool {again} = false;"));
        stages.iter().for_each(|k| out.line(&format!("tiles::Stage last{k}_ = {{}};")));
        out.open(&format!("for (; {left} != 0; {left}--) {{"));
        self.flights.push(Flight { sum: *sum, factor: None, stages: vec![] });
        self.step(op, out);
        self.flights.clear();
        out.line("tiles::wait_products<1>();");
        for k in &stages {
            out.line(&format!("if ({again}) tiles::release(last{k}_);"));
            out.line(&format!("last{k}_ = stage{k}_;"));
        }
        out.line(&format!("{again} = true;"));
        out.line(next);
        out.close();
        out.line("tiles::wait_products<0>();");
        out.line(&fence);
        stages.iter().for_each(|k| out.line(&format!("if ({again}) tiles::release(last{k}_);")));
    }

    fn rotated(&mut self, loop_: &Rotated<'_>, next: &str, left: &str, out: &mut Out<'_>) {
        let Rotated { first, steps, rest, last } = loop_;
        out.open(&format!("if ({left} != 0) {{"));
        self.step(first, out);
        self.settled(0, out);
        self.steps(steps.iter().copied(), out);
        let again = format!("again_{left}");
        out.line(&format!("bool {again} = false;"));
        let number = self.taken;
        // The product of the turn before, if there was one.
        let before = |this: &mut Self, out: &mut Out<'_>| {
            let Op::Product { sum, a, b, .. } = last else { return };
            let ahead = number + staged_by(first);
            out.line("tiles::wait_products<0>();");
            out.line(&format!("tiles::fence({});", this.held[*sum].name));
            if let Factor::Held(tile) = a {
                out.line(&format!("tiles::fence({});", this.held[*tile].name));
            }
            for k in 0..staged(a, b).len() {
                out.line(&format!("if ({again}) tiles::release(stage{}_);", ahead + k));
            }
        };
        for k in 0..staged_by(last) {
            out.line(&format!("tiles::Stage stage{}_ = {{}};", number + staged_by(first) + k));
        }
        out.open(&format!("while (--{left} != 0) {{"));
        before(self, out);
        self.steps(rest.iter().copied(), out);
        self.step(first, out);
        self.issued_again(last, out);
        out.line(&format!("{again} = true;"));
        out.line(next);
        self.settled(1, out);
        self.flights.clear();
        self.steps(steps.iter().copied(), out);
        out.close();
        before(self, out);
        self.steps(rest.iter().copied(), out);
        self.step(last, out);
        self.settled(0, out);
        out.close();
    }

    /// Begins a product whose stages are declared.
    fn issued_again(&mut self, op: &Op, out: &mut Out<'_>) {
        let mut text = String::new();
        self.step(op, &mut Out { text: &mut text, level: out.level });
        out.text.push_str(&text.replace("const tiles::Stage ", ""));
    }

    pub(super) fn begin_product(
        &mut self,
        (sum, terms, fresh): (usize, u32, bool),
        a: &Factor,
        b: &Load,
        out: &mut Out<'_>,
    ) {
        let factor = if let Factor::Held(tile) = a { Some(*tile) } else { None };
        let (mut taken, mut stages) = (self.taken, vec![]);
        let [left, right] = self.factors(a, b, |load| match load.place {
            Where::Once(at) => format!("base_ + {at}"),
            Where::Ring => {
                let stage = format!("stage{taken}_");
                taken += 1;
                out.line(&format!("const tiles::Stage {stage} = ring_.take();"));
                stages.push(stage.clone());
                format!("{stage}.address")
            }
        });
        self.taken = taken;
        let sums = &self.held[sum].name;
        if self.flights.iter().all(|flight| flight.sum != sum) {
            out.line(&format!("tiles::fence({sums});"));
        }
        if factor.is_some() {
            out.line(&format!("tiles::fence({left});"));
        }
        out.line("tiles::begin();");
        let kind = kind(b.scalar);
        out.line(&format!("tiles::multiply<{terms}>(tiles::{kind}{{}}, {sums}, {left}, {right}, {fresh});"));
        out.line("tiles::commit();");
        self.flights.push(Flight { sum, factor, stages });
    }

    /// Waits for the products that a step depends on. Products add to the same sums in order.
    pub(super) fn wait_for(&mut self, op: &Op, out: &mut Out<'_>) {
        let (reads, writes) = op.touches();
        let is_product = matches!(op, Op::Product { .. });
        let meets = |flight: &Flight| {
            let in_order = is_product && writes.contains(&flight.sum);
            let sums = !in_order && (reads.contains(&flight.sum) || writes.contains(&flight.sum));
            sums || flight.factor.is_some_and(|tile| writes.contains(&tile))
        };
        if let Some(at) = self.flights.iter().rposition(meets) {
            let left = self.flights.len() - 1 - at;
            self.settled(left, out);
        }
    }

    /// Waits until only so many products run.
    pub(super) fn settled(&mut self, left: usize, out: &mut Out<'_>) {
        if self.flights.len() <= left {
            return;
        }
        out.line(&format!("tiles::wait_products<{left}>();"));
        let done = self.flights.len() - left;
        for Flight { sum, factor, stages } in self.flights.drain(..done) {
            for tile in [Some(sum), factor].into_iter().flatten() {
                out.line(&format!("tiles::fence({});", self.held[tile].name));
            }
            stages.iter().for_each(|stage| out.line(&format!("tiles::release({stage});")));
        }
    }
}

/// Returns how many stages a product takes.
fn staged_by(op: &Op) -> usize {
    op.loads() as usize
}

/// Returns the instructions that multiply 64 rows and `columns` columns, with the first factor in shared memory and in registers.
fn instruction(columns: u32, kind: &str) -> String {
    let n = columns / 2;
    let list = |f: &dyn Fn(u32) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
    let (sums, outs) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(sums[{i}])")));
    let low = kind.to_lowercase();
    // Those of 16 bits may lie across the terms.
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
