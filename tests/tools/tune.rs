//! Tests kernels with a `tune` clause: which choice launches use, `clk tune` on the simulator, and `clk test
//! --tunings`.

use std::fs;
use std::path::Path;

use clk_testing::{RunOutput, diagnostics, run};
use tempfile::TempDir;

/// A transposition whose block sizes are tuned, and a bench of it.
const TRANSPOSE: &str = "
kernel transpose<const B: i32 = 8, const R: i32 = 4>(x: [f32; M, N], out y: [f32; N, M])
    grid(ceil_div(N, B), ceil_div(M, B)) block(B, R)
    tune B in [8, 16], R in [2, 4, 8]
    assume B * R <= 64
{
    shared tile: [f32; B, B]
    let (row, col) = (B * block_idx.y, B * block_idx.x)
    for k in thread_idx.y..B step R {
        if row + k < M && col + thread_idx.x < N { tile[k, thread_idx.x] = x[row + k, col + thread_idx.x] }
    }
    barrier()
    for k in thread_idx.y..B step R {
        if col + k < N && row + thread_idx.x < M { y[col + k, row + thread_idx.x] = tile[thread_idx.x, k] }
    }
}
";

const BENCH: &str = "bench \"transpose\" { transpose(random(100, 50, seed = 1)) }\n";

/// A kernel that returns the value of `B` with which it was launched.
const WHICH: &str = "
kernel which<const B: i32 = 32>(out y: [i32; N]) grid(1) block(B) tune B in [32, 64, 128] { if thread_idx.x == 0 { y[0] = block_dim.x } }
";

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("k.clk"), text).expect("written");
    folder
}

fn on_sim(folder: &Path, words: &[&str]) -> RunOutput {
    run(folder, &[&["--device", "sim"], words].concat())
}

fn tune_file(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("k.tune")).expect("k.tune")
}

/// Returns the hash of the kernel's head (everything but the body) that `clk tune` writes.
fn head(text: &str) -> String {
    let folder = folder(text);
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = tune_file(&folder);
    let line = file.lines().find(|line| line.starts_with("kernel ")).expect("a kernel").to_string();
    line.rsplit(' ').next().expect("a number").to_string()
}

#[test]
fn launches_without_a_tuning_file_use_defaults() {
    let folder =
        folder(&format!("{WHICH}print(which(N = 3)[0]); print(which(N = 3, B = 64)[0]); which<<<1, 16>>>(N = 3);"));
    let ran = on_sim(folder.path(), &["run", "--stats", "k.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "32\n64\n"), "{}", ran.err);
    for said in [
        "which: B = 32; nothing was measured: `clk tune` does that",
        "which: B = 64; the launch says so",
        "which: B = 32; the launch has a geometry of its own",
    ] {
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn launches_use_tuned_choices() {
    let folder = folder(&format!("{TRANSPOSE}{BENCH}"));
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("transpose on sim, M = 100, N = 50, launched at k.clk:"), "{}", ran.out);
    assert!(ran.out.contains("wrote k.tune"), "{}", ran.out);
    let file = tune_file(&folder);
    assert!(file.starts_with("clk tunings 1\n// Written by `clk tune k.clk`"), "{file}");
    assert!(file.contains("\non sim\n  for M 65..=128, N 33..=64\n    choose B = "), "{file}");
    assert!(file.contains("\n    at M = 100, N = 50\n"), "{file}");
    // `B * R <= 64` excludes `B = 16, R = 8`, so five of six choices are measured.
    let times = file.lines().filter(|line| line.trim_start().starts_with("time ")).count();
    assert_eq!((times, file.contains("refused")), (5, false), "{file}");

    // A choice is used only for sizes in the ranges for which it was measured.
    let forced = file.lines().map(|line| match line.trim_start().starts_with("choose") {
        true => "    choose B = 16, R = 2".to_string(),
        false => line.to_string(),
    });
    fs::write(folder.path().join("k.tune"), forced.collect::<Vec<_>>().join("\n") + "\n").expect("written");
    let text = format!(
        "{TRANSPOSE}{BENCH}let x = random(100, 50, seed = 2); let y = transpose(x); assert(y[3, 7] == x[7, 3]); print(y[49, 99] == x[99, 49]);
transpose(zeros(10, 50));"
    );
    fs::write(folder.path().join("k.clk"), text).expect("written");
    let ran = on_sim(folder.path(), &["run", "--stats", "--check", "k.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "true\n"), "{}", ran.err);
    for said in [
        "transpose: B = 16, R = 2; measured for M 65..=128, N 33..=64 on sim (k.tune)",
        "transpose: B = 8, R = 4; k.tune has nothing for M 9..=16, N 33..=64 on sim",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }

    // `clk run` never writes the tuning file, and a second `clk tune` keeps the measurements of other devices.
    let text = tune_file(&folder).replace("\non sim\n", "\non NVIDIA H200\n");
    fs::write(folder.path().join("k.tune"), &text).expect("written");
    assert_eq!(on_sim(folder.path(), &["run", "k.clk"]).code, 0);
    assert_eq!(tune_file(&folder), text);
    assert_eq!(on_sim(folder.path(), &["tune", "k.clk", "transpose"]).code, 0);
    let both = tune_file(&folder);
    let order = (both.find("on NVIDIA H200").expect("kept"), both.find("on sim").expect("new"));
    assert!(
        order.0 < order.1 && both.contains("on NVIDIA H200\n  for M 65..=128, N 33..=64\n    choose B = 16, R = 2\n"),
        "{both}"
    );
}

#[test]
fn trials_do_not_change_arrays() {
    let folder = folder(
        "kernel double<const B: i32 = 32>(inout x: [i32; N]) grid(ceil_div(N, B)) block(B) tune B in [32, 64, 128] {
            if global_idx.x < N { x[global_idx.x] *= 2 }
        }
        var x = [1, 2, 3]
        double(x)
        double(x)
        assert(x == [4, 8, 12])
        print(\"twice\")",
    );
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!tune_file(&folder).contains("refused"), "{}", tune_file(&folder));
}

/// A kernel that gives wrong results with B = 64, fails with 96, and does not terminate with 128.
const FAULTY: &str = "
kernel faulty<const B: i32 = 32>(x: [i32; N], out y: [i32; N]) threads(i: N) tune B in [32, 64, 96, 128] {
    var n = 0
    while B == 128 && x[i] >= 0 { n = 1 - n }
    y[i] = if B == 64 && i == 2 { 7 } else if B == 96 { x[i + N] } else { x[i] + n }
}
";

#[test]
fn choices_that_change_results_are_refused() {
    let folder = folder(&format!("{FAULTY}bench \"faulty\" {{ faulty(arange(8)) }}"));
    let ran = on_sim(folder.path(), &["tune", "--timeout", "0.5", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = tune_file(&folder);
    for line in [
        "    choose B = 32\n",
        "    refused B = 64: `y[2]` is 7, by default 2\n",
        "    refused B = 96: E0601 index ",
        "    refused B = 128: it takes longer than 0.5 s\n",
    ] {
        assert!(file.contains(line), "{line}: {file}");
    }
}

#[test]
fn tests_verify_that_results_do_not_depend_on_choices() {
    let right = folder(&format!(
        "{TRANSPOSE}test \"t\" {{ let x = random(20, 9, seed = 1); assert(transpose(x)[1, 2] == x[2, 1]) }}"
    ));
    let ran = on_sim(right.path(), &["test", "--tunings", "k.clk"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("1 launch gave the same with 4 other choices"), "{}", ran.out);
    let wrong = folder(&format!(
        "{}test \"f\" {{ assert(faulty(arange(8))[1] == 1) }}",
        FAULTY.replace("[32, 64, 96, 128]", "[32, 64]")
    ));
    assert_eq!(on_sim(wrong.path(), &["test", "k.clk"]).code, 0);
    let ran = on_sim(wrong.path(), &["test", "--tunings", "--json", "k.clk"]);
    let reported = diagnostics(&ran);
    assert_eq!((ran.code, reported.len()), (1, 1), "{}", ran.err);
    assert_eq!(
        (reported[0]["code"].as_str(), reported[0]["title"].as_str()),
        (Some("E0619"), Some("with B = 64, `faulty` does something else"))
    );
    assert!(ran.err.contains("`y[2]` is 7, by default 2"), "{}", ran.err);
}

#[test]
fn invalid_tuning_files_are_reported() {
    let text = format!("{WHICH}print(which(N = 3)[0])");
    let head = head(&text);
    let entry = |head: &str, choose: &str| {
        format!("clk tunings 1\nkernel which {head}\non sim\n  for N 3..=4\n    choose {choose}\n")
    };
    // Each entry: the contents of `k.tune`, and the code and words of the report.
    for (file, code, words) in [
        (entry(&head, "B = 64"), None, ""),
        (entry(&head, "B = 48"), Some("W0612"), "line 4 of `k.tune` is out of date: `which` no longer lists B = 48"),
        (entry(&head, "C = 64"), Some("W0612"), "`B` is missing"),
        (entry(&head, "B = 64, C = 1"), Some("W0612"), "`which` no longer tunes `C`"),
        (
            entry("0000000000000001", "B = 64"),
            Some("W0612"),
            "line 2 of `k.tune` is out of date: the head of `which` has changed",
        ),
        ("{}".into(), Some("E0526"), "`k.tune` is not a tuning file: line 1"),
        (
            entry(&head, "B = 64").replace("on sim", "<<<<<<< ours"),
            Some("E0526"),
            "line 3: `<<<<<<<` says nothing here",
        ),
    ] {
        let folder = folder(&text);
        fs::write(folder.path().join("k.tune"), &file).expect("written");
        let ran = on_sim(folder.path(), &["run", "--json", "k.clk"]);
        let reported = diagnostics(&ran);
        let codes: Vec<&str> = reported.iter().filter_map(|d| d["code"].as_str()).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{file}");
        let error = code.is_some_and(|code| code.starts_with('E'));
        let printed = if error {
            ""
        } else if code.is_some() {
            "32\n"
        } else {
            "64\n"
        };
        assert_eq!((ran.code, ran.out.as_str()), (i32::from(error), printed), "{file}");
        assert!(reported.iter().all(|d| d["title"].as_str().is_some_and(|m| m.contains(words))), "{file}: {}", ran.err);
        // `clk tune` does not overwrite a file that it cannot read, and removes outdated entries.
        let ran = on_sim(folder.path(), &["tune", "--json", "k.clk"]);
        assert_eq!(ran.code, i32::from(error), "{}", ran.err);
        assert_eq!(tune_file(&folder) == file, error, "{file}");
        assert_eq!(on_sim(folder.path(), &["run", "--json", "k.clk"]).code, i32::from(error));
    }
}

/// `clk check` reads the tuning file even if the program launches nothing.
#[test]
fn check_reports_files_that_are_damaged_or_out_of_date() {
    let text = format!("{WHICH}fn unused() -> i32 {{ which(N = 3)[0] }}");
    let head = head(&format!("{WHICH}which(N = 3);"));
    let entry = |name: &str, head: &str, choose: &str| {
        format!("clk tunings 1\nkernel {name} {head}\non NVIDIA H200\n  for N 3..=4\n    choose {choose}\n")
    };
    for (file, code, words) in [
        (entry("which", &head, "B = 64"), None, ""),
        (
            entry("which", &head, "B = 48"),
            Some("W0612"),
            "line 4 of `k.tune` is out of date: `which` no longer lists B = 48",
        ),
        (
            entry("which", "0000000000000001", "B = 64"),
            Some("W0612"),
            "line 2 of `k.tune` is out of date: the head of `which`",
        ),
        (
            entry("other", &head, "B = 64"),
            Some("W0612"),
            "line 2 of `k.tune` is out of date: the source tunes no kernel `other`",
        ),
        ("{}".into(), Some("E0526"), "`k.tune` is not a tuning file: line 1"),
    ] {
        let folder = folder(&text);
        fs::write(folder.path().join("k.tune"), &file).expect("written");
        let ran = run(folder.path(), &["check", "--json", "k.clk"]);
        let reported = diagnostics(&ran);
        let codes: Vec<&str> = reported.iter().filter_map(|d| d["code"].as_str()).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{file}: {}", ran.err);
        assert_eq!(ran.code, i32::from(code == Some("E0526")), "{file}");
        assert!(reported.iter().all(|d| d["title"].as_str().is_some_and(|m| m.contains(words))), "{file}: {}", ran.err);
    }
}

#[test]
fn comments_and_layout_do_not_invalidate_a_file() {
    let text = format!("{WHICH}which(N = 3);");
    let other = text
        .replace("grid(1) block(B)", "\n    // One block.\n    grid(1)   block(B)")
        .replace("y[0] = block_dim.x", "y[0] = 5");
    assert_eq!(head(&text), head(&other));
    // If the kernel's body has changed since the measurement, the choice is still used, and `--stats` mentions the
    // change.
    let assert_chosen = |text: &str, words: &str| {
        let folder = folder(&format!("{WHICH}which(N = 3);"));
        assert_eq!(on_sim(folder.path(), &["tune", "k.clk"]).code, 0);
        fs::write(folder.path().join("k.clk"), text).expect("written");
        let ran = on_sim(folder.path(), &["run", "--stats", "k.clk"]);
        assert!(ran.code == 0 && ran.err.contains(words), "{}", ran.err);
    };
    assert_chosen(&text.replace("if thread_idx.x", "\n  // The first one.\n  if thread_idx.x"), "on sim (k.tune)\n");
    assert_chosen(&other, "on sim (k.tune), before its body changed\n");
    assert_ne!(head(&text), head(&text.replace("[32, 64, 128]", "[32, 64]")));
    assert_ne!(
        head(&text),
        head(&text.replace("out y: [i32; N]", "out y: [i64; N]").replace("block_dim.x", "i64(block_dim.x)"))
    );
}

#[test]
fn choices_that_violate_size_conditions_are_skipped() {
    let text = "kernel rows<const B: i32 = 1>(x: [i32; N], out y: [i32; N]) grid(N / B) block(B) tune B in [1, 2, 4] assume N % B == 0 {
        y[global_idx.x] = x[global_idx.x]
    }\n";
    let measured = folder(&format!("{text}bench \"r\" {{ rows(arange(6)) }}"));
    assert_eq!(on_sim(measured.path(), &["tune", "k.clk"]).code, 0);
    let file = tune_file(&measured);
    assert!(file.contains("refused B = 4: E0525"), "{file}");
    let forced: Vec<String> =
        file.lines().map(|l| if l.contains("choose") { "choose B = 2".into() } else { l.to_string() }).collect();
    fs::write(measured.path().join("k.tune"), forced.join("\n")).expect("written");
    fs::write(measured.path().join("k.clk"), format!("{text}print(rows(arange(8))[7], rows(arange(5))[4])"))
        .expect("written");
    let ran = on_sim(measured.path(), &["run", "--stats", "k.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "7 4\n"), "{}", ran.err);
    assert!(ran.err.contains("rows: B = 2; measured for N 5..=8 on sim (k.tune)"), "{}", ran.err);
    assert!(ran.err.contains("rows: B = 1; B = 2 of k.tune does not fit this launch"), "{}", ran.err);
}

/// Launches from one source location are prepared only once, but conditions on scalar arguments are tested at each
/// launch.
#[test]
fn choices_that_violate_scalar_conditions_are_skipped() {
    let text = "kernel scaled<const B: i32 = 2>(k: i32, x: [i32; N], out y: [i32; N]) grid(ceil_div(N, B)) block(B) tune B in [2, 3] assume k % B == 0 {
        if global_idx.x < N { y[global_idx.x] = k * B * x[global_idx.x] / B }
    }
    for k in [6, 4, 6, 8] { print(scaled(k, ones(4, type = i32))[3]) }
    ";
    let folder = folder(text);
    assert_eq!(on_sim(folder.path(), &["tune", "k.clk"]).code, 0);
    let forced = tune_file(&folder).replace("choose B = 2", "choose B = 3");
    fs::write(folder.path().join("k.tune"), forced).expect("written");
    let ran = on_sim(folder.path(), &["run", "--stats", "k.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "6\n4\n6\n8\n"), "{}", ran.err);
    assert!(ran.err.contains("scaled: B = 3; measured for N 3..=4 on sim (k.tune)"), "{}", ran.err);
    assert!(ran.err.contains("scaled: B = 2; B = 3 of k.tune does not fit this launch"), "{}", ran.err);
}

/// A choice that is not valid for a launch is not compared, since the launch would use the defaults.
#[test]
fn choices_invalid_for_test_launches_are_skipped() {
    let folder = folder(
        "kernel wide<const B: i32 = 2>(out y: [i32; N]) grid(1) block(N * B) tune B in [2, 3, 300] {
            if thread_idx.x < N { y[thread_idx.x] = 7 }
        }
        test \"w\" { assert(wide(N = 4) == [7, 7, 7, 7]) }",
    );
    let ran = on_sim(folder.path(), &["test", "--tunings", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("1 launch gave the same with 1 other choice"), "{}", ran.out);
}

/// The values in a `tune` clause may be named constants. A constant's value is not part of the kernel's head, so
/// changing it only drops choices with the old value.
#[test]
fn tune_drops_unlisted_choices() {
    let text = |wide: i32| {
        format!(
            "const WIDE: i32 = {wide}
            kernel filled<const B: i32 = 32>(out y: [i32; N]) grid(ceil_div(N, B)) block(B) tune B in [32, WIDE] {{
                if global_idx.x < N {{ y[global_idx.x] = 1 }}
            }}
            bench \"f\" {{ filled(N = 5) }}"
        )
    };
    let folder = folder(&text(64));
    assert_eq!(on_sim(folder.path(), &["tune", "k.clk"]).code, 0);
    let other = tune_file(&folder).replace("on sim", "on NVIDIA H200").replace("choose B = 32", "choose B = 64");
    fs::write(folder.path().join("k.tune"), other).expect("written");
    fs::write(folder.path().join("k.clk"), text(128)).expect("written");
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = "left out what was measured on NVIDIA H200: `filled` no longer lists B = 64";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert!(!tune_file(&folder).contains("H200"), "{}", tune_file(&folder));
}

#[test]
fn unlaunched_kernels_are_not_tuned() {
    let folder = folder(&format!("{TRANSPOSE}test \"t\" {{ transpose(zeros(3, 3)); }}"));
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nothing launches `transpose`") && ran.err.contains("write a bench"), "{}", ran.err);
    assert!(!folder.path().join("k.tune").exists());
    let ran = on_sim(folder.path(), &["tune", "k.clk", "transpoze"]);
    assert!(ran.code == 1 && ran.err.contains("did you mean `transpose`?"), "{}", ran.err);
    let ran = run(folder.path(), &["tune", "--timeout", "-1", "k.clk"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn choices_of_imported_kernels_are_stored_with_their_source() {
    let folder = folder(
        "import \"./lib.clk\" as lib\nbench \"t\" { lib.transpose(zeros(20, 20)) }\nlib.transpose(zeros(20, 20));",
    );
    fs::write(folder.path().join("lib.clk"), TRANSPOSE).expect("written");
    let ran = on_sim(folder.path(), &["tune", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(folder.path().join("lib.tune").exists() && !folder.path().join("k.tune").exists());
    let ran = on_sim(folder.path(), &["run", "--stats", "k.clk"]);
    assert!(ran.err.contains("measured for M 17..=32, N 17..=32 on sim (lib.tune)"), "{}", ran.err);
}

#[test]
fn derivatives_use_default_choices() {
    let text = "
kernel squares<const B: i32 = 32>(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, B)) block(B) tune B in [32, 64] {
    if global_idx.x < N { y[global_idx.x] = x[global_idx.x] * x[global_idx.x] }
}
fn total(x: [f32; N]) -> f32 { sum(squares(x)) }
bench \"s\" { squares(ones(5)) }
print(grad(total)([1.0, 2.0, 3.0, 4.0, 5.0]))
";
    let folder = folder(text);
    let before = on_sim(folder.path(), &["run", "k.clk"]);
    assert_eq!(on_sim(folder.path(), &["tune", "k.clk"]).code, 0);
    let forced = tune_file(&folder).replace("choose B = 32", "choose B = 64");
    fs::write(folder.path().join("k.tune"), forced).expect("written");
    let after = on_sim(folder.path(), &["run", "k.clk"]);
    assert_eq!((before.code, before.out.as_str()), (0, "[ 2.  4.  6.  8. 10.]\n"), "{}", before.err);
    assert_eq!(before.out, after.out);
}
