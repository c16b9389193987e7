#!/usr/bin/env python3
"""Times arrays that are larger than a GPU's memory, part by part, and compares them with the GPU's copy engine on page-locked memory.

    stream.py PARTS        PARTS of 256 MiB in each of two arrays; needs a GPU, torch, and the `clk` of CLK (or of the path)
"""

import os
import subprocess
import sys
import time
from pathlib import Path


def engine():
    """Returns GiB/s to the GPU, back, and both ways at once, as medians, from page-locked memory."""
    import torch

    size = 1 << 30
    here, there = (torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    a, b = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    one, two = torch.cuda.Stream(), torch.cuda.Stream()

    def up():
        with torch.cuda.stream(one):
            a.copy_(here, non_blocking=True)

    def down():
        with torch.cuda.stream(two):
            there.copy_(b, non_blocking=True)

    def rate(*copies):
        times = []
        for _ in range(9):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for copy in copies:
                copy()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return 1 / sorted(times)[4]

    return rate(up), rate(down), rate(up, down)


def main():
    up, down, both = engine()
    print(f"copy engine: to the GPU {up:.1f} GiB/s, back {down:.1f}, both at once {both:.1f} each way")
    sys.stdout.flush()
    script = Path(__file__).with_name("stream.clk")
    clk = os.environ.get("CLK", "clk")
    subprocess.run([clk, "run", "--device", "gpu", "--stats", script, sys.argv[1]], check=True)


main()
