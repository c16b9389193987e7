//! The functions of the WebAssembly module that the page's JavaScript calls.
//!
//! The page writes a text to memory from [`clk_alloc`] and passes it to a function, which takes ownership. Results
//! return as events, by a callback into the page. WebAssembly does not unwind: internal errors and exhausted memory or
//! stack abort the instance. The page then calls [`clk_last_words`], which reports the reason and the position in the
//! script.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::run::{ScriptRun, report};
use crate::{PageEvent, format};
use clk_base::alloc;
use clk_base::source::SourceMap;
use clk_host::problem::{RuntimeError, out_of_memory};
use clk_ide::markup;

#[link(wasm_import_module = "clk")]
unsafe extern "C" {
    /// Receives an event in the page: its kind, and two byte sequences whose meaning depends on the kind.
    fn event(kind: u32, head: *const u8, head_len: usize, body: *const u8, body_len: usize);
}

/// Number of bytes of the 2 MiB WebAssembly stack that script calls may use. The browser's own stack has an unknown
/// size and overflows first in most browsers, which aborts the instance.
const STACK: usize = 1 << 20;

/// The running script, from which [`clk_last_words`] reads the position after an abort.
static CURRENT_RUN: AtomicPtr<ScriptRun> = AtomicPtr::new(null_mut());

thread_local! {
    /// The message of the last panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn send(message: PageEvent<'_>) {
    let (kind, head, body): (u32, &str, &[u8]) = match message {
        PageEvent::Print(text) => (0, "", text.as_bytes()),
        PageEvent::Report(json, text) => (1, json, text.as_bytes()),
        PageEvent::Picture(mime, content) => (2, mime, content),
        PageEvent::File(name, content) => (3, name, content),
        PageEvent::Value(text) => (4, "", text.as_bytes()),
        PageEvent::Formatted(text) => (5, "", text.as_bytes()),
        PageEvent::Colored(html) => (6, "", html.as_bytes()),
    };
    // SAFETY: the page reads these bytes before it returns.
    unsafe { event(kind, head.as_ptr(), head.len(), body.as_ptr(), body.len()) }
}

/// Allocates memory for a text of the given number of bytes; returns null if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn clk_alloc(len: usize) -> *mut u8 {
    match Layout::array::<u8>(len.max(1)) {
        // SAFETY: the size of the layout is not zero.
        Ok(layout) => unsafe { alloc_zeroed(layout) },
        Err(_) => null_mut(),
    }
}

/// Takes ownership of a text. Invalid UTF-8 is replaced.
///
/// # Safety
/// `start` comes from [`clk_alloc`] with this length, and is used only once.
unsafe fn take_text(start: *mut u8, len: usize) -> String {
    // SAFETY: [`clk_alloc`] allocated this memory with this size, and zeroed it.
    let bytes = unsafe { Vec::from_raw_parts(start, len, len.max(1)) };
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Runs a script and returns its exit code. If `check` is not 0, launches check for races and other faults.
///
/// # Safety
/// Like [`take_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_run(start: *mut u8, len: usize, check: u32) -> u32 {
    install_panic_hook();
    // SAFETY: the caller guarantees the requirements.
    let text = unsafe { take_text(start, len) };
    let top = 0u8;
    let run = Box::into_raw(Box::new(ScriptRun::new(check != 0, (&raw const top).addr().saturating_sub(STACK))));
    CURRENT_RUN.store(run, Ordering::Relaxed);
    // SAFETY: `clk_last_words` uses the run only after an abort, and this function does not continue after an abort.
    let code = unsafe { &mut *run }.script(&text, &mut send);
    CURRENT_RUN.store(null_mut(), Ordering::Relaxed);
    // SAFETY: `Box::into_raw` above returned this pointer, and no other reference remains.
    drop(unsafe { Box::from_raw(run) });
    code.into()
}

/// Formats a program. Sends the formatted text or the errors as an event, and returns an exit code.
///
/// # Safety
/// Like [`take_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_format(start: *mut u8, len: usize) -> u32 {
    install_panic_hook();
    // SAFETY: the caller guarantees the requirements.
    let text = unsafe { take_text(start, len) };
    format(&text, &mut send).into()
}

/// Highlights a program. Sends the result, which is HTML, as an event.
///
/// # Safety
/// Like [`take_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_highlight(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees the requirements.
    let text = unsafe { take_text(start, len) };
    send(PageEvent::Colored(&markup::program(&text)));
}

/// Reports why the instance was aborted, as an error at the statement that was running. `exhausted` is nonzero if the
/// page has found that the stack overflowed.
#[unsafe(no_mangle)]
pub extern "C" fn clk_last_words(exhausted: u32) {
    let panic = PANIC.take();
    let problem = match alloc::last_requested() {
        _ if exhausted != 0 => RuntimeError::new(
            "E0517",
            "the stack of the browser is exhausted: calls or expressions are nested too deeply",
        ),
        0 if panic.is_empty() => RuntimeError::new("E0509", "there is not enough memory"),
        0 => RuntimeError::new("E0999", panic),
        bytes => out_of_memory(bytes as u64),
    };
    let run = CURRENT_RUN.load(Ordering::Relaxed);
    // SAFETY: the run still exists, because `clk_run`, which frees it, was aborted.
    match unsafe { run.as_ref() } {
        Some(run) => {
            let (diagnostic, sources) = run.locate_error(problem);
            report(&diagnostic, sources, &mut send);
        }
        None => report(&problem.anywhere(), &SourceMap::default(), &mut send),
    }
}

/// Installs a panic hook that stores the message.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.set(format!("an internal error: {info}"));
    }));
}
