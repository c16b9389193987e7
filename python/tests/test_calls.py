"""Calls: arguments, results, options, errors."""

import inspect
import pydoc

import clk
import numpy as np
import pytest

PROGRAM = """
/// Twice as much.
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] }
kernel both(x: [i32; N], out low: [i32; N], out high: [i32; N]) threads(i: N) { low[i] = x[i] - 1; high[i] = x[i] + 1 }
kernel ramp<const STEP: i32 = 1>(out y: [i32; N]) threads(i: N) { y[i] = STEP * i }
kernel add_to(inout x: [f32; N], by: f32) threads(i: N) { x[i] += by }
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }
kernel mark(inout x: [i32; N]) grid(1) block(N) { x[global_idx.x] = block_idx.x }
kernel race(inout x: [i32; 1]) threads(i: 64) { x[0] = i }
kernel talk(x: [i32; N]) threads(i: N) { if i == 0 { print("first is {x[0]}") } }
kernel scaled(x: [f32; N], by: f32 = 2.0, out y: [f32; N]) threads(i: N) { y[i] = by * x[i] }
kernel lengths(v: [f32x3; N], out l: [f32; N]) threads(i: N) { l[i] = length(v[i]) }
kernel sums(x: [i32; N], out y: [i32; ceil_div(N, 4)]) grid(ceil_div(N, 4)) block(1) {
    var total = 0
    for k in 4 * block_idx.x..min(4 * block_idx.x + 4, N) { total += x[k] }
    y[block_idx.x] = total
}
struct Body { position: f32x3, mass: f32, id: u8 }
kernel heavier(b: [Body; N], by: f32, out c: [Body; N]) threads(i: N) { c[i] = b[i]; c[i].mass += by }
fn mass_of(b: Body) -> f32 { b.mass * f32(b.id) }
fn swapped(pair: (f32, i32)) -> (i32, f32) { (pair.1, pair.0) }
fn same(x: [f32; N]) -> [f32; N] { x }
fn mixed(x: [f32; N], y: [f32; N]) -> [f32; N] { x * 2.0 + y }
fn words(text: str, all: [str; _]) -> [str; _] { concat([upper(text)], all) }
fn deep(n: i32) -> i32 { if n <= 0 { 0 } else { 1 + deep(n - 1) } }
fn truth(b: bool) -> bool { !b }
fn plus_one(n: i64) -> i64 { n + 1 }
fn wide(x: f64) -> f64 { x }
fn narrow(x: f16) -> f16 { x }
fn byte(n: u8) -> u8 { n }
fn dotted(v: f32x3) -> f32 { dot(v, v) }
var seen = 3
let table = [1.5, 2.5]
print("the script ran")
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(PROGRAM, name="calls.clk")


def ones(n, dtype="float32"):
    return np.ones(n, dtype)


def test_first_call(saxpy):
    x, y = np.arange(5, dtype="float32"), ones(5)
    r = saxpy.saxpy(2.0, x, y)
    assert isinstance(r, np.ndarray) and r.dtype == np.float32 and r.flags.writeable
    assert r.tolist() == [1, 3, 5, 7, 9]
    assert saxpy.saxpy(alpha=2, y=y, x=x).tolist() == r.tolist()
    r[0] = 7
    assert r[0] == 7 and x[0] == 0


def test_number_of_results(m):
    x = np.array([5, 6], "int32")
    low, high = m.both(x)
    assert (low.tolist(), high.tolist()) == ([4, 5], [6, 7])
    y = ones(3)
    assert m.add_to(y, 0.5) is None and y.tolist() == [1.5, 1.5, 1.5]


def test_out_is_written_in_place_and_returned(m, saxpy):
    x, out = ones(4), np.zeros(4, "float32")
    address = out.ctypes.data
    assert saxpy.saxpy(1.0, x, x, out=out) is out
    assert out.tolist() == [2, 2, 2, 2] and out.ctypes.data == address
    assert saxpy.saxpy(2.0, x, x, r=out) is out and out[0] == 3
    assert saxpy.saxpy(4.0, x, x, out) is out and out[0] == 5
    low = np.zeros(2, "int32")
    first, second = m.both(np.array([1, 2], "int32"), out=(low, None))
    assert first is low and low.tolist() == [0, 1] and second.tolist() == [2, 3]


def test_dimensions_and_constants_by_name(m):
    assert m.ramp(N=3).tolist() == [0, 1, 2]
    assert m.ramp(N=3, STEP=10).tolist() == [0, 10, 20]
    assert m.double(np.array([1, 2], "uint8")).dtype == np.uint8
    assert m.double(np.array([1.5]), T="f64").tolist() == [3.0]
    with pytest.raises(clk.ArgumentError) as caught:
        m.ramp()
    assert caught.value.code == "E0412" and "N = 1024" in caught.value.rendered


def test_geometry(m):
    x = np.zeros(6, "int32")
    m.mark(x, grid=3, block=(2,))
    assert x.tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(clk.ArgumentError, match="together"):
        m.mark(x, grid=3)


def test_defaults(m):
    assert m.scaled(ones(2)).tolist() == [2, 2]
    assert m.scaled(ones(2), 3.0).tolist() == [3, 3]
    assert m.scaled(ones(2), by=0.5).tolist() == [0.5, 0.5]


def test_computed_extents(m):
    assert m.sums(np.ones(9, "int32")).tolist() == [4, 4, 1]


def test_vectors_and_structs(m):
    v = np.array([[3, 4, 0], [0, 0, 2]], "float32")
    assert m.lengths(v).tolist() == [5, 2]
    assert m.dotted((1, 2, 3)) == 14.0 and m.dotted(np.array([0, 0, 2], "float32")) == 4.0
    dtype = m.dtype("Body")
    assert dtype.names == ("position", "mass", "id")
    b = np.zeros(3, dtype)
    b["mass"], b["position"][:, 1] = [1, 2, 3], 9
    c = m.heavier(b, 0.5)
    assert c.dtype == dtype and c["mass"].tolist() == [1.5, 2.5, 3.5] and (c["position"][:, 1] == 9).all()
    assert b["mass"].tolist() == [1, 2, 3]
    assert m.mass_of({"position": (0, 0, 0), "mass": 2.5, "id": 2}) == 5.0
    assert m.mass_of([(0, 0, 0), 2.5, 2]) == 5.0
    assert m.swapped((1.5, 2)) == (2, 1.5)
    with pytest.raises(clk.ArgumentTypeError, match="dtype"):
        m.heavier(np.zeros(3, [("mass", "f4")]), 1.0)
    with pytest.raises(clk.ArgumentTypeError):
        m.mass_of({"mass": 1.0})


def test_texts(m):
    assert m.words("a", ["b", "ü"]) == ["A", "b", "ü"]
    with pytest.raises(clk.ArgumentTypeError):
        m.words(1, [])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("plus_one", [1, -5, 2**62, np.int8(3), np.uint64(7), 2.0, np.float32(4.0)], [2.5, 2**63, True, "1", None, 1e300]),
        ("byte", [0, 255, np.int64(17)], [-1, 256, 0.5, np.int16(-3)]),
        ("wide", [1, 0.1, np.float32(0.1), np.float64(0.1), float("inf"), 2**53], [2**53 + 1, "x", True, 1j]),
        ("narrow", [1.5, 1, np.float16(0.25), float("-inf")], [1e9, 1e-30, 2049]),
        ("truth", [True, False, np.bool_(True)], [1, 0, 1.0, None]),
    ],
)
def test_numbers_are_exact_or_rejected(m, name, good, bad):
    call = getattr(m, name)
    expected = {"plus_one": lambda n: int(n) + 1, "truth": lambda b: not b}.get(name, float)
    for value in good:
        assert call(value) == expected(value), value
    for value in bad:
        with pytest.raises(clk.Error) as caught:
            call(value)
        assert caught.value.code == "E0804", value
    assert np.isnan(m.wide(float("nan")))
    assert m.wide(np.float32(0.1)) == float(np.float32(0.1))


def test_fractions_are_not_integers(saxpy):
    m = clk.source("fn f(n: i32) -> i32 { n }")
    with pytest.raises(TypeError, match="2.5"):
        m.f(2.5)


def test_wrong_arrays(saxpy):
    x = ones(3)
    with pytest.raises(TypeError, match=r"astype\(\"float32\"\)") as caught:
        saxpy.saxpy(1.0, np.ones(3), x)
    assert caught.value.code == "E0809" and isinstance(caught.value, clk.Error)
    with pytest.raises(ValueError, match="dimension `N` is 3 and 4 at once"):
        saxpy.saxpy(1.0, x, ones(4))
    with pytest.raises(clk.ArgumentError, match="axes"):
        saxpy.saxpy(1.0, ones((3, 3)), x)
    for invalid in ["text", 1.0, [1.0, 2.0], None, object(), np.ones(3, "complex64"), np.array(["a"]), np.ones(3, ">f4")]:
        with pytest.raises(clk.Error):
            saxpy.saxpy(1.0, invalid, x)
    with pytest.raises(clk.Error, match="masked"):
        saxpy.saxpy(1.0, np.ma.masked_array(x, [True, False, False]), x)


def test_wrong_calls(saxpy):
    x = ones(3)
    for call in [
        lambda: saxpy.saxpy(1.0, x),
        lambda: saxpy.saxpy(1.0, x, x, x, x),
        lambda: saxpy.saxpy(1.0, x, x, nothing=1),
        lambda: saxpy.saxpy(1.0, x, x, alpha=1.0),
        lambda: saxpy.saxpy(1.0, x, x, device="toaster"),
        lambda: saxpy.saxpy(1.0, x, x, out=(x, x)),
    ]:
        with pytest.raises(clk.ArgumentError):
            call()


def test_layouts_of_outputs(saxpy, m):
    x = ones(4)
    frozen = np.zeros(4, "float32")
    frozen.flags.writeable = False
    strided = np.zeros(8, "float32")[::2]
    for out, word in [(frozen, "read-only"), (strided, "row-major")]:
        with pytest.raises(clk.ArgumentTypeError, match=word):
            saxpy.saxpy(1.0, x, x, out=out)
    assert saxpy.saxpy(1.0, frozen, strided).tolist() == [0, 0, 0, 0]
    # A result for misaligned memory is computed in other memory and copied back.
    shifted = np.zeros(5, "float32")[1:]
    saxpy.saxpy(1.0, x, x, out=shifted)
    assert shifted.tolist() == [2, 2, 2, 2] and shifted.base[0] == 0


def test_overlapping_arguments(saxpy, m):
    x = np.arange(8, dtype="float32")
    # The output overlaps an input, which must keep its content from before the call while the kernel runs.
    saxpy.saxpy(1.0, x[:4], x[4:], out=x[4:])
    assert x.tolist() == [0, 1, 2, 3, 4, 6, 8, 10]
    x = np.arange(8, dtype="float32")
    saxpy.saxpy(1.0, x[:-1], np.zeros(7, "float32"), out=x[1:])
    assert x.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    n = np.zeros(4, "int32")
    with pytest.raises(clk.ArgumentError, match="both written"):
        m.both(np.zeros(2, "int32"), out=(n[:2], n[1:3]))


def test_results_never_share_memory_with_arguments(m):
    x = ones(1 << 20)
    y = m.same(x)
    y[0] = 5
    assert x[0] == 1
    z = m.mixed(x, x)
    assert (x == 1).all() and (z == 3).all()


def test_faults_have_source_locations(m):
    with pytest.raises(clk.Fault) as caught:
        m.shift(ones(3))
    error = caught.value
    assert (error.code, error.title) == ("E0601", "index 3 is out of bounds for `x` of length 3")
    line = PROGRAM.splitlines().index(next(l for l in PROGRAM.splitlines() if "kernel shift" in l)) + 1
    assert (error.spans[0].file, error.spans[0].line) == ("calls.clk", line)
    assert PROGRAM.encode()[error.spans[0].start : error.spans[0].end] == b"x[i + 1]"
    assert "calls.clk" in error.rendered and str(error) == error.rendered.rstrip()
    assert "\x1b[" in error.colored and "\x1b[" not in error.rendered
    import pickle

    assert pickle.loads(pickle.dumps(error)).spans == error.spans


def test_checks(m):
    x = np.zeros(1, "int32")
    m.race(x)
    with pytest.raises(clk.Fault) as caught:
        m.race(x, check=True)
    assert caught.value.code == "E0610"
    with pytest.raises(clk.Fault):
        m.race.using(check=True)(x)
    m.race(x)


def test_output_goes_to_standard_output(m, capsys):
    m.talk(np.array([7], "int32"))
    assert capsys.readouterr().out == "first is 7\n"


def test_script_runs_on_request(m, capsys):
    with pytest.raises(AttributeError):
        m.nothing
    assert capsys.readouterr().out == ""
    m.run()
    assert capsys.readouterr().out == "the script ran\n"
    assert m.seen == 3 and m.table.tolist() == [1.5, 2.5]


def test_invalid_programs():
    with pytest.raises(clk.CompileError) as caught:
        clk.source("kernel k(x: [f32; N]) threads(i: N) { x[i] = y }", name="wrong.clk")
    codes = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert "E0201" in codes and caught.value.spans[0].file == "wrong.clk"
    with pytest.raises(OSError) as missing:
        clk.load("there/is/no.clk")
    assert missing.value.code == "E0701"


def test_program_warnings():
    with pytest.warns(clk.Warning):
        clk.source("fn f() -> i32 { let unused = 1\n 2 }")


def test_gradients():
    m = clk.source("fn energy(x: [f32; N], k: f32, at: i32) -> f32 { k * sum(x * x) + x[at] }\nfn other(x: [f32; N]) -> [f32; N] { x }")
    x = ones(2)
    assert clk.grad(m.energy)(x, 3.0, 0).tolist() == [7, 6]
    gradient, by_k = clk.grad(m.energy, wrt=("x", "k"))(x, k=3.0, at=0)
    assert (gradient.tolist(), by_k) == ([7, 6], 2)
    value, gradient = clk.value_and_grad(m.energy, wrt="k")(x, 3.0, 1)
    assert (value, gradient) == (7, 2)
    twice = clk.grad(clk.grad(m.energy, wrt="k"), wrt="x")
    assert twice(x, 3.0, 0).tolist() == [2, 2]
    for call in [lambda: clk.grad(m.other), lambda: clk.grad(m.energy, wrt="at"), lambda: clk.grad(m.energy, wrt="q")]:
        with pytest.raises(TypeError):
            call()


def test_check_options():
    m = clk.source("""
kernel race(inout x: [i32; 1]) threads(i: 64) { x[0] = i }
kernel halves(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] / 0.0 }
kernel total(x: [f32; N], inout s: [f32; 1]) threads(i: N) { atomic_add(s[0], x[i]) }
""")
    x = np.zeros(1, "int32")
    m.race(x)
    for check in [True, "everything"]:
        with pytest.raises(clk.Fault) as caught:
            m.race(x, check=check)
        assert caught.value.code == "E0610"
    with pytest.raises(TypeError, match="everything"):
        m.race(x, check="all")
    assert np.isinf(m.halves(ones(1))).all()
    with pytest.raises(clk.Fault) as caught:
        m.halves(ones(1), trap_nan=True)
    assert caught.value.code == "E0615" or "inf" in str(caught.value)
    with pytest.raises(clk.Fault):
        m.halves.using(trap_nan=True)(ones(1))
    values = np.random.default_rng(1).random(5000).astype("float32")
    sums = set()
    for _ in range(5):
        s = np.zeros(1, "float32")
        m.total(values, s, deterministic=True)
        sums.add(s[0])
    assert len(sums) == 1
    for device in ["simulator", "--device sim", "gpu:x"]:
        with pytest.raises(clk.ArgumentError, match='device="sim"'):
            m.race(x, device=device)


def test_clk_arrays_are_sequences():
    import array

    m = clk.source("kernel same(x: [i32; M, N], out y: [i32; M, N]) threads(i: M, j: N) { y[i, j] = x[i, j] }")
    y = m.same(memoryview(array.array("i", range(6))).cast("B").cast("i", (2, 3)))
    assert isinstance(y, clk.Array) and y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert y[1, 2] == 5 and y[0].tolist() == [0, 1, 2] and y[:, 1].tolist() == [1, 4] and [row.tolist() for row in y] == y.tolist()
    y[0][0] = 9
    assert y[0, 0] == 9
    with pytest.raises(IndexError):
        y[2]


def test_files(tmp_path):
    (tmp_path / "shapes.clk").write_text("fn area(w: f32, h: f32) -> f32 { w * h }\n")
    (tmp_path / "main.clk").write_text('import "./shapes.clk" as shapes\nfn twice(w: f32) -> f32 { 2.0 * shapes.area(w, w) }\n')
    assert clk.load(tmp_path / "main.clk").twice(3) == 18.0
    assert clk.source((tmp_path / "main.clk").read_text(), folder=tmp_path).twice(1) == 2.0


def test_help_and_signatures(saxpy, m):
    k = saxpy.saxpy
    assert k.__name__ == "saxpy" and k.dimensions == ("N",) and k.is_kernel
    assert "r = alpha * x + y" in k.__doc__ and k.__doc__.startswith("kernel saxpy(alpha: f32")
    text = str(inspect.signature(k))
    assert text.startswith("(alpha: 'f32', x: '[f32; N]', y: '[f32; N]', *, r: 'out [f32; N]' = None") and "out=None" in text
    assert k.__text_signature__ == text
    assert "r = alpha * x + y" in pydoc.render_doc(k, renderer=pydoc.plaintext)
    assert "saxpy" in dir(saxpy) and "saxpy" in repr(k)
    assert str(inspect.signature(m.scaled)).startswith("(x: '[f32; N]', by: 'f32' = 2.0")
    assert "ceil_div(N, 4)" in str(inspect.signature(m.sums))


def test_deep_recursion_is_an_error(m):
    assert m.deep(100) == 100
    with pytest.raises(clk.Error) as caught:
        m.deep(10**9)
    assert caught.value.code == "E0517"
    assert m.deep(3) == 3


def test_stubs(m, tmp_path):
    import subprocess
    import sys

    text = m.stubs()
    compile(text, "calls.pyi", "exec")
    head = "def __call__(\n        self,\n        x: clk.ArrayLike,\n        *,\n        y: clk.ArrayLike | None = ...,\n        N: int = ...,\n        T: str"
    assert head in text and "\ndouble: _double_callable\n" in text and "by: float = 2.0" in text
    assert '"""kernel double' in text and "Twice as much." in text and "-> tuple[Any, Any]" in text
    (tmp_path / "calls.clk").write_text(PROGRAM)
    command = [sys.executable, "-m", "clk", "stubs", str(tmp_path / "calls.clk")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == text


def test_type_checkers_accept_stubs(m, tmp_path):
    import subprocess
    import sys

    pytest.importorskip("mypy")
    (tmp_path / "calls.pyi").write_text(m.stubs())
    use = tmp_path / "use.py"
    valid = """
import clk
import numpy as np
import calls

x = np.ones(3, "float32")
calls.run("a", device="sim", check="everything")
calls.double.using(device="sim", trap_nan=True)(x, T="f32")
names: tuple[str, ...] = calls.double.dimensions
low, high = calls.both(x, out=(None, x), device="gpu", deterministic=True)
n: int = calls.plus_one(3)
calls.scaled(x, by=2.0)
text: str = calls.stubs()
kind = calls.dtype("Body")
later = calls.table
m = clk.load("a.clk")
m.run()
m.double.using(check=True)(x)
"""
    check = lambda: subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "use.py"], capture_output=True, text=True, cwd=tmp_path
    )
    use.write_text(valid)
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    invalid = ["calls.plus_one('a')", "calls.double.using(devices=1)", "calls.scaled()", "calls.both(x, grids=3)", "calls.run(1)"]
    use.write_text(valid + "\n".join(invalid) + "\n")
    done = check()
    assert f"Found {len(invalid)} errors" in done.stdout, done.stdout + done.stderr


def test_importing_programs(tmp_path, monkeypatch):
    import sys

    import clk.importer  # noqa: F401

    (tmp_path / "halves.clk").write_text("fn half(x: f32) -> f32 { 0.5 * x }\n")
    monkeypatch.syspath_prepend(tmp_path)
    import halves

    assert halves.half(3) == 1.5 and halves.__name__ == "halves"
    del sys.modules["halves"]


def test_command_line(tmp_path):
    import subprocess
    import sys

    def run(*words):
        return subprocess.run([sys.executable, "-m", "clk", *words], capture_output=True, text=True)

    assert run("-e", "1 + 1").stdout == "2\n"
    bad = tmp_path / "bad.clk"
    bad.write_text("let x = y\n")
    done = run("run", str(bad))
    assert done.returncode == 1 and "E0201" in done.stderr
    assert run("--version").stdout.startswith("clk ")
    assert run("nonsense").returncode == 2
