"""Makes random arrays of all element types for array_functions.clk (`make`), and compares its results with NumPy (`check`).

Functions that move or compare elements have to agree exactly. Sums and products of floats may differ by roundings, because NumPy adds in
the type of the elements, and Clk in `f64`."""

import sys
import warnings
import numpy as np

TYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"]
FLOATS = ["f16", "f32", "f64"]
dtype = lambda name: np.dtype(name[0] + str(int(name[1:]) // 8))


def make():
    rng = np.random.default_rng(50)
    for name in TYPES:
        # Few different values, so that some are equal; sums of products fit into every type.
        draw = lambda *shape: rng.integers(0 if name[0] == "u" else -2, 3, shape).astype(dtype(name))
        if name in FLOATS:
            draw = lambda *shape: np.round(rng.standard_normal(shape) * 4, 1).astype(dtype(name))
        steps = rng.choice([1, 1, 1, 2] if name[0] == "u" else [-1, 1, 1, 2], 12)
        steps[9] = 0
        arrays = {"a": draw(5, 7), "b": draw(7, 4), "c": draw(5, 3, 7), "s": steps.astype(dtype(name)), "square": draw(4, 4)}
        if name in FLOATS:
            arrays["a"][1, 2] = -0.0
            holes = draw(35)
            holes[rng.integers(0, 35, 6)] = np.nan
            holes[[0, 34]] = np.nan
            arrays["h"] = holes
            arrays["long"] = (1 + rng.standard_normal(9000) * {"f16": 2e-3, "f32": 1e-3, "f64": 1e-3}[name]).astype(dtype(name))
        for key, value in arrays.items():
            np.save(f"{key}-{name}.npy", value)


def of_numbers(a, b, c, s, square):
    flip_order = lambda x, axis: np.argsort(-x.astype(np.float64), axis=axis, kind="stable")
    x, edges = a.reshape(-1), np.sort(b[:, 0])
    rows, columns = np.array([4, 0, 4, 2]), np.array([1, 2, 0, 1])
    mask = np.array([True, False, True, True, False])
    for axis in (0, 1):
        yield f"sort{axis}", np.sort(a, axis=axis)
        yield f"sort{axis}down", np.flip(np.sort(a, axis=axis), axis)
        yield f"argsort{axis}", np.argsort(a, axis=axis, kind="stable")
        yield f"argsort{axis}down", flip_order(a, axis)
    yield "sortmiddle", np.sort(c, axis=1)
    yield "sortx", np.sort(x)[::-1]
    yield "pairs", flip_order(x, 0)
    yield "transpose", c.transpose(2, 0, 1)
    yield "exchanged", np.swapaxes(c, 1, 2)
    yield "stack1", np.stack([a, a, np.sort(a, axis=0)], axis=1)
    yield "stack2", np.stack([a, np.sort(a, axis=0)], axis=2)
    yield "apart", c[rows, :, columns]
    # NumPy puts the axes of the positions first; in Clk they replace the first axis that they index, here the first one as well.
    yield "grid", c[rows.reshape(2, 2), 1:, columns.reshape(2, 2)]
    yield "single", c[rows, 1, columns]
    yield "mask", c[mask, :, [6, 0, 6]]
    d = c.copy()
    d[mask, 1, 3] = 9
    d[[1, 4], :, [0, 5]] = c[[0, 0], :, [1, 1]]
    d[mask, 0, [0, 1, 2]] = 7
    yield "assigned", d
    for key, subscripts, operands in [
        ("matrix", "ij,jk->ik", (a, b)), ("turned", "ij->ji", (a,)), ("diagonal", "ii->i", (square,)),
        ("alone", "ij,ij->i", (a, a)), ("both", "ijk,kl->lij", (c, b)), ("batch", "ijk,ik->ij", (c, a)),
        ("grouped", "ijk,jlk->il", (c, c[:3])), ("implicit", "ba,ac", (a, b)), ("lone", "ij,kl->ki", (a, b)),
        ("spread", "ij,k->kji", (a, b[0])),
    ]:
        yield key, np.einsum(subscripts, *operands, dtype=wide(a))
    numbers = [("ii", square), ("ij,ij->", a, a), ("i,j->", a[0], b[1])]
    yield "numbers", np.array([np.einsum(*one, dtype=wide(a)) for one in numbers])
    yield "diff", np.diff(s)
    yield "diffmiddle", np.diff(s.reshape(2, 3, 2), axis=1)
    yield "outer", np.outer(s, s[:5])
    yield "roll", np.stack([np.roll(x, 3), np.roll(x, -40)])
    yield "rollmiddle", np.roll(c, 2, axis=1)
    yield "tile", np.tile(s, 3)
    yield "repeat", np.repeat(s, 3)
    yield "repeatmiddle", np.repeat(c, 2, axis=1)
    yield "each", np.repeat(s[:4], [2, 0, 1, 3])
    yield "pad", np.pad(s, (2, 3), constant_values=7)
    yield "padmatrix", np.pad(a, ((1, 2), (0, 3)), constant_values=7)
    yield "edge", np.pad(s, (2, 3), mode="edge")
    yield "wrap", np.pad(s, (15, 30), mode="wrap")
    yield "reflect", np.pad(s, (15, 30), mode="reflect")
    yield "reflectmiddle", np.pad(c, ((0, 0), (1, 2), (0, 0)), mode="reflect")
    yield "meshgrid", np.meshgrid(s, x)[0]
    yield "meshgrid1", np.meshgrid(x, s)[1]
    yield "nonzero", np.array([np.count_nonzero(s)])
    yield "search", np.searchsorted(np.sort(x), b.reshape(-1))
    yield "searchright", np.searchsorted(np.sort(x), b.reshape(-1), side="right")
    yield "digitize", np.stack([np.digitize(x, edges), np.digitize(x, edges, right=True)])
    falling = edges[::-1]
    yield "digitizedown", np.stack([np.digitize(x, falling), np.digitize(x, falling, right=True)])
    yield "cumprod", np.cumprod(s, dtype=s.dtype)
    yield "cumprodmiddle", np.cumprod(s.reshape(2, 3, 2), axis=1, dtype=s.dtype)
    yield "cummax", np.maximum.accumulate(x)
    yield "cummin", np.minimum.accumulate(x)
    yield "cummaxmiddle", np.maximum.accumulate(c, axis=1)


def wide(x):
    """The type in which NumPy adds, to compare with sums that Clk adds in `f64`."""
    return np.float64 if x.dtype.kind == "f" else {"i": np.int64, "u": np.uint64}[x.dtype.kind]


def of_floats(x, h, long):
    x64, h64 = x.astype(np.float64), h.astype(np.float64)
    yield "quantiles", np.quantile(x64, [0.0, 0.1, 0.5, 0.77, 1.0])
    yield "quantile", np.array([np.quantile(x64, 0.3)])
    yield "percentile", np.array([np.percentile(x64, 97.0)])
    yield "median", np.array([np.median(x64[:34])])
    yield "medianmiddle", np.median(x64[:30].reshape(2, 5, 3), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "hole", np.array([np.median(h64)])
    functions = [np.nansum, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin, np.nanmedian]
    yield "nan", np.array([f(h64) for f in functions] + [np.nanquantile(h64, 0.3)])
    yield "nanprod", np.array([np.nanprod(h64[:6])])
    yield "nancumsum", np.nancumsum(h64)
    yield "nanat", np.array([np.nanargmax(h), np.nanargmin(h)])
    rows = h64.reshape(7, 5)
    yield "nanrows", np.stack([np.nanmean(rows, axis=0), np.nanmax(rows, axis=0), np.nanmin(rows, axis=0)])
    at = np.where(np.isnan(h), 0, h) + x
    yield "interp", interp(at.astype(np.float64), np.sort(x64), x64)
    yield "weights", np.bincount(np.arange(35) * 5 % 9, x64, 12)
    yield "longprod", np.cumprod(long.astype(np.float64))
    yield "longmax", np.maximum.accumulate(long)


def interp(x, xs, ys):
    """`np.interp` with the value after a jump: NumPy leaves open which of several points counts."""
    last = np.append(xs[1:] > xs[:-1], True)
    return np.where(np.isin(x, xs), ys[last][np.clip(np.searchsorted(xs[last], x), 0, last.sum() - 1)], reference(x, xs, ys))


def reference(x, xs, ys):
    left = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    with np.errstate(all="ignore"):
        inside = ys[left] + (ys[left + 1] - ys[left]) / (xs[left + 1] - xs[left]) * (x - xs[left])
    return np.where(x < xs[0], ys[0], np.where(x >= xs[-1], ys[-1], inside))


def check():
    count = 0
    for name in TYPES:
        load = lambda key: np.load(f"{key}-{name}.npy")
        wanted = list(of_numbers(*(load(key) for key in ["a", "b", "c", "s", "square"])))
        if name in FLOATS:
            wanted += of_floats(load("a").reshape(-1), load("h"), load("long"))
        if name in ("i8", "i32", "u64"):
            wanted.append(("bincount", np.bincount((load("a").reshape(-1) & 63).astype(np.int64))))
        for key, want in wanted:
            got, place = load(key), f"{key} of {name}"
            assert got.shape == want.shape, f"{place}: {got.shape}, not {want.shape}"
            if got.dtype.kind == "f" and key in ROUNDED:
                # 9000 products of `f64` have as many roundings, which are random.
                unit = float(np.finfo(got.dtype).eps) * (200 if (key, name) == ("longprod", "f64") else 8)
                scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
                close = np.isclose(got.astype(np.float64), want, rtol=unit, atol=unit * scale, equal_nan=True)
                assert np.all(close), f"{place}: {got[~close]}, not {want[~close]}"
            elif got.dtype.kind == "f":
                assert np.array_equal(got, want, equal_nan=True), f"{place}: {got}, not {want}"
            else:
                assert np.array_equal(got.astype(np.int64), want.astype(np.int64)), f"{place}: {got}, not {want}"
            count += 1
    print(f"{count} results compared")


# Results that NumPy computes in a wider type, or in another order.
ROUNDED = "matrix spread alone both batch grouped implicit lone numbers cumprod cumprodmiddle quantiles quantile percentile median".split()
ROUNDED += "medianmiddle hole nan nanprod nancumsum nanrows interp weights longprod".split()

make() if sys.argv[1] == "make" else check()
