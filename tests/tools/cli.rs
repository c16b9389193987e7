//! Tests the command line: exit codes, output streams and messages.

mod mma;

use std::fs;
use std::path::Path;

use clk_testing::{clk, diagnostics, finish, run, run_with_input};

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs::write(path, text).expect("written");
    }
    folder
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn version_and_help() {
    let version = run(root(), &["--version"]);
    assert_eq!((version.code, version.out.trim()), (0, concat!("clk ", env!("CARGO_PKG_VERSION"))));
    let help = run(root(), &["--help"]);
    assert_eq!(help.code, 0);
    for command in ["run", "check", "test", "bench", "emit", "explain", "doc", "fmt", "fix", "lsp", "repl"] {
        assert!(help.out.contains(command), "{command} is not in the help");
    }
}

#[test]
fn short_misspelled_commands_have_a_suggestion() {
    let ran = run(root(), &["rn", "a.clk"]);
    assert!(ran.code != 0 && ran.err.contains("'run'"), "{}", ran.err);
}

#[test]
fn certain_fixes_are_applied() {
    let folder = folder_with(&[("a.clk", "let x = True\nlet y = False\nprint(x, y)\n"), ("b.clk", "let z = 1\n")]);
    let shown = run(folder.path(), &["fix", "--dry-run"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("-let x = True\n-let y = False\n+let x = true\n+let y = false\n"), "{}", shown.out);
    let fixed = run(folder.path(), &["fix"]);
    assert_eq!((fixed.code, fixed.out.as_str()), (0, "2 fixes applied in 1 file\n"), "{}", fixed.err);
    let text = fs::read_to_string(folder.path().join("a.clk")).expect("a text");
    assert_eq!(text, "let x = true\nlet y = false\nprint(x, y)\n");
    assert_eq!(run(folder.path(), &["fix"]).out, "0 fixes applied\n");
}

#[test]
fn usage_errors_are_2() {
    let wrong = run(root(), &["chekc", "a.clk"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("check"), "{}", wrong.err);
    assert_eq!(run(root(), &["--no-such-flag"]).code, 2);
    assert_eq!(run(root(), &["run"]).code, 2);
}

#[test]
fn a_missing_file_names_its_neighbour() {
    let folder = folder_with(&[("saxpy.clk", "print(1)")]);
    let ran = run(folder.path(), &["run", "saxpi.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("error[E0701]") && ran.err.contains("did you mean `saxpy.clk`?"), "{}", ran.err);
    let json = run(folder.path(), &["run", "--json", "saxpi.clk"]);
    assert_eq!(diagnostics(&json)[0]["code"], "E0701");
}

#[test]
fn files_that_are_not_programs() {
    let folder = folder_with(&[("sub/a.clk", "")]);
    fs::write(folder.path().join("bytes.clk"), b"print(\xff)").expect("written");
    let bytes = run(folder.path(), &["run", "bytes.clk"]);
    assert_eq!(bytes.code, 1);
    assert!(bytes.err.contains("not UTF-8"), "{}", bytes.err);
    let sub = run(folder.path(), &["run", "sub"]);
    assert_eq!(sub.code, 1);
    assert!(sub.err.contains("folder"), "{}", sub.err);
}

#[test]
fn missing_devices_are_refused() {
    let ran = run(root(), &["--device", "gpu:1000", "-e", "1"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("error: `gpu:1000` cannot be used: "), "{}", ran.err);
    let nonsense = run(root(), &["--device", "cpu", "-e", "1"]);
    assert_eq!(nonsense.code, 2);
    assert!(nonsense.err.contains("auto, sim, sim:N, gpu, gpu:N"), "{}", nonsense.err);
    let ran = finish(clk_testing::clk(root()).env("CLK_DEVICE", "nonsense").args(["-e", "1"]));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("CLK_DEVICE: there is no device `nonsense`"), "{}", ran.err);
    // A command that runs nothing needs no device.
    assert_eq!(run(root(), &["--device", "gpu:1000", "explain", "E0701"]).code, 0);
}

/// A driver library that lacks functions or fails is reported as an error by every command that uses a GPU.
#[cfg(target_os = "linux")]
#[test]
fn drivers_that_cannot_be_used_say_why() {
    let start = |init: u32, version: u32| {
        format!(
            "int cuInit(unsigned f) {{ return {init}; }}\nint cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}\n\
             int cuGetErrorName(int c, const char **n) {{ *n = \"CUDA_ERROR_OF_TEST\"; return 0; }}\n"
        )
    };
    let drivers = [
        ("int nothing;".to_string(), "NVIDIA's driver is not whole: its library has no `cuInit`"),
        (start(0, 12020), "NVIDIA's driver is not whole: its library has no `cuCtxGetCurrent`"),
        (start(0, 11080), "NVIDIA's driver is too old: it is for CUDA 11.8"),
        (start(100, 12020), "NVIDIA's driver finds no GPU"),
        (start(999, 12020), "NVIDIA's driver does not start: cuInit says CUDA_ERROR_OF_TEST"),
    ];
    for (text, says) in drivers {
        let folder = folder_with(&[("driver.c", &text)]);
        let mut compiler = std::process::Command::new("cc");
        let built =
            compiler.current_dir(folder.path()).args(["-shared", "-fPIC", "-o", "libcuda.so", "driver.c"]).status();
        if !built.is_ok_and(|status| status.success()) {
            println!("skipped: no C compiler makes a library here");
            return;
        }
        let ask = |words: &[&str]| finish(clk(root()).env("LD_LIBRARY_PATH", folder.path()).args(words));
        let ran = ask(&["--device", "gpu:0", "-e", "1"]);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.err);
        assert!(ran.err.contains(&format!("error: `gpu:0` cannot be used: {says}")), "{}", ran.err);
        let doctor = ask(&["doctor"]);
        assert_eq!((doctor.code, doctor.err.as_str()), (0, ""));
        assert!(doctor.out.contains(&format!("none: {says}")), "{}", doctor.out);
        // These commands do not need a GPU.
        assert_eq!(ask(&["--device", "auto", "-e", DOUBLE]).out, "[2 4]\n");
    }
}

const DOUBLE: &str =
    "kernel double(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = 2 * x[i] }\nlet y = double([1, 2])\nprint(y)\n";

#[test]
fn auto_chooses_an_available_device_and_says_why() {
    let auto = |device: Option<&str>, option: &[&str]| {
        let mut command = clk_testing::clk(root());
        command.env_remove("CLK_DEVICE").envs(device.map(|d| ("CLK_DEVICE", d)));
        finish(command.args(option).args(["-e", DOUBLE]))
    };
    for ran in [auto(Some("auto"), &[]), auto(None, &["--device", "auto"]), auto(None, &[])] {
        assert_eq!((ran.code, ran.out.as_str()), (0, "[2 4]\n"), "{}", ran.err);
    }
    let gpu = run(root(), &["doctor"]).out.contains("gpu:0");
    let ran = auto(None, &["--device", "auto"]);
    assert_eq!(!gpu, ran.err.starts_with("note: kernels run on the simulator: "), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), usize::from(!gpu), "{}", ran.err);
    assert_eq!(auto(None, &[]).err, "", "nobody asked");
    // A script without launches needs no device, and prints no note about it.
    assert_eq!(run(root(), &["--device", "auto", "-e", "print(1 + 1)"]).err, "");
}

#[test]
fn the_cache_is_listed_and_cleaned() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("kernels");
    let at = |words: &[&str]| finish(clk_testing::clk(root()).env("CLK_CACHE_DIR", &cache).arg("cache").args(words));
    assert_eq!(at(&["dir"]).out.trim(), cache.display().to_string());
    assert_eq!(at(&["ls"]).out, "0 kernels, 0 bytes\n");
    assert!(!cache.exists(), "to look makes nothing");
    let name = "0123456789abcdef".repeat(4) + ".cubin";
    fs::create_dir(&cache).expect("made");
    fs::write(cache.join(&name), [0; 2048]).expect("written");
    let listed = at(&["ls"]).out;
    assert!(listed.starts_with("0123456789abcdef     2.0 KiB  used "), "{listed}");
    assert_eq!(at(&["clean"]).out, "removed 1 kernels, 2.0 KiB\n");
    assert_eq!(at(&[]).code, 2);
    // If the cache folder contains other files, the commands refuse it and leave it unchanged.
    fs::write(cache.join("notes.txt"), "mine").expect("written");
    fs::write(cache.join("model.cubin"), "mine").expect("written");
    for action in ["ls", "clean"] {
        let ran = at(&[action]);
        assert!(ran.code == 1 && ran.err.contains("E0703") && ran.err.contains("CLK_CACHE_DIR"), "{}", ran.err);
    }
    assert!(cache.join("notes.txt").exists() && cache.join("model.cubin").exists());
    fs::remove_dir_all(&cache).expect("removed");
    fs::write(&cache, "").expect("written");
    assert_eq!(at(&["ls"]).code, 1);
}

#[test]
fn doctor_reports_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = finish(clk_testing::clk(root()).env("CLK_CACHE_DIR", folder.path()).arg("doctor"));
    assert_eq!(ran.code, 0);
    for word in ["clk ", "sim ", "gpu", "nvrtc ", "cache "] {
        assert!(ran.out.lines().any(|line| line.starts_with(word)), "{word}: {}", ran.out);
    }
}

#[test]
fn the_instruction_set_can_be_chosen() {
    let run_with_isa = |isa: &str, words: &[&str]| finish(clk_testing::clk(root()).env("CLK_SIM_ISA", isa).args(words));
    let simulator = |ran: clk_testing::RunOutput| {
        ran.out.lines().find(|line| line.starts_with("sim ")).unwrap_or_default().to_string()
    };
    assert!(simulator(run_with_isa("baseline", &["doctor"])).contains("baseline"));
    assert!(!simulator(run_with_isa("", &["doctor"])).contains("CLK_SIM_ISA"), "nobody asked");
    let ran = run_with_isa("baseline", &["-e", DOUBLE]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[2 4]\n"), "{}", ran.err);
    let ran = run_with_isa("sse9", &["-e", DOUBLE]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("CLK_SIM_ISA: unknown instruction set `sse9`"), "{}", ran.err);
}

/// Returns the line of `clk doctor` about the simulator, for these environment variables.
fn engine(environment: &[(&str, &str)]) -> String {
    let ran = finish(clk(root()).envs(environment.iter().copied()).arg("doctor"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().find(|line| line.starts_with("sim ")).expect("the simulator").to_string()
}

/// Returns whether this system allows machine code; prints the reason if not.
fn machine_code() -> bool {
    let engine_line = engine(&[("CLK_SIM_JIT", "always"), ("CLK_SIM_ISA", "")]);
    let can = engine_line.ends_with("machine code from the first launch on (CLK_SIM_JIT=always)");
    if !can {
        println!("skipped: {engine_line}");
    }
    can
}

#[test]
fn doctor_reports_how_kernels_run() {
    assert!(engine(&[("CLK_SIM_JIT", "off")]).ends_with(", interpreted (CLK_SIM_JIT=off)"));
    let doctor_with_isa =
        |isa: &str| finish(clk(root()).envs([("CLK_SIM_ISA", isa), ("CLK_SIM_JIT", "always")]).arg("doctor"));
    let ran = doctor_with_isa("baseline");
    assert!(ran.out.contains(", interpreted: machine code needs AVX2 or AVX-512\n"), "{}{}", ran.out, ran.err);
    if machine_code() {
        assert!(engine(&[("CLK_SIM_JIT", "auto"), ("CLK_SIM_ISA", "")]).ends_with(", machine code"));
        // Machine code is also available with a smaller instruction set.
        let ran = doctor_with_isa("avx2");
        assert!(ran.out.contains(", machine code from the first launch on"), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn machine_code_can_be_chosen() {
    let run_with_jit = |jit: &str, words: &[&str]| finish(clk(root()).env("CLK_SIM_JIT", jit).args(words));
    for wrong in ["on", "ALWAYS", "1"] {
        let ran = run_with_jit(wrong, &["-e", DOUBLE]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        let says = format!("CLK_SIM_JIT: unknown setting `{wrong}`; choose one of off, auto, always");
        assert!(ran.err.contains(&says), "{}", ran.err);
    }
    for example in ["examples/saxpy.clk", "examples/julia.clk", "examples/gaussian_elimination.clk"] {
        let words = ["run", "--stats", example];
        let (off, always) = (run_with_jit("off", &words), run_with_jit("always", &words));
        assert_eq!((off.code, always.code), (0, 0), "{example}: {}{}", off.err, always.err);
        assert_eq!(off.out, always.out, "{example}");
        let statistics = |ran: &clk_testing::RunOutput| ran.err.lines().last().unwrap_or_default().to_string();
        let (off, always) = (statistics(&off), statistics(&always));
        assert!(off.starts_with("sim: ") && off.ends_with(" launches, interpreted"), "{example}: {off}");
        if machine_code() {
            let words = [" regions compiled to ", " of machine code in ", "; entered ", " times for the interpreter"];
            assert!(words.iter().all(|word| always.contains(word)), "{example}: {always}");
            assert!(!always.contains("; entered 0 times"), "{example}: {always}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn systems_may_forbid_executable_memory() {
    use std::os::unix::process::CommandExt;
    // `prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN)`: makes Linux refuse to turn writable memory into executable
    // memory.
    let forbid = || {
        // SAFETY: changes only this process, which has not called exec yet.
        unsafe { libc::prctl(65, 1, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: `PR_GET_MDWE` only reads a setting.
    if unsafe { libc::prctl(66, 0, 0, 0, 0) } < 0 {
        println!("skipped: this system cannot forbid executable memory");
        return;
    }
    if !machine_code() {
        return;
    }
    let run_confined = |words: &[&str]| {
        let mut command = clk(root());
        // SAFETY: `forbid` only makes a system call.
        unsafe { command.pre_exec(forbid) };
        finish(command.env("CLK_SIM_JIT", "always").args(words))
    };
    let doctor = run_confined(&["doctor"]).out;
    assert!(doctor.contains(", interpreted: the system forbids executable memory\n"), "{doctor}");
    let ran = run_confined(&["-e", DOUBLE]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[2 4]\n"), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn perf_learns_the_names_of_machine_code() {
    use std::process::Stdio;
    let text = "let n = 4\nkernel f(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = 2.0 * x[i] + 1.0\n}\nprint(f([1.0, 2.0]))\n";
    let folder = folder_with(&[("a.clk", text)]);
    let map = |perf: &str| {
        let environment = [("CLK_SIM_JIT", "always"), ("CLK_SIM_PERF", perf)];
        let mut command = clk(folder.path());
        let child =
            command.envs(environment).args(["run", "a.clk"]).stdout(Stdio::piped()).spawn().expect("clk starts");
        let path = format!("/tmp/perf-{}.map", child.id());
        let output = child.wait_with_output().expect("clk ends");
        assert!(output.status.success());
        let symbols = fs::read_to_string(&path).ok();
        let _ = fs::remove_file(&path);
        symbols
    };
    assert_eq!(map("0"), None);
    if machine_code() {
        let symbols = map("1").expect("a map");
        let words: Vec<&str> = symbols.trim_end().split(' ').collect();
        let &[start, size, "clk:f:3#0"] = &words[..] else { panic!("{symbols}") };
        assert!([start, size].iter().all(|n| u64::from_str_radix(n, 16).is_ok_and(|n| n > 0)), "{symbols}");
    }
    let wrong = finish(clk(root()).env("CLK_SIM_PERF", "yes").args(["-e", "1"]));
    assert!(wrong.code == 2 && wrong.err.contains("CLK_SIM_PERF: it is 1, "), "{}", wrong.err);
}

#[test]
fn explain_lists_and_explains() {
    let all = run(root(), &["explain"]);
    assert_eq!(all.code, 0);
    assert!(all.out.contains("E0701"), "{}", all.out);
    let page = run(root(), &["explain", "e0701"]);
    assert_eq!(page.code, 0);
    assert!(page.out.starts_with("E0701: "), "{}", page.out);
    let none = run(root(), &["explain", "E9999"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
}

#[test]
fn doc_of_builtins() {
    let sqrt = run(root(), &["doc", "sqrt"]);
    assert_eq!(sqrt.code, 0);
    assert!(sqrt.out.contains("square root"), "{}", sqrt.out);
    let typo = run(root(), &["doc", "sqrtt"]);
    assert_eq!(typo.code, 1);
    assert!(typo.err.contains("`sqrt`"), "{}", typo.err);
    assert!(run(root(), &["doc"]).out.contains("thread_idx"));
}

#[test]
fn colors_are_opt_in() {
    let colored = run(root(), &["run", "--color", "always", "nosuch.clk"]);
    assert!(colored.err.contains('\u{1b}'), "{}", colored.err);
    let forced = finish(clk(root()).env("CLICOLOR_FORCE", "1").args(["run", "nosuch.clk"]));
    assert!(forced.err.contains('\u{1b}'), "{}", forced.err);
    let plain = finish(clk(root()).env("NO_COLOR", "1").args(["run", "nosuch.clk"]));
    assert!(!plain.err.contains('\u{1b}'), "{}", plain.err);
}

#[test]
fn a_script_runs_with_its_arguments() {
    let folder = folder_with(&[("a.clk", "print(\"{len(args)} {args[0]}\")\n")]);
    let ran = run(folder.path(), &["a.clk", "--json", "two"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "2 --json\n", ""));
    assert_eq!(run(folder.path(), &["run", "a.clk", "x"]).out, "1 x\n");
}

#[test]
#[cfg(unix)]
fn a_tilde_expands_to_the_home_folder() {
    let home = folder_with(&[("data/x.csv", "1,2\n3,4\n")]);
    let folder = folder_with(&[
        (
            "a.clk",
            "let x = load(\"~/data/x.csv\")\nsave(\"~/data/y.npy\", x)\nprint(load(\"~/data/y.npy\"))\n\
             image(\"~/z.png\", u8(zeros(4, 4)))\nsave(\"~x.npy\", [1])\nsave(\"./~/x.npy\", [1])\n\
             test \"in a test\" { save(\"~/t.npy\", [1]) }\n",
        ),
        ("~/there.txt", ""),
    ]);
    let ran = finish(clk(folder.path()).env("HOME", home.path()).args(["run", "a.clk"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "[[1. 2.]\n [3. 4.]]\n"), "{}", ran.err);
    assert!(home.path().join("data/y.npy").is_file() && home.path().join("z.png").is_file());
    // A `~` is expanded only if it is the first component of a path.
    assert!(folder.path().join("~x.npy").is_file() && folder.path().join("~/x.npy").is_file());
    let tested = finish(clk(folder.path()).env("HOME", home.path()).args(["test", "a.clk"]));
    assert_eq!(tested.code, 0, "{}", tested.err);
    assert!(home.path().join("t.npy").is_file());
    // Messages show the path as the user wrote it.
    let missing = finish(clk(folder.path()).env("HOME", home.path()).args(["-e", "load(\"~/none.npy\")"]));
    assert!(missing.code == 1 && missing.err.contains("`~/none.npy`"), "{}", missing.err);
}

#[test]
fn eval_prints_the_value() {
    assert_eq!(run(root(), &["-e", "1 + 2"]).out, "3\n");
    assert_eq!(run(root(), &["-e", "1 + 2;"]).out, "");
}

#[test]
fn standard_input_is_a_script() {
    assert_eq!(run_with_input(root(), &[], "let x = 4\nprint(x * 2)\n").out, "8\n");
    assert_eq!(run_with_input(root(), &["run", "-"], "print(3)").out, "3\n");
    let wrong = run_with_input(root(), &[], "print(nosuch)\n");
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("<stdin>:1:7"), "{}", wrong.err);
}

#[test]
fn mistakes_exit_with_1_and_leave_standard_output_alone() {
    let folder = folder_with(&[("a.clk", "print(1)\nprint(nosuch)\n")]);
    let ran = run(folder.path(), &["run", "a.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "nothing runs when the check fails");
    assert!(ran.err.contains("a.clk:2:7") && ran.err.contains("1 error"), "{}", ran.err);
}

#[test]
fn check_proves_expected_properties() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = |expect: &str, body: &str| {
        let text = format!(
            "kernel k(x: [f32; N], inout y: [f32; 8]) threads(i: N)\n    assume N == 8\n    expect {expect}\n{{\n    {body}\n}}\n"
        );
        fs::write(folder.path().join("k.clk"), text).expect("written");
        run(folder.path(), &["check", "k.clk"])
    };
    let good = kernel("in_bounds, race_free, any_order", "y[i] = x[i]");
    assert_eq!((good.code, good.out.contains("no mistakes found in 1 file")), (0, true), "{}{}", good.out, good.err);
    let bad = kernel("race_free, in_bounds", "y[i + 1] = x[i]");
    assert_eq!(bad.code, 1, "{}", bad.err);
    assert!(bad.err.contains("`k` violates `expect in_bounds`") && bad.err.contains("refuted by N = 8"), "{}", bad.err);
    assert!(bad.err.contains("index 8 is out of bounds") && !bad.err.contains("race_free` says"), "{}", bad.err);
    let open = kernel("in_bounds", "if x[i] >= 0.0 { y[min(i32(x[i]), 7)] = 1.0 }");
    assert_eq!(open.code, 0, "{}", open.err);
    assert!(open.err.contains("W0606") && open.err.contains("k.clk:3:12"), "{}", open.err);
    let silent = run(folder.path(), &["run", "k.clk"]);
    assert_eq!((silent.code, silent.err.as_str()), (0, ""), "only `clk check` proves");
}

/// A proof of a kernel with compile-time parameters covers only the parameter values that were examined. The report
/// names the launches with other values.
#[test]
fn proofs_name_the_launches_they_leave_out() {
    let lib = "kernel g<const K: i32>(inout y: [i32; N]) threads(i: N) expect race_free {
    y[if K == 6 { 0 } else { i }] = i
}
kernel plain(inout y: [i32; N]) threads(i: N) { y[i] = i }
fn two<const J: i32>(inout y: [i32; N]) { g(y, K = J) }
var y = zeros(3, type = i32)
g(y, K = 1)
two(y, J = 6)
";
    let main = "import \"./lib.clk\" as lib\nvar y = zeros(3, type = i32)\n";
    let launch = format!("{main}lib.g(y, K = 6)\n");
    let plain = format!("{main}lib.plain(y)\n");
    let folder = folder_with(&[("lib.clk", lib), ("main.clk", &launch), ("plain.clk", &plain)]);
    let check = run(folder.path(), &["check", "lib.clk"]);
    assert_eq!(check.code, 0, "{}", check.err);
    for part in [
        "warning[W0606]: the expectations of `g` are not proved for all its launches",
        "proved with K = 1",
        "not examined: K = ?",
    ] {
        assert!(check.err.contains(part), "{part}: {}", check.err);
    }
    let line = "launches with other arguments are not examined: K = ? (lib.clk:5:43)";
    let prove = run(folder.path(), &["prove", "lib.clk", "g"]);
    assert!(prove.out.contains(line), "{}", prove.out);
    let json = run(folder.path(), &["prove", "--json", "lib.clk", "g"]);
    let verdict: serde_json::Value =
        json.out.lines().next().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    let launch = &verdict["unexamined"][0];
    assert_eq!(
        (&launch["arguments"], &launch["at"]["line"], &launch["at"]["column"]),
        (&"K = ?".into(), &5.into(), &43.into())
    );
    // The kernel is launched from another file.
    let check = run(folder.path(), &["check", "main.clk"]);
    assert_eq!(check.code, 1, "{}", check.err);
    assert!(check.err.contains("E0618") && check.err.contains("refuted by N = 2 with K"), "{}", check.err);
    let prove = run(folder.path(), &["prove", "main.clk"]);
    assert!(prove.out.starts_with("g  (K = 1; K = 6)\n") && !prove.out.contains("plain"), "{}", prove.out);
    let none = run(folder.path(), &["prove", "plain.clk"]);
    assert!(none.out.contains("the file has no kernels; to prove those of imported files"), "{}{}", none.out, none.err);
}

#[test]
fn check_does_not_run() {
    let folder = folder_with(&[("good.clk", "print(1)\n"), ("bad.clk", "let x: i32 = 1.5\n")]);
    let good = run(folder.path(), &["check", "good.clk"]);
    assert_eq!((good.code, good.out.as_str()), (0, "no mistakes found in 1 file\n"));
    let all = run(folder.path(), &["check", "."]);
    assert_eq!(all.code, 1);
    assert!(all.err.contains("bad.clk:1:14"), "{}", all.err);
}

#[test]
fn test_counts() {
    let text = "test \"holds\" { assert(1 + 1 == 2) }\ntest \"fails\" { print(\"seen\"); assert(1 == 2, \"no\") }\n";
    let folder = folder_with(&[("sub/a.clk", text), ("b.clk", "print(\"not run\")\n")]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("ok      holds") && ran.out.contains("FAILED  fails"), "{}", ran.out);
    assert!(ran.out.ends_with("1 passed, 1 failed\n"), "{}", ran.out);
    assert!(!ran.out.contains("not run") && ran.err.contains("a.clk:2") && ran.err.contains("seen"), "{}", ran.err);
    let filtered = run(folder.path(), &["test", "--filter", "hold", "sub"]);
    assert_eq!(filtered.code, 0);
    assert!(filtered.out.ends_with("1 passed, 0 failed, 1 left out by the filter\n"), "{}", filtered.out);
}

/// A launch that leaves elements of an `out` array unwritten causes a warning. With `--deny-warnings`, the test that
/// contains the launch fails, and no other test.
#[test]
fn tests_fail_for_warnings_on_request() {
    let kernel = "kernel most(x: [f32; N], out y: [f32; N]) threads(i: N) { if i != 3 { y[i] = x[i] } }\n";
    let text = format!(
        "{kernel}test \"few\" {{ assert(most(ones(2))[0] == 1.0) }}\ntest \"all\" {{ assert(most(ones(8))[0] == 1.0) }}\n"
    );
    let folder = folder_with(&[("a.clk", &text)]);
    let ran = run(folder.path(), &["test", "a.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("W0602"), "{}", ran.err);
    let ran = run(folder.path(), &["test", "--deny-warnings", "a.clk"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("ok      few") && ran.out.contains("FAILED  all"), "{}", ran.out);
    assert!(ran.out.ends_with("1 passed, 1 failed\n"), "{}", ran.out);
}

#[test]
fn tests_may_use_the_script() {
    let folder = folder_with(&[("a.clk", "let n = 20 + 1\ntest \"sees n\" { assert(n == 21) }\n")]);
    assert_eq!(run(folder.path(), &["test", "a.clk"]).code, 0);
}

#[test]
fn bench_measures() {
    let folder = folder_with(&[("a.clk", "bench \"sum\" bytes = 4000 { sum(ones(1000)) }\n")]);
    let ran = run(folder.path(), &["bench", "--json", "a.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line: serde_json::Value = serde_json::from_str(ran.out.trim()).expect("JSON");
    assert!(line["median"].as_f64().is_some_and(|m| m > 0.0), "{line}");
    assert!(line["bytes_per_second"].as_f64().is_some_and(|m| m > 0.0), "{line}");
    assert!(run(folder.path(), &["bench", "a.clk"]).out.contains("B/s"));
}

#[test]
fn bench_takes_samples_on_demand() {
    let folder = folder_with(&[("a.clk", "bench \"sum\" { sum(ones(1000)) }\nbench \"none\" {}\n")]);
    let ran =
        clk_testing::run_with_input(folder.path(), &["bench", "--on-demand", "--filter", "sum", "a.clk"], "1\n20\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let seconds: Vec<f64> = ran.out.lines().map(|l| l.parse().expect("a number")).collect();
    assert!(seconds.len() == 2 && seconds.iter().all(|&s| s > 0.0), "{}", ran.out);
    assert_eq!(run(folder.path(), &["bench", "--on-demand", "a.clk"]).code, 2, "two benches");
}

#[test]
fn emit_shows_each_stage() {
    let text = "kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }\n";
    let folder = folder_with(&[("a.clk", text)]);
    for stage in ["ast", "typed", "ir", "grad", "lanes"] {
        let ran = run(folder.path(), &["emit", "--stage", stage, "a.clk"]);
        assert_eq!(ran.code, 0, "{stage}: {}", ran.err);
        assert!(ran.out.contains("scale"), "{stage}: {}", ran.out);
    }
    let none = run(folder.path(), &["emit", "--stage", "tiles", "a.clk"]);
    assert_eq!(
        (none.code, none.out.as_str()),
        (0, "// kernel scale: no tile program: it is not a `grid` kernel (line 1)\n")
    );
    let none = run(folder.path(), &["emit", "--stage", "tiles", "--kernel", "scale", "a.clk"]);
    assert_eq!(none.code, 1);
    assert!(
        none.err.contains("error: `scale` has no tile program: it is not a `grid` kernel (line 1)"),
        "{}",
        none.err
    );
    let example = root().join("examples/batched_products.clk");
    let tiles = run(folder.path(), &["emit", "--stage", "tiles", &example.display().to_string()]);
    assert_eq!(tiles.code, 0, "{}", tiles.err);
    let program = tiles.out.split_once('\n').expect("a comment with the kernel's name").1;
    assert!(clk_ir::text::parse_tiles(program).is_ok_and(|program| !program.steps.is_empty()), "{}", tiles.out);
    let text = "kernel part(x: [f32; 16, N], out y: [f32; 16, 8]) grid(1) block(32) {\n    let k = 8 * block_idx.x\n    \
                shared t: [f32; 16, 8]\n    t = x[.., k..min(k + 8, N)]\n    \
                y[0..16, ..] = t - reshape(sum(2.0 * t, axis = 1), 16, 1)\n}\n";
    let part = run(folder_with(&[("a.clk", text)]).path(), &["emit", "--stage", "tiles", "a.clk"]);
    let expected = "// kernel part: no tile program: it does not assign a matrix product (`mma`) to a tile (line 1)\n\
                    // line 4: @t = @x[16, 8 from (i32: 8i32 * block.x) below extent(@x, 1)]\n\
                    // line 5: @tile = reduce (2.0f32 * @t) by + along 1\n\
                    // line 5: @y[16 from 0i32, 8] = (@t - reshape(@tile[16, at 0i32], [16, 1]))\n";
    assert_eq!((part.code, part.out.as_str()), (0, expected), "{}", part.err);
    // In `halves`, each thread has its own elements, so its derivative needs no atomics. In `row`, two threads share
    // each element.
    let text = "kernel halves(x: [f32; 2 * N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i + N] }\n\
                kernel row(x: [f32; N], out y: [f32; N]) grid(1) block(8, 2) { y[thread_idx.x] = x[thread_idx.x] }\n";
    let ran = run(folder_with(&[("a.clk", text)]).path(), &["emit", "--stage", "grad", "a.clk"]);
    let (halves, row) = ran.out.split_once("kernel row_vjp").expect("two derivatives");
    assert!(!halves.contains("atomic_") && halves.contains("d_x[i] = d_x[i] + "), "{halves}");
    assert!(row.contains("atomic_exchange(d_y[thread_idx.x], 0.0f32)") && row.contains("atomic_add(d_x"), "{row}");
    let none = run(folder.path(), &["emit", "--kernel", "scael", "a.clk"]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("`scale`"), "{}", none.err);
}

/// `clk emit` prints the LaneIR regions of `tests/lanes/regions.clk` as in the golden file `regions.lanes`, which
/// `CLK_BLESS=1` rewrites.
#[test]
fn emit_shows_regions() {
    let folder = root().join("tests/lanes");
    // The printed regions do not depend on the instruction set or on whether machine code is available.
    let emitted = |isa: &str, jit: &str| {
        let environment = [("CLK_SIM_ISA", isa), ("CLK_SIM_JIT", jit)];
        let ran = finish(clk(&folder).envs(environment).args(["emit", "--stage", "lanes", "regions.clk"]));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let text = emitted("", "");
    assert_eq!(emitted("baseline", "off"), text);
    let golden = folder.join("regions.lanes");
    if std::env::var_os("CLK_BLESS").is_some() {
        fs::write(&golden, &text).expect("written");
    } else {
        let golden_text = fs::read_to_string(&golden).expect("the golden file");
        assert_eq!(text, golden_text, "CLK_BLESS=1 rewrites it");
    }
    let one = run(&folder, &["emit", "--stage", "lanes", "--kernel", "count", "regions.clk"]);
    assert_eq!(one.out, "// kernel count: no regions, all of it is interpreted\n");
}

/// Each listing in the documentation of machine code is an excerpt of the output of `clk emit`.
#[test]
fn the_page_about_machine_code_is_up_to_date() {
    let path = "docs/internals/jit.md";
    let page = fs::read_to_string(root().join(path)).expect("the page");
    let blocks: Vec<&str> =
        page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("text\n")).collect();
    let [program, ir, lanes, ..] = blocks[..] else { panic!("{path} has no listings") };
    let folder = folder_with(&[("saxpy.clk", program)]);
    for (stage, block) in [("ir", ir), ("lanes", lanes)] {
        let ran = run(folder.path(), &["emit", "--stage", stage, "saxpy.clk"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let mut lines = ran.out.lines().map(str::trim);
        for line in block.lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(
                lines.any(|l| l == line),
                "{path}: `{line}` is not what --stage {stage} prints, or not there:\n{}",
                ran.out
            );
        }
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    use std::io::Read;
    use std::process::Stdio;
    let folder = folder_with(&[("a.clk", "for i in 0..200000 { print(i) }\n")]);
    let mut child = clk(folder.path())
        .args(["run", "a.clk"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clk starts");
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut [0; 2]).expect("two bytes");
    drop(out);
    let output = child.wait_with_output().expect("clk ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
}

/// Sends Ctrl-C to a script that has begun an endless loop; returns its exit code and messages.
#[cfg(unix)]
fn interrupted(script: &str) -> (Option<i32>, String) {
    use std::process::{Command, Stdio};
    let folder = folder_with(&[("a.clk", &format!("save(\"begun.npy\", [1])\n{script}"))]);
    let child = clk(folder.path())
        .args(["run", "a.clk"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clk starts");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !folder.path().join("begun.npy").exists() {
        assert!(std::time::Instant::now() < deadline, "the script begins");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
    let output = child.wait_with_output().expect("clk ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_a_script() {
    let (code, err) = interrupted("var n = 0\nloop { n = 1 - n }\n");
    assert_eq!(code, Some(130));
    assert!(err.contains("E0599") && err.contains("a.clk:3"), "{err}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_a_kernel() {
    let kernel = "kernel spin(out y: [i32; N]) threads(i: N) {\n    var n = 1\n    while n != 0 { n = n * 3 }\n    y[i] = n\n}\n";
    let (code, err) = interrupted(&format!("{kernel}spin(N = 64)\n"));
    assert_eq!(code, Some(130));
    assert!(err.contains("a.clk"), "{err}");
}

/// All words after the script's name are arguments of the script. If the script does not use its arguments, a note
/// reports each option of `clk` among them as a probable mistake.
#[test]
fn options_after_the_script_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("plain.clk"), "print(1)\n").expect("written");
    std::fs::write(folder.path().join("asks.clk"), "print(args[0])\n").expect("written");
    let ran = run(folder.path(), &["run", "plain.clk", "--check"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1\n"));
    assert!(ran.err.contains("note: `--check` follows the script's name"), "{}", ran.err);
    assert_eq!(run(folder.path(), &["run", "plain.clk", "--mine"]).err, "");
    let ran = run(folder.path(), &["run", "asks.clk", "--seed=3"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("--seed=3\n", ""));
}

/// `exit(code)` completes a script's launches and flushes its output, as the normal end of a script does.
#[test]
fn scripts_set_the_exit_code() {
    let folder = folder_with(&[
        ("well.clk", "print(1)\nwrite_text(\"w.txt\", \"x\")\nfor i in 0..9 { if i == 3 { exit() } }\nprint(2)\n"),
        ("other.clk", "fn leave(n: i32) { exit(n + 40) }\nprint(1)\nleave(2)\n"),
        ("most.clk", "exit(255)\n"),
        (
            "failed.clk",
            "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + 1] }\nprint(1)\nk([1, 2])\nexit(7)\n",
        ),
        ("parts.clk", "exit(3)\nlet n = 1\ntest \"t\" { assert(n == 1) }\nbench \"b\" { print(n) }\n"),
        ("own.clk", "test \"t\" { exit(0) }\nbench \"b\" { exit(0) }\n"),
    ]);
    let ends = |words: &[&str]| {
        let ran = run(folder.path(), words);
        (ran.code, ran.out, ran.err)
    };
    let well = |code: i32, out: &str| (code, out.to_string(), String::new());
    assert_eq!(ends(&["run", "well.clk"]), well(0, "1\n"));
    assert!(folder.path().join("w.txt").exists());
    assert_eq!(ends(&["other.clk"]), well(42, "1\n"));
    assert_eq!(ends(&["run", "--json", "most.clk"]), well(255, ""));
    assert_eq!(ends(&["-e", "print(5); exit(9)"]), well(9, "5\n"));
    let (code, out, err) = ends(&["run", "failed.clk"]);
    assert_eq!((code, out.as_str(), err.contains("E0601")), (1, "1\n", true), "{err}");
    // `exit` is not allowed in `clk test` and `clk bench`, because they run more than the script.
    for words in [["test", "parts.clk"], ["bench", "parts.clk"], ["test", "own.clk"], ["bench", "own.clk"]] {
        let (code, _, err) = ends(&words);
        assert_eq!((code, err.contains("E0547")), (1, true), "{words:?}: {err}");
    }
}
