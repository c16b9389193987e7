//! Runs a kernel and its derivatives in both modes, and compares the results.

use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_derive::{DerivativeLaunches, Derived, DerivedParamRole, NotDifferentiable, ReductionKernel};
use clk_ir::def::*;
use clk_ir::visit::each_stmt;
use clk_ir::{Checks, text};
use clk_lower::{Instance, lower};
use clk_runtime::{Control, Device, Fault, FaultKind, LaunchExtents};
use clk_scalar::ops::AtomicOp;
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::Simulator;

use clk_testing::generate::{Argument, Bytes, launch_arguments};
use clk_testing::reference;

/// An argument of a case.
#[derive(Clone, Copy)]
pub enum Spec {
    /// An array with these extents, filled with random floats.
    Floats(&'static [u32]),
    Ints(&'static [i32]),
    Number(f64),
}

#[derive(Clone)]
pub struct Problem {
    pub module: Module,
    pub extents: LaunchExtents,
    pub arguments: Vec<Argument>,
    pub session: Arc<Session>,
    /// The source of the kernel, if it has one.
    pub text: Option<String>,
    pub smooth: Smoothness,
    /// Whether the kernel itself is a reverse-mode derivative.
    pub is_derivative: bool,
}

/// How smooth a kernel is. Finite differences are meaningless at kinks and jumps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Smoothness {
    Everywhere,
    /// The kernel may have a few kinks or jumps.
    Mostly,
    /// The kernel may have many kinks or jumps, and values that overflow.
    No,
}

#[derive(Debug)]
pub enum Verdict {
    Right(String),
    Refused {
        label: String,
        line: usize,
    },
    /// The derivatives were not compared, for this reason.
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

pub fn problem(text: &str, extents: LaunchExtents, specs: &[Spec], range: (f64, f64)) -> Result<Problem, String> {
    let (session, module) = compiled(text)?;
    let mut stream = Stream(1);
    let mut arguments = vec![];
    for (param, spec) in module.kernel.params.iter().zip(specs) {
        arguments.push(match (param, spec) {
            (KernelParam::Value { ty, .. }, Spec::Number(x)) => {
                Argument::Value(vec![ScalarValue::of(*x).to_type(ty.scalar())])
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
        smooth: Smoothness::Everywhere,
        is_derivative: false,
    })
}

pub fn zeros(layout: &ElementLayout, shape: Vec<u32>, write: bool) -> Argument {
    let count = shape.iter().product::<u32>() as usize;
    Argument::Array { layout: layout.clone(), shape, bytes: Bytes::zeros(count * layout.size), write }
}

/// Calls `f` with the type and the bytes of every float in an array.
fn each_float(layout: &ElementLayout, bytes: &mut Bytes, f: &mut dyn FnMut(Scalar, &mut [u8])) {
    for element in bytes.get_mut().chunks_mut(layout.size.max(1)) {
        for leaf in layout.leaves.iter().filter(|leaf| leaf.ty.scalar().is_float()) {
            let scalar = leaf.ty.scalar();
            element[leaf.offset..leaf.offset + leaf.ty.size()].chunks_mut(scalar.size()).for_each(|to| f(scalar, to));
        }
    }
}

fn fill(layout: &ElementLayout, bytes: &mut Bytes, next: &mut dyn FnMut() -> f64) {
    each_float(layout, bytes, &mut |scalar, to| {
        to.copy_from_slice(&ScalarValue::of(next()).to_type(scalar).to_bytes()[..scalar.size()]);
    });
}

/// Returns the floats of an argument.
pub fn floats(argument: &Argument) -> Vec<f64> {
    let mut floats = vec![];
    match argument.clone() {
        Argument::Value(values) => floats.extend(values.iter().filter(|v| v.ty.is_float()).map(|v| v.as_f64())),
        Argument::Array { layout, mut bytes, .. } => {
            each_float(&layout, &mut bytes, &mut |scalar, at| {
                floats.push(ScalarValue::from_bytes(scalar, at).as_f64())
            });
        }
    }
    floats
}

/// Returns a copy of an argument with its floats replaced by these.
pub fn with_floats(argument: &Argument, floats: &[f64]) -> Argument {
    let mut floats = floats.iter().copied();
    let mut next = || floats.next().expect("as many floats");
    match argument.clone() {
        Argument::Value(values) => {
            let new = |v: &ScalarValue| if v.ty.is_float() { ScalarValue::of(next()).to_type(v.ty) } else { *v };
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

/// Returns two numbers about the derivative of a kernel: how many additions to adjoints are atomic, and how many
/// adjoints are read by atomic exchanges. The launch has blocks of 4 threads.
pub fn atomics(text: &str, blocks: u32) -> (usize, usize) {
    let (_, module) = compiled(text).expect(text);
    let extents = match module.kernel.form {
        LaunchForm::Threads { .. } => LaunchExtents::Threads([40, 1, 1]),
        LaunchForm::Grid => LaunchExtents::Grid { grid: [blocks, 1, 1], block: [4, 1, 1] },
    };
    let active = clk_derive::can_be_active(&module);
    let derived = clk_derive::reverse_mode(&module, &active, &DerivativeLaunches::for_extents(&module, extents))
        .expect(text)
        .module;
    let (mut added, mut exchanged) = (0, 0);
    each_stmt(&derived.functions[derived.kernel.body].body, &mut |stmt| {
        if let StmtKind::Atomic { op, .. } = stmt.kind {
            *(if op == AtomicOp::Exchange { &mut exchanged } else { &mut added }) += 1;
        }
    });
    (added, exchanged)
}

/// Runs a module in the reference interpreter.
fn by_reference(module: &Module, extents: LaunchExtents, arguments: &[Argument]) -> Result<Vec<Argument>, String> {
    let mut arguments = arguments.to_vec();
    let outcome = reference::launch(module, extents, &mut launch_arguments(&mut arguments));
    match outcome.faults.first() {
        Some(fault) => Err(format!("{:?} at {:?}", fault.kind, fault.span)),
        None => Ok(arguments),
    }
}

/// Runs a module on the simulator with checks.
pub fn by_simulator(module: &Module, problem: &Problem, arguments: &[Argument]) -> Result<Vec<Argument>, String> {
    let checks = Checks { memory: true, arithmetic: problem.smooth != Smoothness::No, ..Checks::default() };
    let prepared = clk_pass::prepare_for(module.clone(), checks).map_err(|error| error.to_string())?;
    let executable = Simulator::default().load(Arc::new(prepared), None);
    let mut arguments = arguments.to_vec();
    let control = Control { workers: 2, checks, ..Control::default() };
    executable
        .launch(&problem.extents.into(), &mut launch_arguments(&mut arguments), &control)
        .map_err(|fault| format!("{:?} at {:?}", fault.kind, fault.span))?;
    let warnings = control.warnings.lock().map(|w| w.clone()).unwrap_or_default();
    let matters = |f: &&Fault| match &f.kind {
        FaultKind::Incomplete { .. } => false,
        // A race of stores of the same value is harmless.
        FaultKind::Race(race) => race.value.is_none() || race.value != race.other_value,
        _ => true,
    };
    match warnings.iter().find(matters) {
        Some(fault) => Err(format!("{:?} at {:?}", fault.kind, fault.span)),
        None => Ok(arguments),
    }
}

/// Returns how the kernel accesses each parameter (`in`, `out` or `inout`); `None` for scalars.
fn accesses(module: &Module) -> Vec<Option<Access>> {
    module.kernel.params.iter().map(KernelParam::access).collect()
}

/// Builds the arguments of a derived kernel. `derivative` returns the floats of the tangent or adjoint of a parameter.
fn arguments(
    problem: &Problem,
    (module, roles): (&Module, &[DerivedParamRole]),
    derivative: &dyn Fn(usize) -> Vec<f64>,
    slots: &[u32],
) -> Vec<Argument> {
    let mut tapes = slots.iter();
    let threads: Vec<u32> = match (problem.extents, module.kernel.form) {
        (LaunchExtents::Threads(n), LaunchForm::Threads { rank }) => n[..usize::from(rank)].to_vec(),
        (LaunchExtents::Grid { grid, block }, _) => vec![grid.iter().chain(&block).product()],
        _ => vec![],
    };
    let with = |first: u32| [&[first][..], &threads].concat();
    let body = &module.functions[module.kernel.body];
    let one = |(role, param): (&DerivedParamRole, &KernelParam)| {
        let (layout, write) = match param {
            KernelParam::Value { .. } => (None, false),
            KernelParam::Array { memory, access, .. } => {
                (Some(body.memories[*memory].layout.clone()), *access != Access::In)
            }
        };
        let mut argument = match role {
            DerivedParamRole::Primal(i) => problem.arguments[*i].clone(),
            DerivedParamRole::Tangent(i) | DerivedParamRole::Adjoint(i) => {
                let like = match (&problem.arguments[*i], &layout) {
                    (Argument::Value(_), Some(layout)) => zeros(layout, vec![3], true),
                    (other, _) => other.clone(),
                };
                with_floats(&like, &derivative(*i).repeat(3))
            }
            DerivedParamRole::Extent(axis) => {
                Argument::Value(vec![ScalarValue::of(threads[usize::from(*axis)] as i32)])
            }
            DerivedParamRole::Sums(count) => {
                let shape = [&[*count], &FEWER[..threads.len()]].concat();
                zeros(layout.as_ref().expect("an array"), shape, true)
            }
            DerivedParamRole::Tape(_) => {
                zeros(layout.as_ref().expect("an array"), with(tapes.next().copied().unwrap_or(0)), true)
            }
            DerivedParamRole::Counts => zeros(layout.as_ref().expect("an array"), with(4), true),
        };
        if let Argument::Array { write: own, .. } = &mut argument {
            *own = write;
        }
        argument
    };
    roles.iter().zip(&module.kernel.params).map(one).collect()
}

/// One of the kernels of a derivative, and its launch.
struct Part<'a> {
    module: &'a Module,
    roles: &'a [DerivedParamRole],
    extents: LaunchExtents,
    /// For each sum over all threads, the parameter and element to whose adjoint it is added.
    sums: &'a [(usize, Vec<u32>)],
}

/// The number of threads that add up the partial sums of a launch.
const FEWER: [u32; 3] = [2, 3, 1];

/// Returns the kernels of a derivative in launch order.
fn parts<'a>(problem: &Problem, derived: &'a Derived) -> Vec<Part<'a>> {
    let over = |param: usize| {
        let Argument::Array { shape, .. } = &problem.arguments[param] else { panic!("the adjoint of a value") };
        let mut extents = [1; 3];
        extents.iter_mut().zip(shape).for_each(|(extent, &len)| *extent = len);
        LaunchExtents::Threads(extents)
    };
    let gathers = derived.gathers.iter();
    let mut all: Vec<Part> =
        gathers.map(|g| Part { module: &g.module, roles: &g.params, extents: over(g.param), sums: &[] }).collect();
    if let Some(ReductionKernel { module, params, sums }) = &derived.reduction {
        all.push(Part { module, roles: params, extents: LaunchExtents::Threads(FEWER), sums });
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
    let mut results = vec![None; problem.arguments.len()];
    for part in parts(problem, derived) {
        run_part(problem, &part, derivative, &slots, &mut results)?;
    }
    Ok((results, slots))
}

fn run_part(
    problem: &Problem,
    part: &Part,
    derivative: &dyn Fn(usize) -> Vec<f64>,
    slots: &[u32],
    results: &mut [Option<Vec<f64>>],
) -> Result<(), String> {
    let bound_arguments = arguments(problem, (part.module, part.roles), derivative, slots);
    let show = |why: String| format!("{why}\n{}", text::print(part.module));
    let over = Problem { extents: part.extents, ..problem.clone() };
    let after = by_simulator(part.module, &over, &bound_arguments).map_err(show)?;
    for (role, argument) in part.roles.iter().zip(&after) {
        if let DerivedParamRole::Tangent(i) | DerivedParamRole::Adjoint(i) = role {
            // The derivative stores the adjoint of a scalar as several partial sums.
            let all = floats(argument);
            let lanes = floats(&problem.arguments[*i]).len();
            let of_value = matches!(problem.arguments[*i], Argument::Value(_)) && all.len() > lanes;
            let summed = (0..lanes).map(|lane| all.iter().skip(lane).step_by(lanes.max(1)).sum());
            // Arrays that the kernel does not write are not results.
            let is_given = matches!(argument, Argument::Array { write: false, .. });
            if !is_given || matches!(role, DerivedParamRole::Tangent(_)) {
                results[*i] = Some(if of_value { summed.collect() } else { all });
            }
        }
    }
    add_sums(problem, (part, derivative), &after, results);
    let reference = match by_reference(part.module, part.extents, &bound_arguments) {
        // The derivative may exceed the reference's step limit, although the kernel itself does not.
        Err(why) if why.starts_with("StepLimit") => return Ok(()),
        reference => reference.map_err(show)?,
    };
    for ((role, argument), other) in part.roles.iter().zip(&after).zip(&reference) {
        if let DerivedParamRole::Tangent(_) | DerivedParamRole::Adjoint(_) = role {
            let deviation = distance(&floats(argument), &floats(other));
            if deviation > 1e-11 {
                return Err(show(format!("the simulator and the reference differ by {deviation}")));
            }
        }
    }
    as_source(problem, part, &bound_arguments, &reference)
}

/// Adds the partial sums of a reduction kernel's threads to the adjoints.
fn add_sums(
    problem: &Problem,
    (part, derivative): (&Part, &dyn Fn(usize) -> Vec<f64>),
    after: &[Argument],
    results: &mut [Option<Vec<f64>>],
) {
    let Some(at) = part.roles.iter().position(|role| matches!(role, DerivedParamRole::Sums(_))) else { return };
    let all = floats(&after[at]);
    for ((param, at), own) in part.sums.iter().zip(all.chunks(all.len() / part.sums.len())) {
        let adjoint = results[*param].get_or_insert_with(|| derivative(*param));
        let place = match &problem.arguments[*param] {
            Argument::Array { shape, .. } => shape.iter().zip(at).fold(0, |place, (extent, at)| place * extent + at),
            Argument::Value(_) => at.first().copied().unwrap_or(0),
        };
        adjoint[place as usize] += own.iter().sum::<f64>();
    }
}

/// Returns the number of slots that each tape of a derived kernel needs.
fn slots(problem: &Problem, derived: &Derived, derivative: &dyn Fn(usize) -> Vec<f64>) -> Result<Vec<u32>, String> {
    let mut slots = vec![];
    if let Some(counting) = &derived.counting {
        let bound_arguments = arguments(problem, (&counting.module, &counting.params), derivative, &[]);
        let after =
            by_simulator(&counting.module, problem, &bound_arguments).map_err(|why| format!("counting: {why}"))?;
        let Some(Argument::Array { bytes, shape, .. }) = after.last() else { return Err("no counts".into()) };
        let counts: Vec<i32> =
            bytes.get().chunks(4).map(|b| i32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
        let threads = shape[1..].iter().product::<u32>() as usize;
        slots = counts.chunks(threads.max(1)).map(|own| own.iter().copied().max().unwrap_or(0) as u32).collect();
    }
    Ok(slots)
}

fn launches(problem: &Problem) -> DerivativeLaunches {
    DerivativeLaunches::for_extents(&problem.module, problem.extents)
}

/// Returns the launches of a kernel's reverse-mode derivative as separate problems; empty if there is no derivative.
pub fn derived(problem: &Problem) -> Result<Vec<Problem>, String> {
    let setting = setting(problem);
    let Ok(reverse) = clk_derive::reverse_mode(&problem.module, &setting.active, &launches(problem)) else {
        return Ok(vec![]);
    };
    let adjoint = |i: usize| setting.u[i].clone();
    let slots = slots(problem, &reverse, &adjoint)?;
    let launch = |part: Part| {
        let arguments = arguments(problem, (part.module, part.roles), &adjoint, &slots);
        let (module, extents) = (part.module.clone(), part.extents);
        Problem { module, extents, arguments, text: None, is_derivative: true, ..problem.clone() }
    };
    Ok(parts(problem, &reverse).into_iter().map(launch).collect())
}

/// Prints the derived kernel as source, compiles that, and compares the results.
fn as_source(
    problem: &Problem,
    part: &Part,
    bound_arguments: &[Argument],
    expected: &[Argument],
) -> Result<(), String> {
    let Some(text) = &problem.text else { return Ok(()) };
    let of = |argument: &Argument| match argument {
        Argument::Value(_) => (vec![], String::new()),
        Argument::Array { shape, .. } => (shape.iter().map(u32::to_string).collect(), "P".to_string()),
    };
    let list = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let (indices, geometry) = match (part.extents, part.module.kernel.form) {
        (LaunchExtents::Threads(n), LaunchForm::Threads { rank }) => {
            let names: Vec<String> = (0..rank).map(|k| format!("i{k}")).collect();
            let pairs: Vec<String> = names.iter().zip(n).map(|(name, n)| format!("{name}: {n}")).collect();
            (names, format!("threads({})", pairs.join(", ")))
        }
        (LaunchExtents::Grid { grid, block }, _) => (vec![], format!("grid({}) block({})", list(&grid), list(&block))),
        _ => return Err("an odd launch".into()),
    };
    let head = clk_derive::KernelHeader {
        params: problem.arguments.iter().map(of).collect(),
        geometry,
        threads: (0..indices.len().max(1)).map(|k| format!("TAPE{k}")).collect(),
        indices,
    };
    let simple = clk_derive::simplify(part.module).map_err(|error| error.to_string())?;
    let Some(printed) = clk_derive::print(&simple, part.roles, &head) else {
        // A forward-mode derivative keeps the jumps of its kernel, and Clk source cannot express a jump out of several
        // loops.
        if part.module.kernel.name.ends_with("_jvp") {
            return Ok(());
        }
        return Err(format!("it cannot be said in source:\n{}", text::print(&simple)));
    };
    if std::env::var("CLK_SHOW_IR").is_ok() {
        println!("{printed}");
    }
    let module = compiled(&format!("{text}\n{printed}")).map_err(|why| format!("{why}\n{printed}"))?.1;
    let after = by_reference(&module, part.extents, bound_arguments).map_err(|why| format!("{why}\n{printed}"))?;
    for (role, (a, b)) in part.roles.iter().zip(after.iter().zip(expected)) {
        let deviation = distance(&floats(a), &floats(b));
        if deviation > 1e-12 && !matches!(role, DerivedParamRole::Tape(_)) {
            return Err(format!("as source, it differs by {deviation}\n{printed}"));
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

pub fn refused(problem: &Problem, error: &NotDifferentiable) -> Verdict {
    if error.code == "E0999" {
        return Verdict::Wrong(error.label.clone());
    }
    let line = problem.session.sources.line_column(error.span).0;
    Verdict::Refused { label: error.label.clone(), line }
}

/// The parameters that a check compares as inputs and outputs, and random directions for both.
pub struct Setting {
    pub active: Vec<bool>,
    pub inputs: Vec<bool>,
    pub outputs: Vec<bool>,
    pub smooth: Smoothness,
    pub v: Vec<Vec<f64>>,
    pub u: Vec<Vec<f64>>,
}

pub fn setting(problem: &Problem) -> Setting {
    let active = clk_derive::can_be_active(&problem.module);
    let access = accesses(&problem.module);
    let of = |predicate: &dyn Fn(Option<Access>) -> bool| -> Vec<bool> {
        active.iter().zip(&access).map(|(active, access)| *active && predicate(*access)).collect()
    };
    let inputs = of(&|access| access != Some(Access::Out));
    let outputs = of(&|access| matches!(access, Some(Access::Out | Access::InOut)));
    let mut stream = Stream(77);
    let mut directions = |included: &[bool]| -> Vec<Vec<f64>> {
        let one = |(argument, is_included): (&Argument, &bool)| {
            floats(argument).iter().map(|_| if *is_included { stream.next((-1.0, 1.0)) } else { 0.0 }).collect()
        };
        problem.arguments.iter().zip(included).map(one).collect()
    };
    let (v, u) = (directions(&inputs), directions(&outputs));
    Setting { active, inputs, outputs, smooth: problem.smooth, v, u }
}

/// Returns the outputs of a kernel after moving its inputs by this distance along the direction.
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
    let forward = match clk_derive::forward(&problem.module, &setting.active, problem.is_derivative) {
        Ok(forward) => forward,
        Err(lost) => return Ok(refused(problem, &lost)),
    };
    let reverse = clk_derive::reverse_mode(&problem.module, &setting.active, &launches(problem));
    if let (Err(lost), false) = (&reverse, problem.is_derivative) {
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
        // If the kernel is itself a derivative, its tape may be too short at nearby points.
        _ if problem.is_derivative => return Ok(Verdict::Left("nearby, other numbers are recorded".into())),
        (fine, coarse) => vec![(fine?, coarse?)],
    };
    let mut worst = ComparisonStats::default();
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
            let mut agrees = worst.compare(tangent, fine, coarse, setting.smooth).is_ok();
            for other in (1..=OTHER_STEPS.len()).take_while(|_| setting.smooth != Smoothness::Everywhere) {
                if !agrees {
                    let (fine, coarse) = quotient(other)?;
                    agrees = worst.agrees(tangent, fine, coarse, 1e-3);
                    worst.digits_lost |= agrees;
                }
            }
            if !agrees {
                let why = format!("forward mode of {i}: {tangent}, differences: {fine}, {coarse}");
                return Err(format!("{why}\n{}", text::print(&forward.module)));
            }
            worst.dot += tangent * u;
            worst.size += (tangent * u).abs();
        }
    }
    let reverse = match reverse {
        Ok(reverse) => reverse,
        Err(lost) => return Ok(refused(problem, &lost)),
    };
    let (adjoints, slots) = run_derived(problem, &reverse, &|i| setting.u[i].clone())?;
    let (mut other, mut size) = (0.0, worst.size);
    for i in (0..problem.arguments.len()).filter(|&i| setting.inputs[i]) {
        // If the derivative does not compute an adjoint, the outputs do not depend on the input value of the parameter.
        let adjoint = adjoints[i].as_ref().unwrap_or(&setting.u[i]);
        for (a, v) in adjoint.iter().zip(&setting.v[i]) {
            other += a * v;
            size += (a * v).abs();
        }
    }
    let ComparisonStats { dot, compared, quotient, skipped, digits_lost, .. } = worst;
    if !other.is_finite() {
        return Ok(Verdict::Left("an infinite derivative of an unused value".into()));
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

/// Further step sizes. They are tried if the difference quotients of the first ones span several jumps, or have lost
/// digits to cancellation.
const OTHER_STEPS: [f64; 3] = [1e-6, 1e-3, 1e-2];

/// Returns central difference quotients of the outputs along the direction, for step size `h`.
fn slopes(problem: &Problem, setting: &Setting, h: f64) -> Result<Vec<Vec<f64>>, String> {
    let (up, down) = (outputs_at(problem, setting, h)?, outputs_at(problem, setting, -h)?);
    let one = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| (a - b) / (2.0 * h)).collect();
    Ok(up.iter().zip(&down).map(one).collect())
}

/// Statistics of the comparisons so far.
#[derive(Default)]
struct ComparisonStats {
    compared: usize,
    skipped: usize,
    /// Whether only the difference quotients of [`OTHER_STEPS`] agreed with a tangent.
    digits_lost: bool,
    /// The largest relative difference between a tangent and a difference quotient.
    quotient: f64,
    dot: f64,
    size: f64,
}

impl ComparisonStats {
    /// Compares a tangent with two difference quotients. If the two quotients disagree, the comparison is skipped,
    /// unless the kernel is smooth everywhere.
    fn compare(&mut self, tangent: f64, fine: f64, coarse: f64, smooth: Smoothness) -> Result<(), ()> {
        let (limit, alike) = match smooth {
            Smoothness::Everywhere => (1e-6, f64::INFINITY),
            Smoothness::Mostly => (1e-6, 1e-5),
            Smoothness::No => (1e-3, 1e-3),
        };
        if (fine - coarse).abs() > alike * (1.0 + fine.abs()) {
            self.skipped += 1;
            return Ok(());
        }
        self.compared += 1;
        if self.agrees(tangent, fine, coarse, limit) { Ok(()) } else { Err(()) }
    }

    /// Returns whether a tangent matches the limit extrapolated from two difference quotients.
    fn agrees(&mut self, tangent: f64, fine: f64, coarse: f64, limit: f64) -> bool {
        let deviation = ((4.0 * fine - coarse) / 3.0 - tangent).abs() / (1.0 + tangent.abs());
        let agrees = deviation <= limit;
        if agrees {
            self.quotient = self.quotient.max(deviation);
        }
        agrees
    }
}
