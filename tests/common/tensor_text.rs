//! Kernels for tensor cores in tests: the kernel of a text, and what is wrong with its text for tensor cores.

use clk_lang::compile::{NoFiles, Session, default_instance};
use clk_lang::device::cuda::nvrtc::{Failure, Nvrtc};
use clk_lang::device::cuda::text::{Copies, Options, cuda_text, room_of};
use clk_lang::ir::Prepared;
use clk_lang::{lower, pass};

/// Returns the only kernel of a text.
#[track_caller]
pub fn prepared(source: &str) -> Prepared {
    let mut session = Session::default();
    let outcome = session.add("main.clk", source, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{source}", outcome.diagnostics);
    let own = |name: &str| source.contains(&format!("kernel {name}("));
    let (id, _) = session.program.kernels.iter().find(|(_, kernel)| own(&kernel.name)).expect("a kernel");
    let instance = default_instance(&session.program, id).expect("no compile-time arguments");
    let module = lower::lower(&session.program, &instance).unwrap_or_else(|errors| panic!("{errors:#?}\n{source}"));
    pass::prepare(module).expect("it is sound")
}

/// Compiles a kernel's text for tensor cores; returns the log if it spills or has one of these words in it, and other complaints.
pub fn complaint(nvrtc: &Nvrtc, kernel: &Prepared, copies: Copies, words: &[&str]) -> Option<String> {
    complaint_of(nvrtc, 90, kernel, copies, words)
}

/// The same for a GPU of this architecture.
pub fn complaint_of(
    nvrtc: &Nvrtc,
    architecture: u32,
    kernel: &Prepared,
    copies: Copies,
    words: &[&str],
) -> Option<String> {
    let options = Options { product: Some(copies), stop: true, room: room_of(architecture), ..Options::default() };
    let text = cuda_text(kernel, &options, None);
    if text.options.product != Some(copies) {
        return Some("it has the usual text".into());
    }
    let mut flags = text.options.flags();
    flags.push("--ptxas-options=-v".into());
    match nvrtc.compile(&text.text, "tensor.cu", architecture, &flags) {
        Ok(compiled) => {
            let spills = !compiled.log.contains("0 bytes spill stores, 0 bytes spill loads");
            let warns = words.iter().any(|word| compiled.log.contains(word));
            (spills || warns).then_some(compiled.log)
        }
        Err(Failure::Rejected { log }) => Some(format!("{log}\n{}", text.text)),
        Err(failure) => Some(format!("{failure:?}")),
    }
}
