"""Tests of type annotations: the stub of the extension, the package, and generated stubs."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import clk
import pytest

PACKAGE = pathlib.Path(clk.__file__).parent

PROGRAM = """
kernel scaled(x: [f32; N], by: f32 = 2.0, out y: [f32; N]) threads(i: N) { y[i] = by * x[i] }
fn plus_one(n: i64) -> i64 { n + 1 }
"""

VALID = """
import clk
import numpy as np
import program

x = np.ones(3, "float32")
program.scaled(x, by=2.0, check=True)
n: int = program.plus_one(3)
proof: clk.Proof = program.scaled.prove()
verdicts: dict[str, str] = proof.verdicts
proved: bool = proof.is_proved
counts = program.scaled.profile(x, gpu="a100").counts
tree: str = program.scaled.why("y[0]", x, levels=3)
text: str = clk.source("fn f() -> i32 { 1 }").f.cuda()
places: tuple[str, ...] = program.scaled.dimensions
"""

INVALID = ["program.plus_one('a')", "program.scaled()", "program.scaled.prove(1)", "program.scaled.why(x)", "clk.load()"]


def run_module(module, *arguments, **options):
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, **options)


def test_extension_stub_is_complete(tmp_path):
    pytest.importorskip("mypy.stubtest")
    done = run_module("mypy.stubtest", "clk._clk", cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(folder, **settings):
    """Runs pyright on a folder. Returns its errors as pairs of line and message."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    (folder / "pyrightconfig.json").write_text(json.dumps({"pythonVersion": "3.11", "extraPaths": [str(PACKAGE.parent)], **settings}))
    done = run_module("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder), timeout=600)
    try:
        diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        # The Python package of pyright downloads the type checker at its first run, which may fail.
        pytest.skip(f"pyright does not run here: {(done.stdout + done.stderr).strip()[:300]}")
    errors = [diagnostic for diagnostic in diagnostics if diagnostic["severity"] == "error"]
    return [(error["range"]["start"]["line"], error["message"]) for error in errors]


def test_pyright_accepts_the_package(tmp_path):
    assert pyright(tmp_path, include=[str(PACKAGE)], reportMissingImports="none") == []


def test_pyright_checks_calls_with_generated_stubs(tmp_path):
    (tmp_path / "program.pyi").write_text(clk.source(PROGRAM).stubs())
    use = tmp_path / "use.py"
    use.write_text(VALID)
    assert pyright(tmp_path, include=["use.py"]) == []
    use.write_text(VALID + "\n".join(INVALID) + "\n")
    first = VALID.count("\n")
    lines = sorted({line for line, _ in pyright(tmp_path, include=["use.py"])})
    assert lines == list(range(first, first + len(INVALID)))


def test_mypy_accepts_inspection(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.pyi").write_text(clk.source(PROGRAM).stubs())
    (tmp_path / "use.py").write_text(VALID)
    done = run_module("mypy", "--strict", "--ignore-missing-imports", "use.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
