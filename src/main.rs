//! The `clk` binary, which calls [`clk_lang::app`].

use std::process::ExitCode;

/// Records failed allocations, so that an abort for lack of memory can be reported as such.
#[global_allocator]
static MEMORY: clk_lang::app::Memory = clk_lang::app::Memory;

fn main() -> ExitCode {
    clk_lang::app::main()
}
