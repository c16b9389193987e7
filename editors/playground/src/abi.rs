//! What the scripts of the page call. A text is written to memory that [`clk_alloc`] gives, and belongs to the function that gets it;
//! events go to the page by a function that it provides.
//!
//! Nothing unwinds here: what fails for want of memory or of stack, and any internal error, ends the instance. [`clk_last_words`] says
//! why, and where the script was.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::base::room;
use crate::base::source::Sources;
use crate::host::problem::{Problem, no_room};
use crate::ide::markup;
use crate::run::{Running, report};
use crate::{Event, format};

#[link(wasm_import_module = "clk")]
unsafe extern "C" {
    /// Takes an event: its kind, and two texts or contents.
    fn event(kind: u32, head: *const u8, head_len: usize, body: *const u8, body_len: usize);
}

/// Bytes of the program's own stack that calls of scripts may use, of 2 MiB. The browser has a second stack beside it, of a size that
/// it does not tell and that is exhausted first in most of them: that ends the instance.
const STACK: usize = 1 << 20;

/// The run, for what is to be said when it has ended the instance.
static RUNNING: AtomicPtr<Running> = AtomicPtr::new(null_mut());

thread_local! {
    /// The message of a panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn send(event_of: Event<'_>) {
    let (kind, head, body): (u32, &str, &[u8]) = match event_of {
        Event::Print(text) => (0, "", text.as_bytes()),
        Event::Report(json, text) => (1, json, text.as_bytes()),
        Event::Picture(mime, content) => (2, mime, content),
        Event::File(name, content) => (3, name, content),
        Event::Value(text) => (4, "", text.as_bytes()),
        Event::Formatted(text) => (5, "", text.as_bytes()),
        Event::Colored(html) => (6, "", html.as_bytes()),
    };
    // SAFETY: the page reads these bytes before it returns.
    unsafe { event(kind, head.as_ptr(), head.len(), body.as_ptr(), body.len()) }
}

/// Returns memory for a text of so many bytes; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn clk_alloc(len: usize) -> *mut u8 {
    match Layout::array::<u8>(len.max(1)) {
        // SAFETY: the layout has a size.
        Ok(layout) => unsafe { alloc_zeroed(layout) },
        Err(_) => null_mut(),
    }
}

/// Takes over a text. What is no UTF-8 is replaced.
///
/// # Safety
/// `start` comes from [`clk_alloc`] with this length, and is used only once.
unsafe fn taken(start: *mut u8, len: usize) -> String {
    // SAFETY: allocated with this size, and initialized.
    let bytes = unsafe { Vec::from_raw_parts(start, len, len.max(1)) };
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Runs a script; returns its exit code. With a `check` other than 0, launches look for races and the like.
///
/// # Safety
/// As of [`taken`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_run(start: *mut u8, len: usize, check: u32) -> u32 {
    prepare();
    // SAFETY: as required of the caller.
    let text = unsafe { taken(start, len) };
    let top = 0u8;
    let running = Box::into_raw(Box::new(Running::new(check != 0, (&raw const top).addr().saturating_sub(STACK))));
    RUNNING.store(running, Ordering::Relaxed);
    // SAFETY: `clk_last_words` looks at it only when this run will never go on.
    let code = unsafe { &mut *running }.script(&text, &mut send);
    RUNNING.store(null_mut(), Ordering::Relaxed);
    // SAFETY: made above, and nobody else has it any more.
    drop(unsafe { Box::from_raw(running) });
    code.into()
}

/// Formats a program, which is an event; returns an exit code.
///
/// # Safety
/// As of [`taken`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_format(start: *mut u8, len: usize) -> u32 {
    prepare();
    // SAFETY: as required of the caller.
    let text = unsafe { taken(start, len) };
    format(&text, &mut send).into()
}

/// Gives a program with its colors as HTML.
///
/// # Safety
/// As of [`taken`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clk_highlight(start: *mut u8, len: usize) {
    // SAFETY: as required of the caller.
    let text = unsafe { taken(start, len) };
    send(Event::Colored(&markup::program(&text)));
}

/// Reports what has ended the instance, as an error of the statement that ran. `exhausted` says that the page knows it: the stack.
#[unsafe(no_mangle)]
pub extern "C" fn clk_last_words(exhausted: u32) {
    let panic = PANIC.take();
    let problem = match room::wanted() {
        _ if exhausted != 0 => {
            Problem::new("E0517", "the stack of the browser is exhausted: calls or expressions are nested too deep")
        }
        0 if panic.is_empty() => Problem::new("E0509", "there is not enough memory"),
        0 => Problem::new("E0999", panic),
        bytes => no_room(bytes as u64),
    };
    let running = RUNNING.load(Ordering::Relaxed);
    // SAFETY: it is alive: the run that would have freed it has ended in the middle, and nothing of it is used again.
    match unsafe { running.as_ref() } {
        Some(running) => {
            let (diagnostic, sources) = running.failed(problem);
            report(&diagnostic, sources, &mut send);
        }
        None => report(&problem.anywhere(), &Sources::default(), &mut send),
    }
}

/// Keeps the message of a panic.
fn prepare() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.set(format!("an internal error: {info}"));
    }));
}
