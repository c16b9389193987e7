//! Starts this program again as a child process.

use std::process::Command;

/// Returns a command that runs the binary of this process, even if its file on disk has been replaced.
#[cfg(target_os = "linux")]
pub(crate) fn command() -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("clk");
    command
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn command() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| "clk".into()))
}
