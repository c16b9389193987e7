#!/usr/bin/env python3
"""Compares array expressions with NumPy, numexpr and JAX (jit) on the processor, in alternating samples.

    cargo build --release && taskset -c 0,1 tests/peers/expressions.py [--only softmax] [--rounds 5] [--workers 2]

Needs NumPy; columns of libraries that are not installed are empty. Each result is first compared with NumPy's. NumPy uses one thread
except in matrix products; these, numexpr and JAX use the threads that the process may run on.
"""
import argparse
import os
import shutil
import statistics
import tempfile
import time

import numpy as np

import programs

try:
    import numexpr
except ImportError:
    numexpr = None
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

#: Inputs, made by Clk and saved for the others.
INPUTS = """
let a = random(1 << 23, seed = 1)
let b = random(1 << 23, seed = 2) + 0.5
let m = random(2048, 2048, seed = 3)
let p = random(1024, 1024, seed = 4)
let q = random(1024, 1024, seed = 5)
let v = random(2048, seed = 6)
let u = random(4096, seed = 7)
let w = random(4096, seed = 8)
let k = random(1 << 20, seed = 9)
let g = i32(random(1000, 1000, seed = 10) > 0.7)
let h = i32(random(1 << 22, seed = 11) * 256.0)
let i = i32(random(1 << 20, seed = 12) * 8000000.0)
"""
NAMES = "abmpqvuwkghi"


def life(np, g):
    s = g[:-2, :-2] + g[:-2, 1:-1] + g[:-2, 2:] + g[1:-1, :-2] + g[1:-1, 2:] + g[2:, :-2] + g[2:, 1:-1] + g[2:, 2:]
    return (s == 3) | ((g[1:-1, 1:-1] == 1) & (s == 2))


def chain(np, a, b):
    x = a
    for _ in range(10):
        x = x * b + np.float32(0.5)
    return x


def softmax(np, m):
    e = np.exp(m - m.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalized(np, m):
    c = m - m.mean(axis=1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + np.float32(1e-5))


def bincount(np, h):
    return np.bincount(h, minlength=256) if np.__name__ == "numpy" else np.bincount(h, length=256)


def black_scholes(np, a, b):
    spot, strike, years = a * np.float32(50) + np.float32(75), b * np.float32(100), b
    root = np.float32(0.3) * np.sqrt(years)
    d1 = (np.log(spot / strike) + np.float32(0.065) * years) / root
    d2 = d1 - root
    phi1 = np.float32(1) / (np.float32(1) + np.exp(np.float32(-1.702) * d1))
    phi2 = np.float32(1) / (np.float32(1) + np.exp(np.float32(-1.702) * d2))
    return spot * phi1 - strike * np.exp(np.float32(-0.02) * years) * phi2


#: Name, Clk, NumPy (and JAX, with its module), numexpr.
TABLE = [
    ("a*b + 2a - b/(a+1)", "a * b + 2.0 * a - b / (a + 1.0)", "ab", lambda np, a, b: a * b + np.float32(2) * a - b / (a + np.float32(1)),
     "a * b + two * a - b / (a + one)"),
    ("chain of 20", " ".join("let x%d = %s * b + 0.5" % (n + 1, "x%d" % n if n else "a") for n in range(10)).replace(" let", "\nlet") + "\nx10",
     "ab", chain, "(" * 10 + "a" + " * b + half)" * 10),
    ("sqrt(a*a + b*b)", "sqrt(a * a + b * b)", "ab", lambda np, a, b: np.sqrt(a * a + b * b), "sqrt(a * a + b * b)"),
    ("exp(-a*a/2)", "exp(-a * a * 0.5)", "a", lambda np, a: np.exp(-a * a * np.float32(0.5)), "exp(-a * a * half)"),
    ("where(a > b, a, b*b)", "select(a > b, a, b * b)", "ab", lambda np, a, b: np.where(a > b, a, b * b), "where(a > b, a, b * b)"),
    ("Black-Scholes", """let spot = a * 50.0 + 75.0
let strike = b * 100.0
let root = 0.3 * sqrt(b)
let d1 = (log(spot / strike) + 0.065 * b) / root
let d2 = d1 - root
let phi1 = 1.0 / (1.0 + exp(-1.702 * d1))
let phi2 = 1.0 / (1.0 + exp(-1.702 * d2))
spot * phi1 - strike * exp(-0.02 * b) * phi2""", "ab", black_scholes, None),
    ("sum(a)", "sum(a)", "a", lambda np, a: a.sum(), "sum(a)"),
    ("max(a)", "max(a)", "a", lambda np, a: a.max(), "max(a)"),
    ("argmax(a)", "argmax(a)", "a", lambda np, a: np.argmax(a), None),
    ("sum(a*b)", "sum(a * b)", "ab", lambda np, a, b: (a * b).sum(), "sum(a * b)"),
    ("sum(a > 0.5)", "sum(i32(a > 0.5))", "a", lambda np, a: (a > np.float32(0.5)).sum(), None),
    ("row sums", "sum(m, axis = 1)", "m", lambda np, m: m.sum(axis=1), None),
    ("column sums", "sum(m, axis = 0)", "m", lambda np, m: m.sum(axis=0), None),
    ("softmax of rows", "let e = exp(m - reshape(max(m, axis = 1), 2048, 1))\ne / reshape(sum(e, axis = 1), 2048, 1)", "m", softmax, None),
    ("normalized rows", """let c = m - reshape(mean(m, axis = 1), 2048, 1)
c / sqrt(reshape(mean(c * c, axis = 1), 2048, 1) + 1e-5)""", "m", normalized, None),
    ("p @ q", "p @ q", "pq", lambda np, p, q: p @ q, None),
    ("m @ v", "m @ v", "mv", lambda np, m, v: m @ v, None),
    ("transpose(m) + 1", "transpose(m) + 1.0", "m", lambda np, m: m.T + np.float32(1), None),
    ("blur by slices", "(m[..2046, 1..2047] + m[2.., 1..2047] + m[1..2047, ..2046] + m[1..2047, 2..] + m[1..2047, 1..2047]) * 0.2", "m",
     lambda np, m: (m[:-2, 1:-1] + m[2:, 1:-1] + m[1:-1, :-2] + m[1:-1, 2:] + m[1:-1, 1:-1]) * np.float32(0.2), None),
    ("Game of Life", """let s = g[..998, ..998] + g[..998, 1..999] + g[..998, 2..] + g[1..999, ..998] + g[1..999, 2..] + g[2.., ..998] + g[2.., 1..999] + g[2.., 2..]
(s == 3) | ((g[1..999, 1..999] == 1) & (s == 2))""", "g", life, None),
    ("(u - w')**2 by broadcast", "let d = reshape(u, 4096, 1) - w\nd * d", "uw", lambda np, u, w: (u[:, None] - w) * (u[:, None] - w), None),
    ("cumsum(k)", "cumsum(k)", "k", lambda np, k: np.cumsum(k), None),
    ("sort(k)", "sort(k)", "k", lambda np, k: np.sort(k), None),
    ("a[i]", "a[i]", "ai", lambda np, a, i: a[i], None),
    ("bincount(h)", "histogram.of_values(h, 256)", "h", bincount, None),
]


class Python:
    def __init__(self, call):
        self.call = call

    def measure(self, runs):
        begin = time.perf_counter()
        for _ in range(runs):
            self.call()
        return (time.perf_counter() - begin) / runs


def sides(row, index, folder, options):
    name, clk, inputs, function, numexpr_text = row
    arrays = [np.load(os.path.join(folder, f"{n}.npy")) for n in inputs]
    loads = "import std.histogram\n" + "".join(f'let {n} = load("{n}.npy")\n' for n in inputs)
    path = programs.script(folder, f"bench{index}.clk", f'{loads}bench "it" {{\n{clk}\n}}\n')
    result = {"Clk": programs.Timer(path, "it", [f"--workers={options.workers}"], folder)}
    result["NumPy"] = Python(lambda: function(np, *arrays))
    if numexpr and numexpr_text:
        known = dict(zip(inputs, arrays), one=np.float32(1), two=np.float32(2), half=np.float32(0.5))
        result["numexpr"] = Python(lambda: numexpr.evaluate(numexpr_text, known))
    if jax:
        there = [jnp.asarray(array) for array in arrays]
        jitted = jax.jit(lambda *args: function(jnp, *args))
        result["JAX"] = Python(lambda: jitted(*there).block_until_ready())
    last = clk.strip().splitlines()
    body = "\n".join(last[:-1] + [f"let found = {last[-1]}"])
    kept = "found" if name not in ("sum(a)", "max(a)", "argmax(a)", "sum(a*b)", "sum(a > 0.5)") else "full(1, found)"
    programs.run(folder, "once.clk", f'{loads}{body}\nsave("found.npy", {kept})\n', [f"--workers={options.workers}"])
    found, wanted = np.load(os.path.join(folder, "found.npy")), np.asarray(function(np, *arrays))
    good = np.allclose(found.reshape(wanted.shape), wanted, rtol=2e-3, atol=1e-4)
    return result, "" if good else "WRONG"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="expressions whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a sample")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if numexpr:
        numexpr.set_num_threads(options.workers)
    folder = tempfile.mkdtemp()
    try:
        programs.run(folder, "make.clk", INPUTS + "".join(f'save("{n}.npy", {n})\n' for n in NAMES))
        print("| expression | Clk ms | NumPy ms | numexpr ms | JAX ms | Clk / NumPy | Clk / JAX | |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        ratios = {"NumPy": [], "JAX": [], "numexpr": []}
        for index, row in enumerate(TABLE):
            if options.only not in row[0]:
                continue
            those, verdict = sides(row, index, folder, options)
            taken = {name: [] for name in those}
            runs = {}
            for name, side in those.items():
                side.measure(1)
                runs[name] = max(1, min(10_000, int(options.seconds / max(side.measure(1), 1e-7))))
            for _ in range(options.rounds):
                for name, side in those.items():
                    taken[name].append(side.measure(runs[name]))
            those["Clk"].end()
            middle = {name: statistics.median(samples) for name, samples in taken.items()}
            for name in ratios:
                if name in middle:
                    ratios[name].append(middle["Clk"] / middle[name])
            ms = lambda name: f"{middle[name] * 1e3:.3g}" if name in middle else ""
            to = lambda name: f"{middle['Clk'] / middle[name]:.2f}" if name in middle else ""
            print(f"| {row[0]} | {ms('Clk')} | {ms('NumPy')} | {ms('numexpr')} | {ms('JAX')} | {to('NumPy')} | {to('JAX')} | {verdict} |", flush=True)
        means = {name: f"{statistics.geometric_mean(values):.2f}" for name, values in ratios.items() if values}
        print("geometric means of Clk's time by theirs:", means)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
