#!/usr/bin/env python3
"""Measures the programs of this folder in C, OpenCL and Clk, in alternating samples; first compares their results.

    tests/peers/heldout/run.py [--programs hotspot,lud] [--opencl FOLDER] [--clk 'LABEL [VARIABLE=VALUE…] [BINARY]']…

--opencl names the folder of the OpenCL libraries (libOpenCL.so and libintelocl.so of Intel's CPU runtime); without it, that column
is empty. --clk may be repeated, to compare binaries or settings side by side: --clk 'off CLK_SIM_JIT=off' --clk 'new target/new/clk'.
"""
import argparse
import array
import ctypes
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.dirname(HERE)]
import programs  # noqa: E402
from cases import CASES  # noqa: E402
from compare import read_npy  # noqa: E402

FLAGS = "-O3 -march=native -fopenmp -ffp-contract=off -fno-math-errno -fno-trapping-math -shared -fPIC".split()
BENCH = 'bench "run" {\n'
#: Samples of a run that takes longer than this many seconds are taken in LONG_ROUNDS rounds only.
LONG, LONG_ROUNDS = 1.0, 3


class C:
    def __init__(self, folder):
        path = os.path.join(folder, "heldout.so")
        subprocess.run(["gcc", *FLAGS, "-o", path, os.path.join(HERE, "heldout.c"), "-lmvec", "-lm"], check=True)
        self.lib = ctypes.CDLL(path)
        self.lib.measure.restype = self.lib.largest_error.restype = ctypes.c_double

    def start(self, name, folder):
        case = CASES[name]
        self.number = list(CASES).index(name)
        self.buffers = {b: read_npy(os.path.join(folder, f"{b}.npy")) for b in case.inputs}
        self.buffers |= {b: bytearray(size) for b, size in case.room.items()}
        self.pointers = (ctypes.c_void_p * len(self.buffers))(*(ctypes.addressof((ctypes.c_char * len(b)).from_buffer(b))
                                                                 for b in self.buffers.values()))

    def measure(self, runs):
        return self.lib.measure(self.number, runs, self.pointers)

    def end(self):
        """Does nothing: the buffers are freed when the next program starts."""

    def difference(self, got, expected, tolerance, integers):
        """Returns the difference as text, marked if it is too large. Results with a tolerance have 32-bit elements."""
        if len(got) != len(expected):
            return f"WRONG: {len(got)} bytes, not {len(expected)}"
        if got == expected:
            return "="
        if not tolerance:
            return f"WRONG: {sum(a != b for a, b in zip(got, expected))} bytes"
        if integers:
            got, expected = (bytes(array.array("f", array.array("I", b))) for b in (got, expected))
        pointers = [(ctypes.c_char * len(b)).from_buffer(bytearray(b)) for b in (got, expected)]
        error = self.lib.largest_error(ctypes.c_long(len(got) // 4), *pointers)
        return f"{error:.0e}" if error <= tolerance else f"WRONG: {error:.0e}"


class Worker:
    """A process that receives a number of runs and answers with the seconds per run."""

    def __init__(self, words, environment, folder):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        bufsize=1, cwd=folder, env=environment)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(self.process.stderr.read().strip() or "the process ended")
        return answer.strip()

    def measure(self, runs):
        return float(self.ask(runs))

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()


class Clk:
    """A binary with its environment."""

    def __init__(self, text, threads):
        label, *words = shlex.split(text)
        settings = dict(w.split("=", 1) for w in words if "=" in w)
        binary = [w for w in words if "=" not in w] or [programs.CLK]
        self.label, self.environment = label, dict(os.environ, **settings)
        self.words = [os.path.abspath(binary[0]) if os.sep in binary[0] else binary[0], "--device=sim", f"--workers={threads}"]
        if not shutil.which(self.words[0]):
            raise SystemExit(f"error: no binary {self.words[0]}: build it (`cargo build --release`), or name one by CLK or --clk")

    def once(self, name, folder, check):
        """Runs the bench's body once as a script that saves inputs and results; returns the results."""
        with open(os.path.join(HERE, f"{name}.clk")) as f:
            head, body = f.read().split(BENCH)
        body = body.rstrip().removesuffix("}")
        save = [f'save("{b}.npy", {b})\n' for b in CASES[name].inputs], [f'save("out_{b}.npy", {b})\n' for b in CASES[name].results]
        path = programs.script(folder, "once.clk", head + "".join(save[0]) + body + "".join(save[1]))
        ran = subprocess.run([*self.words, *check, "run", path], cwd=folder, env=self.environment, capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip() or f"exit code {ran.returncode}")
        return {b: bytes(read_npy(os.path.join(folder, f"out_{b}.npy"))) for b in CASES[name].results}

    def start(self, name, folder, check):
        words = [*self.words, *check, "bench", os.path.join(HERE, f"{name}.clk"), "--on-demand", "--filter", "run"]
        return Worker(words, self.environment, folder)


def start_opencl(name, folder, libraries):
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, OCL_ICD_FILENAMES=os.path.join(libraries, "libintelocl.so"),
                       OPENCL_LIBRARY=os.path.join(libraries, "libOpenCL.so"))
    return Worker([sys.executable, os.path.join(HERE, "opencl.py"), name, folder], environment, folder)


def sides(name, c, clks, options, folder):
    """Starts a process per column; returns them by label."""
    started = dict(C=c)
    if options.opencl:
        started["Intel"] = start_opencl(name, folder, options.opencl)
    for clk in clks:
        started[clk.label] = clk.start(name, folder, ["--no-check"])
        if not options.no_check:
            started[f"{clk.label} --check"] = clk.start(name, folder, ["--check"])
    return started


def compare_results(name, c, clks, options, folder):
    """Compares every column with C; returns the differences as text."""
    results, found = {}, []
    for clk in clks:
        results[clk.label] = clk.once(name, folder, ["--no-check"])
        if not options.no_check:
            results[f"{clk.label} --check"] = clk.once(name, folder, ["--check"])
    c.start(name, folder)
    c.measure(1)
    if options.opencl:
        opencl = start_opencl(name, folder, options.opencl)
        opencl.measure(1)
        opencl.ask("save")
        opencl.end()
        results["Intel"] = {b: open(os.path.join(folder, f"opencl_{b}.bin"), "rb").read() for b in CASES[name].results}
    for label, got in results.items():
        for buffer, tolerance in CASES[name].results.items():
            found.append((label, c.difference(got[buffer], bytes(c.buffers[buffer]), tolerance, CASES[name].integers)))
    wrong = [f"{label} {text}" for label, text in found if text.startswith("WRONG")]
    return "; ".join(wrong) or max((text for _, text in found), key=lambda t: 0 if t == "=" else float(t))


def measure(name, c, clks, options, folder):
    """Returns the samples of every column in seconds (None where it was not sampled), and its first runs."""
    samples, first = {}, {}
    for _ in range(options.launches):
        started = sides(name, c, clks, options, folder)
        try:
            runs, rounds = {}, {}
            for label, side in started.items():
                once = side.measure(1)
                first.setdefault(label, []).append(once)
                if once < LONG:
                    once = min(side.measure(1), side.measure(1))
                runs[label] = max(1, int(options.seconds / max(once, 1e-6)))
                rounds[label] = options.rounds if once < LONG else min(options.rounds, LONG_ROUNDS)
            for i in range(options.rounds):
                for label, side in started.items():
                    samples.setdefault(label, []).append(side.measure(runs[label]) if i < rounds[label] else None)
        finally:
            for side in started.values():
                side.end()
    return samples, first


def number(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(CASES))
    parser.add_argument("--clk", action="append", help="label, settings and binary [default: the release build, or $CLK]")
    parser.add_argument("--opencl", metavar="FOLDER", help="OpenCL libraries")
    parser.add_argument("--no-check", action="store_true", help="do not measure --check")
    parser.add_argument("--only-results", action="store_true", help="compare the results, measure nothing")
    parser.add_argument("--minima", action="store_true", help="compare the fastest samples, on a busy machine [default: medians]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--launches", type=int, default=3, help="fresh processes")
    parser.add_argument("--rounds", type=int, default=5, help="samples per process")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a sample")
    return parser.parse_args()


class Table:
    def __init__(self, clks, options):
        self.minima = options.minima
        self.firsts = (["Intel"] if options.opencl else []) + [clk.label for clk in clks]
        checked = [] if options.no_check else [f"{clk.label} --check" for clk in clks]
        self.columns = self.firsts + checked
        self.ratios = {label: [] for label in self.columns}

    def head(self):
        titles = ["program", "C ms", *(f"{x} / C" for x in self.columns), *(f"{x} first ms" for x in self.firsts), "results"]
        print("| " + " | ".join(titles) + " |\n" + "| --- " * len(titles) + "|", flush=True)

    def row(self, name, samples, first, results):
        usual = min if self.minima else statistics.median
        for label in self.columns:
            pairs = [(a, b) for a, b in zip(samples[label], samples["C"]) if a is not None]
            fastest = min(a for a, _ in pairs) / min(samples["C"])
            self.ratios[label].append(fastest if self.minima else statistics.median(a / b for a, b in pairs))
        cells = [name, number(usual(samples["C"]) * 1e3), *(number(self.ratios[x][-1]) for x in self.columns),
                 *(number(statistics.median(first[x]) * 1e3) for x in self.firsts), results]
        print("| " + " | ".join(cells) + " |", flush=True)

    def end(self):
        if any(self.ratios.values()):
            means = [number(statistics.geometric_mean(self.ratios[x])) for x in self.columns]
            cells = [f"geometric mean of {len(self.ratios[self.columns[0]])}", "", *means, *("" for _ in self.firsts), ""]
            print("| " + " | ".join(cells) + " |")


def one(name, c, clks, table, options, folder):
    """Compares and measures one program; returns whether its results are right."""
    try:
        results = compare_results(name, c, clks, options, folder)
        if options.only_results:
            print(f"{name}: {results}", flush=True)
        else:
            table.row(name, *measure(name, c, clks, options, folder), results)
        return "WRONG" not in results
    except RuntimeError as error:
        print(f"{name} FAILED: {error}", flush=True)
        return False


def main():
    options = parsed()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # If other work needs a core, a thread that spins at a barrier keeps another one from running, so spinning is limited.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # All sides respect CPU affinity, including Intel's runtime.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    clks = [Clk(text, options.threads) for text in options.clk or ["Clk"]]
    table = Table(clks, options)
    with tempfile.TemporaryDirectory() as build:
        c = C(build)
        if not options.only_results:
            table.head()
        right = True
        for name in options.programs.split(","):
            with tempfile.TemporaryDirectory(dir=build) as folder:
                right &= one(name, c, clks, table, options, folder)
        table.end()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
