//! Compares the CUDA text of `tests/cuda/*.clk`, as emitted by `clk emit --stage cuda`, with the expected text (`.cu`).
//! `CLK_BLESS=1` rewrites the expectations.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut found: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "clk"));
    found.sort();
    found
}

fn emitted(path: &Path, options: &[&str]) -> String {
    let folder = path.parent().expect("a folder");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let words: Vec<&str> =
        ["emit", "--stage", "cuda"].into_iter().chain(options.iter().copied()).chain([name.as_str()]).collect();
    let ran = common::run(folder, &words);
    assert_eq!(ran.code, 0, "{}: {}", path.display(), ran.err);
    ran.out
}

#[test]
fn texts_are_as_they_were() {
    let programs = programs();
    assert!(programs.len() >= 4, "{} programs", programs.len());
    let mut changed = vec![];
    for path in programs {
        let text = emitted(&path, &[]);
        let golden = path.with_extension("cu");
        if std::env::var_os("CLK_BLESS").is_some() {
            fs::write(&golden, &text).expect("written");
        } else if fs::read_to_string(&golden).ok().as_deref() != Some(&text) {
            changed.push(golden.display().to_string());
        }
    }
    assert!(changed.is_empty(), "changed: {changed:?}; CLK_BLESS=1 rewrites them");
}

/// Returns the text of one kernel, with the comments before it.
fn kernel(text: &str, name: &str) -> String {
    let mut found = String::new();
    for line in text.lines() {
        found.push_str(line);
        found.push('\n');
        if line == "}" {
            if found.contains(&format!(" {name}(")) {
                return found;
            }
            found.clear();
        }
    }
    panic!("no kernel `{name}` in\n{text}");
}

#[test]
fn guards_stand_where_nothing_is_proved() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/guards.clk");
    let text = emitted(&path, &[]);
    let guards = |name: &str| kernel(&text, name).matches("report(faults").count();
    assert_eq!(guards("proved"), 0);
    assert_eq!(guards("gathered"), 1, "x[at[i]]");
    assert_eq!(guards("refined"), 0);
    assert_eq!(guards("growing"), 1, "the last one, behind the loop");
    assert_eq!(guards("divided"), 2, "the divisors d and N");
    assert_eq!(guards("tested"), 0);
}

/// Guards report behind loops that have no effects but on locals, and there alone.
#[test]
fn guards_of_loops_without_effects_do_not_end_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/late.clk");
    let text = emitted(&path, &[]);
    let count = |name: &str, what: &str| kernel(&text, name).matches(what).count();
    let early = [("promised", 0), ("scattered", 1), ("divided", 2), ("chased", 1), ("distant", 1)];
    for (name, guards) in early {
        assert_eq!((count(name, "report(faults, "), count(name, "const bool inside")), (guards, 0), "{name}");
    }
    for (name, guards) in [("row_sums", 3), ("picked", 1)] {
        assert_eq!((count(name, "report(faults, "), count(name, "const bool inside")), (guards, guards), "{name}");
    }
}

/// An access that the signature keeps in bounds is not guarded; one that is off by one, or rests on less, is.
#[test]
fn what_the_signature_keeps_in_bounds_is_not_guarded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/declared.clk");
    let text = emitted(&path, &[]);
    let source = fs::read_to_string(&path).expect("the program");
    let mut seen = 0;
    for line in source.lines().filter(|line| line.starts_with("kernel ")) {
        let name = line.trim_start_matches("kernel ").split(['(', '<']).next().unwrap_or_default();
        let guards = kernel(&text, name).matches("report(faults, ").count();
        assert_eq!(guards > 0, name.starts_with("off_"), "{name} has {guards} guards");
        seen += 1;
    }
    assert!(seen >= 16, "{seen} kernels");
}

#[test]
fn switches_change_the_text() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/index_space.clk");
    let saxpy = |options: &[&str]| kernel(&emitted(&path, options), "saxpy");
    assert!(saxpy(&[]).contains("a thread takes 4 indices"));
    let one = saxpy(&["--no-coarsen"]);
    assert!(!one.contains("#pragma unroll") && one.contains("if (i >= n)"), "{one}");
    assert!(saxpy(&["--lines"]).contains("#line 4 \"index_space.clk\""));
    let guards = path.with_file_name("guards.clk");
    assert!(!emitted(&guards, &["--unchecked"]).contains("report("));
}

/// Runs `clk emit` on a program, with the `CLK_NVRTC` and PATH of the test.
fn machine(words: &[&str], environment: &[(&str, &str)]) -> common::Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "kernel blur(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 128)) block(128) {\n\
        shared s: [f32; 128]\nlet i = global_idx.x\n\
        s[thread_idx.x] = if i < N { x[i] } else { 0.0 }\nbarrier()\n\
        if i < N { y[i] = 0.5 * (s[thread_idx.x] + s[127 - thread_idx.x]) }\n}\n\
        kernel open<F: fn(f32) -> f32>(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = F(x[i]) }\n";
    fs::write(folder.path().join("blur.clk"), text).expect("written");
    let words: Vec<&str> = ["emit"].into_iter().chain(words.iter().copied()).chain(["blur.clk"]).collect();
    common::finish(common::clk(folder.path()).args(&words).envs(environment.iter().copied()))
}

/// Whether NVRTC is installed; prints that the test is skipped if not.
fn has_nvrtc() -> bool {
    let found = clk_lang::device::cuda::nvrtc::Nvrtc::open(&clk_lang::app::libraries::nvrtc_places()).is_ok();
    if !found {
        eprintln!("skipped: no NVRTC on this machine");
    }
    found
}

#[test]
fn ptx_comes_with_what_the_kernel_needs() {
    if !has_nvrtc() {
        return;
    }
    let ran = machine(&["--stage", "ptx", "--arch", "sm_90"], &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("// blur for sm_90, blocks of up to 128 threads\n//   registers  "), "{}", ran.out);
    for part in [
        "spilled    none",
        "shared     512 bytes a block",
        "stack      0 bytes",
        ".visible .entry blur",
        ".target sm_90",
    ] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    assert!(!ran.out.contains("registers  0 "), "{}", ran.out);
    assert!(ran.out.contains("// kernel open: left out"), "{}", ran.out);
    assert!(!ran.out.contains("blur.clk") && machine(&["--stage", "ptx", "--lines"], &[]).out.contains("blur.clk"));
    let unknown = machine(&["--stage", "ptx", "--arch", "sm_42"], &[]);
    assert!(
        unknown.code == 1 && unknown.err.contains("knows no sm_42") && unknown.err.contains("sm_90"),
        "{}",
        unknown.err
    );
    assert_eq!(machine(&["--stage", "ptx", "--arch", "hopper"], &[]).code, 2);
}

#[cfg(unix)]
#[test]
fn instructions_need_a_tool_of_the_toolkit() {
    use std::os::unix::fs::PermissionsExt;
    if !has_nvrtc() {
        return;
    }
    let tools = tempfile::tempdir().expect("a folder");
    let path = tools.path().to_str().expect("a path");
    // NVRTC may be found through the PATH that is about to be replaced.
    let nvrtc = clk_lang::app::libraries::nvrtc_places();
    let nvrtc = clk_lang::device::cuda::nvrtc::Nvrtc::open(&nvrtc).expect("it was there");
    let nvrtc = nvrtc.place().parent().filter(|p| p.is_absolute()).map(|p| p.display().to_string());
    let Some(nvrtc) = nvrtc else {
        return eprintln!("skipped: NVRTC is in the system's search, where its tools may be too");
    };
    let environment =
        [("PATH", path), ("CUDA_HOME", path), ("CUDA_PATH", path), ("HOME", path), ("CLK_NVRTC", nvrtc.as_str())];
    let without = machine(&["--stage", "sass", "--kernel", "blur"], &environment);
    if clk_lang::app::libraries::tool(&["nvdisasm", "cuobjdump"]).is_none() {
        assert_eq!(without.code, 1);
        assert!(without.err.contains("nvdisasm") && without.err.contains("--stage ptx"), "{}", without.err);
        assert!(without.out.contains("registers  "), "the table is there all the same: {}", without.out);
    }
    let script = tools.path().join("nvdisasm");
    fs::write(&script, "#!/bin/sh\necho \"$1 of $(/usr/bin/head -c 4 \"$2\" | /usr/bin/tail -c 3)\"\n")
        .expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it may run");
    let with = machine(&["--stage", "sass", "--kernel", "blur"], &environment);
    assert_eq!(with.code, 0, "{}", with.err);
    assert!(with.out.contains("registers  ") && with.out.ends_with("-c of ELF\n"), "{}", with.out);
}

/// Returns how many wide accesses the text of a kernel of `pieces.clk` has: reads and writes.
fn wide(text: &str, name: &str) -> (usize, usize) {
    let kernel = kernel(text, name);
    (kernel.matches(" take<").count(), kernel.matches(" put<").count())
}

/// Pieces are read early and written late only where that cannot be noticed.
#[test]
fn adjacent_indices_have_wide_accesses() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/pieces.clk");
    let text = emitted(&path, &[]);
    let expected = [
        ("axpy", (2, 1)),
        ("gray", (1, 1)),
        ("moved", (0, 0)),
        ("blurred", (2, 1)),
        ("some", (1, 0)),
        ("divided", (2, 0)),
        ("chosen", (1, 1)),
    ];
    for (name, count) in expected {
        assert_eq!(wide(&text, name), count, "{name}");
    }
    let one = emitted(&path, &["--no-coarsen"]);
    assert!(!one.contains("take<") && !one.contains("put<"));
}

/// `clk emit` shows what a run with the same options launches: tensor cores whose bits were not compared only where they are named.
#[test]
fn texts_for_tensor_cores_are_those_of_a_run() {
    let text = "kernel product(a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]) grid(ceil_div(N, 32), ceil_div(M, 16)) block(64) {
    let (i, j) = (16 * block_idx.y, 32 * block_idx.x)
    shared acc: [f32; 16, 32]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, a[i..i + 16, k..k + 16], b[k..k + 16, j..j + 32]) }
    c[i..i + 16, j..j + 32] = acc
}
";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("product.clk");
    fs::write(&path, text).expect("written");
    let (boxes, sync, none) = ("tensor cores of sm_90a", "tensor cores of sm_80 and later", "");
    let cases: [(&str, &[&str], &str); 8] = [
        ("sm_90", &[], boxes),
        ("sm_90", &["--mma", "sm_80"], none),
        ("sm_80", &[], none),
        ("sm_80", &["--mma", "sm_80"], sync),
        ("sm_89", &["--mma", "sm_80"], sync),
        ("sm_120", &[], none),
        ("sm_120", &["--mma", "sm_90"], sync),
        ("sm_75", &[], none),
    ];
    for (architecture, options, wanted) in cases {
        let text = emitted(&path, &[options, &["--arch", architecture]].concat());
        let named = if wanted.is_empty() { "product(" } else { wanted };
        assert!(text.contains(named), "{architecture} {options:?}: {text}");
        assert_eq!(text.contains("tensor cores of"), !wanted.is_empty(), "{architecture} {options:?}: {text}");
    }
}
