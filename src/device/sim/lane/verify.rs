//! The verifier of LaneIR. Input: a region, as it is built or after a pass. Output: nothing, or the first violation, with the rule's
//! name and the instruction.
//!
//! What machine code relies on:
//! - **R1 tables**: values, registers, memories and outputs that instructions name are in the region's tables; `wide` says whether
//!   there is a `v64`.
//! - **R2 types**: each operation has the operands and the result of its signature: 8-byte elements in `v64` and `i64`, others in
//!   `v32` and `i32`. Scalars are integers. A float remainder, a wide vector quotient, an atomic `and` of floats and the like do not
//!   exist.
//! - **R3 masks**: loads, stores, atomics, operations of warps and `touch` (but loads of one element for all lanes), `check_row`,
//!   `check_lanes`, `leave_any`, `any` and `store_reg` have a mask; `check_one`, comparisons, operations and moves of vectors and moves of masks may
//!   have one, nothing else has. Masks are masks. In a region for whole groups, what has no mask is for all lanes; `any`, atomics,
//!   operations of warps and `touch` have one.
//! - **R4 setup**: the setup only has pure operations on its own values (the body's are not defined yet), without division of
//!   vectors of integers, and `check_range`, which is nowhere else.
//! - **R5 single**: a value that is not mutable has one definition. A vector operation or move under a mask defines a mutable value.
//! - **R6 exits**: a branch names the exit of a block around it. Exits are distinct.
//! - **R7 defined**: on every path to a use there is a definition in front of it. (A move under a mask uses what it overwrites,
//!   a compare-exchange what it expects.)
//! - **R8 coordinates**: scalars and vectors that depend on where a vector starts in its row, or on the row, are marked. Control,
//!   outputs and divisors do not depend on it.
//! - **R9 checked**: on every path to a load, store, atomic or `touch` there are, in front of it, all checks that its [`Access`] lists, each for at
//!   least the lanes of its mask, and the operands of these checks have not changed since. An access lists a check per axis, or
//!   several where a check of the first and of the last iteration stands for those of a loop. A check is not needed where the
//!   definitions of its operands say that it passes ([`super::bounds`]).
//! - **R10 own**: accesses of a form of local arrays go to local arrays, and others do not. Of an array that the region is said to
//!   zero before anything else (`fresh`), there is on every path to a load a store in front of it.
//! - **R11 updates**: atomics go to memories that are listed with updates, loads and stores, and to no local array. (Other stores to
//!   them are then logged where the region may leave.)
//! - **R12 phases**: barriers are in regions that have some, in front of their division into phases. Phases are in regions for blocks of
//!   known extents, and in no other phase. Outside of them there are only unmarked scalars, from operations without effect, and control;
//!   what a phase defines is not read outside of it.
//! - **R13 kept**: what is kept has the type of its place, and the same marks where it is kept and where it is loaded; on every path to a
//!   load, a phase in front of it has kept it. Outside of phases only unmarked scalars are loaded.
//!
//! Phases have their own names for values of others. R9 is about the values in the names of before ([`Region::origins`]): what a phase has
//! checked, it has checked for all batches. What it takes from the division is that a name and its origin are the same value.
//!
//! What R9 takes from the builder: that the address is that of the listed access's indices, and that the checks of first and last
//! iterations include those between.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::bounds::Definitions;
use super::*;
use crate::lang::ops::WarpOp;

/// Returns the first violation, as text.
pub(crate) fn verify(region: &Region) -> Result<(), String> {
    let mut insts: Vec<&Inst> = region.setup.iter().collect();
    each_inst(&region.body, &mut |inst| insts.push(inst));
    tables(region, &insts)?;
    for inst in &insts {
        types(region, inst).map_err(at("R2 types", inst))?;
        masks(region, inst).map_err(at("R3 masks", inst))?;
    }
    for inst in &region.setup {
        setup(region, inst).map_err(at("R4 setup", inst))?;
    }
    phases(region, &region.body, false)?;
    let of_setup = |inst: &&&Inst| matches!(inst.op, Op::CheckRange | Op::Word(_) | Op::Report);
    if let Some(inst) = insts[region.setup.len()..].iter().find(of_setup) {
        return Err(at("R4 setup", inst)("a check of the setup".into()));
    }
    single(region, &insts)?;
    coordinates(region, &insts)?;
    let mut walk = Walk { region, definitions: Definitions::of(region), exits: vec![], seen: FxHashSet::default() };
    let mut tracked: Vec<bool> = region.values.iter().map(|def| def.ty == Ty::Mask).collect();
    for inst in insts.iter().filter(|inst| inst.leaves()) {
        let args = inst.args.iter().filter(|&&v| v != Value::NONE);
        args.for_each(|&v| [v, region.origin(v)].iter().for_each(|v| tracked[v.index()] = true));
    }
    let defined = vec![false; region.values.len()];
    let kept = vec![false; region.kept.len()];
    let state = State { defined, checks: vec![], zeroed: vec![], kept, tracked: tracked.into() };
    let mut state = Some(state);
    for inst in &region.setup {
        walk.inst(inst, &mut state)?;
    }
    walk.nodes(&region.body, &mut state)
}

/// Panics with the region's text if it is invalid, in builds with debug assertions.
pub(crate) fn debug_verify(region: &Region, after: &str) {
    if cfg!(debug_assertions)
        && let Err(violation) = verify(region)
    {
        panic!("the region is wrong after {after}: {violation}\n{region}");
    }
}

fn at(rule: &'static str, inst: &Inst) -> impl Fn(String) -> String {
    let inst = *inst;
    move |message| format!("{rule}: {message} in `{inst}`")
}

// Tables

fn tables(region: &Region, insts: &[&Inst]) -> Result<(), String> {
    let known = |v: Value| v == Value::NONE || v.index() < region.values.len();
    let wide = region.values.iter().any(|v| v.ty == Ty::V64);
    if wide != region.wide {
        return Err("R1 tables: `wide` is not what the values say".into());
    }
    for inst in insts {
        let fail = |message: &str| Err(at("R1 tables", inst)(message.to_string()));
        if !inst.args.iter().chain([&inst.dst, &inst.mask]).all(|&v| known(v)) {
            return fail("a value that does not exist");
        }
        let missing = match inst.op {
            Op::Output(number) => region.writes.iter().filter(|w| w.uniform).count() <= number as usize,
            Op::Input(input) | Op::BroadcastInput(input) => !input_is_listed(region, input),
            Op::Coord(axis) => axis > 2,
            Op::Word(number) => number >= region.reports.len() as u32 * REPORT_WORDS,
            Op::Keep(kept) | Op::Kept(kept) => kept.number as usize >= region.kept.len(),
            _ => false,
        };
        if missing {
            return fail("what is not in the tables");
        }
    }
    let of_nodes = branches(&region.body);
    let conditions = of_nodes.iter().flat_map(|cond| cond.uses());
    let of_accesses = region.accesses.iter().flat_map(|access| access.values());
    let of_names = region.origins.iter().flat_map(|(&name, &origin)| [name, origin]);
    match conditions.chain(of_accesses).chain(of_names).find(|&v| !known(v)) {
        Some(value) => Err(format!("R1 tables: {value} does not exist")),
        None => Ok(()),
    }
}

fn input_is_listed(region: &Region, input: Input) -> bool {
    match input {
        Input::Lanes(reg) => region.reads.contains(&reg) || region.writes.iter().any(|w| w.reg == reg && !w.uniform),
        Input::Base(memory) | Input::Extent(memory, _) | Input::Pitch(memory, _) | Input::Alone(memory) => {
            region.memories.iter().any(|m| m.memory == memory)
        }
        Input::Column => region.has_own(),
        Input::Marks(memory) | Input::Mark(memory) => region.owned.contains(&(memory, true)),
        Input::First(axis) | Input::Last(axis) => axis <= 2,
        Input::Uniform(..) => true,
    }
}

fn branches(nodes: &[Node]) -> Vec<Cond> {
    let mut found = vec![];
    for node in nodes {
        match node {
            Node::Branch(cond, _) => found.push(*cond),
            Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => found.extend(branches(inner)),
            Node::Inst(_) => {}
        }
    }
    found
}

// Types

/// What an operation's operands and result have to be.
enum Signature {
    Of(Vec<Ty>, Option<Ty>),
    Wrong(&'static str),
}

fn types(region: &Region, inst: &Inst) -> Result<(), String> {
    let ty = |v: Value| (v != Value::NONE).then(|| region.ty(v));
    let [a, b, c] = inst.args.map(ty);
    let dst = ty(inst.dst);
    let (args, result) = match signature(inst.op, [a, b, c], dst) {
        Signature::Of(args, result) => (args, result),
        Signature::Wrong(message) => return Err(message.into()),
    };
    let found: Vec<Option<Ty>> = vec![a, b, c];
    let matches = (0..3).all(|k| found[k] == args.get(k).copied());
    let text = |ty: Option<Ty>| ty.map_or("none".to_string(), |ty| ty.to_string());
    if !matches {
        let list =
            |tys: Vec<Option<Ty>>| tys.into_iter().flatten().map(|t| text(Some(t))).collect::<Vec<_>>().join(", ");
        let expected = list(args.iter().copied().map(Some).collect());
        return Err(format!("operands of types ({}), not ({expected}),", list(found)));
    }
    if dst != result {
        return Err(format!("a result of type {}, not {},", text(dst), text(result)));
    }
    Ok(())
}

/// Returns the signature; where an operation has several, the one that suits the types found.
fn signature(op: Op, [a, b, _]: [Option<Ty>; 3], dst: Option<Ty>) -> Signature {
    use Signature::{Of, Wrong};
    use Ty::*;
    let scalar = |ty: Option<Ty>| ty.filter(|t| t.is_scalar()).unwrap_or(I32);
    let vector = |ty: Option<Ty>| ty.filter(|t| t.is_vector()).unwrap_or(V32);
    let word = |wide: bool| if wide { I64 } else { I32 };
    match op {
        Op::Const(_) => Of(vec![], Some(scalar(dst))),
        Op::Input(Input::Uniform(_, of)) if of.is_float() => Wrong("a float as a scalar"),
        Op::Input(Input::Uniform(_, of)) => Of(vec![], Some(word(of.size() == 8))),
        Op::Input(_) => Of(vec![], Some(I64)),
        Op::Coord(_) => Of(vec![], Some(I32)),
        Op::Scalar(_, e) | Op::Set(_, e) if e.is_float() => Wrong("scalar floats"),
        Op::Scalar(_, e) => Of(vec![e.scalar(); 2], Some(e.scalar())),
        Op::Set(_, e) => Of(vec![e.scalar(); 2], Some(I32)),
        Op::Sext | Op::Zext => Of(vec![I32], Some(I64)),
        Op::Trunc => Of(vec![I64], Some(I32)),
        Op::Choose => Of(vec![I32, scalar(b), scalar(b)], Some(scalar(b))),
        Op::Limit(0) | Op::CheckRow(0) => Wrong("a coefficient of 0"),
        Op::Limit(_) => Of(vec![I64], Some(I64)),
        Op::LoadScalar(cell) => Of(vec![I64], Some(word(cell == Cell::W8))),
        Op::FirstLane if a == Some(V64) => Of(vec![V64], Some(I64)),
        Op::FirstLane => Of(vec![V32], Some(I32)),
        Op::Any => Of(vec![Mask], Some(I32)),
        Op::Splat(bits) if dst == Some(V32) && bits >> 32 != 0 => Wrong("bits that 4-byte lanes do not have"),
        Op::Splat(_) | Op::Iota(_) => Of(vec![], Some(vector(dst))),
        Op::Broadcast if a == Some(I64) => Of(vec![I64], Some(V64)),
        Op::Broadcast => Of(vec![I32], Some(V32)),
        Op::BroadcastInput(Input::Uniform(_, of)) if of.size() < 8 => Of(vec![], Some(V32)),
        Op::BroadcastInput(_) => Of(vec![], Some(V64)),
        Op::LoadReg => Of(vec![I64], Some(vector(dst))),
        Op::Vector(bin, e) if !has_vectors(bin, e) => Wrong("an operation that elements of this type do not have"),
        Op::Vector(_, e) => Of(vec![e.vector(); 2], Some(e.vector())),
        Op::Unary(un, e) if !has_unary(un, e) => Wrong("an operation that elements of this type do not have"),
        Op::Unary(_, e) => Of(vec![e.vector()], Some(e.vector())),
        Op::Fma(e) if !e.is_float() => Wrong("integers"),
        Op::Fma(e) => Of(vec![e.vector(); 3], Some(e.vector())),
        Op::Convert(from, to) => Of(vec![from.vector()], Some(to.vector())),
        Op::FromHalf | Op::ToHalf => Of(vec![V32], Some(V32)),
        Op::Call(_, e) if e != Elem::F32 => Wrong("a function of this type"),
        Op::Call(function, e) => Of(vec![e.vector(); function.row().arity], Some(e.vector())),
        Op::Select => Of(vec![Mask, vector(b), vector(b)], Some(vector(b))),
        Op::Compare(_, e) => Of(vec![e.vector(); 2], Some(Mask)),
        Op::MaskConst(_) | Op::Entered => Of(vec![], Some(Mask)),
        Op::MaskOf => Of(vec![I32], Some(Mask)),
        Op::MaskOfLanes => Of(vec![V32], Some(Mask)),
        Op::LanesOfMask => Of(vec![Mask], Some(V32)),
        Op::MaskAnd | Op::MaskWithout | Op::MaskOr | Op::MaskXor => Of(vec![Mask; 2], Some(Mask)),
        Op::MaskNot => Of(vec![Mask], Some(Mask)),
        Op::Move => Of(vec![dst.unwrap_or(I32)], Some(dst.unwrap_or(I32))),
        Op::Load(cell, form) | Op::Store(cell, form) if form.columns().is_some() && cell.size() < 4 => {
            Wrong("a small element of a local array")
        }
        Op::Load(cell, form) if form.has_offsets() => Of(vec![I64, V32], Some(cell.vector())),
        Op::Load(cell, _) => Of(vec![I64], Some(cell.vector())),
        Op::Store(_, Form::One) => Wrong("a store of one element"),
        Op::Store(cell, form) if form.has_offsets() => Of(vec![I64, cell.vector(), V32], None),
        Op::Store(cell, _) => Of(vec![I64, cell.vector()], None),
        Op::Atomic(op, e) if !has_update(op, e) => Wrong("an operation that elements of this type do not have"),
        Op::Atomic(op, e) => {
            let result = dst.is_some() || op == AtomicOp::CompareExchange;
            Of(vec![I64, V32, e.vector()], result.then_some(e.vector()))
        }
        Op::Warp(op, e) => of_warp(op, e),
        Op::StoreReg => Of(vec![I64, vector(b)], None),
        Op::Output(_) if a == Some(Mask) => Wrong("a mask"),
        Op::Output(_) => Of(vec![a.unwrap_or(I32)], None),
        Op::CheckOne => Of(vec![I64; 2], None),
        Op::CheckRow(_) | Op::CheckRange => Of(vec![I64; 3], None),
        Op::CheckLanes => Of(vec![V32; 2], None),
        Op::LeaveAny => Of(vec![Mask], None),
        Op::LeaveZero => Of(vec![scalar(a)], None),
        Op::Word(_) => Of(vec![I64], None),
        Op::Report | Op::Barrier => Of(vec![], None),
        Op::Keep(_) => Of(vec![a.unwrap_or(I32)], None),
        Op::Kept(_) => Of(vec![], Some(dst.unwrap_or(I32))),
        Op::Touch(_, form, _) if form.columns().is_some() => Wrong("a touch of a local array"),
        Op::Touch(_, form, _) if form.has_offsets() => Of(vec![I64, V32], None),
        Op::Touch(..) => Of(vec![I64], None),
    }
}

fn has_vectors(bin: Bin, elem: Elem) -> bool {
    match bin {
        Bin::Add | Bin::Sub | Bin::Mul | Bin::Min | Bin::Max => true,
        Bin::Div => elem.is_float() || !elem.is_wide(),
        Bin::Rem => !elem.is_float() && !elem.is_wide(),
        Bin::And | Bin::Or | Bin::Xor | Bin::Shl | Bin::Shr => !elem.is_float(),
    }
}

fn of_warp(op: WarpOp, e: Elem) -> Signature {
    use Signature::{Of, Wrong};
    match op {
        WarpOp::Ballot | WarpOp::Any | WarpOp::All if e != Elem::U32 => Wrong("a vote of lanes that are no bits"),
        WarpOp::Ballot => Of(vec![Ty::Mask], Some(Ty::V32)),
        WarpOp::Any | WarpOp::All => Of(vec![Ty::Mask], Some(Ty::Mask)),
        WarpOp::MatchAny => Of(vec![e.vector()], Some(Ty::V32)),
        WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
            Of(vec![e.vector(), Ty::V32], Some(e.vector()))
        }
        WarpOp::ReduceAnd | WarpOp::ReduceOr | WarpOp::ReduceXor if e.is_float() => {
            Wrong("an operation that elements of this type do not have")
        }
        WarpOp::ReduceAdd
        | WarpOp::ReduceMin
        | WarpOp::ReduceMax
        | WarpOp::ReduceAnd
        | WarpOp::ReduceOr
        | WarpOp::ReduceXor => Of(vec![e.vector()], Some(e.vector())),
    }
}

fn has_update(op: AtomicOp, elem: Elem) -> bool {
    !matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) || !elem.is_float()
}

fn has_unary(un: Un, elem: Elem) -> bool {
    match un {
        Un::Neg | Un::Abs => elem.is_float() || !elem.is_wide(),
        Un::Rsqrt => elem == Elem::F32,
        Un::Sqrt | Un::Floor | Un::Ceil | Un::Trunc | Un::Round => elem.is_float(),
    }
}

// Masks

fn masks(region: &Region, inst: &Inst) -> Result<(), String> {
    let (mut needs, mut may) = (false, false);
    match inst.op {
        Op::Load(_, Form::One) | Op::CheckOne | Op::LeaveAny => may = true,
        Op::Load(..) | Op::Store(..) | Op::StoreReg => needs = true,
        Op::CheckRow(_) | Op::CheckLanes => needs = true,
        Op::Any | Op::Atomic(..) | Op::Warp(..) | Op::Touch(..) if inst.mask == Value::NONE => {
            return Err("no mask".into());
        }
        Op::Any | Op::Atomic(..) | Op::Warp(..) | Op::Touch(..) => may = true,
        Op::Move => may = !region.ty(inst.dst).is_scalar(),
        Op::Vector(..) | Op::Compare(..) => may = true,
        _ => {}
    }
    if inst.mask == Value::NONE {
        return if needs && region.whole.is_none() { Err("no mask".into()) } else { Ok(()) };
    }
    match region.ty(inst.mask) {
        Ty::Mask if needs || may => Ok(()),
        Ty::Mask => Err("a mask".into()),
        ty => Err(format!("a {ty} as the mask")),
    }
}

// The setup

fn setup(region: &Region, inst: &Inst) -> Result<(), String> {
    let allowed = match inst.op {
        Op::Const(_) | Op::Input(_) | Op::BroadcastInput(_) | Op::Splat(_) | Op::Iota(_) | Op::Broadcast => true,
        Op::Scalar(Bin::Div | Bin::Rem, _) => is_safe_divisor(region, inst.args[1]),
        Op::Scalar(..) | Op::Set(..) | Op::Sext | Op::Zext | Op::Trunc | Op::Choose | Op::Limit(_) => true,
        Op::Vector(Bin::Div | Bin::Rem, elem) => elem.is_float(),
        Op::Vector(..) | Op::Unary(..) | Op::Fma(_) | Op::Convert(..) | Op::FromHalf | Op::ToHalf => true,
        Op::CheckRange | Op::Word(_) | Op::Report => true,
        _ => false,
    };
    let mutable = inst.dst != Value::NONE && region.values[inst.dst.index()].mutable;
    match allowed {
        false => Err("an operation of the body".into()),
        true if mutable => Err("a mutable value".into()),
        true => Ok(()),
    }
}

// Phases

/// Checks the instructions outside of phases, and what is in them.
fn phases(region: &Region, nodes: &[Node], inside: bool) -> Result<(), String> {
    let divided = region.has_phases();
    for node in nodes {
        match node {
            Node::Inst(inst) => phase_inst(region, inst, divided, inside).map_err(at("R12 phases", inst))?,
            Node::Block(_, inner) | Node::Loop(inner) => phases(region, inner, inside)?,
            Node::Each(_) if inside => return Err("R12 phases: a phase in another one".into()),
            Node::Each(inner) => {
                if !region.together || region.whole.is_none_or(|extents| extents.contains(&0)) {
                    return Err("R12 phases: a phase of blocks of any extents".into());
                }
                phases(region, inner, true)?;
            }
            Node::Branch(..) => {}
        }
    }
    Ok(())
}

fn phase_inst(region: &Region, inst: &Inst, divided: bool, inside: bool) -> Result<(), String> {
    let plain = |def: &ValueDef| def.ty.is_scalar() && !def.by_x && !def.by_row;
    match inst.op {
        Op::Barrier if divided || !region.together => Err("a barrier".into()),
        Op::Keep(_) | Op::Kept(_) if !divided => Err("nothing to keep".into()),
        Op::Keep(_) if !inside => Err("nothing to keep".into()),
        Op::Keep(kept) | Op::Kept(kept) => {
            let value = if matches!(inst.op, Op::Keep(_)) { inst.args[0] } else { inst.dst };
            let def = region.values[value.index()];
            if (def.by_x, def.by_row) != (kept.by_x, kept.by_row) || region.kept[kept.number as usize] != def.ty {
                return Err(format!("a {def}"));
            }
            if inside || plain(&def) { Ok(()) } else { Err("what differs between batches".into()) }
        }
        _ if inside || !divided => Ok(()),
        Op::Const(_) | Op::Scalar(..) | Op::Set(..) | Op::Sext | Op::Zext | Op::Trunc | Op::Choose => Ok(()),
        Op::Limit(_) | Op::Move => Ok(()),
        _ => Err("what belongs into a phase".into()),
    }
    .and_then(|()| {
        let outside = divided && !inside && inst.dst != Value::NONE;
        if outside && !plain(&region.values[inst.dst.index()]) {
            Err("what differs between batches".into())
        } else {
            Ok(())
        }
    })
}

/// Returns whether a divisor is a constant that no quotient traps with: neither 0 nor -1.
fn is_safe_divisor(region: &Region, value: Value) -> bool {
    let own = |c: i64| if region.ty(value) == Ty::I64 { c } else { (c as i32).into() };
    let safe = |inst: &&Inst| matches!(inst.op, Op::Const(c) if ![0, -1].contains(&own(c)));
    region.setup.iter().any(|inst| inst.dst == value && safe(&inst))
}

fn single(region: &Region, insts: &[&Inst]) -> Result<(), String> {
    let mut defined = vec![false; region.values.len()];
    for inst in insts.iter().filter(|inst| inst.dst != Value::NONE) {
        let mutable = region.values[inst.dst.index()].mutable;
        let again = std::mem::replace(&mut defined[inst.dst.index()], true);
        if again && !mutable {
            return Err(at("R5 single", inst)("another definition of a value that is not mutable".into()));
        }
        if matches!(inst.op, Op::Move | Op::Vector(..)) && inst.mask != Value::NONE && !mutable {
            return Err(at("R5 single", inst)("a move under a mask of a value that is not mutable".into()));
        }
    }
    Ok(())
}

// Coordinates

fn coordinates(region: &Region, insts: &[&Inst]) -> Result<(), String> {
    let mut marks = vec![(false, false); region.values.len()];
    loop {
        let mut changed = false;
        for inst in insts.iter().filter(|i| i.dst != Value::NONE && region.ty(i.dst) != Ty::Mask) {
            let found = inst.varies(|v| marks[v.index()]);
            let mark = &mut marks[inst.dst.index()];
            let new = (mark.0 | found.0, mark.1 | found.1);
            changed |= new != *mark;
            *mark = new;
        }
        if !changed {
            break;
        }
    }
    for (number, (def, mark)) in region.values.iter().zip(&marks).enumerate() {
        if mark.0 & !def.by_x | mark.1 & !def.by_row {
            return Err(format!("R8 coordinates: %{number} is marked as {def}"));
        }
    }
    // A vector may be marked although it is the same for all, such as the choice of one of two that are.
    let varies = |v: Value| v != Value::NONE && region.ty(v).is_scalar() && marks[v.index()] != (false, false);
    for inst in insts {
        if matches!(inst.op, Op::Output(_) | Op::LeaveZero) && varies(inst.args[0]) {
            return Err(at("R8 coordinates", inst)(format!("{} differs between vectors", inst.args[0])));
        }
    }
    match branches(&region.body).into_iter().find(|cond| cond.uses().any(varies)) {
        Some(cond) => Err(format!("R8 coordinates: the condition differs between vectors in `branch{cond}`")),
        None => Ok(()),
    }
}

// Definitions, exits and checks, along all paths

/// A check that has been made.
#[derive(Clone, Debug, PartialEq)]
struct Made {
    check: Check,
    /// All lanes, or those of any of these masks.
    masks: Option<Vec<Value>>,
}

/// What holds at a point, on every path to it.
#[derive(Clone, Debug)]
struct State {
    defined: Vec<bool>,
    checks: Vec<Made>,
    /// Memories that have been stored to.
    zeroed: Vec<MemId>,
    /// What has been kept.
    kept: Vec<bool>,
    /// The values that checks name: operands of checks, and masks.
    tracked: Rc<[bool]>,
}

impl State {
    /// What holds in both.
    fn join(mut self, other: &State) -> State {
        self.defined.iter_mut().zip(&other.defined).for_each(|(a, b)| *a &= b);
        let checks = std::mem::take(&mut self.checks);
        self.checks = checks.into_iter().filter_map(|made| made.also(&other.checks)).collect();
        self.zeroed.retain(|memory| other.zeroed.contains(memory));
        self.kept.iter_mut().zip(&other.kept).for_each(|(a, b)| *a &= b);
        self
    }

    /// A value has got a new definition.
    fn define(&mut self, inst: &Inst, region: &Region) {
        self.defined[inst.dst.index()] = true;
        let dst = region.origin(inst.dst);
        // The same value by another name.
        let again = matches!(inst.op, Op::Kept(_)) || dst != inst.dst && !region.values[dst.index()].mutable;
        if !self.tracked[dst.index()] || again {
            return;
        }
        let inst = &Inst { dst, args: inst.args.map(|v| region.origin(v)), mask: region.origin(inst.mask), ..*inst };
        self.checks.retain(|made| !made.check.args.contains(&dst));
        // The mask that the new one is part of.
        let around: &[Value] = match inst.op {
            Op::MaskAnd => &inst.args[..2],
            Op::MaskWithout => &inst.args[..1],
            Op::Move if inst.mask == Value::NONE => &inst.args[..1],
            // Without a mask it has none of the lanes of another one for sure.
            Op::Compare(..) if inst.mask != Value::NONE => std::slice::from_ref(&inst.mask),
            _ => &[],
        };
        if around.contains(&dst) {
            // It only shrinks.
            return;
        }
        for masks in self.checks.iter_mut().filter_map(|made| made.masks.as_mut()) {
            masks.retain(|&m| m != dst);
            if around.iter().any(|a| masks.contains(a)) {
                masks.push(dst);
            }
        }
    }

    fn has(&self, check: &Check, mask: Value) -> bool {
        self.checks
            .iter()
            .any(|made| made.check == *check && made.masks.as_ref().is_none_or(|masks| masks.contains(&mask)))
    }
}

impl Made {
    /// What remains of it where paths meet.
    fn also(self, others: &[Made]) -> Option<Made> {
        let mut masks: FxHashSet<Value> = FxHashSet::default();
        for other in others.iter().filter(|o| o.check == self.check) {
            match (&self.masks, &other.masks) {
                (_, None) => return Some(self),
                (None, Some(of)) => masks.extend(of),
                (Some(a), Some(b)) => masks.extend(a.iter().filter(|m| b.contains(m))),
            }
        }
        let mut masks: Vec<Value> = masks.into_iter().collect();
        masks.sort();
        (!masks.is_empty()).then_some(Made { check: self.check, masks: Some(masks) })
    }
}

/// An open block: its exit, and what holds on all branches to it so far.
struct Target {
    exit: Exit,
    state: Option<State>,
}

struct Walk<'a> {
    region: &'a Region,
    definitions: Definitions,
    exits: Vec<Target>,
    seen: FxHashSet<Exit>,
}

impl Walk<'_> {
    /// Walks nodes; the state is `None` where control does not get to.
    fn nodes(&mut self, nodes: &[Node], state: &mut Option<State>) -> Result<(), String> {
        for node in nodes {
            match node {
                Node::Inst(inst) => self.inst(inst, state)?,
                Node::Branch(cond, exit) => self.branch(cond, *exit, state)?,
                Node::Block(exit, inner) => {
                    if !self.seen.insert(*exit) {
                        return Err(format!("R6 exits: there are two blocks 'e{}", exit.0));
                    }
                    self.exits.push(Target { exit: *exit, state: None });
                    self.nodes(inner, state)?;
                    let branches = self.exits.pop().and_then(|target| target.state);
                    *state = join(state.take(), branches);
                }
                Node::Loop(inner) => {
                    if let Some(state) = state {
                        each_inst(inner, &mut |inst| repeat(state, inst, self.region));
                    }
                    self.nodes(inner, state)?;
                    *state = None;
                }
                Node::Each(inner) => {
                    let before = state.as_ref().map(|state| state.defined.clone());
                    self.nodes(inner, state)?;
                    if let (Some(state), Some(before)) = (state.as_mut(), before) {
                        state.defined = before;
                    }
                }
            }
        }
        Ok(())
    }

    fn branch(&mut self, cond: &Cond, exit: Exit, state: &mut Option<State>) -> Result<(), String> {
        let fail = |message: &str| Err(format!("{message} in `branch 'e{}{cond}`", exit.0));
        let wrong = match *cond {
            Cond::Always => false,
            Cond::None(mask) => self.region.ty(mask) != Ty::Mask,
            Cond::Scalar(_, e, a, b) => e.is_float() || [a, b].iter().any(|&v| self.region.ty(v) != e.scalar()),
        };
        if wrong {
            return fail("R2 types: operands of other types");
        }
        let Some(target) = self.exits.iter_mut().rfind(|target| target.exit == exit) else {
            return fail("R6 exits: no block with this exit is open");
        };
        let Some(here) = state else { return Ok(()) };
        if let Some(value) = cond.uses().find(|v| !here.defined[v.index()]) {
            return fail(&format!("R7 defined: {value} may not be defined"));
        }
        target.state = join(target.state.take(), Some(here.clone()));
        if *cond == Cond::Always {
            *state = None;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst, state: &mut Option<State>) -> Result<(), String> {
        let Some(state) = state else { return Ok(()) };
        if let Some(value) = inst.uses().find(|v| !state.defined[v.index()]) {
            return Err(at("R7 defined", inst)(format!("{value} may not be defined")));
        }
        self.access(inst, state).map_err(|(rule, message)| at(rule, inst)(message))?;
        if inst.dst != Value::NONE {
            state.define(inst, self.region);
        }
        if let Op::Keep(kept) = inst.op {
            state.kept[kept.number as usize] = true;
        }
        if let Op::Kept(kept) = inst.op
            && !state.kept[kept.number as usize]
        {
            return Err(at("R13 kept", inst)("it may not have been kept".into()));
        }
        if matches!(inst.op, Op::CheckOne | Op::CheckRow(_) | Op::CheckLanes | Op::CheckRange) {
            let all = matches!(inst.op, Op::CheckOne | Op::CheckRange) || inst.mask == Value::NONE;
            let masks = if all { None } else { Some(vec![self.region.origin(inst.mask)]) };
            let args = inst.args.map(|v| self.region.origin(v));
            state.checks.push(Made { check: Check { op: inst.op, args }, masks });
        }
        Ok(())
    }

    /// Looks for the checks in front of an access. Where several accesses have one address, those of one of them suffice. The error
    /// has the rule.
    fn access(&self, inst: &Inst, state: &mut State) -> Result<(), (&'static str, String)> {
        let (offsets, form) = match inst.op {
            Op::LoadScalar(_) => (Value::NONE, Form::One),
            Op::Load(_, form) | Op::Touch(_, form, _) => (inst.args[1], form),
            Op::Store(_, form) => (inst.args[2], form),
            Op::Atomic(..) => (inst.args[1], Form::Lanes),
            _ => return Ok(()),
        };
        let (atomic, touch) = (matches!(inst.op, Op::Atomic(..)), matches!(inst.op, Op::Touch(..)));
        let (store, columns) = (atomic || matches!(inst.op, Op::Store(..)), form.columns());
        let mut missing = ("R9 checked", format!("no access has the address {}", inst.args[0]));
        let same = |a: &&Access| (a.address, a.offsets, a.columns) == (inst.args[0], offsets, columns.unwrap_or(0));
        for access in self.region.accesses.iter().filter(same) {
            let number = access.memory.index();
            let of_kind = |m: &Touched| if store { m.stores } else { m.loads || touch };
            let listed = |m: &&Touched| m.memory == access.memory && of_kind(m);
            let Some(memory) = self.region.memories.iter().find(listed) else {
                missing = ("R9 checked", format!("memory {number} is not listed for it"));
                continue;
            };
            if atomic && !(memory.updates && memory.loads && memory.stores && !memory.own && !memory.fresh) {
                missing = ("R11 updates", format!("memory {number} is not listed for it"));
                continue;
            }
            if memory.own != columns.is_some() {
                missing = ("R10 own", format!("memory {number} has accesses of another form"));
                continue;
            }
            if memory.fresh && !store && !state.zeroed.contains(&memory.memory) {
                missing = ("R10 own", format!("memory {number} is loaded before it is zeroed"));
                continue;
            }
            let mask = self.region.origin(inst.mask);
            let made = |check: &Check| state.has(check, mask) || self.definitions.passes(check);
            match access.checks.iter().find(|check| !made(check)) {
                None => {
                    if store && !state.zeroed.contains(&memory.memory) {
                        state.zeroed.push(memory.memory);
                    }
                    return Ok(());
                }
                Some(check) => missing = ("R9 checked", format!("`{}` is missing", check.inst())),
            }
        }
        Err(missing)
    }
}

fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(&b)),
        (a, b) => a.or(b),
    }
}

/// Drops what an instruction of a loop's body changes, at the start of the loop.
fn repeat(state: &mut State, inst: &Inst, region: &Region) {
    if inst.dst != Value::NONE {
        let defined = state.defined[inst.dst.index()];
        // What the mask is part of then is not known now.
        let unknown = Inst { op: if shrinks(inst) { inst.op } else { Op::Entered }, ..*inst };
        state.define(&unknown, region);
        state.defined[inst.dst.index()] = defined;
    }
}

fn shrinks(inst: &Inst) -> bool {
    match inst.op {
        Op::MaskAnd => inst.args[..2].contains(&inst.dst),
        Op::MaskWithout => inst.args[0] == inst.dst,
        Op::Compare(..) => inst.mask == inst.dst,
        _ => false,
    }
}
