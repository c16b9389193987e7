//! Compares the CUDA text of `tests/cuda/*.clk`, as emitted by `clk emit --stage cuda`, with the expected text (`.cu`).
//! `CLK_BLESS=1` rewrites the expectations.

use std::fs;
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "clk"));
    paths.sort();
    paths
}

fn emitted(path: &Path, options: &[&str]) -> String {
    let folder = path.parent().expect("a folder");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let words: Vec<&str> =
        ["emit", "--stage", "cuda"].into_iter().chain(options.iter().copied()).chain([name.as_str()]).collect();
    let ran = clk_testing::run(folder, &words);
    assert_eq!(ran.code, 0, "{}: {}", path.display(), ran.err);
    ran.out
}

#[test]
fn generated_texts_match_the_golden_files() {
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

/// Returns the CUDA text of one kernel, with the comments before it.
fn kernel(text: &str, name: &str) -> String {
    let mut kernel_text = String::new();
    for line in text.lines() {
        kernel_text.push_str(line);
        kernel_text.push('\n');
        if line == "}" {
            if kernel_text.contains(&format!(" {name}(")) {
                return kernel_text;
            }
            kernel_text.clear();
        }
    }
    panic!("no kernel `{name}` in\n{text}");
}

#[test]
fn unproved_accesses_have_guards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/guards.clk");
    let text = emitted(&path, &[]);
    let guards = |name: &str| kernel(&text, name).matches("report(faults").count();
    assert_eq!(guards("proved"), 0);
    assert_eq!(guards("gathered"), 1, "x[at[i]]");
    assert_eq!(guards("refined"), 0);
    assert_eq!(guards("growing"), 1, "the last one, after the loop");
    assert_eq!(guards("divided"), 2, "the divisors d and N");
    assert_eq!(guards("tested"), 0);
}

/// A failed bounds check (guard) in a loop is reported after the loop if the loop changes only locals. Otherwise it is
/// reported at once.
#[test]
fn guards_of_loops_without_effects_do_not_end_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/late.clk");
    let text = emitted(&path, &[]);
    let count = |name: &str, word: &str| kernel(&text, name).matches(word).count();
    let early = [("promised", 0), ("scattered", 1), ("divided", 2), ("chased", 1), ("distant", 1)];
    for (name, guards) in early {
        assert_eq!((count(name, "report(faults, "), count(name, "const bool inside")), (guards, 0), "{name}");
    }
    for (name, guards) in [("row_sums", 3), ("picked", 1)] {
        assert_eq!((count(name, "report(faults, "), count(name, "const bool inside")), (guards, guards), "{name}");
    }
}

/// An access that the signature proves to be in bounds has no bounds check (guard). An access that is off by one, or
/// whose kernel states fewer `assume` clauses, has a guard.
#[test]
fn accesses_bounded_by_the_signature_have_no_guards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/declared.clk");
    let text = emitted(&path, &[]);
    let source = fs::read_to_string(&path).expect("the program");
    let mut kernel_count = 0;
    for line in source.lines().filter(|line| line.starts_with("kernel ")) {
        let name = line.trim_start_matches("kernel ").split(['(', '<']).next().unwrap_or_default();
        let guards = kernel(&text, name).matches("report(faults, ").count();
        assert_eq!(guards > 0, name.starts_with("off_"), "{name} has {guards} guards");
        kernel_count += 1;
    }
    assert!(kernel_count >= 16, "{kernel_count} kernels");
}

#[test]
fn options_change_the_text() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/index_space.clk");
    let saxpy = |options: &[&str]| kernel(&emitted(&path, options), "saxpy");
    assert!(saxpy(&[]).contains("a thread takes 4 indices"));
    let one = saxpy(&["--no-coarsen"]);
    assert!(!one.contains("#pragma unroll") && one.contains("if (i >= n)"), "{one}");
    assert!(saxpy(&["--lines"]).contains("#line 4 \"index_space.clk\""));
    let guards = path.with_file_name("guards.clk");
    assert!(!emitted(&guards, &["--unchecked"]).contains("report("));
}

/// Runs `clk emit` with these arguments and environment variables on a fixed program.
fn machine(words: &[&str], environment: &[(&str, &str)]) -> clk_testing::RunOutput {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "kernel blur(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 128)) block(128) {\n\
        shared s: [f32; 128]\nlet i = global_idx.x\n\
        s[thread_idx.x] = if i < N { x[i] } else { 0.0 }\nbarrier()\n\
        if i < N { y[i] = 0.5 * (s[thread_idx.x] + s[127 - thread_idx.x]) }\n}\n\
        kernel open<F: fn(f32) -> f32>(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = F(x[i]) }\n";
    fs::write(folder.path().join("blur.clk"), text).expect("written");
    let words: Vec<&str> = ["emit"].into_iter().chain(words.iter().copied()).chain(["blur.clk"]).collect();
    clk_testing::finish(clk_testing::clk(folder.path()).args(&words).envs(environment.iter().copied()))
}

/// Returns whether NVRTC is installed; if not, prints that the test is skipped.
fn has_nvrtc() -> bool {
    let has_nvrtc = clk_cuda::nvrtc::Nvrtc::open(&clk_lang::libraries::nvrtc_places()).is_ok();
    if !has_nvrtc {
        eprintln!("skipped: no NVRTC on this machine");
    }
    has_nvrtc
}

#[test]
fn ptx_contains_required_functions() {
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
fn machine_instructions_need_a_toolkit_program() {
    use std::os::unix::fs::PermissionsExt;
    if !has_nvrtc() {
        return;
    }
    let tools = tempfile::tempdir().expect("a folder");
    let path = tools.path().to_str().expect("a path");
    // Finds NVRTC before the test replaces PATH, since finding it may depend on PATH.
    let nvrtc = clk_lang::libraries::nvrtc_places();
    let nvrtc = clk_cuda::nvrtc::Nvrtc::open(&nvrtc).expect("it was there");
    let nvrtc = nvrtc.place().parent().filter(|p| p.is_absolute()).map(|p| p.display().to_string());
    let Some(nvrtc) = nvrtc else {
        return eprintln!("skipped: NVRTC is in the system's search, where its tools may be too");
    };
    let environment =
        [("PATH", path), ("CUDA_HOME", path), ("CUDA_PATH", path), ("HOME", path), ("CLK_NVRTC", nvrtc.as_str())];
    let without = machine(&["--stage", "sass", "--kernel", "blur"], &environment);
    if clk_lang::libraries::tool(&["nvdisasm", "cuobjdump"]).is_none() {
        assert_eq!(without.code, 1);
        assert!(without.err.contains("nvdisasm") && without.err.contains("--stage ptx"), "{}", without.err);
        assert!(without.out.contains("registers  "), "the table is printed nevertheless: {}", without.out);
    }
    let script = tools.path().join("nvdisasm");
    fs::write(&script, "#!/bin/sh\necho \"$1 of $(/usr/bin/head -c 4 \"$2\" | /usr/bin/tail -c 3)\"\n")
        .expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it may run");
    let with = machine(&["--stage", "sass", "--kernel", "blur"], &environment);
    assert_eq!(with.code, 0, "{}", with.err);
    assert!(with.out.contains("registers  ") && with.out.ends_with("-c of ELF\n"), "{}", with.out);
}

/// Returns the numbers of vectorized reads and writes in the CUDA text of a kernel of `pieces.clk`.
fn wide(text: &str, name: &str) -> (usize, usize) {
    let kernel = kernel(text, name);
    (kernel.matches(" take<").count(), kernel.matches(" put<").count())
}

/// Vectorization moves adjacent loads up to the first one, and adjacent stores down to the last one. It happens only if
/// the move has no observable effect.
#[test]
fn adjacent_accesses_are_vectorized() {
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

/// `clk emit` shows the code that a run with the same options launches. Tensor cores whose exact rounding has not been
/// tested are used only if `--mma` names a rounding model for them.
#[test]
fn emitted_tensor_core_texts_match_runs() {
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
    for (architecture, options, instruction) in cases {
        let text = emitted(&path, &[options, &["--arch", architecture]].concat());
        let marker = if instruction.is_empty() { "product(" } else { instruction };
        assert!(text.contains(marker), "{architecture} {options:?}: {text}");
        assert_eq!(text.contains("tensor cores of"), !instruction.is_empty(), "{architecture} {options:?}: {text}");
    }
}
