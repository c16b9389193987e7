//! Reporting of internal errors (panics): one message with a code, and an exit code that no user error has. In a server, a
//! panic becomes the error reply of the request that caused it.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use crate::base::diag::Diagnostic;

/// The diagnostic code of internal errors, for `clk explain`.
pub(crate) const CODE: &str = "E0999";

thread_local! {
    /// Whether this thread is handling one of many requests: a panic then fails that request only.
    static SURVIVES: Cell<bool> = const { Cell::new(false) };
    /// The message of the last panic in such a request.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Replaces the standard panic message, which addresses Clk's developers, by one for its users.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|info| {
        let mut stderr = std::io::stderr().lock();
        // Standard error may be closed; there is nowhere left to report that.
        let _ = stderr.write_all(message(info).as_bytes());
        let _ = stderr.flush();
        drop(stderr);
        if SURVIVES.get() {
            LAST.set(Some(title(info)));
            return;
        }
        super::leftovers::remove();
        super::tty::leave();
        super::exit::end(super::exit::INTERNAL);
    }));
}

/// Handles one request. A panic in it is reported on standard error and returned as the request's error.
pub(crate) fn survived<T>(work: impl FnOnce() -> T) -> Result<T, Box<Diagnostic>> {
    let outer = SURVIVES.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    SURVIVES.set(outer);
    done.map_err(|_| {
        let title = LAST.take().unwrap_or_else(|| "internal error".into());
        Box::new(Diagnostic::error(CODE, title).help("please report it, with what the server wrote to standard error"))
    })
}

fn title(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", what.unwrap_or("no message"))
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or(String::from("an unknown place"), |l| format!("{}:{}", l.file(), l.line()));
    let mut text = format!("error[{CODE}]: {}\n", title(info));
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
