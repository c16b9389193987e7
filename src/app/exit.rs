//! Exit codes of `clk`.

pub(crate) const OK: u8 = 0;
/// The program, a check or a test failed.
pub(crate) const FAILURE: u8 = 1;
/// The command line is invalid.
pub(crate) const USAGE: u8 = 2;
/// The requested device is not available.
pub(crate) const NO_DEVICE: u8 = 3;
/// Another rank has failed and has reported the reason.
pub(crate) const OTHER_RANK: u8 = 4;
/// An internal error of Clk.
pub(crate) const INTERNAL: u8 = 70;
/// Ctrl-C ended the command.
pub(crate) const INTERRUPTED: u8 = 130;
/// If a signal ended the process, the exit code is this value plus the number of the signal.
pub(crate) const SIGNAL: u8 = 128;

/// Ends the process without running exit handlers, which would unload libraries that other threads still use.
#[cfg(unix)]
pub(crate) fn exit_immediately(code: u8) -> ! {
    // SAFETY: the call only ends the process.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
pub(crate) fn exit_immediately(code: u8) -> ! {
    std::process::exit(code.into())
}
