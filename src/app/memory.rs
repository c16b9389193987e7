//! How the C library's allocator asks the system for memory.

/// Lets the heap grow in large steps and keeps what was freed: trees of large programs and arrays of scripts otherwise cost
/// one system call for every 128 KiB, and a page fault for every page of every array, again and again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn prepare() {
    const MIB: libc::c_int = 1 << 20;
    for (setting, value) in
        [(libc::M_TOP_PAD, 16 * MIB), (libc::M_TRIM_THRESHOLD, 512 * MIB), (libc::M_MMAP_THRESHOLD, 32 * MIB)]
    {
        // SAFETY: `mallopt` may be called at any time; a setting that it does not take is left as it was.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn prepare() {}
