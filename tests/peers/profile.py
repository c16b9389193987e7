#!/usr/bin/env python3
"""Compares the counts of `clk profile` with those of Nsight Compute on a GPU, kernel by kernel.

    tests/peers/profile.py tests/profiles/mistakes.clk tests/profiles/clean.clk
    tests/peers/profile.py --times tests/peers/gpu.clk copy saxpy

Kernels run with one thread for each index (`--no-coarsen`) and without bounds checks, since `clk profile` counts them this way. With `--times`, the named benches run on
the GPU, and once on the simulator, and the bounds are compared with the measured times. `CLK` selects another binary of Clk, `NCU` another one of Nsight Compute.
"""

import csv
import io
import json
import os
import subprocess
import sys
from collections import defaultdict

CLK = os.environ.get("CLK", "target/release/clk")
NCU = os.environ.get("NCU", "ncu")
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
METRICS = {
    "load requests": GLOBAL.format("requests", "ld"),
    "load sectors": GLOBAL.format("sectors", "ld"),
    "store requests": GLOBAL.format("requests", "st"),
    "store sectors": GLOBAL.format("sectors", "st"),
    "shared load passes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store passes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "atomic requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "atomic sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "nanoseconds": "gpu__time_duration.sum",
}


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def counted(file, extra=()):
    """Returns the counts of the simulator by kernel."""
    found = {}
    for line in run([CLK, "profile", "--json", *extra, file]).splitlines():
        if not line.startswith("{"):
            continue
        kernel = json.loads(line)
        sums = defaultdict(int)
        for access in kernel["accesses"]:
            deed, place = access["deed"], "shared " if access["shared"] else ""
            if access["shared"]:
                sums[f"shared {deed} passes"] += access["passes"]
                sums[f"shared {deed} conflicts"] += access["passes"] - access["fewest_passes"]
            else:
                sums[f"{place}{deed} requests"] += access["requests"]
                sums[f"{place}{deed} sectors"] += access["sectors"]
        found[kernel["kernel"]] = (sums, kernel)
    return found


def measured(file):
    """Returns the counts of Nsight Compute by kernel."""
    words = [NCU, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    words += ["--metrics", ",".join(METRICS.values())]
    text = run(words + [CLK, "run", "--device", "gpu", "--no-isolate", "--unchecked", "--no-coarsen", file])
    rows = list(csv.reader(io.StringIO(text[text.index('"ID"'):])))
    head, found = rows[0], defaultdict(lambda: defaultdict(float))
    name = head.index("Kernel Name")
    for row in rows[2:]:
        if len(row) == len(head):
            for what, metric in METRICS.items():
                if metric in head and row[head.index(metric)]:
                    found[row[name].split("(")[0]][what] += float(row[head.index(metric)].replace(",", ""))
    return found


def compare(files):
    same = different = 0
    for file in files:
        own, gpu = counted(file), measured(file)
        for kernel, (sums, _) in own.items():
            there = gpu.get(kernel)
            if there is None:
                print(f"{kernel:20} did not run on the GPU")
                continue
            for what in METRICS:
                if what == "nanoseconds" or not (sums.get(what) or there.get(what)):
                    continue
                a, b = sums.get(what, 0), int(there.get(what, 0))
                same, different = same + (a == b), different + (a != b)
                if a != b:
                    print(f"{kernel:20} {what:24} clk {a:10} ncu {b:10}")
    print(f"{same} counts are equal, {different} are not")


def times(file, benches):
    for bench in benches:
        lines = run([CLK, "bench", "--json", "--device", "gpu", "--filter", bench, file]).splitlines()
        results = [json.loads(line) for line in lines if line.startswith("{")]
        bounds = counted(file, ["--bench", bench, "--blocks", "2000"])
        total = sum(kernel["seconds"] * kernel["launches"] for _, kernel in bounds.values())
        for result in results:
            median = result["median"]
            print(f"{bench:28} bound {total * 1e6:10.1f} us  measured {median * 1e6:10.1f} us  ratio {total / median:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--times"]:
        times(sys.argv[2], sys.argv[3:])
    else:
        compare(sys.argv[1:])
