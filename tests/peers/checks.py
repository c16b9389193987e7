#!/usr/bin/env python3
"""Measures the overhead of `--check`: runs each kernel of the suite alternately with and without it; prints the ratio of the medians.

    cargo build --release && tests/peers/checks.py [--cpu] [--workers N] [KERNEL…]

With `--cpu`, measures CPU time instead of wall-clock time, for a busy machine.
"""
import math
import statistics
import sys
import tempfile

import programs

KERNELS = ["saxpy", "mandel", "matmul", "reduce", "hist", "nbody", "softmax", "jacobi"]
#: Number of samples of each kernel, and the target duration of a sample in seconds.
SAMPLES, SECONDS = 11, 0.15


def ratio(kernel, workers, on_cores):
    """Returns the milliseconds per run without checks and with checks."""
    with tempfile.TemporaryDirectory() as folder:
        programs.run(folder, "make.clk", programs.maker(kernel, "full"))
        path = programs.script(folder, "bench.clk", programs.bench(kernel, "full"))
        options = ["--device", "sim", "--workers", str(workers)]
        timers = [programs.Timer(path, "run", options + check, folder) for check in (["--no-check"], ["--check"])]
        samples = [[], []]
        try:
            runs = [max(1, round(SECONDS / max(t.measure(2), 1e-6))) for t in timers]
            for _ in range(SAMPLES):
                for timer, count, kept in zip(timers, runs, samples):
                    before = timer.cpu()
                    on_wall = timer.measure(count)
                    kept.append(((timer.cpu() - before) / count if on_cores else on_wall) * 1e3)
        finally:
            for timer in timers:
                timer.end()
        return [statistics.median(kept) for kept in samples]


def main():
    words = sys.argv[1:]
    workers = int(words[words.index("--workers") + 1]) if "--workers" in words else 2
    chosen = [k for k in KERNELS if k in words] or KERNELS
    print("| kernel | without | with checks | ratio |\n| --- | --- | --- | --- |")
    ratios = []
    for kernel in chosen:
        plain, checked = ratio(kernel, workers, "--cpu" in words)
        ratios.append(checked / plain)
        print(f"| {kernel} | {plain:.3g} ms | {checked:.3g} ms | {checked / plain:.2f} |", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"| geometric mean | | | {mean:.2f} |")


if __name__ == "__main__":
    main()
