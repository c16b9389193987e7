"""Bodies under gravity."""
import numpy as np

SOFTENING = 0.01


def accelerations(p, mass):
    dx = p[:, 0] - p[:, 0, None]
    dy = p[:, 1] - p[:, 1, None]
    square = dx * dx + dy * dy + SOFTENING
    pull = mass / (square * np.sqrt(square))
    return np.stack([(dx * pull).sum(axis=1), (dy * pull).sum(axis=1)], axis=1)


def simulate(p, v, mass, step, steps):
    a = accelerations(p, mass)
    for _ in range(steps):
        v = v + 0.5 * step * a
        p = p + step * v
        a = accelerations(p, mass)
        v = v + 0.5 * step * a
    return p, v


def energy(p, v, mass):
    dx = p[:, 0] - p[:, 0, None]
    dy = p[:, 1] - p[:, 1, None]
    potential = mass * mass[:, None] / np.sqrt(dx * dx + dy * dy + SOFTENING)
    return 0.5 * (mass @ (v * v).sum(axis=1)) - 0.5 * (potential.sum() - (mass * mass).sum() / np.sqrt(SOFTENING))


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    mass, p0, v0 = rng.random(100) / 100, rng.standard_normal((100, 2)), 0.3 * rng.standard_normal((100, 2))
    p, v = simulate(p0, v0, mass, 0.01, 100)
    before, after = energy(p0, v0, mass), energy(p, v, mass)
    print(f"energy {before:.5f} before, {after:.5f} after 100 steps")
    assert np.isclose(before, after, rtol=1e-3) and np.allclose(mass @ v, mass @ v0)
