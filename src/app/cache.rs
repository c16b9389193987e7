//! The on-disk cache of compiled kernels: private to the user and bounded in size.
//! Clk uses a directory only if it contains Clk's tag file. Clk writes the tag when it creates the directory or finds
//! it empty; it does not change any other directory that `CLK_CACHE_DIR` names. In a tagged directory, it reads and
//! removes only files whose names match its patterns. Entries are written to a temporary file and renamed, so readers
//! never see a partial entry, even if writers are concurrent or killed. A failed write is not an error: the kernel is
//! compiled again next time.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use thiserror::Error;

use super::{disk, permissions, user_dirs};
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_runtime::code_cache::CacheStore;

/// The environment variable with the path of the cache directory.
pub(crate) const CACHE_VARIABLE: &str = "CLK_CACHE_DIR";

/// Maximum total size of all entries, in bytes. If it is exceeded, the least recently used entries are removed.
const LIMIT: u64 = 512 << 20;
/// Total size, in bytes, at which the removal of entries stops.
const TRIMMED_SIZE: u64 = LIMIT / 4 * 3;
/// The total size is checked at this process's first write, and then at every 16th.
const WRITES_PER_CHECK: u64 = 16;
/// A temporary file older than this is assumed to be left by a killed writer.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The tag file and its content. Backup and cleanup tools also recognize `CACHEDIR.TAG`.
const TAG: &str = "CACHEDIR.TAG";
const TAG_CONTENT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of Clk: it was made by Clk, which may \
    remove what it has put here.\n";

/// Number of hexadecimal digits in an entry's file name, which is a hash.
const DIGITS: usize = 64;
const ENTRY: &str = ".cubin";
const TEMPORARY: &str = ".part";
/// Name prefix of the subdirectory with a copy of the standard library.
const LIBRARY: &str = "std-";

/// The cache directory as a key-value store.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    limit: u64,
    left: u64,
}

/// Number of writes by this process.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// An entry: its file, size, and time of last use.
pub(crate) struct CacheEntry {
    pub path: PathBuf,
    pub bytes: u64,
    pub last_used: SystemTime,
}

/// Why Clk does not use a directory as its cache.
#[derive(Debug, Error)]
pub(crate) enum CacheDirError {
    /// The directory is not Clk's alone.
    #[error(transparent)]
    Foreign(FileError),
    /// The directory contains this file, which Clk did not write.
    #[error("`{}` lies there", .0.display())]
    ForeignFile(OsString),
    /// The directory cannot be created or read.
    #[error(transparent)]
    Unusable(FileError),
}

impl From<io::Error> for CacheDirError {
    fn from(error: io::Error) -> CacheDirError {
        CacheDirError::Unusable(error.into())
    }
}

impl CacheDirError {
    /// Returns the diagnostic that reports this error for a directory.
    pub fn diagnostic(&self, folder: &Path) -> Diagnostic {
        let folder = folder.display();
        match self {
            CacheDirError::Foreign(_) | CacheDirError::ForeignFile(_) => {
                Diagnostic::error("E0703", format!("`{folder}` is not a cache of Clk's: {self}"))
                    .help(format!(
                        "let `{CACHE_VARIABLE}` name a folder that does not exist yet, or an empty one of yours"
                    ))
                    .note("nothing in it was changed")
            }
            CacheDirError::Unusable(_) => {
                Diagnostic::error("E0703", format!("the cache `{folder}` cannot be used: {self}"))
            }
        }
    }
}

/// Returns the directory that [`CACHE_VARIABLE`] names. If it is unset, returns the user's default cache directory.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(&user_dirs::environment)
}

fn folder_of(variable: user_dirs::EnvLookup<'_>) -> Option<PathBuf> {
    variable(CACHE_VARIABLE).map(PathBuf::from).or_else(|| user_dirs::cache(variable))
}

/// Creates and returns the subdirectory for a copy of this version's standard library.
pub(crate) fn library_folder() -> Option<PathBuf> {
    let cache = Cache::open(&folder()?).ok()?;
    let folder = cache.folder.join(format!("{LIBRARY}{}", env!("CARGO_PKG_VERSION")));
    permissions::create_private_directory(&folder).ok()?;
    Some(folder)
}

impl Cache {
    /// Opens the cache directory, creating and tagging it if necessary.
    pub fn open(folder: &Path) -> Result<Cache, CacheDirError> {
        if fs::metadata(folder).is_err() {
            create_directory(folder)?;
        }
        if !is_tagged(folder)? {
            reject_foreign(folder)?;
            write_tag(folder)?;
        }
        Ok(Cache::at(folder))
    }

    /// Opens the cache directory if it exists; creates and tags nothing.
    pub fn existing(folder: &Path) -> Result<Option<Cache>, CacheDirError> {
        if fs::symlink_metadata(folder).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        if !is_tagged(folder)? {
            reject_foreign(folder)?;
        }
        Ok(Some(Cache::at(folder)))
    }

    fn at(folder: &Path) -> Cache {
        Cache { folder: folder.to_path_buf(), limit: LIMIT, left: TRIMMED_SIZE }
    }

    /// Returns all entries, most recently used first.
    pub fn entries(&self) -> Vec<CacheEntry> {
        let mut listed: Vec<CacheEntry> = self.files(is_entry).collect();
        listed.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
        listed
    }

    /// Removes every file that Clk has written in the directory; returns the number of entries and bytes removed.
    pub fn clean(&self) -> (usize, u64) {
        self.files(is_temporary).for_each(|entry| drop(fs::remove_file(entry.path)));
        let removed = self.files(is_entry).filter(|entry| fs::remove_file(&entry.path).is_ok());
        removed.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    }

    fn files(&self, is_own: fn(&str) -> bool) -> impl Iterator<Item = CacheEntry> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let own = entry.file_name().to_str().is_some_and(is_own);
            let data = entry.metadata().ok().filter(|data| own && data.is_file())?;
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(CacheEntry { path: entry.path(), bytes: data.len(), last_used: used })
        })
    }

    /// Removes abandoned temporary files and, if the entries exceed the limit, the least recently used ones.
    fn trim(&self) {
        for entry in self.files(is_temporary) {
            if entry.last_used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path);
            }
        }
        let entries = self.entries();
        if entries.iter().map(|e| e.bytes).sum::<u64>() <= self.limit {
            return;
        }
        let mut total = 0;
        for entry in entries {
            total += entry.bytes;
            if total > self.left {
                let _ = fs::remove_file(entry.path);
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{ENTRY}"))
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_entry(name: &str) -> bool {
    name.strip_suffix(ENTRY).is_some_and(is_hash)
}

/// Whether a file name is that of a temporary file: `<hash>.<random>.part`.
fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY).and_then(|name| name.split_once('.')).is_some_and(|(name, _)| is_hash(name))
}

impl CacheStore for Cache {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name);
        if !permissions::is_own_file(&fs::symlink_metadata(&path).ok()?) {
            return None;
        }
        let file = disk::open(&path).ok()?;
        if !permissions::is_own_file(&file.metadata().ok()?) {
            return None;
        }
        let bytes = disk::contents(file, self.limit).ok()?;
        // Updates the modification time, which `trim` uses as the time of last use. This fails in a read-only
        // directory.
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.put_with(name, |file| file.write_all(bytes));
    }

    fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }
}

impl Cache {
    fn put_with(&self, name: &str, write: impl FnOnce(&mut fs::File) -> std::io::Result<()>) {
        let prefix = format!("{name}.");
        let mut builder = tempfile::Builder::new();
        // The temporary file is readable by the owner only. If a write fails because the disk is full or read-only,
        // dropping the file removes it.
        let temporary = builder.prefix(&prefix).suffix(TEMPORARY).rand_bytes(12).tempfile_in(&self.folder);
        if let Ok(mut temporary) = temporary
            && write(temporary.as_file_mut()).is_ok()
        {
            let _ = temporary.persist(self.path(name));
        }
        if WRITES.fetch_add(1, Ordering::Relaxed).is_multiple_of(WRITES_PER_CHECK) {
            self.trim();
        }
    }
}

/// Creates the directory with mode 0700.
fn create_directory(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        builder.recursive(true).create(parent)?;
    }
    match builder.recursive(false).create(folder) {
        // A concurrent run created it first.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write_tag(folder: &Path) -> std::io::Result<()> {
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(folder.join(TAG)) {
        Ok(mut file) => file.write_all(TAG_CONTENT.as_bytes()),
        // A concurrent run created it first.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns whether the directory carries Clk's tag. If a tagged directory is accessible to other users, its mode is
/// restricted to the owner, because other users could plant machine code there.
#[cfg(unix)]
fn is_tagged(folder: &Path) -> Result<bool, CacheDirError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    // All checks use one open handle, because the name may refer to another directory between two checks.
    if fs::metadata(folder).is_ok_and(|data| !data.is_dir()) {
        return Err(CacheDirError::Foreign(FileError::Refused("it is not a folder")));
    }
    let mut options = fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_DIRECTORY | libc::O_NONBLOCK);
    let handle = options.read(true).open(folder)?;
    let data = handle.metadata()?;
    if data.uid() != permissions::effective_user() {
        return Err(CacheDirError::Foreign(FileError::Refused("it belongs to another user")));
    }
    if !has_tag(folder) {
        return Ok(false);
    }
    if data.mode() & 0o077 != 0 {
        handle.set_permissions(fs::Permissions::from_mode(data.mode() & 0o700))?;
    }
    Ok(true)
}

#[cfg(not(unix))]
fn is_tagged(folder: &Path) -> Result<bool, CacheDirError> {
    if folder.is_dir() {
        Ok(has_tag(folder))
    } else {
        Err(CacheDirError::Foreign(FileError::Refused("it is not a folder")))
    }
}

fn has_tag(folder: &Path) -> bool {
    tag(folder).is_some_and(|text| text == TAG_CONTENT.as_bytes())
}

/// Returns the content of the tag file if it is a plain file of this user.
fn tag(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join(TAG);
    let own = fs::symlink_metadata(&path).is_ok_and(|data| permissions::is_own_file(&data));
    disk::open(&path).ok().filter(|_| own).and_then(|file| disk::contents(file, 1 + TAG_CONTENT.len() as u64).ok())
}

/// Rejects an untagged directory if another user can write to it or if it has content that Clk did not write.
fn reject_foreign(folder: &Path) -> Result<(), CacheDirError> {
    permissions::create_private_directory(folder).map_err(CacheDirError::Foreign)?;
    let entries = fs::read_dir(folder)?;
    // If a concurrent process is writing the tag, it may be incomplete. Early versions of Clk wrote no tag.
    let begun = || tag(folder).is_some_and(|text| TAG_CONTENT.as_bytes().starts_with(&text));
    let strange = entries.flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        !(name == TAG && begun() || is_entry(&name) || is_temporary(&name) || name.starts_with(LIBRARY))
    });
    match strange {
        Some(entry) => Err(CacheDirError::ForeignFile(entry.file_name())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the file name of an entry for a test: one digit, 64 times.
    fn key(digit: &str) -> String {
        digit.repeat(DIGITS)
    }

    /// Returns the digit of each entry's name, in the order of `entries`.
    fn names(cache: &Cache) -> Vec<String> {
        let names = cache.entries().into_iter().map(|e| e.path.file_stem().unwrap().to_string_lossy()[..1].to_string());
        names.collect()
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn entries_are_kept_listed_and_cleaned() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(&root.path().join("new/clk")).unwrap();
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), b"one");
        cache.put(&key("a"), b"two");
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"two"[..]));
        cache.put(&key("b"), b"three");
        assert_eq!(cache.entries().len(), 2);
        fs::write(root.path().join("new/clk/notes.txt"), "not Clk's").unwrap();
        assert_eq!(cache.clean(), (2, 8));
        assert!(root.path().join("new/clk/notes.txt").exists());
    }

    #[test]
    fn least_recently_used_entries_are_removed_first() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let now = SystemTime::now();
        for (k, name) in ["a", "b", "c"].into_iter().enumerate() {
            cache.put(&key(name), &[0; 10]);
            let file = fs::File::options().append(true).open(cache.path(&key(name))).unwrap();
            file.set_modified(now - Duration::from_secs(100 - k as u64)).unwrap();
        }
        assert!(cache.get(&key("a")).is_some(), "which makes it the newest");
        Cache { limit: 25, left: 20, ..cache }.trim();
        assert_eq!(names(&Cache::open(root.path()).unwrap()), ["a", "c"]);
    }

    #[test]
    fn files_of_killed_writers_are_ignored_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let left = root.path().join(key("a") + ".1.0.part");
        fs::write(&left, "hal").unwrap();
        assert_eq!(cache.get(&key("a")), None);
        cache.trim();
        assert!(left.exists(), "it may be another process at work");
        let file = fs::File::options().append(true).open(&left).unwrap();
        file.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        cache.trim();
        assert!(!left.exists());
    }

    #[test]
    fn concurrent_writers_never_expose_partial_entries() {
        let root = tempfile::tempdir().unwrap();
        let caches: Vec<Cache> = (0..4).map(|_| Cache::open(root.path()).unwrap()).collect();
        std::thread::scope(|scope| {
            for (k, cache) in caches.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..50 {
                        cache.put(&key("5"), &vec![k as u8; 10_000]);
                        let content = cache.get(&key("5")).expect("one of them is there");
                        assert!(content.len() == 10_000 && content.iter().all(|b| *b == content[0]));
                    }
                });
            }
        });
        assert_eq!(names_in(root.path()), [key("5") + ENTRY, TAG.to_string()], "no temporary file is left");
    }

    #[cfg(unix)]
    #[test]
    fn directory_is_private_and_may_be_read_only() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("clk");
        let cache = Cache::open(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        cache.put(&key("a"), b"one");
        assert_eq!(fs::metadata(cache.path(&key("a"))).unwrap().mode() & 0o777, 0o600);
        // An entry that other users can write is not read.
        fs::set_permissions(cache.path(&key("a")), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(cache.get(&key("a")), None);
        // A symbolic link is not read either, because it may point to any file.
        std::os::unix::fs::symlink("/etc/hostname", cache.path(&key("f"))).unwrap();
        assert_eq!(cache.get(&key("f")), None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Cache::open(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "opened to others, closed again");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
        cache.put(&key("b"), b"two");
        // Root can read the entry regardless of its mode. Other users find no entry.
        assert!(permissions::effective_user() == 0 || cache.get(&key("b")).is_none());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Cache::open(Path::new("/dev/null/clk")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn foreign_directories_are_not_changed() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let (foreign, link) = (root.path().join("photos"), root.path().join("link"));
        fs::create_dir(&foreign).unwrap();
        symlink(&foreign, &link).unwrap();
        for file in ["holiday.png", "model.cubin", "x.part", "CACHEDIR.TAG"] {
            fs::write(foreign.join(file), "mine").unwrap();
            fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).unwrap();
            for folder in [&foreign, &link] {
                let refused = |made: Result<(), CacheDirError>| {
                    let message = made.unwrap_err().diagnostic(folder);
                    message.code == "E0703" && message.title.contains(file) && !message.help.is_empty()
                };
                assert!(refused(Cache::open(folder).map(drop)), "{file}");
                assert!(refused(Cache::existing(folder).map(drop)), "{file}");
                assert_eq!(fs::metadata(&foreign).unwrap().mode() & 0o777, 0o755, "its mode is its owner's business");
                assert_eq!(names_in(&foreign), [file], "and its content");
            }
            fs::remove_file(foreign.join(file)).unwrap();
        }
        // The directory is empty, but other users can write to it and could create files before Clk does.
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Cache::open(&foreign), Err(CacheDirError::Foreign(_))));
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Cache::existing(&foreign).unwrap().is_some_and(|cache| cache.entries().is_empty()));
        assert!(names_in(&foreign).is_empty(), "to look marks nothing");
        Cache::open(&link).unwrap().put(&key("a"), b"one");
        assert_eq!(names_in(&foreign), [TAG.to_string(), key("a") + ENTRY]);
        assert!(Cache::existing(&root.path().join("nowhere")).unwrap().is_none());
    }

    #[test]
    fn untagged_directory_of_an_earlier_version_is_adopted() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(key("a") + ENTRY), "one").unwrap();
        fs::write(root.path().join(key("a") + ".12.0.part"), "hal").unwrap();
        fs::create_dir(root.path().join("std-0.1.0")).unwrap();
        let cache = Cache::open(root.path()).unwrap();
        assert_eq!(cache.clean(), (1, 3));
        assert_eq!(names_in(root.path()), [TAG, "std-0.1.0"]);
        // A tagged directory may contain files that Clk did not write. Clk never removes them.
        let others = ["notes.txt", "model.cubin", "x.part"];
        others.iter().for_each(|name| fs::write(root.path().join(name), "mine").unwrap());
        assert_eq!(Cache::open(root.path()).unwrap().clean(), (0, 0));
        assert!(others.iter().all(|name| root.path().join(name).exists()));
    }

    #[cfg(unix)]
    #[test]
    fn files_of_another_user_are_rejected() {
        use std::os::unix::fs::chown;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("clk");
        let cache = Cache::open(&folder).unwrap();
        cache.put(&key("a"), b"one");
        let other = permissions::effective_user() + 1;
        if chown(cache.path(&key("a")), Some(other), None).is_err() {
            println!("skipped: no right to give files away");
            return;
        }
        assert_eq!(cache.get(&key("a")), None, "an entry");
        chown(&folder, Some(other), None).unwrap();
        assert!(Cache::open(&folder).is_err_and(|refusal| refusal.to_string().contains("another user")), "the folder");
    }

    #[test]
    fn full_disk_is_tolerated() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        cache.put_with(&key("a"), |file| {
            file.write_all(b"hal")?;
            Err(std::io::ErrorKind::StorageFull.into())
        });
        assert_eq!(cache.get(&key("a")), None);
        assert_eq!(names_in(root.path()), [TAG], "the half is gone");
        cache.put(&key("a"), b"one");
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"one"[..]), "with room again");
    }

    #[test]
    fn directory_depends_on_environment() {
        let of = |set: &[(&str, &str)]| {
            folder_of(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[("CLK_CACHE_DIR", "here"), ("HOME", "/h")]), Some("here".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), Some("/c/clk".into()));
        assert_eq!(of(&[]), None);
    }
}
