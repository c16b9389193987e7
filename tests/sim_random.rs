//! Random kernels on the simulator, as they come and prepared: each does what the reference interpreter says it means.
//!
//! `CLK_RANDOM_PROGRAMS` says how many, `CLK_RANDOM_SEED` from which seed on. A failure prints its seed and the smallest
//! kernel found that still fails.

#[allow(dead_code)]
mod generate;
#[allow(dead_code)]
mod reference;
#[allow(dead_code)]
mod shrink;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_lang::device::sim::Simulator;
use clk_lang::device::{Control, Device, Fault};
use clk_lang::ir::def::{Facts, Module};
use clk_lang::ir::verify::verify;
use clk_lang::ir::{Prepared, text};
use clk_lang::pass;
use generate::{Argument, Program};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Run {
    arguments: Vec<Argument>,
    output: Vec<String>,
    faults: Vec<Fault>,
}

fn lines(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

fn by_reference(program: &Program) -> Run {
    let mut arguments = program.arguments.clone();
    let outcome = reference::launch(&program.module, program.extents, &mut generate::launch_arguments(&mut arguments));
    Run { arguments, output: lines(&outcome.output), faults: outcome.faults }
}

fn by_simulator(program: &Program, prepared: Prepared) -> Run {
    let mut arguments = program.arguments.clone();
    let kernel = Simulator::default().load(Arc::new(prepared));
    let control = Control { workers: 2, max_steps: 1_000_000, ..Control::default() };
    match kernel.launch(program.extents, &mut generate::launch_arguments(&mut arguments), &control) {
        Ok(output) => Run { arguments, output: lines(&output), faults: vec![] },
        Err(fault) => Run { arguments, output: lines(&fault.output), faults: vec![*fault] },
    }
}

fn is_same_fault(a: &Fault, b: &Fault) -> bool {
    (&a.kind, a.span, a.block, a.thread, &a.index) == (&b.kind, b.span, b.block, b.thread, &b.index)
}

fn difference(expected: &Run, found: &Run) -> Option<String> {
    if let Some(surplus) = found.faults.iter().find(|f| !expected.faults.iter().any(|e| is_same_fault(e, f))) {
        return Some(format!("a fault that is none: {surplus:?}\nexpected one of {:#?}", expected.faults));
    }
    if let Some(missing) = expected.faults.first() {
        return found.faults.is_empty().then(|| format!("no fault where there is one: {missing:?}"));
    }
    for (i, pair) in expected.arguments.iter().zip(&found.arguments).enumerate() {
        let (Argument::Array { layout, bytes, .. }, Argument::Array { bytes: found, .. }) = pair else { continue };
        if !reference::same_array(layout, bytes, found) {
            return Some(format!("argument {i} is\n{found:?}\nand should be\n{bytes:?}"));
        }
    }
    (expected.output != found.output)
        .then(|| format!("it printed {:#?}\nand should have printed {:#?}", found.output, expected.output))
}

/// Without passes; only where there is nothing to inline.
fn as_it_comes(program: &Program, expected: &Run) -> Option<String> {
    let module: Module = program.module.clone();
    if module.functions.len() > 1 {
        return None;
    }
    match verify(module) {
        Err(violations) => Some(violations.join("\n")),
        Ok(module) => difference(expected, &by_simulator(program, Prepared { module, facts: Facts::default() })),
    }
}

fn prepared(program: &Program, expected: &Run) -> Option<String> {
    match pass::prepare(program.module.clone()) {
        Err(error) => Some(error),
        Ok(prepared) => {
            let ir = text::print(&prepared.module);
            difference(expected, &by_simulator(program, prepared)).map(|d| format!("{d}\nprepared:\n{ir}"))
        }
    }
}

fn failure(program: &Program) -> Option<String> {
    let guarded = |name: &str, run: &dyn Fn() -> Option<String>| match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map(|o| format!("{name}: {o}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Some(format!("{name} panic: {}", text.unwrap_or_default()))
        }
    };
    let expected = by_reference(program);
    guarded("plain", &|| as_it_comes(program, &expected))
        .or_else(|| guarded("prepared", &|| prepared(program, &expected)))
}

fn report(seed: u64, program: Program, first: String) -> String {
    if std::env::var("CLK_RANDOM_WHOLE").is_ok() {
        return format!("seed {seed}, {:?}\n{}\n{first}", program.extents, text::print(&program.module));
    }
    let kind = first.split(':').next().unwrap_or_default().to_string();
    let is_bad = |p: &Program| failure(p).is_some_and(|f| f.starts_with(&kind));
    let (extents, small) = (program.extents, shrink::shrink(program, is_bad));
    let found = failure(&small).unwrap_or(first);
    format!("seed {seed}, {extents:?}\n{}\n{found}", text::print(&small.module))
}

#[test]
fn random_programs_run_as_the_reference_says() {
    let first = setting("CLK_RANDOM_SEED", 0);
    let count = setting("CLK_RANDOM_PROGRAMS", 3_000);
    let next = AtomicU64::new(first);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return None;
            }
            let program = generate::program(seed);
            if let Some(difference) = failure(&program) {
                next.store(first + count, Ordering::Relaxed);
                return Some(report(seed, program, difference));
            }
        }
    };
    let reports: Vec<String> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().filter_map(|h| h.join().unwrap_or_else(|_| Some("a worker panicked".into()))).collect()
    });
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
}
