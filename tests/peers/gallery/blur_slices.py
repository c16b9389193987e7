"""A Gaussian blur."""
import numpy as np
from scipy import ndimage

WEIGHTS = np.array([1, 4, 6, 4, 1]) / 16


def blur(x):
    return ndimage.correlate1d(ndimage.correlate1d(x, WEIGHTS, axis=1), WEIGHTS, axis=0)[2:-2, 2:-2]


if __name__ == "__main__":
    point = np.zeros((9, 9), np.float32)
    point[4, 4] = 256
    assert np.array_equal(blur(point), 256 * np.outer(WEIGHTS, WEIGHTS))
    noise = np.random.default_rng(1).random((256, 256), np.float32)
    smooth = blur(noise)
    print(f"from {np.ptp(noise):.2f} to {np.ptp(smooth):.2f}")
    assert np.ptp(smooth) < 0.8 * np.ptp(noise)
