//! Dependencies from Git repositories, fetched by the installed `git`. Input: an address and a requested revision. Output: a commit. The
//! cache stores its files under its hash. A checkout appears there complete or not at all, and is never changed.
//!
//! The server is untrusted: it chooses the names of its branches and tags and what its `HEAD` is. A name can look like a hash, and
//! `git checkout` prefers names. So a commit is only looked up by its full reference name or its hash, and a checkout enters the cache
//! only if its `HEAD` is the expected commit.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::lock::{self, Pin};
use crate::app::interrupt::Interrupt;
use crate::app::leftovers::Leftover;
use crate::app::{cache, disk, private};
use crate::base::stop;

/// The transports that `git` may use; `user@host:path` is `ssh`. Git's own list includes helpers that run commands.
const PROTOCOLS: &str = "https:ssh:file";

/// Settings that keep a checkout from running programs and from depending on the user's settings.
const SETTINGS: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.sparseCheckout=false",
    // A symbolic link could make a file of the user look like a file of the project.
    "core.symlinks=false",
    "submodule.recurse=false",
    // `HEAD` is a file.
    "init.defaultRefFormat=files",
    "advice.detachedHead=false",
];

/// Overrides the attributes of the repository. No filter program runs, and Git writes the bytes of the commit.
const ATTRIBUTES: &str = "* -filter -ident -text -eol -working-tree-encoding\n";

/// Prefixes of the variables of Git that are passed on: ssh, certificates and the authentication of a proxy.
const VARIABLES: [&str; 4] = ["GIT_SSH", "GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_PROXY_"];

/// Time between two looks at a running `git`.
const PAUSE: Duration = Duration::from_millis(5);
/// Time for an interrupted `git` to end before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Returns the folder of a checkout; `None` without a cache folder, or if the folder does not contain that commit.
pub(crate) fn checkout(url: &str, commit: &str) -> Option<PathBuf> {
    Some(checkouts(&cache::folder()?, url).join(commit)).filter(|place| holds(place, commit))
}

/// All checkouts of one address. Each character that a file name may not have is replaced by its number.
fn checkouts(cache: &Path, url: &str) -> PathBuf {
    let mut name = String::new();
    for byte in url.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name += &format!("%{byte:02x}"),
        }
    }
    cache.join("projects").join(name)
}

/// Whether a folder is a checkout of a commit. Its `HEAD` is detached, so the file contains the hash.
fn holds(place: &Path, commit: &str) -> bool {
    let head = disk::open(&place.join(".git/HEAD")).and_then(|file| disk::contents(file, 128));
    head.is_ok_and(|head| head.trim_ascii().eq_ignore_ascii_case(commit.as_bytes()))
}

/// Makes sure that a dependency is in the cache; returns its commit. `known` is the pinned commit. `root` is the folder to which
/// an address that is a path is relative.
pub(crate) fn fetch(
    url: &str,
    wanted: &str,
    known: Option<&str>,
    root: &Path,
    interrupt: &Interrupt,
) -> Result<Pin, String> {
    let cache = cache::folder().ok_or("there is no folder for a cache: set `CLK_CACHE_DIR`, or `HOME`")?;
    let pin = |commit: &str| Pin { url: url.into(), wanted: wanted.into(), commit: commit.into() };
    let home = checkouts(&cache, url);
    if let Some(commit) = known.filter(|commit| holds(&home.join(commit), commit)) {
        return Ok(pin(commit));
    }
    // Marks the cache as such, or refuses a folder that is none.
    cache::Cache::open(&cache).map_err(|refusal| refusal.diagnostic(&cache).title)?;
    private::folder(&cache.join("projects"))?;
    private::folder(&home)?;
    let scratch = Leftover::make(|| tempfile::tempdir_in(&home), |folder| folder.path());
    let (scratch, _leftover) = scratch.map_err(|error| disk::reason(&error))?;
    let clone = scratch.path().join("clone");
    let git = Git { clone: &clone, interrupt };
    git.clone_from(&address(url, root)?)?;
    let commit = match known {
        Some(commit) => commit.to_owned(),
        None => git.find(wanted)?.ok_or_else(|| format!("the repository has no {wanted}"))?,
    };
    if !lock::is_hash(&commit) {
        return Err(format!("`git` answered `{commit}` instead of a commit"));
    }
    git.check_out(&commit)?;
    let place = home.join(&commit);
    if !holds(&place, &commit) {
        put(&clone, &place, &commit)?;
    }
    Ok(pin(&commit))
}

/// Moves a verified checkout to its place. Another process may put the same commit there meanwhile.
fn put(clone: &Path, place: &Path, commit: &str) -> Result<(), String> {
    if place.exists() {
        // Its `HEAD` is another commit, so it is not a checkout that this version made.
        std::fs::remove_dir_all(place).map_err(|error| disk::reason(&error))?;
    }
    std::fs::rename(clone, place).or_else(|error| if holds(place, commit) { Ok(()) } else { Err(disk::reason(&error)) })
}

/// An address without a scheme or a host is a path, relative to the project's folder. It is made absolute, because Git would take
/// a folder with a colon in its name for a host.
fn address(url: &str, root: &Path) -> Result<PathBuf, String> {
    if url.contains(':') {
        return Ok(PathBuf::from(url));
    }
    std::path::absolute(root.join(url)).map_err(|error| disk::reason(&error))
}

/// Runs `git` for one clone.
struct Git<'a> {
    clone: &'a Path,
    interrupt: &'a Interrupt,
}

impl Git<'_> {
    fn clone_from(&self, address: &Path) -> Result<(), String> {
        // With `--no-local` Git computes the hashes of objects even if the address is a path. Otherwise it trusts the names of their files.
        let words = ["clone", "--quiet", "--no-checkout", "--no-local", "--template=", "--origin=origin"];
        let mut command = self.command();
        if let Some(ssh) = self.ssh()? {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        self.run(command.args(words).arg("--").arg(address).arg(self.clone))?;
        let info = self.clone.join(".git/info");
        std::fs::create_dir_all(&info).map_err(|error| disk::reason(&error))?;
        disk::write_whole(&info.join("attributes"), ATTRIBUTES.as_bytes())
    }

    /// Returns the commit that `clk.toml` requests; `None` if the repository does not have it.
    fn find(&self, wanted: &str) -> Result<Option<String>, String> {
        let object = match wanted.split_once(' ') {
            Some(("rev", hash)) if lock::is_hash(hash) => Some(hash.to_ascii_lowercase()),
            Some(("rev", start)) => return self.find_abbreviated(start),
            Some(("branch", name)) => self.find_reference(&format!("refs/remotes/origin/{name}"))?,
            Some(("tag", name)) => self.find_reference(&format!("refs/tags/{name}"))?,
            _ => self.answer(&["rev-parse", "--quiet", "--verify", "HEAD"])?,
        };
        // A hash of full length is never taken for a name here.
        let commit = |object: String| {
            self.answer(&["rev-parse", "--quiet", "--verify", "--end-of-options", &format!("{object}^{{commit}}")])
        };
        object.map_or(Ok(None), commit)
    }

    /// Returns the object that a reference with exactly this name points to.
    fn find_reference(&self, name: &str) -> Result<Option<String>, String> {
        self.answer(&["show-ref", "--verify", "--hash", "--", name])
    }

    /// Returns the commit whose hash begins like this. `rev-parse START` would prefer a branch of that name.
    fn find_abbreviated(&self, start: &str) -> Result<Option<String>, String> {
        let objects = self.answer(&["rev-parse", &format!("--disambiguate={start}")])?.unwrap_or_default();
        let mut commits = Vec::new();
        for object in objects.lines() {
            if self.answer(&["cat-file", "-t", object])?.as_deref() == Some("commit") {
                commits.push(object.to_owned());
            }
        }
        match &commits[..] {
            [] | [_] => Ok(commits.pop()),
            _ => Err(format!("the hashes of {} commits begin with {start}; write more digits", commits.len())),
        }
    }

    /// Writes the files of a commit.
    fn check_out(&self, commit: &str) -> Result<(), String> {
        // `git checkout HASH` would prefer a branch named `HASH`; no branch can have the name `HASH^{commit}`.
        let object = format!("{commit}^{{commit}}");
        self.run(self.inside().args(["checkout", "--quiet", "--detach", &object, "--"]))?;
        let head = self.run(self.inside().args(["rev-parse", "--verify", "HEAD"]))?;
        if !head.trim().eq_ignore_ascii_case(commit) || !holds(self.clone, commit) {
            return Err(format!("`git` checked out the commit {} instead of {commit}", head.trim()));
        }
        Ok(())
    }

    /// Returns the command line for ssh with `BatchMode=yes`, so that it does not ask for a password or about a new host; `None` if the
    /// user has set a program other than OpenSSH, which has other options. Without a terminal, that program cannot ask either.
    fn ssh(&self) -> Result<Option<String>, String> {
        let own = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let mut command = own("GIT_SSH_COMMAND");
        if command.is_none() {
            // Without a repository, so that only the settings of the user and the system count.
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

    /// Returns a command that works on the clone.
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
        // No questions: neither at the terminal nor in a window.
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "").env_remove("SSH_ASKPASS");
        command.env("GCM_INTERACTIVE", "never");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
    }

    /// Returns what `git` prints about the clone, without line ends at both sides; `None` if it fails.
    fn answer(&self, words: &[&str]) -> Result<Option<String>, String> {
        let printed = self.succeeds(self.inside().args(words))?;
        Ok(printed.map(|text| text.trim().to_owned()))
    }

    /// Returns what `git` prints; `None` if it fails.
    fn succeeds(&self, command: &mut Command) -> Result<Option<String>, String> {
        let (status, printed, _) = self.output(command)?;
        if status.success() { Ok(Some(text(printed)?)) } else { Ok(None) }
    }

    /// Returns what `git` prints, or the last line of its complaint.
    fn run(&self, command: &mut Command) -> Result<String, String> {
        let (status, printed, complaint) = self.output(command)?;
        if status.success() {
            return text(printed);
        }
        let complaint = String::from_utf8_lossy(&complaint);
        let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).map(str::trim);
        Err(last.map_or_else(|| format!("git: it ended with {status}"), |line| format!("git: {line}")))
    }

    /// Runs `git` to its end, or until Ctrl-C; returns its two outputs.
    fn output(&self, command: &mut Command) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), String> {
        // Files instead of pipes: programs that `git` leaves running may keep a pipe open.
        let file = || tempfile::tempfile().map_err(|error| disk::reason(&error));
        let copy = |file: &File| file.try_clone().map_err(|error| disk::reason(&error));
        let (printed, complaint) = (file()?, file()?);
        command.stdin(Stdio::null()).stdout(copy(&printed)?).stderr(copy(&complaint)?);
        detach(command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "the program `git` is not installed".into(),
            _ => format!("`git` does not start: {}", disk::reason(&error)),
        })?;
        let status = self.wait(&mut child)?;
        Ok((status, content(printed)?, content(complaint)?))
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus, String> {
        loop {
            if let Some(status) = child.try_wait().map_err(|error| disk::reason(&error))? {
                return Ok(status);
            }
            if self.interrupt.is_set() {
                stop::heed();
                end(child);
                return Err("interrupted".into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "`git` did not answer in UTF-8".into())
}

fn content(mut file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| disk::reason(&error))?;
    Ok(bytes)
}

/// Puts a command into a session of its own: no program that it starts can ask at the terminal, and Ctrl-C reaches them by [`end`].
#[cfg(unix)]
fn detach(command: &mut Command) {
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
fn detach(_: &mut Command) {}

/// Ends `git` and the programs that it has started, which are in its process group.
#[cfg(unix)]
fn end(child: &mut Child) {
    let until = Instant::now() + GRACE;
    let mut signal = libc::SIGTERM;
    loop {
        // SAFETY: sends a signal to the group of a child that has not been waited for.
        unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
        while signal == libc::SIGKILL || Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        signal = libc::SIGKILL;
    }
}

#[cfg(not(unix))]
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_folder() {
        let place = checkouts(Path::new("/c"), "https://a.b/../c");
        assert_eq!(place, Path::new("/c/projects/https%3a%2f%2fa%2eb%2f%2e%2e%2fc"));
    }

    #[test]
    fn a_path_is_not_a_host() {
        assert_eq!(address("x@h:p", Path::new("a:b")), Ok("x@h:p".into()));
        assert_eq!(address("../c", Path::new("/a:b")), Ok("/a:b/../c".into()));
        assert!(address("../c", Path::new("a:b")).expect("a path").is_absolute());
    }
}
