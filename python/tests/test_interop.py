"""Arrays of other libraries: used without a copy if their layout permits, and results in the same library."""

import array
import ctypes
import gc
import sys
import weakref

import clk
import numpy as np
import pytest

PROGRAM = """
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] }
kernel double2<T: Num>(x: [T; M, N], out y: [T; M, N]) threads(i: M, j: N) { y[i, j] = x[i, j] + x[i, j] }
kernel not(x: [bool; N], out y: [bool; N]) threads(i: N) { y[i] = !x[i] }
kernel add_to(inout x: [f32; N], by: f32) threads(i: N) { x[i] += by }
kernel ramp(out y: [f32; N]) threads(i: N) { y[i] = f32(i) }
kernel half(x: [bf16; N], out y: [bf16; N]) threads(i: N) { y[i] = x[i] * 0.5 }
kernel pairs(out y: [f32x2; N]) threads(i: N) { y[i] = f32x2(f32(i), 1.0) }
kernel sums(x: [f32; N], out y: [f32; ceil_div(N, 4)]) threads(i: ceil_div(N, 4)) {
    var total = 0.0
    for k in 4 * i..min(4 * i + 4, N) { total += x[k] }
    y[i] = total
}
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = alpha * x[i] * x[i] + y[i] }
fn energy(x: [f32; N], k: f32) -> f32 { k * sum(x * x) }
kernel whole(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] }
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(PROGRAM)


def test_python_buffers(m):
    x = array.array("f", [1.0, 2.0])
    y = m.double(x)
    assert isinstance(y, clk.Array) and y.shape == (2,) and y.dtype == "float32" and y.type == "[f32; 2]"
    assert np.asarray(y).tolist() == [2, 4] and memoryview(y).tolist() == [2, 4] and len(y) == 2
    assert m.double(bytearray(b"\x01\x02")).numpy().tolist() == [2, 4]
    assert m.double(memoryview(x)[::-1]).numpy().tolist() == [4, 2]
    m.add_to(x, 1.0)
    assert x.tolist() == [2, 3]
    with pytest.raises(clk.ArgumentTypeError, match="read-only"):
        m.add_to(memoryview(x).toreadonly(), 1.0)
    assert m.double(y).numpy().tolist() == [4, 8]


def test_clk_arrays(m):
    y = m.double(array.array("i", range(3)))
    view = np.asarray(y)
    view[0] = 9
    assert memoryview(y)[0] == 9 and "[9 2 4]" in repr(y)
    assert np.from_dlpack(y).tolist() == [9, 2, 4]
    assert np.from_dlpack(y, copy=True) is not view
    assert y.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        y.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        y.__dlpack__(dl_device=(2, 0))
    with pytest.raises(AttributeError):
        y.__cuda_array_interface__
    assert not hasattr(y, "__cuda_array_interface__")


def test_lifetime_of_memory(m):
    y = m.ramp(N=1000)
    z = y[10:20]
    del y
    gc.collect()
    assert z.tolist() == list(range(10, 20))
    x = np.ones(1000, "float32")
    alive = weakref.ref(x)
    m.double(x)
    del x
    gc.collect()
    assert alive() is None, "a call keeps its arguments"
    capsule = m.double(array.array("f", [1.0])).__dlpack__(max_version=(1, 1))
    del capsule
    gc.collect()


def test_vector_components_are_the_last_axis(m):
    assert m.pairs(N=3).tolist() == [[0, 1], [1, 1], [2, 1]]


def test_empty_arrays(m):
    assert m.double(np.zeros(0, "int16")).shape == (0,)
    assert m.double2(np.zeros((0, 5), "float32")).shape == (0, 5)
    assert m.double(array.array("f", [])).shape == (0,)


def test_bfloat16(m):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1, 3, -2.5], ml_dtypes.bfloat16)
    y = m.half(x)
    assert y.dtype == ml_dtypes.bfloat16 and y.astype("float32").tolist() == [0.5, 1.5, -1.25]
    with pytest.raises(clk.ArgumentTypeError):
        m.half(np.ones(3, "float32"))
    with pytest.raises(clk.ArgumentTypeError):
        m.double(np.ones(3, ml_dtypes.float8_e4m3fn))


def test_torch(m):
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    y = m.double(x)
    assert isinstance(y, torch.Tensor) and y.tolist() == [0, 2, 4, 6]
    for dtype in [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16, torch.bfloat16, torch.float64]:
        y = m.double(torch.arange(3).to(dtype))
        assert y.dtype == dtype and y.tolist() == [0, 2, 4]
    assert m.half(torch.ones(2, dtype=torch.bfloat16)).tolist() == [0.5, 0.5]
    assert getattr(m, "not")(torch.tensor([True, False])).tolist() == [False, True]
    assert m.double2(torch.arange(6, dtype=torch.int32).reshape(2, 3).T).tolist() == [[0, 6], [2, 8], [4, 10]]
    out = torch.zeros(4)
    assert m.double(x, out=out) is out and out.tolist() == [0, 2, 4, 6]
    m.add_to(out, 1.0)
    assert out.tolist() == [1, 3, 5, 7]
    with pytest.raises(clk.ArgumentTypeError, match="row-major"):
        m.double(x[:2], out=torch.zeros(4)[::2])
    with pytest.raises(clk.ArgumentTypeError, match="gradient"):
        m.double(x.clone().requires_grad_())
    with pytest.raises(clk.ArgumentTypeError):
        m.double(torch.zeros(2, dtype=torch.complex64))
    lazy = torch.conj(torch.view_as_complex(torch.ones(2, 2))).imag
    assert lazy.is_neg()
    with pytest.raises(clk.ArgumentTypeError, match="lazy"):
        m.double(lazy)


def test_unusual_tensors(m):
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    for tensor in [torch.zeros(0), torch.ones(1).expand(5), x.flip(0), torch.nn.Parameter(x, requires_grad=False)]:
        assert m.double(tensor).tolist() == (tensor + tensor).tolist()
    with torch.inference_mode():
        assert m.double(torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(clk.ArgumentTypeError, match="no memory"):
        m.double(torch._efficientzerotensor(4))
    with pytest.raises(clk.ArgumentTypeError, match="lazy view"):
        m.double(torch.conj(torch.complex(x, x)))
    with pytest.raises(clk.ArgumentTypeError, match="gradient"):
        m.double(torch.nn.Parameter(x))
    for tensor in [x.to_sparse(), torch.empty(4, device="meta"), x.to_mkldnn()]:
        with pytest.raises(Exception):
            m.double(tensor)
    # Calls do not keep references to arguments.
    before = sys.getrefcount(x)
    for _ in range(100):
        m.double(x)
    assert sys.getrefcount(x) == before


def test_tensors_without_readable_memory(m):
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Derived(torch.Tensor):
        pass

    # Subclasses of tensors are checked as well.
    lazy = torch.conj(torch.view_as_complex(torch.ones(2, 2))).imag.as_subclass(Derived)
    assert type(lazy) is Derived and lazy.is_neg()
    with pytest.raises(clk.ArgumentTypeError, match="lazy"):
        m.double(lazy)
    with pytest.raises(clk.ArgumentTypeError, match="gradient"):
        m.double(torch.ones(2).as_subclass(Derived).requires_grad_())
    y = m.double(torch.ones(2).as_subclass(Derived))
    assert isinstance(y, torch.Tensor) and y.tolist() == [2, 2]
    assert m.double(torch.nn.Parameter(torch.ones(2), requires_grad=False)).tolist() == [2, 2]
    # Tensors that have elements but no memory are rejected.
    freed = torch.ones(8)
    part, empty = freed[3:], freed[:0]
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.ones(8)
    for x in [torch._efficientzerotensor(8), freed, part, fake, fake[3:]]:
        for call in [lambda: m.double(x), lambda: m.double(torch.ones(len(x)), out=x), lambda: m.add_to(x, 1.0)]:
            with pytest.raises(clk.ArgumentTypeError, match="no memory") as caught:
                call()
            assert caught.value.code == "E0809"
    assert m.double(empty).tolist() == []
    with pytest.raises(clk.ArgumentTypeError, match="no memory"):
        torch.func.functionalize(m.double)(torch.ones(3))
    # The call would lose the tangent of a tensor in forward mode, so it is rejected.
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(clk.ArgumentTypeError, match="tangent"):
            m.double(dual)
        assert m.double(forward.unpack_dual(dual).primal).tolist() == m.double(torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(clk.ArgumentTypeError, match="tangent"):
        torch.func.jvp(m.double, (torch.ones(3),), (torch.ones(3),))


class ExchangeApi(ctypes.Structure):
    """The C exchange API of a library (`DLPackExchangeAPI` of DLPack 1.3)."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("earlier", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p), ("to_object", ctypes.c_void_p), ("view", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


def with_exchange_api(table, name=b"dlpack_exchange_api"):
    """An array of a type with this exchange API. It supports `__dlpack__` as well."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(table), name, None)

    class Other:
        __dlpack_c_exchange_api__ = capsule
        x = np.arange(3, dtype="float32")

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, **kwargs):
            return self.x.__dlpack__(**kwargs)

    return Other()


EXCHANGE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@EXCHANGE
def fail(_object, _result):
    return -1


@EXCHANGE
def succeed_without_result(_object, _result):
    return 0


def test_incomplete_exchange_apis(m):
    empty = ExchangeApi(major=1, minor=3)
    cyclic = ExchangeApi(major=7)
    cyclic.earlier = ctypes.addressof(cyclic)
    newer = ExchangeApi(major=2, earlier=ctypes.addressof(empty))
    last = ExchangeApi(major=2)
    functions = (fail, succeed_without_result)
    failing = [ExchangeApi(major=1, from_object=ctypes.cast(function, ctypes.c_void_p).value) for function in functions]
    for table in [empty, cyclic, newer, last, *failing]:
        other = with_exchange_api(table)
        for _ in range(3):
            assert m.double(other).numpy().tolist() == [0, 2, 4]
    assert m.double(with_exchange_api(empty, b"another name")).numpy().tolist() == [0, 2, 4]
    base = type(with_exchange_api(empty))
    for invalid in [None, 3, "text", object()]:
        base.__dlpack_c_exchange_api__ = invalid
        assert m.double(type("Derived", (base,), {"__dlpack_c_exchange_api__": invalid})()).numpy().tolist() == [0, 2, 4]


def test_types_with_invalid_module_names(m):
    for module in [None, 3, "", ".", "torch", "torch.x"]:
        kind = type("Odd", (np.ndarray,), {"__module__": module})
        assert np.asarray(m.double(np.arange(3, dtype="float32").view(kind))).tolist() == [0, 2, 4]
        with pytest.raises(clk.ArgumentTypeError, match="is not an array"):
            m.double(type("Odd", (), {"__module__": module})())


def test_many_array_types(m):
    for n in range(200):
        kind = type(f"Kind{n}", (np.ndarray,), {})
        assert m.double(np.full(2, n, "float32").view(kind)).tolist() == [2 * n, 2 * n]


def test_torch_shares_memory(m):
    torch = pytest.importorskip("torch")
    y = m.ramp(N=4)
    assert torch.from_numpy(y).tolist() == [0, 1, 2, 3]
    own = m.double(array.array("f", [1.0, 2.0]))
    t = torch.from_dlpack(own)
    t[0] = 7
    assert memoryview(own)[0] == 7


def test_jax(m):
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    x = jnp.arange(4, dtype=jnp.float32)
    y = m.double(x)
    assert isinstance(y, jax.Array) and y.tolist() == [0, 2, 4, 6]
    assert m.double(jnp.ones(3, jnp.bfloat16)).dtype == jnp.bfloat16
    with pytest.raises(clk.ArgumentTypeError, match="read-only"):
        m.double(x, out=jnp.zeros(4))
    with pytest.raises(clk.ArgumentTypeError, match="read-only"):
        m.add_to(x, 1.0)
    assert x.tolist() == [0, 1, 2, 3]


class OnDevice:
    """An array on another device, whose memory must not be requested."""

    def __init__(self, *device):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        raise AssertionError("the memory was requested")


def test_calls_run_on_the_gpu_of_their_arrays(m):
    gpu = OnDevice(2, 0)
    for device in ["sim", "cpu", "sim:2", "both", "gpu:1", "cuda:1"]:
        with pytest.raises(clk.ArgumentTypeError, match="gpu:0") as caught:
            m.double(gpu, device=device)
        assert caught.value.code == "E0809" and any("cpu()" in help for help in caught.value.help)
    with pytest.raises(clk.ArgumentTypeError, match="checks"):
        m.double(gpu, check=True)
    with pytest.raises(clk.ArgumentTypeError, match="checks"):
        m.double(gpu, device="sim", check=True)
    with pytest.raises(clk.ArgumentTypeError, match="gpu:3"):
        m.double(OnDevice(13, 3), device="gpu")
    # Parameters that are not arrays accept arrays in host memory only.
    f = clk.source("fn f(v: f32x3) -> f32 { v.x }").f
    with pytest.raises(clk.ArgumentTypeError, match="in GPU memory is not accepted here"):
        f(gpu)
    for other in [OnDevice(10, 0), OnDevice(8, 0), OnDevice(2, -1)]:
        with pytest.raises(clk.ArgumentTypeError, match="neither in host memory nor in the memory of an NVIDIA GPU"):
            m.double(other)


def test_cuda_array_interface(m):
    class OnGpu:
        def __init__(self, **changes):
            self.__cuda_array_interface__ = {
                "shape": (3,), "typestr": "<f4", "data": (1 << 40, False), "version": 3, **changes,
            }  # fmt: skip

    invalid = [
        ({"version": 1}, "version 1"),
        ({"version": 4}, "version 4"),
        ({"mask": OnGpu()}, "masked"),
        ({"typestr": ">f4"}, "newbyteorder|Clk has no type"),
        ({"typestr": "<c8"}, "Clk has no type"),
        ({"typestr": "|V12"}, "Clk has no type"),
        ({"typestr": ""}, "Clk has no type"),
        ({"strides": (4, 4)}, "2 strides"),
        ({"stream": 0}, "stream 0"),
        ({"stream": -5}, "stream -5"),
        ({"data": (0, False)}, "address 0"),
        ({"data": None}, "no `data`"),
        ({"shape": None}, "no `shape`"),
    ]
    for changes, message in invalid:
        with pytest.raises(clk.ArgumentTypeError, match=message) as caught:
            m.double(OnGpu(**changes))
        assert caught.value.code == "E0809", changes
    for changes in [{"shape": 3}, {"data": 3}, {"typestr": 4}, {"shape": (-1,)}, {"stream": "1"}, {"version": "3"}]:
        with pytest.raises((TypeError, OverflowError, ValueError)):
            m.double(OnGpu(**changes))
    # Valid interfaces with an address that is not in GPU memory.
    valid = [{}, {"stream": None}, {"stream": 1}, {"stream": 2}, {"stream": 1 << 40}, {"version": 2}, {"typestr": "|b1"}]
    for changes in valid + [{"strides": (4,)}, {"strides": None}, {"typestr": "<u8"}, {"data": (1 << 40, True)}]:
        with pytest.raises(clk.ArgumentTypeError, match="is not in the memory of a GPU"):
            m.double(OnGpu(**changes))


def test_invalid_capsules(m):
    class Exporter:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return self.capsule

    exporter = Exporter()
    for exporter.capsule in [None, 3, "dltensor"]:
        with pytest.raises(BufferError):
            m.double(exporter)
    exporter.capsule = np.ones(3, "float32").__dlpack__()
    assert m.double(exporter).numpy().tolist() == [2, 2, 2]
    # A capsule can be used only once.
    with pytest.raises(BufferError):
        m.double(exporter)


def test_autograd(m):
    torch = pytest.importorskip("torch")
    import clk.torch

    f = clk.torch.function(m, "saxpy")
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.ones(3, requires_grad=True)
    alpha = torch.tensor(2.0, requires_grad=True)
    r = f(alpha, x, y)
    r.backward(torch.tensor([1.0, 10.0, 100.0]))
    assert r.tolist() == [3, 9, 19]
    assert x.grad.tolist() == [4, 80, 1200] and y.grad.tolist() == [1, 10, 100] and alpha.grad.item() == 941
    e = clk.torch.function(m, "energy")
    x.grad = None
    e(x, 0.5).backward()
    assert x.grad.tolist() == [1, 2, 3]
    with pytest.raises(TypeError):
        clk.torch.function(m, "whole")
    with pytest.raises(TypeError, match="in place"):
        clk.torch.function(m, "add_to")


def test_operators(m):
    torch = pytest.importorskip("torch")
    import clk.torch

    op = clk.torch.operator(m, "saxpy", "clk_tests::saxpy")
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(2)
    op(2.0, x, y).sum().backward()
    assert x.grad.tolist() == [4, 8]
    torch.library.opcheck(op, (2.0, torch.rand(5), torch.rand(5)))
    sums = clk.torch.operator(m, "sums", "clk_tests::sums")
    torch.library.opcheck(sums, (torch.rand(9),))
    compiled = torch.compile(lambda x: sums(x * 2.0) + 1.0, backend="eager", fullgraph=True)
    assert compiled(torch.ones(6)).tolist() == [9, 5]


def test_program_of_gpu_tests_compiles():
    import test_gpu

    m = clk.source(test_gpu.PROGRAM)
    assert (m.add_length(np.zeros(0, "float32"), np.ones(3, "float32")) == 1.0).all()
