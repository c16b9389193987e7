#!/usr/bin/env python3
"""Compares host code (scripts) with the same code in Python: loops over scalars, elements of arrays, calls.

    cargo build --release && tests/peers/host_loops.py [--count 1000000] [--rounds 5]

Both sides print their result, which has to be the same. A run with 0 iterations is subtracted from a run with `count` iterations,
and the difference divided by `count` is the time of an iteration. Each round measures both sides; the result is the fastest round.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLK = os.environ.get("CLK", os.path.join(HERE, "../../target/release/clk"))

# Name, Clk, Python; N is the number of iterations.
PROGRAMS = [
    (
        "integers and floats",
        """
fn work(n: i32) -> f64 {
    var s = 0i64
    var f = 0.5f64
    for i in 0..n {
        s = s + i64(i) * 3i64
        f = f * 0.999f64 + 1.5f64
    }
    f + f64(s)
}
print(work(N))
""",
        """
def work(n):
    s = 0
    f = 0.5
    for i in range(n):
        s = s + i * 3
        f = f * 0.999 + 1.5
    return f + float(s)
print(work(N))
""",
    ),
    (
        "the same in script variables",
        """
var s = 0i64
var f = 0.5f64
for i in 0..N {
    s = s + i64(i) * 3i64
    f = f * 0.999f64 + 1.5f64
}
print(f + f64(s))
""",
        """
s = 0
f = 0.5
for i in range(N):
    s = s + i * 3
    f = f * 0.999 + 1.5
print(f + float(s))
""",
    ),
    (
        "calls",
        """
fn mix(a: i32, b: i32) -> i32 { a ^ b }
fn work(n: i32) -> i32 {
    var s = 0
    for i in 0..n { s = mix(s, i) }
    s
}
print(work(N))
""",
        """
def mix(a, b):
    return a ^ b
def work(n):
    s = 0
    for i in range(n):
        s = mix(s, i)
    return s
print(work(N))
""",
    ),
    (
        "elements, read and written",
        """
fn work(n: i32) -> f64 {
    var x = full(1000, 0.0f64)
    for i in 0..n {
        let j = i % 999 + 1
        x[j] = x[j - 1] * 0.5f64 + 1.0f64
    }
    sum(x)
}
print(work(N))
""",
        """
def work(n):
    x = [0.0] * 1000
    for i in range(n):
        j = i % 999 + 1
        x[j] = x[j - 1] * 0.5 + 1.0
    return sum(x)
print(work(N))
""",
    ),
    (
        "branches",
        """
fn work(n: i32) -> i64 {
    var x = 27i64
    var steps = 0i64
    for _ in 0..n {
        if x == 1i64 { x = 27i64 + steps % 100i64 } else if x % 2i64 == 0i64 { x = x / 2i64 } else { x = 3i64 * x + 1i64 }
        steps += 1i64
    }
    steps + x
}
print(work(N))
""",
        """
def work(n):
    x = 27
    steps = 0
    for _ in range(n):
        if x == 1:
            x = 27 + steps % 100
        elif x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps + x
print(work(N))
""",
    ),
]


def run(command):
    """Returns the output and the processor time of a command; wall-clock time would depend more on other work."""
    before = spent()
    done = subprocess.run(command, capture_output=True, text=True)
    after = spent()
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout, after - before


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(command, path, text, count):
    seconds = []
    for iterations in (count, 0):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("N", str(iterations)))
        output, taken = run(command + [path])
        seconds.append(taken)
        if iterations == count:
            result = output
    return result, (seconds[0] - seconds[1]) / count * 1e9


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    wanted = arguments.parse_args()
    print(f"{'':32}{'Clk':>10}{'checked':>10}{'Python':>10}   ns for an iteration")
    with tempfile.TemporaryDirectory() as folder:
        for name, clk, python in PROGRAMS:
            best = [float("inf")] * 3
            for _ in range(wanted.rounds):
                sides = [
                    ([CLK, "run", "--device", "sim"], "a.clk", clk),
                    ([CLK, "run", "--device", "sim", "--check"], "a.clk", clk),
                    ([sys.executable], "a.py", python),
                ]
                results = []
                for i, (command, file, text) in enumerate(sides):
                    result, taken = measure(command, os.path.join(folder, file), text, wanted.count)
                    results.append(float(result))
                    best[i] = min(best[i], taken)
                if any(abs(r - results[0]) > 1e-9 * abs(results[0]) for r in results):
                    sys.exit(f"{name}: the results differ: {results}")
            print(f"{name:32}{best[0]:10.1f}{best[1]:10.1f}{best[2]:10.1f}")


if __name__ == "__main__":
    main()
