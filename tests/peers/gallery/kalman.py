"""A Kalman filter for the position and the velocity of a car."""
import numpy as np

MOVE = np.array([[1, 0.1], [0, 1]])
DRIFT = np.array([[2.5e-7, 5e-6], [5e-6, 1e-4]])
NOISE = 0.25


def update(x, p, measured):
    guess = MOVE @ x
    spread = MOVE @ p @ MOVE.T + DRIFT
    gain = spread[:, 0] / (spread[0, 0] + NOISE)
    return guess + gain * (measured - guess[0]), spread - gain[:, None] * spread[0]


def estimate(measured):
    x, p = np.zeros(2), 100 * np.eye(2)
    estimates = np.zeros((len(measured), 2))
    for i, each in enumerate(measured):
        x, p = update(x, p, each)
        estimates[i] = x
    return estimates


if __name__ == "__main__":
    path = 0.2 * np.arange(400) + 5
    measured = path + 0.5 * np.random.default_rng(4).standard_normal(400)
    estimates = estimate(measured)
    raw, filtered = np.std((measured - path)[100:]), np.std((estimates[:, 0] - path)[100:])
    print(f"error {raw:.3f} measured, {filtered:.3f} filtered, velocity {estimates[-1, 1]:.2f}")
    assert filtered < 0.5 * raw and np.isclose(estimates[-1, 1], 2, rtol=0.1)
