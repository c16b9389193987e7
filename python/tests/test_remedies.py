"""Refusals of arguments name the remedy."""

import clk
import numpy as np
import pytest
from support import ones, refusal

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


def test_arrays_of_data_frames(m):
    class Series:
        def to_numpy(self, dtype=None):
            return np.ones(3, dtype)

    error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, Series(), ones(3)))
    assert error.title == "a `Series` is not an array" and error.help == ('`x.to_numpy("float32")` is its array',)
    pandas = pytest.importorskip("pandas")
    for found in [pandas.Series([1.0, 2.0]), pandas.DataFrame({"a": [1.0]})["a"], pandas.DataFrame({"a": [1.0]})]:
        error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, found, ones(2)))
        assert error.help == ('`x.to_numpy("float32")` is its array',), type(found)
    x = pandas.Series([1.0, 2.0])
    assert m.saxpy(1.0, x.to_numpy("float32"), ones(2)).tolist() == [2, 3]


def test_results_to_write_to(m):
    for wrong in [3, "r", [0.0, 0.0], float]:
        error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, ones(2), ones(2), out=wrong))
        assert error.help == ('`numpy.empty(shape, "float32")` is an array to write to',), error
    error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, ones(2), ones(2), out=np.empty(2)))
    assert '`numpy.empty(shape, "float32")`' in error.help[0] and "astype" not in str(error)
    error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, [1.0], ones(1)))
    assert error.help == ('`numpy.asarray(x, "float32")` makes one',)
    # Arrays for `inout` parameters and inputs can be converted.
    assert "astype" in str(refusal(clk.ArgumentError, lambda: m.saxpy(1.0, np.ones(2), ones(2))))


def test_types_that_clk_does_not_have(m):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ["float8_e4m3fn", "float8_e5m2"]:
        x = np.ones(2, getattr(ml_dtypes, name))
        error = refusal(clk.ArgumentError, lambda: m.saxpy(1.0, x, ones(2)))
        assert name in error.title and 'x.view("uint8")' in error.help[0] and "float16" in error.help[0]
    torch = pytest.importorskip("torch")
    x = torch.ones(2).to(torch.float8_e4m3fn)
    error = refusal(Exception, lambda: m.saxpy(1.0, x, ones(2)))
    assert "float8" in str(error), error


def test_type_parameters_that_do_not_take_a_type(m):
    error = refusal(clk.ArgumentTypeError, lambda: m.double(np.ones(2, bool)))
    assert "`x` of `double`" in error.title and "bool" in error.title and "`T: Num`" in error.title, error
    assert error.help == ('convert it: `x.astype("uint8")`, `x.to(torch.uint8)`',)
    k = clk.source("fn f<T: Float>(x: T) -> T { x }\nfn g<T: Int>(x: [T; N]) -> T { sum(x) }\nfn h<T: Num>(x: T) -> T { x }")
    assert k.f(2.0) == 2 and k.g(np.ones(2, "int64")) == 2 and k.h(2) == 2
    for call, said in [
        (lambda: k.f(2), "`x` of `f` is `T` with `T: Float`, not the integer 2"),
        (lambda: k.g(ones(2)), "`x` of `g` is `[T; N]` with `T: Int`, and this array is `[f32; 2]`"),
        (lambda: k.h(True), "`x` of `h` is `T` with `T: Num`, not the truth value true"),
    ]:
        error = refusal(clk.ArgumentTypeError, call)
        assert error.title == said and error.help, error


def test_struct_fields_are_named(m):
    error = refusal(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0, "idd": 2}))
    assert "no field `idd`" in error.title and "`mass`, `id`" in str(error)
    error = refusal(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0, "id": 300}))
    assert "`id` of `b` of `mass_of`" in error.title
    error = refusal(clk.ArgumentTypeError, lambda: m.mass_of({"mass": 1.0}))
    assert "its field `id` is not given" in error.title


def test_advice_is_spelled_for_python(m):
    error = refusal(clk.Error, lambda: m.race.using(check=True)(np.zeros(1, "int32")))
    assert "--check" not in str(error) and "--device" not in str(error)
