"""The number of occurrences of each byte."""
import numpy as np


def histogram(data):
    return np.bincount(data, minlength=256)


if __name__ == "__main__":
    data = np.random.default_rng(9).integers(0, 255, 50_000, dtype=np.uint8)
    bins = histogram(data)
    assert bins.sum() == 50_000 and bins[255] == 0
    print(f"the fullest bin is {bins.argmax()} with {bins.max()} hits")
