"""A damped oscillation, fitted to measurements."""
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit


def model(t, amplitude, decay, frequency, offset):
    return amplitude * np.exp(-decay * t) * np.cos(frequency * t) + offset


def fit(start, t, measured):
    return curve_fit(model, t, measured, start)[0]


if __name__ == "__main__":
    truth = [2, 0.3, 4, 0.5]
    t = np.linspace(0, 10, 200)
    measured = model(t, *truth) + 0.1 * np.random.default_rng(3).standard_normal(200)
    p = fit([1, 0.1, 3.8, 0], t, measured)
    plt.plot(t, measured, ".", label="measured")
    plt.plot(t, model(t, *p), label="fitted")
    plt.legend()
    plt.savefig("oscillation.png")
    print("amplitude {:.3f}, decay {:.3f}, frequency {:.3f}, offset {:.3f}".format(*p))
    assert np.allclose(p, truth, rtol=0.05)
