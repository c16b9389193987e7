//! Tests projects and the tools around programs: `clk new`, `clk.toml`, `clk fetch`, `clk watch`, `clk help`, `clk
//! completions`, `clk man` and the startup file of sessions. Git repositories are made in temporary folders; nothing is
//! downloaded.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use clk_testing::{RunOutput, clk, diagnostics, finish, run};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Writes a file, creating its folders.
fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, text).expect("written");
}

fn codes(ran: &RunOutput) -> Vec<String> {
    diagnostics(ran).iter().filter_map(|d| Some(d["code"].as_str()?.to_owned())).collect()
}

#[test]
fn new_projects_run_unchanged() {
    let folder = folder();
    let created = run(folder.path(), &["new", "waves"]);
    assert_eq!(created.code, 0, "{}", created.err);
    let home = folder.path().join("waves");
    let ran = run(&home, &["run", "main.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[1.  1.5 2.  2.5 3. ]\n"), "{}", ran.err);
    let ran = run(&home, &["test"]);
    assert!(ran.code == 0 && ran.out.contains("2 passed, 0 failed"), "{}{}", ran.out, ran.err);
    let ran = run(&home, &["check", "."]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{}", ran.err);
    let ran = run(&home, &["fmt", "--check"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = run(&home, &["bench", "bench.clk"]);
    assert!(ran.code == 0 && ran.out.contains("axpy, 2^20"), "{}{}", ran.out, ran.err);
    // The project also runs from outside and from a subfolder.
    assert_eq!(run(folder.path(), &["run", "waves/main.clk"]).code, 0);
    write(&home, "deep/er/x.clk", "import waves\nprint(waves.axpy(1.0, [1.0], [2.0]))\n");
    assert_eq!(run(&home.join("deep"), &["run", "er/x.clk"]).out, "[3.]\n");
}

#[test]
fn a_project_is_not_made_over_another_or_with_a_name_that_cannot_be_imported() {
    let folder = folder();
    assert_eq!(run(folder.path(), &["new", "waves"]).code, 0);
    let second = run(folder.path(), &["new", "waves", "--json"]);
    assert_eq!((second.code, codes(&second)), (1, vec!["E0732".into()]));
    let bad_name = run(folder.path(), &["new", "my-waves"]);
    assert!(bad_name.code == 1 && bad_name.err.contains("clk new my_waves"), "{}", bad_name.err);
    assert!(!folder.path().join("my-waves").exists());
    for name in ["kernel", "std", "3d"] {
        assert_eq!(run(folder.path(), &["new", name]).code, 1, "{name}");
    }
}

#[test]
fn a_dependency_by_path_is_imported_by_name() {
    let folder = folder();
    write(folder.path(), "shapes/clk.toml", "name = \"shapes\"\n");
    write(folder.path(), "shapes/shapes.clk", "import shapes.round\nfn twice(x: f32) -> f32 { round.area(x) }\n");
    write(folder.path(), "shapes/round.clk", "fn area(r: f32) -> f32 { 2.0 * r }\n");
    write(folder.path(), "app/clk.toml", "name = \"app\"\n[dependencies]\nforms = { path = \"../shapes\" }\n");
    write(
        folder.path(),
        "app/app.clk",
        "import forms\nimport forms.round.{area}\nprint(forms.twice(2.0), area(1.0))\n",
    );
    let ran = run(&folder.path().join("app"), &["run", "app.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "4.0 2.0\n"), "{}", ran.err);
    // A failed import is reported with the code and the help for its cause.
    for (text, code, words) in [
        ("import form\n", "E0294", "did you mean `forms`"),
        ("import forms.square\n", "E0294", "has no module `forms.square`"),
        ("import numpy\n", "E0293", "array functions are built in"),
    ] {
        write(folder.path(), "app/wrong.clk", text);
        let ran = run(&folder.path().join("app"), &["check", "wrong.clk"]);
        assert!(ran.err.contains(code) && ran.err.contains(words), "{text}: {}", ran.err);
    }
    write(folder.path(), "app/clk.toml", "name = \"app\"\n[dependencies]\nforms = { path = \"../gone\" }\n");
    let ran = run(&folder.path().join("app"), &["check", "app.clk"]);
    assert!(ran.err.contains("E0294") && ran.err.contains("gone"), "{}", ran.err);
    write(folder.path(), "app/clk.toml", "nam = \"app\"\n");
    let ran = run(&folder.path().join("app"), &["check", "app.clk"]);
    assert!(ran.err.contains("E0730") && ran.err.contains("clk.toml:1:1"), "{}", ran.err);
}

/// Runs `git` in a folder, without the user's settings.
fn git(folder: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.current_dir(folder).args(identity).args(words).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().expect("git is installed");
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

fn commit(folder: &Path, tag: &str) -> String {
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", tag]);
    git(folder, &["tag", tag]);
    git(folder, &["rev-parse", "HEAD"])
}

/// Runs `clk` with a cache in a folder next to the project.
fn cached(folder: &Path, words: &[&str]) -> RunOutput {
    let cache = folder.parent().expect("a folder").join("cache");
    finish(clk(folder).args(words).env("CLK_CACHE_DIR", cache))
}

#[test]
fn a_dependency_by_git_is_fetched_once_and_pinned() {
    let folder = folder();
    let noise = folder.path().join("noise");
    write(&noise, "clk.toml", "name = \"noise\"\n");
    write(&noise, "noise.clk", "const LEVEL: i32 = 1\n");
    git(&noise, &["init", "--quiet"]);
    let first = commit(&noise, "v1");
    let app = folder.path().join("app");
    write(&app, "clk.toml", "name = \"app\"\n[dependencies]\nnoise = { git = \"../noise\", branch = \"main\" }\n");
    write(&app, "app.clk", "import noise\nprint(noise.LEVEL)\n");
    let before = cached(&app, &["run", "app.clk"]);
    assert!(before.code == 1 && before.err.contains("E0294") && before.err.contains("clk fetch"), "{}", before.err);
    let fetched = cached(&app, &["fetch"]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert!(fs::read_to_string(app.join("clk.lock")).expect("a lock").contains(&first));
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "1\n");
    // `clk fetch` uses a newer commit only with `--update`.
    write(&noise, "noise.clk", "const LEVEL: i32 = 2\n");
    let second = commit(&noise, "v2");
    assert_eq!(cached(&app, &["fetch"]).code, 0);
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "1\n");
    let updated = cached(&app, &["fetch", "--update"]);
    assert!(updated.out.contains(&second[..12]), "{}{}", updated.out, updated.err);
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "2\n");
    // `clk.toml` now requests a tag, whose commit is not the pinned one.
    write(&app, "clk.toml", "name = \"app\"\n[dependencies]\nnoise = { git = \"../noise\", tag = \"v1\" }\n");
    let stale = cached(&app, &["check", "app.clk"]);
    assert!(stale.err.contains("E0294") && stale.err.contains("not pinned"), "{}", stale.err);
    assert_eq!(cached(&app, &["fetch"]).code, 0);
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "1\n");
    // A new cache also gets the pinned commit, even if the tag has moved to another commit.
    git(&noise, &["tag", "--force", "v1", &second]);
    fs::remove_dir_all(folder.path().join("cache")).expect("removed");
    assert_eq!(cached(&app, &["fetch"]).code, 0);
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "1\n");
}

#[test]
fn failed_fetches_are_reported() {
    let folder = folder();
    let app = folder.path().join("app");
    for (source, words) in [
        ("{ git = \"../nowhere\" }", "does not exist"),
        ("{ git = \"../noise\", tag = \"v9\" }", "the repository has no tag v9"),
    ] {
        let noise = folder.path().join("noise");
        if !noise.exists() {
            write(&noise, "clk.toml", "name = \"noise\"\n");
            git(&noise, &["init", "--quiet"]);
            commit(&noise, "v1");
        }
        write(&app, "clk.toml", &format!("name = \"app\"\n[dependencies]\nnoise = {source}\n"));
        let ran = cached(&app, &["fetch"]);
        assert!(ran.code == 1 && ran.err.contains("E0731") && ran.err.contains(words), "{}", ran.err);
        assert!(!app.join("clk.lock").exists());
    }
    let ran = cached(folder.path(), &["fetch"]);
    assert!(ran.code == 1 && ran.err.contains("E0730") && ran.err.contains("clk new"), "{}", ran.err);
}

#[test]
fn dependencies_of_dependencies_are_pinned_by_their_own_lock() {
    let folder = folder();
    let base = folder.path().join("base");
    write(&base, "clk.toml", "name = \"base\"\n");
    write(&base, "base.clk", "const ONE: i32 = 1\n");
    git(&base, &["init", "--quiet"]);
    commit(&base, "v1");
    let middle = folder.path().join("middle");
    let url = base.display();
    write(&middle, "clk.toml", &format!("name = \"middle\"\n[dependencies]\nbase = {{ git = \"file://{url}\" }}\n"));
    write(&middle, "middle.clk", "import base\nconst TWO: i32 = base.ONE + 1\n");
    git(&middle, &["init", "--quiet"]);
    commit(&middle, "without-lock");
    let app = folder.path().join("app");
    write(&app, "clk.toml", "name = \"app\"\n[dependencies]\nmiddle = { git = \"../middle\" }\n");
    write(&app, "app.clk", "import middle\nprint(middle.TWO)\n");
    let ran = cached(&app, &["fetch"]);
    assert!(ran.code == 1 && ran.err.contains("`middle` does not pin its dependency `base`"), "{}", ran.err);
    assert_eq!(cached(&middle, &["fetch"]).code, 0);
    commit(&middle, "with-lock");
    let ran = cached(&app, &["fetch", "--update"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(cached(&app, &["run", "app.clk"]).out, "2\n");
}

/// Reads lines until one contains the words; returns all of them.
fn read_until(lines: &mut impl Iterator<Item = std::io::Result<String>>, words: &str) -> String {
    let mut output = String::new();
    for line in lines {
        let line = line.expect("UTF-8");
        output += &format!("{line}\n");
        if line.contains(words) {
            return output;
        }
    }
    panic!("`{words}` does not come:\n{output}")
}

#[cfg(unix)]
#[test]
fn a_watch_runs_again_at_each_change_and_ends_with_ctrl_c() {
    let folder = folder();
    write(folder.path(), "part.clk", "const SIZE: i32 = 10\n");
    write(folder.path(), "main.clk", "import \"./part.clk\" as part\nprint(\"size {part.SIZE} of {args[0]}\")\n");
    let mut command = clk(folder.path());
    command.args(["watch", "--seed", "3", "main.clk", "here"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("clk starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first_run = read_until(&mut lines, "watching 2 files");
    assert!(first_run.contains("size 10 of here"), "{first_run}");
    // Changes the imported file, then writes a program with a mistake, then one with an endless loop, which the next
    // change ends.
    write(folder.path(), "part.clk", "const SIZE: i32 = 1000\n");
    assert!(read_until(&mut lines, "watching").contains("size 1000 of here"));
    write(folder.path(), "main.clk", "print(nothing)\n");
    read_until(&mut lines, "watching 1 file;");
    write(folder.path(), "main.clk", "var n = 0\nwhile n >= 0 { n = 1 }\n");
    read_until(&mut lines, "clk run main.clk");
    write(folder.path(), "main.clk", "print(\"done\")\ntest \"a test\" { assert(1 + 1 == 2) }\n");
    let second_run = read_until(&mut lines, "watching 1 file;");
    assert!(second_run.contains("done") && second_run.contains("1 passed, 0 failed"), "{second_run}");
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("clk ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("E0201"), "the mistake was reported");
}

#[test]
fn watching_no_files_is_refused() {
    let folder = folder();
    let ran = run(folder.path(), &["watch", "--json", "none.clk"]);
    assert_eq!((ran.code, codes(&ran)), (1, vec!["E0701".into()]));
}

#[test]
fn help_has_commands_pages_sections_names_and_codes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (topic, words) in [
        (&["run"][..], "--debug-on-fault"),
        (&["proofs"], "certificate"),
        (&["projects"], "clk.lock"),
        (&["kernels"], "Form 1"),
        (&["inside", "kernels"], "barrier"),
        (&["sqrt"], "sqrt<T"),
        (&["e0601"], "out of bounds"),
        (&["blocks"], "shared"),
        (&[], "Pages of the manual"),
    ] {
        let ran = run(root, &[&["help"], topic].concat());
        assert!(ran.code == 0 && ran.out.contains(words), "{topic:?}: {}{}", ran.out, ran.err);
    }
    let ran = run(root, &["help", "zzzz"]);
    assert!(ran.code == 1 && ran.err.contains("`clk help` lists all topics"), "{}", ran.err);
    // Every listed topic has a help text.
    let list = run(root, &["help"]).out;
    let pages = list.split("Pages of the manual\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("pages");
    let sections = list.split("The language\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("sections");
    let topics = pages.lines().filter_map(|line| line.split_whitespace().next()).chain(sections.lines().map(str::trim));
    let topics: Vec<&str> = topics.collect();
    assert!(topics.len() >= 15, "{topics:?}");
    for topic in topics {
        assert_eq!(run(root, &["help", topic]).code, 0, "{topic}");
    }
}

#[test]
fn completions_and_manual_pages_know_all_commands() {
    let folder = folder();
    let help = run(folder.path(), &["-h"]).out;
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let commands: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() >= 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(folder.path(), &["completions", shell]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let missing: Vec<&&str> = commands.iter().filter(|name| !ran.out.contains(**name)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
    fs::write(folder.path().join("clk.bash"), run(folder.path(), &["completions", "bash"]).out).expect("written");
    let script = "source ./clk.bash; COMP_WORDS=(clk pro); COMP_CWORD=1; _clk clk pro clk; echo ${COMPREPLY[@]}";
    let bash = Command::new("bash").current_dir(folder.path()).args(["-c", script]).output();
    match bash {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "prove profile"),
        Err(error) => println!("skipped: no bash ({error})"),
    }
    let ran = run(folder.path(), &["man", "pages/man1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for name in &commands {
        let page = fs::read_to_string(folder.path().join(format!("pages/man1/clk-{name}.1"))).expect("a page");
        assert!(page.contains(&format!("clk\\-{name}")) && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert!(folder.path().join("pages/man1/clk.1").is_file());
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_begins_with_the_startup_file() {
    use clk_testing::pty::Session;
    let folder = folder();
    write(folder.path(), ".config/clk/startup.clk", "import std.math\nfn triple(x: i32) -> i32 { 3 * x }\n");
    let start = |words: &[&str]| {
        let mut command = clk(folder.path());
        command.args(words).env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        Session::of(command, true)
    };
    let send = |session: &mut Session, text: &str| session.terminal.write_all(text.as_bytes()).expect("typed");
    // Returns the output up to the next prompt, where Ctrl-D ends the session.
    let shown = |session: &mut Session, prompt: &str| {
        let start = std::time::Instant::now();
        while !session.output.contains(prompt) {
            assert!(start.elapsed().as_secs() < 60, "{prompt:?} is not in {:?}", session.output);
            if session.waits(std::time::Duration::from_millis(100)) {
                session.read();
            }
        }
        std::mem::take(&mut session.output)
    };
    let mut session = start(&[]);
    shown(&mut session, "clk 1> ");
    send(&mut session, "triple(math.gcd(14, 28))\r");
    assert!(shown(&mut session, "clk 2> ").contains("42"));
    send(&mut session, "\u{4}");
    session.rest();
    let mut session = start(&["--no-startup"]);
    shown(&mut session, "clk 1> ");
    send(&mut session, "triple(2)\r");
    assert!(shown(&mut session, "clk 2> ").contains("E0201"));
    send(&mut session, "\u{4}");
    session.rest();
    // A mistake in the startup file is reported, and the session starts nevertheless.
    write(folder.path(), ".config/clk/startup.clk", "let x = nothing\n");
    let mut session = start(&[]);
    assert!(shown(&mut session, "clk 1> ").contains("--no-startup"));
    send(&mut session, "\u{4}");
    session.rest();
}
