"""The Black–Scholes price of options."""
import numpy as np
from scipy.special import ndtr


def prices(spot, strike, years, rate, volatility):
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * years)
    call = spot * ndtr(d1) - discounted * ndtr(d2)
    put = discounted * ndtr(-d2) - spot * ndtr(-d1)
    return call, put


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    spot, strike, years = rng.uniform(5, 30, 10_000), rng.uniform(1, 100, 10_000), rng.uniform(0.25, 10, 10_000)
    call, put = prices(spot, strike, years, 0.02, 0.3)
    assert np.allclose(call - put, spot - strike * np.exp(-0.02 * years))
    print(f"mean call {call.mean():.3f}, mean put {put.mean():.3f}")
