//! Dependencies from Git repositories, fetched by the installed `git`. Input: an address and a requested revision.
//! Output: a commit. The cache stores the files of a commit in a folder named by its hash. Such a folder appears in the
//! cache only when it is complete, and is never changed.
//!
//! The server is untrusted: it chooses the names of branches and tags, and what `HEAD` refers to. A name can look like
//! a hash, and `git checkout` prefers names to hashes. Therefore, a commit is looked up only by its full reference name
//! or its hash, and a checkout enters the cache only if its `HEAD` is the expected commit.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::lock::{self, PinnedDependency};
use crate::cache::CacheDirError;
use crate::interrupt::Interrupt;
use crate::temp_files::TempFileRegistration;
use crate::{cache, disk, permissions};
use clk_base::file_error::FileError;
use clk_base::stop;

/// The transports that `git` may use. An address `user@host:path` uses `ssh`. By default, Git also accepts transports
/// that run arbitrary commands.
const PROTOCOLS: &str = "https:ssh:file";

/// Git settings that keep a checkout from running programs and from depending on the user's settings.
const SETTINGS: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.sparseCheckout=false",
    // With a symbolic link, a file of the user could appear as a file of the project.
    "core.symlinks=false",
    "submodule.recurse=false",
    // References are stored as files, so `HEAD` can be read without `git`.
    "init.defaultRefFormat=files",
    "advice.detachedHead=false",
];

/// Overrides the attributes set by the repository: no filter program runs, and Git writes exactly the bytes of the
/// commit.
const ATTRIBUTES: &str = "* -filter -ident -text -eol -working-tree-encoding\n";

/// Prefixes of those environment variables of Git that are passed on: for ssh, certificates and proxy authentication.
const VARIABLES: [&str; 4] = ["GIT_SSH", "GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_PROXY_"];

/// Why a dependency cannot be fetched.
#[derive(Debug, Error)]
pub(crate) enum FetchError {
    #[error("there is no folder for a cache: set `CLK_CACHE_DIR`, or `HOME`")]
    NoCache,
    #[error("{}", error.diagnostic(folder).title)]
    Cache { folder: PathBuf, error: CacheDirError },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the program `git` is not installed")]
    NoGit,
    #[error("`git` does not start: {0}")]
    NoStart(FileError),
    /// `git` failed with this line of output, or exit status.
    #[error("git: {0}")]
    Failed(String),
    #[error("`git` did not answer in UTF-8")]
    NotUtf8,
    #[error("`git` answered `{0}` instead of a commit")]
    NotACommit(String),
    #[error("`git` checked out the commit {actual} instead of {commit}")]
    OtherCommit { actual: String, commit: String },
    #[error("the repository has no {0}")]
    NoRevision(String),
    #[error("the hashes of {count} commits begin with {start}; write more digits")]
    Ambiguous { start: String, count: usize },
    #[error("interrupted")]
    Interrupted,
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> FetchError {
        FetchError::File(error.into())
    }
}

type FetchResult<T = ()> = Result<T, FetchError>;

/// Interval at which a running `git` is checked.
const PAUSE: Duration = Duration::from_millis(5);
/// How long an interrupted `git` may take to end before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Returns the cached checkout of a commit. `None` if there is no cache folder, or no valid checkout in it.
pub(crate) fn checkout(url: &str, commit: &str) -> Option<PathBuf> {
    Some(checkout_folder(&cache::folder()?, url).join(commit)).filter(|place| is_checkout_of(place, commit))
}

/// Returns the folder for all checkouts from one address. In its name, special characters of the address are replaced
/// by their codes.
fn checkout_folder(cache: &Path, url: &str) -> PathBuf {
    let mut name = String::new();
    for byte in url.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name += &format!("%{byte:02x}"),
        }
    }
    cache.join("projects").join(name)
}

/// Whether a folder contains a checkout of this commit: the `HEAD` of a checkout is detached, so its file contains the
/// hash.
fn is_checkout_of(place: &Path, commit: &str) -> bool {
    let head = disk::open(&place.join(".git/HEAD")).and_then(|file| disk::contents(file, 128));
    head.is_ok_and(|head| head.trim_ascii().eq_ignore_ascii_case(commit.as_bytes()))
}

/// Downloads a dependency unless it is in the cache; returns its pin. `known` is the commit pinned so far. If `url` is
/// a path, it is relative to `root`.
pub(crate) fn fetch(
    url: &str,
    wanted: &str,
    known: Option<&str>,
    root: &Path,
    interrupt: &Interrupt,
) -> FetchResult<PinnedDependency> {
    let cache = cache::folder().ok_or(FetchError::NoCache)?;
    let pin = |commit: &str| PinnedDependency { url: url.into(), requested: wanted.into(), commit: commit.into() };
    let home = checkout_folder(&cache, url);
    if let Some(commit) = known.filter(|commit| is_checkout_of(&home.join(commit), commit)) {
        return Ok(pin(commit));
    }
    // Creates the cache folder and tags it. Fails if the folder has other content.
    cache::Cache::open(&cache).map_err(|error| FetchError::Cache { folder: cache.clone(), error })?;
    permissions::create_private_directory(&cache.join("projects"))?;
    permissions::create_private_directory(&home)?;
    let (scratch, _leftover) = TempFileRegistration::make(|| tempfile::tempdir_in(&home), |folder| folder.path())?;
    let clone = scratch.path().join("clone");
    let git = Git { clone: &clone, interrupt };
    git.clone_from(&address(url, root)?)?;
    let commit = match known {
        Some(commit) => commit.to_owned(),
        None => git.find(wanted)?.ok_or_else(|| FetchError::NoRevision(wanted.into()))?,
    };
    if !lock::is_hash(&commit) {
        return Err(FetchError::NotACommit(commit));
    }
    git.check_out(&commit)?;
    let place = home.join(&commit);
    if !is_checkout_of(&place, &commit) {
        store_checkout(&clone, &place, &commit)?;
    }
    Ok(pin(&commit))
}

/// Moves a verified checkout into the cache. Succeeds if another process has stored the same commit meanwhile.
fn store_checkout(clone: &Path, place: &Path, commit: &str) -> FetchResult {
    if place.exists() {
        // The existing folder is not a checkout of this commit, so it is damaged or comes from another program.
        std::fs::remove_dir_all(place)?;
    }
    std::fs::rename(clone, place)
        .or_else(|error| if is_checkout_of(place, commit) { Ok(()) } else { Err(error.into()) })
}

/// Returns the address to pass to Git. An address without a colon is a path relative to `root`. It is made absolute,
/// because Git would interpret a relative path that contains a colon as a host.
fn address(url: &str, root: &Path) -> FetchResult<PathBuf> {
    if url.contains(':') {
        return Ok(PathBuf::from(url));
    }
    Ok(std::path::absolute(root.join(url))?)
}

/// Runs `git` commands for one clone.
struct Git<'a> {
    clone: &'a Path,
    interrupt: &'a Interrupt,
}

impl Git<'_> {
    fn clone_from(&self, address: &Path) -> FetchResult {
        // With `--no-local`, Git verifies the hashes of objects even if the address is a path. Otherwise, it trusts the
        // file names of objects.
        let words = ["clone", "--quiet", "--no-checkout", "--no-local", "--template=", "--origin=origin"];
        let mut command = self.command();
        if let Some(ssh) = self.ssh()? {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        self.run(command.args(words).arg("--").arg(address).arg(self.clone))?;
        let info = self.clone.join(".git/info");
        std::fs::create_dir_all(&info)?;
        Ok(disk::write_atomically(&info.join("attributes"), ATTRIBUTES.as_bytes())?)
    }

    /// Returns the commit of the revision that `clk.toml` requests; `None` if the repository does not have it.
    fn find(&self, wanted: &str) -> FetchResult<Option<String>> {
        let object = match wanted.split_once(' ') {
            Some(("rev", hash)) if lock::is_hash(hash) => Some(hash.to_ascii_lowercase()),
            Some(("rev", start)) => return self.find_abbreviated(start),
            Some(("branch", name)) => self.find_reference(&format!("refs/remotes/origin/{name}"))?,
            Some(("tag", name)) => self.find_reference(&format!("refs/tags/{name}"))?,
            _ => self.answer(&["rev-parse", "--quiet", "--verify", "HEAD"])?,
        };
        // `object` is a full hash here, which `git rev-parse` never interprets as a name.
        let commit = |object: String| {
            self.answer(&["rev-parse", "--quiet", "--verify", "--end-of-options", &format!("{object}^{{commit}}")])
        };
        object.map_or(Ok(None), commit)
    }

    /// Returns the hash of the object to which a reference with exactly this name points.
    fn find_reference(&self, name: &str) -> FetchResult<Option<String>> {
        self.answer(&["show-ref", "--verify", "--hash", "--", name])
    }

    /// Returns the only commit whose hash begins with `start`. Plain `rev-parse START` would prefer a branch of that
    /// name.
    fn find_abbreviated(&self, start: &str) -> FetchResult<Option<String>> {
        let objects = self.answer(&["rev-parse", &format!("--disambiguate={start}")])?.unwrap_or_default();
        let mut commits = Vec::new();
        for object in objects.lines() {
            if self.answer(&["cat-file", "-t", object])?.as_deref() == Some("commit") {
                commits.push(object.to_owned());
            }
        }
        match &commits[..] {
            [] | [_] => Ok(commits.pop()),
            _ => Err(FetchError::Ambiguous { start: start.into(), count: commits.len() }),
        }
    }

    /// Writes the files of a commit.
    fn check_out(&self, commit: &str) -> FetchResult {
        // `git checkout HASH` would check out a branch that is named `HASH`. No branch can be named `HASH^{commit}`.
        let object = format!("{commit}^{{commit}}");
        self.run(self.inside().args(["checkout", "--quiet", "--detach", &object, "--"]))?;
        let head = self.run(self.inside().args(["rev-parse", "--verify", "HEAD"]))?;
        if !head.trim().eq_ignore_ascii_case(commit) || !is_checkout_of(self.clone, commit) {
            return Err(FetchError::OtherCommit { actual: head.trim().into(), commit: commit.into() });
        }
        Ok(())
    }

    /// Returns the ssh command line with `BatchMode=yes`, which prevents prompts for passwords and unknown hosts.
    /// Returns `None` if the user has configured a program other than OpenSSH, which has other options. Such a program
    /// cannot prompt either, because it has no terminal.
    fn ssh(&self) -> FetchResult<Option<String>> {
        let own = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let mut command = own("GIT_SSH_COMMAND");
        if command.is_none() {
            // Runs outside of a repository, so that only settings of the user and of the system apply.
            let mut config = self.command();
            config.arg("--git-dir").arg(self.clone).args(["config", "--get", "core.sshCommand"]);
            command = self.succeeds(&mut config)?.map(|text| text.trim().to_owned());
        }
        let quoted = |path: String| format!("'{}'", path.replace('\'', r"'\''"));
        let command = command.or_else(|| own("GIT_SSH").map(quoted)).unwrap_or_else(|| "ssh".into());
        let program = command.split_whitespace().next().map(|word| word.trim_matches(['"', '\'']));
        let is_open_ssh = program.is_some_and(|path| Path::new(path).file_stem().is_some_and(|name| name == "ssh"));
        Ok(is_open_ssh.then(|| format!("{command} -o BatchMode=yes")))
    }

    /// Returns a `git` command whose repository is the clone.
    fn inside(&self) -> Command {
        let mut command = self.command();
        command.current_dir(self.clone).arg("--git-dir").arg(self.clone.join(".git"));
        command.arg("--work-tree").arg(self.clone);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        let is_passed = |name: &str| VARIABLES.iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("GIT_") && !is_passed(name)) {
                command.env_remove(name);
            }
        }
        command.env("GIT_ALLOW_PROTOCOL", PROTOCOLS).env("GIT_NO_REPLACE_OBJECTS", "1").env("LC_ALL", "C");
        // Disables prompts in the terminal and in windows.
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "").env_remove("SSH_ASKPASS");
        command.env("GCM_INTERACTIVE", "never");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
    }

    /// Returns the trimmed output of a `git` command in the clone; `None` if the command fails.
    fn answer(&self, words: &[&str]) -> FetchResult<Option<String>> {
        let printed = self.succeeds(self.inside().args(words))?;
        Ok(printed.map(|text| text.trim().to_owned()))
    }

    /// Runs a `git` command; returns its output, or `None` if the command fails.
    fn succeeds(&self, command: &mut Command) -> FetchResult<Option<String>> {
        let (status, printed, _) = self.output(command)?;
        if status.success() { Ok(Some(text(printed)?)) } else { Ok(None) }
    }

    /// Runs a `git` command; returns its output. The error contains the last line of its error output.
    fn run(&self, command: &mut Command) -> FetchResult<String> {
        let (status, printed, complaint) = self.output(command)?;
        if status.success() {
            return text(printed);
        }
        let complaint = String::from_utf8_lossy(&complaint);
        let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).map(str::trim);
        Err(FetchError::Failed(last.map_or_else(|| format!("it ended with {status}"), str::to_string)))
    }

    /// Runs a `git` command until it ends or Ctrl-C is pressed. Returns its status, its output and its error output.
    fn output(&self, command: &mut Command) -> FetchResult<(ExitStatus, Vec<u8>, Vec<u8>)> {
        // Uses files instead of pipes: a program that `git` leaves running may keep a pipe open.
        let (printed, complaint) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(complaint.try_clone()?);
        start_new_session(command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FetchError::NoGit,
            _ => FetchError::NoStart(error.into()),
        })?;
        let status = self.wait(&mut child)?;
        Ok((status, content(printed)?, content(complaint)?))
    }

    fn wait(&self, child: &mut Child) -> FetchResult<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interrupt.is_set() {
                stop::acknowledge();
                terminate(child);
                return Err(FetchError::Interrupted);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn text(bytes: Vec<u8>) -> FetchResult<String> {
    String::from_utf8(bytes).map_err(|_| FetchError::NotUtf8)
}

fn content(mut file: File) -> FetchResult<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes a command run in a session of its own, so that neither it nor its child processes can prompt at the terminal.
/// They do not receive Ctrl-C from the terminal; [`terminate`] ends them.
#[cfg(unix)]
fn start_new_session(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `setsid` may be called between fork and exec, and allocates nothing. It cannot fail in a new process.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn start_new_session(_: &mut Command) {}

/// Ends `git` and its child processes, which form a process group.
#[cfg(unix)]
fn terminate(child: &mut Child) {
    let deadline = Instant::now() + GRACE;
    let mut signal = libc::SIGTERM;
    loop {
        // SAFETY: the call sends a signal to the process group of a child that has not been waited for.
        unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
        while signal == libc::SIGKILL || Instant::now() < deadline {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        signal = libc::SIGKILL;
    }
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_has_one_folder() {
        let place = checkout_folder(Path::new("/c"), "https://a.b/../c");
        assert_eq!(place, Path::new("/c/projects/https%3a%2f%2fa%2eb%2f%2e%2e%2fc"));
    }

    #[test]
    fn a_path_is_not_a_host() {
        assert_eq!(address("x@h:p", Path::new("a:b")).expect("a path"), Path::new("x@h:p"));
        assert_eq!(address("../c", Path::new("/a:b")).expect("a path"), Path::new("/a:b/../c"));
        assert!(address("../c", Path::new("a:b")).expect("a path").is_absolute());
    }
}
