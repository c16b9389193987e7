//! Tests malicious or unusual files and folders: links of another user in a shared folder, full disks, pipes and
//! devices in place of files, names with terminal escape sequences, and bytes that are not text.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clk_testing::{RunOutput, clk, finish, finish_with_input, run};

/// The id of another user.
const NOBODY: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    mode(folder.path(), 0o755);
    folder
}

/// Runs `clk` with these arguments; fails if it does not end within a minute.
fn soon(folder: &Path, words: &[&str]) -> RunOutput {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "60", env!("CARGO_BIN_EXE_clk")]).args(words).current_dir(folder).env("CLK_DEVICE", "sim");
    let ran = finish(command.stdin(std::process::Stdio::null()));
    assert_ne!(ran.code, 124, "{words:?} does not end");
    ran
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// A program that `clk fmt` changes.
const UNTIDY: &str = "let   x=1\nprint( x )\n";

#[test]
fn edited_entries_are_in_a_private_folder() {
    let folder = folder();
    let shared = folder.path().join("tmp");
    fs::create_dir(&shared).expect("made");
    let editor = folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\nstat -c '%a %n' \"$(dirname \"$1\")\" \"$1\" > seen\nsed -i s/41/42/ \"$1\"\n")
        .expect("written");
    mode(&editor, 0o755);
    let edit = || {
        let mut command = clk(folder.path());
        command.args(["repl", "--plain"]).env("TMPDIR", &shared).env("VISUAL", "").env("EDITOR", &editor);
        finish_with_input(&mut command, "let x = 41\n:edit\nx\n")
    };
    mode(&shared, 0o1777);
    let ran = edit();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("42\n", ""));
    let listing = fs::read_to_string(folder.path().join("seen")).expect("the editor ran");
    let modes: Vec<&str> = listing.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(modes, ["700", "600"], "{listing}");
    let first = listing.lines().next().expect("a folder").to_string();
    edit();
    let second_listing = fs::read_to_string(folder.path().join("seen")).expect("the editor ran");
    assert_ne!(second_listing.lines().next(), Some(first.as_str()), "the name is unpredictable");
    assert_eq!(fs::read_dir(&shared).expect("listed").count(), 0, "nothing is left");
    // If other users could replace the folder, the session writes nothing to it.
    mode(&shared, 0o777);
    let ran = edit();
    assert!(ran.err.contains("sticky") && ran.out == "41\n", "{}{}", ran.out, ran.err);
}

#[test]
fn links_of_other_users_are_not_followed() {
    let folder = folder();
    let (shared, victim) = (folder.path().join("shared"), folder.path().join("victim.npy"));
    fs::create_dir(&shared).expect("made");
    fs::write(&victim, "private").expect("written");
    mode(&shared, 0o1777);
    let planted =
        Command::new("ln").arg("-s").arg(&victim).arg(shared.join("out.npy")).uid(NOBODY).gid(NOBODY).status();
    if !planted.is_ok_and(|status| status.success()) {
        println!("skipped: no right to act as another user");
        return;
    }
    let ran = run(&shared, &["-e", "save(\"out.npy\", [1.0])"]);
    assert!(ran.code == 1 && ran.err.contains("E0702") && ran.err.contains("another user"), "{}", ran.err);
    assert_eq!(fs::read(&victim).expect("there"), b"private");
    // Saving through a symbolic link that belongs to the user writes to the link's target.
    symlink(&victim, shared.join("mine.npy")).expect("a link");
    assert_eq!(run(&shared, &["-e", "save(\"mine.npy\", [1.0])"]).code, 0);
    assert!(shared.join("mine.npy").is_symlink() && fs::read(&victim).expect("there").starts_with(b"\x93NUMPY"));
}

#[test]
fn read_only_files_stay_as_they_are() {
    let folder = folder();
    let path = folder.path().join("a.clk");
    fs::write(&path, UNTIDY).expect("written");
    fs::write(folder.path().join("b.npy"), "old").expect("written");
    mode(&path, 0o444);
    mode(&folder.path().join("b.npy"), 0o400);
    let ran = run(folder.path(), &["fmt", "a.clk"]);
    assert!(ran.code == 1 && ran.err.contains("E0702") && ran.err.contains("read-only"), "{}", ran.err);
    assert_eq!(ran.out, "0 files changed out of 1\n");
    assert_eq!(fs::read_to_string(&path).expect("there"), UNTIDY);
    let ran = run(folder.path(), &["-e", "save(\"b.npy\", [1.0])"]);
    assert!(ran.err.contains("E0702") && ran.err.contains("read-only"), "{}", ran.err);
    // `clk fmt` keeps the permissions of a writable file.
    for own in [0o600, 0o640, 0o755] {
        fs::remove_file(&path).expect("removed");
        fs::write(&path, UNTIDY).expect("written");
        mode(&path, own);
        assert_eq!(run(folder.path(), &["fmt", "a.clk"]).out, "1 file changed out of 1\n");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, own);
    }
}

#[test]
fn a_full_disk_keeps_only_the_old_file() {
    let folder = folder();
    fs::write(folder.path().join("a.clk"), UNTIDY).expect("written");
    fs::create_dir(folder.path().join("disk")).expect("made");
    let script = "mount -t tmpfs -o size=16k none disk || exit 99\ncp a.clk disk\ncat /dev/zero > disk/fill 2> /dev/null\n\
                  \"$CLK\" fmt disk/a.clk\necho \"code $?\"\nls -A disk\ncat disk/a.clk\n";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).current_dir(folder.path()).env("CLK", env!("CARGO_BIN_EXE_clk"));
    let ran = match command.output() {
        Ok(output) if output.stdout.is_empty() => {
            println!("skipped: no right to mount: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        Ok(output) => output,
        Err(error) => {
            println!("skipped: no `unshare`: {error}");
            return;
        }
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(out, format!("0 files changed out of 1\ncode 1\na.clk\nfill\n{UNTIDY}"), "{err}");
    assert!(err.contains("E0702"), "{err}");
}

#[test]
fn only_regular_files_are_read() {
    let folder = folder();
    let root = folder.path();
    ["p.clk", "p.npy", "p.csv", "p.npz"].iter().for_each(|name| pipe(&root.join(name)));
    fs::write(root.join("import.clk"), "import \"./p.clk\" as p\n").expect("written");
    fs::write(root.join("k.clk"), "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\n")
        .expect("written");
    let words: &[&[&str]] = &[
        &["run", "p.clk"],
        &["check", "p.clk"],
        &["fmt", "p.clk"],
        &["test", "p.clk"],
        &["launch", "p.clk", "k"],
        &["run", "import.clk"],
        &["check", "import.clk"],
        &["-e", "load(\"p.npy\")"],
        &["-e", "load(\"p.csv\")"],
        &["launch", "k.clk", "k", "--npz", "p.npz", "out.npz"],
    ];
    for words in words {
        let ran = soon(root, words);
        let said = ran.err.clone() + &ran.out;
        assert!(ran.code == 1 && said.contains("a pipe, and only"), "{words:?}: {said}");
    }
    for device in ["/dev/zero", "/dev/null"] {
        assert!(soon(root, &["run", device]).err.contains("a device"), "{device}");
        symlink(device, root.join("d.npy")).expect("a link");
        assert!(soon(root, &["-e", "load(\"d.npy\")"]).err.contains("a device"), "{device}");
        fs::remove_file(root.join("d.npy")).expect("removed");
    }
    // The file name `-` reads a program from a pipe, as the error about pipes suggests.
    let piped = |words: &[&str]| finish_with_input(clk(root).args(words), "print(40 + 2)\n");
    assert_eq!(piped(&["run", "-"]).out, "42\n");
    let ran = piped(&["run", "/dev/stdin"]);
    assert!(ran.code == 1 && ran.err.contains("`clk run -`"), "{}", ran.err);
}

/// Returns a .safetensors file with one tensor of this name.
fn safetensors(name: &str) -> Vec<u8> {
    let header = format!(r#"{{{}:{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#, serde_json::Value::from(name));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), b"\x01"].concat()
}

/// Returns a .npy file with an array of structs that have a field of this name.
fn npy(field: &str) -> Vec<u8> {
    let header = format!("{{'descr': [('{field}', '|u1')], 'fortran_order': False, 'shape': (1,), }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), b"\x01"].concat()
}

#[test]
fn control_characters_in_names_are_escaped() {
    let folder = folder();
    let root = folder.path();
    let evil = "a\u{1b}[2J\u{7}\u{9b}31m\u{202e}b";
    fs::write(root.join("t.safetensors"), safetensors(evil)).expect("written");
    fs::write(root.join("t.csv"), format!("{evil},y\n1,2\n")).expect("written");
    fs::write(root.join("bad.csv"), format!("{evil},{evil}\n1,2\n")).expect("written");
    fs::write(root.join("t.npy"), npy(evil)).expect("written");
    let program = format!("{evil}.clk");
    fs::write(root.join(&program), UNTIDY.to_string() + "let y = nosuch\n").expect("written");
    fs::create_dir(root.join(evil)).expect("made");
    fs::write(root.join(evil).join(evil), "mine").expect("written");
    fs::write(root.join("k.clk"), "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\n")
        .expect("written");
    let title = "\"\\u{1b}[2J\\u{9b}x\"";
    fs::write(root.join("titles.clk"), format!("test {title} {{ assert(true) }}\nbench {title} {{ 1 + 1 }}\n"))
        .expect("written");
    let missing = format!("load(\"{evil}.npy\")");
    let loads = ["t.safetensors", "t.csv", "t.npy"].map(|name| format!("print(load(\"{name}\"))"));
    let words: &[&[&str]] = &[
        &["-e", &loads[0]],
        &["-e", &loads[1]],
        &["-e", &loads[2]],
        &["-e", "load(\"bad.csv\")"],
        &["-e", "load(\"t.csv\").nosuch"],
        &["-e", &missing],
        &["check", &program],
        &["--json", "check", &program],
        &["run", &program],
        &["fmt", "--check", &program],
        &["test", evil],
        &["test", "titles.clk"],
        &["--json", "test", "titles.clk"],
        &["--format", "sarif", "check", &program],
        &["--format", "github", "check", &program],
        &["--format", "junit", "test", "titles.clk", &program],
        &["bench", "titles.clk"],
        &["launch", "k.clk", "k", "--npz", "t.safetensors", "out.npz"],
        &["launch", &program],
        &["cache", "ls"],
        &["doctor"],
    ];
    for words in words {
        let ran = finish(clk(root).env("CLK_CACHE_DIR", root.join(evil)).args(*words));
        for text in [&ran.out, &ran.err] {
            let wrong = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
            assert!(!text.contains(wrong), "{words:?}: {text:?}");
        }
    }
    let ran = run(root, &["-e", &loads[1]]);
    assert!(ran.out.contains(r"a\u{1b}[2J\u{7}\u{9b}31m\u{"), "{}{}", ran.out, ran.err);
    let json = run(root, &["--json", "check", &program]);
    assert_eq!(
        clk_testing::diagnostics(&json)[0]["labels"][0]["file"],
        program,
        "what machines read keeps its meaning"
    );
    // A session does not print control characters from files, either.
    let entries = "let t = load(\"t.npy\")\n:vars\n:info t\nlet s = load(\"t.csv\")\ns\n";
    let ran = finish_with_input(clk(root).args(["repl", "--plain"]), entries);
    assert!(!(ran.out.clone() + &ran.err).contains(['\u{1b}', '\u{7}', '\u{9b}']), "{:?}{:?}", ran.out, ran.err);
}

#[test]
fn compressed_files_are_measured_before_decompression() {
    let folder = folder();
    let root = folder.path();
    fs::write(root.join("k.clk"), "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\n")
        .expect("written");
    let make = "import zipfile, struct\n\
                h = b\"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }\\n\"\n\
                d = b'\\x93NUMPY\\x01\\x00' + struct.pack('<H', len(h)) + h + bytes(4000000)\n\
                zipfile.ZipFile('in.npz', 'w', zipfile.ZIP_DEFLATED).writestr('x.npy', d)\n";
    if !Command::new("python3").args(["-c", make]).current_dir(root).status().is_ok_and(|status| status.success()) {
        println!("skipped: no python3");
        return;
    }
    assert!(fs::metadata(root.join("in.npz")).expect("made").len() < 100_000, "it is packed");
    let ran = run(root, &["launch", "k.clk", "k", "--npz", "in.npz", "out.npz", "--max-bytes", "1M"]);
    assert!(ran.code == 1 && ran.err.contains("E0806") && ran.err.contains("--max-bytes"), "{}", ran.err);
    assert!(!root.join("out.npz").exists());
    let ran = run(root, &["launch", "k.clk", "k", "--npz", "in.npz", "out.npz", "--max-bytes", "20M"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn invalid_utf_8_fails_only_its_entry() {
    use std::io::Write;
    let folder = folder();
    let mut command = clk(folder.path());
    command.args(["repl", "--plain"]).stdin(std::process::Stdio::piped());
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("starts");
    let entries = b"let a = 1\nprint(\"\xff\")\na\nfn f() -> i32 {\n  \xfe\n7\n";
    child.stdin.take().expect("a pipe").write_all(entries).expect("written");
    let output = child.wait_with_output().expect("ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), out.as_ref()), (Some(0), "1\n7\n"), "{err}");
    assert!(err.contains("line 2") && err.contains("line 5") && err.contains("UTF-8"), "{err}");
}

#[cfg(target_os = "linux")]
mod terminal {
    use super::*;
    use std::io::Write;

    fn history(folder: &Path) -> std::path::PathBuf {
        let state = folder.join(".local/state/clk");
        fs::create_dir_all(&state).expect("made");
        state.join("history")
    }

    fn entries(path: &Path) -> Vec<String> {
        let bytes = fs::read(path).expect("a history");
        bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn invalid_utf_8_ends_neither_session_nor_history() {
        let folder = folder();
        let path = history(folder.path());
        fs::write(&path, b"#V2\nfirst\n\xff\xfe\n").expect("written");
        let mut session = clk_testing::pty::Session::start(folder.path());
        session.wait_for("clk 1> ");
        session.terminal.write_all(b"print(\"half\") \xff\xff print(\"other half\")\r").expect("typed");
        session.wait_for("the entry was dropped");
        session.terminal.write_all(b"40 + 2\r").expect("typed");
        session.wait_for("clk 2> ");
        assert!(entries(&path).contains(&"40 + 2".to_string()), "{:?}", entries(&path));
        assert!(entries(&path).contains(&"first".to_string()));
        assert!(!entries(&path).iter().any(|entry| entry.contains("half")), "half of an entry did not run");
    }

    #[test]
    fn a_kill_loses_no_history_entry() {
        let folder = folder();
        let path = history(folder.path());
        let old: String = (0..15_000).map(|number| format!("old {number}\n")).collect();
        fs::write(&path, format!("#V2\n{old}")).expect("written");
        let mut session = clk_testing::pty::Session::start(folder.path());
        session.wait_for("clk 1> ");
        for entry in 1..=30 {
            let before = fs::metadata(&path).expect("there").ino();
            session.terminal.write_all(format!("{entry} * 1000\r").as_bytes()).expect("typed");
            session.wait_for(&format!("clk {}> ", entry + 1));
            assert_eq!(fs::metadata(&path).expect("there").ino(), before, "it is not written anew");
        }
        // Dropping a session kills it with SIGKILL.
        drop(session);
        let history = entries(&path);
        assert!(
            (1..=30).all(|entry| history.contains(&format!("{entry} * 1000"))),
            "{:?}",
            &history[history.len() - 32..]
        );
        assert_eq!(history.len(), 1 + 15_000 + 30 + 1);
    }
}
