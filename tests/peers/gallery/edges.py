"""Edges of a picture by Sobel's filters."""
import matplotlib.pyplot as plt
import numpy as np
from scipy import ndimage


def edges(x):
    return np.hypot(ndimage.sobel(x, axis=1, mode="nearest"), ndimage.sobel(x, axis=0, mode="nearest"))


if __name__ == "__main__":
    photo = plt.imread("examples/data/shapes.png")[..., :3]
    strength = edges(photo @ np.array([0.299, 0.587, 0.114], np.float32))
    plt.imsave("edges.png", np.minimum(strength, 1), cmap="gray")
    print(f"edges in {np.mean(strength > 0.5) * 100:.1f}% of the pixels")
