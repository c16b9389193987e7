"""Handwritten digits by their nearest neighbors."""
import numpy as np
from scipy.spatial.distance import cdist


def classify(asked, known, kind, kinds, k=5):
    nearest = np.argpartition(cdist(asked, known, "sqeuclidean"), k, axis=1)[:, :k]
    votes = kind[nearest][:, :, None] == np.arange(kinds)
    return votes.sum(axis=1).argmax(axis=1)


if __name__ == "__main__":
    data = np.load("examples/data/digits.npz")
    pixels, digit = data["x"].astype(np.float32), data["y"]
    guess = classify(pixels[1500:], pixels[:1500], digit[:1500], 10)
    right = np.mean(guess == digit[1500:])
    print(f"{right * 100:.1f}% of {len(guess)} digits are classified correctly")
    assert right > 0.95
