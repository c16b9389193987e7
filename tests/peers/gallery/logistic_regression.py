"""Gradient descent on a model with two weights and a bias."""
import numpy as np
from scipy.special import expit


def train(x, y, steps, rate):
    w, b = np.zeros(x.shape[1], x.dtype), x.dtype.type(0)
    for _ in range(steps):
        error = expit(x @ w + b) - y
        w = w - rate * (x.T @ error) / len(x)
        b = b - rate * error.mean()
    return w, b


if __name__ == "__main__":
    data = np.load("examples/data/two_classes.npz")
    x, y = data["x"], data["y"]
    w, b = train(x, y, 200, 1)
    right = np.mean((expit(x @ w + b) > 0.5) == y)
    print(f"weights {w}, bias {b:.3f}, accuracy {right * 100:.1f}%")
    assert right > 0.9
