"""Tones in noise."""
import numpy as np

SAMPLES, RATE = 4096, 8000


def amplitudes(sound):
    return 2 / len(sound) * np.abs(np.fft.rfft(sound))


def denoise(sound, threshold):
    return np.fft.irfft(np.fft.rfft(sound) * (amplitudes(sound) > threshold), len(sound))


if __name__ == "__main__":
    t = np.arange(SAMPLES) / RATE
    clean = [1, 0.5, 0.25] @ np.sin(2 * np.pi * np.array([437.5, 1250, 2906.25])[:, None] * t)
    noisy = clean + 0.8 * np.random.default_rng(1).standard_normal(SAMPLES)
    amplitude = amplitudes(noisy)
    for at in np.flatnonzero(amplitude > 0.15):
        print(f"{at * RATE / SAMPLES:9.2f} Hz: {amplitude[at]:.2f}")
    before, after = np.std(noisy - clean), np.std(denoise(noisy, 0.15) - clean)
    print(f"noise: {before:.3f} before, {after:.3f} after")
    assert after < 0.1 * before
