//! Tests of LaneIR. Regions of whole kernels are valid, and parsing their printed form yields the same region. Each
//! rule of the verifier rejects violations.

mod differential;
mod evaluator;
mod fold_displacements;
mod full_group;
pub(crate) mod kernels;
mod phases;
mod random_kernels;
mod verifier_rules;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::build::{NoRegionReason, RegionBuilder, RegionContext, RegionSupport, outside};
use super::check_facts::{AccessGuard, CheckFacts};
use super::text::parse;
use super::verify::verify;
use super::*;
use crate::compile::state::CompiledValue;
use clk_ir::def::{Access as ArrayAccess, ExprId, Function, Memory, MemorySpace, Module};
use clk_ir::variance::analyze;

/// Parses a kernel in DeviceIR's text form.
fn module(text: &str) -> Module {
    let module = clk_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    clk_ir::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}")).into_module()
}

/// Assigns registers to the values that a kernel's statements use from outside: consecutive numbers, one per component.
fn registers(f: &Function) -> (FxHashMap<ExprId, Vec<CompiledValue>>, Vec<(Reg, ExprId, u8)>) {
    let (mut values, mut regs) = (FxHashMap::default(), vec![]);
    for e in outside(f, &f.body).0 {
        let lanes = 0..f.exprs[e].ty.lanes();
        let vals = lanes.map(|k| {
            regs.push((regs.len() as Reg, e, k));
            CompiledValue::Reg(regs.len() as Reg - 1)
        });
        values.insert(e, vals.collect());
    }
    (values, regs)
}

/// Builds the region of a whole kernel. All registers from outside the region are uniform.
fn region(f: &Function) -> Option<LaneRegion> {
    guarded(f, CheckFacts::default())
}

/// Returns the facts for a kernel with `--check`, assuming that each element of a global array belongs to one thread.
fn checks(f: &Function) -> CheckFacts {
    let guard = |(_, memory): (MemId, &Memory)| match memory.space {
        MemorySpace::Global { access: ArrayAccess::In, .. } | MemorySpace::Constant => AccessGuard::Unchecked,
        MemorySpace::Global { access: ArrayAccess::Out, .. } => AccessGuard::OwnedInit { unit: memory.layout.size },
        MemorySpace::Global { .. } | MemorySpace::Param { .. } => AccessGuard::Owned,
        MemorySpace::Shared => AccessGuard::Shared,
        MemorySpace::Local => AccessGuard::Forbidden,
    };
    CheckFacts {
        arithmetic: true,
        memory: true,
        nan: true,
        exact: Default::default(),
        memories: f.memories.iter().map(guard).collect(),
    }
}

fn guarded(f: &Function, guards: CheckFacts) -> Option<LaneRegion> {
    let no = |_| false;
    let support =
        RegionSupport { f, barriers: false, waits: &|_| false, tiles: &|_| false, refused: &no, parts: &|_| false };
    assert!(f.body.iter().all(|stmt| support.statement(stmt)), "a region may contain it");
    let variances = analyze(f);
    let (values, registers) = registers(f);
    let uniform = vec![true; registers.len()];
    let (locals, guards): (FxHashMap<_, _>, Rc<CheckFacts>) = (FxHashMap::default(), guards.into());
    let (variances, mut reported) = (Rc::new(variances), vec![]);
    let builder = loop {
        let (values, locals, guards) = (FxHashMap::clone(&values), FxHashMap::clone(&locals), Rc::clone(&guards));
        let outside =
            RegionContext { values, locals, uniform: uniform.clone(), guards, reported_on_access: reported.clone() };
        match RegionBuilder::new(f, variances.clone(), outside, &f.body, 0) {
            Ok(builder) => break builder,
            Err(NoRegionReason::SupportedPrefix(_)) => return None,
            Err(NoRegionReason::NotReportable(memory)) => reported.push(memory),
        }
    };
    builder.finish(&[], &[], &|_| true, uniform)
}

fn region_of(text: &str) -> LaneRegion {
    let module = module(text);
    region(&module.functions[module.kernel.body]).unwrap_or_else(|| panic!("no region of\n{text}"))
}

#[test]
fn kernel_regions_round_trip() {
    let mut checked = 0;
    for (name, text) in kernels::ALL {
        let module = module(text);
        let f = &module.functions[module.kernel.body];
        if let Some(region) = guarded(f, checks(f)) {
            check_round_trip(name, region);
            checked += 1;
        }
        check_round_trip(name, region_of(text));
    }
    assert!(2 * checked > kernels::ALL.len(), "{checked} kernels have regions with `--check`");
}

fn check_round_trip(name: &str, region: LaneRegion) {
    verify(&region).unwrap_or_else(|e| panic!("{name}: {e}\n{region}"));
    let text = region.to_string();
    let reparsed = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    assert_eq!(reparsed.to_string(), text, "{name}");
    let LaneRegion {
        values,
        setup,
        body,
        reads,
        writes,
        memories,
        owned,
        reports,
        checked_accesses: _,
        accesses,
        wide,
        full_group,
        has_barriers,
        inner: _,
        phase_slots,
        phase_origins,
    } = reparsed;
    let flags = |defs: &[ValueDef]| defs.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(flags(&values), flags(&region.values), "{name}");
    assert_eq!((setup, body, accesses), (region.setup, region.body, region.accesses), "{name}");
    assert_eq!((reads, writes, memories), (region.reads, region.writes, region.memories), "{name}");
    assert_eq!((wide, full_group, has_barriers), (region.wide, region.full_group, region.has_barriers), "{name}");
    assert_eq!((phase_slots, phase_origins), (region.phase_slots, region.phase_origins), "{name}");
    assert_eq!((owned, reports), (region.owned, region.reports), "{name}");
}

#[test]
fn parser_handles_damaged_text() {
    for (_, text) in kernels::ALL {
        let text = region_of(text).to_string();
        for at in (0..text.len()).step_by(41) {
            for replacement in ["", "%", "}", "9"] {
                let mut damaged = text.clone();
                damaged.replace_range(at..at + 1, replacement);
                if let Ok(region) = parse(&damaged) {
                    let _ = verify(&region);
                    assert_eq!(parse(&region.to_string()).unwrap().to_string(), region.to_string());
                }
            }
        }
    }
}

#[test]
fn parse_errors_name_the_line() {
    let error = |text: &str| parse(text).map(|r| r.to_string()).unwrap_err();
    assert_eq!(error(""), "line 0: the text ends early");
    assert_eq!(error("region\nvalues 1\n\nsetup {\n  %0: i64 = conts 1\n}"), "line 5: unknown operation `conts`");
    assert_eq!(error("region\nvalues 1\nsetup {\n}\nbody {\n}\n"), "line 6: %0 has no type");
    assert_eq!(error("region\nvalues 1\nsetup {\n%1: i32 = const 1\n}"), "line 4: there is no %1");
    assert_eq!(error("region\nvalues 0\nsetup {\n}\nbody {\nbranch 'e1 if some %0\n}"), "line 6: unknown name `some`");
}

/// A `u32` step of 2^31 or more would count down as an `i32`, so no region is built for it.
#[test]
fn large_unsigned_steps_are_supported() {
    let text = |step: &str| {
        let step = format!("step {step}u32");
        kernels::UNSIGNED.replace("step 3u32", &step)
    };
    let is_region = |text: &str| {
        let module = module(text);
        region(&module.functions[module.kernel.body]).is_some()
    };
    assert!(is_region(&text("2147483647")));
    assert!(!is_region(&text("4294967295")));
}

/// Byte offsets of lanes have 32 bits, so a check exits the region if an array is larger than 2^31 bytes.
#[test]
fn large_arrays_with_offsets_exit() {
    let region = region_of(kernels::GATHER);
    let limit = region.setup.iter().find(|inst| inst.op == LaneOp::Const(1 << 31)).expect("a limit").dst;
    let sized = |memory: usize| {
        let checks = region.accesses.iter().filter(|a| a.memory.index() == memory && a.offsets != LaneValue::NONE);
        checks.map(|a| a.checks.iter().any(|c| c.op == LaneOp::CheckRange && c.args[2] == limit)).collect::<Vec<_>>()
    };
    assert!(sized(0).contains(&true), "{region}");
    assert!(sized(2).contains(&true), "{region}");
}
