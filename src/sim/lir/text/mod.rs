//! The text form of LaneIR. Input and output: a [`LaneRegion`]. Printing and parsing are inverse operations.
//!
//! Tables come first, then the setup and the body, with one instruction per line:
//!
//! ```text
//! region together wide whole 16, 16, 1
//! values 14
//! memory 0 load store
//! memory 1 load store own fresh
//! access %5, %7 of 0: check_one %3, %4
//! access %6 + 2 of 1:
//! read r3
//! write r4: f32 lanes
//! setup {
//!     %3: i64 = extent(mem 0, axis 1)
//! }
//! body {
//!     %0: mask = entered
//!     %8: mut v32 = move %2
//!     %9: i32(row) = coord y
//!     %12: v32 = add.f32 %3, %8
//!     %8 = move %12 under %0
//!     block 'e1 {
//!         branch 'e1 if none %0
//!         loop {
//!             branch 'e1 if lt.i64 %3, %4
//!         }
//!     }
//! }
//! ```
//!
//! The first definition of a value includes its type, preceded by `mut` if the value may have further definitions.
//! `(x)` means that the value depends on the vector's position in its row, and `(row)` that it depends on the row. The
//! tables list values without a definition: `value %13: v64`.

#[cfg(test)]
mod parse;

use std::fmt::{self, Display, Formatter, Write};

#[cfg(test)]
pub(crate) use self::parse::parse;
use super::*;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{AtomicOp as Update, WarpOp};

// One table of names for each enum. Printer and parser use the same tables.

const TYPES: [(LaneTy, &str); 5] =
    [(LaneTy::I32, "i32"), (LaneTy::I64, "i64"), (LaneTy::V32, "v32"), (LaneTy::V64, "v64"), (LaneTy::Mask, "mask")];

const RELATIONS: [(LaneComparison, &str); 6] = [
    (LaneComparison::Eq, "eq"),
    (LaneComparison::Ne, "ne"),
    (LaneComparison::Lt, "lt"),
    (LaneComparison::Le, "le"),
    (LaneComparison::Gt, "gt"),
    (LaneComparison::Ge, "ge"),
];

const ELEMENTS: [(LaneElem, &str); 6] = [
    (LaneElem::F32, "f32"),
    (LaneElem::F64, "f64"),
    (LaneElem::I32, "i32"),
    (LaneElem::U32, "u32"),
    (LaneElem::I64, "i64"),
    (LaneElem::U64, "u64"),
];

const BINARY: [(LaneBinOp, &str); 12] = [
    (LaneBinOp::Add, "add"),
    (LaneBinOp::Sub, "sub"),
    (LaneBinOp::Mul, "mul"),
    (LaneBinOp::And, "and"),
    (LaneBinOp::Or, "or"),
    (LaneBinOp::Xor, "xor"),
    (LaneBinOp::Shl, "shl"),
    (LaneBinOp::Shr, "shr"),
    (LaneBinOp::Div, "div"),
    (LaneBinOp::Rem, "rem"),
    (LaneBinOp::Min, "min"),
    (LaneBinOp::Max, "max"),
];

const UNARY: [(LaneUnaryOp, &str); 8] = [
    (LaneUnaryOp::Neg, "neg"),
    (LaneUnaryOp::Abs, "abs"),
    (LaneUnaryOp::Sqrt, "sqrt"),
    (LaneUnaryOp::Rsqrt, "rsqrt"),
    (LaneUnaryOp::Floor, "floor"),
    (LaneUnaryOp::Ceil, "ceil"),
    (LaneUnaryOp::Trunc, "trunc"),
    (LaneUnaryOp::Round, "round"),
];

const UPDATES: [(Update, &str); 9] = [
    (Update::Add, "add"),
    (Update::Sub, "sub"),
    (Update::Min, "min"),
    (Update::Max, "max"),
    (Update::And, "and"),
    (Update::Or, "or"),
    (Update::Xor, "xor"),
    (Update::Exchange, "exchange"),
    (Update::CompareExchange, "compare_exchange"),
];

const WARPS: [(WarpOp, &str); 14] = [
    (WarpOp::Shuffle, "shuffle"),
    (WarpOp::ShuffleUp, "shuffle_up"),
    (WarpOp::ShuffleDown, "shuffle_down"),
    (WarpOp::ShuffleXor, "shuffle_xor"),
    (WarpOp::Ballot, "ballot"),
    (WarpOp::Any, "any"),
    (WarpOp::All, "all"),
    (WarpOp::ReduceAdd, "reduce_add"),
    (WarpOp::ReduceMin, "reduce_min"),
    (WarpOp::ReduceMax, "reduce_max"),
    (WarpOp::ReduceAnd, "reduce_and"),
    (WarpOp::ReduceOr, "reduce_or"),
    (WarpOp::ReduceXor, "reduce_xor"),
    (WarpOp::MatchAny, "match_any"),
];

const CELLS: [(MemoryWidth, &str); 6] = [
    (MemoryWidth::W4, "w4"),
    (MemoryWidth::W8, "w8"),
    (MemoryWidth::U8, "u8"),
    (MemoryWidth::I8, "i8"),
    (MemoryWidth::U16, "u16"),
    (MemoryWidth::I16, "i16"),
];

const FORMS: [(AddressForm, &str); 3] =
    [(AddressForm::Uniform, "one"), (AddressForm::Contiguous, "row"), (AddressForm::Indexed, "lanes")];

type LocalFormName = (fn(i32) -> AddressForm, &'static str);

/// The address forms of local arrays, as functions of the number of columns to add to the address.
const OWN_FORMS: [LocalFormName; 2] = [(AddressForm::LocalColumn, "own"), (AddressForm::LocalIndexed, "own_lanes")];

const AXES: [(u8, &str); 3] = [(0, "x"), (1, "y"), (2, "z")];

const BOOLS: [(bool, &str); 2] = [(false, "false"), (true, "true")];

/// The names of the operations without parameters.
const PLAIN: [(LaneOp, &str); 29] = [
    (LaneOp::Sext, "sext"),
    (LaneOp::Zext, "zext"),
    (LaneOp::Trunc, "trunc"),
    (LaneOp::SelectScalar, "choose"),
    (LaneOp::FirstLane, "first_lane"),
    (LaneOp::AnyActive, "any"),
    (LaneOp::Broadcast, "broadcast"),
    (LaneOp::FromHalf, "from_half"),
    (LaneOp::ToHalf, "to_half"),
    (LaneOp::LoadReg, "load_reg"),
    (LaneOp::Select, "select"),
    (LaneOp::MaskFromScalar, "mask_of"),
    (LaneOp::MaskFromLanes, "mask_of_lanes"),
    (LaneOp::LanesFromMask, "lanes_of_mask"),
    (LaneOp::MaskAnd, "mask_and"),
    (LaneOp::MaskAndNot, "mask_without"),
    (LaneOp::MaskOr, "mask_or"),
    (LaneOp::MaskXor, "mask_xor"),
    (LaneOp::MaskNot, "mask_not"),
    (LaneOp::EntryMask, "entered"),
    (LaneOp::Move, "move"),
    (LaneOp::StoreReg, "store_reg"),
    (LaneOp::CheckUniform, "check_one"),
    (LaneOp::CheckLanes, "check_lanes"),
    (LaneOp::CheckRange, "check_range"),
    (LaneOp::ExitIfAny, "leave_any"),
    (LaneOp::ExitIfZero, "leave_zero"),
    (LaneOp::SubmitReports, "report"),
    (LaneOp::Barrier, "barrier"),
];

/// Returns the name of an item in a table.
fn name<T: PartialEq>(table: &[(T, &'static str)], item: T) -> &'static str {
    table.iter().find(|(i, _)| *i == item).map_or("?", |(_, name)| name)
}

#[cfg(test)]
fn item<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, n)| *n == name).map(|(item, _)| *item)
}

impl Display for LaneValue {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if *self == LaneValue::NONE { out.write_str("%none") } else { write!(out, "%{}", self.0) }
    }
}

impl Display for LaneTy {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(name(&TYPES, *self))
    }
}

impl Display for ValueDef {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (mutable, ty) = (if self.mutable { "mut " } else { "" }, self.ty);
        write!(out, "{mutable}{ty}{}", marks(self.depends_on_x, self.depends_on_row))
    }
}

fn marks(depends_on_x: bool, depends_on_row: bool) -> &'static str {
    match (depends_on_x, depends_on_row) {
        (false, false) => "",
        (true, false) => "(x)",
        (false, true) => "(row)",
        (true, true) => "(x, row)",
    }
}

impl Display for RegionInput {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            RegionInput::Uniform(reg, scalar) => write!(out, "uniform(r{reg}, {})", scalar.name()),
            RegionInput::LaneRegister(reg) => write!(out, "lanes(r{reg})"),
            RegionInput::BaseAddress(memory) => write!(out, "base(mem {})", memory.index()),
            RegionInput::Extent(memory, axis) => write!(out, "extent(mem {}, axis {axis})", memory.index()),
            RegionInput::Pitch(memory, axis) => write!(out, "pitch(mem {}, axis {axis})", memory.index()),
            RegionInput::Exclusive(memory) => write!(out, "alone(mem {})", memory.index()),
            RegionInput::ColumnBytes => out.write_str("column"),
            RegionInput::InitBytes(memory) => write!(out, "marks(mem {})", memory.index()),
            RegionInput::InitValue(memory) => write!(out, "mark(mem {})", memory.index()),
            RegionInput::FirstCoord(axis) => write!(out, "first({})", name(&AXES, axis)),
            RegionInput::LastCoord(axis) => write!(out, "last({})", name(&AXES, axis)),
        }
    }
}

impl Display for PhaseSlot {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.number, marks(self.depends_on_x, self.depends_on_row))
    }
}

impl Display for AddressForm {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.column_offset() {
            None => out.write_str(name(&FORMS, *self)),
            Some(columns) => {
                let own = OWN_FORMS.iter().find(|(form, _)| form(columns) == *self);
                write!(out, "{}({columns})", own.map_or("?", |(_, name)| name))
            }
        }
    }
}

impl Display for LaneOp {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let elem = |e: LaneElem| name(&ELEMENTS, e);
        match *self {
            LaneOp::Const(value) => write!(out, "const {value}"),
            LaneOp::Input(input) => write!(out, "{input}"),
            LaneOp::Coord(axis) => write!(out, "coord {}", name(&AXES, axis)),
            LaneOp::Scalar(bin, e) => write!(out, "scalar {}.{}", name(&BINARY, bin), elem(e)),
            LaneOp::CompareScalar(rel, e) => write!(out, "set {}.{}", name(&RELATIONS, rel), elem(e)),
            LaneOp::RowLimit(c) => write!(out, "limit({c})"),
            LaneOp::LoadScalar(cell) => write!(out, "load_scalar.{}", name(&CELLS, cell)),
            LaneOp::Splat(bits) => write!(out, "splat #{bits:x}"),
            LaneOp::BroadcastInput(input) => write!(out, "broadcast {input}"),
            LaneOp::Iota(c) => write!(out, "iota({c})"),
            LaneOp::Vector(bin, e) => write!(out, "{}.{}", name(&BINARY, bin), elem(e)),
            LaneOp::Unary(un, e) => write!(out, "{}.{}", name(&UNARY, un), elem(e)),
            LaneOp::Fma(e) => write!(out, "fma.{}", elem(e)),
            LaneOp::Convert(from, to) => write!(out, "convert.{}.{}", elem(from), elem(to)),
            LaneOp::Call(function, e) => write!(out, "call {}.{}", Builtin::Math(function).name(), elem(e)),
            LaneOp::Compare(rel, e) => write!(out, "compare {}.{}", name(&RELATIONS, rel), elem(e)),
            LaneOp::MaskConst(all) => write!(out, "mask_const {}", name(&BOOLS, all)),
            LaneOp::Load(cell, form) => write!(out, "load.{}.{form}", name(&CELLS, cell)),
            LaneOp::Store(cell, form) => write!(out, "store.{}.{form}", name(&CELLS, cell)),
            LaneOp::Atomic(update, e) => write!(out, "atomic {}.{}", name(&UPDATES, update), elem(e)),
            LaneOp::Warp(warp, e) => write!(out, "warp {}.{}", name(&WARPS, warp), elem(e)),
            LaneOp::Output(number) => write!(out, "output({number})"),
            LaneOp::ReportWord(number) => write!(out, "word({number})"),
            LaneOp::SaveSlot(slot) => write!(out, "keep {slot}"),
            LaneOp::LoadSlot(slot) => write!(out, "kept {slot}"),
            LaneOp::ReportAccess(cell, form, note) => write!(out, "touch.{}.{form}({note})", name(&CELLS, cell)),
            LaneOp::CheckRow(c) => write!(out, "check_row({c})"),
            plain => out.write_str(name(&PLAIN, plain)),
        }
    }
}

/// Prints an operation with its operands, but without the result.
struct OperationText<'a>(&'a LaneInst);

impl Display for OperationText<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let LaneInst { op, args, mask, .. } = self.0;
        write!(out, "{op}")?;
        let used = args.iter().rposition(|a| *a != LaneValue::NONE).map_or(0, |last| last + 1);
        for (k, arg) in args[..used].iter().enumerate() {
            write!(out, "{} {arg}", if k == 0 { "" } else { "," })?;
        }
        if *mask == LaneValue::NONE { Ok(()) } else { write!(out, " under {mask}") }
    }
}

impl Display for LaneInst {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.dst != LaneValue::NONE {
            write!(out, "{} = ", self.dst)?;
        }
        write!(out, "{}", OperationText(self))
    }
}

impl Display for BranchCond {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            BranchCond::Always => Ok(()),
            BranchCond::Scalar(rel, e, a, b) => {
                write!(out, " if {}.{} {a}, {b}", name(&RELATIONS, rel), name(&ELEMENTS, e))
            }
            BranchCond::MaskEmpty(mask) => write!(out, " if none {mask}"),
        }
    }
}

impl Display for LaneRegion {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut printer = RegionPrinter { region: self, typed: vec![false; self.values.len()], out: &mut text };
        printer.region()?;
        out.write_str(&text)
    }
}

struct RegionPrinter<'a> {
    region: &'a LaneRegion,
    /// Whether the type of each value has been printed.
    typed: Vec<bool>,
    out: &'a mut String,
}

impl RegionPrinter<'_> {
    fn region(&mut self) -> fmt::Result {
        let LaneRegion { values, setup, body, has_barriers, wide, full_group, .. } = self.region;
        write!(self.out, "region{}{}", if *has_barriers { " together" } else { "" }, if *wide { " wide" } else { "" })?;
        if let Some([x, y, z]) = full_group {
            write!(self.out, " whole {x}, {y}, {z}")?;
        }
        writeln!(self.out)?;
        writeln!(self.out, "values {}", values.len())?;
        self.tables()?;
        writeln!(self.out, "setup {{")?;
        setup.iter().try_for_each(|inst| self.inst(inst, 1))?;
        writeln!(self.out, "}}\nbody {{")?;
        self.nodes(body, 1)?;
        writeln!(self.out, "}}")
    }

    fn tables(&mut self) -> fmt::Result {
        let LaneRegion { values, setup, body, reads, writes, memories, owned, reports, accesses, phase_slots, .. } =
            self.region;
        let mut defined = vec![false; values.len()];
        let mut note = |inst: &LaneInst| {
            if let Some(defined) = defined.get_mut(inst.dst.index()) {
                *defined = true;
            }
        };
        setup.iter().for_each(&mut note);
        for_each_inst(body, &mut |inst| note(inst));
        for (number, def) in values.iter().enumerate().filter(|(n, _)| !defined[*n]) {
            writeln!(self.out, "value %{number}: {def}")?;
        }
        for &RegionMemory { memory, loads, stores, own, fresh, updates, restored } in memories {
            write!(self.out, "memory {}", memory.index())?;
            let words = [
                (loads, " load"),
                (stores, " store"),
                (updates, " update"),
                (own, " own"),
                (fresh, " fresh"),
                (restored, " restored"),
            ];
            for (is, word) in words {
                self.out.push_str(if is { word } else { "" });
            }
            let owned = owned.iter().find(|owned| owned.0 == memory);
            let owned = owned.map_or("", |owned| if owned.1 { " marked" } else { " private" });
            writeln!(self.out, "{owned}")?;
        }
        for HoistedReport { memory, store, note, first, loops, nest } in reports {
            let store = if *store { " store" } else { " load" };
            writeln!(self.out, "report {}{store} note {note} first {first} loops {loops} nest {nest}", memory.index())?;
        }
        for access in accesses {
            write!(self.out, "access {}", access.address)?;
            if access.columns != 0 {
                write!(self.out, " + {}", access.columns)?;
            }
            if access.offsets != LaneValue::NONE {
                write!(self.out, ", {}", access.offsets)?;
            }
            write!(self.out, " of {}:", access.memory.index())?;
            for (k, check) in access.checks.iter().enumerate() {
                write!(self.out, "{} {}", if k == 0 { "" } else { ";" }, OperationText(&check.to_inst()))?;
            }
            writeln!(self.out)?;
        }
        for ty in phase_slots {
            writeln!(self.out, "kept {ty}")?;
        }
        let mut phase_origins: Vec<_> = self.region.phase_origins.iter().collect();
        phase_origins.sort();
        for (value, origin) in phase_origins {
            writeln!(self.out, "origin {value} of {origin}")?;
        }
        for reg in reads {
            writeln!(self.out, "read r{reg}")?;
        }
        for WrittenRegister { reg, scalar, uniform } in writes {
            writeln!(self.out, "write r{reg}: {} {}", scalar.name(), if *uniform { "uniform" } else { "lanes" })?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &LaneInst, depth: usize) -> fmt::Result {
        self.indent(depth);
        match self.region.values.get(inst.dst.index()) {
            Some(def) if !std::mem::replace(&mut self.typed[inst.dst.index()], true) => {
                writeln!(self.out, "{}: {def} = {}", inst.dst, OperationText(inst))
            }
            _ => writeln!(self.out, "{inst}"),
        }
    }

    fn nodes(&mut self, nodes: &[LaneNode], depth: usize) -> fmt::Result {
        for node in nodes {
            match node {
                LaneNode::Inst(inst) => self.inst(inst, depth)?,
                LaneNode::Branch(cond, exit) => {
                    self.indent(depth);
                    writeln!(self.out, "branch 'e{}{cond}", exit.0)?;
                }
                LaneNode::Block(..) | LaneNode::Loop(_) | LaneNode::Phase(_) => {
                    self.indent(depth);
                    let inner = match node {
                        LaneNode::Block(exit, inner) => {
                            writeln!(self.out, "block 'e{} {{", exit.0)?;
                            inner
                        }
                        LaneNode::Loop(inner) => {
                            writeln!(self.out, "loop {{")?;
                            inner
                        }
                        LaneNode::Phase(inner) => {
                            writeln!(self.out, "each {{")?;
                            inner
                        }
                        _ => continue,
                    };
                    self.nodes(inner, depth + 1)?;
                    self.indent(depth);
                    writeln!(self.out, "}}")?;
                }
            }
        }
        Ok(())
    }

    fn indent(&mut self, depth: usize) {
        (0..depth).for_each(|_| self.out.push_str("    "));
    }
}
