"""Memory of arguments: it is written in place, not used after the call, and read as its exporter describes it."""

import collections.abc
import ctypes
import itertools
import os
import random
import subprocess
import sys

import clk
import numpy as np
import pytest
from exporters import Buffer, Fleeting, FleetingTensor, floats

PROGRAM = """
kernel add_to(inout x: [f32; N], by: f32) threads(i: N) { x[i] += by }
kernel copy(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }
kernel copy2(x: [f32; M, N], out y: [f32; M, N]) threads(i: M, j: N) { y[i, j] = x[i, j] }
kernel same<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] }
fn by_assignment(inout x: [f32; N]) { x[..] = x + 1.0 }
fn by_update(inout x: [f32; N]) { x[..] += 1.0 }
fn by_element(inout x: [f32; N]) { for i in 0..len(x) { x[i] += 1.0 } }
fn by_slice(inout x: [f32; N]) { x[0..len(x)] = x + 1.0 }
fn by_kernel(inout x: [f32; N]) { add_to(x, 1.0) }
fn by_function(inout x: [f32; N]) { by_update(x) }
fn by_both(inout x: [f32; N]) { add_to(x, 0.5); x[..] += 0.5 }
fn half_way(inout x: [f32; N]) { x[0] = 7.0; assert(x[1] < 0.0) }
fn keeping(inout x: [f32; N]) -> [f32; _] { let old = x; x[0] = 99.0; old }
fn keeping_two(inout x: [f32; N], y: [f32; N]) -> ([f32; _], ([f32; _], f32)) { let old = x; x[..] += y; (old, (y, x[0])) }
fn two(inout x: [f32; N], inout y: [f32; N]) { let z = x; x[..] = y; y[..] = z }
fn vector(v: f32x3) -> f32 { v.x + v.y + v.z }
fn number(x: f32) -> f32 { x }
fn any<T: Num>(x: T) -> T { x }
struct Body { mass: f32, at: f32x3 }
fn mass(b: Body) -> f32 { b.mass + b.at.y }
fn pair(p: (f32, i32)) -> f32 { p.0 + f32(p.1) }
fn words(all: [str; _]) -> i32 { len(all) }
"""

WRITERS = ["by_assignment", "by_update", "by_element", "by_slice", "by_kernel", "by_function", "by_both"]
#: Offsets of memory from a multiple of 16. Aligned memory is used in place, other memory is copied.
OFFSETS = [0, 4]


@pytest.fixture(scope="module")
def m():
    return clk.source(PROGRAM, name="memory.clk")


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("writer", WRITERS)
def test_memory_is_written_before_its_release(m, writer, offset):
    call = getattr(m, writer)
    for n in [1, 3, 64, 5000]:
        expected = np.arange(1, n + 1, dtype="float32").tobytes()
        buffer = Fleeting(floats(range(n), offset=offset), shape=(n,), strides=(4,))
        call(buffer)
        assert buffer.views == 0 and buffer.last == expected and buffer.is_untouched()
        tensor = FleetingTensor(floats(range(n), offset=offset), (n,))
        call(tensor)
        assert tensor.deleted == 1 and tensor.last == expected and tensor.is_untouched()


@pytest.mark.parametrize("writer", WRITERS)
def test_memory_can_be_resized_after_the_call(m, writer):
    for n in [4, 1000]:
        memory = bytearray(np.arange(n, dtype="float32").tobytes())
        getattr(m, writer)(memoryview(memory).cast("f"))
        assert np.frombuffer(bytes(memory), "float32").tolist() == list(range(1, n + 1))
        # `extend` fails while a view of the memory exists, so this checks that the call has released its view.
        memory.extend(bytes(100_000))


def test_several_arrays_are_written_before_their_release(m):
    x, y = (Fleeting(floats([k] * 5), shape=(5,), strides=(4,)) for k in (1, 2))
    m.two(x, y)
    assert x.last == np.full(5, 2, "float32").tobytes() and y.last == np.full(5, 1, "float32").tobytes()
    assert x.is_untouched() and y.is_untouched()


def test_functions_write_in_place(m):
    # An element that was written before the error is visible only if the call did not use a copy.
    for x in [np.ones(4, "float32"), np.ones(5, "float32")[1:]]:
        with pytest.raises(clk.Fault):
            m.half_way(x)
        in_place = x.ctypes.data % 16 == 0
        assert x.tolist() == ([7, 1, 1, 1] if in_place else [1, 1, 1, 1])


def test_failed_calls_release_arguments(m):
    x = Fleeting(floats([1, 1]), shape=(2,), strides=(4,))
    with pytest.raises(clk.Fault):
        m.half_way(x)
    assert x.views == 0 and x.is_untouched()


@pytest.mark.parametrize("offset", OFFSETS)
def test_results_do_not_share_memory_with_arguments(m, offset):
    x = np.frombuffer(floats(range(4), offset=offset), "float32")
    old = m.keeping(x)
    assert (old.tolist(), x.tolist()) == ([0, 1, 2, 3], [99, 1, 2, 3])
    x[:] = 5
    assert old.tolist() == [0, 1, 2, 3]
    buffer = Fleeting(floats(range(4), offset=offset), shape=(4,), strides=(4,))
    old = m.keeping(buffer)
    assert buffer.is_untouched() and np.asarray(old).tolist() == [0, 1, 2, 3]
    x, y = (np.frombuffer(floats(values, offset=offset), "float32") for values in ([0, 1], [5, 6]))
    old, (other, first) = m.keeping_two(x, y)
    y[:] = x[:] = -1
    assert (old.tolist(), other.tolist(), first) == ([0, 1], [5, 6], 5)


def test_ctypes_arrays(m):
    x = (ctypes.c_float * 4)(1, 2, 3, 4)
    assert m.copy(x).numpy().tolist() == [1, 2, 3, 4]
    m.add_to(x, 0.5)
    assert list(x) == [1.5, 2.5, 3.5, 4.5]
    m.by_update(x)
    assert list(x) == [2.5, 3.5, 4.5, 5.5]
    y = (ctypes.c_float * 3)()
    m.copy((ctypes.c_float * 3)(7, 8, 9), out=y)
    assert list(y) == [7, 8, 9]
    assert m.copy2(((ctypes.c_float * 2) * 3)((1, 2), (3, 4), (5, 6))).numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert m.copy((ctypes.c_float * 0)()).shape == (0,)
    signed = [ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_long, ctypes.c_longlong, ctypes.c_double]
    for kind in [*signed, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_ulong, ctypes.c_size_t]:
        assert m.same((kind * 3)(1, 2, 3)).numpy().tolist() == [1, 2, 3], kind
    for unsupported in [ctypes.c_wchar * 3, ctypes.c_void_p * 3, ctypes.c_float.__ctype_be__ * 3, ctypes.c_longdouble * 2]:
        with pytest.raises(clk.ArgumentTypeError):
            m.copy(unsupported())


def test_buffers_with_every_combination_of_fields(m):
    values = list(range(6))
    accepted = 0
    for ndim, shape, strides, format, suboffsets, length in itertools.product(
        [-1, 0, 1, 2, 65, 1 << 30],
        [None, (6,), (2, 3), (3,), (-6,), (1 << 62, 1 << 62), (0, 6)],
        [None, (4,), (12, 4), (-4,), (8,)],
        [None, b"f", b"=f", b">f", b"d", b"2f", b"T{f:x:}", b""],
        [None, (-1, -1), (0, 0)],
        [24, 0, 23, -8],
    ):
        has_all_axes = lambda field: field is None or len(field) >= max(ndim, 0)
        # In a valid buffer, each field that is not NULL has an entry for each axis.
        if not (has_all_axes(shape) and has_all_axes(strides) and has_all_axes(suboffsets)) and not ndim > 64:
            continue
        exporter = Buffer(
            (ctypes.c_float * 6)(*values), ndim=ndim, shape=shape, strides=strides, format=format, suboffsets=suboffsets, length=length
        )
        call = m.copy2 if ndim == 2 else m.copy
        # Skip strides that exceed the memory, since they cannot be detected.
        if strides is not None and strides[: max(ndim, 0)] not in [(), (4,), (12, 4)] and length == 24:
            continue
        try:
            result = np.asarray(call(exporter)).ravel().tolist()
        except (clk.ArgumentError, BufferError):
            pass
        else:
            accepted += 1
            assert result == (values if length else []) and format in (b"f", b"=f") and suboffsets != (0, 0)
        assert exporter.views == 0
    assert accepted > 10, "some combinations are valid"


def test_buffers_of_other_item_sizes(m):
    memory = (ctypes.c_float * 6)(*range(6))
    for format, itemsize in itertools.product([None, b"f", b"B", b"i", b"h", b"l", b"?"], [0, 1, 2, 3, 4, 8, -4, 1 << 40]):
        exporter = Buffer(memory, itemsize=itemsize, format=format, length=24)
        sizes = {None: [1], b"f": [4], b"B": [1], b"i": [4], b"h": [2], b"l": [4, 8], b"?": []}[format]
        if itemsize in sizes:
            assert len(m.same(exporter)) == 24 // itemsize
        else:
            with pytest.raises(clk.ArgumentError):
                m.same(exporter)
        assert exporter.views == 0


def test_random_buffers(m):
    seed = int(os.environ.get("CLK_PYTHON_SEED", 1))
    for n in range(int(os.environ.get("CLK_PYTHON_ROUNDS", 300))):
        rng = random.Random(f"{seed} {n}")
        rank = rng.choice([1, 2])
        shape = tuple(rng.randrange(4) for _ in range(rank))
        # Elements of a larger array, with positive, negative and zero strides.
        strides = [rng.choice([1, 2, 3, 4, -1, -2, 0]) for _ in shape]
        parent = np.arange(64, dtype="float32")
        expected = np.lib.stride_tricks.as_strided(parent[32:], shape, [4 * stride for stride in strides])
        memory = (ctypes.c_float * 64)(*parent)
        is_contiguous = expected.flags.c_contiguous and list(strides) == [shape[1], 1][-rank:] if rank == 2 else strides == [1]
        byte_strides = None if is_contiguous and rng.random() < 0.5 else tuple(4 * stride for stride in strides)
        exported_shape = None if rank == 1 and byte_strides is None and rng.random() < 0.5 else shape
        start = (ctypes.c_float * 1).from_buffer(memory, 4 * 32)
        exporter = Buffer(start, ndim=rank, shape=exported_shape, strides=byte_strides, length=4 * expected.size)
        result = np.asarray((m.copy2 if rank == 2 else m.copy)(exporter))
        assert result.tolist() == expected.tolist(), (seed, n, shape, strides)
        assert exporter.views == 0


def test_dlpack_tensors_with_unusual_fields(m):
    memory = floats(range(6))
    valid = FleetingTensor(memory, (6,), strides=(1,))
    assert m.copy(valid).numpy().tolist() == list(range(6)) and valid.deleted == 1
    for fields in [
        {"ndim": -1}, {"ndim": 65}, {"ndim": 1 << 30}, {"shape": None}, {"bits": 7}, {"lanes": 2}, {"code": 5}, {"code": 99},
        {"bits": 64}, {"data": None}, {"device_type": 0},
    ]:  # fmt: skip
        tensor = FleetingTensor(floats(range(6)), (6,), **fields)
        with pytest.raises((clk.ArgumentError, BufferError)):
            m.copy(tensor)
        assert tensor.deleted == 1, fields
    for shape, strides in [((-6,), None), ((1 << 62,), None), ((6,), (1 << 62,)), ((6,), (-(1 << 62),)), ((1 << 32,), (0,))]:
        tensor = FleetingTensor(floats(range(6)), shape, strides=strides)
        with pytest.raises((clk.ArgumentError, BufferError)):
            m.copy(tensor)
        assert tensor.deleted == 1, (shape, strides)


def test_too_long_axis(m):
    x = np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (1 << 31,), (0,))
    with pytest.raises(clk.ArgumentError, match="2147483648"):
        m.copy(x)


class FakeLength:
    """A sequence with a length but no items."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, at):
        raise AssertionError("an item is read before the length is checked")


collections.abc.Sequence.register(FakeLength)


def test_lengths_are_checked_before_items(m):
    for length in [sys.maxsize, 30_000_000, 4, 2]:
        for call in [m.vector, m.number, m.any, m.mass, m.pair, m.copy]:
            if (call, length) in [(m.mass, 2), (m.pair, 2)] or call is m.any and length < 1000:
                continue
            with pytest.raises(clk.ArgumentTypeError):
                call(FakeLength(length))
    with pytest.raises(AssertionError):
        m.words(FakeLength(sys.maxsize))
    for call in [m.vector, m.number, m.any, m.mass, m.copy]:
        with pytest.raises(clk.ArgumentTypeError):
            call([0.0] * 3_000_000)
    for options in [{"grid": FakeLength(sys.maxsize)}, {"block": FakeLength(4)}]:
        with pytest.raises(TypeError):
            m.copy(np.ones(3, "float32"), **options)
    with pytest.raises(clk.ArgumentTypeError):
        m.number(1 << 200_000_000)


def test_recursive_values(m):
    circle = []
    circle.extend([circle, circle, circle])
    deep = [1.0]
    for _ in range(100_000):
        deep = [deep]
    named = {}
    named["mass"] = named["at"] = named
    for value in [circle, deep, named, {"mass": 1.0, "at": circle}]:
        for call in [m.vector, m.number, m.any, m.mass, m.pair, m.copy, m.words]:
            with pytest.raises(clk.ArgumentTypeError):
                call(value)
    # Free it level by level, since Python's deletion is recursive.
    while isinstance(deep, list) and deep:
        deep = deep.pop()


SMALL_STACK = f"""
import threading
import clk, numpy
PROGRAM = {PROGRAM!r}
threading.stack_size(64 * 1024)
done = []

def work(compiled):
    m = compiled or clk.source(PROGRAM)
    x = numpy.ones(3, "float32")
    m.add_to(x, 1.0)
    m.by_both(x)
    done.append((x.tolist(), m.vector([1, 2, 3]), m.mass({{"mass": 1.0, "at": (1, 2, 3)}})))
    try:
        m.half_way(numpy.ones(1, "float32"))
    except clk.Fault as error:
        done.append(error.code)

for compiled in [clk.source(PROGRAM), None]:
    thread = threading.Thread(target=work, args=(compiled,))
    thread.start()
    thread.join()
print(done)
"""


def test_threads_with_a_small_stack():
    ran = subprocess.run([sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, timeout=600)
    expected = "([3.0, 3.0, 3.0], 6.0, 3.0)"
    assert ran.returncode == 0 and ran.stdout.count(expected) == 2 and ran.stdout.count("E0") == 2, (ran.returncode, ran.stdout, ran.stderr)


def test_fields_are_matched_by_name(m):
    from collections import namedtuple
    from dataclasses import dataclass

    @dataclass
    class Own:
        at: tuple
        mass: float

    @dataclass
    class Other:
        weight: float
        at: tuple

    valid = [
        {"mass": 1.0, "at": (1, 2, 3)},
        {"at": (1, 2, 3), "mass": 1.0},
        namedtuple("Body", "at mass")((1, 2, 3), 1.0),
        namedtuple("Body", "mass at")(1.0, (1, 2, 3)),
        Own((1, 2, 3), 1.0),
        (1.0, (1, 2, 3)),
    ]
    record = np.zeros(2, m.dtype("Body"))
    record["mass"], record["at"] = 1.0, (1, 2, 3)
    reordered = np.zeros(1, [("at", "f4", 3), ("mass", "f4")])
    reordered["mass"], reordered["at"] = 1.0, (1, 2, 3)
    for body in [*valid, record[0], reordered[0], record[0:1].reshape(())]:
        assert m.mass(body) == 3.0, body
    wrong = np.zeros(1, [("weight", "f4"), ("at", "f4", 3)])
    for body in [namedtuple("Body", "weight at")(1.0, (1, 2, 3)), Other(1.0, (1, 2, 3)), wrong[0], {"weight": 1.0, "at": (1, 2, 3)}]:
        with pytest.raises(clk.ArgumentTypeError, match="weight") as caught:
            m.mass(body)
        assert "`mass`" in str(caught.value)
    for body in [np.void(b"1234"), Own, namedtuple("Body", "mass")(1.0), namedtuple("Body", "mass at more")(1.0, (1, 2, 3), 4)]:
        with pytest.raises(clk.ArgumentTypeError):
            m.mass(body)
    # A tuple of Clk has no field names, so it accepts named tuples but not data classes.
    assert m.pair(namedtuple("P", "a b")(1.5, 2)) == 3.5
    with pytest.raises(clk.ArgumentTypeError, match="names"):
        m.pair(Own((1, 2, 3), 1.0))


def test_strings_with_surrogates(m):
    f = clk.source("fn f(s: str) -> str { s }\nfn g(s: [str; _]) -> [str; _] { s }")
    assert f.f("ä€😀") == "ä€😀" and f.g(["ä", ""]) == ["ä", ""]
    for call in [lambda: f.f("a\ud800"), lambda: f.g(["a", "\udc80"])]:
        with pytest.raises(clk.ArgumentTypeError, match="surrogate"):
            call()
    for call in [lambda: f.g([1]), lambda: f.g(3), lambda: f.f(["a"])]:
        with pytest.raises(clk.ArgumentTypeError):
            call()


FAKE_TORCH = f"""
import sys, types
import numpy

# A fake torch that records the tensors whose version counters are incremented.
modules = {{name: types.ModuleType(name) for name in ["torch", "torch.autograd", "torch.autograd.graph", "torch.autograd.forward_ad"]}}
sys.modules.update(modules)
torch = modules["torch"]
torch.is_grad_enabled = lambda: True
modules["torch.autograd.forward_ad"]._current_level = -1
incremented = []
modules["torch.autograd.graph"].increment_version = lambda tensor: incremented.append(tensor.name)

class Tensor:
    requires_grad = False

    def __init__(self, name, inference=False):
        self.name, self.inference, self.memory = name, inference, numpy.ones(4, "float32")

    def is_inference(self):
        return self.inference

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()

    def __dlpack__(self, **named):
        return self.memory.__dlpack__(**named)

Tensor.__module__ = "torch"
torch.Tensor = Tensor

import clk
m = clk.source({PROGRAM!r})
x, y = Tensor("x"), Tensor("y")

def increments(call):
    incremented.clear()
    try:
        call()
    except clk.Error as error:
        incremented.append(error.code)
    return incremented.copy()

print(increments(lambda: m.add_to(x, 1.0)))
print(increments(lambda: m.by_update(x)), x.memory.tolist())
print(increments(lambda: m.copy(x, out=y)), increments(lambda: m.copy(x, y)), y.memory.tolist())
print(increments(lambda: m.two(x, y)))
print(increments(lambda: m.half_way(x)))
print(increments(lambda: m.add_to(Tensor("z", True), 1.0)), increments(lambda: m.copy(x, out=numpy.ones(4, "float32"))))
x.requires_grad = True
print(increments(lambda: m.add_to(x, 1.0)))
"""


def test_version_counters_of_written_tensors_are_incremented():
    ran = subprocess.run([sys.executable, "-c", FAKE_TORCH], capture_output=True, text=True, timeout=600)
    expected = [
        "['x']",
        "['x'] [3.0, 3.0, 3.0, 3.0]",
        "['y'] ['y'] [3.0, 3.0, 3.0, 3.0]",
        "['x', 'y']",
        # The version counter must also change after a failed call, which may have written.
        "['x', 'E0530']",
        "[] []",
        "['E0809']",
    ]
    assert ran.stdout.splitlines() == expected, ran.stdout + ran.stderr
