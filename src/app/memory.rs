//! The system's memory: how the C library's allocator asks for it, how much there is, and what happens when there is no more.
//!
//! What is as large as a user's data is asked for in ways that can fail ([`room`](crate::base::room)). Everything else is small;
//! where even that is refused, Rust aborts the process, and [`at_abort`] has the last word.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which notes what it refuses.
pub struct Memory;

/// The bytes that were refused last.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

fn noted(place: *mut u8, bytes: usize) -> *mut u8 {
    if place.is_null() {
        REFUSED.store(bytes, Ordering::Relaxed);
    }
    place
}

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        noted(unsafe { System.realloc(place, layout, size) }, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

/// Has an abort of the process (for lack of memory, of a library, of a stack) end it as a fault of Clk's own does: with a message
/// and the exit code of such, and no core file.
#[cfg(unix)]
pub(crate) fn at_abort() {
    extern "C" fn aborted(_: libc::c_int) {
        // `abort` is called by the thread that cannot go on, so this is an ordinary call, but nothing may be allocated.
        let mut text = [0u8; 256];
        let mut rest = &mut text[..];
        let written = match REFUSED.load(Ordering::Relaxed) {
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
        // SAFETY: the text lives until the call returns. There is nobody to tell if it cannot be written.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length) };
        super::leftovers::remove_if_free();
        super::repl::leave_terminal();
        super::end(super::exit::INTERNAL);
    }
    // SAFETY: a structure of zeros is valid, and lives until the call returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = aborted;
        action.sa_sigaction = handler as libc::sighandler_t;
        // A stack that is full is no place for a handler.
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
pub(crate) fn at_abort() {}

/// Has a file that would become larger than the system allows be an error of writing, and not the end of the process.
#[cfg(unix)]
pub(crate) fn survive_file_limits() {
    // SAFETY: it only sets what a signal does.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(not(unix))]
pub(crate) fn survive_file_limits() {}

/// Lets the heap grow in large steps and keeps what was freed: trees of large programs and arrays of scripts otherwise cost
/// one system call for every 128 KiB, and a page fault for every page of every array, again and again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn prepare() {
    const MIB: libc::c_int = 1 << 20;
    for (setting, value) in
        [(libc::M_TOP_PAD, 16 * MIB), (libc::M_TRIM_THRESHOLD, 512 * MIB), (libc::M_MMAP_THRESHOLD, 32 * MIB)]
    {
        // SAFETY: `mallopt` may be called at any time; a setting that it does not take is left as it was.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn prepare() {}

/// Bytes that can be taken before the system ends somebody for it, if it tells.
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
            "" => ("/sys/fs/cgroup", &UNIFIED),
            "memory" => ("/sys/fs/cgroup/memory", &FORMER),
            _ => return vec![],
        };
        // Inside of a container its own group is the root of what is to be seen.
        [format!("{root}{own}"), root.to_string()].iter().filter_map(|folder| room_of(folder, names)).collect()
    });
    machine.filter(|bytes| *bytes > 0).into_iter().chain(groups).min()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn available() -> Option<u64> {
    None
}

/// The names of a control group's files: its limit, what it uses, and in its statistics what it keeps of files, which goes when
/// memory is needed.
#[cfg(target_os = "linux")]
struct Names {
    limit: &'static str,
    used: &'static str,
    files: &'static str,
}

#[cfg(target_os = "linux")]
const UNIFIED: Names = Names { limit: "memory.max", used: "memory.current", files: "inactive_file" };
#[cfg(target_os = "linux")]
const FORMER: Names =
    Names { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", files: "total_inactive_file" };

/// What a control group may still take; none without a limit.
#[cfg(target_os = "linux")]
fn room_of(folder: &str, names: &Names) -> Option<u64> {
    let read = |name: &str| text(format!("{folder}/{name}"));
    let limit = read(names.limit)?.trim().parse::<u64>().ok()?;
    let files = read("memory.stat").and_then(|text| number(&text, names.files)).unwrap_or(0);
    let used = read(names.used)?.trim().parse::<u64>().ok()?.saturating_sub(files);
    Some(limit.saturating_sub(used))
}

#[cfg(target_os = "linux")]
fn text(path: String) -> Option<String> {
    String::from_utf8(super::disk::read(path.as_ref()).ok()?).ok()
}

/// The number behind a name at the start of a line.
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
    fn the_system_tells_how_much_there_is() {
        assert_eq!(number("MemTotal: 5 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12));
        assert_eq!(number("MemTotal: 5 kB\n", "MemAvailable:"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20 && bytes < 1 << 60), "{:?}", available());
    }

    #[test]
    fn a_group_has_what_its_limit_leaves() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        let room = || room_of(&folder.path().display().to_string(), &UNIFIED);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(room(), None);
        write("memory.max", "1000\n");
        assert_eq!(room(), Some(300));
        write("memory.stat", "anon 5\ninactive_file 200\n");
        assert_eq!(room(), Some(500));
    }
}
