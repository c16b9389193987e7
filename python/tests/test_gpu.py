"""Arrays in GPU memory: used without a copy, and results in the same library. Needs torch with CUDA, and NVRTC. Tests of CuPy and JAX run if
these are installed.

Runs under pytest. Without pytest, `python test_gpu.py [WORD…]` runs the tests whose names contain one of the words.
"""

import contextlib
import gc
import os
import pathlib
import re
import sys
import threading
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import clk


def _skip_reason():
    try:
        import torch
    except ImportError:
        return "no torch"
    if not torch.cuda.is_available():
        return "no GPU"
    return None


SKIP_REASON = _skip_reason()
if SKIP_REASON is None:
    import torch

try:
    import pytest

    pytestmark = pytest.mark.skipif(SKIP_REASON is not None, reason=f"{SKIP_REASON}")
except ImportError:
    pytest = None

PROGRAM = """
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] }
kernel double2<T: Num>(x: [T; M, N], out y: [T; M, N]) threads(i: M, j: N) { y[i, j] = x[i, j] + x[i, j] }
kernel reversed(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[N - 1 - i] }
kernel not(x: [bool; N], out y: [bool; N]) threads(i: N) { y[i] = !x[i] }
kernel count(x: [bool; N], out y: [i32; N]) threads(i: N) { y[i] = i32(x[i]) }
kernel flip(inout x: [bool; N]) threads(i: N) { x[i] = !x[i] }
kernel add_to(inout x: [f32; N], by: f32) threads(i: N) { x[i] += by }
kernel two(x: [f32; N], out a: [f32; N], out b: [f32; N]) threads(i: N) { a[i] = x[i] + 1.0; b[i] = x[i] - 1.0 }
kernel both(inout a: [f32; N], inout b: [f32; N]) threads(i: N) { a[i] += 1.0; b[i] += 1.0 }
kernel ramp(out y: [f32; N]) threads(i: N) { y[i] = f32(i) }
kernel half(x: [bf16; N], out y: [bf16; N]) threads(i: N) { y[i] = x[i] * 0.5 }
kernel lengths(x: [f32x3; N], out y: [f32; N]) threads(i: N) { y[i] = dot(x[i], x[i]) }
kernel pairs(x: [f32; N], out y: [f32x2; N]) threads(i: N) { y[i] = f32x2(x[i], 1.0) }
kernel add_length(_a: [f32; M], x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] + f32(M) }
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = alpha * x[i] * x[i] + y[i] }
kernel outside(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }
kernel aloud(x: [f32; N]) threads(i: N) { if i == 0 { print("first {x[i]}") } }
kernel bin(x: [i32; N], inout bins: [i32; M]) threads(i: N) { atomic_add(bins[x[i] % M], 1) }
kernel product(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]) threads(i: M, j: N) {
    var sum = 0.0
    for k in 0..K { sum += a[i, k] * b[k, j] }
    c[i, j] = sum
}
fn energy(x: [f32; N], k: f32) -> f32 { k * sum(x * x) }
fn same(x: [f32; N]) -> [f32; N] { x }
fn changed(x: [f32; N]) -> [f32; N] {
    var y = x
    y[0] = 5.0
    y
}
fn shifted(x: [f32; N]) -> ([f32; N], f32) { (x + 1.0, x[0]) }
fn twice(inout x: [f32; N]) { x[..] = x * 2.0 }
fn first(inout x: [f32; N]) { x[0] = 7.0 }
"""

_program = []


def program():
    if not _program:
        _program.append(clk.source(PROGRAM, name="gpu.clk"))
    return _program[0]


@contextlib.contextmanager
def raises(kind, *words):
    """Expects an exception of a class whose message contains the words."""
    try:
        yield
    except kind as error:
        text = f"{error} {getattr(error, 'rendered', '')}"
        for word in words:
            assert word in text, f"no {word!r} in {text}"
        return
    raise AssertionError(f"no exception: {words}")


def busy(milliseconds=60):
    """Occupies the current stream for a time, so that work after it is still pending when a call begins."""
    torch.cuda._sleep(int(milliseconds * 1.5e6))


def floats(n, seed=0):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed)).cuda()


class ByInterface:
    """A tensor as another library would export it, by `__cuda_array_interface__`."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": 1, **changes}


class ByDlpack:
    """A tensor as another library would export it, by DLPack, with its work on another stream."""

    def __init__(self, tensor, work_stream):
        self.tensor, self.work_stream, self.streams = tensor, work_stream, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        with torch.cuda.stream(self.work_stream):
            return self.tensor.__dlpack__(stream=stream)


def by_exchange_api(tensor):
    """A tensor as another library would export it, by DLPack's C exchange API. The functions are those of torch."""
    import ctypes

    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    torch_table = api.PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    table = (ctypes.c_uint64 * 7).from_buffer_copy((ctypes.c_uint64 * 7).from_address(torch_table))
    function_type = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    from_object = function_type(table[3])
    export_tensor = function_type(lambda _object, result: from_object(id(tensor), result))
    table[3] = ctypes.cast(export_tensor, ctypes.c_void_p).value
    kind = type("Other", (), {"references": (table, export_tensor, tensor)})
    kind.__dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(table), b"dlpack_exchange_api", None)
    return kind()


def test_torch_arrays_in_place():
    m = program()
    x = floats(1000)
    y = m.double(x)
    assert isinstance(y, torch.Tensor) and y.device == x.device and y.dtype == x.dtype and torch.equal(y, x + x)
    out = torch.zeros(1000, device="cuda")
    address = out.data_ptr()
    assert m.double(x, out=out) is out and out.data_ptr() == address and torch.equal(out, x + x)
    m.add_to(out, 1.0)
    assert torch.equal(out, x + x + 1.0)
    for device in ["gpu", "gpu:0", "cuda", "cuda:0", "auto"]:
        assert torch.equal(m.double(x, device=device), x + x), device
    assert torch.equal(m.double.using(device="gpu")(x), x + x)
    # Calls that use the same memory again, with changed content.
    for n in range(50):
        x.fill_(n)
        assert m.double(x, out=out)[n].item() == 2 * n


def test_types():
    m = program()
    kinds = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for kind in kinds:
        x = torch.arange(37).to(kind).cuda()
        y = m.double(x)
        assert y.dtype == kind and y.is_cuda and torch.equal(y.cpu(), (torch.arange(37) * 2).to(kind)), kind
    assert m.half(torch.ones(3, dtype=torch.bfloat16, device="cuda")).tolist() == [0.5] * 3
    with raises(clk.ArgumentTypeError, "f64"):
        m.add_to(torch.zeros(3, dtype=torch.float64, device="cuda"), 1.0)
    with raises(clk.ArgumentTypeError, "complex64"):
        m.double(torch.zeros(3, dtype=torch.complex64, device="cuda"))


def test_results_equal_those_of_the_simulator():
    m = program()
    sizes = [1, 2, 3, 31, 32, 33, 127, 1000, 4097, 100_003]
    for seed, n in enumerate(sizes):
        x = floats(n, seed)
        assert torch.equal(m.reversed(x).cpu(), m.reversed(x.cpu(), device="sim")), n
        a, b = m.two(x)
        assert torch.equal(a, x + 1) and torch.equal(b, x - 1) and a.is_cuda and b.is_cuda
        k = torch.randint(0, 1000, (n,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))
        bins, host = torch.zeros(17, dtype=torch.int32, device="cuda"), torch.zeros(17, dtype=torch.int32)
        m.bin(k.cuda(), bins)
        m.bin(k, host, device="sim")
        assert torch.equal(bins.cpu(), host), n
    for rows, inner, columns in [(1, 1, 1), (17, 5, 33), (64, 64, 64), (130, 70, 260), (256, 512, 128)]:
        a, b = floats(rows * inner, rows).view(rows, inner), floats(inner * columns, inner).view(inner, columns)
        c = m.product(a, b)
        assert torch.allclose(c, a.double().matmul(b.double()).float(), atol=1e-3), (rows, inner, columns)


def test_layouts():
    m = program()
    x = floats(1001)
    for view in [x[1:], x[3:77], x[::2], x[:1].expand(9), x[5:5]]:
        assert torch.equal(m.double(view), view + view), view.stride()
    y = floats(12).view(3, 4)
    for view in [y.T, y[:, 1:3], y[1:], y.expand(3, 4), y[:, :1].expand(3, 4)]:
        assert torch.equal(m.double2(view), view + view), view.stride()
    # A misaligned output: the elements next to it do not change.
    out = torch.full((12,), -1.0, device="cuda")
    m.double(x[:10], out=out[1:11])
    assert torch.equal(out[1:11], x[:10] * 2) and out[0].item() == -1 and out[11].item() == -1
    m.add_to(out[3:5], 1.0)
    assert torch.equal(out[3:5], x[2:4] * 2 + 1)
    with raises(clk.ArgumentTypeError, "E0809", "row-major"):
        m.double(x[:5], out=torch.zeros(10, device="cuda")[::2])
    with raises(clk.ArgumentTypeError, "row-major"):
        m.double(ByInterface(x[::2]))
    assert m.double(torch.zeros(0, device="cuda")).shape == (0,)
    assert m.double2(torch.zeros(0, 5, device="cuda")).shape == (0, 5)
    assert m.lengths(torch.ones(5, 3, device="cuda")).tolist() == [3.0] * 5
    assert m.pairs(torch.arange(2.0, device="cuda")).tolist() == [[0, 1], [1, 1]]


def test_overlaps():
    m = program()
    x = floats(256)
    before = x.clone()
    m.reversed(x, out=x)
    assert torch.equal(x, before.flip(0)), "the input has the content from before the call"
    m.reversed(x[:128], out=x[64:192])
    assert torch.equal(x[64:192], before.flip(0)[:128].flip(0))
    with raises(clk.ArgumentTypeError, "E0809", "both written"):
        m.both(x, x)
    with raises(clk.ArgumentTypeError, "both written"):
        m.two(x.clone(), out=(x[:256], x[0:256]))
    m.both(x[:128], x[128:])
    # Results do not share memory with arguments.
    y = m.same(x)
    assert torch.equal(y, x) and y.data_ptr() != x.data_ptr()
    y.fill_(0)
    assert not torch.equal(y, x)


def test_bools():
    m = program()
    x = torch.tensor([True, False, True], device="cuda")
    assert getattr(m, "not")(x).tolist() == [False, True, False]
    odd = torch.tensor([0, 1, 2, 255, 128], dtype=torch.uint8, device="cuda").view(torch.bool)
    assert m.count(odd).tolist() == [0, 1, 1, 1, 1]
    m.flip(odd)
    assert odd.view(torch.uint8).tolist() == [1, 0, 0, 0, 0]


def test_stream_ordering():
    m = program()
    x, y = torch.zeros(1 << 16, device="cuda"), torch.zeros(1 << 16, device="cuda")
    torch.cuda.synchronize()
    for round in range(1, 4):
        # Work on the default stream.
        busy()
        x.fill_(round)
        assert m.double(x).eq(2 * round).all()
        # Work on a side stream, which is torch's current stream.
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            busy()
            x.fill_(round + 10)
            z = m.double(x)
            m.double(x, out=y)
        # The result is used on another stream, which waits for the first one, as torch requires.
        other = torch.cuda.Stream()
        other.wait_stream(side)
        with torch.cuda.stream(other):
            assert z.eq(2 * round + 20).all() and y.eq(2 * round + 20).all()
        torch.cuda.synchronize()


def test_calls_wait_only_if_necessary():
    m = program()
    # A large array, since functions compute small ones on the host.
    n = 1 << 20
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    bins = torch.zeros(8, dtype=torch.int32, device="cuda")
    ints, on_host = torch.arange(n, dtype=torch.int32, device="cuda"), torch.ones(n)
    calls = {
        "results": (lambda: m.double(x), False),
        "in place": (lambda: m.double(x, out=out), False),
        "copied": (lambda: m.reversed(x, out=x), False),
        "a part": (lambda: m.double(x[1:], out=out[:-1]), False),
        "a function": (lambda: m.twice(out), False),
        "may fault": (lambda: m.bin(ints, bins), True),
        "a number": (lambda: m.energy(x, 0.5), True),
        "an array in host memory": (lambda: m.saxpy(2.0, x, on_host), True),
        "another library": (lambda: m.double(ByInterface(x)), True),
        "exchange API of another library": (lambda: m.double(by_exchange_api(x)), True),
        "another library first": (lambda: m.add_length(ByInterface(x[:0]), x), True),
        "no elements first": (lambda: m.add_length(x[:0], x), False),
        "a device by another name": (lambda: m.double(x, out=out, device="auto"), False),
    }
    # Compute several results first, so that memory for them is allocated: an allocation in the driver may wait for the
    # GPU.
    results = [call() for call, _ in calls.values() for _ in range(4)]
    torch.cuda.synchronize()
    del results
    for name, (call, waits) in calls.items():
        torch.cuda.synchronize()
        busy(300)
        call()
        assert torch.cuda.current_stream().query() == waits, name
    # Arguments are temporary arrays, whose memory torch reuses immediately.
    for side in [torch.cuda.default_stream(), torch.cuda.Stream()]:
        with torch.cuda.stream(side):
            sums = []
            for n in range(300):
                if n % 100 == 0:
                    busy(30)
                y = m.double(torch.full((5000,), float(n), device="cuda"))
                z = m.double(torch.full((5000,), -1.0, device="cuda"))
                m.add_to(y, 1.0)
                sums.append((y + z).sum())
                del y, z
            assert [sum.item() for sum in sums] == [5000.0 * (2 * n - 1) for n in range(300)]
    # The program may be freed while its kernels are still running.
    for n in range(3):
        temporary = clk.source(f"kernel plus(x: [f32; N], out y: [f32; N]) threads(i: N) {{ y[i] = x[i] + {n + 1}.0 }}")
        temporary.plus(x)
        torch.cuda.synchronize()
        busy(100)
        y = temporary.plus(x)
        del temporary
        gc.collect()
        assert y.eq(n + 2).all()
    # A fault is attributed to the right call, even if earlier work is still pending.
    busy()
    y = m.double(x)
    with raises(clk.Fault, "E0601"):
        m.outside(y)
    assert y.eq(2).all()


def test_streams_of_other_libraries():
    m = program()
    x = torch.zeros(1 << 16, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for round in range(1, 4):
        with torch.cuda.stream(side):
            busy()
            x.fill_(round)
        exported = ByInterface(x, stream=side.cuda_stream)
        assert m.double(exported).numpy().tolist() == [2 * round] * x.numel()
        with torch.cuda.stream(side):
            busy()
            x.fill_(round + 10)
        exported = ByDlpack(x, side)
        assert m.double(exported).numpy()[-1] == 2 * round + 20
        assert exported.streams[0] not in (None, 0, 1, 2)
        busy()
        x.fill_(round + 20)
        assert m.double(ByInterface(x, stream=1)).numpy()[-1] == 2 * round + 40
        x.fill_(round + 30)
        torch.cuda.synchronize()
        for stream in [None, 2]:
            assert m.double(ByInterface(x, stream=stream)).numpy()[-1] == 2 * round + 60
    old = ByInterface(x, version=2)
    del old.__cuda_array_interface__["stream"]
    busy()
    x.fill_(77)
    assert m.double(old).numpy()[0] == 154
    with raises(clk.ArgumentTypeError, "E0809", "stream 0"):
        m.double(ByInterface(x, stream=0))
    m.add_to(ByInterface(x), 1.0)
    assert x.eq(78).all()
    frozen = ByInterface(x, data=(x.data_ptr(), True))
    assert m.double(frozen).numpy()[0] == 156
    with raises(clk.ArgumentTypeError, "read-only"):
        m.add_to(frozen, 1.0)
    host = torch.zeros(16)
    with raises(clk.ArgumentTypeError, "E0809", "GPU"):
        m.double(ByInterface(x, data=(host.data_ptr(), False)))


def test_results_may_be_freed_while_they_are_used():
    m = program()
    side = torch.cuda.Stream()
    x = torch.ones(1 << 18, device="cuda")
    sums = []
    for round in range(20):
        y = m.double(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            busy(5)
            sums.append(y + round)
        del y
        # This allocation reuses the memory of `y` if it was freed too early.
        m.add_to(m.double(x), 100.0)
    torch.cuda.synchronize()
    for round, z in enumerate(sums):
        assert z.eq(2 + round).all(), round


def test_clk_arrays():
    m = program()
    x = floats(100)
    y = m.double(ByInterface(x))
    assert isinstance(y, clk.Array) and y.__dlpack_device__() == (2, 0) and y.shape == (100,) and y.dtype == "float32"
    interface = y.__cuda_array_interface__
    assert interface["version"] == 3 and interface["typestr"] == "<f4"
    assert interface["shape"] == (100,) and interface["stream"] is None
    t, u = torch.from_dlpack(y), torch.as_tensor(y, device="cuda")
    assert t.data_ptr() == u.data_ptr() == interface["data"][0] and torch.equal(t, x + x)
    assert t.data_ptr() % 16 == 0
    t.fill_(3)
    assert y.numpy().tolist() == [3] * 100 and "3" in repr(y), "writes of other libraries are visible"
    t.fill_(4)
    assert y.numpy().tolist() == [4] * 100
    assert m.double(y).numpy().tolist() == [8] * 100
    m.add_to(y, 1.0)
    assert t.eq(5).all()
    with raises(BufferError, "stream"):
        y.__dlpack__(stream=0)
    with raises(BufferError):
        memoryview(y)
    with raises(BufferError):
        y.__dlpack__(dl_device=(2, 7))
    import numpy

    assert numpy.from_dlpack(torch.from_dlpack(y.__dlpack__(dl_device=(1, 0)))).tolist() == [5] * 100
    for stream in [None, 1, 2, -1, torch.cuda.Stream().cuda_stream]:
        y.__dlpack__(stream=stream)
    with raises(clk.ArgumentTypeError, "read-only"):
        m.add_to(ByDlpack(x, torch.cuda.current_stream()), 1.0)
    writable = ByDlpack(x, torch.cuda.current_stream())
    writable.__cuda_array_interface__ = x.__cuda_array_interface__
    before = x.clone()
    m.add_to(writable, 1.0)
    assert torch.equal(x, before + 1)
    half = m.half(ByDlpack(torch.ones(3, dtype=torch.bfloat16, device="cuda"), torch.cuda.current_stream()))
    assert torch.from_dlpack(half).tolist() == [0.5] * 3
    with raises(AttributeError):
        half.__cuda_array_interface__
    with raises(AttributeError):
        m.double(__import__("array").array("f", [1.0])).__cuda_array_interface__
    # Memory is not freed while an array uses it.
    del y, u
    gc.collect()
    m.double(x)
    assert t.eq(5).all()


def test_functions():
    m = program()
    x = floats(300)
    assert abs(m.energy(x, 0.5) - 0.5 * x.square().sum().item()) < 1e-2
    before = x.clone()
    y = m.changed(x)
    assert y.is_cuda and y[0].item() == 5 and torch.equal(x, before), "an input does not change"
    z, first = m.shifted(x)
    assert z.is_cuda and torch.equal(z, x + 1) and first == x[0].item()
    address = x.data_ptr()
    m.twice(x)
    assert x.data_ptr() == address and torch.equal(x, before * 2)
    m.first(x)
    assert x[0].item() == 7 and torch.equal(x[1:], before[1:] * 2)
    # Tensors without axes are passed as numbers.
    m.add_to(x, torch.tensor(1.0, device="cuda"))
    assert x[0].item() == 8


def test_host_and_gpu_arrays_in_one_call():
    m = program()
    x, y = floats(64), torch.ones(64)
    r = m.saxpy(2.0, x, y)
    assert r.is_cuda and torch.allclose(r, 2 * x * x + 1)
    r = m.saxpy(2.0, y, x)
    assert not r.is_cuda and torch.allclose(r, 2 + x.cpu())
    out = torch.zeros(64)
    assert m.saxpy(2.0, x, y, out=out) is out and torch.allclose(out, 2 * x.cpu() ** 2 + 1)
    out = torch.zeros(64, device="cuda")
    m.double(y, out=out)
    assert out.eq(2).all()
    # If no array is in GPU memory, `device` selects the GPU, and results are in host memory.
    assert m.double(y, device="gpu").eq(2).all() and not m.double(y, device="gpu").is_cuda


def test_memory_is_freed():
    m = program()
    x = torch.ones(1 << 20, device="cuda")
    for _ in range(20):
        m.double(x)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    own = torch.cuda.memory_allocated()
    for n in range(1000):
        y = m.double(x)
        m.add_to(y, 1.0)
        if n % 100 == 0:
            assert y.eq(3).all()
    del y
    torch.cuda.synchronize()
    leaked = free - torch.cuda.mem_get_info()[0]
    assert leaked < 64 << 20, f"{leaked >> 20} MiB leaked in 1000 calls of 4 MiB each"
    assert torch.cuda.memory_allocated() == own
    # The memory of the arguments must be freed, too.
    for _ in range(5):
        m.double(torch.ones(1 << 20, device="cuda"))
    assert torch.cuda.memory_allocated() == own


def test_calls_work_after_faults():
    m = program()
    x = floats(100)
    for _ in range(3):
        with raises(clk.Fault, "E0601", "index 100 is out of bounds"):
            m.outside(x)
        out = torch.zeros(100, device="cuda")
        with raises(clk.Fault, "E0601"):
            m.outside(x, out=out)
        assert torch.equal(m.double(x), x + x)
        assert torch.equal(torch.matmul(x.view(10, 10), torch.eye(10, device="cuda")), x.view(10, 10))
        torch.cuda.synchronize()


def test_rejected_calls():
    m = program()
    x = floats(10)
    with raises(clk.ArgumentTypeError, "E0809", "sim", "gpu:0"):
        m.double(x, device="sim")
    with raises(clk.ArgumentTypeError, "E0809", "checks"):
        m.double(x, check=True)
    with raises(clk.ArgumentTypeError, "E0809"):
        m.double(x, device="both")
    with raises(clk.ArgumentTypeError, "gradient"):
        m.double(x.clone().requires_grad_())
    with raises(clk.ArgumentError):
        m.saxpy(1.0, x, floats(11))
    with raises(clk.ArgumentTypeError, "host"):
        clk.source("fn f(v: f32x3) -> f32 { v.x }").f(x[:3])
    graph = torch.cuda.CUDAGraph()
    with raises(Exception, "CUDA graph"):
        with torch.cuda.graph(graph):
            m.double(x)
    torch.cuda.synchronize()
    assert torch.equal(m.double(x), x + x)


def test_printing():
    m = program()
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        m.aloud(torch.full((4,), 2.5, device="cuda"))
    assert text.getvalue() == "first 2.5\n", text.getvalue()


def test_gradients_and_operators():
    import clk.torch

    m = program()
    f = clk.torch.function(m, "saxpy")
    x = torch.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    y = torch.ones(3, device="cuda", requires_grad=True)
    alpha = torch.tensor(2.0, device="cuda", requires_grad=True)
    r = f(alpha, x, y)
    assert r.is_cuda
    r.backward(torch.tensor([1.0, 10.0, 100.0], device="cuda"))
    assert r.tolist() == [3, 9, 19] and x.grad.is_cuda and alpha.grad.is_cuda
    assert x.grad.tolist() == [4, 80, 1200] and y.grad.tolist() == [1, 10, 100] and alpha.grad.item() == 941
    x.grad = None
    clk.torch.function(m, "energy")(x, 0.5).backward()
    assert x.grad.tolist() == [1, 2, 3]
    op = clk.torch.operator(m, "saxpy", "clk_gpu_tests::saxpy")
    x.grad = None
    op(2.0, x, y).sum().backward()
    assert x.grad.tolist() == [4, 8, 12]
    compiled = torch.compile(lambda x: op(2.0, x * 2.0, x) + 1.0, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2, device="cuda")).tolist() == [10, 10]


def test_threads_and_modules():
    m, other = program(), clk.source(PROGRAM)
    errors = []

    def work(k):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for n in range(30):
                    busy(1)
                    x = torch.full((5000,), float(k * 100 + n), device="cuda")
                    y = (m if n % 2 else other).double(x)
                    y = (other if n % 3 else m).double(y)
                    assert y.eq(4.0 * (k * 100 + n)).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors, errors


def test_several_gpus():
    if torch.cuda.device_count() < 2:
        print("skipped: one GPU")
        return
    m = program()
    x, y = floats(1000), floats(1000).to("cuda:1")
    z = m.double(y)
    assert z.device == y.device and torch.equal(z, y + y)
    assert torch.cuda.current_device() == 0
    with raises(clk.ArgumentTypeError, "E0809", "gpu:0", "gpu:1"):
        m.saxpy(1.0, x, y)
    with raises(clk.ArgumentTypeError, "gpu:1"):
        m.double(y, device="gpu:0")
    assert torch.equal(m.double(y, device="gpu:1"), y + y)
    own = m.double(ByInterface(y))
    assert own.__dlpack_device__() == (2, 1) and torch.equal(torch.from_dlpack(own), y + y)
    with torch.cuda.device(1):
        busy()
        y.fill_(3)
        assert m.double(y).eq(6).all() and m.double(x).device == x.device
        assert torch.cuda.current_device() == 1
    side = torch.cuda.Stream(device="cuda:1")
    with torch.cuda.stream(side):
        busy()
        y.fill_(4)
        assert m.double(y).eq(8).all()
    del z, own
    gc.collect()
    assert torch.cuda.current_device() == 0 and floats(3).device.index == 0


def test_cupy():
    try:
        import cupy
    except ImportError:
        print("skipped: no CuPy")
        return
    m = program()
    x = cupy.arange(1000, dtype=cupy.float32)
    y = m.double(x)
    assert isinstance(y, cupy.ndarray) and (y == x + x).all()
    out = cupy.zeros(1000, cupy.float32)
    assert m.double(x, out=out) is out and (out == x + x).all()
    m.add_to(out, 1.0)
    assert (out == x + x + 1).all()
    assert (m.double(x[::-1]) == (x + x)[::-1]).all() and (m.double(x[3:]) == 2 * x[3:]).all()
    odd = cupy.array([0, 1, 2, 255], cupy.uint8).view(cupy.bool_)
    assert m.count(odd).tolist() == [0, 1, 1, 1]
    m.flip(odd)
    assert odd.view(cupy.uint8).tolist() == [1, 0, 0, 0]
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        for _ in range(50):
            cupy.matmul(cupy.ones((2000, 2000), cupy.float32), cupy.ones((2000, 2000), cupy.float32))
        x.fill(9)
        assert (m.double(x) == 18).all()


def test_jax():
    try:
        import jax
        import jax.numpy as jnp

        if jax.default_backend() != "gpu":
            raise ImportError
    except (ImportError, RuntimeError):
        print("skipped: no JAX on a GPU")
        return
    m = program()
    x = jnp.arange(1000, dtype=jnp.float32)
    y = m.double(x)
    assert isinstance(y, jax.Array) and (y == x + x).all() and y.devices() == x.devices()
    assert m.half(jnp.ones(3, jnp.bfloat16)).tolist() == [0.5] * 3
    with raises(clk.ArgumentTypeError, "read-only"):
        m.add_to(x, 1.0)


def test_documentation():
    page = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
    blocks = re.findall(r"^```python gpu\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), {"clk": clk})


def main(words):
    if SKIP_REASON is not None:
        print(f"skipped: {SKIP_REASON}")
        return 0
    print(f"clk {clk.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}, {torch.cuda.device_count()} GPUs")
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not words or any(word in name for word in words)):
            try:
                test()
                print(f"ok      {name}", flush=True)
            except BaseException:
                failed += 1
                print(f"FAILED  {name}", flush=True)
                traceback.print_exc()
    print("all passed" if not failed else f"{failed} FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
