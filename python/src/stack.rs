//! The stack of the calling thread: how far script calls may go, and a larger one for compiling.

use std::cell::Cell;

/// Size in bytes of the stack for compiling, whose trees are walked recursively. Stack is only address space until it is used.
const ROOMY: usize = 256 << 20;

thread_local! {
    static END: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the lowest address that script calls of this thread may reach, with a reserve below it; 0 if it is unknown.
pub fn end() -> usize {
    let end = END.get().unwrap_or_else(look);
    END.set(Some(end));
    end
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn look() -> usize {
    // SAFETY: the structure is filled by the first call before others read it, and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return 0;
        }
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        let found = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        // The main thread's grows on demand up to the limit.
        if found { low.addr() + size / 4 } else { 0 }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn look() -> usize {
    0
}

/// Runs work on a large stack.
pub fn roomy<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // With no thread to be had, the work runs here: it is taken by whoever runs it.
    let slot = std::sync::Mutex::new(Some(work));
    let run = || {
        let work = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        work.map(|work| work())
    };
    let done = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("clk".into()).stack_size(ROOMY);
        match builder.spawn_scoped(scope, run) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => run(),
        }
    });
    done.unwrap_or_else(|| unreachable!("the work runs once"))
}
