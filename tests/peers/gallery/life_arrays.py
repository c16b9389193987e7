"""Conway's game of life."""
import numpy as np


def generation(c):
    rows = c[:-2] + c[1:-1] + c[2:]
    around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    following = np.zeros_like(c)
    following[1:-1, 1:-1] = (around == 3) | (around == 4) & (c[1:-1, 1:-1] == 1)
    return following


if __name__ == "__main__":
    cells = np.zeros((16, 16), np.uint8)
    cells[1, 2] = cells[2, 3] = 1
    cells[3, 1:4] = 1
    before = cells
    for _ in range(4):
        cells = generation(cells)
    assert np.array_equal(cells[1:, 1:], before[:-1, :-1]) and cells.sum() == 5
    print(cells[:8, :8])
