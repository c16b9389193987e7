"""Principal components."""
import numpy as np


def components(x, count):
    _, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
    return vectors[:, : -count - 1 : -1].T


if __name__ == "__main__":
    s, c = np.sin(0.5), np.cos(0.5)
    turn = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    points = (np.random.default_rng(1).standard_normal((2000, 3)) * [3, 1, 0.1]) @ turn + [10, -5, 2]
    basis = components(points, 2)
    print(basis)
    assert np.isclose(abs(basis[0] @ turn[0]), 1, rtol=1e-3) and np.isclose(abs(basis[1] @ turn[1]), 1, rtol=1e-2)
    centered = points - points.mean(axis=0)
    assert np.abs(centered @ basis.T @ basis - centered).max() < 0.6
