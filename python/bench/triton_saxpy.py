"""A saxpy in Triton. It is in a file of its own, since Triton reads the source of kernels from files."""

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, r, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(r + index, a * tl.load(x + index, mask=mask) + tl.load(y + index, mask=mask), mask=mask)
