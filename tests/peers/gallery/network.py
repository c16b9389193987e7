"""The most central nodes of a network, from a Matrix Market file."""
import numpy as np
from scipy.io import mmread


def centrality(a, steps):
    x = np.full(a.shape[0], 1 / a.shape[0])
    for _ in range(steps):
        y = a @ x
        x = y / y.sum()
    return x


if __name__ == "__main__":
    a = mmread("examples/data/network.mtx").tocsr()
    x = centrality(a, 500)
    top = np.argsort(-x)[:5]
    print("most central:", top)
    print("centrality:", x[top])
    assert np.allclose(a @ x, (a @ x).sum() * x, rtol=1e-6)
