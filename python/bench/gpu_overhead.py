"""Measures the overhead of calls from Python with small arrays in GPU memory: Clk, torch, CuPy, Triton and Warp, if they are installed.

Prints microseconds per call. The first column is a call followed by a wait for the GPU; the second column is the call alone. Both are medians
of 20 samples of 1000 calls each. The third column is the minimum of the samples in the first column. Build the extension in the release profile.
"""

import time

import clk
import torch

N = 64


def samples(call, wait, rounds, count):
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(rounds):
            call()
            if wait:
                torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / rounds * 1e6)
        torch.cuda.synchronize()
    return sorted(times)


def measure(name, call, result, rounds=1000, count=20):
    for _ in range(200):
        call()
    torch.cuda.synchronize()
    computed = result()
    assert abs(float(computed[0]) - 3.0) < 1e-6, f"{name} computes {computed}"
    with_wait, without_wait = samples(call, True, rounds, count), samples(call, False, rounds, count)
    print(f"{name:<48} {with_wait[count // 2]:10.2f} {without_wait[count // 2]:10.2f} {with_wait[0]:10.2f}", flush=True)


def main():
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return
    print(f"clk {clk.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
    x, y, r = (torch.ones(N, device="cuda") for _ in range(3))
    print(f"{f'saxpy of {N} floats':<48} {'with wait':>10} {'call':>10} {'minimum':>10}")
    measure("nothing", lambda: None, lambda: [3.0])
    measure("torch: torch.add(y, x, alpha=2.0, out=r)", lambda: torch.add(y, x, alpha=2.0, out=r), lambda: r)
    measure("torch: 2.0 * x + y", lambda: 2.0 * x + y, lambda: 2.0 * x + y)
    m = clk.source(
        "kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = a * x[i] + y[i] }\n"
        "fn nothing() { }\n"
    )
    r.zero_()
    measure("Clk: m.saxpy(2.0, x, y, out=r)", lambda: m.saxpy(2.0, x, y, out=r), lambda: r)
    measure("Clk: m.saxpy(2.0, x, y)", lambda: m.saxpy(2.0, x, y), lambda: m.saxpy(2.0, x, y))
    a, b, c = (v.cpu().numpy() for v in (x, y, r))
    host = lambda: m.saxpy(2.0, a, b, out=c, device="gpu")
    measure("Clk: NumPy arrays, device=\"gpu\"", host, lambda: c)
    measure("Clk: a host function, fn nothing() { }", lambda: m.nothing(), lambda: [3.0])
    try:
        import cupy

        kernel = cupy.RawKernel(
            'extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *r, int n) {'
            " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) r[i] = a * x[i] + y[i]; }",
            "saxpy",
        )
        xs, ys, rs = (cupy.from_dlpack(v) for v in (x, y, r))
        alpha, n = cupy.float32(2.0), cupy.int32(N)
        r.zero_()
        measure("CuPy: RawKernel, its own arrays", lambda: kernel((1,), (128,), (alpha, xs, ys, rs, n)), lambda: r)
    except ImportError:
        print("CuPy is not installed")
    try:
        from triton_saxpy import saxpy as in_triton

        r.zero_()
        measure("Triton: saxpy[(1,)](…), torch tensors", lambda: in_triton[(1,)](2.0, x, y, r, N, BLOCK=128), lambda: r)
    except ImportError:
        print("Triton is not installed")
    try:
        import warp as wp

        from warp_saxpy import saxpy

        wp.config.quiet = True
        xs, ys, rs = (wp.from_torch(v) for v in (x, y, r))
        r.zero_()
        inputs = [2.0, xs, ys, rs]
        measure("Warp: wp.launch, arrays of wp.from_torch", lambda: wp.launch(saxpy, dim=N, inputs=inputs, device="cuda"), lambda: r)
        measure("Warp: wp.launch, torch tensors", lambda: wp.launch(saxpy, dim=N, inputs=[2.0, x, y, r], device="cuda"), lambda: r)
    except ImportError:
        print("Warp is not installed")


if __name__ == "__main__":
    main()
