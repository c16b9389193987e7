#!/usr/bin/env python3
"""Times twenty examples and the same tasks in NumPy and SciPy: prints the table of docs/gallery.md.

    cargo build --release && tests/peers/gallery.py [--only kmeans] [--rounds 5] [--threads 2] [--blas-threads 2]

Needs NumPy, SciPy and Matplotlib. Both sides get the same inputs, and their results are compared. Times are those of the computation,
without the start of a process: the median of rounds in which NumPy and Clk alternate. `CLK` selects another binary.
"""
import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# NumPy chooses its kernels itself, whatever the environment says.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--only", help="one task")
arguments.add_argument("--rounds", type=int, default=5)
arguments.add_argument("--threads", type=int, default=2, help="the threads of Clk")
arguments.add_argument("--blas-threads", type=int, default=2, help="the threads of NumPy's products; try 1 on a busy machine")
options = arguments.parse_args()
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = str(options.blas_threads)
os.environ["MPLBACKEND"] = "agg"

import numpy as np
import scipy.io
import scipy.sparse.csgraph
import scipy.special

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "tests/peers/gallery"
CLK = os.environ.get("CLK", str(ROOT / "target/release/clk"))
sys.path.insert(0, str(PEERS))


@dataclass
class Task:
    """A row of the table."""

    title: str
    size: str
    #: Returns the inputs by name. Arrays become .npy files.
    make: Callable
    #: Computes with the inputs in NumPy.
    run: Callable
    #: The relative tolerance of the comparison.
    close: float = 1e-3


@dataclass
class Reading:
    """A row of the table: a file that is read."""

    title: str
    size: str
    make: Callable
    write: Callable
    read: Callable


def peer(name):
    return importlib.import_module(name)


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def uniform(*shape, seed=1):
    return np.random.default_rng(seed).random(shape, np.float32)


def clusters():
    centers = 4 * normal(8, 3, seed=2)
    points = (centers[np.arange(100_000) % 8] + normal(100_000, 3)).astype(np.float32)
    return {"points": points, "centers": points[:8]}


def write_points(folder, data):
    """Writes the points as a CSV file."""
    np.savetxt(folder / "points.csv", data["points"], "%.4f", ",", header="length,width,height", comments="")


def plate():
    start = np.zeros((512, 512), np.float32)
    start[0] = 1
    return {"start": start}


def links():
    """The links of a network of 100,000 nodes, with 10 links to random nodes each."""
    n, rng = 100_000, np.random.default_rng(1)
    rows, cols = np.repeat(np.arange(n), 10), rng.integers(0, n, 10 * n)
    links = scipy.sparse.coo_matrix((rng.random(10 * n).round(4) + 0.5, (rows, cols)), (n, n)).tocsr()
    links.sum_duplicates()
    return {"a": links}


def write_network(folder, data):
    """Writes the network in the Matrix Market format."""
    scipy.io.mmwrite(folder / "a.mtx", data["a"], precision=6)


def oscillation():
    t = np.linspace(0, 10, 10_000)
    noise = 0.1 * np.random.default_rng(3).standard_normal(len(t))
    return {"t": t, "measured": peer("oscillation").model(t, 2, 0.3, 4, 0.5) + noise}


def tones():
    t = np.arange(1 << 18) / 8000
    clean = np.array([1, 0.5, 0.25]) @ np.sin(2 * np.pi * np.array([437.5, 1250, 2906.25])[:, None] * t)
    return {"noisy": (clean + 0.8 * normal(len(t))).astype(np.float32)}


def digits():
    data = np.load(ROOT / "examples/data/digits.npz")
    return {"pixels": data["x"].astype(np.float32), "digit": data["y"].astype(np.int32)}


def right_side():
    known = np.zeros((256, 256))
    at = np.arange(254) / 256
    known[1:-1, 1:-1] = np.sin(3 * at[:, None]) * np.cos(2 * at) + 1
    return {"b": peer("conjugate_gradients").laplace(known)}


def roads():
    rng = np.random.default_rng(1)
    distance = np.where(rng.random((400, 400)) < 0.02, rng.uniform(1, 30, (400, 400)), 1e6).astype(np.float32)
    np.fill_diagonal(distance, 0)
    return {"roads": distance}


def two_classes():
    x = normal(100_000, 2)
    y = (x @ np.array([1.5, -1], np.float32) + 0.3 + 0.3 * normal(100_000, seed=2) > 0).astype(np.float32)
    return {"x": x, "y": y}


def bodies():
    rng = np.random.default_rng(1)
    return {"mass": rng.random(1000) / 1000, "p": rng.standard_normal((1000, 2)), "v": 0.3 * rng.standard_normal((1000, 2))}


def options_of_shares():
    n = 1_000_000
    spot, strike, years = 5 + 25 * uniform(n), 1 + 99 * uniform(n, seed=2), 0.25 + 9.75 * uniform(n, seed=3)
    return {"spot": spot, "strike": strike, "years": years}


TASKS = {
    "edges": Task(
        "Sobel's filters",
        "2048 by 2048 pixels",
        lambda: {"x": uniform(2048, 2048)},
        lambda x: peer("edges").edges(x),
    ),
    "kmeans": Task(
        "k-means",
        "100,000 points, 8 clusters, 20 rounds",
        clusters,
        lambda points, centers: peer("kmeans").kmeans(points, centers, 20),
    ),
    "kmeans_read": Reading(
        "its CSV file, read",
        "100,000 lines",
        clusters,
        write_points,
        lambda folder: np.loadtxt(folder / "points.csv", delimiter=",", skiprows=1)[:, 0],
    ),
    "heat": Task(
        "heat in a plate",
        "512 by 512 points, 200 steps",
        plate,
        lambda start: peer("heat").simulate(start, 11, 20),
    ),
    "row_softmax": Task(
        "softmax of rows",
        "4096 rows of 1000",
        lambda: {"x": 10 * normal(4096, 1000)},
        lambda x: scipy.special.softmax(x, axis=1),
    ),
    "histogram": Task(
        "histogram",
        "4 million bytes",
        lambda: {"data": np.random.default_rng(1).integers(0, 255, 1 << 22, dtype=np.uint8)},
        lambda data: peer("histogram").histogram(data),
    ),
    "network": Task(
        "sparse matrix times vector",
        "1 million values, 20 products",
        links,
        lambda a: peer("network").centrality(a, 20),
    ),
    "network_read": Reading(
        "its Matrix Market file, read",
        "1 million lines",
        links,
        write_network,
        lambda folder: scipy.io.mmread(folder / "a.mtx").tocsr().data,
    ),
    "black_scholes_arrays": Task(
        "option prices",
        "1 million options",
        options_of_shares,
        lambda spot, strike, years: np.stack(peer("black_scholes_arrays").prices(spot, strike, years, 0.02, 0.3)),
    ),
    "life_arrays": Task(
        "Game of Life",
        "2000 by 2000 cells, one generation",
        lambda: {"cells": (uniform(2000, 2000) > 0.7).astype(np.uint8)},
        lambda cells: peer("life_arrays").generation(cells),
    ),
    "nbody_arrays": Task(
        "bodies under gravity",
        "1000 bodies, 10 steps",
        bodies,
        lambda mass, p, v: peer("nbody_arrays").simulate(p, v, mass, 0.01, 10)[0],
    ),
    "oscillation": Task(
        "nonlinear fit",
        "10,000 points, 4 parameters",
        oscillation,
        lambda t, measured: peer("oscillation").fit([1, 0.1, 3.8, 0], t, measured),
    ),
    "mandelbrot": Task(
        "Mandelbrot set",
        "640 by 512 pixels",
        dict,
        lambda: peer("mandelbrot").mandelbrot(-2.2, -1.25, 2.5 / 512, 256, 512, 640),
    ),
    "spectrum": Task(
        "noise removed by FFT",
        "262,144 samples",
        tones,
        lambda noisy: peer("spectrum").denoise(noisy, 0.15),
    ),
    "pca": Task(
        "principal components",
        "20,000 points in 20 dimensions",
        lambda: {"x": normal(20_000, 20) * np.float32(0.7) ** np.arange(20, dtype=np.float32)},
        lambda x: peer("pca").components(x, 2),
    ),
    "nearest_neighbors": Task(
        "nearest neighbors",
        "297 digits among 1500",
        digits,
        lambda pixels, digit: peer("nearest_neighbors").classify(pixels[1500:], pixels[:1500], digit[:1500], 10),
    ),
    "blur_slices": Task(
        "Gaussian blur",
        "2048 by 2048 pixels",
        lambda: {"x": uniform(2048, 2048)},
        lambda x: peer("blur_slices").blur(x),
    ),
    "conjugate_gradients": Task(
        "Poisson equation",
        "256 by 256 points",
        right_side,
        lambda b: peer("conjugate_gradients").solve(b),
    ),
    "kalman": Task(
        "Kalman filter",
        "5000 measurements",
        lambda: {"measured": 0.2 * np.arange(5000) + 0.5 * normal(5000).astype(np.float64)},
        lambda measured: peer("kalman").estimate(measured),
    ),
    "monte_carlo_pi": Task(
        "pi from random points",
        "262,144 points",
        dict,
        lambda: np.array([peer("monte_carlo_pi").pi(1 << 18)]),
        close=1e-2,
    ),
    "floyd_warshall": Task(
        "all shortest paths",
        "400 nodes",
        roads,
        lambda roads: scipy.sparse.csgraph.floyd_warshall(roads),
    ),
    "logistic_regression": Task(
        "logistic regression",
        "100,000 points, 50 steps",
        two_classes,
        lambda x, y: np.append(*peer("logistic_regression").train(x, y, 50, 1)),
    ),
}


def measured(work, seconds=0.3):
    """The median time of calls within some seconds, at least three, after one call that does not count."""
    work()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def agree(name, ours, theirs):
    """Compares the result of Clk with that of NumPy."""
    if ours.shape != theirs.shape:
        return False
    if name == "mandelbrot":
        # Rounding decides about points at the boundary of the set.
        return np.mean(ours != theirs) < 0.01
    if name == "pca":
        # The sign of an eigenvector is arbitrary.
        ours, theirs = ours * np.sign(ours[:, :1]), theirs * np.sign(theirs[:, :1])
    close = getattr(TASKS[name], "close", 1e-3)
    return np.allclose(ours, theirs, rtol=close, atol=close * np.abs(theirs).max())


def compared(name, task):
    """Returns the median times of NumPy and Clk."""
    data = task.make()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for key, value in data.items():
            if isinstance(value, np.ndarray):
                np.save(folder / f"{key}.npy", value)
        if isinstance(task, Reading):
            task.write(folder, data)
        elif name == "network":
            write_network(folder, data)
        work = (lambda: task.read(folder)) if isinstance(task, Reading) else (lambda: task.run(**data))
        command = [CLK, "run", "--device", "sim", "--workers", str(options.threads), PEERS / "../gallery.clk", folder, name]
        numpy, clk = [], []
        for _ in range(options.rounds):
            numpy.append(measured(work))
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode != 0:
                sys.exit(f"{name}: {ran.stderr}")
            clk.append(float(ran.stdout))
        if not agree(name, np.load(folder / "clk.npy"), np.asarray(work())):
            sys.exit(f"{name}: the results differ")
    return statistics.median(numpy), statistics.median(clk)


def lines(path):
    """The number of lines that are neither empty nor a comment."""
    text = [line.strip() for line in path.read_text().splitlines()]
    return sum(1 for line in text if line and not line.startswith(("//", "#", '"""')))


def shown(milliseconds):
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.2g}"


def main():
    print("| task | Clk | NumPy | lines | NumPy, ms | Clk, ms | NumPy / Clk |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, task in TASKS.items():
        if options.only not in (None, name):
            continue
        numpy, clk = (1000 * seconds for seconds in compared(name, task))
        ours, theirs = ROOT / f"examples/{name}.clk", PEERS / f"{name}.py"
        cells = ["", "", ""]
        if ours.exists():
            cells = [f"[{name}](../examples/{ours.name})", f"[{name}](../tests/peers/gallery/{theirs.name})"]
            cells.append(f"{lines(ours)}, {lines(theirs)}")
        row = [f"{task.title}: {task.size}", *cells, shown(numpy), shown(clk), f"{numpy / clk:.2g}"]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
