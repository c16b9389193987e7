//! The steps of programs of tiles, as the warpgroups that compute run them.
//!
//! In: steps with the names of their lambdas. Out: C++ around them. How parts get to shared memory, and when a product is computed, is that of the
//! instructions: [`boxes`] has those of sm_90a, [`pieces`] those of all GPUs from sm_80 on.

mod boxes;
mod pieces;

use std::fmt::Write;

use super::abi::OfBox;
use super::names::sanitized;
use crate::ir::def::{Scalar, TileTarget, Tiles};

/// The instructions of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Copies of boxes by a warpgroup of their own, and products that run behind the threads.
    Boxes,
    /// Copies of pieces of 16 bytes by the threads that compute, at once, in blocks with so many bytes of shared memory.
    Pieces { room: u32 },
}

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

/// What a part is copied from.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// The array of this map.
    Map(usize),
    /// An array, by its name, with the names of its extents; and how many indices the part has along each axis, and their steps.
    Array { name: String, extents: Vec<String>, axes: Vec<[u32; 2]> },
}

/// A part of an array that is copied to shared memory.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub from: From,
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

    /// Returns where it is, if it has a place of its own.
    fn once(&self) -> Option<(&Load, String)> {
        match self.place {
            Where::Once(at) => Some((self, format!("base_ + {at}"))),
            Where::Ring => None,
        }
    }

    /// Returns it in shared memory.
    fn part(&self, at: &str) -> String {
        format!("tiles::Part<{}, {}>({at})", self.length, self.along_terms)
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

    /// Returns how many parts its largest product takes out of the ring.
    pub fn loads(&self) -> u32 {
        match self {
            Op::Product { a, b, .. } => staged(a, b).len() as u32,
            _ => self.inner().map(Op::loads).max().unwrap_or(0),
        }
    }

    /// Returns the bytes of the largest one of these parts, and of all parts of a product.
    pub fn staged_bytes(&self) -> [u32; 2] {
        match self {
            Op::Product { a, b, .. } => {
                let bytes = staged(a, b).into_iter().map(Load::bytes);
                [bytes.clone().max().unwrap_or(0), bytes.sum()]
            }
            _ => self.inner().map(Op::staged_bytes).fold([0; 2], |[a, b], [c, d]| [a.max(c), b.max(d)]),
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
    pub target: Target,
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
    pub fn new(tiles: &Tiles, target: Target) -> Program {
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
            target,
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

    /// Returns the threads of a block.
    pub fn threads(&self) -> u32 {
        let copying = u32::from(self.target == Target::Boxes);
        128 * (self.warpgroups + copying)
    }

    fn once_bytes(&self) -> u32 {
        self.once.iter().map(Load::bytes).sum()
    }

    /// Returns the bytes of dynamic shared memory.
    pub fn shared(&self) -> u32 {
        match self.target {
            Target::Boxes => self.shared_of_boxes(),
            Target::Pieces { .. } => self.shared_of_pieces(),
        }
    }

    /// Decides how many stages there are; `None` if there is too little shared memory.
    pub fn lay_out(&mut self, ops: &[Op]) -> Option<()> {
        match self.target {
            Target::Boxes => self.lay_out_boxes(ops),
            Target::Pieces { room } => self.lay_out_pieces(ops, room),
        }
    }

    /// Returns the definitions of the instructions for the products.
    pub fn instructions(&self, ops: &[Op]) -> String {
        match self.target {
            Target::Boxes => self.instructions_behind(ops),
            Target::Pieces { .. } => String::new(),
        }
    }

    /// Writes the body of the text's function, behind the lambdas.
    pub fn write(&mut self, ops: &[Op], text: &mut String) {
        let mut out = Out { text, level: 1 };
        match self.target {
            Target::Boxes => self.write_boxes(ops, &mut out),
            Target::Pieces { .. } => self.write_pieces(ops, &mut out),
        }
    }

    /// Begins a loop; returns its counter, and the variable with the number of turns that are left.
    fn counted(&mut self, counter: usize, bounds: &[String; 2], step: u32, out: &mut Out<'_>) -> (String, String) {
        let (counter, left) = self.counts(counter);
        out.line(&format!("tiles::u32 {left};"));
        self.count(&counter, &left, bounds, step, out);
        (counter, left)
    }

    /// Returns the variables of a loop.
    fn counts(&mut self, counter: usize) -> (String, String) {
        self.loops += 1;
        (self.counters[counter].clone(), format!("left{}_", self.loops))
    }

    fn count(&self, counter: &str, left: &str, [start, end]: &[String; 2], step: u32, out: &mut Out<'_>) {
        // The bounds do not depend on the counter.
        out.line(&format!("{left} = tiles::turns({start}(0, 0), {end}(0, 0), {step});"));
        out.line(&format!("{counter} = {start}(0, 0);"));
    }

    /// Writes what the warpgroups do that compute.
    fn computing(&mut self, ops: &[Op], out: &mut Out<'_>) {
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
            Op::Product { sum, terms, a, b, fresh } => match self.target {
                Target::Boxes => self.begin_product((*sum, *terms, *fresh), a, b, out),
                Target::Pieces { .. } => self.product((*sum, *terms, *fresh), a, b, out),
            },
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
                if self.target != Target::Boxes || !self.overlapped(body, &next, &left, out) {
                    out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                    self.steps(body, out);
                    self.settled(0, out);
                    out.close();
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

    /// Returns a product's factors, those in shared memory at `address(load)`: the first one, which is a tile's or that of a warpgroup's own rows, and the
    /// second one.
    fn factors(&self, a: &Factor, b: &Load, mut address: impl FnMut(&Load) -> String) -> [String; 2] {
        let left = match a {
            Factor::Held(tile) => self.held[*tile].name.clone(),
            Factor::Load(load) => {
                // 64 rows, or all terms of 64 rows in boxes of their own.
                let rows = if load.along_terms { 64 } else { load.length * load.scalar.size() as u32 / 2 };
                load.part(&format!("{} + warpgroup_ * {}", address(load), rows * 128))
            }
        };
        [left, b.part(&address(b))]
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
