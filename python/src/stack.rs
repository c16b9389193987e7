//! The stack of the calling thread: how far script calls may go, and a larger one for compiling, and for calls of threads with a small one.

use std::cell::Cell;
use std::thread::Builder;

/// Size in bytes of the stack for compiling, whose trees are walked recursively. Stack is only address space until it is used.
const ROOMY: usize = 256 << 20;

/// Bytes of stack below which a call runs on a stack of its own: it may compile its arguments' form. Python's threads have a few hundred
/// KiB to 8 MiB, or what `threading.stack_size` says, 32 KiB at the least.
const NEEDED: usize = 1 << 20;

/// The part of a stack that script calls leave free.
const RESERVED: usize = 4;

thread_local! {
    static STACK: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// Where the stack of a thread is.
#[derive(Clone, Copy, Debug)]
struct Stack {
    low: usize,
    size: usize,
}

/// Returns the lowest address that script calls of this thread may reach, with a reserve below it; 0 if it is unknown.
pub fn end() -> usize {
    let stack = STACK.get().unwrap_or_else(look);
    STACK.set(Some(stack));
    stack.low + stack.size / RESERVED
}

/// Runs a call, which is given the end of its stack: on this thread, unless its stack is nearly used up.
pub fn call<T: Send>(work: impl FnOnce(usize) -> T + Send) -> T {
    let marker = 0u8;
    let end = end();
    let is_small = end != 0 && std::ptr::from_ref(&marker).addr() < end.saturating_add(NEEDED);
    if is_small { roomy(|| work(self::end())) } else { work(end) }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn look() -> Stack {
    // SAFETY: the structure is filled by the first call before others read it, and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return Stack { low: 0, size: 0 };
        }
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        let found = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        // The main thread's grows on demand up to the limit.
        if found { Stack { low: low.addr(), size } } else { Stack { low: 0, size: 0 } }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn look() -> Stack {
    Stack { low: 0, size: 0 }
}

/// Returns a builder of threads with a large stack.
pub fn builder() -> Builder {
    Builder::new().name("clk".into()).stack_size(ROOMY)
}

/// Runs work on a large stack.
pub fn roomy<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // With no thread to be had, the work runs here: it is taken by whoever runs it.
    let slot = std::sync::Mutex::new(Some(work));
    let run = || {
        let work = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        work.map(|work| work())
    };
    let done = std::thread::scope(|scope| match builder().spawn_scoped(scope, run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => run(),
    });
    done.unwrap_or_else(|| unreachable!("the work runs once"))
}
