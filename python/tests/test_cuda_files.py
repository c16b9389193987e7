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


def test_faults_are_at_lines_of_the_cuda_file(tmp_path):
    path = tmp_path / "reverse.cu"
    path.write_text(
        """__global__ void reverse(float *x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    )
    program = clk.load(str(path))
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(clk.Error) as caught:
        program.reverse(x, grid_x=1, block_x=64, check=True)
    assert caught.value.code == "E0610"
    assert "reverse.cu:4:" in str(caught.value)


def test_other_kernels_remain_if_one_is_refused(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE + '__global__ void trap(int *x) { asm("trap;"); }\n')
    with pytest.warns(clk.Warning, match="W0850"):
        program = clk.load(str(path))
    y = np.zeros(4, dtype=np.float32)
    program.scale(np.ones(4, dtype=np.float32), y, 3.0, 4, grid_x=1, block_x=32)
    assert (y == 3).all()
    assert not hasattr(program, "trap")


def test_structs_and_variables_of_the_file_are_arguments(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(
        """struct View { float *p; int n; };
__device__ int calls = 0;
__global__ void fill(View v, float by) {
    if (threadIdx.x == 0) calls += 1;
    if (threadIdx.x < v.n) v.p[threadIdx.x] = by;
}
"""
    )
    program = clk.load(str(path))
    x = np.zeros(8, dtype=np.float32)
    calls = np.array([4], dtype=np.int32)
    view = np.zeros(1, dtype=[("n", np.int32)])
    view["n"] = 5
    program.fill(v_p=x, v=view[0], by=2.0, calls=calls, grid_x=1, block_x=32)
    assert x.tolist() == [2.0] * 5 + [0.0] * 3
    assert calls[0] == 5
