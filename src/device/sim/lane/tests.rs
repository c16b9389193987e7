//! Tests of LaneIR: real regions of whole kernels come back from their text and are valid, and each rule of the verifier finds what
//! breaks it.

mod agree;
mod displace;
mod eval;
pub(crate) mod kernels;
mod phases;
mod random;
mod rules;
mod whole;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::build::{Builder, Outside, Refusal, Support, outside};
use super::guards::{Guard, Guards};
use super::text::parse;
use super::verify::verify;
use super::*;
use crate::device::sim::compile::state::Val;
use crate::ir::def::{Access as ArrayAccess, ExprId, Function, Memory, Module, Space};
use crate::ir::variance::analyze;

/// The function of a kernel that is one region, in DeviceIR's text form.
fn module(text: &str) -> Module {
    let module = crate::ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::ir::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}")).into_module()
}

/// The registers of what a kernel takes from outside: one per component, in order.
fn registers(f: &Function) -> (FxHashMap<ExprId, Vec<Val>>, Vec<(Reg, ExprId, u8)>) {
    let (mut values, mut regs) = (FxHashMap::default(), vec![]);
    for e in outside(f, &f.body).0 {
        let lanes = 0..f.exprs[e].ty.lanes();
        let vals = lanes.map(|k| {
            regs.push((regs.len() as Reg, e, k));
            Val::Reg(regs.len() as Reg - 1)
        });
        values.insert(e, vals.collect());
    }
    (values, regs)
}

/// Builds the region of a whole kernel, whose uniform registers come from outside.
fn region(f: &Function) -> Option<Region> {
    guarded(f, Guards::default())
}

/// Returns what a kernel with `--check` asks of regions, if each element of a global array belongs to one thread.
fn checks(f: &Function) -> Guards {
    let guard = |(_, memory): (MemId, &Memory)| match memory.space {
        Space::Global { access: ArrayAccess::In, .. } | Space::Constant => Guard::Free,
        Space::Global { access: ArrayAccess::Out, .. } => Guard::Marked { unit: memory.layout.size },
        Space::Global { .. } | Space::Param { .. } => Guard::Own,
        Space::Shared => Guard::Shared,
        Space::Local => Guard::Refused,
    };
    Guards {
        arithmetic: true,
        memory: true,
        nan: true,
        exact: Default::default(),
        memories: f.memories.iter().map(guard).collect(),
    }
}

fn guarded(f: &Function, guards: Guards) -> Option<Region> {
    let no = |_| false;
    let support = Support { f, barriers: false, waits: &|_| false, tiles: &|_| false, refused: &no, parts: &|_| false };
    assert!(f.body.iter().all(|stmt| support.statement(stmt)), "a region may contain it");
    let variances = analyze(f);
    let (values, registers) = registers(f);
    let uniform = vec![true; registers.len()];
    let (locals, guards): (FxHashMap<_, _>, Rc<Guards>) = (FxHashMap::default(), guards.into());
    let (variances, mut told) = (Rc::new(variances), vec![]);
    let builder = loop {
        let (values, locals, guards) = (FxHashMap::clone(&values), FxHashMap::clone(&locals), Rc::clone(&guards));
        let outside = Outside { values, locals, uniform: uniform.clone(), guards, told: told.clone() };
        match Builder::new(f, variances.clone(), outside, &f.body, 0) {
            Ok(builder) => break builder,
            Err(Refusal::Behind(_)) => return None,
            Err(Refusal::Untold(memory)) => told.push(memory),
        }
    };
    builder.finish(&[], &[], &|_| true, uniform)
}

fn region_of(text: &str) -> Region {
    let module = module(text);
    region(&module.functions[module.kernel.body]).unwrap_or_else(|| panic!("no region of\n{text}"))
}

#[test]
fn kernels_come_back() {
    let mut checked = 0;
    for (name, text) in kernels::ALL {
        let module = module(text);
        let f = &module.functions[module.kernel.body];
        if let Some(region) = guarded(f, checks(f)) {
            comes_back(name, region);
            checked += 1;
        }
        comes_back(name, region_of(text));
    }
    assert!(2 * checked > kernels::ALL.len(), "{checked} kernels have regions with `--check`");
}

fn comes_back(name: &str, region: Region) {
    verify(&region).unwrap_or_else(|e| panic!("{name}: {e}\n{region}"));
    let text = region.to_string();
    let again = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    assert_eq!(again.to_string(), text, "{name}");
    let Region {
        values,
        setup,
        body,
        reads,
        writes,
        memories,
        owned,
        reports,
        touches: _,
        accesses,
        wide,
        whole,
        together,
        inner: _,
        kept,
        origins,
    } = again;
    let flags = |defs: &[ValueDef]| defs.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(flags(&values), flags(&region.values), "{name}");
    assert_eq!((setup, body, accesses), (region.setup, region.body, region.accesses), "{name}");
    assert_eq!((reads, writes, memories), (region.reads, region.writes, region.memories), "{name}");
    assert_eq!((wide, whole, together), (region.wide, region.whole, region.together), "{name}");
    assert_eq!((kept, origins), (region.kept, region.origins), "{name}");
    assert_eq!((owned, reports), (region.owned, region.reports), "{name}");
}

#[test]
fn damaged_text_is_an_error_or_a_region() {
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
fn errors_name_the_line() {
    let error = |text: &str| parse(text).map(|r| r.to_string()).unwrap_err();
    assert_eq!(error(""), "line 0: the text ends early");
    assert_eq!(error("region\nvalues 1\n\nsetup {\n  %0: i64 = conts 1\n}"), "line 5: unknown operation `conts`");
    assert_eq!(error("region\nvalues 1\nsetup {\n}\nbody {\n}\n"), "line 6: %0 has no type");
    assert_eq!(error("region\nvalues 1\nsetup {\n%1: i32 = const 1\n}"), "line 4: there is no %1");
    assert_eq!(error("region\nvalues 0\nsetup {\n}\nbody {\nbranch 'e1 if some %0\n}"), "line 6: unknown name `some`");
}

/// Steps of a `u32` are positive, however large: as an `i32` this one would count down.
#[test]
fn large_steps_of_unsigned_counters() {
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

/// Offsets from lane to lane have 32 bits, so that larger arrays leave.
#[test]
fn arrays_with_offsets_are_small() {
    let region = region_of(kernels::GATHER);
    let limit = region.setup.iter().find(|inst| inst.op == Op::Const(1 << 31)).expect("a limit").dst;
    let sized = |memory: usize| {
        let checks = region.accesses.iter().filter(|a| a.memory.index() == memory && a.offsets != Value::NONE);
        checks.map(|a| a.checks.iter().any(|c| c.op == Op::CheckRange && c.args[2] == limit)).collect::<Vec<_>>()
    };
    assert!(sized(0).contains(&true), "{region}");
    assert!(sized(2).contains(&true), "{region}");
}
