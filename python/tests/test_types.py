"""The types of the package: the stub of the extension against the extension, and type checkers over the package and generated stubs."""

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

RIGHT = """
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

WRONG = ["program.plus_one('a')", "program.scaled()", "program.scaled.prove(1)", "program.scaled.why(x)", "clk.load()"]


def check(module, *arguments, **options):
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, **options)


def test_the_stub_of_the_extension_is_complete(tmp_path):
    pytest.importorskip("mypy.stubtest")
    done = check("mypy.stubtest", "clk._clk", cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(folder, **settings):
    """Runs pyright on a folder; returns its errors as pairs of line and message."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    (folder / "pyrightconfig.json").write_text(json.dumps({"pythonVersion": "3.11", "extraPaths": [str(PACKAGE.parent)], **settings}))
    done = check("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder), timeout=600)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        # The package downloads the type checker at its first run.
        pytest.skip(f"pyright does not run here: {(done.stdout + done.stderr).strip()[:300]}")
    return [(one["range"]["start"]["line"], one["message"]) for one in found if one["severity"] == "error"]


def test_pyright_takes_the_package(tmp_path):
    assert pyright(tmp_path, include=[str(PACKAGE)], reportMissingImports="none") == []


def test_pyright_takes_the_stubs_of_programs(tmp_path):
    (tmp_path / "program.pyi").write_text(clk.source(PROGRAM).stubs())
    use = tmp_path / "use.py"
    use.write_text(RIGHT)
    assert pyright(tmp_path, include=["use.py"]) == []
    use.write_text(RIGHT + "\n".join(WRONG) + "\n")
    first = RIGHT.count("\n")
    lines = sorted({line for line, _ in pyright(tmp_path, include=["use.py"])})
    assert lines == list(range(first, first + len(WRONG)))


def test_mypy_takes_questions(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.pyi").write_text(clk.source(PROGRAM).stubs())
    (tmp_path / "use.py").write_text(RIGHT)
    done = check("mypy", "--strict", "--ignore-missing-imports", "use.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
