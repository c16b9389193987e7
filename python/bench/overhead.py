"""What a call costs from Python with small arrays: Clk beside NumPy, numba and Warp, as far as they are installed.

Prints the median and the least of 20 samples of 2000 calls each, and the time of the processor that the calling thread took in the
median sample, in microseconds. Run it with the extension in the release profile.
"""

import time

import numpy as np

import clk

N = 64


def measure(name, call, rounds=2000, samples=20):
    for _ in range(200):
        call()
    walls, own = [], []
    for _ in range(samples):
        begin, begin_own = time.perf_counter(), time.thread_time()
        for _ in range(rounds):
            call()
        walls.append((time.perf_counter() - begin) / rounds * 1e6)
        own.append((time.thread_time() - begin_own) / rounds * 1e6)
    walls.sort()
    own.sort()
    print(f"{name:<44} {walls[samples // 2]:8.2f} {walls[0]:8.2f} {own[samples // 2]:8.2f}", flush=True)


def main():
    x, y, r = (np.ones(N, "float32") for _ in range(3))
    print(f"{f'saxpy of {N} floats':<44} {'median':>8} {'least':>8} {'thread':>8}")
    measure("NumPy: 2.0 * x + y", lambda: 2.0 * x + y)
    m = clk.source(
        "kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = a * x[i] + y[i] }\n"
        "fn nothing() { }\n"
    )
    measure("Clk: m.saxpy(2.0, x, y, out=r)", lambda: m.saxpy(2.0, x, y, out=r))
    measure("Clk: m.saxpy(2.0, x, y)", lambda: m.saxpy(2.0, x, y))
    measure("Clk: a function of the host, fn nothing() { }", lambda: m.nothing())
    try:
        import numba

        @numba.njit(parallel=False)
        def serial(a, x, y, r):
            for i in range(x.size):
                r[i] = a * x[i] + y[i]

        measure("numba: njit, one thread", lambda: serial(2.0, x, y, r))

        @numba.njit(parallel=True)
        def parallel(a, x, y, r):
            for i in numba.prange(x.size):
                r[i] = a * x[i] + y[i]

        measure("numba: njit(parallel=True)", lambda: parallel(2.0, x, y, r))
    except ImportError:
        print("numba is not installed")
    try:
        import warp as wp

        from warp_saxpy import saxpy

        wp.config.quiet = True
        xs, ys, rs = (wp.array(v, dtype=wp.float32, device="cpu") for v in (x, y, r))
        measure("Warp: wp.launch, its own arrays", lambda: wp.launch(saxpy, dim=N, inputs=[2.0, xs, ys, rs], device="cpu"))
        measure("Warp: wp.launch, arrays of NumPy", lambda: wp.launch(saxpy, dim=N, inputs=[2.0, x, y, r], device="cpu"))
    except ImportError:
        print("Warp is not installed")


if __name__ == "__main__":
    main()
