//! Compares `std.linalg` with LAPACK through NumPy, for random and badly conditioned matrices of both types. Without a
//! Python that has NumPy (`CLK_PYTHON`, or else `python3`) the test prints that it is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sizes below, at and beyond the widths of panels and of their parts.
const SIZES: [&str; 7] = ["1", "2", "3", "8", "31", "32", "65"];

#[test]
fn results_agree_with_lapack() {
    let python = PathBuf::from(std::env::var("CLK_PYTHON").unwrap_or("python3".into()));
    let has_numpy = Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|out| out.status.success());
    if !has_numpy {
        println!("skipped: no numpy");
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host");
    let folder = tempfile::tempdir().expect("a folder");
    let step = |task: &str| {
        let mut command = Command::new(&python);
        command.current_dir(folder.path()).env("OPENBLAS_NUM_THREADS", "1");
        let out = command.arg(tests.join("linear_algebra.py")).arg(task).args(SIZES).output().expect("Python runs");
        assert!(out.status.success(), "{task}: {}", String::from_utf8_lossy(&out.stderr));
    };
    step("make");
    let script = tests.join("linear_algebra.clk");
    let script = script.to_string_lossy();
    let ran = clk_testing::run(folder.path(), &[&["run", &script], &SIZES[..]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    step("check");
}
