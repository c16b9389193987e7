//! Reports an internal error (a panic) as one message with a diagnostic code and a separate exit code. In a server, a
//! panic becomes the error reply of the request that caused it.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use clk_base::diag::Diagnostic;

/// The diagnostic code of internal errors, for `clk explain`.
pub(crate) const CODE: &str = "E0999";

thread_local! {
    /// Whether this thread is handling one of many requests. A panic then fails only that request.
    static SURVIVES: Cell<bool> = const { Cell::new(false) };
    /// The message of this thread's last panic while it handled a request.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Replaces the standard panic message, which is for Clk's developers, with one for users.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        let mut stderr = std::io::stderr().lock();
        // The write fails if standard error is closed. The failure cannot be reported anywhere.
        let _ = stderr.write_all(message(info).as_bytes());
        let _ = stderr.flush();
        drop(stderr);
        if SURVIVES.get() {
            LAST.set(Some(title(info)));
            return;
        }
        super::temp_files::remove_all();
        super::tty::restore();
        super::exit::exit_immediately(super::exit::INTERNAL);
    }));
}

/// Handles one request. A panic in it is reported on standard error and returned as the request's error.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Box<Diagnostic>> {
    let outer = SURVIVES.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    SURVIVES.set(outer);
    done.map_err(|_| {
        let title = LAST.take().unwrap_or_else(|| "internal error".into());
        Box::new(Diagnostic::error(CODE, title).help("please report it, with the server's standard error"))
    })
}

fn title(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", message.unwrap_or("no message"))
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
