//! Helpers to run the `clk` binary from tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code and the output of a run of the binary.
pub struct RunOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Returns the path of the binary. Cargo sets the variable for integration tests; a test that is started by hand takes
/// the binary that was built with it.
pub fn binary() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_clk").map_or_else(
        || {
            let test = std::env::current_exe().expect("the path of this test");
            let built = test.parent().and_then(Path::parent).expect("the folder of the build");
            built.join(format!("clk{}", std::env::consts::EXE_SUFFIX))
        },
        PathBuf::from,
    )
}

/// Returns a command whose environment does not depend on that of the tests.
pub fn clk(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).stdin(Stdio::null());
    // The output must not depend on whether the machine has a GPU.
    command.env("CLK_DEVICE", "sim");
    hear_signals(&mut command);
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "COLUMNS", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command
}

/// Restores the default signal handling in a child process. Tests that run in the background or under `nohup` ignore
/// some signals, and `clk` would inherit and respect that.
#[cfg(unix)]
fn hear_signals(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: sets the default action of a signal, in a process that has not called exec yet.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: only calls `signal`, which is safe between fork and exec.
    unsafe { command.pre_exec(reset) };
}

#[cfg(not(unix))]
fn hear_signals(_: &mut Command) {}

/// Runs the binary with these arguments in a folder.
pub fn run(folder: &Path, words: &[&str]) -> RunOutput {
    finish(clk(folder).args(words))
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> RunOutput {
    let output = command.output().expect("clk starts");
    RunOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8 output"),
        err: String::from_utf8(output.stderr).expect("UTF-8 diagnostics"),
    }
}

/// Runs the binary with a text as its standard input.
pub fn run_with_input(folder: &Path, words: &[&str], input: &str) -> RunOutput {
    finish_with_input(clk(folder).args(words), input)
}

/// Runs a command with a text as its standard input.
pub fn finish_with_input(command: &mut Command, input: &str) -> RunOutput {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("clk starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("clk ends");
    RunOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8 output"),
        err: String::from_utf8(output.stderr).expect("UTF-8 diagnostics"),
    }
}

/// Returns the diagnostics of a run with `--json`. Other lines are skipped.
pub fn diagnostics(ran: &RunOutput) -> Vec<serde_json::Value> {
    let lines = ran.err.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["kind"] == "diagnostic").collect()
}
