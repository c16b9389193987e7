//! The `clk` binary, which calls [`clk_lang`].

use std::process::ExitCode;

/// The allocator of the process. It records failed allocations, so that an abort for lack of memory can be reported as
/// such.
#[global_allocator]
static MEMORY: clk_lang::RecordingAllocator = clk_lang::RecordingAllocator;

fn main() -> ExitCode {
    clk_lang::main()
}
