//! Tests `clk fetch` with malicious servers, projects and settings that try to replace a checkout or to execute code.
//! The servers are local bare repositories; nothing is downloaded.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clk_testing::{RunOutput, clk, finish};
use tempfile::TempDir;

/// A folder with a server's repository (`evil`), a project that depends on it (`app`), a cache and a home directory.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { root: tempfile::tempdir().expect("a folder") };
        place.write("home/.gitconfig", "");
        place.write("evil/clk.toml", "name = \"evil\"\n");
        place.git("evil", &["init", "--quiet"]);
        place.write("app/app.clk", "import evil\nprint(evil.WHICH)\n");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("written");
    }

    fn script(&self, name: &str, text: &str) {
        self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// Runs `git` without the user's settings; returns its output.
    fn git(&self, folder: &str, words: &[&str]) -> String {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
        let mut command = Command::new("git");
        command.current_dir(self.path(folder)).args(identity).args(words).env("HOME", "/dev/null");
        let output = command.output().expect("git is installed");
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Commits a version of the dependency; returns the hash.
    fn commit(&self, version: i32) -> String {
        self.write("evil/evil.clk", &format!("const WHICH: i32 = {version}\n"));
        self.git("evil", &["add", "--all"]);
        self.git("evil", &["commit", "--quiet", "--allow-empty", "-m", "a version"]);
        self.git("evil", &["rev-parse", "HEAD"])
    }

    /// Writes the manifest of the project, with one dependency, and pins a commit in the lock file if one is given.
    fn depend(&self, source: &str, reference: &str, commit: Option<&str>) {
        let url = source.split('"').nth(1).expect("an address");
        self.write("app/clk.toml", &format!("name = \"app\"\n[dependencies]\nevil = {{ {source} }}\n"));
        let _ = fs::remove_file(self.path("app/clk.lock"));
        if let Some(commit) = commit {
            self.write(
                "app/clk.lock",
                &format!("[evil]\ngit = \"{url}\"\nwanted = \"{reference}\"\ncommit = \"{commit}\"\n"),
            );
        }
    }

    /// Depends on a pinned commit of the repository.
    fn pin(&self, commit: &str) {
        self.depend("git = \"../evil\"", "HEAD", Some(commit));
    }

    fn clk(&self, words: &[&str]) -> Command {
        let mut command = clk(&self.path("app"));
        command.args(words).env("CLK_CACHE_DIR", self.path("cache")).env("HOME", self.path("home"));
        command.env_remove("XDG_CONFIG_HOME");
        command
    }

    fn fetch(&self) -> RunOutput {
        finish(&mut self.clk(&["fetch"]))
    }

    /// Fetches and runs the project; returns its output.
    fn fetched(&self) -> String {
        let ran = self.fetch();
        assert_eq!(ran.code, 0, "{}", ran.err);
        finish(&mut self.clk(&["run", "app.clk"])).out
    }

    /// Checks that fetching fails with a message that contains `words`, and that the cache has no checkout afterwards.
    #[track_caller]
    fn refused(&self, words: &str) -> String {
        let ran = self.fetch();
        assert!(ran.code == 1 && ran.err.contains("E0731") && ran.err.contains(words), "{words}: {}", ran.err);
        assert_eq!(self.checkouts(), Vec::<String>::new());
        assert_ne!(finish(&mut self.clk(&["check", "app.clk"])).code, 0);
        ran.err
    }

    /// Returns the names of all checkouts in the cache, including incomplete ones.
    fn checkouts(&self) -> Vec<String> {
        let names = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
        };
        let all = names(&self.path("cache/projects")).into_iter().flat_map(|home| names(&home));
        all.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
    }
}

#[test]
fn branch_and_tag_names_are_not_accepted_as_hashes() {
    let place = Place::new();
    let (good, bad) = (place.commit(1), place.commit(2));
    for name in [good.clone(), good[..12].to_owned(), good.to_uppercase(), format!("origin/{good}"), "HEAD".into()] {
        for kind in ["heads", "tags"] {
            place.git("evil", &["update-ref", &format!("refs/{kind}/{name}"), &bad]);
        }
    }
    // The name of the server's default branch is the hash of the pinned commit, but the branch contains another commit.
    place.git("evil", &["symbolic-ref", "HEAD", &format!("refs/heads/{good}")]);
    place.pin(&good);
    assert_eq!(place.fetched(), "1\n");
    assert_eq!(place.checkouts(), std::slice::from_ref(&good));
    // `rev` in the manifest, too, selects a commit by its full or abbreviated hash, and not the branch of that name.
    for rev in [&good[..], &good[..12], &good[..7], &good.to_uppercase()[..]] {
        fs::remove_dir_all(place.path("cache")).expect("removed");
        place.depend(&format!("git = \"../evil\", rev = \"{rev}\""), "", None);
        assert_eq!(place.fetched(), "1\n", "{rev}");
    }
    // `branch` in the manifest selects the branch of that name.
    place.depend(&format!("git = \"../evil\", branch = \"{good}\""), "", None);
    assert_eq!(place.fetched(), "2\n");
    for name in ["../tags/HEAD", "HEAD^", "main@{0}", "main:evil.clk", "*", "-x", "--all", "m ain", ""] {
        place.depend(&format!("git = \"../evil\", branch = \"{name}\""), "", None);
        let ran = place.fetch();
        assert!(ran.code == 1 && ran.err.contains("has no branch"), "{name}: {}", ran.err);
    }
}

#[test]
fn a_commit_that_the_server_does_not_have_is_refused() {
    let place = Place::new();
    let commit = place.commit(1);
    let absent = "0123456789".repeat(4);
    place.git("evil", &["update-ref", &format!("refs/heads/{absent}"), &commit]);
    place.git("evil", &["symbolic-ref", "HEAD", &format!("refs/heads/{absent}")]);
    place.pin(&absent);
    place.refused("git:");
    // The hash of a tree is not that of a commit. A hash that is too long is refused, even if the server has a branch
    // of that name.
    let tree = place.git("evil", &["rev-parse", "HEAD^{tree}"]);
    place.pin(&tree);
    place.refused("git:");
    let long = format!("{commit}{}", &commit[..24]);
    place.git("evil", &["update-ref", &format!("refs/heads/{long}"), &commit]);
    place.git("evil", &["symbolic-ref", "HEAD", &format!("refs/heads/{long}")]);
    place.pin(&long);
    place.refused("instead of");
}

#[test]
fn an_object_whose_content_is_not_its_hash_is_refused() {
    let place = Place::new();
    let good = place.commit(1);
    let bad = place.commit(2);
    // Replaces the objects of the good commit by those of the bad one, without changing their names.
    let object = |hash: &str| place.path(&format!("evil/.git/objects/{}/{}", &hash[..2], &hash[2..]));
    for part in ["", ":evil.clk"] {
        let hash = |commit: &str| place.git("evil", &["rev-parse", &format!("{commit}{part}")]);
        let (to, from) = (object(&hash(&good)), object(&hash(&bad)));
        fs::set_permissions(&to, fs::Permissions::from_mode(0o644)).expect("ours");
        fs::copy(from, to).expect("copied");
    }
    place.pin(&good);
    place.refused("git:");
}

#[test]
fn a_poisoned_cache_is_not_used() {
    let place = Place::new();
    let (good, bad) = (place.commit(1), place.commit(2));
    place.pin(&bad);
    assert_eq!(place.fetched(), "2\n");
    let home = fs::read_dir(place.path("cache/projects")).expect("listed").next().expect("one").expect("read").path();
    fs::rename(home.join(&bad), home.join(&good)).expect("renamed");
    place.pin(&good);
    let ran = finish(&mut place.clk(&["run", "app.clk"]));
    assert!(ran.code == 1 && ran.err.contains("has not been fetched"), "{}", ran.err);
    assert_eq!(place.fetched(), "1\n");
}

#[test]
fn only_https_ssh_and_files_are_transports() {
    let place = Place::new();
    place.commit(1);
    let touched = place.path("touched");
    let touch = format!("touch {}", touched.display());
    // Neither the user's Git settings nor environment variables can allow other transports.
    place.write("home/.gitconfig", "[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n");
    for address in [
        "fd::0",
        &format!("ext::sh -c '{touch}'"),
        &format!("ext::{touch}"),
        "http://127.0.0.1:9/x",
        "git://127.0.0.1:9/x",
        "ftp://127.0.0.1:9/x",
        "nonsense::x",
        "nonsense://x",
    ] {
        place.depend(&format!("git = \"{address}\""), "HEAD", None);
        let mut command = place.clk(&["fetch"]);
        command.env("GIT_ALLOW_PROTOCOL", "ext:fd:http:git").env("GIT_PROTOCOL_FROM_USER", "1");
        // Standard input is an open pipe that sends nothing; `fd::0` would read from it.
        let ran = finish(command.stdin(Stdio::piped()));
        assert!(ran.code == 1 && ran.err.contains("not allowed"), "{address}: {}", ran.err);
    }
    for address in [
        &format!("--upload-pack={touch}"),
        &format!("-u{touch}"),
        &format!("ssh://-oProxyCommand={touch}/x"),
        &format!("-oProxyCommand={touch}:x"),
        &format!("a b@-oProxyCommand={touch}:x"),
    ] {
        place.depend(&format!("git = \"{address}\""), "HEAD", None);
        place.refused("git:");
    }
    assert!(!touched.exists(), "a command of an address has run");
}

/// Hooks, file system monitors, filters and submodules do not run, whether the repository, the user's settings or the
/// environment defines them.
#[test]
fn hooks_and_git_settings_do_not_run() {
    let place = Place::new();
    let ran = place.path("ran");
    place.script("bin/spy", &format!("echo \"$0 $*\" >> {}\ncat", ran.display()));
    let spy = place.path("bin/spy").display().to_string();
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        place.script(&format!("hooks/{hook}"), &spy);
        place.script(&format!("template/hooks/{hook}"), &spy);
    }
    let (hooks, template) = (place.path("hooks"), place.path("template"));
    place.write(
        "home/.gitconfig",
        &format!(
            "[core]\n\thooksPath = {}\n\tfsmonitor = {spy}\n\tautocrlf = true\n\tsymlinks = true\n[init]\n\ttemplateDir = {}\n\
             [filter \"spy\"]\n\tsmudge = {spy}\n\tclean = {spy}\n\trequired = true\n[submodule]\n\trecurse = true\n\
             [clone]\n\tdefaultRemoteName = other\n",
            hooks.display(),
            template.display()
        ),
    );
    // The server's repository has a filter, a file in another encoding, a symbolic link and a submodule.
    place.write("evil/.gitattributes", "* filter=spy ident text eol=crlf\nutf16.txt working-tree-encoding=UTF-16\n");
    fs::write(place.path("evil/utf16.txt"), b"\xff\xfea\0\n\0").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", place.path("evil/link")).expect("a link");
    place.write("sub/a", "a");
    place.git("sub", &["init", "--quiet"]);
    place.git("sub", &["add", "."]);
    place.git("sub", &["commit", "--quiet", "-m", "a"]);
    let sub = place.path("sub").display().to_string();
    place.git("evil", &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &sub, "sub"]);
    place.write("evil/evil.clk", "const WHICH: i32 = 1 // $Id$\n");
    for words in [&["config", "filter.spy.clean", "cat"][..], &["add", "--all"], &["commit", "--quiet", "-m", "a"]] {
        place.git("evil", words);
    }
    let commit = place.git("evil", &["rev-parse", "HEAD"]);
    place.pin(&commit);
    let mut command = place.clk(&["fetch"]);
    for name in ["GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EDITOR", "GIT_PAGER", "GIT_PROXY_COMMAND"] {
        command.env(name, &spy);
    }
    command.env("GIT_TEMPLATE_DIR", &template).env("GIT_CONFIG_COUNT", "1");
    command.env("GIT_CONFIG_KEY_0", "core.hooksPath").env("GIT_CONFIG_VALUE_0", &hooks);
    let fetched = finish(&mut command);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "", "nothing runs");
    let home = fs::read_dir(place.path("cache/projects")).expect("listed").next().expect("one").expect("read").path();
    let content = |name: &str| fs::read_to_string(home.join(&commit).join(name)).expect(name);
    assert_eq!(content("evil.clk"), "const WHICH: i32 = 1 // $Id$\n", "the bytes of the commit");
    assert_eq!((content("utf16.txt"), content("link")), ("a\n".into(), "/etc/passwd".into()));
    assert!(!home.join(&commit).join("link").is_symlink());
    assert!(!home.join(&commit).join("sub/a").exists(), "no submodules");
    assert_eq!(finish(&mut place.clk(&["run", "app.clk"])).out, "1\n");
}

#[test]
fn git_environment_variables_are_ignored() {
    let place = Place::new();
    let good = place.commit(1);
    place.git("", &["clone", "--quiet", "evil", "other"]);
    place.pin(&good);
    let mut command = place.clk(&["fetch"]);
    let other = place.path("other");
    for (name, value) in [
        ("GIT_DIR", other.join(".git")),
        ("GIT_WORK_TREE", other.clone()),
        ("GIT_INDEX_FILE", other.join("index")),
        ("GIT_OBJECT_DIRECTORY", other.join("objects")),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", other.join("objects")),
        ("GIT_COMMON_DIR", other.clone()),
        ("GIT_NAMESPACE", "x".into()),
        ("GIT_CEILING_DIRECTORIES", "/".into()),
        ("GIT_CONFIG_GLOBAL", other.join("none")),
        ("GIT_CONFIG_PARAMETERS", "'core.bare=true'".into()),
        ("GIT_REPLACE_REF_BASE", "refs/heads/".into()),
        ("GIT_DEFAULT_HASH", "sha256".into()),
        ("GIT_TRACE", other.join("trace")),
    ] {
        command.env(name, value);
    }
    let ran = finish(&mut command);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(finish(&mut place.clk(&["run", "app.clk"])).out, "1\n");
    let mut left: Vec<String> =
        fs::read_dir(&other).expect("listed").map(|e| e.expect("read").file_name().to_string_lossy().into()).collect();
    left.sort();
    assert_eq!(left, [".git", "clk.toml", "evil.clk"], "nothing is written there");
}

#[test]
fn git_replace_objects_are_ignored() {
    let place = Place::new();
    let (good, bad) = (place.commit(1), place.commit(2));
    place.git("evil", &["replace", &good, &bad]);
    place.write("home/.gitconfig", "[remote \"origin\"]\n\tfetch = +refs/replace/*:refs/replace/*\n");
    place.pin(&good);
    assert_eq!(place.fetched(), "1\n");
}

/// Fetching respects the user's own Git settings for connections: the ssh command, the credential helper and the proxy.
#[test]
fn ssh_does_not_prompt_and_keeps_its_settings() {
    let place = Place::new();
    let commit = place.commit(1);
    let (said, evil) = (place.path("said"), place.path("evil"));
    let fake = format!("echo \"$*; $GIT_SSH_VARIANT\" >> {}\nexec git-upload-pack {}", said.display(), evil.display());
    for name in ["bin/ssh", "own/ssh", "own/plink"] {
        place.script(name, &fake);
    }
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("a path"));
    let own = |name: &str| place.path("own").join(name).display().to_string();
    let fetch = |address: &str, variables: &[(&str, &str)]| {
        let _ = fs::remove_dir_all(place.path("cache"));
        let _ = fs::remove_file(&said);
        place.depend(&format!("git = \"{address}\""), "HEAD", Some(&commit));
        let mut command = place.clk(&["fetch"]);
        command.env("PATH", &path).env_remove("GIT_SSH").env_remove("GIT_SSH_COMMAND").envs(variables.iter().copied());
        let ran = finish(&mut command);
        assert_eq!(ran.code, 0, "{address} {variables:?}: {}", ran.err);
        fs::read_to_string(&said).expect("ssh runs")
    };
    for address in ["me@example.org:evil", "ssh://me@example.org/evil"] {
        assert!(fetch(address, &[]).contains("-o BatchMode=yes"), "{address}");
    }
    let command = fetch("me@example.org:evil", &[("GIT_SSH_COMMAND", "ssh -i key"), ("GIT_SSH_VARIANT", "ssh")]);
    assert!(command.contains("-i key -o BatchMode=yes") && command.contains("; ssh"), "{command}");
    assert!(fetch("me@example.org:evil", &[("GIT_SSH", &own("ssh"))]).contains("-o BatchMode=yes"));
    assert!(!fetch("me@example.org:evil", &[("GIT_SSH", &own("plink"))]).contains("BatchMode"), "it has other options");
    place.write("home/.gitconfig", &format!("[core]\n\tsshCommand = {} -F conf\n", own("ssh")));
    assert!(fetch("me@example.org:evil", &[]).contains("-F conf -o BatchMode=yes"));
    // Settings in the Git repository of the project are ignored, since they are not the user's.
    place.write("home/.gitconfig", "");
    place.git("app", &["init", "--quiet"]);
    place.git("app", &["config", "core.sshCommand", "ssh -F hostile"]);
    assert!(!fetch("me@example.org:evil", &[]).contains("hostile"));
}

/// Returns the id of a process that has the word in its command line, if there is one.
#[cfg(target_os = "linux")]
fn process_with(word: &str) -> Option<i32> {
    fs::read_dir("/proc").expect("processes").flatten().find_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        line.contains(word).then_some(number)
    })
}

#[cfg(target_os = "linux")]
#[test]
fn signals_end_a_fetch_and_its_children() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let place = Place::new();
        let commit = place.commit(1);
        // A server that never answers, identified by a word in its command line.
        let word = format!("silent-{}-{signal}", std::process::id());
        place.script("bin/ssh", &format!("exec sh -c 'while :; do sleep 60; done' {word}"));
        let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("a path"));
        place.depend("git = \"me@example.org:x\"", "HEAD", Some(&commit));
        let mut command = place.clk(&["fetch"]);
        command.env("PATH", path).env_remove("GIT_SSH").env_remove("GIT_SSH_COMMAND");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("clk starts");
        while process_with(&word).is_none() {
            std::thread::yield_now();
        }
        // SAFETY: sends a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), err.contains("E0599")), (Some(code), true), "{err}");
        while process_with(&word).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(place.checkouts(), Vec::<String>::new(), "nothing is left");
    }
}
