"""Modules and kernels as Python objects: pickles, copies, reloads, errors, warnings, forks."""

import copy
import importlib
import inspect
import os
import pickle
import subprocess
import sys
import traceback
import warnings

import clk
import numpy as np
import pytest

TEXT = """
kernel double(x: [f32; N], by: f32 = 2.0, out y: [f32; N]) threads(i: N) { y[i] = by * x[i] }
kernel spin(rounds: i32, out y: [i32; N]) threads(i: N) {
    var n = 0
    for k in 0..rounds { n = (n << 1) ^ k }
    y[i] = n
}
fn twice(x: f32) -> f32 { 2.0 * x }
fn square(x: f32) -> f32 { x * x }
fn apply<f: fn(f32) -> f32>(x: f32) -> f32 { f(x) }
fn defaults(b: bool = true, k: i32 = -3, x: f32 = 0.5, v: f32x2 = f32x2(1.0, 2.0)) -> f32 {
    if b { x * f32(k) } else { v.x }
}
let variable = 3
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(TEXT, name="modules.clk")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own_module.clk"
    path.write_text(TEXT)
    return path


def test_kernels_and_modules_are_pickled(m, file):
    x = np.ones(2, "float32")
    for module in [m, clk.load(file)]:
        other = pickle.loads(pickle.dumps(module))
        assert other.__name__ == module.__name__ and other.double(x).tolist() == [2, 2]
        kernel = pickle.loads(pickle.dumps(module.double))
        assert kernel(x, 3.0).tolist() == [3, 3] and kernel.text == module.double.text
        checked = pickle.loads(pickle.dumps(module.double.using(device="sim", check=True)))
        assert checked(x).tolist() == [2, 2] and checked._settings == ("sim", True, False, False)
        assert pickle.loads(pickle.dumps(module.twice))(4) == 8
        both = pickle.loads(pickle.dumps([module.double, module.twice]))
        assert both[0]._program is both[1]._program
    file.write_text("fn other() -> i32 { 1 }")
    text = pickle.dumps(clk.load(file).other)
    file.write_text("fn another() -> i32 { 1 }")
    with pytest.raises((AttributeError, clk.Error)):
        from clk import _callable

        _callable.program_from_origin.cache_clear()
        pickle.loads(text)


def test_copies_are_the_same_object(m):
    for copy_function in [copy.copy, copy.deepcopy]:
        assert copy_function(m) is m and copy_function(m.double) is m.double
        assert copy_function({"kernel": m.double})["kernel"] is m.double


POOL = """
import multiprocessing, sys
import clk, numpy
if __name__ == "__main__":
    m = clk.source(TEXT)
    assert m.twice(1.0) == 2
    for method in METHODS:
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(m.twice, [1.0, 2.0, 3.0]), [y.tolist() for y in pool.map(m.double, [numpy.ones(2, "float32")] * 2)])
"""


def test_process_pools(tmp_path):
    import multiprocessing

    methods = multiprocessing.get_all_start_methods()
    script = tmp_path / "pool.py"
    script.write_text(POOL.replace("TEXT", repr(TEXT)).replace("METHODS", repr(methods)))
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert ran.stdout == "".join(f"{method} [2.0, 4.0, 6.0] [[2.0, 2.0], [2.0, 2.0]]\n" for method in methods), ran.stderr


def test_reloads_read_the_file_again(file, monkeypatch):
    importlib.import_module("clk.importer")

    monkeypatch.syspath_prepend(str(file.parent))
    module = importlib.import_module("own_module")
    try:
        assert module.__file__ == str(file) and module.__spec__.origin == str(file) and module.twice(1) == 2
        kernel = module.twice
        file.write_text("fn twice(x: f32) -> f32 { 3.0 * x }\nfn added() -> i32 { 1 }")
        assert importlib.reload(module) is module
        assert module.twice(1) == 3 and module.added() == 1 and not hasattr(module, "double") and kernel(1) == 2
        file.write_text("fn twice(")
        with pytest.raises(clk.CompileError):
            importlib.reload(module)
        assert module.twice(1) == 3
    finally:
        del sys.modules["own_module"]


def test_functions_as_compile_time_arguments(m):
    assert m.apply(3.0, f=m.twice) == 6 and m.apply(3.0, f=m.square) == 9 and m.apply(3.0, f="square") == 9


def test_signatures_show_defaults(m):
    signature = inspect.signature(m.defaults)
    assert [parameter.default for parameter in list(signature.parameters.values())[:3]] == [True, -3, 0.5]
    assert "v: 'f32x2' = f32x2(1.0, 2.0)" in str(signature)
    assert "by: 'f32' = 2.0" in str(inspect.signature(m.double))
    assert [default for *_, default in m.double.parameters] == [None, "2.0", None]


def test_dir_lists_all_attributes(m):
    names = dir(m)
    assert {"double", "twice", "run", "dtype", "stubs"} <= set(names) and "variable" not in names
    module = clk.source(TEXT)
    module.run()
    assert "variable" in dir(module) and module.variable == 3


def test_exceptions_have_public_names(m):
    with pytest.raises(clk.ArgumentTypeError) as caught:
        m.twice("a")
    last = traceback.format_exception_only(caught.value)[0]
    assert last.startswith("clk.ArgumentTypeError: error[E0804]")
    for kind in [clk.Error, clk.Fault, clk.FileError, clk.Warning, clk.Span, clk.Diagnostic]:
        assert kind.__module__ == "clk" and getattr(clk, kind.__name__) is kind
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is clk.ArgumentTypeError and str(again) == str(caught.value) and again.diagnostics == caught.value.diagnostics


def test_missing_files(tmp_path):
    missing = tmp_path / "missing.clk"
    with pytest.raises(FileNotFoundError) as caught:
        clk.load(missing)
    assert isinstance(caught.value, clk.FileError) and caught.value.errno == 2 and caught.value.filename == str(missing)
    assert "E0701" in str(caught.value) and type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)
    f = clk.source("fn f(path: str) -> [f32; _] { load(path) }").f
    with pytest.raises(FileNotFoundError) as caught:
        f(str(tmp_path / "missing.npy"))
    assert caught.value.filename == str(tmp_path / "missing.npy")
    with pytest.raises(clk.FileError) as caught:
        clk.load(tmp_path)
    assert caught.value.errno == 21 and not isinstance(caught.value, FileNotFoundError)


def test_warnings_point_at_the_caller(file, monkeypatch):
    text = "fn f() -> i32 { let unused = 1\n 2 }"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clk.source(text)
        line = inspect.currentframe().f_lineno - 1
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)] and caught[0].category is clk.Warning
    importlib.import_module("clk.importer")

    file.write_text(text)
    monkeypatch.syspath_prepend(str(file.parent))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import own_module
    del sys.modules["own_module"]
    assert own_module.f() == 2 and [warning.filename for warning in caught] == [__file__]


FORK = """
import os, sys, threading
import clk, numpy
m = clk.source(TEXT)
m.spin(1, N=4)
running, finished = threading.Event(), []

def spin():
    running.set()
    for _ in range(20):
        m.spin(300_000, N=64)
    finished.append(1)

threads = [threading.Thread(target=spin) for _ in range(2)]
for thread in threads:
    thread.start()
running.wait()
answers = []
for round in range(10):
    child = os.fork()
    if child == 0:
        good = m.twice(2.0) == 4 and m.double(numpy.ones(5000, "float32")).sum() == 10000 and m.spin(10, N=1000).shape == (1000,)
        os._exit(7 if good else 1)
    answers.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for thread in threads:
    thread.join()
print(answers, finished, m.twice(1.0))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_forks_while_kernels_run():
    ran = subprocess.run([sys.executable, "-c", FORK.replace("TEXT", repr(TEXT))], capture_output=True, text=True, timeout=600)
    assert ran.stdout == f"{[7] * 10} [1, 1] 2.0\n", ran.stderr
