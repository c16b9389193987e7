"""Programs that several tests use, and which libraries there are."""

import importlib.util

import clk
import pytest

#: Libraries whose arrays are tried if they are installed; each that is not is reported as skipped.
LIBRARIES = ["numpy", "ml_dtypes", "torch", "jax", "IPython", "ipykernel", "jupyter_kernel_test", "nbclient", "mypy", "pyright", "pandas"]

SAXPY = """
/// r = alpha * x + y
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}
"""


def pytest_report_header(config):
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return f"clk {clk.__version__}; not installed, so not tried: {', '.join(missing) or 'nothing'}"


@pytest.fixture(scope="session")
def saxpy():
    return clk.source(SAXPY, name="saxpy.clk")
