//! The text form of LaneIR. Input and output: a [`Region`]. Printing and parsing are inverse to each other.
//!
//! Tables come first, then the setup and the body, one instruction a line:
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
//! The first definition of a value in the text has its type, in parentheses that it depends on where a vector lies (`x`) or on its
//! row, and `mut` if it may have further definitions. A value without any is listed: `value %13: v64`.

#[cfg(test)]
mod parse;

use std::fmt::{self, Display, Formatter, Write};

#[cfg(test)]
pub(crate) use self::parse::parse;
use super::*;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{AtomicOp as Update, WarpOp};

// One table of names per enum, for both directions.

const TYPES: [(Ty, &str); 5] =
    [(Ty::I32, "i32"), (Ty::I64, "i64"), (Ty::V32, "v32"), (Ty::V64, "v64"), (Ty::Mask, "mask")];

const RELATIONS: [(Rel, &str); 6] =
    [(Rel::Eq, "eq"), (Rel::Ne, "ne"), (Rel::Lt, "lt"), (Rel::Le, "le"), (Rel::Gt, "gt"), (Rel::Ge, "ge")];

const ELEMENTS: [(Elem, &str); 6] = [
    (Elem::F32, "f32"),
    (Elem::F64, "f64"),
    (Elem::I32, "i32"),
    (Elem::U32, "u32"),
    (Elem::I64, "i64"),
    (Elem::U64, "u64"),
];

const BINARY: [(Bin, &str); 12] = [
    (Bin::Add, "add"),
    (Bin::Sub, "sub"),
    (Bin::Mul, "mul"),
    (Bin::And, "and"),
    (Bin::Or, "or"),
    (Bin::Xor, "xor"),
    (Bin::Shl, "shl"),
    (Bin::Shr, "shr"),
    (Bin::Div, "div"),
    (Bin::Rem, "rem"),
    (Bin::Min, "min"),
    (Bin::Max, "max"),
];

const UNARY: [(Un, &str); 8] = [
    (Un::Neg, "neg"),
    (Un::Abs, "abs"),
    (Un::Sqrt, "sqrt"),
    (Un::Rsqrt, "rsqrt"),
    (Un::Floor, "floor"),
    (Un::Ceil, "ceil"),
    (Un::Trunc, "trunc"),
    (Un::Round, "round"),
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

const CELLS: [(Cell, &str); 6] =
    [(Cell::W4, "w4"), (Cell::W8, "w8"), (Cell::U8, "u8"), (Cell::I8, "i8"), (Cell::U16, "u16"), (Cell::I16, "i16")];

const FORMS: [(Form, &str); 3] = [(Form::One, "one"), (Form::Row, "row"), (Form::Lanes, "lanes")];

type OfColumns = (fn(i32) -> Form, &'static str);

/// Forms of local arrays, with the number of columns behind the address.
const OWN_FORMS: [OfColumns; 2] = [(Form::Own, "own"), (Form::OwnLanes, "own_lanes")];

const AXES: [(u8, &str); 3] = [(0, "x"), (1, "y"), (2, "z")];

const BOOLS: [(bool, &str); 2] = [(false, "false"), (true, "true")];

/// Operations without parameters.
const PLAIN: [(Op, &str); 29] = [
    (Op::Sext, "sext"),
    (Op::Zext, "zext"),
    (Op::Trunc, "trunc"),
    (Op::Choose, "choose"),
    (Op::FirstLane, "first_lane"),
    (Op::Any, "any"),
    (Op::Broadcast, "broadcast"),
    (Op::FromHalf, "from_half"),
    (Op::ToHalf, "to_half"),
    (Op::LoadReg, "load_reg"),
    (Op::Select, "select"),
    (Op::MaskOf, "mask_of"),
    (Op::MaskOfLanes, "mask_of_lanes"),
    (Op::LanesOfMask, "lanes_of_mask"),
    (Op::MaskAnd, "mask_and"),
    (Op::MaskWithout, "mask_without"),
    (Op::MaskOr, "mask_or"),
    (Op::MaskXor, "mask_xor"),
    (Op::MaskNot, "mask_not"),
    (Op::Entered, "entered"),
    (Op::Move, "move"),
    (Op::StoreReg, "store_reg"),
    (Op::CheckOne, "check_one"),
    (Op::CheckLanes, "check_lanes"),
    (Op::CheckRange, "check_range"),
    (Op::LeaveAny, "leave_any"),
    (Op::LeaveZero, "leave_zero"),
    (Op::Report, "report"),
    (Op::Barrier, "barrier"),
];

/// Returns the name of an item of a table.
fn name<T: PartialEq>(table: &[(T, &'static str)], item: T) -> &'static str {
    table.iter().find(|(i, _)| *i == item).map_or("?", |(_, name)| name)
}

#[cfg(test)]
fn item<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, n)| *n == name).map(|(item, _)| *item)
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if *self == Value::NONE { out.write_str("%none") } else { write!(out, "%{}", self.0) }
    }
}

impl Display for Ty {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(name(&TYPES, *self))
    }
}

impl Display for ValueDef {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (mutable, ty) = (if self.mutable { "mut " } else { "" }, self.ty);
        write!(out, "{mutable}{ty}{}", marks(self.by_x, self.by_row))
    }
}

fn marks(by_x: bool, by_row: bool) -> &'static str {
    match (by_x, by_row) {
        (false, false) => "",
        (true, false) => "(x)",
        (false, true) => "(row)",
        (true, true) => "(x, row)",
    }
}

impl Display for Input {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Input::Uniform(reg, scalar) => write!(out, "uniform(r{reg}, {})", scalar.name()),
            Input::Lanes(reg) => write!(out, "lanes(r{reg})"),
            Input::Base(memory) => write!(out, "base(mem {})", memory.index()),
            Input::Extent(memory, axis) => write!(out, "extent(mem {}, axis {axis})", memory.index()),
            Input::Pitch(memory, axis) => write!(out, "pitch(mem {}, axis {axis})", memory.index()),
            Input::Alone(memory) => write!(out, "alone(mem {})", memory.index()),
            Input::Column => out.write_str("column"),
            Input::Marks(memory) => write!(out, "marks(mem {})", memory.index()),
            Input::Mark(memory) => write!(out, "mark(mem {})", memory.index()),
            Input::First(axis) => write!(out, "first({})", name(&AXES, axis)),
            Input::Last(axis) => write!(out, "last({})", name(&AXES, axis)),
        }
    }
}

impl Display for Kept {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.number, marks(self.by_x, self.by_row))
    }
}

impl Display for Form {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.columns() {
            None => out.write_str(name(&FORMS, *self)),
            Some(columns) => {
                let own = OWN_FORMS.iter().find(|(form, _)| form(columns) == *self);
                write!(out, "{}({columns})", own.map_or("?", |(_, name)| name))
            }
        }
    }
}

impl Display for Op {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let elem = |e: Elem| name(&ELEMENTS, e);
        match *self {
            Op::Const(value) => write!(out, "const {value}"),
            Op::Input(input) => write!(out, "{input}"),
            Op::Coord(axis) => write!(out, "coord {}", name(&AXES, axis)),
            Op::Scalar(bin, e) => write!(out, "scalar {}.{}", name(&BINARY, bin), elem(e)),
            Op::Set(rel, e) => write!(out, "set {}.{}", name(&RELATIONS, rel), elem(e)),
            Op::Limit(c) => write!(out, "limit({c})"),
            Op::LoadScalar(cell) => write!(out, "load_scalar.{}", name(&CELLS, cell)),
            Op::Splat(bits) => write!(out, "splat #{bits:x}"),
            Op::BroadcastInput(input) => write!(out, "broadcast {input}"),
            Op::Iota(c) => write!(out, "iota({c})"),
            Op::Vector(bin, e) => write!(out, "{}.{}", name(&BINARY, bin), elem(e)),
            Op::Unary(un, e) => write!(out, "{}.{}", name(&UNARY, un), elem(e)),
            Op::Fma(e) => write!(out, "fma.{}", elem(e)),
            Op::Convert(from, to) => write!(out, "convert.{}.{}", elem(from), elem(to)),
            Op::Call(function, e) => write!(out, "call {}.{}", Builtin::Math(function).name(), elem(e)),
            Op::Compare(rel, e) => write!(out, "compare {}.{}", name(&RELATIONS, rel), elem(e)),
            Op::MaskConst(all) => write!(out, "mask_const {}", name(&BOOLS, all)),
            Op::Load(cell, form) => write!(out, "load.{}.{form}", name(&CELLS, cell)),
            Op::Store(cell, form) => write!(out, "store.{}.{form}", name(&CELLS, cell)),
            Op::Atomic(update, e) => write!(out, "atomic {}.{}", name(&UPDATES, update), elem(e)),
            Op::Warp(warp, e) => write!(out, "warp {}.{}", name(&WARPS, warp), elem(e)),
            Op::Output(number) => write!(out, "output({number})"),
            Op::Word(number) => write!(out, "word({number})"),
            Op::Keep(kept) => write!(out, "keep {kept}"),
            Op::Kept(kept) => write!(out, "kept {kept}"),
            Op::Touch(cell, form, note) => write!(out, "touch.{}.{form}({note})", name(&CELLS, cell)),
            Op::CheckRow(c) => write!(out, "check_row({c})"),
            plain => out.write_str(name(&PLAIN, plain)),
        }
    }
}

/// The operation with its operands, without the result.
struct Right<'a>(&'a Inst);

impl Display for Right<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Inst { op, args, mask, .. } = self.0;
        write!(out, "{op}")?;
        let used = args.iter().rposition(|a| *a != Value::NONE).map_or(0, |last| last + 1);
        for (k, arg) in args[..used].iter().enumerate() {
            write!(out, "{} {arg}", if k == 0 { "" } else { "," })?;
        }
        if *mask == Value::NONE { Ok(()) } else { write!(out, " under {mask}") }
    }
}

impl Display for Inst {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.dst != Value::NONE {
            write!(out, "{} = ", self.dst)?;
        }
        write!(out, "{}", Right(self))
    }
}

impl Display for Cond {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Cond::Always => Ok(()),
            Cond::Scalar(rel, e, a, b) => write!(out, " if {}.{} {a}, {b}", name(&RELATIONS, rel), name(&ELEMENTS, e)),
            Cond::None(mask) => write!(out, " if none {mask}"),
        }
    }
}

impl Display for Region {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut printer = Printer { region: self, typed: vec![false; self.values.len()], out: &mut text };
        printer.region()?;
        out.write_str(&text)
    }
}

struct Printer<'a> {
    region: &'a Region,
    /// Values whose type has been printed.
    typed: Vec<bool>,
    out: &'a mut String,
}

impl Printer<'_> {
    fn region(&mut self) -> fmt::Result {
        let Region { values, setup, body, together, wide, whole, .. } = self.region;
        write!(self.out, "region{}{}", if *together { " together" } else { "" }, if *wide { " wide" } else { "" })?;
        if let Some([x, y, z]) = whole {
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
        let Region { values, setup, body, reads, writes, memories, owned, reports, accesses, kept, .. } = self.region;
        let mut defined = vec![false; values.len()];
        let mut note = |inst: &Inst| {
            if let Some(defined) = defined.get_mut(inst.dst.index()) {
                *defined = true;
            }
        };
        setup.iter().for_each(&mut note);
        each_inst(body, &mut |inst| note(inst));
        for (number, def) in values.iter().enumerate().filter(|(n, _)| !defined[*n]) {
            writeln!(self.out, "value %{number}: {def}")?;
        }
        for &Touched { memory, loads, stores, own, fresh, updates, restored } in memories {
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
        for Report { memory, store, note, first, loops, nest } in reports {
            let store = if *store { " store" } else { " load" };
            writeln!(self.out, "report {}{store} note {note} first {first} loops {loops} nest {nest}", memory.index())?;
        }
        for access in accesses {
            write!(self.out, "access {}", access.address)?;
            if access.columns != 0 {
                write!(self.out, " + {}", access.columns)?;
            }
            if access.offsets != Value::NONE {
                write!(self.out, ", {}", access.offsets)?;
            }
            write!(self.out, " of {}:", access.memory.index())?;
            for (k, check) in access.checks.iter().enumerate() {
                write!(self.out, "{} {}", if k == 0 { "" } else { ";" }, Right(&check.inst()))?;
            }
            writeln!(self.out)?;
        }
        for ty in kept {
            writeln!(self.out, "kept {ty}")?;
        }
        let mut origins: Vec<_> = self.region.origins.iter().collect();
        origins.sort();
        for (value, origin) in origins {
            writeln!(self.out, "origin {value} of {origin}")?;
        }
        for reg in reads {
            writeln!(self.out, "read r{reg}")?;
        }
        for Written { reg, scalar, uniform } in writes {
            writeln!(self.out, "write r{reg}: {} {}", scalar.name(), if *uniform { "uniform" } else { "lanes" })?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst, depth: usize) -> fmt::Result {
        self.indent(depth);
        match self.region.values.get(inst.dst.index()) {
            Some(def) if !std::mem::replace(&mut self.typed[inst.dst.index()], true) => {
                writeln!(self.out, "{}: {def} = {}", inst.dst, Right(inst))
            }
            _ => writeln!(self.out, "{inst}"),
        }
    }

    fn nodes(&mut self, nodes: &[Node], depth: usize) -> fmt::Result {
        for node in nodes {
            match node {
                Node::Inst(inst) => self.inst(inst, depth)?,
                Node::Branch(cond, exit) => {
                    self.indent(depth);
                    writeln!(self.out, "branch 'e{}{cond}", exit.0)?;
                }
                Node::Block(..) | Node::Loop(_) | Node::Each(_) => {
                    self.indent(depth);
                    let inner = match node {
                        Node::Block(exit, inner) => {
                            writeln!(self.out, "block 'e{} {{", exit.0)?;
                            inner
                        }
                        Node::Loop(inner) => {
                            writeln!(self.out, "loop {{")?;
                            inner
                        }
                        Node::Each(inner) => {
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
