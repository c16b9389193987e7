//! Compiles the CUDA text of every kernel that the repository's programs launch, if NVRTC is installed.
//!
//! The standard library, the examples, the benches and the language reference run on a device that wraps the simulator
//! and records each loaded kernel. `CLK_RANDOM_PROGRAMS` is the number of additional random kernels. Without NVRTC
//! (`pip install nvidia-cuda-nvrtc`, or `CLK_NVRTC`) the tests print that they are skipped.

use std::path::Path;

use clk_cuda::nvrtc::{Nvrtc, NvrtcError};
use clk_cuda::text::{CodegenOptions, cuda_text};
use clk_lang::libraries::nvrtc_places;
use clk_testing::cuda_support::{Kernel, every_kernel};
use clk_testing::generate;
use clk_testing::nvrtc::nvrtc;
use clk_testing::setting;

/// Returns the variants of the generated text: their names and code generation options.
fn variants() -> [(&'static str, CodegenOptions); 4] {
    let plain = CodegenOptions::default();
    [
        ("checked", plain.clone()),
        (
            "every access guarded, stoppable",
            CodegenOptions { assume: false, stop: true, coarsen: false, ..plain.clone() },
        ),
        ("unchecked, contracted", CodegenOptions { checked: false, contract: true, ..plain.clone() }),
        ("wide", CodegenOptions { wide: true, fast_math: true, ..plain }),
    ]
}

/// What NVRTC compiles a text to.
#[derive(Clone, Copy)]
enum Output {
    MachineCode,
    /// Takes less time, and finds the same errors in the text.
    Ptx,
}

/// A kernel, a variant of its text, and what it is compiled to.
type Work<'a> = (&'a Kernel, &'a (&'static str, CodegenOptions), Output);

/// Returns NVRTC's log if it rejects a text.
fn refused(nvrtc: &Nvrtc, text: &str, options: &CodegenOptions, output: Output) -> Option<String> {
    let flags = options.flags();
    let result = match output {
        Output::MachineCode => nvrtc.compile(text, "kernel.cu", 90, &flags).map(|_| ()),
        Output::Ptx => {
            let mut flags: Vec<String> = flags.iter().map(|flag| flag.replace("=sm_", "=compute_")).collect();
            if !flags.iter().any(|flag| flag.starts_with("--gpu-architecture")) {
                flags.push("--gpu-architecture=compute_90".to_string());
            }
            nvrtc.ptx(text, "kernel.cu", 90, &flags).map(|_| ())
        }
    };
    match result {
        Ok(()) => None,
        Err(NvrtcError::Rejected { log }) => Some(log),
        Err(failure) => Some(format!("{failure:?}")),
    }
}

fn complaint(nvrtc: &Nvrtc, (kernel, variant, output): Work) -> Option<String> {
    let text = cuda_text(&kernel.prepared, &variant.1, None);
    let log = refused(nvrtc, &text.text, &text.options, output)?;
    Some(format!("== {}, {}\n{log}\n{}", kernel.name, variant.0, text.text))
}

/// Compiles texts, on all available threads.
fn compile_all(nvrtc: &Nvrtc, work: &[Work]) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let run = || {
            let mut complaints = vec![];
            while let Some(item) = work.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                complaints.extend(complaint(nvrtc, *item));
            }
            complaints
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a compiler thread")).collect()
    });
    println!("{} texts compiled, {} refused", work.len(), complaints.len());
    if let Ok(file) = std::env::var("CLK_TEST_COMPLAINTS") {
        std::fs::write(file, complaints.join("\n")).expect("complaints are written");
    }
    assert!(
        complaints.is_empty(),
        "{} texts refused:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(5)].join("\n")
    );
}

#[test]
fn every_kernel_compiles() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let kernels = every_kernel(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(kernels.len() >= 100, "{} kernels", kernels.len());
    // Compiles the first variant of each kernel, that of every fourth one to machine code, and of every fourth kernel
    // one of the other variants, in rotation. That suffices because the options affect all kernels alike.
    let variants = variants();
    let mut work: Vec<Work> = vec![];
    for (number, kernel) in kernels.iter().enumerate() {
        work.push((kernel, &variants[0], if number % 4 == 0 { Output::MachineCode } else { Output::Ptx }));
        if number % 4 == 1 {
            work.push((kernel, &variants[1 + number / 4 % (variants.len() - 1)], Output::Ptx));
        }
    }
    compile_all(&nvrtc, &work);
}

#[test]
fn random_kernels_compile() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let count = setting("CLK_RANDOM_PROGRAMS", 12).min(400);
    let first = setting("CLK_RANDOM_SEED", 1);
    let kernel = |seed: u64| {
        let prepared = clk_pass::prepare(generate::program(seed).module).expect("a valid kernel");
        Kernel { name: format!("random program {seed}"), prepared: std::sync::Arc::new(prepared) }
    };
    let kernels: Vec<Kernel> = (first..first + count).map(kernel).collect();
    let guarded = &variants()[1];
    let work: Vec<Work> = kernels.iter().map(|kernel| (kernel, guarded, Output::MachineCode)).collect();
    compile_all(&nvrtc, &work);
}
