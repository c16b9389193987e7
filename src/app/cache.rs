//! The folder of compiled kernels: private to the user, bounded in size, and never in the way of a run.
//!
//! An entry is written under a temporary name and renamed, so that a reader sees it whole or not at all, whoever else writes,
//! and whenever a writer is killed. Every failure to keep something means only that it is compiled again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::{folders, private};
use crate::device::cuda::cache::Store;

/// Names the folder.
pub const VARIABLE: &str = "CLK_CACHE_DIR";

/// Bytes that all entries together may have; the ones that were not used for longest go first.
const LIMIT: u64 = 512 << 20;
/// What is left after that.
const LEFT: u64 = LIMIT / 4 * 3;
/// Every so many writes of a process the folder's size is looked at.
const LOOK: u64 = 16;
/// A temporary file older than this belongs to a writer that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

const ENTRY: &str = "cubin";
const TEMPORARY: &str = "part";

/// The folder as a store.
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    left: u64,
}

/// Counts this process's writes, so that their temporary names differ.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// An entry as it lies in the folder.
pub struct Entry {
    pub path: PathBuf,
    pub bytes: u64,
    pub used: SystemTime,
}

/// The folder that [`VARIABLE`] names, else the user's for caches.
pub fn folder() -> Option<PathBuf> {
    folder_of(&folders::environment)
}

fn folder_of(variable: folders::Variable<'_>) -> Option<PathBuf> {
    variable(VARIABLE).map(PathBuf::from).or_else(|| folders::cache(variable))
}

impl Cache {
    /// Opens the folder and makes it if need be; `Err` says why it is not to be used.
    pub fn open(folder: &Path) -> Result<Cache, String> {
        make_private(folder)?;
        Ok(Cache { folder: folder.to_path_buf(), limit: LIMIT, left: LEFT })
    }

    /// All entries, the one that was used last first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut found: Vec<Entry> = self.files(ENTRY).collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        found
    }

    /// Removes everything that is Clk's; says how many entries and bytes went.
    pub fn clean(&self) -> (usize, u64) {
        self.files(TEMPORARY).for_each(|entry| drop(fs::remove_file(entry.path)));
        let removed = self.files(ENTRY).filter(|entry| fs::remove_file(&entry.path).is_ok());
        removed.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    }

    fn files(&self, extension: &'static str) -> impl Iterator<Item = Entry> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let path = entry.path();
            let of_clk = path.extension().is_some_and(|e| e == extension);
            let data = entry.metadata().ok().filter(|data| of_clk && data.is_file())?;
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Entry { path, bytes: data.len(), used })
        })
    }

    /// Keeps the folder within its bounds.
    fn trim(&self) {
        for entry in self.files(TEMPORARY) {
            if entry.used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path);
            }
        }
        let entries = self.entries();
        if entries.iter().map(|e| e.bytes).sum::<u64>() <= self.limit {
            return;
        }
        let mut kept = 0;
        for entry in entries {
            kept += entry.bytes;
            if kept > self.left {
                let _ = fs::remove_file(entry.path);
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension(ENTRY)
    }
}

impl Store for Cache {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name);
        if !private::is_own(&fs::symlink_metadata(&path).ok()?) {
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        // For `trim`: the time of the last use. A folder that cannot be written keeps the old one.
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
        let count = WRITES.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{name}.{}.{count}.{TEMPORARY}", std::process::id()));
        let written = new_private_file(&temporary)
            .and_then(|mut file| write(&mut file))
            .and_then(|()| fs::rename(&temporary, self.path(name)));
        if written.is_err() {
            // Full or read-only: what there is of it goes away, if there is any.
            let _ = fs::remove_file(&temporary);
        }
        if count.is_multiple_of(LOOK) {
            self.trim();
        }
    }
}

/// Makes the folder with access for its owner alone; one of another user, or one that others may write, is refused.
#[cfg(unix)]
fn make_private(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let data = fs::metadata(folder);
    if data.is_ok_and(|data| data.is_dir() && data.uid() == private::own_user() && data.mode() & 0o077 != 0) {
        // It is ours, so that it can be closed; if not, others could put machine code there.
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    }
    private::folder(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> Result<(), String> {
    private::folder(folder)
}

fn new_private_file(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cache: &Cache) -> Vec<String> {
        let names = cache.entries().into_iter().map(|e| e.path.file_stem().unwrap().to_string_lossy().into_owned());
        names.collect()
    }

    #[test]
    fn entries_are_kept_listed_and_cleaned() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(&root.path().join("new/clk")).unwrap();
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"one");
        cache.put("a", b"two");
        assert_eq!(cache.get("a").as_deref(), Some(&b"two"[..]));
        cache.put("b", b"three");
        assert_eq!(cache.entries().len(), 2);
        fs::write(root.path().join("new/clk/notes.txt"), "not Clk's").unwrap();
        assert_eq!(cache.clean(), (2, 8));
        assert!(root.path().join("new/clk/notes.txt").exists());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let now = SystemTime::now();
        for (k, name) in ["a", "b", "c"].into_iter().enumerate() {
            cache.put(name, &[0; 10]);
            let file = fs::File::options().append(true).open(cache.path(name)).unwrap();
            file.set_modified(now - Duration::from_secs(100 - k as u64)).unwrap();
        }
        assert!(cache.get("a").is_some(), "which makes it the newest");
        Cache { limit: 25, left: 20, ..cache }.trim();
        assert_eq!(names(&Cache::open(root.path()).unwrap()), ["a", "c"]);
    }

    #[test]
    fn a_killed_writer_leaves_nothing_that_is_read_or_stays() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let left = root.path().join("a.1.0.part");
        fs::write(&left, "hal").unwrap();
        assert_eq!(cache.get("a"), None);
        cache.trim();
        assert!(left.exists(), "it may be another process at work");
        let file = fs::File::options().append(true).open(&left).unwrap();
        file.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        cache.trim();
        assert!(!left.exists());
    }

    #[test]
    fn many_writers_at_once_leave_whole_entries() {
        let root = tempfile::tempdir().unwrap();
        let caches: Vec<Cache> = (0..4).map(|_| Cache::open(root.path()).unwrap()).collect();
        std::thread::scope(|scope| {
            for (k, cache) in caches.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..50 {
                        cache.put("same", &vec![k as u8; 10_000]);
                        let seen = cache.get("same").expect("one of them is there");
                        assert!(seen.len() == 10_000 && seen.iter().all(|b| *b == seen[0]));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_private_and_a_read_only_one_does_no_harm() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("clk");
        let cache = Cache::open(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        cache.put("a", b"one");
        assert_eq!(fs::metadata(cache.path("a")).unwrap().mode() & 0o777, 0o600);
        // An entry that others may write is not trusted.
        fs::set_permissions(cache.path("a"), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(cache.get("a"), None);
        // Neither is a link, which may lead anywhere.
        std::os::unix::fs::symlink("/etc/hostname", cache.path("link")).unwrap();
        assert_eq!(cache.get("link"), None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Cache::open(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "opened to others, closed again");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
        cache.put("b", b"two");
        // The administrator may write everywhere; everybody else finds nothing kept.
        assert!(private::own_user() == 0 || cache.get("b").is_none());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Cache::open(Path::new("/dev/null/clk")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_belongs_to_another_user_is_refused() {
        use std::os::unix::fs::chown;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("clk");
        let cache = Cache::open(&folder).unwrap();
        cache.put("a", b"one");
        let other = private::own_user() + 1;
        if chown(cache.path("a"), Some(other), None).is_err() {
            println!("skipped: no right to give files away");
            return;
        }
        assert_eq!(cache.get("a"), None, "an entry");
        chown(&folder, Some(other), None).unwrap();
        assert!(Cache::open(&folder).is_err_and(|why| why.contains("another user")), "the folder");
    }

    #[test]
    fn a_full_disk_does_no_harm() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        cache.put_with("a", |file| {
            file.write_all(b"hal")?;
            Err(std::io::ErrorKind::StorageFull.into())
        });
        assert_eq!(cache.get("a"), None);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "the half is gone");
        cache.put("a", b"one");
        assert_eq!(cache.get("a").as_deref(), Some(&b"one"[..]), "with room again");
    }

    #[test]
    fn the_folder_follows_the_rules() {
        let of = |set: &[(&str, &str)]| {
            folder_of(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[("CLK_CACHE_DIR", "here"), ("HOME", "/h")]), Some("here".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), Some("/c/clk".into()));
        assert_eq!(of(&[]), None);
    }
}
