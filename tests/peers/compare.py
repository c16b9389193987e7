#!/usr/bin/env python3
"""Compares Clk with C, kernel by kernel, in alternating samples: prints medians, spread, and whether the results agree.

    cargo build --release && tests/peers/compare.py [--size small] [--kernels saxpy,mandel] [--threads 1] [--rounds 9] [--cpu] [--isa avx2]

Needs gcc. An idle machine gives the best numbers; `--cpu` measures CPU time instead of wall-clock time, which with `--threads 1`
is reliable on a busy machine, too.
"""
import argparse
import array
import ctypes
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import programs

HERE = os.path.dirname(os.path.abspath(__file__))
#: Numbers of the kernels, as in `enum kernel` of suite.c.
NUMBERS = dict(saxpy=0, mandel=1, matmul=2, reduce=3, hist=4, nbody=5, softmax=6, jacobi=7, empty1=8, empty64k=8)
EIGHT = [kernel for kernel in NUMBERS if not kernel.startswith("empty")]
FLAGS = "-O3 -fopenmp -fno-math-errno -fno-trapping-math -shared -fPIC".split()
#: The names that gcc has for the instruction sets of the simulator.
MACHINES = dict(native="native", avx512="x86-64-v4", avx2="x86-64-v3", baseline="x86-64")
#: Maximum relative error of the results, because of the order of sums and the last digits of exp and rsqrt.
TOLERANCE = 2e-3


class Arguments(ctypes.Structure):
    _fields_ = [("n", ctypes.c_long), ("m", ctypes.c_long), ("p", ctypes.c_void_p * 4), ("result", ctypes.c_float)]


def compile_c(folder, isa="native"):
    path = os.path.join(folder, "suite.so")
    subprocess.run(["gcc", *FLAGS, f"-march={MACHINES[isa]}", "-o", path, os.path.join(HERE, "suite.c"), "-lm"], check=True)
    lib = ctypes.CDLL(path)
    lib.measure.restype = lib.largest_error.restype = ctypes.c_double
    lib.differences.restype = ctypes.c_long
    return lib


def read_npy(path):
    """Returns the elements of a version 1 .npy file, as bytes that ctypes can point to."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:6] == b"\x93NUMPY" and data[6] == 1, path
    return bytearray(data[10 + int.from_bytes(data[8:10], "little"):])


class C:
    """A kernel of suite.c, with the inputs written by Clk."""

    def __init__(self, lib, kernel, size, folder, plain=False):
        self.lib, self.kernel, self.plain = lib, NUMBERS[kernel], int(plain)
        e = programs.extents(kernel, size)
        n, m = e["n"], e["m"]
        inputs = [read_npy(os.path.join(folder, f"{name}.npy")) for name in programs.PROGRAMS[kernel].inputs]
        room = dict(mandel=[4 * n * n], matmul=[4 * n * n], hist=[4 * 256], nbody=[16 * n] * 2, softmax=[4 * n * m]).get(kernel, [])
        self.buffers = inputs + [bytearray(size) for size in room]
        if kernel == "jacobi":
            self.buffers.append(bytearray(inputs[0]))
        self.result = dict(saxpy=1, mandel=0, matmul=2, hist=1, nbody=3, softmax=1, jacobi=0).get(kernel)
        self.arguments = Arguments(n, m)
        for i, buffer in enumerate(self.buffers):
            self.arguments.p[i] = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))

    def measure(self, runs):
        return self.lib.measure(self.kernel, self.plain, runs, ctypes.byref(self.arguments))

    def cpu(self):
        return time.process_time()

    def output(self):
        if self.result is not None:
            return self.buffers[self.result]
        return bytearray(array.array("f", [self.arguments.result]).tobytes())


def sample(side, runs, cpu):
    before = side.cpu()
    seconds = side.measure(runs)
    return (side.cpu() - before) / runs if cpu else seconds


def check(lib, kernel, size, folder):
    """Compares the results of Clk and C; returns the difference as text."""
    c = C(lib, kernel, size, folder)
    c.measure(1)
    programs.run(folder, "once.clk", programs.once(kernel, size))
    if not programs.PROGRAMS[kernel].out:
        return "-"
    got, wanted = read_npy(os.path.join(folder, "out.npy")), c.output()
    if len(got) != len(wanted):
        return "LENGTH"
    pointers = [(ctypes.c_char * len(b)).from_buffer(b) for b in (got, wanted)]
    n = len(got) // 4
    if kernel in ("hist", "mandel"):
        # C contracts a*b + c in mandel, so points near the boundary may take an iteration more or less.
        off = lib.differences(ctypes.c_long(n), *pointers) / n
        return f"{off:.2%} off" if off <= (0.02 if kernel == "mandel" else 0) else f"WRONG: {off:.2%} off"
    error = lib.largest_error(ctypes.c_long(n), *pointers)
    return f"{error:.0e}" if error <= TOLERANCE else f"WRONG: {error:.0e}"


def compare(lib, kernel, options, folder):
    size = options.size
    programs.run(folder, "make.clk", programs.maker(kernel, size))
    row = dict(kernel=kernel, check=check(lib, kernel, size, folder))
    tuned, plain = C(lib, kernel, size, folder), C(lib, kernel, size, folder, plain=True)
    words = [f"--workers={options.threads}"] if options.threads else []
    path = programs.script(folder, "bench.clk", programs.bench(kernel, size))
    clk = programs.Timer(path, "run", words, folder)
    try:
        sides = dict(tuned=tuned, plain=plain, clk=clk)
        runs, samples = {}, {name: [] for name in sides}
        for name, side in sides.items():
            side.measure(2)
            runs[name] = max(1, min(100_000, int(options.seconds / max(side.measure(2), 1e-7))))
        for _ in range(options.rounds):
            for name, side in sides.items():
                samples[name].append(sample(side, runs[name], options.cpu))
    finally:
        clk.end()
    for name, taken in samples.items():
        row[name] = statistics.median(taken)
    ratios = sorted(a / b for a, b in zip(samples["clk"], samples["tuned"]))
    row["ratio"] = statistics.median(ratios)
    row["low"], row["high"] = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    row["to_plain"] = statistics.median(a / b for a, b in zip(samples["clk"], samples["plain"]))
    return row


def number(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=programs.SIZES, default="full")
    parser.add_argument("--kernels", default=",".join(programs.PROGRAMS))
    parser.add_argument("--threads", type=int, default=0, help="of C and of Clk [default: one per core]")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.05, help="length of a sample")
    parser.add_argument("--cpu", action="store_true", help="time on the cores")
    parser.add_argument("--isa", choices=MACHINES, default="native", help="instruction set of C and of Clk [default: the machine's]")
    options = parser.parse_args()
    if options.isa != "native":
        os.environ["CLK_SIM_ISA"] = options.isa
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    folder = tempfile.mkdtemp()
    try:
        lib = compile_c(folder, options.isa)
        ratios = []
        print("| kernel | C ms | Clk ms | Clk / C | quartiles | Clk / plain C | result |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for kernel in options.kernels.split(","):
            r = compare(lib, kernel, options, folder)
            if kernel in EIGHT:
                ratios.append(r["ratio"])
            print(f"| {kernel} | {r['tuned'] * 1e3:.4g} | {r['clk'] * 1e3:.4g} | {number(r['ratio'])} | "
                  f"{number(r['low'])}–{number(r['high'])} | {number(r['to_plain'])} | {r['check']} |", flush=True)
        if len(ratios) > 1:
            print(f"| geometric mean of {len(ratios)} | | | {number(statistics.geometric_mean(ratios))} | | | |")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
