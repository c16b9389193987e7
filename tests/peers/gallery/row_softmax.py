"""The softmax of each row of a matrix."""
import numpy as np
from scipy.special import softmax

if __name__ == "__main__":
    scores = 100 * np.random.default_rng(41).standard_normal((6, 1000), np.float32)
    p = softmax(scores, axis=1)
    assert np.allclose(p.sum(axis=1), 1) and np.all(p.argmax(axis=1) == scores.argmax(axis=1))
    print(f"the surest row gives {p.max():.4f} to one column")
