//! The steps of programs of tiles, as the warpgroup that copies and those that compute run them.
//!
//! In: steps with the names of their lambdas. Out: C++ around them. Products run behind the threads: one is waited for at the first step that
//! touches what it reads or writes. A loop that begins and ends with a product runs them together: the first one of a turn does not
//! depend on the last one of the turn before, and so the steps between overlap with the latter.

use std::fmt::Write;

use super::abi::OfBox;
use super::names::sanitized;
use crate::ir::def::{Scalar, TileTarget, Tiles};

/// A tile in registers.
pub(super) struct Held {
    name: String,
    scalar: Scalar,
    columns: Option<u32>,
    is_factor: bool,
}

impl Held {
    /// Returns the words that a thread has of it.
    pub fn words(&self) -> u32 {
        self.columns.map_or(2, |n| if self.scalar.size() == 2 { n / 4 } else { n / 2 })
    }
}

/// Where a part is in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Where {
    /// In a place of its own, from this byte on.
    Once(u32),
    Ring,
}

/// A part of an array that is copied to shared memory.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub map: usize,
    pub scalar: Scalar,
    pub boxes: u32,
    pub length: u32,
    pub along_terms: bool,
    /// Its columns become rows, in shared memory.
    pub is_turned: bool,
    /// The functions of its first index along each axis.
    pub at: Vec<String>,
    pub place: Where,
}

impl Load {
    pub fn bytes(&self) -> u32 {
        self.boxes * self.length * 128
    }

    fn copy(&self, to: &str, barrier: &str) -> String {
        let Load { map, boxes, length, at, is_turned, scalar, .. } = self;
        let at: Vec<String> = at.iter().rev().map(|function| format!("{function}(0, 0)")).collect();
        let (at, width) = (at.join(", "), 128 / scalar.size());
        match is_turned {
            true => format!("tiles::copy_across<{boxes}, {length}>({to}, map{map}_, {barrier}, {at});"),
            false => format!("tiles::copy<{boxes}, {length}, {width}>({to}, map{map}_, {barrier}, {at});"),
        }
    }

    /// Returns where it is, if it has a place of its own.
    fn once(&self) -> Option<(&Load, String)> {
        match self.place {
            Where::Once(at) => Some((self, format!("base_ + {at}"))),
            Where::Ring => None,
        }
    }

    /// Returns what is done with it behind the copy.
    fn turn(&self, at: &str) -> String {
        let Load { boxes, length, is_turned, .. } = self;
        if *is_turned { format!("tiles::turn<{boxes}, {length}>({at});") } else { String::new() }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Factor {
    Held(usize),
    Load(Load),
}

/// When all elements of a step are the same without their condition: what decides it, and the function that then computes them, if there is
/// anything to compute.
#[derive(Clone, Debug)]
pub(super) struct Masked {
    pub holds: String,
    pub function: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Each { to: TileTarget, operands: Vec<usize>, function: String, zero: bool, mask: Option<Masked> },
    Fold { to: usize, of: usize, function: String },
    Product { sum: usize, terms: u32, a: Factor, b: Load, fresh: bool },
    If { function: String, then: Vec<Op>, other: Vec<Op> },
    Meet,
    Repeat { counter: usize, bounds: [String; 2], step: u32, body: Vec<Op> },
}

impl Op {
    /// Whether it only sets a tile to zeros.
    pub fn clears(&self, tile: usize) -> bool {
        matches!(self, Op::Each { to: TileTarget::Held(to), zero: true, .. } if *to == tile)
    }

    /// Whether parts are turned for it.
    pub fn turns(&self) -> bool {
        match self {
            Op::Product { a, b, .. } => b.is_turned || matches!(a, Factor::Load(load) if load.is_turned),
            _ => self.inner().any(Op::turns),
        }
    }

    /// Returns how many stages its largest product takes.
    pub fn loads(&self) -> u32 {
        match self {
            Op::Product { a, b, .. } => staged(a, b).len() as u32,
            _ => self.inner().map(Op::loads).max().unwrap_or(0),
        }
    }

    /// Returns the tiles that it reads, and those that it writes.
    fn touches(&self) -> (Vec<usize>, Vec<usize>) {
        match self {
            Op::Each { to: TileTarget::Held(to), operands, .. } => (operands.clone(), vec![*to]),
            Op::Each { operands, .. } => (operands.clone(), vec![]),
            Op::Fold { to, of, .. } => (vec![*of], vec![*to]),
            Op::Product { sum, a, .. } => {
                let factor = if let Factor::Held(tile) = a { Some(*tile) } else { None };
                ([*sum].into_iter().chain(factor).collect(), vec![*sum])
            }
            Op::Repeat { .. } | Op::If { .. } | Op::Meet => {
                self.inner().map(Op::touches).fold((vec![], vec![]), |mut all, (reads, writes)| {
                    all.0.extend(reads);
                    all.1.extend(writes);
                    all
                })
            }
        }
    }

    /// Returns the steps in it.
    fn inner(&self) -> impl Iterator<Item = &Op> {
        let (one, other): (&[Op], &[Op]) = match self {
            Op::Repeat { body, .. } => (body, &[]),
            Op::If { then, other, .. } => (then, other),
            _ => (&[], &[]),
        };
        one.iter().chain(other)
    }

    /// Whether it has to stay behind another one, or that behind it.
    fn depends(&self, other: &Op) -> bool {
        let ((reads, writes), (read, written)) = (self.touches(), other.touches());
        let meet = |a: &[usize], b: &[usize]| a.iter().any(|tile| b.contains(tile));
        meet(&reads, &written) || meet(&writes, &read) || meet(&writes, &written)
    }
}

/// Returns the parts that a product takes out of the ring, in order.
fn staged<'a>(a: &'a Factor, b: &'a Load) -> Vec<&'a Load> {
    let a = if let Factor::Load(load) = a { Some(load) } else { None };
    a.into_iter().chain([b]).filter(|load| load.place == Where::Ring).collect()
}

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

/// A product that runs.
struct Flight {
    sum: usize,
    factor: Option<usize>,
    stages: Vec<String>,
}

/// What the steps have to do with.
pub(super) struct Program {
    pub held: Vec<Held>,
    pub counters: Vec<String>,
    pub warpgroups: u32,
    /// Whether parts are turned.
    pub turns: bool,
    /// Array, type and boxes of each map.
    pub maps: Vec<(usize, Scalar, OfBox)>,
    pub once: Vec<Load>,
    pub stage_bytes: u32,
    pub stages: u32,
    flights: Vec<Flight>,
    /// Stages that were taken, and loops, so far.
    taken: usize,
    loops: usize,
}

impl Program {
    pub fn new(tiles: &Tiles) -> Program {
        let held = tiles.held.iter().enumerate().map(|(k, tile)| Held {
            // Names of the text's own end in an underscore too, but have no number behind another one.
            name: format!("{}_{k}_", sanitized(&tile.name)),
            scalar: tile.scalar,
            columns: tile.columns,
            is_factor: tile.is_factor,
        });
        Program {
            held: held.collect(),
            counters: vec![],
            warpgroups: tiles.rows / 64,
            turns: false,
            maps: vec![],
            once: vec![],
            stage_bytes: 0,
            stages: 0,
            flights: vec![],
            taken: 0,
            loops: 0,
        }
    }

    pub fn threads(&self) -> u32 {
        128 * (self.warpgroups + 1)
    }

    fn once_bytes(&self) -> u32 {
        self.once.iter().map(Load::bytes).sum()
    }

    /// Returns the bytes of dynamic shared memory: alignment, parts, stages, barriers.
    pub fn shared(&self) -> u32 {
        1024 + self.once_bytes() + self.stages * (self.stage_bytes + 24) + 16
    }

    /// Returns the definitions of the instructions for the products.
    pub fn instructions(&self, ops: &[Op]) -> String {
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
    pub fn write(&mut self, ops: &[Op], text: &mut String) {
        let (once, stages, bytes) = (self.once_bytes(), self.stages, self.stage_bytes);
        let mut out = Out { text, level: 1 };
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
            self.copies(ops, Copying::Turns, &mut out);
            out.line("return;");
            out.close();
        }
        out.line("if (threadIdx.x != 0) return;");
        if once > 0 {
            out.line(&format!("tiles::arrive_and_expect(ready_, {once});"));
        }
        self.once.iter().filter_map(Load::once).for_each(|(load, at)| out.line(&load.copy(&at, "ready_")));
        self.copies(ops, Copying::Boxes, &mut out);
        out.line("return;");
        out.close();
        if let Some((_, many)) = registers {
            out.line(&format!("asm volatile(\"setmaxnreg.inc.sync.aligned.u32 {many};\");"));
        }
        self.computing(ops, once > 0, &mut out);
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

    /// Begins a loop; returns its counter, and the variable with the number of turns that are left.
    fn counted(
        &mut self,
        counter: usize,
        [start, end]: &[String; 2],
        step: u32,
        out: &mut Out<'_>,
    ) -> (String, String) {
        self.loops += 1;
        let (counter, left) = (self.counters[counter].clone(), format!("left{}_", self.loops));
        // The bounds do not depend on the counter.
        out.line(&format!("tiles::u32 {left} = tiles::turns({start}(0, 0), {end}(0, 0), {step});"));
        out.line(&format!("{counter} = {start}(0, 0);"));
        (counter, left)
    }

    // The warpgroups that compute

    fn computing(&mut self, ops: &[Op], waits: bool, out: &mut Out<'_>) {
        out.line("const tiles::Place place_(warpgroup_);");
        for tile in &self.held {
            let ty = match (tile.columns, scalar_type(tile.scalar)) {
                (None, ty) => format!("tiles::Rows<{ty}>"),
                (Some(n), _) if tile.is_factor => {
                    let wide = if tile.scalar.size() == 2 { "" } else { "Wide" };
                    format!("tiles::{wide}Factor<{n}>")
                }
                (Some(n), ty) => format!("tiles::Tile<{ty}, {n}>"),
            };
            out.line(&format!("{ty} {};", tile.name));
        }
        if waits {
            out.line("tiles::wait(ready_, 0);");
            if self.turns {
                out.line("tiles::wait(ready_ + 8, 0);");
            }
        }
        self.steps(ops, out);
        self.settled(0, out);
    }

    fn steps<'a>(&mut self, ops: impl IntoIterator<Item = &'a Op>, out: &mut Out<'_>) {
        ops.into_iter().for_each(|op| self.step(op, out));
    }

    fn step(&mut self, op: &Op, out: &mut Out<'_>) {
        self.wait_for(op, out);
        match op {
            Op::Each { to, operands, function, mask: None, .. } => self.each(*to, operands, function, out),
            Op::Each { to, operands, function, mask: Some(Masked { holds, function: within }), .. } => {
                match within {
                    Some(within) => {
                        out.open(&format!("if ({holds}) {{"));
                        self.each(*to, operands, within, out);
                        out.close();
                        out.open("else {");
                    }
                    None => out.open(&format!("if (!{holds}) {{")),
                }
                self.each(*to, operands, function, out);
                out.close();
            }
            Op::Fold { to, of, function } => {
                let ty = scalar_type(self.held[*of].scalar);
                let (to, of) = (&self.held[*to].name, &self.held[*of].name);
                out.line(&format!(
                    "tiles::reduce({to}, {of}, [&]({ty} a_, {ty} b_) {{ return {function}(0, 0, a_, b_); }});"
                ));
            }
            Op::Product { sum, terms, a, b, fresh } => self.product((*sum, *terms, *fresh), a, b, out),
            Op::If { function, then, other } => {
                self.settled(0, out);
                self.either(function, out, |this, first, out| {
                    this.steps(if first { then } else { other }, out);
                    this.settled(0, out);
                });
            }
            Op::Meet => {
                let threads = 128 * self.warpgroups;
                out.line(&format!("asm volatile(\"bar.sync 1, {threads};\" ::: \"memory\");"));
            }
            Op::Repeat { counter, bounds, step, body } => {
                self.settled(0, out);
                out.open("{");
                let (counter, left) = self.counted(*counter, bounds, *step, out);
                let next = format!("{counter} += {step};");
                match (Rotated::of(body), body.as_slice()) {
                    (Some(rotated), _) => self.rotated(&rotated, &next, &left, out),
                    (None, [op @ Op::Product { a: Factor::Load(_), .. }]) => self.chained(op, &next, &left, out),
                    _ => {
                        out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                        self.steps(body, out);
                        self.settled(0, out);
                        out.close();
                    }
                }
                out.close();
            }
        }
    }

    /// Writes two branches.
    fn either(&mut self, function: &str, out: &mut Out<'_>, mut write: impl FnMut(&mut Self, bool, &mut Out<'_>)) {
        out.open(&format!("if ({function}(0, 0) != 0) {{"));
        write(self, true, out);
        out.close();
        out.open("else {");
        write(self, false, out);
        out.close();
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

    fn each(&self, to: TileTarget, operands: &[usize], function: &str, out: &mut Out<'_>) {
        let mut values = vec!["place_".to_string(), function.to_string()];
        values.extend(operands.iter().map(|&tile| self.held[tile].name.clone()));
        let values = values.join(", ");
        out.line(&match to {
            TileTarget::Held(tile) => {
                let Held { name, scalar, columns, .. } = &self.held[tile];
                match columns {
                    None => format!("tiles::each_row({name}, {values});"),
                    Some(_) if self.held[tile].is_factor => {
                        format!("tiles::each_rounded(tiles::{}{{}}, {name}, {values});", kind(*scalar))
                    }
                    Some(_) => format!("tiles::each({name}, {values});"),
                }
            }
            TileTarget::Array(Some(columns)) => format!("tiles::visit<{columns}>({values});"),
            TileTarget::Array(None) => format!("tiles::visit_rows({values});"),
        });
    }

    fn product(&mut self, (sum, terms, fresh): (usize, u32, bool), a: &Factor, b: &Load, out: &mut Out<'_>) {
        let mut stages = vec![];
        let mut address = |this: &mut Self, load: &Load, out: &mut Out<'_>| match load.place {
            Where::Once(at) => format!("base_ + {at}"),
            Where::Ring => {
                let stage = format!("stage{}_", this.taken);
                this.taken += 1;
                out.line(&format!("const tiles::Stage {stage} = ring_.take();"));
                stages.push(stage.clone());
                format!("{stage}.address")
            }
        };
        let part = |load: &Load, at: String| format!("tiles::Part<{}, {}>({at})", load.length, load.along_terms);
        let (factor, left) = match a {
            Factor::Held(tile) => (Some(*tile), self.held[*tile].name.clone()),
            Factor::Load(load) => {
                let at = address(self, load, out);
                let rows = if load.along_terms { 64 } else { load.length };
                (None, part(load, format!("{at} + warpgroup_ * {}", rows * 128)))
            }
        };
        let at = address(self, b, out);
        let (right, sums) = (part(b, at), &self.held[sum].name);
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
    fn wait_for(&mut self, op: &Op, out: &mut Out<'_>) {
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
    fn settled(&mut self, left: usize, out: &mut Out<'_>) {
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

fn kind(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::F32 => "Tf32",
        Scalar::Bf16 => "Bf16",
        _ => "F16",
    }
}

fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned",
        _ => "float",
    }
}

/// Text with indentation.
struct Out<'a> {
    text: &'a mut String,
    level: usize,
}

impl Out<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:width$}{text}", "", width = 4 * self.level);
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.level += 1;
    }

    fn close(&mut self) {
        self.level -= 1;
        self.line("}");
    }
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
