//! Tests REPL sessions as transcripts of input and output. A failed entry must not change the session.

use std::fs;
use std::path::Path;

use clk_testing::{RunOutput, run, run_with_input};

fn session(entries: &str) -> RunOutput {
    run_with_input(Path::new(env!("CARGO_MANIFEST_DIR")), &["repl", "--plain", "--ascii"], entries)
}

/// Checks the output of a session, which must not report any diagnostics.
#[track_caller]
fn check(entries: &str, expected: &str) {
    let ran = session(entries);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
}

#[test]
fn values_are_shown_unless_quiet() {
    check("1 + 2\nlet x = 5\nx * x\nx * x;\n", "3\n25\n");
}

#[test]
fn arrays_show_type_and_shape() {
    check(
        "[1.0, 2.5]\nzeros(2, 600)\n",
        "[1.  2.5]\n[f32; 2]\n[[0. 0. 0. ... 0. 0. 0.]\n [0. 0. 0. ... 0. 0. 0.]]\n[f32; 2, 600], 4.7 KiB\n",
    );
}

#[test]
fn a_profile_does_not_print_the_value() {
    let ran = session(
        "kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }\n:profile double([1.25])\n",
    );
    assert!(ran.out.contains("double") && !ran.out.contains("2.5"), "{}{}", ran.out, ran.err);
}

#[test]
fn last_values_are_bound_to_names() {
    check("3 * 4\n_ + 1\n_1 * 2;\n_ + _2\n", "12\n13\n37\n");
    let ran = session(&("1\n".to_string() + &"2\n".repeat(20) + "_1\n_2\n"));
    assert!(ran.err.contains("nothing here is called `_1`"), "{}", ran.err);
    assert!(ran.out.ends_with("2\n"), "{}", ran.out);
}

#[test]
fn entries_span_several_lines() {
    check("fn twice(x: f32) -> f32 {\n    2.0 * x\n}\ntwice(4.0)\n", "8.0\n");
}

#[test]
fn a_kernel_is_defined_and_launched() {
    check("kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\nsum(inc([1, 2, 3]))\n", "9\n");
}

#[test]
fn a_failed_entry_changes_nothing() {
    let ran = session("var x = 1\nx = nosuch\nx = 2; assert(x == 3)\nx\nlet y = x + 1\ny\n");
    assert_eq!(ran.out, "1\n2\n", "{}", ran.err);
    assert!(ran.err.contains("<entry 2>:1:5") && ran.err.contains("<entry 3>:1:"), "{}", ran.err);
}

#[test]
fn a_failed_entry_leaves_the_elements_of_arrays() {
    let ran = session(
        "kernel fill(inout x: [i32; N]) threads(i: N) { x[i] = 7 }\nvar x = [1, 2, 3]\n\
         x[0] = 9; fill(x); assert(false)\nx\nfn f() -> i32 { 1 }\nfn f() -> i32 { 2 }; assert(false)\nf()\n",
    );
    assert_eq!(ran.out, "[1 2 3]\n[i32; 3]\n1\n", "{}", ran.err);
}

#[test]
fn names_can_be_redefined() {
    check("let x = 1\nlet x = [1.5, 2.5]\nsum(x)\nfn f() -> i32 { 1 }\nfn f() -> i32 { 2 }\nf()\n", "4.0\n2\n");
}

#[test]
fn callers_use_redefined_functions() {
    let first = "fn f(x: f32) -> f32 { 2.0 * x }\nfn g(x: f32) -> f32 { f(x) + 1.0 }\n\
                 kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = g(x[i]) }\n";
    check(
        &format!("{first}k([1.0, 2.0])\nfn f(x: f32) -> f32 {{ 10.0 * x }}\nk([1.0, 2.0])\ng(1.0)\n"),
        "[3. 5.]\n[f32; 2]\nalso in `g`, `k`\n[11. 21.]\n[f32; 2]\n11.0\n",
    );
    let ran = session(&format!(
        "{first}fn f(x: f32, y: f32) -> f32 {{ x * y }}\n:vars\nk([1.0])\nfn f(x: f32) -> f32 {{ x }}\nk([1.0])\n"
    ));
    assert!(ran.err.contains("warning[W0010]: `g` no longer compiles and is set aside"), "{}", ran.err);
    assert!(ran.err.contains("nothing here is called `k`"), "{}", ran.err);
    assert!(ran.err.contains("Note: `k` is set aside: nothing here is called `g`"), "{}", ran.err);
    let aside =
        "fn f\ng (set aside: `f` takes 2 arguments, but 1 is given)\nk (set aside: nothing here is called `g`)\n";
    assert_eq!(ran.out, format!("{aside}`g`, `k` fit again\n[2.]\n[f32; 1]\n"), "{}", ran.err);
}

#[test]
fn users_of_redefined_structs_and_constants_are_updated() {
    check(
        "const K: i32 = 2\nfn f(x: i32) -> i32 { x * K }\nconst K: i32 = 5\nf(1)\n\
         struct P { x: f32 }\nfn len2(p: P) -> f32 { p.x * p.x }\nstruct P { x: f32, y: f32 }\nlen2(P { x: 3.0, y: 4.0 })\n",
        "also in `f`\n5\nalso in `len2`\n9.0\n",
    );
}

#[test]
fn tests_and_benches_run_when_entered() {
    let ran = session(
        "test \"sums\" { assert(1 + 1 == 2) }\ntest \"wrong\" { assert(1 == 2) }\nbench \"sum\" { sum(ones(10)) }\n",
    );
    assert!(ran.out.starts_with("  ok      sums\n  FAILED  wrong\n  sum "), "{}", ran.out);
    assert!(ran.err.contains("assertion failed"), "{}", ran.err);
}

#[test]
fn every_command_is_listed_and_explained() {
    let ran = session(":help\n:help sav\n");
    for command in [
        "help", "doc", "type", "info", "vars", "mem", "time", "bench", "check", "device", "ir", "cuda", "ptx", "sass",
        "load", "reload", "edit", "save", "history", "explain", "reset", "set", "quit",
    ] {
        assert!(ran.out.contains(&format!("  :{command}")), "{command}: {}", ran.out);
    }
    assert!(ran.out.starts_with("New here? `:help kernel`"), "{}", ran.out);
    assert!(
        ran.out
            .ends_with(":save[!] FILE: write a script that does what this session did; with `!` over another file\n"),
        "{}",
        ran.out
    );
}

/// The examples in the guides for newcomers work as typed.
#[test]
fn guides_match_the_session() {
    for (topic, expected) in [("kernel", "[2. 1. 0.]"), ("blocks", "[64. 36.]"), ("arrays", "mean 0.")] {
        let guide = session(&format!(":help {topic}\n")).out;
        let entries: String = guide.lines().filter_map(|l| l.strip_prefix("    ")).map(|l| format!("{l}\n")).collect();
        assert!(entries.lines().count() > 3, "{guide}");
        let ran = session(&entries);
        assert_eq!(ran.err, "", "{topic}");
        assert!(ran.out.contains(expected), "{topic}: {}", ran.out);
    }
    let ran = session("help\nlet quit = 3\nquit\nexit\n1\n");
    assert!(ran.out.starts_with("New here?") && ran.out.ends_with("\n3\n"), "{}", ran.out);
}

#[test]
fn inspection_commands() {
    check(":type 1 + 2\n:ty [1.0, 2.0]\n", "i32\n[f32; 2]\n");
    check(
        "let n = 3\nvar x = [1.0, 2.0]\nfn f() -> i32 { 1 }\nconst K: i32 = 1\nimport std.nn\n:vars\n",
        "let n: i32 = 3\nvar x: [f32; 2]\nfn f\nconst K\nimport nn\n",
    );
    check(
        "let x = [1.0, 2.0, 1.0 / 0.0]\n:info x\n",
        "let x: [f32; 3]\n  min   1.0\n  max   inf\n  mean  inf\n  1 of 3 elements are NaN or infinite\n",
    );
    check(
        "/// Adds one.\nkernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\n:info inc\n",
        "kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N)\ndefined in <entry 1>\nreads      x\nwrites     y\n\
         dimensions N\nruns as    one thread for every index\n",
    );
    let ran = session(
        "/// Adds one.\nfn inc(x: i32) -> i32 { x + 1 }\n:doc inc\n?sqrt\nsqrt?\nimport std.nn\n?nn.softmax\n:doc std.linalg\n:mem\nlet x = zeros(1000)\n:mem\n",
    );
    assert!(ran.out.starts_with("    fn inc(x: i32) -> i32\n\nAdds one.\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("The square root").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("softmax(") && ran.out.contains("matmul("), "{}", ran.out);
    assert!(
        ran.out.contains(
            "no variable holds an array\n   3.9 KiB  x: [f32; 1000], zeros that take no memory yet\n   3.9 KiB  in all"
        ),
        "{}",
        ran.out
    );
    let ran = session("let x = ones(1 << 20)\nlet y = x + 1.0\nlet z = x\n:mem\n");
    let rows = ["4.0 MiB  y: [f32; 1048576], not computed yet", "12.0 MiB  in all", "4.0 MiB  of it on the host"];
    rows.iter().for_each(|row| assert!(ran.out.contains(row), "{row}: {}", ran.out));
}

#[test]
fn measuring_commands() {
    let ran = session("var x = ones(1000)\n:time sum(x)\n:time x[0] = x[0] + 1.0\n:bench x * 2.0\nx[0]\n");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("(median of ") && lines[1].contains("(median of "), "{}\n{}", ran.out, ran.err);
    assert!(lines[2].contains("x * 2.0") && lines[2].contains("B/s"), "{}", ran.out);
    assert!(lines[3].contains("counted once"), "{}", ran.out);
    assert_eq!(lines[4], "1.0", "measuring changes nothing");
}

#[test]
fn a_kernel_as_code() {
    let ran = session("kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\n:ir inc\n:ir inx\n");
    assert!(ran.out.contains("kernel inc("), "{}", ran.out);
    assert!(ran.err.contains("`inx` is not a kernel; did you mean `inc`?"), "{}", ran.err);
    let ran = session(
        "kernel inc<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + T(1) }\nfn f() -> i32 { 1 }\n\
         import std.nn\n:cuda inc\n:cuda nn.softmax_long\n:cuda\n:cuda f\n",
    );
    assert!(ran.out.starts_with("// for T = f32\n") && ran.out.contains("const float *__restrict__ x"), "{}", ran.out);
    assert_eq!(ran.out.matches("__global__").count(), 2, "{}", ran.out);
    assert!(ran.err.contains("`:cuda` wants the name of a kernel; there is inc"), "{}", ran.err);
    assert!(ran.err.contains("`f` is a function"), "{}", ran.err);
}

#[test]
fn proofs_of_kernels_are_shown() {
    let ran = session(
        "kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = 1 + x[i] / 2 }\n:prove inc\n:prove inx\n\
         kernel next(x: [i32; N], out y: [i32; N]) threads(i: N) assume N > 0 { y[i] = x[i + 1] }\n:prove\n",
    );
    assert!(ran.out.starts_with("inc\n  in bounds       proved for all sizes\n"), "{}", ran.out);
    assert!(ran.out.contains("next\n  assuming N > 0\n  in bounds       refuted by N = 1\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("inc\n  in bounds").count(), 2, "{}", ran.out);
    assert!(ran.err.contains("`inx` is not a kernel; did you mean `inc`?"), "{}", ran.err);
    assert!(ran.err.contains("E0601"), "{}", ran.err);
    let ran = session(":prove\n");
    assert!(ran.err.contains("there is nothing to prove: the session has no kernels yet"), "{}", ran.err);
}

#[test]
fn entry_costs_are_shown() {
    let ran = session(
        "kernel turned(x: [f32; N, N], out y: [f32; N, N]) threads(i: N, j: N) { y[j, i] = x[i, j] }\nlet x = ones(64, 64)\n\
         :profile turned(x);\n:profile 1 + 1\n:profile\nsum(turned(x))\n",
    );
    assert!(ran.out.contains("turned: 64 x 64 threads\n  at best"), "{}", ran.out);
    assert!(ran.err.contains("W0901") && ran.err.contains("`:profile` wants an entry"), "{}", ran.err);
    assert!(ran.out.contains("no kernel was launched\n"), "{}", ran.out);
    assert!(ran.out.contains("4096.0"), "the session goes on: {}", ran.out);
}

/// Showing a kernel's PTX requires NVRTC, and showing its machine instructions also requires a disassembler. If one is
/// missing, the session reports that and how to install it.
#[test]
fn a_kernel_as_instructions() {
    let ran =
        session("kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\n:ptx inc\n:sass inc\n1\n");
    assert!(ran.out.ends_with("1\n"), "the session goes on: {}", ran.err);
    if ran.err.contains("NVRTC is not found") {
        println!("skipped: without NVRTC there is only the complaint");
        assert!(ran.err.contains("Help: `pip install"), "{}", ran.err);
        return;
    }
    assert!(ran.out.contains(".entry inc") && ran.out.contains("registers"), "{}\n{}", ran.out, ran.err);
    let has_tool = !ran.err.contains("neither `nvdisasm`");
    assert!(!has_tool || ran.out.contains("EXIT"), "{}\n{}", ran.out, ran.err);
    assert!(has_tool || ran.err.contains("Help: install the CUDA toolkit"), "{}", ran.err);
}

#[test]
fn entries_run_checked_and_unchecked() {
    let racy = "kernel racy(x: [i32; N], out y: [i32; 1]) threads(i: N) { y[0] = x[i] }\nlet x = [1, 2, 3]\n";
    let ran = session(&format!(
        "{racy}:check\n:check off\nlet y = racy(x);\n:check let z = racy(x)\nz\n:check\n:check on\nracy(x)\n"
    ));
    assert!(ran.out.contains("checks are on: races") && ran.out.contains("checks are off"), "{}", ran.out);
    assert!(ran.err.contains("<entry 4>:1:9"), "the entry that was checked has a fault: {}", ran.err);
    assert!(ran.err.contains("nothing here is called `z`"), "{}", ran.err);
    assert!(ran.err.contains("<entry 6>:1:1") && !ran.err.contains("<entry 3>"), "{}", ran.err);
    let ran = session(&format!("{racy}:check off\n:check racy([6, 6])[0] * 2\n:check 1 + 1\n:check nosuch\n_\n"));
    assert_eq!(
        ran.out,
        "checks are off; `:check on` turns them on, `:check ENTRY` runs one entry with them\n12\n1 launch checked\n2\n\
         nothing was launched that could be checked\n2\n",
        "{}",
        ran.err
    );
}

#[test]
fn kernels_run_on_the_chosen_device() {
    let ran = session(
        "kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\nlet x = inc([1, 2, 3])\n\
         :device sim\nsum(inc(x))\n:device\n:device gpu:4000\n:device gqu\nsum(inc(inc(x)))\n",
    );
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[..2], ["kernels run on the simulator from now on; values stay", "12"], "{}", ran.err);
    assert!(lines[2].starts_with("* sim") && lines[2].ends_with(" threads"), "{}", ran.out);
    assert!(lines[3].starts_with("  gpu"), "{}", ran.out);
    assert_eq!(lines.last(), Some(&"15"), "{}", ran.err);
    assert!(ran.err.contains("`gpu:4000` cannot be used") && ran.err.contains("as before"), "{}", ran.err);
    assert!(ran.err.contains("there is no device `gqu`"), "{}", ran.err);
}

#[test]
fn files_are_loaded_and_reloaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("lib.clk", "fn f() -> i32 { 1 }\n");
    write("main.clk", "import \"./lib.clk\" as lib\nlet a = lib.f()\nprint(\"loaded\")\n");
    let entries = ":load main.clk\na\nimport \"./lib.clk\" as own\nfn g() -> i32 { own.f() }\ng()\n:reload\n:load nosuch.clk\na\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert_eq!(ran.out, "loaded\n1\n1\nalso in `g`\nloaded\n1\n", "{}", ran.err);
    assert!(ran.err.contains("E0701"), "{}", ran.err);
}

#[test]
fn entries_are_edited() {
    let folder = tempfile::tempdir().expect("a folder");
    let editor = "sed -i s/1/40/";
    let edit = |entries: &str| {
        let mut command = clk_testing::clk(folder.path());
        command.args(["repl", "--plain", "--ascii"]).env("VISUAL", "").env("EDITOR", editor);
        clk_testing::finish_with_input(&mut command, entries)
    };
    let ran = edit("/// One.\nfn f() -> i32 { 1 }\nf()\n:edit f\nf()\nlet x = 1\n:edit\nx\n:edit nosuch\n");
    assert_eq!(ran.out, "1\n40\n40\n", "{}", ran.err);
    assert!(ran.err.contains("`nosuch` is not defined"), "{}", ran.err);
}

/// Saves a session and runs the script; checks that the script prints what the session showed.
#[track_caller]
fn saved_and_run(entries: &str, expected: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], &format!("{entries}:save s.clk\n"));
    assert!(plain.out.contains("wrote s.clk"), "{}\n{}", plain.out, plain.err);
    let script = fs::read_to_string(folder.path().join("s.clk")).expect("saved");
    let ran = run(folder.path(), &["run", "--ascii", "s.clk"]);
    assert_eq!(ran.out, expected, "{script}\n{}", ran.err);
    script
}

#[test]
fn sessions_are_saved_as_scripts() {
    saved_and_run(
        "import std.nn\n/// Doubled.\nfn f(x: f32) -> f32 { 2.0 * x }\nlet x = [1.0, 2.0]\nx + 1.0\nnosuch\nsum(_)\nf(3.0);\n_ + _6\nprint(x)\nlet x = 5\nx\n",
        "[2. 3.]\n5.0\n11.0\n[1. 2.]\n5\n",
    );
}

#[test]
fn saved_scripts_keep_used_definitions() {
    let script = saved_and_run(
        "fn f(x: i32) -> i32 { x + 1 }\nfn g(x: i32) -> i32 { f(x) * 10 }\ng(1)\nfn f(x: i32) -> i32 { x + 2 }\ng(1)\nlet f = 3\nf\n",
        "20\n30\n3\n",
    );
    assert!(script.contains("fn f_1(") || script.contains("fn g_1("), "{script}");
}

#[test]
fn saved_scripts_separate_variables_from_definitions() {
    let script = saved_and_run(
        "let x = 2\nlet y = x + 1\nfn x() -> i32 { 40 }\nfn z() -> i32 { x() + 2 }\nx() + y\nlet (y, z) = (z(), 1)\ny + z\n",
        "43\n43\n",
    );
    assert!(script.contains("fn x_1()") && script.contains("let x = 2"), "{script}");
}

/// In a saved script, a definition that was replaced later gets a name that the session does not use. Only uses of the
/// definition are renamed, not fields and parameters with the same name.
#[test]
fn saved_scripts_rename_only_uses_of_definitions() {
    let script = saved_and_run(
        "fn k(x: i32) -> i32 { x + 1 }\nlet k_1 = 100\nfn k_2(k: i32) -> i32 { 2 * k }\nstruct Box { k: i32 }\nk(1) + k_2(k = 3)\n\
         let t = \"{k(1)} of {k_1}\"\nfn k(x: i32) -> i32 { x + 10 }\nlet b = Box { k: k(1) }\nb.k + k_2(k = 4) + k_1\nprint(t)\n",
        "8\n119\n2 of 100\n",
    );
    assert!(
        script.contains("let k_1 = 100") && script.contains("fn k_2(k: i32)") && script.contains("Box { k: "),
        "{script}"
    );
}

/// An entry may change the type of a variable that it reads. The names after it still refer to the definitions of the
/// session.
#[test]
fn saved_scripts_keep_definitions_used_by_an_entry_that_shadows_a_variable() {
    let script = saved_and_run(
        "fn f(x: f32) -> f32 { x + 1.0 }\nlet v = 2.0\nlet v = [f(v), f(2.0 * v)]\nv\nfn f(x: f32) -> f32 { 100.0 * x }\nf(1.0)\n",
        "[3. 5.]\n100.0\n",
    );
    assert!(script.contains("[f_1(v), f_1(2.0 * v)]"), "{script}");
}

/// The names in an entry that imports a module of a project refer to the definitions of the session. A member of the
/// module with the name of such a definition does not.
#[test]
fn saved_scripts_keep_definitions_used_by_an_entry_with_an_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("clk.toml", "name = \"app\"\n");
    write("shapes.clk", "fn scale(x: f32, by: f32) -> f32 { x * by }\nfn g(x: f32) -> f32 { x + 0.5 }\n");
    write(
        "m.clk",
        "import app.shapes\nfn g(a: f32) -> f32 { a }\nprint(shapes.scale(2.0, by = { let u = g(3.0)\nu }) + shapes.g(0.0))\n",
    );
    let entries = ":load m.clk\nfn g(a: f32) -> f32 { 100.0 * a }\ng(1.0)\n:save s.clk\n";
    let plain = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert!(plain.out.starts_with("6.5\n100.0\n") && plain.err.is_empty(), "{}\n{}", plain.out, plain.err);
    let script = fs::read_to_string(folder.path().join("s.clk")).expect("saved");
    let ran = run(folder.path(), &["run", "--ascii", "s.clk"]);
    assert_eq!(ran.out, "6.5\n100.0\n", "{script}\n{}", ran.err);
    assert!(script.contains("g_1(3.0)") && script.contains("shapes.g(0.0)"), "{script}");
}

#[test]
fn saved_scripts_repeat_the_random_numbers_of_the_session() {
    let draw = |entries: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let words = ["repl", "--plain", "--ascii", "--seed", "9"];
        let plain = run_with_input(folder.path(), &words, &format!("{entries}:save s.clk\n"));
        let (shown, _) = plain.out.split_once("wrote s.clk").unwrap_or_else(|| panic!("{}\n{}", plain.out, plain.err));
        let ran = run(folder.path(), &["run", "--ascii", "s.clk"]);
        let shown: Vec<&str> = shown.lines().filter(|line| line.starts_with('[') && !line.contains(';')).collect();
        assert_eq!(ran.out.lines().collect::<Vec<_>>(), shown, "{}", ran.err);
    };
    draw("random(2)\n");
    draw("random(2)\n:set seed 7\nrandom(2)\nrandom_int(0, 99, 3)\n:set seed 18446744073709551615\nrandom(1)\n");
    draw("let x = random(2)\nseed_random(3)\nx + random(2)\n");
}

/// Entering a struct again without a change does not create a new type. Neither does checking it again because a name
/// that occurs in it was defined.
#[test]
fn an_unchanged_struct_stays_the_same() {
    let ran = session(
        "struct P { x: f32, y: f32 }\nstruct Q { p: P, n: i32 }\nfn total(q: Q) -> f32 { q.p.x + q.p.y + f32(q.n) }\n\
         let q = Q { p: P { x: 1.0, y: 2.0 }, n: 3 }\nlet many = [q.p, q.p]\nstruct P { x: f32, y: f32 }\ntotal(q)\n\
         fn y(z: f32) -> f32 { 2.0 * z }\ntotal(q) + y(1.0)\nstruct Q { p: P, n: i32 }\nstruct P { x: f32, y: f32 }\ntotal(q)\n\
         var other = q\nother = Q { p: many[1], n: 4 }\ntotal(other)\n",
    );
    let shown: Vec<&str> = ran.out.lines().filter(|line| !line.starts_with("also in")).collect();
    assert_eq!((shown, ran.err.contains("error")), (vec!["6.0", "8.0", "6.0", "7.0"], false), "{}", ran.err);
    // A struct with the same name but different fields is a new type.
    let ran = session(
        "struct P { x: f32 }\nlet p = P { x: 1.0 }\nfn f(p: P) -> f32 { p.x }\nstruct P { x: f32, y: f32 }\nf(p)\n",
    );
    assert!(ran.err.contains("error[E0301]"), "{}\n{}", ran.out, ran.err);
    let ran = session(
        "const N = 2\nstruct P { x: [f32; N] }\nlet p = P { x: [1.0, 2.0] }\nfn f(p: P) -> f32 { sum(p.x) }\nconst N = 3\nf(p)\n",
    );
    assert!(ran.err.contains("error[E0301]"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn only_the_last_value_of_an_entry_is_shown() {
    let ran = session("let a = [3, 1, 2]\nsort(a)\na + 1; sort(a)\n");
    assert_eq!(ran.out, "[1 2 3]\n[i32; 3]\n[1 2 3]\n[i32; 3]\n", "{}", ran.err);
    assert_eq!(ran.err.matches("warning[W0005]").count(), 1, "{}", ran.err);
    assert!(!ran.err.contains("W0012"), "{}", ran.err);
}

#[test]
fn foreign_files_are_replaced_only_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.clk");
    let session = |entries: &str| run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    fs::write(&path, "// precious\n").expect("written");
    for (entries, complaint) in [
        (":save s.clk\n", "nothing to save"),
        (":save! s.clk\n", "nothing to save"),
        ("let x = 1\n:save s.clk\n", "`:save! s.clk` replaces it"),
        (":vars!\n", "takes no `!`"),
    ] {
        let ran = session(entries);
        assert!(ran.err.contains(complaint), "{}", ran.err);
        assert_eq!(fs::read_to_string(&path).expect("there"), "// precious\n");
    }
    // A session may overwrite a file that it has written itself.
    let ran = session("let x = 1\n:save! s.clk\nlet y = 2\n:save s.clk\n:save ./s.clk\n");
    assert_eq!((ran.err.as_str(), ran.out.matches("wrote").count()), ("", 3), "{}", ran.out);
    assert!(fs::read_to_string(&path).expect("there").contains("let y = 2"));
}

#[test]
fn a_script_with_mistakes_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = "import std.nn\nlet nn = 3\n:save s.clk\nnn\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert!(ran.err.contains("error[E0202]: `nn` is defined twice"), "{}", ran.err);
    assert!(ran.err.contains("`s.clk` was not written"), "{}", ran.err);
    assert_eq!(ran.out, "3\n", "the session goes on");
    assert!(!folder.path().join("s.clk").exists());
}

#[test]
fn pictures_go_to_files_and_to_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = "let x = reshape(linspace(0.0, 1.0, 6), 2, 3)\nheat(x)\nheat(\"h.png\", x)\nheat(\"h.svg\", x)\nimage(\"i.svg\", x)\n\
                   plot(\"p.svg\", x[0, ..])\nimage(x)\nheat([1.0])\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert!(ran.out.contains("0 ... 1, from dark to bright\n"), "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("E0717") && ran.err.matches("error").count() == 1, "{}", ran.err);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    assert!(read("h.png").starts_with(b"\x89PNG"));
    for name in ["h.svg", "i.svg", "p.svg"] {
        assert!(read(name).starts_with(b"<svg "), "{name}");
    }
}

#[test]
fn history_lists_entries() {
    check("let x = 1\nlet y = 2\n:history\n:history y =\n", "   1  let x = 1\n   2  let y = 2\n   2  let y = 2\n");
}

/// History numbers equal the numbers in prompts, which also count commands and failed entries.
#[test]
fn history_numbers_match_prompts() {
    let ran = session("let x = 1\n:type x\nnosuch\nx\n:history\n");
    assert_eq!(ran.out, "i32\n1\n   1  let x = 1\n   2  :type x\n   2  nosuch\n   3  x\n", "{}", ran.err);
}

#[test]
fn customary_exit_and_help_commands_work() {
    let ran = session("help(sqrt)\nhelp(\"std.math\")\nhelp()\nexit()\n1\n");
    assert!(ran.out.contains("The square root") && ran.out.contains("smoothstep"), "{}", ran.out);
    assert!(ran.out.contains("New here?") && !ran.out.ends_with("1\n"), "{}", ran.out);
    // A function `exit` that the user defines takes precedence over the builtin `exit`.
    assert_eq!(session("fn exit() -> i32 { 3 }\nexit()\n").out, "3\n");
}

#[test]
fn texts_and_tables_in_a_session() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.csv"), "name,n\n\"a\u{1b}[2J\",1\n").expect("written");
    let entries =
        "let t = load(\"t.csv\")\nt\nlet s = t.name[0]\ns\n:vars\n:info t\n:info s\nt.name\n:type split(\"a\")\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    let table = "name          n\nstr         f64\na\\u{1b}[2J  1.0\n";
    let expected = format!(
        "{table}a\\u{{1b}}[2J\nlet t: table of arrays\nlet s: str = \"a\\u{{1b}}[2J\"\nlet t: table of arrays\n{table}\
         let s: str = \"a\\u{{1b}}[2J\"\n[\"a\\u{{1b}}[2J\"]\n[str; _]\n"
    );
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (expected.as_str(), ""));
}

#[test]
fn an_entry_ends_the_session_with_a_code() {
    let ran = session("let x = 2\nprint(x); exit(x + 5)\nprint(1)\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (7, "2\n", ""));
    // The exit code is also respected if the input does not end in a newline.
    assert_eq!(session("exit(4)").code, 4);
    // An invalid exit code does not end the session, and neither does `exit` in a loaded file, a measurement or a test.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.clk"), "let a = 1\nexit(3)\n").expect("written");
    let entries = "exit(256)\n:load a.clk\n:time exit(5)\ntest \"t\" { exit(6) }\nprint(12)\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert_eq!((ran.code, ran.out.lines().last()), (0, Some("12")), "{} {}", ran.out, ran.err);
    assert_eq!((ran.err.matches("E0541").count(), ran.err.matches("E0547").count()), (1, 3), "{}", ran.err);
}

/// `clk doc`, `:doc`, `:help` and `?` print the same text.
#[test]
fn documentation_is_the_same_everywhere() {
    let doc = |words: &[&str]| run(Path::new(env!("CARGO_MANIFEST_DIR")), &[&["doc", "--ascii"], words].concat());
    let all = doc(&[]);
    for part in ["sqrt", "std.reduce", "position_of_max", "Keywords", "kernel", "warp_reduce_add"] {
        assert!(all.out.contains(part), "{part}: {}", all.out);
    }
    assert_eq!(session(":doc\n").out, all.out);
    let std = doc(&["std"]);
    assert!(std.out.starts_with("The standard library") && std.out.contains("std.sparse"), "{}", std.out);
    for entry in ["?std\n", ":doc std\n", ":help std\n", "help(std)\n"] {
        assert_eq!(session(entry).out, std.out, "{entry}");
    }
    // Documentation is found by the unqualified name of a library member, by a keyword, and by search words.
    assert_eq!(session("?lerp\n").out, doc(&["lerp"]).out);
    assert!(doc(&["lerp"]).out.starts_with("std.math\n"), "{}", doc(&["lerp"]).out);
    assert!(doc(&["matvec"]).out.contains("std.linalg\n") && doc(&["matvec"]).out.contains("std.sparse\n"));
    assert!(doc(&["shared"]).out.contains("threads of a block share"), "{}", doc(&["shared"]).out);
    let doc_search = doc(&["matrix", "product"]);
    assert!(doc_search.out.contains("`std.linalg.matmul`") && doc_search.code == 0, "{}", doc_search.out);
    assert_eq!(session("? matrix product\n").out, doc_search.out);
    let none = doc(&["sqrrt"]);
    assert!(none.code == 1 && none.err.contains("did you mean `sqrt`"), "{}", none.err);
    assert!(!doc(&["std.reduce"]).out.contains("const THREADS"), "only what is public");
}

#[test]
fn a_reloaded_file_keeps_its_place_in_the_saved_script() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("lib.clk"), "fn f() -> i32 { 41 }\nlet base = 1\n").expect("written");
    let entries = ":load lib.clk\nlet y = f() + base\n:reload\ny\n:save s.clk\n";
    let ran = run_with_input(folder.path(), &["repl", "--plain", "--ascii"], entries);
    assert!(ran.out.contains("wrote s.clk"), "{}\n{}", ran.out, ran.err);
    let script = fs::read_to_string(folder.path().join("s.clk")).expect("saved");
    assert!(script.find("let base") < script.find("let y"), "{script}");
    assert_eq!(run(folder.path(), &["run", "s.clk"]).out, "42\n", "{script}");
}

#[test]
fn paths_may_begin_in_the_users_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("lib.clk"), "let a = 7\n").expect("written");
    let mut command = clk_testing::clk(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(["repl", "--plain", "--ascii"]).env("HOME", folder.path());
    let ran = clk_testing::finish_with_input(&mut command, ":load ~/lib.clk\na\n:save ~/s.clk\n");
    assert!(ran.out.starts_with("7\nwrote "), "{}\n{}", ran.out, ran.err);
    assert!(folder.path().join("s.clk").is_file());
}

#[test]
fn arrays_use_the_width_there_is() {
    let lines = |width: &str| session(&format!(":set width {width}\narange(60)\n")).out.lines().count();
    assert!(lines("200") < lines("80") && lines("80") < lines("40"));
}

#[test]
fn recorded_tuning_is_used() {
    let ran = session("let x = ones(3)\n:bench x + 1.0\n:time x + 1.0\ntime { x + 1.0 };\n");
    assert_eq!(ran.err, "", "{}", ran.out);
}

#[test]
fn calls_nest_ten_thousand_deep() {
    let down = "fn down(n: i32) -> i32 { if n == 0 { 0 } else { 1 + down(n - 1) } }\n";
    check(&format!("{down}down(9_990)\n"), "9990\n");
    let ran = session(&format!("{down}down(20_000)\ndown(5)\n"));
    assert!(ran.err.contains("E0517") && ran.err.contains("more than 10000 deep"), "{}", ran.err);
    assert!(ran.err.contains("more calls lead here"), "{}", ran.err);
    assert_eq!(ran.out, "5\n", "the session goes on");
    // Recursive calls inside large expressions use more stack per call; they hit the recursion limit instead of
    // crashing.
    let deep = format!("fn d(n: i32) -> i32 {{ {}d(n + 1){} }}\nd(0)\n1\n", "(1 + ".repeat(150), ")".repeat(150));
    let ran = session(&deep);
    assert!(ran.err.contains("E0517") && ran.out == "1\n", "{}", ran.err);
}

#[test]
fn messages_are_explained() {
    let ran = session(":explain\nnosuch\n:explain\n:explain E0701\n:explain X1\n");
    assert!(ran.out.contains("E0201: ") && ran.out.contains("E0701: "), "{}", ran.out);
    assert!(ran.err.contains("there was no message yet") && ran.err.contains("no code `X1`"), "{}", ran.err);
}

#[test]
fn settings_are_shown_and_changed() {
    let ran = session(
        ":set\n:set seed 7\n:set workers 1\n:set max-steps 1_000\n:set vi on\n:set nosuch 1\n:set vi maybe\n\
                       kernel forever(out y: [i32; 1]) threads(i: 1) { var n = 0; loop { n += 1; if n < 0 { break } }; y[0] = n }\nforever()\n",
    );
    assert!(ran.out.contains("hints      on ") && ran.out.contains("highlight  on "), "{}", ran.out);
    assert!(ran.out.contains("seed       7 ") && ran.out.contains("vi         on "), "{}", ran.out);
    assert!(ran.err.contains("no setting `nosuch`") && ran.err.contains("neither `on` nor `off`"), "{}", ran.err);
    assert!(ran.err.contains("E0608") || ran.err.contains("turns"), "{}", ran.err);
}

/// Isolation (kernels on GPUs run in a separate process) is on by default, and does not affect the simulator.
#[test]
fn isolation_is_a_setting() {
    let on = "isolate    on       kernels on GPUs run in a process of their own\n";
    let (kernel, off) =
        ("kernel inc(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1 }\n", on.replace("on  ", "off "));
    check(
        &format!(":set isolate\n{kernel}let x = inc([1, 2])\n:set isolate off\nsum(inc(x))\n"),
        &format!("{on}{off}7\n"),
    );
}

#[test]
fn reset_and_quit() {
    let ran = session("let n = 3\n:reset\n:vars\n:nosuch\n:re\n:quit\n1\n");
    assert_eq!(ran.out, "", "{}", ran.err);
    assert!(ran.err.contains("no command `:nosuch`") && ran.err.contains("could be :reload or :reset"), "{}", ran.err);
}

/// Runs the session in the manual and compares its output. The manual shows only the first line of each diagnostic.
#[test]
fn session_in_the_manual_matches() {
    let page = include_str!("../../docs/session.md");
    let block = page.split("```text\nclk 1> ").nth(1).and_then(|rest| rest.split("```").next()).expect("a session");
    let block = format!("clk 1> {block}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut entries = String::new();
    let mut expected = String::new();
    let mut entry = String::new();
    for line in block.lines() {
        let prompt = line.strip_prefix("clk ").and_then(|rest| rest.split_once("> "));
        match prompt {
            Some((_, text)) => entry = text.to_string(),
            None if !entry.is_empty() => entry = format!("{entry}\n{line}"),
            None => expected += &format!("{line}\n"),
        }
        let is_command = entry.starts_with(':');
        if !entry.is_empty() && (is_command || !clk_syntax::is_incomplete(&entry)) {
            entries += &format!("{}\n", std::mem::take(&mut entry));
        }
    }
    // Sends stdout and stderr to one pipe, so that they are interleaved as on a screen.
    let script = format!("'{}' repl --plain 2>&1", env!("CARGO_BIN_EXE_clk"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path()).env("NO_COLOR", "1");
    let shown = clk_testing::finish_with_input(&mut shell, &entries).out;
    let mut in_message = false;
    let stable_lines = shown.lines().filter(|line| {
        let first = line.starts_with("error[");
        let part = in_message && !first;
        in_message = first || in_message && !line.starts_with("───╯");
        !part && !line.is_empty()
    });
    let stable_text: String = stable_lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(stable_text, expected, "{shown}");
}
