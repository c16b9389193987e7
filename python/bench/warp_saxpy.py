"""A saxpy in Warp. It is in a file of its own, since Warp reads the source of kernels from files."""

import warp as wp


@wp.kernel
def saxpy(a: wp.float32, x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), r: wp.array(dtype=wp.float32)):
    i = wp.tid()
    r[i] = a * x[i] + y[i]
