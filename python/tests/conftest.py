"""Shared fixtures, and a report of missing optional libraries."""

import importlib.util
import signal

import clk
import pytest

#: Optional libraries. Tests that need a missing one are skipped; the header of the report lists them.
LIBRARIES = ["numpy", "ml_dtypes", "torch", "jax", "IPython", "ipykernel", "jupyter_kernel_test", "nbclient", "mypy", "pyright", "pandas", "mcp"]

SAXPY = """
/// r = alpha * x + y
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}
"""


def pytest_configure(config):
    # A background process may inherit that SIGINT is ignored. Tests of Ctrl-C would then wait forever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config):
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return f"clk {clk.__version__}; not installed, so not tested: {', '.join(missing) or 'nothing'}"


@pytest.fixture(scope="session")
def saxpy():
    return clk.source(SAXPY, name="saxpy.clk")
