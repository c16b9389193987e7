"""The programs of this folder: their buffers, and how their OpenCL kernels are launched.

The inputs are the variables of the .clk file with the same names, saved by Clk. C receives the input buffers first, then the buffers of `room`.
"""
from dataclasses import dataclass
from typing import Callable


@dataclass
class Case:
    inputs: list
    #: Other buffers, with their sizes in bytes. They start as zeros.
    room: dict
    #: Buffer with a result -> the largest accepted relative error; 0: equal bit for bit.
    results: dict
    #: Launches the kernels of one run, given an `opencl.Queue`.
    launch: Callable
    #: Whether the results are 32-bit integers; used only if they have a tolerance.
    integers: bool = False


def ceil_div(a, b):
    return -(-a // b)


def hotspot(q):
    n, groups = 1024, ceil_div(1024, 12)
    q.copy("start", "heat")
    for i in range(12):
        source, target = ("heat", "heat_next") if i % 2 == 0 else ("heat_next", "heat")
        q.enqueue("advance", (groups * 16, groups * 16), (16, 16), n, n, "power", source, target)


def lud(q):
    n, b = 1024, 16
    q.copy("a", "m")
    for offset in range(0, n, b):
        q.enqueue("diagonal", (b,), (b,), n, offset, "m")
        rest = (n - offset) // b - 1
        if rest:
            q.enqueue("perimeter", (rest * 2 * b,), (2 * b,), n, offset, "m")
            q.enqueue("internal", (rest * b, rest * b), (b, b), n, offset, "m")


def pathfinder(q):
    rows, cols, steps = 201, 100_000, 20
    size = ceil_div(cols, 256 - 2 * steps) * 256
    q.copy("wall", "cost", 4 * cols)
    for first in range(1, rows, 2 * steps):
        q.enqueue("descend", (size,), (256,), cols, first, steps, "wall", "cost", "cost_next")
        q.enqueue("descend", (size,), (256,), cols, first + steps, steps, "wall", "cost_next", "cost")


def nw(q):
    n, b = 2048, 16
    blocks = n // b
    for d in range(2 * blocks - 1):
        first = max(0, d - blocks + 1)
        count = min(d, blocks - 1) - first + 1
        q.enqueue("align", (count * b,), (b,), n + 1, 10, d, first, "similar", "score")


def bfs(q):
    n = 1 << 20
    q.fill("distance", b"\xff", 4 * n)
    for flags in ("frontier", "visited"):
        q.fill(flags, b"\0", n)
        q.fill(flags, b"\1", 1)
    q.fill("distance", b"\0", 4)
    more = True
    while more:
        q.fill("more", b"\0", 4)
        q.enqueue("expand", (n,), (256,), n, "start", "edges", "visited", "frontier", "reached", "distance")
        q.enqueue("settle", (n,), (256,), n, "reached", "frontier", "visited", "more")
        more = any(q.read("more"))


def srad(q):
    n, q0 = 1024, 0.5
    q.copy("start", "image")
    for _ in range(10):
        q.enqueue("coefficients", (n, n), (16, 16), n, n, q0, "image", "dn", "ds", "dw", "de", "c")
        q.enqueue("diffuse", (n, n), (16, 16), n, n, "c", "dn", "ds", "dw", "de", "image")
        q0 = q.rounded(q0 * q.rounded(0.9))


def convolution(q):
    n = 2048
    q.enqueue("rows", (n // 8, n), (16, 4), n, "x", "between")
    q.enqueue("columns", (n, n // 8), (16, 8), n, n, "between", "y")


def fdtd3d(q):
    n, r = 160, 4
    q.copy("start", "volume")
    q.copy("start", "other")
    for i in range(4):
        source, target = ("volume", "other") if i % 2 == 0 else ("other", "volume")
        q.enqueue("sweep", (n, n), (32, 16), n + 2 * r, n + 2 * r, n + 2 * r, source, target)


def options(q):
    q.enqueue("prices", (2 * M,), (128,), 2 * M, "price", "strike", "years", "call", "put")


def sha256(q):
    n = 1 << 17
    q.enqueue("hash", (n,), (256,), n, "message", "digest")


def hash_table(q):
    n, slots = M, 2 * M
    q.fill("keys", b"\xff", 4 * slots)
    q.enqueue("insert", (n,), (256,), n, slots, "key", "value", "keys", "values")
    q.enqueue("find_all", (n,), (256,), n, slots, "query", "keys", "values", "found")


def attention(q):
    n, heads = 512, 4
    q.enqueue("attention", (n, heads), (64, 1), n, "q", "k", "v", "o")


def dct8x8(q):
    n = 2048
    q.enqueue("forward", (n, n), (8, 8), n, "image", "levels")
    q.enqueue("inverse", (n, n), (8, 8), n, "levels", "restored")


def photons(q):
    q.fill("counts", b"\0", 12)
    q.enqueue("walk", (1 << 16,), (256,), "seed", "counts")


def spmv(q):
    n = 1 << 18
    q.enqueue("multiply", (n,), (128,), n, "start", "cols", "vals", "x", "y")


def bitonic(q):
    q.enqueue("sort_batches", (512 * 512,), (512,), "key", "value", "sorted", "carried")


def histogram64(q):
    blocks = 2048
    q.enqueue("count", (blocks * 64,), (64,), "data", "partial")
    q.enqueue("add_up", (64 * 256,), (256,), blocks, "partial", "bins")


#: Elements of an image of 1024 x 1024.
M = 1 << 20
VOLUME = 4 * 168 ** 3
#: The programs, in the order of PROGRAMS in heldout.c.
CASES = dict(
    hotspot=Case(["power", "start"], dict(heat=4 * M, heat_next=4 * M), dict(heat=0), hotspot),
    lud=Case(["a"], dict(m=4 * M), dict(m=1e-6), lud),
    pathfinder=Case(["wall"], dict(cost=400_000, cost_next=400_000), dict(cost=0), pathfinder),
    nw=Case(["similar", "score"], {}, dict(score=0), nw),
    bfs=Case(["start", "edges"], dict(distance=4 * M, frontier=M, visited=M, reached=M, more=4), dict(distance=0), bfs),
    srad=Case(["start"], dict(image=4 * M, dn=4 * M, ds=4 * M, dw=4 * M, de=4 * M, c=4 * M), dict(image=0), srad),
    convolution=Case(["x"], dict(between=16 * M, y=16 * M), dict(y=0), convolution),
    fdtd3d=Case(["start"], dict(volume=VOLUME, other=VOLUME), dict(volume=0), fdtd3d),
    options=Case(["price", "strike", "years"], dict(call=8 * M, put=8 * M), dict(call=1e-4, put=1e-4), options),
    sha256=Case(["message"], dict(digest=4 * M), dict(digest=0), sha256),
    hash_table=Case(["key", "value", "query"], dict(keys=8 * M, values=8 * M, found=4 * M), dict(found=0), hash_table),
    attention=Case(["q", "k", "v"], dict(o=M // 2), dict(o=1e-5), attention),
    dct8x8=Case(["image"], dict(levels=8 * M, restored=16 * M), dict(levels=0, restored=0), dct8x8),
    photons=Case(["seed"], dict(counts=12), dict(counts=1e-3), photons, integers=True),
    spmv=Case(["start", "cols", "vals", "x"], dict(y=M), dict(y=0), spmv),
    bitonic=Case(["key", "value"], dict(sorted=2 * M, carried=2 * M), dict(sorted=0, carried=0), bitonic),
    histogram64=Case(["data"], dict(bins=256, partial=512 * 1024), dict(bins=0), histogram64),
)
