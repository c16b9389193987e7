#!/usr/bin/env python3
"""What Clk costs beside the kernels: starting, checking, launching; and how runs scale with workers and with threads.

    cargo build --release && tests/peers/costs.py

Needs gcc. Times on the wall are medians, with the fastest behind; on a machine with other work, believe the fastest.
"""
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
    """Samples of a process from its start to its end, and the least time it spent on the cores."""
    samples, cores = [], []
    for _ in range(count):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        samples.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cores.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return samples, min(cores)


def timed(folder, text, name, options=(), count=9, seconds=0.03):
    """Samples of a bench: on the wall, and on the cores."""
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


def scaling(folder):
    text = programs.bench("mandel", "full")
    one, two = (timed(folder, text, "run", [f"--workers={n}"], seconds=0.2) for n in (1, 2))
    say("Mandelbrot, one worker", one[0])
    say("Mandelbrot, two workers", two[0], f"{min(one[0]) / min(two[0]):.2f} times as fast; core time {min(two[1]) / min(one[1]):.2f} of one worker's")
    for kernel in ("matmul", "nbody", "jacobi"):
        programs.run(folder, "make.clk", programs.maker(kernel, "full"))
        one, two = (timed(folder, programs.bench(kernel, "full"), "run", [f"--workers={n}"]) for n in (1, 2))
        say(f"{kernel}, two workers", two[0], f"{min(one[0]) / min(two[0]):.2f} times as fast as one; core time {min(two[1]) / min(one[1]):.2f} of its")
    base = None
    for power in (8, 10, 12, 14, 16, 18, 20):
        n = 1 << power
        _, cores = timed(folder, f'{ALU}var y = zeros({n})\nbench "b" {{ churn(100, y) }}\n', "b", ["--workers=1"])
        each = min(cores) / n
        base = base or each
        say(f"100 turns in 2^{power} threads, one worker (core time)", cores, f"{each * 1e9:.2f} ns a thread")


def main():
    folder = tempfile.mkdtemp()
    try:
        lib = compare.compile_c(folder)
        print("| what | median | fastest | |\n| --- | --- | --- | --- |")
        starting(folder)
        checking(folder)
        launching(folder)
        mandelbrot(lib, folder)
        scaling(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
