"""A saxpy in Triton, which reads the source of its kernels from a file."""

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, r, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(r + at, a * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
