"""The Mandelbrot set."""
import matplotlib.pyplot as plt
import numpy as np


def mandelbrot(x0, y0, step, limit, height, width):
    c = (x0 + step * np.arange(width, dtype=np.float32)) + 1j * (y0 + step * np.arange(height, dtype=np.float32))[:, None]
    count = np.full(c.shape, limit)
    at = np.arange(c.size)
    c = c.ravel()
    z = np.zeros_like(c)
    for n in range(limit):
        inside = z.real**2 + z.imag**2 <= 4
        count.flat[at[~inside]] = n
        at, c, z = at[inside], c[inside], z[inside]
        z = z * z + c
    return count


if __name__ == "__main__":
    count = mandelbrot(-2.2, -1.25, 2.5 / 512, 256, 512, 640)
    plt.imsave("mandelbrot.png", count % 256)
    assert count[256, 450] == 256 and count[0, 0] < 10
    print(f"wrote mandelbrot.png; {(count == 256).sum()} of {count.size} pixels are in the set")
