#!/usr/bin/env python3
"""Measures what Clk costs besides running kernels (starting, checking, launching), and how runs scale with workers and threads.

    cargo build --release && tests/peers/costs.py [--only scaling] [--workers 1,2,4,8,16]

Needs gcc. Wall-clock times are medians, followed by the fastest sample; on a busy machine the fastest is more reliable.
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import compare
import programs

HERE = os.path.dirname(os.path.abspath(__file__))

FIRST = """
kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = a * x[i] + y[i] }
let x = linspace(0.0, 15.0, 16)
print(saxpy(2.0, x, ones(16))[15])
"""

ALU = """
kernel churn(turns: i32, out y: [f32; N]) threads(i: N) {
    var x = f32(i)
    for _ in 0..turns { x = 0.5 * x + 1.0 }
    y[i] = x
}
"""


def shown(seconds):
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def say(what, samples, note=""):
    print(f"| {what} | {shown(statistics.median(samples))} | {shown(min(samples))} | {note} |", flush=True)


def wall(words, count):
    """Returns samples of the wall-clock time of a process, and its least CPU time."""
    samples, cores = [], []
    for _ in range(count):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        samples.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cores.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return samples, min(cores)


def timed(folder, text, name, options=(), count=9, seconds=0.03):
    """Returns samples of a bench: wall-clock times and CPU times."""
    timer = programs.Timer(programs.script(folder, "costs.clk", text), name, options, folder)
    try:
        timer.measure(2)
        runs = max(1, min(200_000, int(seconds / max(timer.measure(3), 1e-7))))
        on_wall, on_cores = [], []
        for _ in range(count):
            before = timer.cpu()
            on_wall.append(timer.measure(runs))
            on_cores.append((timer.cpu() - before) / runs)
        return on_wall, on_cores
    finally:
        timer.end()


def starting(folder):
    first = programs.script(folder, "first.clk", FIRST)
    for what, words in (("process start to a printed saxpy of 16 numbers", [programs.CLK, "run", first]), ("the same for `true`", ["true"])):
        samples, cores = wall(words, 50)
        say(what, samples, f"core time {shown(cores)}")


def checking(folder):
    text = subprocess.run([sys.executable, os.path.join(HERE, "generate_lines.py"), "100000"], capture_output=True, text=True, check=True)
    big = programs.script(folder, "big.clk", text.stdout)
    samples, cores = wall([programs.CLK, "check", big], 7)
    lines = text.stdout.count("\n")
    say(f"`clk check` of {lines} lines", samples, f"{lines / min(samples):,.0f} lines/s; {lines / cores:,.0f} a second of core time")


def launching(folder):
    empty = programs.start("empty1") + "let none = [0]\n"
    for workers in (1, 0):
        words = [f"--workers={workers}"]
        name = "1 worker" if workers else "all workers"
        say(f"launch of one empty block, {name}", timed(folder, empty + 'bench "b" { empty(none, 1) }', "b", words)[0])
        say(f"65,536 empty blocks, {name}", timed(folder, empty + 'bench "b" { empty(none, 65536) }', "b", words)[0])
        one = programs.start("saxpy") + "let x = ones(32)\nvar y = ones(32)\n" + 'bench "b" { saxpy(2.0, x, y) }'
        say(f"launch of saxpy on 32 numbers, {name}", timed(folder, one, "b", words)[0])


def mandelbrot(lib, folder):
    c = compare.C(lib, "mandel", "full", folder, plain=True)
    plain = []
    for _ in range(3):
        before = c.cpu()
        c.measure(1)
        plain.append(c.cpu() - before)
    clk = timed(folder, programs.bench("mandel", "full"), "run", ["--workers=1"])[1]
    say("Mandelbrot 1024², 256 turns, plain C, one thread (core time)", plain)
    say("the same on the simulator, one worker (core time)", clk, f"{min(plain) / min(clk):.2f} times as fast as plain C")


def scaling(folder, counts):
    """Measures the same work with an increasing number of workers. It scales with the cores unless memory bandwidth limits it."""
    for kernel in ("mandel", "matmul", "nbody", "softmax", "saxpy", "jacobi"):
        programs.run(folder, "make.clk", programs.maker(kernel, "full"))
        text, first = programs.bench(kernel, "full"), None
        for workers in counts:
            on_wall, on_cores = timed(folder, text, "run", [f"--workers={workers}"], seconds=0.05)
            first = first or (min(on_wall), min(on_cores))
            times, cores = first[0] / min(on_wall), min(on_cores) / first[1]
            note = "" if workers == counts[0] else f"{times:.2f} times as fast as {counts[0]}; core time {cores:.2f} of its"
            say(f"{kernel}, {workers} worker{'s' * (workers > 1)}", on_wall, note)


def growth(folder, counts):
    """Measures launches with an increasing number of threads; the cost per thread should stay constant."""
    for workers in {counts[0]: None, counts[-1]: None}:
        for power in range(8, 24, 3):
            n = 1 << power
            text = f'{ALU}var y = zeros({n})\nbench "b" {{ churn(100, y) }}\n'
            on_wall, on_cores = timed(folder, text, "b", [f"--workers={workers}"])
            note = f"{min(on_wall) / n * 1e9:.3g} ns a thread; {min(on_cores) / n * 1e9:.3g} ns of core time"
            say(f"100 turns in 2^{power} threads, {workers} worker{'s' * (workers > 1)}", on_wall, note)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("fixed", "scaling"), help="what a launch costs, or how runs scale [default: both]")
    parser.add_argument("--workers", default="1,2", help="numbers of workers to scale over [default: 1,2]")
    options = parser.parse_args()
    counts = [int(n) for n in options.workers.split(",")]
    folder = tempfile.mkdtemp()
    try:
        print("| what | median | fastest | |\n| --- | --- | --- | --- |")
        if options.only != "scaling":
            starting(folder)
            checking(folder)
            launching(folder)
            mandelbrot(compare.compile_c(folder), folder)
        if options.only != "fixed":
            scaling(folder, counts)
            growth(folder, counts)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
