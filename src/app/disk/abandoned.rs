//! Removal of temporary files (`.clk-OWNER-RANDOM.part`) that killed processes have left.
//!
//! Input: a directory. Effect: removes those whose process is gone. The name says which process made a file, and on which system,
//! because process numbers of other machines and containers mean nothing here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

const START: &str = ".clk-";
const END: &str = ".part";
/// A file of another system is abandoned if it has not been written to for this long.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// The directories that this process has tidied.
static TIDIED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns the start and the end of the name of a new temporary file.
pub(super) fn name() -> (String, &'static str) {
    (format!("{START}{}-{}-", system(), std::process::id()), END)
}

/// Removes the files that ended processes have left in a directory. Each directory is read once by each process.
pub(super) fn remove(folder: &Path) {
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

/// Returns the part of a temporary file's name that says who made it.
fn owner(name: &str) -> Option<&str> {
    name.strip_prefix(START)?.strip_suffix(END)
}

fn is_abandoned(owner: &str, data: &fs::Metadata) -> bool {
    let mut parts = owner.split('-');
    match (parts.next(), parts.next().and_then(|process| process.parse().ok())) {
        (Some(there), Some(process)) if there == system() => !is_running(process),
        _ => data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LONG)),
    }
}

/// Whether a file is a regular one of this user.
#[cfg(unix)]
fn is_own(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.is_file() && data.uid() == crate::app::private::own_user()
}

#[cfg(not(unix))]
fn is_own(data: &fs::Metadata) -> bool {
    data.is_file()
}

/// Whether a process of this system is running. One of another user counts.
#[cfg(unix)]
fn is_running(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|process| *process > 0) else { return false };
    // SAFETY: signal 0 is not sent; the call only checks whether the process exists.
    let found = unsafe { libc::kill(process, 0) } == 0;
    found || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Elsewhere the age of the file decides.
#[cfg(not(unix))]
fn is_running(_: u32) -> bool {
    true
}

/// Returns a short name of the system that the number of this process belongs to: the machine since it was started, and the container.
fn system() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let text = [&read("/proc/sys/kernel/random/boot_id"), &host(), &*space.to_string_lossy()].join("\n");
        // FNV-1a.
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

    /// Returns the number of a process that has ended.
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
        let kept = [
            format!("{own}abc{end}"),
            format!("{START}{}-1-abc{end}", system()),
            format!("{START}0123-{gone}-abc{end}"),
            format!("{START}{}-{gone}-abc", system()),
            format!("x{START}{}-{gone}-abc{end}", system()),
            format!("{START}abc{end}"),
        ];
        for name in abandoned.iter().chain(&kept) {
            fs::write(folder.path().join(name), "text").expect("written");
        }
        let link = folder.path().join(format!("{START}{}-{gone}-link{end}", system()));
        std::os::unix::fs::symlink("nowhere", &link).expect("a link");
        let directory = folder.path().join(format!("{START}{}-{gone}-dir{end}", system()));
        fs::create_dir(&directory).expect("a folder");
        remove(folder.path());
        abandoned.iter().for_each(|name| assert!(!folder.path().join(name).exists(), "{name}"));
        kept.iter().for_each(|name| assert!(folder.path().join(name).exists(), "{name}"));
        assert!(link.is_symlink() && directory.is_dir());
    }

    #[test]
    fn old_files_of_other_systems_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("{START}abcdefghijkl{END}"));
        let file = fs::File::create(&path).expect("made");
        let old = std::time::SystemTime::now() - LONG - Duration::from_secs(60);
        file.set_modified(old).expect("set");
        remove(folder.path());
        assert!(!path.exists());
    }
}
