#!/usr/bin/env python3
"""Compares routines of the library with CUB and PyTorch (cuFFT, cuSPARSE) on one GPU: python routines.py [--size 26]

Compiles routines.cu with nvcc, has routines.clk compute results of random data, which are compared with PyTorch's and NumPy's, and prints a table
of medians in microseconds. `CLK` selects the binary. A row whose result, or its size, goes to the host is timed by the host's clock on both sides; the
others are timed by the host's clock for Clk and by events for the peers. "ffts" are 20 sequential transforms, timed by the host's clock on both sides."""
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
CLK = os.environ.get("CLK", str(HERE.parent.parent / "target/release/clk"))
SIZE = int(sys.argv[sys.argv.index("--size") + 1]) if "--size" in sys.argv else 26
FOLDER = Path(tempfile.mkdtemp())


def on_gpu(run, times=21):
    for _ in range(4):
        run()
    taken = []
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(taken)


def on_host(run, times=21):
    taken = []
    for round in range(times + 4):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(taken[4:])


def inputs():
    rng = np.random.default_rng(5)
    n = (1 << 18) + 992
    lengths = np.minimum((2.0 / (rng.random(3000) + 0.005)).astype(np.int32), 400) * (rng.random(3000) > 0.3)
    lengths[77] = 30_000
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = dict(
        i=rng.integers(-9, 10, n, dtype=np.int32), f=rng.random(n, dtype=np.float32),
        u=rng.integers(0, 1 << 32, n, dtype=np.uint32), v=rng.integers(0, 1 << 32, n, dtype=np.uint32),
        starts=starts, cols=rng.integers(0, 5000, starts[-1], dtype=np.int32), x=rng.random(5000, dtype=np.float32),
    )
    data["u"][: n // 2] %= 70_000
    np.savez(FOLDER / "in.npz", **data)
    return data


def compare(data):
    out = dict(np.load(FOLDER / "out.npz"))
    i, f, u, v, starts = (data[k] for k in ("i", "f", "u", "v", "starts"))
    marks = i % 2 == 0
    order = np.argsort(u, kind="stable")
    wide = np.concatenate([[0.0], np.cumsum(f[: starts[-1]].astype(np.float64))])
    terms = np.concatenate([[0.0], np.cumsum(f[: starts[-1]].astype(np.float64) * data["x"][data["cols"]])])
    z = f + 0.5j * f
    n = len(f)
    exact = dict(
        positive=i[i > 0], below=f[f <= 0.25], marked=f[marks], far=i[i > 8], sorted=u[order], moved=v[order], radix=u[order],
        order=np.argsort(f, kind="stable"), sorted_floats=np.sort(f), scan=np.cumsum(i, dtype=np.int32), unique=np.unique(i), largest=[f.max()],
    )
    near = dict(
        scan_floats=np.cumsum(f, dtype=np.float64), before=np.cumsum(f, dtype=np.float64) - f, cumsum=np.cumsum(f, dtype=np.float64),
        total=[f.sum(dtype=np.float64)], segments=np.diff(wide[starts]), product=np.diff(terms[starts]),
    )
    near["line_re"], near["line_im"] = (lambda y: (y.real, y.imag))(np.fft.fft(z[: 1 << 16]))
    for name, long in (("short", 16), ("middle", 32)):
        y = np.fft.fft(z[: n // long * long].reshape(-1, long))
        near[name + "_re"], near[name + "_im"] = y.real, y.imag
    wrong = [name for name, want in exact.items() if not np.array_equal(out[name], want)]
    for name, want in near.items():
        scale = np.abs(want).max()
        if out[name].shape != np.shape(want) or not np.abs(out[name] - want).max() <= 1e-5 * scale:
            wrong.append(name)
    bins = np.histogram(f.astype(np.float64), 100, (0.0, 1.0))[0]
    # A value next to an edge may be in either bin.
    if out["bins"].sum() != n or np.abs(out["bins"] - bins).max() > 2:
        wrong.append("bins")
    print(f"{len(exact) + len(near) + 1} results compared, wrong: {', '.join(wrong) or 'none'}")
    return not wrong


def rows_of(text):
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {name: float(value) for name, value in pairs}


def torch_rows():
    many, some = 1 << SIZE, 1 << (SIZE - 2)
    rows, gpu = {}, dict(device="cuda")
    ints = torch.randint(-9, 10, (many,), dtype=torch.int32, **gpu)
    floats = torch.rand(many, **gpu)
    marks = torch.randint(0, 2, (many,), **gpu) == 0
    keys = torch.randint(-(1 << 31), 1 << 31, (some,), dtype=torch.int32, **gpu)
    rows["select"] = on_host(lambda: ints[ints > 0])
    rows["select by mask"] = on_host(lambda: ints[marks])
    rows["scan f32"] = rows["cumsum f32"] = on_gpu(lambda: torch.cumsum(floats, 0))
    rows["total f32"] = on_host(lambda: floats.sum().item())
    rows["maximum f32"] = on_host(lambda: floats.max().item())
    rows["histogram f32"] = on_gpu(lambda: torch.histc(floats, 100, 0.0, 1.0))
    rows["sort u32"] = rows["argsort u32"] = on_gpu(lambda: torch.sort(keys))
    rows["sort f32"] = on_gpu(lambda: torch.sort(floats[:some]))
    rows["unique u32"] = on_host(lambda: torch.unique(keys))
    for log in range(10, 25, 2):
        if log > SIZE - 2:
            break
        z = torch.randn(1 << log, dtype=torch.complex64, **gpu)
        rows[f"fft 2^{log}"] = on_host(lambda: torch.fft.fft(z))
        rows[f"ffts 2^{log}"] = on_host(lambda: [torch.fft.fft(z) for _ in range(20)]) / 20
    z = torch.randn(some, dtype=torch.complex64, **gpu)
    for long in (16, 1024):
        rows[f"fft rows {long}"] = on_gpu(lambda: torch.fft.fft(z.view(-1, long)))
    return rows


def product_rows(clk):
    """Products of matrices with the shapes of routines.clk's, and random values, by cuSPARSE."""
    rows, gpu = {}, dict(device="cuda")

    def product(name, lengths, columns, cols=None):
        starts = torch.cat([torch.zeros(1, dtype=torch.int64, **gpu), torch.cumsum(lengths, 0)]).to(torch.int32)
        count = int(starts[-1])
        if cols is None:
            cols = torch.randint(0, columns, (count,), dtype=torch.int32, **gpu)
        matrix = torch.sparse_csr_tensor(starts, cols, torch.rand(count, **gpu), size=(len(lengths), columns))
        x = torch.rand(columns, **gpu)
        rows["product " + name] = on_gpu(lambda: matrix @ x)
        if name in clk and abs(count - clk[name]) > 0.02 * count:
            print(f"{name}: {count} values, and {clk[name]:.0f} for Clk")

    side = 100 if SIZE == 26 else 8
    cube = side**3
    k, r = torch.arange(27, **gpu), torch.arange(cube, **gpu)[:, None]
    near = r + (k // 9 - 1) * side * side + (k // 3 % 3 - 1) * side + k % 3 - 1
    product("stencil", torch.full((cube,), 27, **gpu), cube, near.clamp(0, cube - 1).to(torch.int32).flatten())
    r = 1 << (SIZE - 6)
    lengths = (2.0 / (torch.rand(r, **gpu) + 0.00005)).to(torch.int64).clamp(max=r // 16)
    lengths[r // 3] = 2 * r - r // 5
    product("skewed", lengths, r)
    product("empty", (torch.randint(0, 10, (8 * r,), **gpu) == 0) * 10, r)
    return rows


def main():
    parts = [subprocess.Popen(["nvcc", "-std=c++17", "-O3", "-arch=native", f"-DPART={part}", HERE / "routines.cu", "-o", FOLDER / f"cub{part}"])
             for part in range(1, 5)]
    data = inputs()
    command = [CLK, "run", "--device", "gpu", "--no-isolate", str(HERE / "routines.clk"), str(FOLDER), str(SIZE)]
    ran = subprocess.run(command, text=True, capture_output=True)
    if ran.returncode != 0:
        sys.exit(ran.stdout + ran.stderr)
    right = compare(data)
    clk, cub = rows_of(ran.stdout), {}
    for part, build in enumerate(parts, 1):
        if build.wait() == 0:
            cub.update(rows_of(subprocess.run([FOLDER / f"cub{part}", str(SIZE)], text=True, capture_output=True).stdout))
    if "pairs u32" in cub:
        cub["argsort u32"] = cub["pairs u32"]
    cub["radix u32"] = cub.get("sort u32")
    peer = torch_rows()
    try:
        peer.update(product_rows(clk))
    except (RuntimeError, NotImplementedError) as error:
        print(f"no products: {error}")
    print(torch.cuda.get_device_name(), torch.__version__, torch.version.cuda)
    print(f"{'':18} {'Clk':>9} {'CUB':>9} {'torch':>9}   best / Clk")
    for name, us in clk.items():
        others = [cub.get(name), peer.get(name)]
        if not any(others) and not name.startswith("segments"):
            continue
        shown = " ".join(f"{value:9.1f}" if value else " " * 9 for value in [us, *others])
        best = min(filter(None, others), default=None)
        print(f"{name:18} {shown}   {best / us:.2f}" if best else f"{name:18} {shown}")
    print("CUB on the GPU alone:", {name: us for name, us in cub.items() if name.endswith("on gpu")})
    sys.exit(not right)


main()
