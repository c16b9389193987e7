//! Stack space of Python's threads: determines the limit for recursive script calls, and runs work on larger stacks.
//!
//! Compilation always runs on a large stack. A call runs on a large stack only if little of its thread's stack is left.

use std::cell::Cell;
use std::thread::Builder;

/// Size of a large stack in bytes. It is large because the compiler walks trees recursively. Unused stack only takes
/// address space.
const LARGE_STACK: usize = 256 << 20;

/// A call with fewer bytes of stack left runs on a large stack, since it may have to compile code for its arguments.
/// Python's threads have a few hundred KiB to 8 MiB, or the value of `threading.stack_size`, which is at least 32 KiB.
const MIN_CALL_STACK: usize = 1 << 20;

/// Script calls leave `1 / RESERVED_FRACTION` of a stack free.
const RESERVED_FRACTION: usize = 4;

thread_local! {
    static STACK: Cell<Option<StackExtent>> = const { Cell::new(None) };
}

/// The address range of a thread's stack; zeros if it is unknown.
#[derive(Clone, Copy, Debug)]
struct StackExtent {
    low: usize,
    size: usize,
}

/// Returns the lowest stack address that script calls of this thread may reach; 0 if it is unknown. The stack below it
/// is a reserve.
pub fn end() -> usize {
    let stack = STACK.get().unwrap_or_else(query_stack);
    STACK.set(Some(stack));
    stack.low + stack.size / RESERVED_FRACTION
}

/// Runs a call on this thread, or on a large stack if little of this thread's stack is left. `work` gets the [`end`] of
/// the stack on which it runs.
pub fn call<T: Send>(work: impl FnOnce(usize) -> T + Send) -> T {
    let marker = 0u8;
    let end = end();
    let is_small = end != 0 && std::ptr::from_ref(&marker).addr() < end.saturating_add(MIN_CALL_STACK);
    if is_small { on_large_stack(|| work(self::end())) } else { work(end) }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn query_stack() -> StackExtent {
    // SAFETY: the structure is filled by the first call before others read it, and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return StackExtent { low: 0, size: 0 };
        }
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        let is_known = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        // The stack of the main thread grows on demand; for it, this is the range up to the size limit.
        if is_known { StackExtent { low: low.addr(), size } } else { StackExtent { low: 0, size: 0 } }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn query_stack() -> StackExtent {
    StackExtent { low: 0, size: 0 }
}

/// Returns a builder of threads with a large stack.
pub fn builder() -> Builder {
    Builder::new().name("clk".into()).stack_size(LARGE_STACK)
}

/// Runs work on a large stack.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // If no thread can be created, the work runs on this thread. The slot ensures that it runs once.
    let slot = std::sync::Mutex::new(Some(work));
    let run_once = || {
        let work = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        work.map(|work| work())
    };
    let result = std::thread::scope(|scope| match builder().spawn_scoped(scope, run_once) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => run_once(),
    });
    result.unwrap_or_else(|| unreachable!("the work runs once"))
}
