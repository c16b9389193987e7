//! Runs random kernels with all checks on; many of them fault. If the stepper finds faults, the simulator must report
//! one of them. Otherwise both must compute the same bits, including those of NaNs. The simulator runs each kernel as
//! interpreted code and as machine code.
//!
//! `CLK_RANDOM_PROGRAMS` is the number of kernels, `CLK_RANDOM_SEED` the first seed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use clk_ir::{Checks, text};
use clk_runtime::FaultKind;
use clk_runtime::Isa;
use clk_sim::{Jit, Simulator};
use clk_testing::checked::{Run, by_simulator, by_stepper, difference};
use clk_testing::generate;
use clk_testing::generate::Program;
use clk_testing::setting;
use clk_testing::shrink;

/// Returns the checks of a program. NaNs are faults in every third program, and ordinary values in the others.
fn checks(program: &Program) -> Checks {
    Checks { memory: true, arithmetic: true, nan: program.seed.is_multiple_of(3) }
}

fn reference(program: &Program) -> Run {
    by_stepper(&program.module, program.extents, &program.arguments, checks(program))
}

/// Runs a program on the stepper and in every mode of the simulator; returns the first difference.
fn failure(program: &Program) -> Option<String> {
    let run = || {
        let expected = reference(program);
        if expected.faults.iter().any(|f| matches!(f.kind, FaultKind::StepLimit { .. })) {
            return None;
        }
        let sets: Vec<Isa> = Isa::ALL.iter().copied().filter(|isa| isa.is_supported()).collect();
        let isa = sets[program.seed as usize % sets.len()];
        // `Jit::Forced` also makes machine code exit to the interpreter where nothing requires it.
        let machine = if program.seed.is_multiple_of(4) { Jit::Forced } else { Jit::Always };
        let ways = [(isa, Jit::Off), (isa, machine), (*sets.last().expect("a set"), machine)];
        ways.into_iter().filter(|(isa, jit)| *jit == Jit::Off || jit.is_available(*isa)).find_map(|(isa, jit)| {
            let simulator = Simulator::with_isa(isa).with_jit(jit);
            let prepared = match clk_pass::prepare_for(program.module.clone(), checks(program)) {
                Ok(prepared) => prepared,
                Err(error) => return Some(error.to_string()),
            };
            let text = text::print(&prepared.module);
            let workers = 1 + program.seed as usize % 3;
            let actual = by_simulator(&simulator, prepared, program.extents, &program.arguments, workers);
            difference(&expected, &actual).map(|why| format!("{isa}, {jit}: {why}\nprepared:\n{text}"))
        })
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Some(format!("panic: {}", text.or(panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()))
    })
}

#[test]
fn checked_programs_match_on_all_engines() {
    let (first, count) = (setting("CLK_RANDOM_SEED", 0), setting("CLK_RANDOM_PROGRAMS", 400));
    let next = AtomicU64::new(first);
    let worker = || {
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return Ok(kinds);
            }
            let program = generate::checked_program(seed);
            if let Some(first_found) = failure(&program) {
                next.store(first + count, Ordering::Relaxed);
                let small = shrink::shrink(program, |program| failure(program).is_some());
                let why = failure(&small).unwrap_or(first_found);
                return Err(format!("seed {seed}, {:?}\n{}\n{why}", small.extents, text::print_spans(&small.module)));
            }
            let kind = reference(&program).faults.first().map_or("none".into(), |fault| {
                format!("{:?}", fault.kind).split([' ', '(', '{']).next().unwrap_or_default().to_string()
            });
            *kinds.entry(kind).or_default() += 1;
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let all: Vec<Result<BTreeMap<String, u64>, String>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for result in all {
        let counted = result.unwrap_or_else(|why| panic!("{why}"));
        counted.into_iter().for_each(|(kind, n)| *kinds.entry(kind).or_default() += n);
    }
    println!("{count} programs from seed {first}: {kinds:?}");
    if count >= 1000 {
        for kind in ["Overflow", "ShiftAmount", "Conversion", "DivisionByZero", "OutOfBounds", "NotFinite", "Unwritten"]
        {
            assert!(kinds.contains_key(kind), "no program has a fault of the kind {kind}: {kinds:?}");
        }
        let without = kinds.get("none").copied().unwrap_or_default();
        assert!(without > count / 5 && without < count * 9 / 10, "{without} of {count} programs do not fault");
    }
}
