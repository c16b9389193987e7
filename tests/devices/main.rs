//! Tests devices: the simulator, machine code, generated CUDA text, isolated GPUs, and random kernels on all of them.

mod asynchronous_faults;
mod checked_patterns;
mod checked_programs;
mod cuda_cover;
mod cuda_emit;
mod cuda_text;
mod cuda_translation;
mod differential;
mod evidence;
mod fault_corpus;
mod isolate;
mod isolate_scripts;
mod machine_code;
mod null_backend;
mod nvrtc;
mod products;
mod race_oracle;
mod random_programs;
mod shards;
mod sim_suite;
mod stepper;
mod tile_kernels;
mod tile_programs;

/// Not a test: the entry point of the child processes that `isolate` and `isolate_scripts` start.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by other tests"]
fn child_process() {
    clk_testing::fake::child();
}
