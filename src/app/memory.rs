//! System memory: settings of the C library's allocator, the available amount, and what happens when allocation fails.
//!
//! Allocations whose size depends on user data are fallible ([`alloc`](clk_base::alloc)). All others are small. If
//! one of those fails, Rust aborts the process, and the handler of [`install_abort_handler`] reports it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use clk_base::aligned;

/// The system allocator, which also records the size of the last failed request.
pub struct RecordingAllocator;

/// Size in bytes of the last failed request.
static FAILED_SIZE: AtomicUsize = AtomicUsize::new(0);

fn record_failure(place: *mut u8, bytes: usize) -> *mut u8 {
    if place.is_null() {
        FAILED_SIZE.store(bytes, Ordering::Relaxed);
    }
    place
}

// SAFETY: all calls are forwarded to the system allocator.
unsafe impl GlobalAlloc for RecordingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same method of the system's allocator.
        record_failure(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same method of the system's allocator.
        record_failure(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same method of the system's allocator.
        record_failure(unsafe { System.realloc(place, layout, size) }, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the requirements of the same method of the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Installs a handler for aborts (out of memory, a library's `abort`, stack overflow). It prints a message and exits
/// with the code of internal errors, without a core dump.
#[cfg(unix)]
pub(crate) fn install_abort_handler() {
    extern "C" fn aborted(_: libc::c_int) {
        // `abort` runs the handler on the failing thread, so this is an ordinary call, but it must not allocate.
        let mut text = [0u8; 256];
        let mut rest = &mut text[..];
        let written = match FAILED_SIZE.load(Ordering::Relaxed) {
            0 => std::io::Write::write_fmt(&mut rest, format_args!("error[E0999]: internal error: clk was aborted\n")),
            bytes => std::io::Write::write_fmt(
                &mut rest,
                format_args!(
                    "error[E0509]: there is not enough memory: {bytes} bytes were asked for\n  \
                     Note: clk cannot go on without them\n"
                ),
            ),
        };
        let left = if written.is_ok() { rest.len() } else { 0 };
        let length = text.len() - left;
        // SAFETY: the text lives until the call returns. A failed write cannot be reported.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length) };
        super::temp_files::remove_if_free();
        super::tty::restore();
        super::exit::exit_immediately(super::exit::INTERNAL);
    }
    // SAFETY: a zeroed structure is valid and lives until the call returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = aborted;
        action.sa_sigaction = handler as libc::sighandler_t;
        // After a stack overflow, the handler needs the alternate stack.
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
pub(crate) fn install_abort_handler() {}

/// Makes a write beyond the file size limit fail with an error instead of ending the process by SIGXFSZ.
#[cfg(unix)]
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: only sets the disposition of a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(not(unix))]
pub(crate) fn ignore_file_size_signal() {}

/// Makes the heap grow in large steps and keep freed memory. With the default settings, the heap grows by 128 KiB per
/// system call, and each page of each new array causes a page fault.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn prepare() {
    const MIB: libc::c_int = 1 << 20;
    for (setting, value) in
        [(libc::M_TOP_PAD, 16 * MIB), (libc::M_TRIM_THRESHOLD, 512 * MIB), (libc::M_MMAP_THRESHOLD, 32 * MIB)]
    {
        // SAFETY: `mallopt` may be called at any time; an unsupported setting is ignored.
        unsafe { libc::mallopt(setting, value) };
    }
    // If address space is limited, a thread cannot reserve an arena and tries again at every allocation, with several
    // system calls.
    if has_limited_addresses() {
        // SAFETY: as above.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Returns spare buffers and free pages of the heap to the system.
pub(crate) fn return_memory() {
    aligned::free_spare();
    trim();
}

/// Returns the free pages of the heap to the system. A session fragments the heap: a freed array leaves a hole between
/// small objects, in which a larger array does not fit.
pub(crate) fn trim() {
    // SAFETY: `malloc_trim` may be called at any time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn has_limited_addresses() -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure lives until the call returns.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn prepare() {}

/// Returns the number of bytes that can be allocated before the system kills a process for lack of memory; `None` if it
/// is unknown.
#[cfg(target_os = "linux")]
pub(crate) fn available() -> Option<u64> {
    let read = |path: &str| text(path.into());
    let machine = read("/proc/meminfo").map(|text| {
        let bytes = |name: &str| number(&text, name).map_or(0, |kib| kib.saturating_mul(1024));
        bytes("MemAvailable:") + bytes("SwapFree:")
    });
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, own) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let (root, names) = match controllers {
            "" => ("/sys/fs/cgroup", &CGROUP_V2),
            "memory" => ("/sys/fs/cgroup/memory", &CGROUP_V1),
            _ => return vec![],
        };
        // In a container, the control group of the container is mounted as the root, so both paths are tried.
        [format!("{root}{own}"), root.to_string()].iter().filter_map(|folder| shared_limit_of(folder, names)).collect()
    });
    machine.filter(|bytes| *bytes > 0).into_iter().chain(groups).min()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn available() -> Option<u64> {
    None
}

/// The names of a control group's files with its limit and its usage, and of the field of `memory.stat` with its
/// reclaimable page cache.
#[cfg(target_os = "linux")]
struct CgroupFiles {
    limit: &'static str,
    used: &'static str,
    files: &'static str,
}

#[cfg(target_os = "linux")]
const CGROUP_V2: CgroupFiles = CgroupFiles { limit: "memory.max", used: "memory.current", files: "inactive_file" };
#[cfg(target_os = "linux")]
const CGROUP_V1: CgroupFiles =
    CgroupFiles { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", files: "total_inactive_file" };

/// Returns the bytes that a control group may still allocate; `None` if it has no limit.
#[cfg(target_os = "linux")]
fn shared_limit_of(folder: &str, names: &CgroupFiles) -> Option<u64> {
    let read = |name: &str| text(format!("{folder}/{name}"));
    let limit = read(names.limit)?.trim().parse::<u64>().ok()?;
    let files = read("memory.stat").and_then(|text| number(&text, names.files)).unwrap_or(0);
    let used = read(names.used)?.trim().parse::<u64>().ok()?.saturating_sub(files);
    Some(limit.saturating_sub(used))
}

#[cfg(target_os = "linux")]
fn text(path: String) -> Option<String> {
    String::from_utf8(super::disk::read_system_file(path.as_ref()).ok()?).ok()
}

/// Returns the number that follows a name at the start of a line.
#[cfg(target_os = "linux")]
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        assert_eq!(number("MemTotal: 5 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12));
        assert_eq!(number("MemTotal: 5 kB\n", "MemAvailable:"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20 && bytes < 1 << 60), "{:?}", available());
    }

    #[test]
    fn cgroup_limit_reduces_available_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        let allocatable = || shared_limit_of(&folder.path().display().to_string(), &CGROUP_V2);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(allocatable(), None);
        write("memory.max", "1000\n");
        assert_eq!(allocatable(), Some(300));
        write("memory.stat", "anon 5\ninactive_file 200\n");
        assert_eq!(allocatable(), Some(500));
    }
}
