//! The history file, with one line for each entry. Entries are appended immediately, so that a killed session loses
//! nothing. Invalid lines of a damaged file are skipped.
//!
//! The format is that of rustyline: `#V2`, then one entry per line with line ends and backslashes escaped. Concurrent
//! sessions share the file and lock it for writing. A session that starts with a file of more than twice the limit
//! replaces it with a shorter one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{disk, user_dirs};

/// Maximum number of entries that a session reads from the file.
pub(crate) const LIMIT: usize = 10_000;
const VERSION_LINE: &str = "#V2";

/// The history file.
pub(crate) struct History {
    path: PathBuf,
    limit: usize,
}

impl History {
    /// Opens the user's history and creates its directory; `None` without a home directory.
    pub fn open() -> Option<History> {
        let folder = user_dirs::state(&user_dirs::environment)?;
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder).ok()?;
        Some(History { path: folder.join("history"), limit: LIMIT })
    }

    /// Returns the newest entries, oldest first. Rewrites the file if it is too long, has an earlier format, or lacks a
    /// final line end.
    pub fn entries(&self) -> Vec<String> {
        let Ok(bytes) = disk::read(&self.path) else { return vec![] };
        let (reread, sound) = parse(&bytes);
        let newest = |reread: &[String]| reread[reread.len().saturating_sub(self.limit)..].to_vec();
        if sound && reread.len() <= 2 * self.limit {
            return newest(&reread);
        }
        // If another session holds the lock, the file is not rewritten.
        let Some(_locked) = open(&self.path).filter(lock) else { return newest(&reread) };
        let reread = disk::read(&self.path).map_or(reread, |bytes| parse(&bytes).0);
        let newest_entries = newest(&reread);
        let lines: String = newest_entries.iter().map(|entry| line(entry)).collect();
        // If the write fails, the old file remains, which is harmless.
        let _ = disk::write_atomically(&self.path, format!("{VERSION_LINE}\n{lines}").as_bytes());
        newest_entries
    }

    /// Appends an entry. Errors are ignored, because they would be reported at every entry.
    pub fn add(&self, entry: &str) {
        let Some(mut file) = self.locked() else { return };
        let is_new = file.metadata().is_ok_and(|data| data.len() == 0);
        let head = if is_new { format!("{VERSION_LINE}\n") } else { String::new() };
        // Uses a single write, so that a killed process has written the complete line or nothing.
        let _ = file.write_all((head + &line(entry)).as_bytes());
    }

    /// Returns the locked file; opens it again if another session has just replaced it.
    fn locked(&self) -> Option<File> {
        for _ in 0..8 {
            let file = open(&self.path)?;
            // Appends even without the lock: a process that holds it for so long probably hangs.
            lock(&file);
            if is_same_file(&file, &self.path) {
                return Some(file);
            }
        }
        None
    }
}

/// Opens the file for appending; creates it with mode 0600 if necessary. Does not block if the name refers to a pipe.
fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path).ok()
}

/// Waits for the lock for at most 0.1 s.
fn lock(file: &File) -> bool {
    (0..50).any(|attempt| {
        std::thread::sleep(Duration::from_millis(if attempt == 0 { 0 } else { 2 }));
        file.try_lock().is_ok()
    })
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |data: fs::Metadata| (data.dev(), data.ino());
    file.metadata().ok().map(number) == fs::metadata(path).ok().map(number)
}

#[cfg(not(unix))]
fn is_same_file(_: &File, _: &Path) -> bool {
    true
}

fn line(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n") + "\n"
}

/// Returns the entries of a file, and whether lines can be appended without rewriting it. Skips lines that are not
/// UTF-8.
fn parse(bytes: &[u8]) -> (Vec<String>, bool) {
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    let escaped = lines.next_if(|first| *first == VERSION_LINE.as_bytes()).is_some();
    let whole = bytes.is_empty() || bytes.ends_with(b"\n");
    let texts = lines.filter_map(|line| std::str::from_utf8(line).ok()).filter(|line| !line.is_empty());
    let entries = texts.map(|line| if escaped { unescaped(line) } else { line.to_string() }).collect();
    (entries, whole && (escaped || bytes.is_empty()))
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(folder: &Path) -> History {
        History { path: folder.join("history"), limit: 10 }
    }

    #[test]
    fn entries_round_trip() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = history(folder.path());
        assert!(history.entries().is_empty());
        let all = ["let a = 1", "fn f() {\n    1\n}", r#"print("\n")"#, "é"];
        all.iter().for_each(|entry| history.add(entry));
        assert_eq!(history.entries(), all);
        let text = fs::read_to_string(&history.path).expect("read");
        assert!(text.starts_with("#V2\nlet a = 1\nfn f() {\\n    1\\n}\n"), "{text}");
    }

    #[test]
    fn invalid_utf8_loses_only_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = history(folder.path());
        fs::write(&history.path, b"#V2\none\ntw\xffo\nthree\n").expect("written");
        assert_eq!(history.entries(), ["one", "three"]);
        history.add("four");
        assert_eq!(history.entries(), ["one", "three", "four"]);
        // A file truncated in the middle of a line, and a file in the earlier format without escapes.
        for (bytes, expected) in
            [(&b"#V2\none\ntw"[..], ["one", "tw", "next"]), (b"one\ntw\\n\n", ["one", "tw\\n", "next"])]
        {
            fs::write(&history.path, bytes).expect("written");
            assert_eq!(history.entries(), expected[..2]);
            history.add("next");
            assert_eq!(history.entries(), expected);
        }
    }

    #[test]
    fn history_is_trimmed_at_the_start_of_a_session() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = history(folder.path());
        for number in 0..20 {
            history.add(&number.to_string());
            let lines = fs::read_to_string(&history.path).expect("read").lines().count();
            assert_eq!(lines, number + 2, "nothing is written again");
        }
        assert_eq!(history.entries().len(), 10);
        history.add("20");
        let newest: Vec<String> = (11..21).map(|n| n.to_string()).collect();
        assert_eq!(history.entries(), newest);
        assert_eq!(fs::read_to_string(&history.path).expect("read").lines().count(), 11);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn sessions_share_the_history() {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for session in 0..4 {
                let history = History { path: folder.path().join("history"), limit: 1000 };
                scope.spawn(move || (0..50).for_each(|entry| history.add(&format!("{session}.{entry}"))));
            }
        });
        let all = History { path: folder.path().join("history"), limit: 1000 }.entries();
        assert_eq!(all.len(), 200);
        for session in 0..4 {
            let own: Vec<&String> = all.iter().filter(|entry| entry.starts_with(&format!("{session}."))).collect();
            assert!(own.iter().enumerate().all(|(at, entry)| **entry == format!("{session}.{at}")), "in order");
        }
    }

    #[cfg(unix)]
    #[test]
    fn pipe_as_history_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = history(folder.path());
        let name = std::ffi::CString::new(history.path.display().to_string()).expect("no zeros");
        // SAFETY: the name is zero-terminated and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        history.add("one");
        assert!(history.entries().is_empty());
    }
}
