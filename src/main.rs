//! The `clk` binary; everything is in the library's `app`.

use std::process::ExitCode;

fn main() -> ExitCode {
    clk_lang::app::main()
}
