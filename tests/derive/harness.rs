//! Runs a kernel, its derivatives in both modes, and compares them.

use std::sync::Arc;

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::derive::{self, Derived, Launches, Lost, Role, Totals};
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Control, Device, Extents, Fault, FaultKind};
use clk_lang::ir::def::*;
use clk_lang::ir::visit::each_stmt;
use clk_lang::ir::{Checks, text};
use clk_lang::lang::ops::AtomicOp;
use clk_lang::lang::scalar::{Scalar, Value};
use clk_lang::lower::{Instance, lower};
use clk_lang::pass;

use crate::generate::{Argument, Bytes, launch_arguments};
use crate::reference;

/// An argument of a case.
#[derive(Clone, Copy)]
pub enum Spec {
    /// An array of random floats with these extents.
    Floats(&'static [u32]),
    Ints(&'static [i32]),
    Number(f64),
}

#[derive(Clone)]
pub struct Problem {
    pub module: Module,
    pub extents: Extents,
    pub arguments: Vec<Argument>,
    pub session: Arc<Session>,
    /// The source of the kernel, if it has one.
    pub text: Option<String>,
    pub smooth: Smooth,
    /// It is a derivative in reverse mode.
    pub again: bool,
}

/// Whether a kernel has kinks and jumps, where differences tell nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Smooth {
    Everywhere,
    /// It has a few.
    Mostly,
    /// It has many, and overflows on purpose.
    No,
}

#[derive(Debug)]
pub enum Verdict {
    Right(String),
    Refused {
        label: String,
        line: usize,
    },
    /// It cannot be compared, for this reason.
    Left(String),
    Wrong(String),
}

/// A stream of random numbers.
pub struct Stream(pub u64);

impl Stream {
    pub fn next(&mut self, (low, high): (f64, f64)) -> f64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        low + (high - low) * ((self.0 >> 33) as f64 / (1u64 << 31) as f64)
    }
}

pub fn problem(text: &str, extents: Extents, specs: &[Spec], range: (f64, f64)) -> Result<Problem, String> {
    let (session, module) = compiled(text)?;
    let mut stream = Stream(1);
    let mut arguments = vec![];
    for (param, spec) in module.kernel.params.iter().zip(specs) {
        arguments.push(match (param, spec) {
            (KernelParam::Value { ty, .. }, Spec::Number(x)) => {
                Argument::Value(vec![Value::of(*x).to_type(ty.scalar())])
            }
            (KernelParam::Array { memory, access, .. }, spec) => {
                let layout = module.functions[module.kernel.body].memories[*memory].layout.clone();
                let write = *access != Access::In;
                let mut array = match spec {
                    Spec::Floats(shape) => zeros(&layout, shape.to_vec(), write),
                    Spec::Ints(values) => zeros(&layout, vec![values.len() as u32], write),
                    _ => return Err("an array is wanted".into()),
                };
                if let Argument::Array { bytes, .. } = &mut array {
                    match spec {
                        Spec::Ints(values) => {
                            for (to, value) in bytes.get_mut().chunks_mut(4).zip(*values) {
                                to.copy_from_slice(&value.to_le_bytes());
                            }
                        }
                        _ if *access != Access::Out => fill(&layout, bytes, &mut || stream.next(range)),
                        _ => {}
                    }
                }
                array
            }
            _ => return Err("an argument does not fit".into()),
        });
    }
    if arguments.len() != module.kernel.params.len() {
        return Err(format!("{} parameters", module.kernel.params.len()));
    }
    Ok(Problem {
        module,
        extents,
        arguments,
        session: Arc::new(session),
        text: Some(text.into()),
        smooth: Smooth::Everywhere,
        again: false,
    })
}

pub fn zeros(layout: &Layout, shape: Vec<u32>, write: bool) -> Argument {
    let count = shape.iter().product::<u32>() as usize;
    Argument::Array { layout: layout.clone(), shape, bytes: Bytes::zeros(count * layout.size), write }
}

/// Calls `f` with the type and the place of every float of an array.
fn each_float(layout: &Layout, bytes: &mut Bytes, f: &mut dyn FnMut(Scalar, &mut [u8])) {
    for element in bytes.get_mut().chunks_mut(layout.size.max(1)) {
        for leaf in layout.leaves.iter().filter(|leaf| leaf.ty.scalar().is_float()) {
            let scalar = leaf.ty.scalar();
            element[leaf.offset..leaf.offset + leaf.ty.size()].chunks_mut(scalar.size()).for_each(|to| f(scalar, to));
        }
    }
}

fn fill(layout: &Layout, bytes: &mut Bytes, next: &mut dyn FnMut() -> f64) {
    each_float(layout, bytes, &mut |scalar, to| {
        to.copy_from_slice(&Value::of(next()).to_type(scalar).to_bytes()[..scalar.size()]);
    });
}

/// Returns the floats of an argument.
pub fn floats(argument: &Argument) -> Vec<f64> {
    let mut found = vec![];
    match argument.clone() {
        Argument::Value(values) => found.extend(values.iter().filter(|v| v.ty.is_float()).map(|v| v.as_f64())),
        Argument::Array { layout, mut bytes, .. } => {
            each_float(&layout, &mut bytes, &mut |scalar, at| found.push(Value::from_bytes(scalar, at).as_f64()));
        }
    }
    found
}

/// Returns the argument with other floats.
pub fn with_floats(argument: &Argument, floats: &[f64]) -> Argument {
    let mut floats = floats.iter().copied();
    let mut next = || floats.next().expect("as many floats");
    match argument.clone() {
        Argument::Value(values) => {
            let new = |v: &Value| if v.ty.is_float() { Value::of(next()).to_type(v.ty) } else { *v };
            Argument::Value(values.iter().map(new).collect())
        }
        Argument::Array { layout, shape, mut bytes, write } => {
            fill(&layout, &mut bytes, &mut next);
            Argument::Array { layout, shape, bytes, write }
        }
    }
}

fn combined(a: &Argument, by: f64, direction: &[f64]) -> Argument {
    let moved: Vec<f64> = floats(a).iter().zip(direction).map(|(a, d)| a + by * d).collect();
    with_floats(a, &moved)
}

/// Returns how many additions to adjoints of a kernel are atomic, and how many adjoints are taken atomically. A block is 4
/// threads.
pub fn atomics(text: &str, blocks: u32) -> (usize, usize) {
    let (_, module) = compiled(text).expect(text);
    let extents = match module.kernel.form {
        Form::Threads { .. } => Extents::Threads([40, 1, 1]),
        Form::Grid => Extents::Grid { grid: [blocks, 1, 1], block: [4, 1, 1] },
    };
    let active = derive::can_be_active(&module);
    let derived = derive::reverse(&module, &active, &Launches::with(&module, extents)).expect(text).module;
    let (mut added, mut taken) = (0, 0);
    each_stmt(&derived.functions[derived.kernel.body].body, &mut |stmt| {
        if let StmtKind::Atomic { op, .. } = stmt.kind {
            *(if op == AtomicOp::Exchange { &mut taken } else { &mut added }) += 1;
        }
    });
    (added, taken)
}

/// Runs a module in the reference interpreter.
fn by_reference(module: &Module, extents: Extents, arguments: &[Argument]) -> Result<Vec<Argument>, String> {
    let mut arguments = arguments.to_vec();
    let outcome = reference::launch(module, extents, &mut launch_arguments(&mut arguments));
    match outcome.faults.first() {
        Some(fault) => Err(format!("{:?} at {:?}", fault.kind, fault.span)),
        None => Ok(arguments),
    }
}

/// Runs a module on the simulator with checks.
pub fn by_simulator(module: &Module, problem: &Problem, arguments: &[Argument]) -> Result<Vec<Argument>, String> {
    let checks = Checks { memory: true, arithmetic: problem.smooth != Smooth::No, ..Checks::default() };
    let prepared = pass::prepare_for(module.clone(), checks)?;
    let executable = Simulator::default().load(Arc::new(prepared));
    let mut arguments = arguments.to_vec();
    let control = Control { workers: 2, checks, ..Control::default() };
    executable
        .launch(problem.extents, &mut launch_arguments(&mut arguments), &control)
        .map_err(|fault| format!("{:?} at {:?}", fault.kind, fault.span))?;
    let warnings = control.warnings.lock().map(|w| w.clone()).unwrap_or_default();
    let matters = |f: &&Fault| match &f.kind {
        FaultKind::Incomplete { .. } => false,
        // Several threads store one value.
        FaultKind::Race(race) => race.value.is_none() || race.value != race.other_value,
        _ => true,
    };
    match warnings.iter().find(matters) {
        Some(fault) => Err(format!("{:?} at {:?}", fault.kind, fault.span)),
        None => Ok(arguments),
    }
}

/// The accesses of the parameters; none of a value.
fn accesses(module: &Module) -> Vec<Option<Access>> {
    module.kernel.params.iter().map(KernelParam::access).collect()
}

/// Builds the arguments of a derived kernel. `derivative` gives the floats of a tangent or adjoint.
fn arguments(
    problem: &Problem,
    (module, roles): (&Module, &[Role]),
    derivative: &dyn Fn(usize) -> Vec<f64>,
    slots: &[u32],
) -> Vec<Argument> {
    let mut tapes = slots.iter();
    let threads: Vec<u32> = match (problem.extents, module.kernel.form) {
        (Extents::Threads(n), Form::Threads { rank }) => n[..usize::from(rank)].to_vec(),
        (Extents::Grid { grid, block }, _) => vec![grid.iter().chain(&block).product()],
        _ => vec![],
    };
    let with = |first: u32| [&[first][..], &threads].concat();
    let body = &module.functions[module.kernel.body];
    let one = |(role, param): (&Role, &KernelParam)| {
        let (layout, write) = match param {
            KernelParam::Value { .. } => (None, false),
            KernelParam::Array { memory, access, .. } => {
                (Some(body.memories[*memory].layout.clone()), *access != Access::In)
            }
        };
        let mut made = match role {
            Role::Primal(i) => problem.arguments[*i].clone(),
            Role::Tangent(i) | Role::Adjoint(i) => {
                let like = match (&problem.arguments[*i], &layout) {
                    (Argument::Value(_), Some(layout)) => zeros(layout, vec![3], true),
                    (other, _) => other.clone(),
                };
                with_floats(&like, &derivative(*i).repeat(3))
            }
            Role::Extent(axis) => Argument::Value(vec![Value::of(threads[usize::from(*axis)] as i32)]),
            Role::Sums(count) => {
                let shape = [&[*count], &FEWER[..threads.len()]].concat();
                zeros(layout.as_ref().expect("an array"), shape, true)
            }
            Role::Tape(_) => zeros(layout.as_ref().expect("an array"), with(tapes.next().copied().unwrap_or(0)), true),
            Role::Counts => zeros(layout.as_ref().expect("an array"), with(4), true),
        };
        if let Argument::Array { write: own, .. } = &mut made {
            *own = write;
        }
        made
    };
    roles.iter().zip(&module.kernel.params).map(one).collect()
}

/// A kernel of a derivative, and how it is launched.
struct Part<'a> {
    module: &'a Module,
    roles: &'a [Role],
    extents: Extents,
    /// Of each sum over all threads, the parameter and the element.
    sums: &'a [(usize, Vec<u32>)],
}

/// The threads that add up for those of a launch.
const FEWER: [u32; 3] = [2, 3, 1];

/// Returns the kernels of a derivative, in their order.
fn parts<'a>(problem: &Problem, derived: &'a Derived) -> Vec<Part<'a>> {
    let over = |param: usize| {
        let Argument::Array { shape, .. } = &problem.arguments[param] else { panic!("the adjoint of a value") };
        let mut extents = [1; 3];
        extents.iter_mut().zip(shape).for_each(|(extent, &len)| *extent = len);
        Extents::Threads(extents)
    };
    let gathers = derived.gathers.iter();
    let mut all: Vec<Part> =
        gathers.map(|g| Part { module: &g.module, roles: &g.params, extents: over(g.param), sums: &[] }).collect();
    if let Some(Totals { module, params, sums }) = &derived.totals {
        all.push(Part { module, roles: params, extents: Extents::Threads(FEWER), sums });
    }
    if derived.has_effect {
        all.push(Part { module: &derived.module, roles: &derived.params, extents: problem.extents, sums: &[] });
    }
    all
}

/// Runs a derivative; returns the floats of each tangent or adjoint afterwards.
fn run_derived(
    problem: &Problem,
    derived: &Derived,
    derivative: &dyn Fn(usize) -> Vec<f64>,
) -> Result<(Vec<Option<Vec<f64>>>, Vec<u32>), String> {
    let slots = slots(problem, derived, derivative)?;
    let mut found = vec![None; problem.arguments.len()];
    for part in parts(problem, derived) {
        run_part(problem, &part, derivative, &slots, &mut found)?;
    }
    Ok((found, slots))
}

fn run_part(
    problem: &Problem,
    part: &Part,
    derivative: &dyn Fn(usize) -> Vec<f64>,
    slots: &[u32],
    found: &mut [Option<Vec<f64>>],
) -> Result<(), String> {
    let given = arguments(problem, (part.module, part.roles), derivative, slots);
    let show = |why: String| format!("{why}\n{}", text::print(part.module));
    let over = Problem { extents: part.extents, ..problem.clone() };
    let after = by_simulator(part.module, &over, &given).map_err(show)?;
    for (role, argument) in part.roles.iter().zip(&after) {
        if let Role::Tangent(i) | Role::Adjoint(i) = role {
            // A value's adjoint is the sum of several.
            let all = floats(argument);
            let lanes = floats(&problem.arguments[*i]).len();
            let of_value = matches!(problem.arguments[*i], Argument::Value(_)) && all.len() > lanes;
            let summed = (0..lanes).map(|lane| all.iter().skip(lane).step_by(lanes.max(1)).sum());
            // What is not written is not handed back.
            let is_given = matches!(argument, Argument::Array { write: false, .. });
            if !is_given || matches!(role, Role::Tangent(_)) {
                found[*i] = Some(if of_value { summed.collect() } else { all });
            }
        }
    }
    add_sums(problem, (part, derivative), &after, found);
    let again = match by_reference(part.module, part.extents, &given) {
        // The derivative of a kernel that it just computes.
        Err(why) if why.starts_with("StepLimit") => return Ok(()),
        again => again.map_err(show)?,
    };
    for ((role, argument), other) in part.roles.iter().zip(&after).zip(&again) {
        if let Role::Tangent(_) | Role::Adjoint(_) = role {
            let apart = distance(&floats(argument), &floats(other));
            if apart > 1e-11 {
                return Err(show(format!("the simulator and the reference differ by {apart}")));
            }
        }
    }
    as_source(problem, part, &given, &again)
}

/// Adds what the threads of a kernel of sums have kept to the adjoints.
fn add_sums(
    problem: &Problem,
    (part, derivative): (&Part, &dyn Fn(usize) -> Vec<f64>),
    after: &[Argument],
    found: &mut [Option<Vec<f64>>],
) {
    let Some(at) = part.roles.iter().position(|role| matches!(role, Role::Sums(_))) else { return };
    let all = floats(&after[at]);
    for ((param, at), own) in part.sums.iter().zip(all.chunks(all.len() / part.sums.len())) {
        let adjoint = found[*param].get_or_insert_with(|| derivative(*param));
        let place = match &problem.arguments[*param] {
            Argument::Array { shape, .. } => shape.iter().zip(at).fold(0, |place, (extent, at)| place * extent + at),
            Argument::Value(_) => at.first().copied().unwrap_or(0),
        };
        adjoint[place as usize] += own.iter().sum::<f64>();
    }
}

/// Counts the slots of a derived kernel's tapes.
fn slots(problem: &Problem, derived: &Derived, derivative: &dyn Fn(usize) -> Vec<f64>) -> Result<Vec<u32>, String> {
    let mut slots = vec![];
    if let Some(counting) = &derived.counting {
        let given = arguments(problem, (&counting.module, &counting.params), derivative, &[]);
        let after = by_simulator(&counting.module, problem, &given).map_err(|why| format!("counting: {why}"))?;
        let Some(Argument::Array { bytes, shape, .. }) = after.last() else { return Err("no counts".into()) };
        let counts: Vec<i32> =
            bytes.get().chunks(4).map(|b| i32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
        let threads = shape[1..].iter().product::<u32>() as usize;
        slots = counts.chunks(threads.max(1)).map(|own| own.iter().copied().max().unwrap_or(0) as u32).collect();
    }
    Ok(slots)
}

fn launches(problem: &Problem) -> Launches {
    Launches::with(&problem.module, problem.extents)
}

/// Makes the launches of a kernel's derivative in reverse mode, to be derived again; none if it has none.
pub fn derived(problem: &Problem) -> Result<Vec<Problem>, String> {
    let setting = setting(problem);
    let Ok(reverse) = derive::reverse(&problem.module, &setting.active, &launches(problem)) else { return Ok(vec![]) };
    let adjoint = |i: usize| setting.u[i].clone();
    let slots = slots(problem, &reverse, &adjoint)?;
    let launch = |part: Part| {
        let arguments = arguments(problem, (part.module, part.roles), &adjoint, &slots);
        let (module, extents) = (part.module.clone(), part.extents);
        Problem { module, extents, arguments, text: None, again: true, ..problem.clone() }
    };
    Ok(parts(problem, &reverse).into_iter().map(launch).collect())
}

/// Compares the derived kernel with what it is as source, compiled again.
fn as_source(problem: &Problem, part: &Part, given: &[Argument], expected: &[Argument]) -> Result<(), String> {
    let Some(text) = &problem.text else { return Ok(()) };
    let of = |argument: &Argument| match argument {
        Argument::Value(_) => (vec![], String::new()),
        Argument::Array { shape, .. } => (shape.iter().map(u32::to_string).collect(), "P".to_string()),
    };
    let list = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let (indices, geometry) = match (part.extents, part.module.kernel.form) {
        (Extents::Threads(n), Form::Threads { rank }) => {
            let names: Vec<String> = (0..rank).map(|k| format!("i{k}")).collect();
            let pairs: Vec<String> = names.iter().zip(n).map(|(name, n)| format!("{name}: {n}")).collect();
            (names, format!("threads({})", pairs.join(", ")))
        }
        (Extents::Grid { grid, block }, _) => (vec![], format!("grid({}) block({})", list(&grid), list(&block))),
        _ => return Err("an odd launch".into()),
    };
    let head = derive::Head {
        params: problem.arguments.iter().map(of).collect(),
        geometry,
        threads: (0..indices.len().max(1)).map(|k| format!("TAPE{k}")).collect(),
        indices,
    };
    let simple = derive::simplified(part.module)?;
    let Some(printed) = derive::print(&simple, part.roles, &head) else {
        // Jumps stay in forward mode, and source has none out of several loops.
        if part.module.kernel.name.ends_with("_jvp") {
            return Ok(());
        }
        return Err(format!("it cannot be said in source:\n{}", text::print(&simple)));
    };
    if std::env::var("CLK_SHOW_IR").is_ok() {
        println!("{printed}");
    }
    let module = compiled(&format!("{text}\n{printed}")).map_err(|why| format!("{why}\n{printed}"))?.1;
    let after = by_reference(&module, part.extents, given).map_err(|why| format!("{why}\n{printed}"))?;
    for (role, (a, b)) in part.roles.iter().zip(after.iter().zip(expected)) {
        let apart = distance(&floats(a), &floats(b));
        if apart > 1e-12 && !matches!(role, Role::Tape(_)) {
            return Err(format!("as source, it differs by {apart}\n{printed}"));
        }
    }
    Ok(())
}

/// Compiles a program; returns its last kernel.
fn compiled(text: &str) -> Result<(Session, Module), String> {
    let mut session = Session::default();
    let outcome = session.add("case.clk", text, &NoFiles);
    if outcome.failed() {
        let of = |d: &Diagnostic| {
            format!(
                "{} {:?}",
                d.title,
                d.labels.first().map(|label| &text[label.span.start as usize..label.span.end as usize])
            )
        };
        return Err(outcome.diagnostics.iter().find(|d| d.is_error()).map(of).unwrap_or_default());
    }
    let kernel = session.program.kernels.ids().next_back().ok_or("no kernel")?;
    let module =
        lower(&session.program, &Instance::new(kernel, vec![])).map_err(|errors| format!("{:#?}", errors.first()))?;
    Ok((session, module))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let scale = 1.0 + a.iter().chain(b).filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let one = |(a, b): (&f64, &f64)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        false => (a - b).abs() / scale,
    };
    a.iter()
        .zip(b)
        .map(one)
        .fold(0.0, |m, x| if x.is_nan() || m > x { m.max(if x.is_nan() { f64::INFINITY } else { x }) } else { x })
}

pub fn refused(problem: &Problem, lost: &Lost) -> Verdict {
    if lost.code == "E0999" {
        return Verdict::Wrong(lost.label.clone());
    }
    let line = problem.session.sources.line_column(lost.span).0;
    Verdict::Refused { label: lost.label.clone(), line }
}

/// What is compared: inputs, outputs, directions.
pub struct Setting {
    pub active: Vec<bool>,
    pub inputs: Vec<bool>,
    pub outputs: Vec<bool>,
    pub smooth: Smooth,
    pub v: Vec<Vec<f64>>,
    pub u: Vec<Vec<f64>>,
}

pub fn setting(problem: &Problem) -> Setting {
    let active = derive::can_be_active(&problem.module);
    let access = accesses(&problem.module);
    let of = |fits: &dyn Fn(Option<Access>) -> bool| -> Vec<bool> {
        active.iter().zip(&access).map(|(active, access)| *active && fits(*access)).collect()
    };
    let inputs = of(&|access| access != Some(Access::Out));
    let outputs = of(&|access| matches!(access, Some(Access::Out | Access::InOut)));
    let mut stream = Stream(77);
    let mut directions = |which: &[bool]| -> Vec<Vec<f64>> {
        let one = |(argument, wanted): (&Argument, &bool)| {
            floats(argument).iter().map(|_| if *wanted { stream.next((-1.0, 1.0)) } else { 0.0 }).collect()
        };
        problem.arguments.iter().zip(which).map(one).collect()
    };
    let (v, u) = (directions(&inputs), directions(&outputs));
    Setting { active, inputs, outputs, smooth: problem.smooth, v, u }
}

/// Returns the outputs at a point along the direction.
fn outputs_at(problem: &Problem, setting: &Setting, by: f64) -> Result<Vec<Vec<f64>>, String> {
    let moved: Vec<Argument> = problem.arguments.iter().zip(&setting.v).map(|(a, v)| combined(a, by, v)).collect();
    let after = by_reference(&problem.module, problem.extents, &moved)?;
    Ok(after.iter().map(floats).collect())
}

/// Compares forward mode, reverse mode and difference quotients.
pub fn check(problem: &Problem) -> Verdict {
    match checked(problem) {
        Ok(verdict) => verdict,
        Err(why) => Verdict::Wrong(why),
    }
}

fn checked(problem: &Problem) -> Result<Verdict, String> {
    let setting = setting(problem);
    let forward = match derive::forward(&problem.module, &setting.active, problem.again) {
        Ok(forward) => forward,
        Err(lost) => return Ok(refused(problem, &lost)),
    };
    let reverse = derive::reverse(&problem.module, &setting.active, &launches(problem));
    if let (Err(lost), false) = (&reverse, problem.again) {
        return Ok(refused(problem, lost));
    }
    let before = match outputs_at(problem, &setting, 0.0) {
        Ok(before) => before,
        Err(_) => return Ok(Verdict::Left("it faults".into())),
    };
    if !before.iter().flatten().all(|x| x.is_finite() && x.abs() < 1e6) {
        return Ok(Verdict::Left("large results".into()));
    }
    let tangents = run_derived(problem, &forward, &|i| setting.v[i].clone())?.0;
    let mut quotients = match (slopes(problem, &setting, 5e-5), slopes(problem, &setting, 1e-4)) {
        (Ok(fine), Ok(coarse)) => vec![(fine, coarse)],
        // A tape that is as long as this point needs, in the derivative of a derivative.
        _ if problem.again => return Ok(Verdict::Left("nearby, other numbers are recorded".into())),
        (fine, coarse) => vec![(fine?, coarse?)],
    };
    let mut found = Found::default();
    for i in (0..problem.arguments.len()).filter(|&i| setting.outputs[i]) {
        let Some(tangent) = &tangents[i] else { return Err(format!("no tangent of {i}")) };
        if !tangent.iter().all(|x| x.is_finite() && x.abs() < 1e9) {
            return Ok(Verdict::Left("large derivatives".into()));
        }
        for (at, (&tangent, &u)) in tangent.iter().zip(&setting.u[i]).enumerate() {
            let mut quotient = |number: usize| -> Result<(f64, f64), String> {
                while quotients.len() <= number {
                    let h = OTHER_STEPS[quotients.len() - 1];
                    quotients.push((slopes(problem, &setting, h / 2.0)?, slopes(problem, &setting, h)?));
                }
                Ok((quotients[number].0[i][at], quotients[number].1[i][at]))
            };
            let (fine, coarse) = quotient(0)?;
            let mut agrees = found.compare(tangent, fine, coarse, setting.smooth).is_ok();
            for other in (1..=OTHER_STEPS.len()).take_while(|_| setting.smooth != Smooth::Everywhere) {
                if !agrees {
                    let (fine, coarse) = quotient(other)?;
                    agrees = found.agrees(tangent, fine, coarse, 1e-3);
                    found.digits_lost |= agrees;
                }
            }
            if !agrees {
                let why = format!("forward mode of {i}: {tangent}, differences: {fine}, {coarse}");
                return Err(format!("{why}\n{}", text::print(&forward.module)));
            }
            found.dot += tangent * u;
            found.size += (tangent * u).abs();
        }
    }
    let reverse = match reverse {
        Ok(reverse) => reverse,
        Err(lost) => return Ok(refused(problem, &lost)),
    };
    let (adjoints, slots) = run_derived(problem, &reverse, &|i| setting.u[i].clone())?;
    let (mut other, mut size) = (0.0, found.size);
    for i in (0..problem.arguments.len()).filter(|&i| setting.inputs[i]) {
        // Without one, nothing depends on the parameter.
        let adjoint = adjoints[i].as_ref().unwrap_or(&setting.u[i]);
        for (a, v) in adjoint.iter().zip(&setting.v[i]) {
            other += a * v;
            size += (a * v).abs();
        }
    }
    let Found { dot, compared, quotient, skipped, digits_lost, .. } = found;
    if !other.is_finite() {
        return Ok(Verdict::Left("an infinite derivative of what is not used".into()));
    }
    let limit = if digits_lost { 1e-5 } else { 1e-9 };
    if (dot - other).abs() > limit * (1.0 + size) {
        let show = text::print(&reverse.module);
        return Err(format!("forward mode gives {dot}, reverse mode {other}\n{show}"));
    }
    let kinks = if skipped > 0 { format!(", {skipped} at kinks") } else { String::new() };
    Ok(Verdict::Right(format!(
        "{compared} slopes within {quotient:.0e}{kinks}, <u, Jv> = {dot:.4}, tapes of {slots:?}"
    )))
}

/// Further steps of differences, where the first ones span several jumps or have lost their digits.
const OTHER_STEPS: [f64; 3] = [1e-6, 1e-3, 1e-2];

/// Difference quotients of the outputs along the direction.
fn slopes(problem: &Problem, setting: &Setting, h: f64) -> Result<Vec<Vec<f64>>, String> {
    let (up, down) = (outputs_at(problem, setting, h)?, outputs_at(problem, setting, -h)?);
    let one = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| (a - b) / (2.0 * h)).collect();
    Ok(up.iter().zip(&down).map(one).collect())
}

/// What has been compared so far.
#[derive(Default)]
struct Found {
    compared: usize,
    skipped: usize,
    /// Differences of the first steps did not agree.
    digits_lost: bool,
    /// The largest relative difference from a quotient.
    quotient: f64,
    dot: f64,
    size: f64,
}

impl Found {
    /// Compares a tangent with two difference quotients; those that differ from each other tell nothing, unless all is smooth.
    fn compare(&mut self, tangent: f64, fine: f64, coarse: f64, smooth: Smooth) -> Result<(), ()> {
        let (limit, alike) = match smooth {
            Smooth::Everywhere => (1e-6, f64::INFINITY),
            Smooth::Mostly => (1e-6, 1e-5),
            Smooth::No => (1e-3, 1e-3),
        };
        if (fine - coarse).abs() > alike * (1.0 + fine.abs()) {
            self.skipped += 1;
            return Ok(());
        }
        self.compared += 1;
        if self.agrees(tangent, fine, coarse, limit) { Ok(()) } else { Err(()) }
    }

    /// Returns whether a tangent is what two difference quotients tend to.
    fn agrees(&mut self, tangent: f64, fine: f64, coarse: f64, limit: f64) -> bool {
        let apart = ((4.0 * fine - coarse) / 3.0 - tangent).abs() / (1.0 + tangent.abs());
        let agrees = apart <= limit;
        if agrees {
            self.quotient = self.quotient.max(apart);
        }
        agrees
    }
}
