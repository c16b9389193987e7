//! Lets the Linux kernel confine a thread to a folder (Landlock).
//!
//! This is the second line of defense after [`Confinement`](crate::disk::Confinement), which also works on other
//! systems. It closes the gap between the check of a path and its use, and holds for code that forgets the check.
//! Kernels before 5.13 do not support it. The interface: <https://docs.kernel.org/userspace-api/landlock.html>

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Rights of files and folders, by their bits.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;

/// The rights that versions of Landlock know: the first version, and from which later version on there are more.
const FIRST_RIGHTS: u64 = (1 << 13) - 1;
const LATER_RIGHTS: [(libc::c_long, u64); 3] = [(2, 1 << 13), (3, TRUNCATE), (5, 1 << 15)];
/// The version from which on TCP can be restricted, and the rights to bind and to connect.
const WITH_NETWORK: (libc::c_long, u64) = (4, 0b11);

/// Files that the simulator and the allocator read: the number of cores, and the available memory.
const SYSTEM_FILES: [&str; 4] = ["/proc/meminfo", "/proc/self", "/sys/fs/cgroup", "/sys/devices/system/cpu"];

/// The kernel's `struct landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
}

/// The kernel's `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathAttributes {
    allowed_access: u64,
    parent_fd: i32,
}

/// Confines this thread, and the threads that it starts from now on, to the files in a folder.
pub(super) fn confine(root: Option<&Path>, may_write: bool) -> io::Result<()> {
    let version = version()?;
    let later = LATER_RIGHTS.iter().filter(|(since, _)| version >= *since).map(|(_, rights)| rights);
    let all = later.fold(FIRST_RIGHTS, |all, rights| all | rights);
    let network = if version >= WITH_NETWORK.0 { WITH_NETWORK.1 } else { 0 };
    let ruleset = create(&RulesetAttributes { handled_access_fs: all, handled_access_net: network })?;
    let writes = if may_write { WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE } else { 0 };
    if let Some(root) = root {
        allow(&ruleset, root, (READ_FILE | READ_DIR | writes) & all)?;
    }
    for path in SYSTEM_FILES.map(Path::new) {
        let rights = if path.is_dir() { READ_FILE | READ_DIR } else { READ_FILE };
        if path.exists() {
            allow(&ruleset, path, rights)?;
        }
    }
    // SAFETY: the call only sets an attribute of this thread.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    // SAFETY: passes an open descriptor and no flags.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

/// Returns the version of Landlock.
fn version() -> io::Result<libc::c_long> {
    const VERSION_FLAG: u32 = 1;
    // SAFETY: with this flag, the call takes no attributes.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION_FLAG) })
}

fn create(attributes: &RulesetAttributes) -> io::Result<OwnedFd> {
    // Kernels without network rights know only the first field, but accept a longer structure whose rest is zero.
    let size = size_of::<RulesetAttributes>();
    // SAFETY: the structure has this size and lives until the call returns.
    let descriptor =
        check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::from_ref(attributes), size, 0u32) })?;
    // SAFETY: the call has returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    const PATH_BENEATH: u32 = 1;
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let attributes = PathAttributes { allowed_access: rights, parent_fd: place.as_raw_fd() };
    // SAFETY: the structure lives until the call returns, and the descriptors are open.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            std::ptr::from_ref(&attributes),
            0u32,
        )
    })?;
    Ok(())
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_outside_of_the_root_cannot_be_opened() {
        if let Err(error) = version() {
            println!("skipped: this kernel has no Landlock: {error}");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("made");
        fs::write(folder.path().join("secret"), "secret").expect("written");
        fs::write(root.join("a"), "text").expect("written");
        std::os::unix::fs::symlink("../secret", root.join("link")).expect("a link");
        let attempt = |may_write: bool| {
            let (root, outside) = (root.clone(), folder.path().join("secret"));
            // Only the new thread is confined.
            let confined = std::thread::spawn(move || {
                confine(Some(&root), may_write).expect("confined");
                let connects = std::net::TcpStream::connect("127.0.0.1:9").err().map(|error| error.kind());
                [
                    fs::read(root.join("a")).is_ok(),
                    fs::read(outside).is_ok() || fs::read(root.join("link")).is_ok(),
                    fs::write(root.join("b"), "b").is_ok(),
                    fs::read("/proc/meminfo").is_ok() && std::thread::available_parallelism().is_ok(),
                    connects != Some(io::ErrorKind::PermissionDenied) && version().is_ok_and(|version| version >= 4),
                ]
            });
            confined.join().expect("the thread ends")
        };
        assert_eq!(attempt(false), [true, false, false, true, false]);
        assert_eq!(attempt(true), [true, false, true, true, false]);
        assert!(fs::read(folder.path().join("secret")).is_ok(), "other threads are not confined");
    }
}
