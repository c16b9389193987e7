"""Heat in a plate, as an animation."""
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import ArtistAnimation


def simulate(start, frames, between):
    history = [start]
    for _ in range(frames - 1):
        u = history[-1].copy()
        for _ in range(between):
            u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        history.append(u)
    return np.stack(history)


if __name__ == "__main__":
    plate = np.zeros((33, 33), np.float32)
    plate[0] = 1
    history = simulate(plate, 11, 100)
    figure = plt.figure()
    frames = [[plt.imshow(u, animated=True)] for u in history]
    ArtistAnimation(figure, frames, interval=100).save("heat.apng", writer="pillow")
    print(f"the middle has {history[10, 16, 16]:.4f}, a quarter of the hot edge")
    assert abs(history[10, 16, 16] - 0.25) < 0.01
