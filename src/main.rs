//! The `clk` binary; everything is in the library's `app`.

use std::process::ExitCode;

/// Notes what it cannot give, so that the end for lack of memory says so.
#[global_allocator]
static MEMORY: clk_lang::app::Memory = clk_lang::app::Memory;

fn main() -> ExitCode {
    clk_lang::app::main()
}
