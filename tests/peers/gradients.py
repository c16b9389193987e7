"""Times the programs of gradients.clk in PyTorch and, on the CPU, also in JAX: python gradients.py [cuda | cpu]"""
import statistics
import sys
import time

import torch

device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
on_gpu = device == "cuda"
torch.set_float32_matmul_precision("highest")
torch.manual_seed(1)
BATCH, N = (4096, 8192) if on_gpu else (256, 1024)


def median_ms(run, times=30):
    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    for _ in range(5):
        run()
    wait()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        wait()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def weights(*shape, scale):
    return (scale * torch.randn(*shape, device=device)).requires_grad_()


params = [weights(784, 1024, scale=0.05), weights(1024, scale=0.0), weights(1024, 1024, scale=0.04)]
params += [weights(1024, scale=0.0), weights(1024, 10, scale=0.04), weights(10, scale=0.0)]
x = torch.rand(BATCH, 784, device=device)
label = torch.randint(0, 10, (BATCH,), device=device)


def loss(w1, b1, w2, b2, w3, b3):
    z = torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3
    return torch.nn.functional.cross_entropy(z, label)


def step(loss):
    for p in params:
        p.grad = None
    loss(*params).backward()
    with torch.no_grad():
        torch._foreach_sub_(params, [0.01 * p.grad for p in params])


image = torch.rand(N, N, device=device)
kernel = torch.rand(1, 1, 3, 3, device=device)
leaf = image.clone().requires_grad_()


def of_conv(x):
    y = torch.nn.functional.conv2d(x[None, None], kernel)
    return (y * y).sum()


def of_slices(x):
    y = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1]
    return (y * y).sum()


def gradient(f):
    leaf.grad = None
    f(leaf).backward()


print(f"step of the network, eager: {median_ms(lambda: step(loss)):.3f} ms")
if on_gpu:
    print(f"peak memory: {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
for name, f in [("3 x 3 stencil", of_conv), ("slices", of_slices)]:
    with torch.no_grad():
        print(f"{name}: loss: {median_ms(lambda: f(image)):.3f} ms")
    print(f"{name}: gradient: {median_ms(lambda: gradient(f)):.3f} ms")
try:
    compiled = torch.compile(loss)
    print(f"step of the network, compiled: {median_ms(lambda: step(compiled)):.3f} ms")
except Exception as error:  # No compiler on the machine.
    print(f"torch.compile: {str(error).splitlines()[0][:150]}")


def in_jax():
    import jax
    import jax.numpy as jnp

    values = [jnp.asarray(p.detach().cpu().numpy()) for p in params]
    rows, labels = jnp.asarray(x.cpu().numpy()), jnp.asarray(label.cpu().numpy())

    def loss(params, x, label):
        w1, b1, w2, b2, w3, b3 = params
        z = jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3
        return -jnp.mean(jax.nn.log_softmax(z)[jnp.arange(len(label)), label])

    @jax.jit
    def step(params, x, label):
        return [p - 0.01 * g for p, g in zip(params, jax.grad(loss)(params, x, label))]

    return lambda: jax.block_until_ready(step(values, rows, labels))


if not on_gpu:
    try:
        print(f"step of the network, JAX: {median_ms(in_jax()):.3f} ms")
    except ImportError:
        print("JAX is not installed")
