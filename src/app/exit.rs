//! Exit codes of `clk`.

pub(crate) const OK: u8 = 0;
/// The program, a check or a test failed.
pub(crate) const FAILURE: u8 = 1;
/// The command line is invalid.
pub(crate) const USAGE: u8 = 2;
/// The requested device is not available.
pub(crate) const NO_DEVICE: u8 = 3;
/// Another rank has failed, and has said why.
pub(crate) const OTHER_RANK: u8 = 4;
/// An internal error of Clk.
pub(crate) const INTERNAL: u8 = 70;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// Added to the number of the signal that ended the process.
pub(crate) const SIGNAL: u8 = 128;

/// Ends the process without exit handlers, which would tear down libraries that other threads are using.
#[cfg(unix)]
pub fn end(code: u8) -> ! {
    // SAFETY: only ends the process.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
pub fn end(code: u8) -> ! {
    std::process::exit(code.into())
}
