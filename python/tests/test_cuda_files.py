"""CUDA files as programs: the kernels are functions."""

import numpy as np
import pytest

import clk

SOURCE = """
__global__ void scale(const float *__restrict__ x, float *__restrict__ y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
"""


def test_kernels_of_a_cuda_file_are_functions(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    program = clk.load(str(path))
    x = np.arange(100, dtype=np.float32)
    y = np.zeros(100, dtype=np.float32)
    program.scale(x, y, 2.0, 100, grid_x=4, block_x=32)
    assert (y == 2 * x).all()


def test_assumed_lengths_are_checked(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    program = clk.load(str(path))
    x = np.zeros(100, dtype=np.float32)
    with pytest.raises(clk.Error, match="X_LEN >= n"):
        program.scale(x, x.copy(), 2.0, 101, grid_x=4, block_x=32)
