"""Makes random matrices for std.linalg (`make`), and compares its results with LAPACK through NumPy (`check`).
`report` also prints the largest errors. The further arguments are sizes.

The matrices of a case are a batch: random ones, and ones with a condition number near the square root of the precision."""

import sys
import numpy as np

BATCH = 2


def conditioned(rng, rows, columns, condition):
    """Returns a matrix whose singular values fall from 1 to 1 / condition."""
    k = min(rows, columns)
    left, _ = np.linalg.qr(rng.standard_normal((rows, k)))
    right, _ = np.linalg.qr(rng.standard_normal((columns, k)))
    values = condition ** -np.linspace(0, 1, k) if k > 1 else np.ones(1)
    return (left * values) @ right.T


def make(sizes):
    rng = np.random.default_rng(20)
    for kind in ("f32", "f64"):
        dtype = {"f32": np.float32, "f64": np.float64}[kind]
        condition = {"f32": 1e3, "f64": 1e7}[kind]
        for n in sizes:
            for case in ("plain", "ill"):
                square = lambda r, c: rng.standard_normal((r, c)) if case == "plain" else conditioned(rng, r, c, condition)
                batch = lambda r, c: np.stack([square(r, c) for _ in range(BATCH)])
                a = batch(n, n)
                root = batch(n, n)
                positive = root @ root.transpose(0, 2, 1) + (n if case == "plain" else 1e-2 / condition) * np.eye(n)
                symmetric = a + a.transpose(0, 2, 1)
                tall = batch(n + 5, n)
                name = f"{kind}-{case}-{n}"
                arrays = {"a": a, "y": rng.standard_normal((BATCH, n, 3)), "p": positive, "s": symmetric, "t": tall}
                for key, value in arrays.items():
                    np.save(f"{name}-{key}.npy", value.astype(dtype))


def check(sizes, report):
    worst = {}
    norm = lambda x: np.linalg.norm(x, axis=(-2, -1))
    flip = lambda x: np.swapaxes(x, -2, -1)
    for kind in ("f32", "f64"):
        unit = {"f32": 2.0**-24, "f64": 2.0**-53}[kind]
        for n in sizes:
            for case in ("plain", "ill"):
                name = f"{kind}-{case}-{n}"
                load = lambda key: np.load(f"{name}-{key}.npy").astype(np.float64)
                a, y, p, s, t = (load(key) for key in "aypst")
                got = {key: load(key) for key in RESULTS}

                def bound(what, error, limit):
                    """`error` in units of `limit`, which is a rounding of a result of this size."""
                    ratio = float(np.max(error / (n * unit * limit)))
                    key = (what, kind)
                    worst[key] = max(worst.get(key, (0.0, "")), (ratio, name))
                    assert ratio <= BOUND, f"{what} of {name}: {ratio}"

                cond = lambda x: np.linalg.cond(x)
                x = got["solve"]
                bound("solve: residual", norm(a @ x - y), norm(a) * norm(x) + norm(y))
                bound("solve: LAPACK", norm(x - np.linalg.solve(a, y)), cond(a) * norm(x))
                bound("inv: LAPACK", norm(got["inv"] - np.linalg.inv(a)), cond(a) * norm(got["inv"]))
                sign, logarithm = np.linalg.slogdet(a)
                assert np.array_equal(sign, got["sign"]), name
                det = np.linalg.det(a)
                most = {"f32": 1e38, "f64": 1e308}[kind]
                assert np.array_equal(np.abs(det) > most, np.isinf(got["det"])), name
                det, own = np.where(np.abs(det) > most, 0, det), np.where(np.isinf(got["det"]), 0, got["det"])
                bound("det: LAPACK", np.abs(own - det), cond(a) * np.abs(own) + 1e-36)
                bound("slogdet: LAPACK", np.abs(got["logarithm"] - logarithm), cond(a) + np.abs(logarithm))
                l, u, rows = got["l"], got["u"], got["rows"].astype(int)
                moved = np.take_along_axis(a, rows[..., None], 1)
                bound("lu: residual", norm(l @ u - moved), norm(np.abs(l) @ np.abs(u)))
                assert np.max(np.abs(l)) <= 1.0 and np.array_equal(l, np.tril(l)) and np.array_equal(u, np.triu(u))
                c = got["cholesky"]
                assert np.array_equal(c, np.tril(c))
                bound("cholesky: residual", norm(c @ flip(c) - p), norm(p))
                bound("cholesky: LAPACK", norm(c - np.linalg.cholesky(p)), cond(p) * norm(c))
                low = got["lower"]
                bound("solve_lower: residual", norm(c @ low - y), norm(c) * norm(low) + norm(y))
                up = got["upper"]
                bound("solve_upper: residual", norm(flip(c) @ up - y), norm(c) * norm(up) + norm(y))
                for of, x in (("square", a), ("tall", t), ("wide", flip(t))):
                    k = min(x.shape[1:])
                    q, r = got[f"q-{of}"], got[f"r-{of}"]
                    bound("qr: residual", norm(q @ r - x), norm(x))
                    bound("qr: orthogonality", norm(flip(q) @ q - np.eye(k)), np.ones(BATCH))
                    qq, rr = np.linalg.qr(x)
                    bound("qr: LAPACK", norm(r - rr), cond(x[..., :, :k]) * norm(x))
                    left, values, right = got[f"left-{of}"], got[f"values-{of}"], got[f"right-{of}"]
                    bound("svd: values, LAPACK", norm((values - np.linalg.svd(x)[1])[:, None]), norm(x))
                    bound("svd: residual", norm((left * values[:, None]) @ right - x), norm(x))
                    bound("svd: orthogonality", norm(flip(left) @ left - np.eye(k)), np.ones(BATCH))
                    bound("svd: orthogonality", norm(right @ flip(right) - np.eye(k)), np.ones(BATCH))
                    assert np.all(np.diff(values) <= 0)
                w, v = got["w"], got["v"]
                bound("eigh: values, LAPACK", norm((w - np.linalg.eigh(s)[0])[:, None]), norm(s))
                bound("eigh: residual", norm(s @ v - v * w[:, None]), norm(s))
                bound("eigh: orthogonality", norm(flip(v) @ v - np.eye(n)), np.ones(BATCH))
                assert np.all(np.diff(w) >= 0)
    if report:
        for (what, kind), (ratio, name) in sorted(worst.items()):
            print(f"{what:24} {kind} {ratio:8.2f} {name}")


RESULTS = ["solve", "inv", "det", "sign", "logarithm", "rows", "l", "u", "cholesky", "lower", "upper", "w", "v"]
RESULTS += [f"{key}-{of}" for key in ("q", "r", "left", "values", "right") for of in ("square", "tall", "wide")]
# Errors are at most this many times n roundings of the type, relative to what the comparison divides by.
BOUND = 8.0

sizes = [int(n) for n in sys.argv[2:]]
make(sizes) if sys.argv[1] == "make" else check(sizes, sys.argv[1] == "report")
