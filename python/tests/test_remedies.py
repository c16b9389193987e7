"""Error messages for invalid arguments suggest a fix."""

import clk
import numpy as np
import pytest
from support import ones, raised_by

TEXT = """
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] }
kernel race(inout x: [i32; 1]) threads(i: 64) { x[0] = i }
struct Body { mass: f32, id: u8 }
fn mass_of(b: Body) -> f32 { b.mass * f32(b.id) }
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(TEXT, name="remedies.clk")


def test_data_frames(m):
    class Series:
        def to_numpy(self, dtype=None):
            return np.ones(3, dtype)

    error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, Series(), ones(3)))
    assert error.title == "a `Series` is not an array" and error.help == ('`x.to_numpy("float32")` is its array',)
    pandas = pytest.importorskip("pandas")
    for data in [pandas.Series([1.0, 2.0]), pandas.DataFrame({"a": [1.0]})["a"], pandas.DataFrame({"a": [1.0]})]:
        error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, data, ones(2)))
        assert error.help == ('`x.to_numpy("float32")` is its array',), type(data)
    x = pandas.Series([1.0, 2.0])
    assert m.saxpy(1.0, x.to_numpy("float32"), ones(2)).tolist() == [2, 3]


def test_invalid_outputs(m):
    for wrong in [3, "r", [0.0, 0.0], float]:
        error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, ones(2), ones(2), out=wrong))
        assert error.help == ('`numpy.empty(shape, "float32")` is an array to write to',), error
    error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, ones(2), ones(2), out=np.empty(2)))
    assert '`numpy.empty(shape, "float32")`' in error.help[0] and "astype" not in str(error)
    error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, [1.0], ones(1)))
    assert error.help == ('`numpy.asarray(x, "float32")` makes one',)
    # Inputs of another type can be converted, unlike outputs.
    assert "astype" in str(raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, np.ones(2), ones(2))))


def test_unsupported_element_types(m):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ["float8_e4m3fn", "float8_e5m2"]:
        x = np.ones(2, getattr(ml_dtypes, name))
        error = raised_by(clk.ArgumentError, lambda: m.saxpy(1.0, x, ones(2)))
        assert name in error.title and 'x.view("uint8")' in error.help[0] and "float16" in error.help[0]
    torch = pytest.importorskip("torch")
    x = torch.ones(2).to(torch.float8_e4m3fn)
    error = raised_by(Exception, lambda: m.saxpy(1.0, x, ones(2)))
    assert "float8" in str(error), error


def test_type_parameter_constraints(m):
    error = raised_by(clk.ArgumentTypeError, lambda: m.double(np.ones(2, bool)))
    assert "`x` of `double`" in error.title and "bool" in error.title and "`T: Num`" in error.title, error
    assert error.help == ('convert it: `x.astype("uint8")`, `x.to(torch.uint8)`',)
    k = clk.source("fn f<T: Float>(x: T) -> T { x }\nfn g<T: Int>(x: [T; N]) -> T { sum(x) }\nfn h<T: Num>(x: T) -> T { x }")
    assert k.f(2.0) == 2 and k.g(np.ones(2, "int64")) == 2 and k.h(2) == 2
    for call, title in [
        (lambda: k.f(2), "`x` of `f` is `T` with `T: Float`, not the integer 2"),
        (lambda: k.g(ones(2)), "`x` of `g` is `[T; N]` with `T: Int`, and this array is `[f32; 2]`"),
        (lambda: k.h(True), "`x` of `h` is `T` with `T: Num`, not the truth value true"),
    ]:
        error = raised_by(clk.ArgumentTypeError, call)
        assert error.title == title and error.help, error


def test_struct_field_errors(m):
    error = raised_by(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0, "idd": 2}))
    assert "no field `idd`" in error.title and "`mass`, `id`" in str(error)
    error = raised_by(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0, "id": 300}))
    assert "`id` of `b` of `mass_of`" in error.title
    error = raised_by(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0}))
    assert "its field `id` is not given" in error.title


def test_help_does_not_mention_command_line_options(m):
    error = raised_by(clk.Error, lambda: m.race.using(check=True)(np.zeros(1, "int32")))
    assert "--check" not in str(error) and "--device" not in str(error)
