"""Random tests against NumPy: types, shapes, strides, alignment, read-only and overlapping arrays."""

import os

import clk
import numpy as np
import pytest

PROGRAM = """
kernel triple<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] + x[i] }
kernel triple2<T: Num>(x: [T; M, N], out y: [T; M, N]) threads(i: M, j: N) { y[i, j] = x[i, j] + x[i, j] + x[i, j] }
kernel triple3<T: Num>(x: [T; L, M, N], out y: [T; L, M, N]) threads(h: L, i: M, j: N) {
    y[h, i, j] = x[h, i, j] + x[h, i, j] + x[h, i, j]
}
kernel sum2<T: Num>(x: [T; N], y: [T; N], out z: [T; N]) threads(i: N) { z[i] = x[i] + y[i] }
kernel grow<T: Num>(inout x: [T; N], y: [T; N]) threads(i: N) { x[i] += y[N - 1 - i] }
kernel flip(x: [bool; N], out y: [bool; N]) threads(i: N) { y[i] = !x[i] }
fn mixed(x: [f32; N], y: [f32; N]) -> [f32; N] { x * 2.0 + y }
"""

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
ROUNDS = int(os.environ.get("CLK_PYTHON_ROUNDS", "150"))
SEED = int(os.environ.get("CLK_PYTHON_SEED", "1"))


@pytest.fixture(scope="module")
def m():
    return clk.source(PROGRAM)


def random_elements(rng, dtype, count):
    return rng.integers(0, 40, count).astype(dtype)


def random_layout(rng, dtype, shape):
    """An array with a random layout: misaligned, strided, reversed, transposed, broadcast, or read-only."""
    kind = rng.integers(7)
    size = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    if kind == 0:
        x = random_elements(rng, dtype, count).reshape(shape)
    elif kind == 1:
        # Misaligned.
        raw = np.zeros(count * size + 64, "uint8")
        shift = int(rng.integers(1, 17))
        x = raw[shift : shift + count * size].view(dtype).reshape(shape)
        x[...] = random_elements(rng, dtype, count).reshape(shape)
    elif kind == 2:
        steps = [int(rng.integers(1, 4)) for _ in shape]
        big = random_elements(rng, dtype, int(np.prod([n * s for n, s in zip(shape, steps)])))
        x = big.reshape([n * s for n, s in zip(shape, steps)])[tuple(slice(None, None, s) for s in steps)]
    elif kind == 3:
        x = random_elements(rng, dtype, count).reshape(shape)[tuple(slice(None, None, -1) for _ in shape)]
    elif kind == 4:
        x = np.asfortranarray(random_elements(rng, dtype, count).reshape(shape))
    elif kind == 5:
        x = np.broadcast_to(random_elements(rng, dtype, 1)[0], shape)
    else:
        x = random_elements(rng, dtype, count + 3)[3:].reshape(shape)
    if rng.integers(4) == 0 and x.flags.writeable:
        x.flags.writeable = False
    return x


def test_input_layouts(m):
    rng = np.random.default_rng(SEED)
    for _ in range(ROUNDS):
        dtype = DTYPES[rng.integers(len(DTYPES))]
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(0, 9, rank))
        x = random_layout(rng, dtype, shape)
        before = x.copy()
        kernel = [m.triple, m.triple2, m.triple3][rank - 1]
        y = kernel(x, check=bool(rng.integers(5) == 0))
        assert y.dtype == x.dtype and y.shape == x.shape
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y, before + before + before)
        np.testing.assert_array_equal(x, before)
        assert not np.shares_memory(x, y)


def test_output_layouts(m):
    rng = np.random.default_rng(SEED + 1)
    for _ in range(ROUNDS):
        dtype = DTYPES[rng.integers(len(DTYPES))]
        shape = (int(rng.integers(0, 20)),)
        x, y, out = (random_layout(rng, dtype, shape) for _ in range(3))
        before = out.copy()
        if not out.flags.writeable or not out.flags.c_contiguous:
            with pytest.raises(clk.ArgumentTypeError):
                m.sum2(x, y, out=out)
            np.testing.assert_array_equal(out, before)
        else:
            assert m.sum2(x, y, out=out) is out
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(out, x + y)


def test_overlapping_arguments(m):
    rng = np.random.default_rng(SEED + 2)
    for _ in range(ROUNDS):
        dtype = DTYPES[rng.integers(len(DTYPES))]
        memory = random_elements(rng, dtype, 64)
        n = int(rng.integers(1, 24))

        def random_slice(step=None):
            step = int(rng.integers(1, 3)) if step is None else step
            start = int(rng.integers(0, 64 - n * step + 1))
            return memory[start : start + n * step : step]

        x, y, out = random_slice(), random_slice(), random_slice(1)
        with np.errstate(over="ignore"):
            expected = x + y
            grown = out + y[::-1] if rng.integers(2) else None
        if grown is not None:
            m.grow(out, y)
            np.testing.assert_array_equal(out, grown)
        else:
            m.sum2(x, y, out=out)
            np.testing.assert_array_equal(out, expected)


def test_bools_of_any_byte(m):
    rng = np.random.default_rng(SEED + 3)
    for _ in range(ROUNDS // 5):
        x = rng.integers(0, 4, int(rng.integers(0, 200))).astype("uint8").view("bool")
        np.testing.assert_array_equal(m.flip(x), ~(x.view("uint8") != 0))


def test_functions(m):
    rng = np.random.default_rng(SEED + 4)
    for _ in range(ROUNDS // 5):
        # Large arrays, for which functions may reuse the memory of intermediate results.
        n = int(rng.integers(1, 400_000))
        x, y = rng.random(n).astype("float32"), rng.random(n).astype("float32")
        a, b = x.copy(), y.copy()
        z = m.mixed(x, y if rng.integers(2) else x)
        assert z.shape == x.shape and not np.shares_memory(x, z)
        np.testing.assert_array_equal(x, a)
        np.testing.assert_array_equal(y, b)


def test_all_float16_values(m):
    bits = np.arange(0, 1 << 16, dtype="uint16")
    x = bits.view("float16")
    y = m.triple(x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, x + x + x)
