//! What a fault of Clk's own looks like: one message with a code, and an exit code that no mistake of the user's has.

use std::io::Write;
use std::panic::PanicHookInfo;

/// The code of an internal error, for `clk explain`.
pub const CODE: &str = "E0999";

/// Replaces the standard panic message, which speaks to Clk's developers, by one that speaks to its users.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let mut stderr = std::io::stderr().lock();
        // Standard error may be closed; there is nobody left to tell then.
        let _ = stderr.write_all(message(info).as_bytes());
        let _ = stderr.flush();
        drop(stderr);
        std::process::exit(super::exit::INTERNAL.into());
    }));
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map_or(String::from("an unknown place"), |l| format!("{}:{}", l.file(), l.line()));
    let mut text = format!("error[{CODE}]: internal error: {}\n", what.unwrap_or("no message"));
    text += &format!(
        "  Note: Clk {} stopped at {place}. This is a fault of Clk, not of your program.\n",
        env!("CARGO_PKG_VERSION")
    );
    text += "  Help: please report it, with the program that caused it and the lines above.\n";
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0") {
        text += &format!("{}\n", std::backtrace::Backtrace::force_capture());
    }
    text
}
