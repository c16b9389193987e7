//! Starts this program again as a child process.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// The command that starts this program again, if Clk is embedded in another program: that program and its arguments.
static RELAUNCH: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command that starts this program again. Later calls have no effect.
pub(crate) fn set_relaunch_command(words: Vec<OsString>) {
    if !words.is_empty() {
        let _ = RELAUNCH.set(words);
    }
}

/// Returns whether Clk is embedded in another program.
pub(crate) fn is_embedded() -> bool {
    RELAUNCH.get().is_some()
}

/// Returns a command that starts this program again, to which arguments of `clk` can be added.
pub(crate) fn command() -> Command {
    match RELAUNCH.get().and_then(|words| words.split_first()) {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => binary(),
    }
}

/// Returns a command that runs the binary of this process, even if its file on disk has been replaced. If Clk is
/// embedded, this is the binary of the other program.
#[cfg(target_os = "linux")]
pub(crate) fn binary() -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("clk");
    command
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn binary() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| "clk".into()))
}
