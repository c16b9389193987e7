//! Compares random CUDA kernels, compiled by the system's C++ compiler, with their translation to Clk.
//!
//! `CLK_CUDA_KERNELS` is the number of kernels, `CLK_CUDA_SEED` the first seed. The C++ program runs one thread at a
//! time, and its sanitizer stops at undefined behavior; the results of such kernels are not compared.
//!
//! If `CLK_CUDA_KEEP` names a folder, the test saves the compared kernels there, as a program and its output. `nvcc
//! -fmad=false` compiles the program too, so that a GPU confirms the results. A long run:
//!
//! ```text
//! CLK_CUDA_KERNELS=100000 cargo test --workspace --test devices cuda_translation
//! ```

mod closures;
mod expressions;
mod generator;
mod memory;
mod statements;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::source::SourceMap;
use clk_compile::{CompileResult, NoFiles, Session};
use clk_import::{CudaTranslation, ImportOptions};
use clk_ir::Checks;
use clk_ir::def::{ElementLayout, Module, Ty};
use clk_lower::{Instance, lower_for};
use clk_runtime::{FaultKind, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};
use clk_testing::checked::{by_simulator, by_stepper};
use clk_testing::generate::{Argument, Bytes};
use clk_testing::reference::first_difference;
use clk_testing::{isa, setting};
use generator::{BLOCK, CudaKernel, GRID};

/// The code of the error about an operation on constants that overflows.
const CONSTANT_OVERFLOW: &str = "E0328";

/// Kernels in one C++ file.
const FILE_KERNELS: u64 = 100;

/// Definitions that the kernels use.
const PREAMBLE: &str = "\
#define SQ(x) ((x) * (x))
#define SMALL(x) ((x) > -100 && (x) < 100 ? (int)(x) : 0)
enum { K0, K1 = 7 };
constexpr short K2 = -3;
#ifndef OPAQUE
#define OPAQUE(...) __VA_ARGS__
#endif
";

/// Definitions of CUDA for a C++ compiler: indices, attributes and the integer functions.
const HEADER: &str = include_str!("cuda_translation/header.hpp");

fn cuda_text(kernels: &[&CudaKernel]) -> String {
    let texts: Vec<&str> = kernels.iter().map(|kernel| kernel.text.as_str()).collect();
    format!("{PREAMBLE}{}{}{}", memory::PREAMBLE, closures::PREAMBLE, texts.join(""))
}

/// Returns a program in C++ and CUDA that runs each kernel and prints a line for it: `-` for undefined behavior,
/// otherwise the bytes of the arrays that it writes.
fn cpp_program(kernels: &[&CudaKernel]) -> String {
    let mut data = String::new();
    let mut main = String::new();
    for kernel in kernels {
        let mut args = vec![];
        let mut results = String::new();
        for (at, param) in kernel.params.iter().enumerate() {
            let name = format!("{}_p{at}", kernel.name);
            let bytes: Vec<String> = param.bytes.iter().map(u8::to_string).collect();
            let _ = writeln!(data, "BYTES {name}[] = {{{}}};", bytes.join(","));
            let ty = param.ty.name();
            args.push(if param.is_pointer { format!("({ty}*){name}") } else { format!("*({ty}*){name}") });
            if param.is_written {
                let _ = write!(results, "dump(({ty}*){name}, sizeof {name} / sizeof({ty})); ");
            }
        }
        let (name, args) = (&kernel.name, args.join(", "));
        let _ = writeln!(main, "    if (RUN({name}, {GRID}, {BLOCK}, {args})) {{ {results}}} else putchar('-');");
        main.push_str("    putchar('\\n');\n");
    }
    let text = cuda_text(kernels);
    format!("{HEADER}\n{text}\n{data}\nint main() {{\n    prepare();\n{main}}}\n")
}

/// Compiles and runs a C++ program, and returns its lines.
fn run_cpp(compiler: &str, folder: &Path, text: &str) -> Vec<String> {
    std::fs::write(folder.join("kernels.cpp"), text).expect("written");
    let flags = [
        "-std=c++17",
        "-w",
        "-Wno-narrowing",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bounds",
        "-fsanitize-undefined-trap-on-error",
    ];
    let compiled =
        Command::new(compiler).args(flags).args(["-o", "kernels", "kernels.cpp"]).current_dir(folder).output();
    let compiled = compiled.expect("the compiler starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(folder.join("kernels")).output().expect("the program starts");
    assert!(ran.status.success(), "{:?}", ran.status);
    String::from_utf8(ran.stdout).expect("the output is ASCII").lines().map(str::to_owned).collect()
}

fn translated(text: &str) -> CudaTranslation {
    let mut sources = SourceMap::default();
    let file = sources.add("kernels.cu", text);
    let options = ImportOptions::default();
    let parsed = clk_import::parse(&mut sources, file, &options, &|_| None);
    clk_import::translate(&parsed.unit, &parsed.provenance, &options)
}

fn bytes_of(data: &[u8]) -> Bytes {
    let mut bytes = Bytes::zeros(data.len());
    bytes.get_mut().copy_from_slice(data);
    bytes
}

/// Returns the arguments of a translated kernel, whose signature has parameters for the launch besides the pointers
/// and values of the CUDA kernel.
fn arguments(kernel: &CudaKernel, signature: &clk_check::typed::Signature) -> Vec<Argument> {
    let argument = |param: &clk_check::typed::Param| {
        let Some(source) = kernel.params.iter().find(|source| source.name == param.name) else {
            let extent = match param.name.as_str() {
                "grid_x" => GRID,
                "block_x" => BLOCK,
                other => panic!("{}: unexpected parameter {other}", kernel.name),
            };
            return Argument::Value(vec![ScalarValue::from_bytes(Scalar::I32, &extent.to_le_bytes())]);
        };
        let scalar = source.ty.scalar();
        if !source.is_pointer {
            return Argument::Value(vec![ScalarValue::from_bytes(scalar, &source.bytes)]);
        }
        Argument::Array {
            layout: ElementLayout::plain(Ty::Scalar(scalar)),
            shape: vec![(source.bytes.len() / scalar.size()) as u32],
            bytes: bytes_of(&source.bytes),
            write: source.is_written,
        }
    };
    signature.params.iter().map(argument).collect()
}

/// The results of a number of kernels.
#[derive(Default, Debug)]
struct Tally {
    compared: u64,
    refused: u64,
    undefined: u64,
    /// Kernels with an overflow that C++ has not detected.
    overflowed: u64,
}

/// Compares the arrays after a run with a line of the C++ program, and describes the first difference.
fn difference(kernel: &CudaKernel, expected: &str, actual: &[Argument]) -> Result<(), String> {
    let mut expected = expected.split(' ');
    let written = kernel.params.iter().filter(|param| param.is_written);
    let arrays = actual.iter().filter_map(|argument| match argument {
        Argument::Array { layout, bytes, write: true, .. } => Some((layout, bytes)),
        _ => None,
    });
    for (param, (layout, bytes)) in written.zip(arrays) {
        let digits = expected.next().unwrap_or_default().as_bytes();
        let wanted: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("a hexadecimal byte"))
            .collect();
        if let Some(place) = first_difference(layout, &wanted, bytes.get()) {
            return Err(format!("`{}` in C++ and in Clk differs: {place}", param.name));
        }
    }
    Ok(())
}

/// Runs a kernel on the stepper and on a simulator, and compares the results with those of C++. Returns false if Clk
/// reports an overflow: the C++ compiler computes `char(a * b)` in 8 bits, and then misses that of `a * b`.
fn check(
    kernel: &CudaKernel,
    seed: u64,
    module: &Module,
    checks: Checks,
    arguments: &[Argument],
    expected: &str,
) -> Result<bool, String> {
    let extents = LaunchExtents::Grid { grid: [GRID, 1, 1], block: [BLOCK, 1, 1] };
    let stepped = by_stepper(module, extents, arguments, checks);
    match stepped.faults.first().map(|fault| &fault.kind) {
        Some(FaultKind::Overflow { .. }) => return Ok(false),
        // The simulator alone runs a kernel that takes too many steps.
        Some(FaultKind::StepLimit { .. }) => {}
        Some(fault) => return Err(format!("Clk has a fault: {fault:?}")),
        None => difference(kernel, expected, &stepped.arguments)?,
    }
    let prepared = clk_pass::prepare_for(module.clone(), checks).map_err(|error| error.to_string())?;
    let simulators = isa::simulators();
    let simulator = &simulators[seed as usize % simulators.len()];
    let simulated = by_simulator(simulator, prepared, extents, arguments, 1);
    if let Some(fault) = simulated.faults.first() {
        return Err(format!("the simulator has a fault: {fault:?}"));
    }
    difference(kernel, expected, &simulated.arguments).map_err(|found| format!("on the simulator, {found}"))?;
    Ok(true)
}

/// Compares the kernels of consecutive seeds, and adds them to the tally.
fn compare(compiler: &str, first: u64, count: u64, tally: &mut Tally) -> Result<(), String> {
    let generated: Vec<CudaKernel> = (first..first + count).map(generator::kernel).collect();
    let mut kernels: Vec<&CudaKernel> = generated.iter().collect();
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = run_cpp(compiler, folder.path(), &cpp_program(&kernels));
    assert_eq!(lines.len() as u64, count);
    let compile = |kernels: &[&CudaKernel]| {
        let translation = translated(&cuda_text(kernels));
        let mut session = Session::default();
        let outcome = session.add("kernels.clk", &translation.text, &NoFiles);
        (translation, session, outcome)
    };
    let (mut translation, mut session, mut outcome) = compile(&kernels);
    let overflows = |outcome: &CompileResult| outcome.diagnostics.iter().any(|d| d.code == CONSTANT_OVERFLOW);
    let mut seeds: Vec<u64> = (first..).take(kernels.len()).collect();
    if overflows(&outcome) {
        // In code that is never executed, C++ has no overflow.
        let kept: Vec<bool> = kernels.iter().map(|kernel| !overflows(&compile(&[kernel]).2)).collect();
        let mut keep = kept.iter().copied().cycle();
        kernels.retain(|_| keep.next() == Some(true));
        let mut keep = kept.iter().copied().cycle();
        lines.retain(|_| keep.next() == Some(true));
        let mut keep = kept.iter().copied().cycle();
        seeds.retain(|_| keep.next() == Some(true));
        tally.overflowed += kept.iter().filter(|kept| !**kept).count() as u64;
        (translation, session, outcome) = compile(&kernels);
    }
    if let Some(error) = outcome.diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        let span = error.primary().map(|span| span.range()).unwrap_or_default();
        let before = &translation.text[..span.start];
        let start = before.rfind("\nkernel ").max(before.rfind("\nfn ")).unwrap_or_default();
        let end = translation.text[span.end..].find('\n').map_or(span.end, |length| span.end + length);
        let text = &translation.text[start..end];
        let source = kernels.iter().find(|kernel| text.contains(&kernel.name)).map_or("", |kernel| &kernel.text);
        return Err(format!("the translation has an error: {}\n{source}\n{text}", error.title));
    }
    let mut kept = vec![];
    for ((&kernel, expected), seed) in kernels.iter().zip(&lines).zip(seeds) {
        let Some(known) = translation.kernels.iter().find(|known| known.name == kernel.name) else {
            tally.refused += 1;
            continue;
        };
        if expected == "-" {
            tally.undefined += 1;
            continue;
        }
        let program = &session.program;
        let id = program.kernels.ids().find(|&id| program.kernels[id].name == known.clk_name).expect("the kernel");
        let arguments = arguments(kernel, &program.kernels[id].sig);
        // C++ has no overflow in the compared kernels, so Clk must not report one.
        let checks = Checks { arithmetic: seed.is_multiple_of(2), ..Checks::default() };
        let checked = lower_for(program, &Instance::new(id, vec![]), checks)
            .map_err(|errors| format!("it is not lowered: {:?}", errors.first()))
            .and_then(|module| check(kernel, seed, &module, checks, &arguments, expected));
        match checked {
            Ok(true) => {
                tally.compared += 1;
                kept.push((kernel, expected.as_str()));
            }
            Ok(false) => tally.overflowed += 1,
            Err(found) => {
                let clk = translated(&cuda_text(&[kernel])).text;
                return Err(format!("seed {seed}: {found}\n{}\n{clk}", kernel.text));
            }
        }
    }
    if let Ok(folder) = std::env::var("CLK_CUDA_KEEP") {
        let path = |extension: &str| Path::new(&folder).join(format!("kernels-{first}.{extension}"));
        let (kernels, lines): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        std::fs::write(path("cu"), cpp_program(&kernels)).expect("written");
        std::fs::write(path("txt"), lines.join("\n") + "\n").expect("written");
    }
    Ok(())
}

#[test]
fn random_kernels_have_the_results_of_cpp() {
    let compiler = std::env::var("CXX").unwrap_or("c++".into());
    let found = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        println!("skipped: there is no C++ compiler `{compiler}`");
        return;
    }
    let first: u64 = setting("CLK_CUDA_SEED", 0);
    let end = first + setting("CLK_CUDA_KERNELS", 2 * FILE_KERNELS);
    let next = AtomicU64::new(first);
    let worker = || {
        let mut tally = Tally::default();
        loop {
            let start = next.fetch_add(FILE_KERNELS, Ordering::Relaxed);
            if start >= end {
                return Ok(tally);
            }
            if let Err(report) = compare(&compiler, start, FILE_KERNELS.min(end - start), &mut tally) {
                next.store(end, Ordering::Relaxed);
                return Err(report);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let results: Vec<Result<Tally, String>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err("a worker panicked".into()))).collect()
    });
    let mut sum = Tally::default();
    for result in results {
        let tally = result.unwrap_or_else(|report| panic!("{report}"));
        sum.compared += tally.compared;
        sum.refused += tally.refused;
        sum.undefined += tally.undefined;
        sum.overflowed += tally.overflowed;
    }
    println!("{sum:?}");
    if end - first >= 100 {
        assert!(sum.compared * 2 > end - first, "too few kernels are compared: {sum:?}");
        assert!(sum.overflowed * 50 < end - first, "Clk reports too many overflows: {sum:?}");
    }
}
