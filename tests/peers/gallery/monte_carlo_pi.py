"""Pi from random points."""
import numpy as np


def pi(points):
    rng = np.random.default_rng(2026)
    x, y = rng.random((2, points), np.float32)
    return 4 * np.count_nonzero(x * x + y * y < 1) / points


if __name__ == "__main__":
    points = 64 * 256 * 16
    print(f"pi is about {pi(points):.4f} after {points} points")
    assert abs(pi(points) - np.pi) < 0.01
