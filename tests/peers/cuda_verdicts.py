#!/usr/bin/env python3
"""Counts the kernels of CUDA files that are translated, and those whose bounds and races are decided.

    cuda_verdicts.py SOURCES [SECONDS]   # every *.cu file below SOURCES, at most SECONDS (60) for each

A kernel is decided if `clk prove` proves or refutes that its accesses are in bounds, and that it is free of races, in
each of its instances. A kernel in several files of a folder counts once. `CLK` selects the binary.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

CLK = os.environ.get("CLK", "clk")
EXAMINED = ("in bounds", "free of races")


def records(words, seconds):
    """Runs a command. Returns its JSON records, and whether it ended in time."""
    try:
        ran = subprocess.run([CLK, *words, "--json"], capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return [], False
    lines = (ran.stdout + ran.stderr).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")], True


def examine(path, root, seconds):
    """Returns whether a file was proved in time, and by kernel whether it is translated, and why it is undecided."""
    # Makefiles name folders of headers.
    folders = [f"-I{folder}" for folder in (root / "include", path.parent, path.parent / "include") if folder.is_dir()]
    coverage, _ = records(["import", "--coverage", str(path), *folders], seconds)
    kernels = {record["kernel"]: [record["accepted"], {}] for record in coverage if record["kind"] == "coverage"}
    verdicts, in_time = records(["prove", str(path), *folders], seconds)
    for verdict in verdicts:
        if verdict["kind"] == "verdict" and verdict["property"] in EXAMINED:
            of_kernel = kernels.setdefault(verdict["kernel"], [True, {}])[1]
            if verdict["verdict"] == "unknown":
                of_kernel[verdict["property"]] = re.sub("`[^`]*`", "`…`", verdict.get("why", "?"))
            else:
                of_kernel.setdefault(verdict["property"], None)
    return in_time, {(path.parent, name): found for name, found in kernels.items()}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    seconds = float(sys.argv[2]) if len(sys.argv) == 3 else 60
    paths = sorted(root.rglob("*.cu"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: examine(path, root, seconds), paths))
    kernels = {}
    for _, found in results:
        for key, (accepted, verdicts) in found.items():
            known = kernels.setdefault(key, [False, {}])
            known[0] |= accepted
            known[1] = known[1] or verdicts
    accepted = sum(is_accepted for is_accepted, _ in kernels.values())
    proved = [verdicts for _, verdicts in kernels.values() if verdicts]
    decided = sum(all(verdicts.get(name, "") is None for name in EXAMINED) for verdicts in proved)
    late = sum(not in_time for in_time, _ in results)
    print(f"{len(paths)} files, {late} of them not proved in {seconds:g} s")
    print(f"{accepted} of {len(kernels)} kernels are translated ({100 * accepted / max(len(kernels), 1):.1f} %)")
    print(f"{len(proved)} kernels have verdicts; of these, bounds and races of {decided} are decided")
    for name in EXAMINED:
        reasons = collections.Counter(verdicts[name] for verdicts in proved if verdicts.get(name))
        print(f"undecided: {name}")
        for reason, count in reasons.most_common(12):
            print(f"{count:6} {reason}")


if __name__ == "__main__":
    main()
