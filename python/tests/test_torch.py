"""Tests of `clk.torch`: derivatives of any order, vector arrays, operators under `torch.compile`, version counters."""

import clk
import pytest

torch = pytest.importorskip("torch")
import clk.torch  # noqa: E402

PROGRAM = """
kernel square(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i] }
kernel cube(x: [f64; N], out y: [f64; N]) threads(i: N) { y[i] = x[i] * x[i] * x[i] }
kernel saxpy(alpha: f64, x: [f64; N], y: [f64; N], out r: [f64; N]) threads(i: N) { r[i] = alpha * x[i] * x[i] + sin(y[i]) }
kernel lengths(v: [f32x3; N], out l: [f32; N]) threads(i: N) { l[i] = dot(v[i], v[i]) }
kernel turned(v: [f64x3; N], k: f64, out w: [f64x3; N]) threads(i: N) { w[i] = k * f64x3(v[i].y, v[i].z, v[i].x * v[i].x) }
kernel two(x: [f64; N], out y: [f64; N], out z: [f64; N]) threads(i: N) { y[i] = x[i] * x[i]; z[i] = exp(x[i]) }
kernel ramp(k: f64, out y: [f64; N]) threads(i: N) { y[i] = k * k * f64(i) }
kernel scaled<const POWER: i32 = 2>(x: [f64; N], by: f64 = 3.0, out y: [f64; N]) threads(i: N) {
    var p = 1.0
    for _ in 0..POWER { p *= x[i] }
    y[i] = by * p
}
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] * x[i] }
kernel sums(x: [f32; N], out y: [f32; ceil_div(N, 4)]) threads(i: ceil_div(N, 4)) {
    var total = 0.0
    for k in 4 * i..min(4 * i + 4, N) { total += x[k] * x[k] }
    y[i] = total
}
fn open(x: [f64; _]) -> [f64; _] { x * x * x }
fn energy(x: [f64; N], k: f64) -> f64 { k * sum(x * x * x) }
fn picked(x: [f64; N], at: [i32; M]) -> [f64; _] { x[at] * x[at] }
kernel add_to(inout x: [f32; N], by: f32) threads(i: N) { x[i] += by }
fn add_by_function(inout x: [f32; N]) { x[..] += 1.0 }
kernel copy(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(PROGRAM, name="torch.clk")


def f64(*values, grad=True):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def function_pairs(m):
    """Functions of one tensor in Clk, each with the equivalent function in torch."""
    function = lambda name: clk.torch.function(m, name)
    saxpy, energy, scaled, two = (function(name) for name in ("saxpy", "energy", "scaled", "two"))
    return {
        "cube": (function("cube"), lambda a: a**3),
        "saxpy of one": (lambda a: saxpy(2.0, a, a), lambda a: 2 * a * a + a.sin()),
        "saxpy of a number": (lambda a: saxpy(a[0], a, a), lambda a: a[0] * a * a + a.sin()),
        "energy": (lambda a: energy(a, a[0]), lambda a: a[0] * (a**3).sum()),
        "scaled": (lambda a: scaled(a, POWER=3), lambda a: 3 * a**3),
        "two": (lambda a: two(a)[0] * two(a)[1], lambda a: a * a * a.exp()),
        "open": (function("open"), lambda a: a**3),
        "nested": (lambda a: energy(saxpy(2.0, a, a), 0.5), lambda a: 0.5 * ((2 * a * a + a.sin()) ** 3).sum()),
    }


NAMES = ["cube", "saxpy of one", "saxpy of a number", "energy", "scaled", "two", "open", "nested"]


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_higher_orders(m, name):
    ours, theirs = function_pairs(m)[name]
    scalar = lambda f: lambda a: f(a).square().sum() + (a**3).sum()
    ours, theirs = scalar(ours), scalar(theirs)

    def three_derivatives(f, a):
        derivatives = []
        value = f(a)
        for _ in range(3):
            [value] = torch.autograd.grad(value, a, create_graph=True)
            derivatives.append(value)
            value = value.square().sum()
        return derivatives

    a, v = f64(0.5, -1.0, 2.0), f64(1.0, 2.0, -3.0, grad=False)
    same = lambda x, y: torch.testing.assert_close(x, y)
    same(three_derivatives(ours, a), three_derivatives(theirs, a))
    functional = torch.autograd.functional
    same(functional.hessian(ours, a), functional.hessian(theirs, a))
    same(functional.jvp(ours, a, v), functional.jvp(theirs, a, v))
    same(functional.vjp(ours, a), functional.vjp(theirs, a))
    same(functional.hvp(ours, a, v), functional.hvp(theirs, a, v))
    assert torch.autograd.gradcheck(ours, a) and torch.autograd.gradgradcheck(ours, a)
    penalty = lambda f: torch.autograd.grad(
        (torch.autograd.grad(f(a), a, create_graph=True)[0].norm() - 1).square(), a
    )
    same(penalty(ours), penalty(theirs))
    checkpoint = torch.utils.checkpoint.checkpoint
    same(three_derivatives(lambda a: checkpoint(ours, a, use_reentrant=False), a), three_derivatives(theirs, a))


@pytest.mark.parametrize("name", NAMES)
def test_transformations_of_torch_func(m, name):
    ours, theirs = function_pairs(m)[name]
    total = lambda f: lambda a: f(a).sum()
    func, same = torch.func, lambda x, y: torch.testing.assert_close(x, y)
    a, v = f64(0.5, -1.0, 2.0, grad=False), f64(1.0, 2.0, -3.0, grad=False)
    same(func.grad(total(ours))(a), func.grad(total(theirs))(a))
    same(func.grad(total(func.grad(total(ours))))(a), func.grad(total(func.grad(total(theirs))))(a))
    same(func.jvp(ours, (a,), (v,)), func.jvp(theirs, (a,), (v,)))
    same(func.vjp(ours, a)[0], func.vjp(theirs, a)[0])
    same(func.jacrev(ours)(a), func.jacrev(theirs)(a))
    same(func.jacfwd(ours)(a), func.jacfwd(theirs)(a))
    same(func.hessian(total(ours))(a), func.hessian(total(theirs))(a))
    rows = torch.stack([a, 2 * a, a - 1])
    same(func.vmap(ours)(rows), func.vmap(theirs)(rows))
    same(func.vmap(func.grad(total(ours)))(rows), func.vmap(func.grad(total(theirs)))(rows))


def test_vector_arrays(m):
    lengths, turned = clk.torch.function(m, "lengths"), clk.torch.function(m, "turned")
    v = torch.rand(5, 3, requires_grad=True)
    [gradient] = torch.autograd.grad(lengths(v).sum(), v)
    torch.testing.assert_close(gradient, 2 * v.detach())
    w = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    k = f64(2.0)[0].detach().requires_grad_()
    theirs = lambda w, k: k * torch.stack([w[:, 1], w[:, 2], w[:, 0] ** 2], 1)
    torch.testing.assert_close(turned(w, k), theirs(w, k))
    assert torch.autograd.gradcheck(turned, (w, k)) and torch.autograd.gradgradcheck(turned, (w, k))


def test_argument_passing(m):
    scaled, ramp, double = (clk.torch.function(m, name) for name in ("scaled", "ramp", "double"))
    x = f64(1.0, 2.0)
    for actual, expected in [
        (scaled(x), 3 * x**2), (scaled(x, 2.0), 2 * x**2), (scaled(by=2.0, x=x), 2 * x**2), (scaled(x, POWER=3), 3 * x**3),
    ]:  # fmt: skip
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(torch.autograd.grad(actual.sum(), x), torch.autograd.grad(expected.sum(), x))
    k = f64(3.0)[0].detach().requires_grad_()
    result = ramp(k, N=4)
    assert result.tolist() == [0, 9, 18, 27]
    assert torch.autograd.grad(result.sum(), k)[0].item() == 36
    for dtype in [torch.float32, torch.float64]:
        x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        assert torch.autograd.grad(double(x).sum(), x)[0].tolist() == [2, 4]
    for call in [lambda: scaled(), lambda: scaled(x, 1.0, 2.0), lambda: scaled(x, x=x), lambda: scaled(x, q=1), lambda: ramp(k)]:
        with pytest.raises(TypeError):
            call()


def test_integers_have_no_gradient(m):
    picked = clk.torch.function(m, "picked")
    x, at = f64(1.0, 2.0, 3.0), torch.tensor([2, 0, 2], dtype=torch.int32)
    assert torch.autograd.grad(picked(x, at).sum(), x)[0].tolist() == [2, 0, 12]
    assert torch.autograd.gradgradcheck(lambda x: picked(x, at), x)
    for name in ["add_to"]:
        with pytest.raises(TypeError, match="in place"):
            clk.torch.function(m, name)


def test_modified_saved_tensors_are_rejected(m):
    square = clk.torch.function(m, "square")
    writes = [
        lambda x: m.add_to(x, 1.0),
        lambda x: m.add_by_function(x),
        lambda x: m.copy(torch.zeros(3), out=x),
        lambda x: m.copy(torch.zeros(3), y=x),
        lambda x: m.copy(torch.zeros(3), x),
    ]
    for write in writes:
        x = torch.ones(3)
        w = torch.ones(3, requires_grad=True)
        for value in [x * w, square(w * x) * x]:
            before = x._version
            write(x)
            assert x._version > before
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                value.sum().backward()
    x = torch.ones(3)
    before = x._version
    m.copy(x)
    assert x._version == before, "read only"
    with torch.inference_mode():
        x = torch.ones(3)
        m.add_to(x, 1.0)
    assert x.tolist() == [2, 2, 2]


def test_tensors_that_require_gradients_under_no_grad(m):
    parameter = torch.nn.Parameter(torch.ones(3))
    for x in [parameter, torch.ones(3, requires_grad=True) * 1.0]:
        with pytest.raises(clk.ArgumentTypeError, match="gradient"):
            m.copy(x)
        for context in [torch.no_grad, torch.inference_mode]:
            with context():
                assert m.copy(x).tolist() == [1, 1, 1]
    with torch.no_grad():
        before = parameter._version
        m.add_to(parameter, 1.0)
    assert parameter.tolist() == [2, 2, 2] and parameter.requires_grad and parameter._version > before


@pytest.fixture(scope="module")
def operators(m):
    register = lambda name: clk.torch.operator(m, name, f"clk_tests_torch::{name}")
    return {name: register(name) for name in ["square", "cube", "saxpy", "lengths", "turned", "two", "energy", "ramp", "sums"]}


def test_operators_pass_opcheck(operators):
    x, y, v = f64(1.0, 2.0, -0.5), f64(0.5, 0.25, 3.0), torch.rand(4, 3, requires_grad=True)
    w = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    examples = {
        "square": [(torch.rand(5, requires_grad=True),), (torch.rand(1),)],
        "cube": [(x,)],
        "saxpy": [(2.0, x, y), (2.0, x.detach(), y)],
        "lengths": [(v,)],
        "turned": [(w, 2.0)],
        "two": [(x,)],
        "energy": [(x, 2.0)],
        "sums": [(torch.rand(9, requires_grad=True),)],
    }
    for name, each in examples.items():
        for arguments in each:
            torch.library.opcheck(operators[name], arguments)
    torch.library.opcheck(operators["ramp"], (2.0,), {"N": 5})


def test_operators_have_higher_derivatives(operators):
    x, y = f64(1.0, 2.0, -0.5), f64(0.5, 0.25, 3.0)
    for f in [
        lambda x, y: operators["saxpy"](2.0, x, y),
        lambda x, y: operators["energy"](x * y, 2.0),
        lambda x, y: operators["two"](x + y),
        lambda x, y: operators["turned"](torch.stack([x, y]), 2.0),
    ]:
        assert torch.autograd.gradcheck(f, (x, y)) and torch.autograd.gradgradcheck(f, (x, y))
    a = torch.tensor([1.0, 3.0], requires_grad=True)
    first = torch.autograd.grad(operators["square"](a).square().sum() + (a**3).sum(), a, create_graph=True)[0]
    assert torch.autograd.grad(first.sum(), a)[0].tolist() == [18, 12 * 9 + 18]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_operators_train_under_torch_compile(operators, backend):
    import shutil

    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler, which is not installed")
    torch._dynamo.reset()

    def loss(x, v):
        total = operators["square"](x * 2.0).sum() + operators["lengths"](v).sum() + operators["sums"](x).sum()
        return total + operators["energy"](x.double(), 2.0) + operators["ramp"](2.0, N=3).sum()

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    for n in [4, 7]:
        x, v = torch.rand(n, requires_grad=True), torch.rand(3, 3, requires_grad=True)
        actual, expected = compiled(x, v), loss(x, v)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(torch.autograd.grad(actual, (x, v)), torch.autograd.grad(expected, (x, v)))


def test_models_can_be_copied(m):
    import copy

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.kernel, self.square = m.square, clk.torch.function(m, "square")

        def forward(self, x):
            return self.square(self.weight * x)

    model = Model()
    other = copy.deepcopy(model)
    assert other.weight is not model.weight
    other(torch.ones(3)).sum().backward()
    assert other.weight.grad.tolist() == [2, 2, 2] and model.weight.grad is None
