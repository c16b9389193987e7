//! Compares array functions with NumPy, for random arrays of all element types: `sort` and `argsort` along axes,
//! `transpose`, `stack`, `einsum`, indices with arrays, `std.arrays`, and the scans of `std.scan`. Without a Python
//! that has NumPy (`CLK_PYTHON`, or else `python3`) the test prints that it is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn results_agree_with_numpy() {
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
        let out = command.current_dir(folder.path()).arg(tests.join("array_functions.py")).arg(task).output();
        let out = out.expect("Python runs");
        let printed = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{task}: {printed}{}", String::from_utf8_lossy(&out.stderr));
        printed
    };
    step("make");
    let script = tests.join("array_functions.clk");
    let ran = clk_testing::run(folder.path(), &["run", &script.to_string_lossy()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let compared = step("check");
    assert!(compared.contains("results compared"), "{compared}");
}
