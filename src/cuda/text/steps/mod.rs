//! Emits the steps of tile programs as C++ code.
//!
//! Input: steps, with the names of the lambdas that compute elements. Output: the C++ code around the lambdas. How
//! operands are staged and when products complete depends on the instruction set: [`tma`] uses sm_90a instructions, and
//! [`cp_async`] the instructions of all GPUs since sm_80.

mod cp_async;
mod tma;

use std::fmt::Write;

use super::abi::TmaBox;
use super::names::sanitized;
use clk_ir::def::Scalar;
use clk_ir::tiles::{TileProgram, TileTarget};

/// The instruction set that the generated code uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TileInstructions {
    /// TMA copies by a separate warpgroup, and asynchronous products (`wgmma`).
    Sm90a,
    /// 16-byte `cp.async` copies by the computing threads, and synchronous products; `room` is the limit of shared
    /// memory per block.
    Sm80 { room: u32 },
}

/// A tile in the registers of a warpgroup's threads.
pub(super) struct RegisterTile {
    name: String,
    scalar: Scalar,
    columns: Option<u32>,
    is_factor: bool,
}

impl RegisterTile {
    /// Returns the number of 32-bit words that the tile occupies per thread.
    pub fn words(&self) -> u32 {
        self.columns.map_or(2, |n| if self.scalar.size() == 2 { n / 4 } else { n / 2 })
    }
}

/// Where a window is stored in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LoadPlacement {
    /// In dedicated memory at this byte offset.
    Dedicated(u32),
    Ring,
}

/// The source of a copied window.
#[derive(Clone, Debug)]
pub(super) enum LoadSource {
    /// The array that the tensor map with this number describes.
    Map(usize),
    /// An array that the code accesses without a tensor map. `axes` has the extent and the step of the window along
    /// each axis.
    Array { name: String, extents: Vec<String>, axes: Vec<[u32; 2]> },
}

/// A window of an array that is copied to shared memory.
#[derive(Clone, Debug)]
pub(super) struct TileLoad {
    pub from: LoadSource,
    pub scalar: Scalar,
    pub boxes: u32,
    pub length: u32,
    pub along_terms: bool,
    /// Whether the window is transposed in shared memory.
    pub is_transposed: bool,
    /// For each axis, the function that computes the window's first index.
    pub at: Vec<String>,
    pub place: LoadPlacement,
}

impl TileLoad {
    pub fn bytes(&self) -> u32 {
        self.boxes * self.length * 128
    }

    /// Returns the window and its address, if it has dedicated memory.
    fn dedicated(&self) -> Option<(&TileLoad, String)> {
        match self.place {
            LoadPlacement::Dedicated(at) => Some((self, format!("base_ + {at}"))),
            LoadPlacement::Ring => None,
        }
    }

    /// Returns the C++ expression for the window at this address, as an operand in shared memory.
    fn part(&self, at: &str) -> String {
        format!("tiles::Part<{}, {}>({at})", self.length, self.along_terms)
    }
}

#[derive(Clone, Debug)]
pub(super) enum MmaOperand {
    Held(usize),
    Load(TileLoad),
}

/// The test that a step's condition holds for all elements of a tile, and the function that computes the elements in
/// this case. `function` is `None` if there is nothing to compute.
#[derive(Clone, Debug)]
pub(super) struct MaskedStep {
    pub holds: String,
    pub function: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum TileStepOp {
    Each { to: TileTarget, operands: Vec<usize>, function: String, zero: bool, mask: Option<MaskedStep> },
    Fold { to: usize, of: usize, function: String },
    Product { sum: usize, terms: u32, a: MmaOperand, b: TileLoad, fresh: bool },
    If { function: String, then: Vec<TileStepOp>, other: Vec<TileStepOp> },
    Meet,
    Repeat { counter: usize, bounds: [String; 2], step: u32, body: Vec<TileStepOp> },
}

impl TileStepOp {
    /// Returns whether the step only sets this tile to zeros.
    pub fn is_clear_of(&self, tile: usize) -> bool {
        matches!(self, TileStepOp::Each { to: TileTarget::Tile(to), zero: true, .. } if *to == tile)
    }

    /// Returns whether the step transposes windows.
    pub fn has_transposes(&self) -> bool {
        match self {
            TileStepOp::Product { a, b, .. } => {
                b.is_transposed || matches!(a, MmaOperand::Load(load) if load.is_transposed)
            }
            _ => self.nested().any(TileStepOp::has_transposes),
        }
    }

    /// Returns the maximum number of windows that a product of the step reads from the ring.
    pub fn loads(&self) -> u32 {
        match self {
            TileStepOp::Product { a, b, .. } => staged(a, b).len() as u32,
            _ => self.nested().map(TileStepOp::loads).max().unwrap_or(0),
        }
    }

    /// Returns the size of the largest window in the ring, and the largest total size of a product's windows, in bytes.
    pub fn staged_bytes(&self) -> [u32; 2] {
        match self {
            TileStepOp::Product { a, b, .. } => {
                let bytes = staged(a, b).into_iter().map(TileLoad::bytes);
                [bytes.clone().max().unwrap_or(0), bytes.sum()]
            }
            _ => self.nested().map(TileStepOp::staged_bytes).fold([0; 2], |[a, b], [c, d]| [a.max(c), b.max(d)]),
        }
    }

    /// Returns the tiles that the step reads, and the tiles that it writes.
    fn accessed_tiles(&self) -> (Vec<usize>, Vec<usize>) {
        match self {
            TileStepOp::Each { to: TileTarget::Tile(to), operands, .. } => (operands.clone(), vec![*to]),
            TileStepOp::Each { operands, .. } => (operands.clone(), vec![]),
            TileStepOp::Fold { to, of, .. } => (vec![*of], vec![*to]),
            TileStepOp::Product { sum, a, .. } => {
                let factor = if let MmaOperand::Held(tile) = a { Some(*tile) } else { None };
                ([*sum].into_iter().chain(factor).collect(), vec![*sum])
            }
            TileStepOp::Repeat { .. } | TileStepOp::If { .. } | TileStepOp::Meet => {
                self.nested().map(TileStepOp::accessed_tiles).fold((vec![], vec![]), |mut all, (reads, writes)| {
                    all.0.extend(reads);
                    all.1.extend(writes);
                    all
                })
            }
        }
    }

    /// Returns the steps that are nested in the step.
    fn nested(&self) -> impl Iterator<Item = &TileStepOp> {
        let (one, other): (&[TileStepOp], &[TileStepOp]) = match self {
            TileStepOp::Repeat { body, .. } => (body, &[]),
            TileStepOp::If { then, other, .. } => (then, other),
            _ => (&[], &[]),
        };
        one.iter().chain(other)
    }

    /// Returns whether the step must not be reordered with another step.
    fn depends_on(&self, other: &TileStepOp) -> bool {
        let ((reads, writes), (read, written)) = (self.accessed_tiles(), other.accessed_tiles());
        let overlaps = |a: &[usize], b: &[usize]| a.iter().any(|tile| b.contains(tile));
        overlaps(&reads, &written) || overlaps(&writes, &read) || overlaps(&writes, &written)
    }
}

/// Returns the windows that a product reads from the ring, in order.
fn staged<'a>(a: &'a MmaOperand, b: &'a TileLoad) -> Vec<&'a TileLoad> {
    let a = if let MmaOperand::Load(load) = a { Some(load) } else { None };
    a.into_iter().chain([b]).filter(|load| load.place == LoadPlacement::Ring).collect()
}

/// An asynchronous product that has begun and may not be complete.
struct PendingProduct {
    sum: usize,
    factor: Option<usize>,
    stages: Vec<String>,
}

/// The state for emitting the steps of a tile program.
pub(super) struct TileStepContext {
    pub held: Vec<RegisterTile>,
    pub counters: Vec<String>,
    pub target: TileInstructions,
    pub warpgroups: u32,
    /// Whether any window is transposed.
    pub has_transposes: bool,
    /// For each tensor map: the array parameter, the element type and the box.
    pub maps: Vec<(usize, Scalar, TmaBox)>,
    pub dedicated_loads: Vec<TileLoad>,
    pub stage_bytes: u32,
    pub stages: u32,
    pending_products: Vec<PendingProduct>,
    /// The number of stages and the number of loops that have been emitted so far.
    stages_taken: usize,
    loops: usize,
}

impl TileStepContext {
    pub fn new(tiles: &TileProgram, target: TileInstructions) -> TileStepContext {
        let register_tiles = tiles.tiles.iter().enumerate().map(|(k, tile)| RegisterTile {
            // These names end in `_`, a number, and `_`. No other names in the generated code do.
            name: format!("{}_{k}_", sanitized(&tile.name)),
            scalar: tile.scalar,
            columns: tile.columns,
            is_factor: tile.is_lhs,
        });
        TileStepContext {
            held: register_tiles.collect(),
            counters: vec![],
            target,
            warpgroups: tiles.rows / 64,
            has_transposes: false,
            maps: vec![],
            dedicated_loads: vec![],
            stage_bytes: 0,
            stages: 0,
            pending_products: vec![],
            stages_taken: 0,
            loops: 0,
        }
    }

    /// Returns the number of threads in a block.
    pub fn threads(&self) -> u32 {
        let copying = u32::from(self.target == TileInstructions::Sm90a);
        128 * (self.warpgroups + copying)
    }

    fn dedicated_bytes(&self) -> u32 {
        self.dedicated_loads.iter().map(TileLoad::bytes).sum()
    }

    /// Returns the size of a block's dynamic shared memory in bytes.
    pub fn shared(&self) -> u32 {
        match self.target {
            TileInstructions::Sm90a => self.shared_of_tma(),
            TileInstructions::Sm80 { .. } => self.shared_of_cp_async(),
        }
    }

    /// Decides the number of stages. Returns `None` if there is too little shared memory.
    pub fn lay_out(&mut self, ops: &[TileStepOp]) -> Option<()> {
        match self.target {
            TileInstructions::Sm90a => self.lay_out_tma(ops),
            TileInstructions::Sm80 { room } => self.lay_out_cp_async(ops, room),
        }
    }

    /// Returns the C++ definitions of the tensor-core instructions for the products.
    pub fn instructions(&self, ops: &[TileStepOp]) -> String {
        match self.target {
            TileInstructions::Sm90a => self.wgmma_instructions(ops),
            TileInstructions::Sm80 { .. } => String::new(),
        }
    }

    /// Writes the body of the kernel that follows the lambdas.
    pub fn write(&mut self, ops: &[TileStepOp], text: &mut String) {
        let mut out = IndentedText { text, level: 1 };
        match self.target {
            TileInstructions::Sm90a => self.write_tma(ops, &mut out),
            TileInstructions::Sm80 { .. } => self.write_cp_async(ops, &mut out),
        }
    }

    /// Writes the beginning of a loop. Returns the names of its counter and of the variable with the number of
    /// remaining iterations.
    fn begin_loop(
        &mut self,
        counter: usize,
        bounds: &[String; 2],
        step: u32,
        out: &mut IndentedText<'_>,
    ) -> (String, String) {
        let (counter, left) = self.loop_variables(counter);
        out.line(&format!("tiles::u32 {left};"));
        self.emit_loop_start(&counter, &left, bounds, step, out);
        (counter, left)
    }

    /// Returns the names of a loop's variables.
    fn loop_variables(&mut self, counter: usize) -> (String, String) {
        self.loops += 1;
        (self.counters[counter].clone(), format!("left{}_", self.loops))
    }

    fn emit_loop_start(
        &self,
        counter: &str,
        left: &str,
        [start, end]: &[String; 2],
        step: u32,
        out: &mut IndentedText<'_>,
    ) {
        // The bounds do not depend on the counter, so any value can be passed for it.
        out.line(&format!("{left} = tiles::turns({start}(0, 0), {end}(0, 0), {step});"));
        out.line(&format!("{counter} = {start}(0, 0);"));
    }

    /// Writes the code of steps for the computing warpgroups.
    fn emit_compute_warpgroups(&mut self, ops: &[TileStepOp], out: &mut IndentedText<'_>) {
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
        self.wait_for_products(0, out);
    }

    fn steps<'a>(&mut self, ops: impl IntoIterator<Item = &'a TileStepOp>, out: &mut IndentedText<'_>) {
        ops.into_iter().for_each(|op| self.step(op, out));
    }

    fn step(&mut self, op: &TileStepOp, out: &mut IndentedText<'_>) {
        self.wait_for_dependencies(op, out);
        match op {
            TileStepOp::Each { to, operands, function, mask: None, .. } => self.each(*to, operands, function, out),
            TileStepOp::Each { to, operands, function, mask: Some(MaskedStep { holds, function: within }), .. } => {
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
            TileStepOp::Fold { to, of, function } => {
                let ty = scalar_type(self.held[*of].scalar);
                let (to, of) = (&self.held[*to].name, &self.held[*of].name);
                out.line(&format!(
                    "tiles::reduce({to}, {of}, [&]({ty} a_, {ty} b_) {{ return {function}(0, 0, a_, b_); }});"
                ));
            }
            TileStepOp::Product { sum, terms, a, b, fresh } => match self.target {
                TileInstructions::Sm90a => self.begin_product(*sum, *terms, *fresh, a, b, out),
                TileInstructions::Sm80 { .. } => self.product(*sum, *terms, *fresh, a, b, out),
            },
            TileStepOp::If { function, then, other } => {
                self.wait_for_products(0, out);
                self.emit_branches(function, out, |this, first, out| {
                    this.steps(if first { then } else { other }, out);
                    this.wait_for_products(0, out);
                });
            }
            TileStepOp::Meet => {
                let threads = 128 * self.warpgroups;
                out.line(&format!("asm volatile(\"bar.sync 1, {threads};\" ::: \"memory\");"));
            }
            TileStepOp::Repeat { counter, bounds, step, body } => {
                self.wait_for_products(0, out);
                out.open("{");
                let (counter, left) = self.begin_loop(*counter, bounds, *step, out);
                let next = format!("{counter} += {step};");
                if self.target != TileInstructions::Sm90a || !self.emit_overlapped_loop(body, &next, &left, out) {
                    out.open(&format!("for (; {left} != 0; {left}--, {counter} += {step}) {{"));
                    self.steps(body, out);
                    self.wait_for_products(0, out);
                    out.close();
                }
                out.close();
            }
        }
    }

    /// Writes an `if` statement with the steps of its two branches.
    fn emit_branches(
        &mut self,
        function: &str,
        out: &mut IndentedText<'_>,
        mut write: impl FnMut(&mut Self, bool, &mut IndentedText<'_>),
    ) {
        out.open(&format!("if ({function}(0, 0) != 0) {{"));
        write(self, true, out);
        out.close();
        out.open("else {");
        write(self, false, out);
        out.close();
    }

    /// Returns the C++ expressions for a product's operands. Operands in shared memory are at `address(load)`. The
    /// first operand is a tile in registers, or the warpgroup's own rows of a window.
    fn factors(&self, a: &MmaOperand, b: &TileLoad, mut address: impl FnMut(&TileLoad) -> String) -> [String; 2] {
        let left = match a {
            MmaOperand::Held(tile) => self.held[*tile].name.clone(),
            MmaOperand::Load(load) => {
                // A warpgroup's 64 rows are in one box, or in separate boxes if rows of a box are along the other axis.
                let rows = if load.along_terms { 64 } else { load.length * load.scalar.size() as u32 / 2 };
                load.part(&format!("{} + warpgroup_ * {}", address(load), rows * 128))
            }
        };
        [left, b.part(&address(b))]
    }

    fn each(&self, to: TileTarget, operands: &[usize], function: &str, out: &mut IndentedText<'_>) {
        let mut values = vec!["place_".to_string(), function.to_string()];
        values.extend(operands.iter().map(|&tile| self.held[tile].name.clone()));
        let values = values.join(", ");
        out.line(&match to {
            TileTarget::Tile(tile) => {
                let RegisterTile { name, scalar, columns, .. } = &self.held[tile];
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

/// Output text with the current indentation.
struct IndentedText<'a> {
    text: &'a mut String,
    level: usize,
}

impl IndentedText<'_> {
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
