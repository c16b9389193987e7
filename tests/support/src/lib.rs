//! Helpers of the tests in `tests`: run `clk`, generate random programs, and compare results with references.

#[cfg(target_os = "linux")]
pub mod fake;
#[cfg(target_os = "linux")]
pub mod pty;

pub mod checked;
pub mod cuda_support;
mod exec;
pub mod generate;
pub mod isa;
pub mod launch;
pub mod nvrtc;
pub mod planted;
mod process;
pub mod random;
pub mod reference;
mod schemas;
mod settings;
pub mod shrink;
pub mod source;
pub mod tensor_text;
pub mod tile_steps;
pub mod world;

pub use exec::exec;
pub use process::{RunOutput, binary, clk, diagnostics, finish, finish_with_input, run, run_with_input};
pub use schemas::{Schema, validate};
pub use settings::{optional_setting, root, setting};
