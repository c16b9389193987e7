"""The Poisson equation on a square."""
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg


def laplace(x):
    y = np.zeros_like(x)
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    y[1:-1, 1:-1] = 4 * x[1:-1, 1:-1] - around
    return y


def solve(b):
    operator = LinearOperator((b.size, b.size), lambda x: laplace(x.reshape(b.shape)).ravel(), dtype=b.dtype)
    return cg(operator, b.ravel(), rtol=0, atol=1e-10)[0].reshape(b.shape)


if __name__ == "__main__":
    n = 32
    known = np.zeros((n, n))
    at = np.arange(n - 2) / n
    known[1:-1, 1:-1] = np.sin(3 * at[:, None]) * np.cos(2 * at) + 1
    x = solve(laplace(known))
    print(f"error {np.abs(x - known).max():.1e}")
    assert np.allclose(x, known, rtol=1e-9)
