"""Measures the overhead of calls from Python with small arrays: Clk, NumPy, numba and Warp, if they are installed.

Prints microseconds per call: median and minimum of 20 samples of 2000 calls each, and the median CPU time of the calling thread. Build the
extension in the release profile.
"""

import time

import numpy as np

import clk

N = 64


def measure(name, call, rounds=2000, samples=20):
    for _ in range(200):
        call()
    wall_times, thread_times = [], []
    for _ in range(samples):
        wall_start, thread_start = time.perf_counter(), time.thread_time()
        for _ in range(rounds):
            call()
        wall_times.append((time.perf_counter() - wall_start) / rounds * 1e6)
        thread_times.append((time.thread_time() - thread_start) / rounds * 1e6)
    wall_times.sort()
    thread_times.sort()
    middle = samples // 2
    print(f"{name:<44} {wall_times[middle]:8.2f} {wall_times[0]:8.2f} {thread_times[middle]:8.2f}", flush=True)


def main():
    x, y, r = (np.ones(N, "float32") for _ in range(3))
    print(f"{f'saxpy of {N} floats':<44} {'median':>8} {'minimum':>8} {'thread':>8}")
    measure("NumPy: 2.0 * x + y", lambda: 2.0 * x + y)
    m = clk.source(
        "kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = a * x[i] + y[i] }\n"
        "fn nothing() { }\n"
    )
    measure("Clk: m.saxpy(2.0, x, y, out=r)", lambda: m.saxpy(2.0, x, y, out=r))
    measure("Clk: m.saxpy(2.0, x, y)", lambda: m.saxpy(2.0, x, y))
    measure("Clk: a host function, fn nothing() { }", lambda: m.nothing())
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
        measure("Warp: wp.launch, NumPy arrays", lambda: wp.launch(saxpy, dim=N, inputs=[2.0, x, y, r], device="cpu"))
    except ImportError:
        print("Warp is not installed")


if __name__ == "__main__":
    main()
