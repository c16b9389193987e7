//! The verifier of LaneIR.
//!
//! Input: a region, as built or after a pass. Output: the first violation, if any, with the rule's name and the
//! instruction. Main idea: machine code relies on the rules R1 to R13, which `docs/internals/verifier-rules.md` lists.
//! A dataflow analysis over all paths tracks definitions and performed checks.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::value_ranges::ValueDefinitions;
use super::*;
use crate::rule_violation::{RuleViolation, violation};
use clk_scalar::ops::WarpOp;

/// Verifies a region. The error is the first violation.
pub(crate) fn verify(region: &LaneRegion) -> Result<(), RuleViolation> {
    let mut insts: Vec<&LaneInst> = region.setup.iter().collect();
    for_each_inst(&region.body, &mut |inst| insts.push(inst));
    tables(region, &insts)?;
    for inst in &insts {
        types(region, inst)?;
        masks(region, inst)?;
    }
    for inst in &region.setup {
        setup(region, inst)?;
    }
    phases(region, &region.body, false)?;
    let of_setup =
        |inst: &&&LaneInst| matches!(inst.op, LaneOp::CheckRange | LaneOp::ReportWord(_) | LaneOp::SubmitReports);
    if let Some(inst) = insts[region.setup.len()..].iter().find(of_setup) {
        return Err(violation_in(inst, "R4 setup", "an operation of the setup"));
    }
    single(region, &insts)?;
    coordinates(region, &insts)?;
    let mut walk =
        RegionVerifier { region, definitions: ValueDefinitions::of(region), exits: vec![], seen: FxHashSet::default() };
    let mut tracked: Vec<bool> = region.values.iter().map(|def| def.ty == LaneTy::Mask).collect();
    for inst in insts.iter().filter(|inst| inst.may_exit()) {
        let args = inst.args.iter().filter(|&&v| v != LaneValue::NONE);
        args.for_each(|&v| [v, region.phase_origin(v)].iter().for_each(|v| tracked[v.index()] = true));
    }
    let defined = vec![false; region.values.len()];
    let saved_slots = vec![false; region.phase_slots.len()];
    let state = VerifierState { defined, checks: vec![], zeroed: vec![], saved_slots, tracked: tracked.into() };
    let mut state = Some(state);
    for inst in &region.setup {
        walk.inst(inst, &mut state)?;
    }
    walk.nodes(&region.body, &mut state)
}

/// In builds with debug assertions, panics with the region's text if the region is invalid.
pub(crate) fn debug_verify(region: &LaneRegion, after: &str) {
    if cfg!(debug_assertions)
        && let Err(violation) = verify(region)
    {
        panic!("the region is wrong after {after}: {violation}\n{region}");
    }
}

/// Returns a violation by an instruction.
fn violation_in(inst: &LaneInst, rule: &'static str, message: impl Into<String>) -> RuleViolation {
    violation(rule, message).at(format_args!(" in `{inst}`"))
}

// Rules about the region's tables

fn tables(region: &LaneRegion, insts: &[&LaneInst]) -> Result<(), RuleViolation> {
    let exists = |v: LaneValue| v == LaneValue::NONE || v.index() < region.values.len();
    let wide = region.values.iter().any(|v| v.ty == LaneTy::V64);
    if wide != region.wide {
        return Err(violation("R1 tables", "`wide` does not match the types of the values"));
    }
    for inst in insts {
        let fail = |message| Err(violation_in(inst, "R1 tables", message));
        if !inst.args.iter().chain([&inst.dst, &inst.mask]).all(|&v| exists(v)) {
            return fail("a value that does not exist");
        }
        let missing = match inst.op {
            LaneOp::Output(number) => region.writes.iter().filter(|w| w.uniform).count() <= number as usize,
            LaneOp::Input(input) | LaneOp::BroadcastInput(input) => !input_is_listed(region, input),
            LaneOp::Coord(axis) => axis > 2,
            LaneOp::ReportWord(number) => number >= region.reports.len() as u32 * REPORT_WORDS,
            LaneOp::SaveSlot(slot) | LaneOp::LoadSlot(slot) => slot.number as usize >= region.phase_slots.len(),
            _ => false,
        };
        if missing {
            return fail("an operand that is not in the tables");
        }
    }
    let of_nodes = branches(&region.body);
    let conditions = of_nodes.iter().flat_map(|cond| cond.uses());
    let of_accesses = region.accesses.iter().flat_map(|access| access.values());
    let of_names = region.phase_origins.iter().flat_map(|(&name, &origin)| [name, origin]);
    match conditions.chain(of_accesses).chain(of_names).find(|&v| !exists(v)) {
        Some(value) => Err(violation("R1 tables", format!("{value} does not exist"))),
        None => Ok(()),
    }
}

fn input_is_listed(region: &LaneRegion, input: RegionInput) -> bool {
    match input {
        RegionInput::LaneRegister(reg) => {
            region.reads.contains(&reg) || region.writes.iter().any(|w| w.reg == reg && !w.uniform)
        }
        RegionInput::BaseAddress(memory)
        | RegionInput::Extent(memory, _)
        | RegionInput::Pitch(memory, _)
        | RegionInput::Exclusive(memory) => region.memories.iter().any(|m| m.memory == memory),
        RegionInput::ColumnBytes => region.has_local_arrays(),
        RegionInput::InitBytes(memory) | RegionInput::InitValue(memory) => region.owned.contains(&(memory, true)),
        RegionInput::FirstCoord(axis) | RegionInput::LastCoord(axis) => axis <= 2,
        RegionInput::Uniform(..) => true,
    }
}

fn branches(nodes: &[LaneNode]) -> Vec<BranchCond> {
    let mut conditions = vec![];
    for node in nodes {
        match node {
            LaneNode::Branch(cond, _) => conditions.push(*cond),
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => {
                conditions.extend(branches(inner))
            }
            LaneNode::Inst(_) => {}
        }
    }
    conditions
}

// Rules about types

/// The types that an operation requires.
enum OpSignature {
    Of(Vec<LaneTy>, Option<LaneTy>),
    Wrong(&'static str),
}

fn types(region: &LaneRegion, inst: &LaneInst) -> Result<(), RuleViolation> {
    let ty = |v: LaneValue| (v != LaneValue::NONE).then(|| region.ty(v));
    let [a, b, c] = inst.args.map(ty);
    let dst = ty(inst.dst);
    let (args, result) = match signature(inst.op, [a, b, c], dst) {
        OpSignature::Of(args, result) => (args, result),
        OpSignature::Wrong(message) => return Err(violation_in(inst, "R2 types", message)),
    };
    let actual: Vec<Option<LaneTy>> = vec![a, b, c];
    let matches = (0..3).all(|k| actual[k] == args.get(k).copied());
    let text = |ty: Option<LaneTy>| ty.map_or("none".to_string(), |ty| ty.to_string());
    if !matches {
        let list =
            |tys: Vec<Option<LaneTy>>| tys.into_iter().flatten().map(|t| text(Some(t))).collect::<Vec<_>>().join(", ");
        let expected = list(args.iter().copied().map(Some).collect());
        return Err(violation_in(inst, "R2 types", format!("operands of types ({}), not ({expected}),", list(actual))));
    }
    if dst != result {
        return Err(violation_in(inst, "R2 types", format!("a result of type {}, not {},", text(dst), text(result))));
    }
    Ok(())
}

/// Returns the signature of an operation. If the operation has several, chooses the one that matches the given types.
fn signature(op: LaneOp, [a, b, _]: [Option<LaneTy>; 3], dst: Option<LaneTy>) -> OpSignature {
    use LaneTy::*;
    use OpSignature::{Of, Wrong};
    let scalar = |ty: Option<LaneTy>| ty.filter(|t| t.is_scalar()).unwrap_or(I32);
    let vector = |ty: Option<LaneTy>| ty.filter(|t| t.is_vector()).unwrap_or(V32);
    let word = |wide: bool| if wide { I64 } else { I32 };
    match op {
        LaneOp::Const(_) => Of(vec![], Some(scalar(dst))),
        LaneOp::Input(RegionInput::Uniform(_, of)) if of.is_float() => Wrong("a float as a scalar"),
        LaneOp::Input(RegionInput::Uniform(_, of)) => Of(vec![], Some(word(of.size() == 8))),
        LaneOp::Input(_) => Of(vec![], Some(I64)),
        LaneOp::Coord(_) => Of(vec![], Some(I32)),
        LaneOp::Scalar(_, e) | LaneOp::CompareScalar(_, e) if e.is_float() => Wrong("scalar floats"),
        LaneOp::Scalar(_, e) => Of(vec![e.scalar_ty(); 2], Some(e.scalar_ty())),
        LaneOp::CompareScalar(_, e) => Of(vec![e.scalar_ty(); 2], Some(I32)),
        LaneOp::Sext | LaneOp::Zext => Of(vec![I32], Some(I64)),
        LaneOp::Trunc => Of(vec![I64], Some(I32)),
        LaneOp::SelectScalar => Of(vec![I32, scalar(b), scalar(b)], Some(scalar(b))),
        LaneOp::RowLimit(0) | LaneOp::CheckRow(0) => Wrong("a coefficient of 0"),
        LaneOp::RowLimit(_) => Of(vec![I64], Some(I64)),
        LaneOp::LoadScalar(cell) => Of(vec![I64], Some(word(cell == MemoryWidth::W8))),
        LaneOp::FirstLane if a == Some(V64) => Of(vec![V64], Some(I64)),
        LaneOp::FirstLane => Of(vec![V32], Some(I32)),
        LaneOp::AnyActive => Of(vec![Mask], Some(I32)),
        LaneOp::Splat(bits) if dst == Some(V32) && bits >> 32 != 0 => Wrong("bits that 4-byte lanes do not have"),
        LaneOp::Splat(_) | LaneOp::Iota(_) => Of(vec![], Some(vector(dst))),
        LaneOp::Broadcast if a == Some(I64) => Of(vec![I64], Some(V64)),
        LaneOp::Broadcast => Of(vec![I32], Some(V32)),
        LaneOp::BroadcastInput(RegionInput::Uniform(_, of)) if of.size() < 8 => Of(vec![], Some(V32)),
        LaneOp::BroadcastInput(_) => Of(vec![], Some(V64)),
        LaneOp::LoadReg => Of(vec![I64], Some(vector(dst))),
        LaneOp::Vector(bin, e) if !has_vectors(bin, e) => Wrong("an operation that elements of this type do not have"),
        LaneOp::Vector(_, e) => Of(vec![e.vector_ty(); 2], Some(e.vector_ty())),
        LaneOp::Unary(un, e) if !has_unary(un, e) => Wrong("an operation that elements of this type do not have"),
        LaneOp::Unary(_, e) => Of(vec![e.vector_ty()], Some(e.vector_ty())),
        LaneOp::Fma(e) if !e.is_float() => Wrong("integers"),
        LaneOp::Fma(e) => Of(vec![e.vector_ty(); 3], Some(e.vector_ty())),
        LaneOp::Convert(from, to) => Of(vec![from.vector_ty()], Some(to.vector_ty())),
        LaneOp::FromHalf | LaneOp::ToHalf => Of(vec![V32], Some(V32)),
        LaneOp::Call(_, e) if e != LaneElem::F32 => Wrong("a function of this type"),
        LaneOp::Call(function, e) => Of(vec![e.vector_ty(); function.row().arity], Some(e.vector_ty())),
        LaneOp::Select => Of(vec![Mask, vector(b), vector(b)], Some(vector(b))),
        LaneOp::Compare(_, e) => Of(vec![e.vector_ty(); 2], Some(Mask)),
        LaneOp::MaskConst(_) | LaneOp::EntryMask => Of(vec![], Some(Mask)),
        LaneOp::MaskFromScalar => Of(vec![I32], Some(Mask)),
        LaneOp::MaskFromLanes => Of(vec![V32], Some(Mask)),
        LaneOp::LanesFromMask => Of(vec![Mask], Some(V32)),
        LaneOp::MaskAnd | LaneOp::MaskAndNot | LaneOp::MaskOr | LaneOp::MaskXor => Of(vec![Mask; 2], Some(Mask)),
        LaneOp::MaskNot => Of(vec![Mask], Some(Mask)),
        LaneOp::Move => Of(vec![dst.unwrap_or(I32)], Some(dst.unwrap_or(I32))),
        LaneOp::Load(cell, form) | LaneOp::Store(cell, form) if form.column_offset().is_some() && cell.size() < 4 => {
            Wrong("a small element of a local array")
        }
        LaneOp::Load(cell, form) if form.has_offsets() => Of(vec![I64, V32], Some(cell.vector_ty())),
        LaneOp::Load(cell, _) => Of(vec![I64], Some(cell.vector_ty())),
        LaneOp::Store(_, AddressForm::Uniform) => Wrong("a store of one element"),
        LaneOp::Store(cell, form) if form.has_offsets() => Of(vec![I64, cell.vector_ty(), V32], None),
        LaneOp::Store(cell, _) => Of(vec![I64, cell.vector_ty()], None),
        LaneOp::Atomic(op, e) if !has_update(op, e) => Wrong("an operation that elements of this type do not have"),
        LaneOp::Atomic(op, e) => {
            let result = dst.is_some() || op == AtomicOp::CompareExchange;
            Of(vec![I64, V32, e.vector_ty()], result.then_some(e.vector_ty()))
        }
        LaneOp::Warp(op, e) => of_warp(op, e),
        LaneOp::StoreReg => Of(vec![I64, vector(b)], None),
        LaneOp::Output(_) if a == Some(Mask) => Wrong("a mask"),
        LaneOp::Output(_) => Of(vec![a.unwrap_or(I32)], None),
        LaneOp::CheckUniform => Of(vec![I64; 2], None),
        LaneOp::CheckRow(_) | LaneOp::CheckRange => Of(vec![I64; 3], None),
        LaneOp::CheckLanes => Of(vec![V32; 2], None),
        LaneOp::ExitIfAny => Of(vec![Mask], None),
        LaneOp::ExitIfZero => Of(vec![scalar(a)], None),
        LaneOp::ReportWord(_) => Of(vec![I64], None),
        LaneOp::SubmitReports | LaneOp::Barrier => Of(vec![], None),
        LaneOp::SaveSlot(_) => Of(vec![a.unwrap_or(I32)], None),
        LaneOp::LoadSlot(_) => Of(vec![], Some(dst.unwrap_or(I32))),
        LaneOp::ReportAccess(_, form, _) if form.column_offset().is_some() => Wrong("a touch of a local array"),
        LaneOp::ReportAccess(_, form, _) if form.has_offsets() => Of(vec![I64, V32], None),
        LaneOp::ReportAccess(..) => Of(vec![I64], None),
    }
}

fn has_vectors(bin: LaneBinOp, elem: LaneElem) -> bool {
    match bin {
        LaneBinOp::Add | LaneBinOp::Sub | LaneBinOp::Mul | LaneBinOp::Min | LaneBinOp::Max => true,
        LaneBinOp::Div => elem.is_float() || !elem.is_wide(),
        LaneBinOp::Rem => !elem.is_float() && !elem.is_wide(),
        LaneBinOp::And | LaneBinOp::Or | LaneBinOp::Xor | LaneBinOp::Shl | LaneBinOp::Shr => !elem.is_float(),
    }
}

fn of_warp(op: WarpOp, e: LaneElem) -> OpSignature {
    use OpSignature::{Of, Wrong};
    match op {
        WarpOp::Ballot | WarpOp::Any | WarpOp::All if e != LaneElem::U32 => Wrong("a vote on lanes that are not bits"),
        WarpOp::Ballot => Of(vec![LaneTy::Mask], Some(LaneTy::V32)),
        WarpOp::Any | WarpOp::All => Of(vec![LaneTy::Mask], Some(LaneTy::Mask)),
        WarpOp::MatchAny => Of(vec![e.vector_ty()], Some(LaneTy::V32)),
        WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
            Of(vec![e.vector_ty(), LaneTy::V32], Some(e.vector_ty()))
        }
        WarpOp::ReduceAnd | WarpOp::ReduceOr | WarpOp::ReduceXor if e.is_float() => {
            Wrong("an operation that elements of this type do not have")
        }
        WarpOp::ReduceAdd
        | WarpOp::ReduceMin
        | WarpOp::ReduceMax
        | WarpOp::ReduceAnd
        | WarpOp::ReduceOr
        | WarpOp::ReduceXor => Of(vec![e.vector_ty()], Some(e.vector_ty())),
    }
}

fn has_update(op: AtomicOp, elem: LaneElem) -> bool {
    !matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) || !elem.is_float()
}

fn has_unary(un: LaneUnaryOp, elem: LaneElem) -> bool {
    match un {
        LaneUnaryOp::Neg | LaneUnaryOp::Abs => elem.is_float() || !elem.is_wide(),
        LaneUnaryOp::Rsqrt => elem == LaneElem::F32,
        LaneUnaryOp::Sqrt | LaneUnaryOp::Floor | LaneUnaryOp::Ceil | LaneUnaryOp::Trunc | LaneUnaryOp::Round => {
            elem.is_float()
        }
    }
}

// Rules about masks

fn masks(region: &LaneRegion, inst: &LaneInst) -> Result<(), RuleViolation> {
    let (mut needs, mut may) = (false, false);
    match inst.op {
        LaneOp::Load(_, AddressForm::Uniform) | LaneOp::CheckUniform | LaneOp::ExitIfAny => may = true,
        LaneOp::Load(..) | LaneOp::Store(..) | LaneOp::StoreReg => needs = true,
        LaneOp::CheckRow(_) | LaneOp::CheckLanes => needs = true,
        LaneOp::AnyActive | LaneOp::Atomic(..) | LaneOp::Warp(..) | LaneOp::ReportAccess(..)
            if inst.mask == LaneValue::NONE =>
        {
            return Err(violation_in(inst, "R3 masks", "no mask"));
        }
        LaneOp::AnyActive | LaneOp::Atomic(..) | LaneOp::Warp(..) | LaneOp::ReportAccess(..) => may = true,
        LaneOp::Move => may = !region.ty(inst.dst).is_scalar(),
        LaneOp::Vector(..) | LaneOp::Compare(..) => may = true,
        _ => {}
    }
    if inst.mask == LaneValue::NONE {
        return if needs && region.full_group.is_none() {
            Err(violation_in(inst, "R3 masks", "no mask"))
        } else {
            Ok(())
        };
    }
    match region.ty(inst.mask) {
        LaneTy::Mask if needs || may => Ok(()),
        LaneTy::Mask => Err(violation_in(inst, "R3 masks", "a mask")),
        ty => Err(violation_in(inst, "R3 masks", format!("a {ty} as the mask"))),
    }
}

// Rules about the setup

fn setup(region: &LaneRegion, inst: &LaneInst) -> Result<(), RuleViolation> {
    let allowed = match inst.op {
        LaneOp::Const(_)
        | LaneOp::Input(_)
        | LaneOp::BroadcastInput(_)
        | LaneOp::Splat(_)
        | LaneOp::Iota(_)
        | LaneOp::Broadcast => true,
        LaneOp::Scalar(LaneBinOp::Div | LaneBinOp::Rem, _) => is_safe_divisor(region, inst.args[1]),
        LaneOp::Scalar(..)
        | LaneOp::CompareScalar(..)
        | LaneOp::Sext
        | LaneOp::Zext
        | LaneOp::Trunc
        | LaneOp::SelectScalar
        | LaneOp::RowLimit(_) => true,
        LaneOp::Vector(LaneBinOp::Div | LaneBinOp::Rem, elem) => elem.is_float(),
        LaneOp::Vector(..)
        | LaneOp::Unary(..)
        | LaneOp::Fma(_)
        | LaneOp::Convert(..)
        | LaneOp::FromHalf
        | LaneOp::ToHalf => true,
        LaneOp::CheckRange | LaneOp::ReportWord(_) | LaneOp::SubmitReports => true,
        _ => false,
    };
    let mutable = inst.dst != LaneValue::NONE && region.values[inst.dst.index()].mutable;
    match allowed {
        false => Err(violation_in(inst, "R4 setup", "an operation of the body")),
        true if mutable => Err(violation_in(inst, "R4 setup", "a mutable value")),
        true => Ok(()),
    }
}

// Rules about phases

/// Verifies that each instruction is allowed where it is, inside or outside a phase.
fn phases(region: &LaneRegion, nodes: &[LaneNode], inside: bool) -> Result<(), RuleViolation> {
    let divided = region.has_phases();
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => phase_inst(region, inst, divided, inside)?,
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) => phases(region, inner, inside)?,
            LaneNode::Phase(_) if inside => return Err(violation("R12 phases", "nested phases")),
            LaneNode::Phase(inner) => {
                if !region.has_barriers || region.full_group.is_none_or(|extents| extents.contains(&0)) {
                    return Err(violation("R12 phases", "a phase in a region for unknown extents"));
                }
                phases(region, inner, true)?;
            }
            LaneNode::Branch(..) => {}
        }
    }
    Ok(())
}

fn phase_inst(region: &LaneRegion, inst: &LaneInst, divided: bool, inside: bool) -> Result<(), RuleViolation> {
    let plain = |def: &ValueDef| def.ty.is_scalar() && !def.depends_on_x && !def.depends_on_row;
    match inst.op {
        LaneOp::Barrier if divided || !region.has_barriers => Err(violation_in(inst, "R12 phases", "a barrier")),
        LaneOp::SaveSlot(_) | LaneOp::LoadSlot(_) if !divided => {
            Err(violation_in(inst, "R12 phases", "a phase slot outside phases"))
        }
        LaneOp::SaveSlot(_) if !inside => Err(violation_in(inst, "R12 phases", "a phase slot outside phases")),
        LaneOp::SaveSlot(slot) | LaneOp::LoadSlot(slot) => {
            let value = if matches!(inst.op, LaneOp::SaveSlot(_)) { inst.args[0] } else { inst.dst };
            let def = region.values[value.index()];
            if (def.depends_on_x, def.depends_on_row) != (slot.depends_on_x, slot.depends_on_row)
                || region.phase_slots[slot.number as usize] != def.ty
            {
                return Err(violation_in(inst, "R12 phases", format!("a {def}")));
            }
            if inside || plain(&def) {
                Ok(())
            } else {
                Err(violation_in(inst, "R12 phases", "a value that differs between batches"))
            }
        }
        _ if inside || !divided => Ok(()),
        LaneOp::Const(_)
        | LaneOp::Scalar(..)
        | LaneOp::CompareScalar(..)
        | LaneOp::Sext
        | LaneOp::Zext
        | LaneOp::Trunc
        | LaneOp::SelectScalar => Ok(()),
        LaneOp::RowLimit(_) | LaneOp::Move => Ok(()),
        _ => Err(violation_in(inst, "R12 phases", "an operation that is only allowed in a phase")),
    }
    .and_then(|()| {
        let outside = divided && !inside && inst.dst != LaneValue::NONE;
        if outside && !plain(&region.values[inst.dst.index()]) {
            Err(violation_in(inst, "R12 phases", "a value that differs between batches"))
        } else {
            Ok(())
        }
    })
}

/// Returns whether a divisor is a constant other than 0 and -1, so that the division cannot trap.
fn is_safe_divisor(region: &LaneRegion, value: LaneValue) -> bool {
    let own = |c: i64| if region.ty(value) == LaneTy::I64 { c } else { (c as i32).into() };
    let safe = |inst: &&LaneInst| matches!(inst.op, LaneOp::Const(c) if ![0, -1].contains(&own(c)));
    region.setup.iter().any(|inst| inst.dst == value && safe(&inst))
}

fn single(region: &LaneRegion, insts: &[&LaneInst]) -> Result<(), RuleViolation> {
    let mut defined = vec![false; region.values.len()];
    for inst in insts.iter().filter(|inst| inst.dst != LaneValue::NONE) {
        let mutable = region.values[inst.dst.index()].mutable;
        let is_redefined = std::mem::replace(&mut defined[inst.dst.index()], true);
        if is_redefined && !mutable {
            return Err(violation_in(inst, "R5 single", "another definition of a value that is not mutable"));
        }
        if matches!(inst.op, LaneOp::Move | LaneOp::Vector(..)) && inst.mask != LaneValue::NONE && !mutable {
            return Err(violation_in(inst, "R5 single", "a move under a mask of a value that is not mutable"));
        }
    }
    Ok(())
}

// Rules about coordinates and variance

fn coordinates(region: &LaneRegion, insts: &[&LaneInst]) -> Result<(), RuleViolation> {
    let mut marks = vec![(false, false); region.values.len()];
    loop {
        let mut changed = false;
        for inst in insts.iter().filter(|i| i.dst != LaneValue::NONE && region.ty(i.dst) != LaneTy::Mask) {
            let variance = inst.variance(|v| marks[v.index()]);
            let mark = &mut marks[inst.dst.index()];
            let new = (mark.0 | variance.0, mark.1 | variance.1);
            changed |= new != *mark;
            *mark = new;
        }
        if !changed {
            break;
        }
    }
    for (number, (def, mark)) in region.values.iter().zip(&marks).enumerate() {
        if mark.0 & !def.depends_on_x | mark.1 & !def.depends_on_row {
            return Err(violation("R8 coordinates", format!("%{number} is marked as {def}")));
        }
    }
    // A vector value may be marked as dependent although it is the same for all vectors of the batch, for example a
    // selection between two such values.
    let varies = |v: LaneValue| v != LaneValue::NONE && region.ty(v).is_scalar() && marks[v.index()] != (false, false);
    for inst in insts {
        if matches!(inst.op, LaneOp::Output(_) | LaneOp::ExitIfZero) && varies(inst.args[0]) {
            return Err(violation_in(inst, "R8 coordinates", format!("{} differs between vectors", inst.args[0])));
        }
    }
    match branches(&region.body).into_iter().find(|cond| cond.uses().any(varies)) {
        Some(cond) => {
            Err(violation("R8 coordinates", format!("the condition differs between vectors in `branch{cond}`")))
        }
        None => Ok(()),
    }
}

// Rules about definitions, exits and checks on all paths

/// A check that has been performed.
#[derive(Clone, Debug, PartialEq)]
struct PerformedCheck {
    check: LaneCheck,
    /// Masks whose lanes the check covers; `None` means that it covers all lanes.
    masks: Option<Vec<LaneValue>>,
}

/// The dataflow state: facts that hold at a program point on every path to it.
#[derive(Clone, Debug)]
struct VerifierState {
    defined: Vec<bool>,
    checks: Vec<PerformedCheck>,
    /// Memories that have been written.
    zeroed: Vec<MemId>,
    /// For each phase slot, whether a value has been saved in it.
    saved_slots: Vec<bool>,
    /// For each value, whether it is a mask or the operand of a check. Redefinitions of other values do not affect
    /// `checks`.
    tracked: Rc<[bool]>,
}

impl VerifierState {
    /// Returns the facts that hold in both states.
    fn join(mut self, other: &VerifierState) -> VerifierState {
        self.defined.iter_mut().zip(&other.defined).for_each(|(a, b)| *a &= b);
        let checks = std::mem::take(&mut self.checks);
        self.checks = checks.into_iter().filter_map(|made| made.intersect(&other.checks)).collect();
        self.zeroed.retain(|memory| other.zeroed.contains(memory));
        self.saved_slots.iter_mut().zip(&other.saved_slots).for_each(|(a, b)| *a &= b);
        self
    }

    /// Updates the state after a definition.
    fn define(&mut self, inst: &LaneInst, region: &LaneRegion) {
        self.defined[inst.dst.index()] = true;
        let dst = region.phase_origin(inst.dst);
        // If the definition only copies the same value under a new name, it invalidates no check.
        let is_alias = matches!(inst.op, LaneOp::LoadSlot(_)) || dst != inst.dst && !region.values[dst.index()].mutable;
        if !self.tracked[dst.index()] || is_alias {
            return;
        }
        let inst = &LaneInst {
            dst,
            args: inst.args.map(|v| region.phase_origin(v)),
            mask: region.phase_origin(inst.mask),
            ..*inst
        };
        self.checks.retain(|made| !made.check.args.contains(&dst));
        // Masks of which the new mask is a subset.
        let around: &[LaneValue] = match inst.op {
            LaneOp::MaskAnd => &inst.args[..2],
            LaneOp::MaskAndNot => &inst.args[..1],
            LaneOp::Move if inst.mask == LaneValue::NONE => &inst.args[..1],
            // Without a mask, the result is not known to be a subset of any mask.
            LaneOp::Compare(..) if inst.mask != LaneValue::NONE => std::slice::from_ref(&inst.mask),
            _ => &[],
        };
        if around.contains(&dst) {
            // The new mask is a subset of the old one, so checks of the old mask also cover it.
            return;
        }
        for masks in self.checks.iter_mut().filter_map(|made| made.masks.as_mut()) {
            masks.retain(|&m| m != dst);
            if around.iter().any(|a| masks.contains(a)) {
                masks.push(dst);
            }
        }
    }

    fn has_check(&self, check: &LaneCheck, mask: LaneValue) -> bool {
        self.checks
            .iter()
            .any(|made| made.check == *check && made.masks.as_ref().is_none_or(|masks| masks.contains(&mask)))
    }
}

impl PerformedCheck {
    /// Returns the check for only the masks that it covers on both paths, or `None` if there are none.
    fn intersect(self, others: &[PerformedCheck]) -> Option<PerformedCheck> {
        let mut masks: FxHashSet<LaneValue> = FxHashSet::default();
        for other in others.iter().filter(|o| o.check == self.check) {
            match (&self.masks, &other.masks) {
                (_, None) => return Some(self),
                (None, Some(of)) => masks.extend(of),
                (Some(a), Some(b)) => masks.extend(a.iter().filter(|m| b.contains(m))),
            }
        }
        let mut masks: Vec<LaneValue> = masks.into_iter().collect();
        masks.sort();
        (!masks.is_empty()).then_some(PerformedCheck { check: self.check, masks: Some(masks) })
    }
}

/// An open block: its exit, and the joined state of the branches to it so far.
struct OpenExit {
    exit: Exit,
    state: Option<VerifierState>,
}

struct RegionVerifier<'a> {
    region: &'a LaneRegion,
    definitions: ValueDefinitions,
    exits: Vec<OpenExit>,
    seen: FxHashSet<Exit>,
}

impl RegionVerifier<'_> {
    /// Verifies nodes and updates the state. The state is `None` in unreachable code.
    fn nodes(&mut self, nodes: &[LaneNode], state: &mut Option<VerifierState>) -> Result<(), RuleViolation> {
        for node in nodes {
            match node {
                LaneNode::Inst(inst) => self.inst(inst, state)?,
                LaneNode::Branch(cond, exit) => self.branch(cond, *exit, state)?,
                LaneNode::Block(exit, inner) => {
                    if !self.seen.insert(*exit) {
                        return Err(violation("R6 exits", format!("there are two blocks 'e{}", exit.0)));
                    }
                    self.exits.push(OpenExit { exit: *exit, state: None });
                    self.nodes(inner, state)?;
                    let branches = self.exits.pop().and_then(|target| target.state);
                    *state = join(state.take(), branches);
                }
                LaneNode::Loop(inner) => {
                    if let Some(state) = state {
                        for_each_inst(inner, &mut |inst| repeat(state, inst, self.region));
                    }
                    self.nodes(inner, state)?;
                    *state = None;
                }
                LaneNode::Phase(inner) => {
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

    fn branch(
        &mut self,
        cond: &BranchCond,
        exit: Exit,
        state: &mut Option<VerifierState>,
    ) -> Result<(), RuleViolation> {
        let fail =
            |rule, message: String| Err(violation(rule, message).at(format_args!(" in `branch 'e{}{cond}`", exit.0)));
        let wrong = match *cond {
            BranchCond::Always => false,
            BranchCond::MaskEmpty(mask) => self.region.ty(mask) != LaneTy::Mask,
            BranchCond::Scalar(_, e, a, b) => {
                e.is_float() || [a, b].iter().any(|&v| self.region.ty(v) != e.scalar_ty())
            }
        };
        if wrong {
            return fail("R2 types", "operands of other types".into());
        }
        let Some(target) = self.exits.iter_mut().rfind(|target| target.exit == exit) else {
            return fail("R6 exits", "no block with this exit is open".into());
        };
        let Some(here) = state else { return Ok(()) };
        if let Some(value) = cond.uses().find(|v| !here.defined[v.index()]) {
            return fail("R7 defined", format!("{value} may not be defined"));
        }
        target.state = join(target.state.take(), Some(here.clone()));
        if *cond == BranchCond::Always {
            *state = None;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &LaneInst, state: &mut Option<VerifierState>) -> Result<(), RuleViolation> {
        let Some(state) = state else { return Ok(()) };
        if let Some(value) = inst.uses().find(|v| !state.defined[v.index()]) {
            return Err(violation_in(inst, "R7 defined", format!("{value} may not be defined")));
        }
        self.access(inst, state)?;
        if inst.dst != LaneValue::NONE {
            state.define(inst, self.region);
        }
        if let LaneOp::SaveSlot(slot) = inst.op {
            state.saved_slots[slot.number as usize] = true;
        }
        if let LaneOp::LoadSlot(slot) = inst.op
            && !state.saved_slots[slot.number as usize]
        {
            return Err(violation_in(inst, "R13 kept", "the slot may not have been written"));
        }
        if matches!(inst.op, LaneOp::CheckUniform | LaneOp::CheckRow(_) | LaneOp::CheckLanes | LaneOp::CheckRange) {
            let all = matches!(inst.op, LaneOp::CheckUniform | LaneOp::CheckRange) || inst.mask == LaneValue::NONE;
            let masks = if all { None } else { Some(vec![self.region.phase_origin(inst.mask)]) };
            let args = inst.args.map(|v| self.region.phase_origin(v));
            state.checks.push(PerformedCheck { check: LaneCheck { op: inst.op, args }, masks });
        }
        Ok(())
    }

    /// Verifies that the checks required for an access have been performed. If several entries of
    /// [`LaneRegion::accesses`] match the access, the checks of one of them suffice.
    fn access(&self, inst: &LaneInst, state: &mut VerifierState) -> Result<(), RuleViolation> {
        let (offsets, form) = match inst.op {
            LaneOp::LoadScalar(_) => (LaneValue::NONE, AddressForm::Uniform),
            LaneOp::Load(_, form) | LaneOp::ReportAccess(_, form, _) => (inst.args[1], form),
            LaneOp::Store(_, form) => (inst.args[2], form),
            LaneOp::Atomic(..) => (inst.args[1], AddressForm::Indexed),
            _ => return Ok(()),
        };
        let (atomic, touch) = (matches!(inst.op, LaneOp::Atomic(..)), matches!(inst.op, LaneOp::ReportAccess(..)));
        let (store, columns) = (atomic || matches!(inst.op, LaneOp::Store(..)), form.column_offset());
        let mut missing = ("R9 checked", format!("no access has the address {}", inst.args[0]));
        let same =
            |a: &&AccessChecks| (a.address, a.offsets, a.columns) == (inst.args[0], offsets, columns.unwrap_or(0));
        for access in self.region.accesses.iter().filter(same) {
            let number = access.memory.index();
            let of_kind = |m: &RegionMemory| if store { m.stores } else { m.loads || touch };
            let listed = |m: &&RegionMemory| m.memory == access.memory && of_kind(m);
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
            let mask = self.region.phase_origin(inst.mask);
            let is_made = |check: &LaneCheck| state.has_check(check, mask) || self.definitions.passes(check);
            match access.checks.iter().find(|check| !is_made(check)) {
                None => {
                    if store && !state.zeroed.contains(&memory.memory) {
                        state.zeroed.push(memory.memory);
                    }
                    return Ok(());
                }
                Some(check) => missing = ("R9 checked", format!("`{}` is missing", check.to_inst())),
            }
        }
        let (rule, message) = missing;
        Err(violation_in(inst, rule, message))
    }
}

fn join(a: Option<VerifierState>, b: Option<VerifierState>) -> Option<VerifierState> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(&b)),
        (a, b) => a.or(b),
    }
}

/// At the start of a loop, drops the facts that an instruction in the loop's body invalidates.
fn repeat(state: &mut VerifierState, inst: &LaneInst, region: &LaneRegion) {
    if inst.dst != LaneValue::NONE {
        let defined = state.defined[inst.dst.index()];
        // Unless the instruction only removes lanes from its own mask, assume at the loop's start that the new mask may
        // contain any lane.
        let unknown = LaneInst { op: if shrinks(inst) { inst.op } else { LaneOp::EntryMask }, ..*inst };
        state.define(&unknown, region);
        state.defined[inst.dst.index()] = defined;
    }
}

fn shrinks(inst: &LaneInst) -> bool {
    match inst.op {
        LaneOp::MaskAnd => inst.args[..2].contains(&inst.dst),
        LaneOp::MaskAndNot => inst.args[0] == inst.dst,
        LaneOp::Compare(..) => inst.mask == inst.dst,
        _ => false,
    }
}
