//! Removes temporary files (`.clk-OWNER-RANDOM.part`) left by killed processes.
//!
//! A file is removed if the process that created it has ended. The name contains the number of that process. It also
//! contains an identifier of its system (machine or container), in which that number is unique.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

const START: &str = ".clk-";
const END: &str = ".part";
/// A file whose creator ran on another system is assumed to be abandoned if it was not written to for this long.
const FOREIGN_FILE_AGE: Duration = Duration::from_secs(24 * 3600);

/// The directories that this process has already cleaned up.
static TIDIED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns the prefix and the suffix of the name of a new temporary file.
pub(super) fn name() -> (String, &'static str) {
    (format!("{START}{}-{}-", system(), std::process::id()), END)
}

/// Removes the files that ended processes have left in a directory. Each process scans a directory once.
pub(super) fn remove_abandoned(folder: &Path) {
    let full = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    if !TIDIED.lock().unwrap_or_else(PoisonError::into_inner).insert(full) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(owner) = name.to_str().and_then(owner)
            && entry.metadata().is_ok_and(|data| is_own(&data) && is_abandoned(owner, &data))
        {
            // A file that cannot be removed is harmless.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the `OWNER-RANDOM` part of a temporary file's name, which identifies its creator.
fn owner(name: &str) -> Option<&str> {
    name.strip_prefix(START)?.strip_suffix(END)
}

fn is_abandoned(owner: &str, data: &fs::Metadata) -> bool {
    let mut parts = owner.split('-');
    match (parts.next(), parts.next().and_then(|process| process.parse().ok())) {
        (Some(there), Some(process)) if there == system() => !is_running(process),
        _ => data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > FOREIGN_FILE_AGE)),
    }
}

/// Whether a file is a regular file that belongs to this user.
#[cfg(unix)]
fn is_own(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.is_file() && data.uid() == crate::permissions::effective_user()
}

#[cfg(not(unix))]
fn is_own(data: &fs::Metadata) -> bool {
    data.is_file()
}

/// Whether a process with this number is running on this system, possibly under another user.
#[cfg(unix)]
fn is_running(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|process| *process > 0) else { return false };
    // SAFETY: signal 0 is not sent; the call only checks whether the process exists.
    let exists = unsafe { libc::kill(process, 0) } == 0;
    exists || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Without Unix process numbers, every process is assumed to be running, so that only the age of a file matters.
#[cfg(not(unix))]
fn is_running(_: u32) -> bool {
    true
}

/// Returns a short identifier of the system in which process numbers are unique. It depends on the machine, its boot
/// and the container.
fn system() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let text = [&read("/proc/sys/kernel/random/boot_id"), &host(), &*space.to_string_lossy()].join("\n");
        // The hash function FNV-1a.
        let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    })
}

#[cfg(unix)]
fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer has this length and lives until the call returns; the last byte stays zero.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the process number of a process that has ended.
    fn ended() -> u32 {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
        let mut child = child.arg("--list").stdout(std::process::Stdio::null()).spawn().expect("it starts");
        child.wait().expect("it ends");
        child.id()
    }

    #[cfg(unix)]
    #[test]
    fn files_of_ended_processes_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let gone = ended();
        let (own, end) = name();
        let abandoned =
            [format!("{START}{}-{gone}-abc{end}", system()), format!("{START}{}-4000000000-abc{end}", system())];
        let others = [
            format!("{own}abc{end}"),
            format!("{START}{}-1-abc{end}", system()),
            format!("{START}0123-{gone}-abc{end}"),
            format!("{START}{}-{gone}-abc", system()),
            format!("x{START}{}-{gone}-abc{end}", system()),
            format!("{START}abc{end}"),
        ];
        for name in abandoned.iter().chain(&others) {
            fs::write(folder.path().join(name), "text").expect("written");
        }
        let link = folder.path().join(format!("{START}{}-{gone}-link{end}", system()));
        std::os::unix::fs::symlink("nowhere", &link).expect("a link");
        let directory = folder.path().join(format!("{START}{}-{gone}-dir{end}", system()));
        fs::create_dir(&directory).expect("a folder");
        remove_abandoned(folder.path());
        abandoned.iter().for_each(|name| assert!(!folder.path().join(name).exists(), "{name}"));
        others.iter().for_each(|name| assert!(folder.path().join(name).exists(), "{name}"));
        assert!(link.is_symlink() && directory.is_dir());
    }

    #[test]
    fn old_files_of_other_systems_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("{START}abcdefghijkl{END}"));
        let file = fs::File::create(&path).expect("made");
        let old = std::time::SystemTime::now() - FOREIGN_FILE_AGE - Duration::from_secs(60);
        file.set_modified(old).expect("set");
        remove_abandoned(folder.path());
        assert!(!path.exists());
    }
}
