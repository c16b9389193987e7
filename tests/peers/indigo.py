#!/usr/bin/env python3
"""Compares the faults that checked runs report with the bugs planted in the CUDA codes of the Indigo suite.

    indigo.py CODES HEADERS            # the folder of the generated codes, and the folder of `indigo_cuda.h`
    indigo.py CODES HEADERS WORD… -v   # codes whose name contains the words; -v also prints the codes without a mismatch

`Generators/generate_CUDA_codes.py` of https://github.com/burtscher/IndigoSuite generates the codes. The name of a file
states its bugs: `_boundsBug` is an index out of bounds, `_atomicBug`, `_guardBug`, `_raceBug` and `_syncBug` are data
races, and a code without any is correct. Each code runs on small graphs with several launches, each as a `test` block.
A bug is found if a launch reports a fault of its kind. All other faults are false alarms. `CLK` selects the binary, and
`taskset` limits the number of processes.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

CLK = os.environ.get("CLK", "clk")
SECONDS = 300
#: Codes by kind of bug. W0601 is a race between writes of equal values.
CODES = {"bounds": {"E0601"}, "race": {"E0610", "W0601"}}
KIND_OF = {"boundsBug": "bounds", "atomicBug": "race", "guardBug": "race", "raceBug": "race", "syncBug": "race"}


def graphs():
    """Yields graphs as lists of neighbors, each list in ascending order."""
    draw = random.Random(1)
    path = [(i, i + 1) for i in range(127)]
    tree = [((i - 1) // 2, i) for i in range(1, 63)]
    # The first and the last three vertices have no edges.
    sparse = sorted({(draw.randrange(3, 97), draw.randrange(3, 97)) for _ in range(160)})
    shapes = [
        (128, path, True),
        (128, path, False),
        (160, [(0, i) for i in range(1, 160)], True),
        (24, [(i, j) for i in range(24) for j in range(24) if i != j], False),
        (63, tree, True),
        (63, tree, False),
        (63, [(child, parent) for parent, child in tree], False),
        (100, sparse, True),
        (100, sparse, False),
    ]
    for vertices, edges, is_undirected in shapes:
        reversed_edges = [(b, a) for a, b in edges] if is_undirected else []
        neighbors = [[] for _ in range(vertices)]
        for a, b in sorted({*edges, *reversed_edges}):
            neighbors[a].append(b)
        yield neighbors


def geometries(name, vertices):
    """Yields the grids and blocks of a code: enough threads for all vertices, and few if its threads loop over vertices."""
    for block, more in ((64, 0), (128, 1)):
        per_block = 1 if "_block" in name else block // 32 if "_warp" in name else block
        yield -(-vertices // per_block) + more, block
    if "persistent" in name:
        yield 2, 128


def launches(name):
    """Returns a script with a `test` block for each launch of a code."""
    lines = ['import "./code.cu"']
    for number, neighbors in enumerate(graphs()):
        draw = random.Random(number)
        vertices, edges = len(neighbors), sum(map(len, neighbors))
        starts = [sum(map(len, neighbors[:i])) for i in range(vertices + 1)]
        # Like `main` in indigo_cuda.h.
        length = max(vertices, edges)
        data1 = [0] + [draw.randrange(vertices) for _ in range(length - 1)]
        data2 = [0] + [draw.randrange(edges) for _ in range(length - 1)]
        for grid, block in geometries(name, vertices):
            lines += [
                f'test "graph {number}, {grid} blocks of {block}" {{',
                f"    var data1 = {data1}",
                f"    var data2 = {data2}",
                f"    code.test_kernel({starts}, {sum(neighbors, [])}, data1, data2, {vertices}, "
                f"grid_x = {grid}, block_x = {block})",
                "}",
            ]
    return "\n".join(lines) + "\n"


def records(*words, folder):
    """Runs a command in a folder. Returns its JSON records."""
    ran = subprocess.run([CLK, *words, "--json"], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    return [json.loads(line) for line in (ran.stdout + ran.stderr).splitlines() if line.startswith("{")]


def examine(path, headers):
    """Runs a code. Returns its outcome and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for source, target in ((path, "code.cu"), (headers / "indigo_cuda.h", "indigo_cuda.h")):
            (folder / target).write_bytes(source.read_bytes())
        (folder / "launches.clk").write_text(launches(path.stem))
        try:
            coverage = records("import", "--coverage", "code.cu", folder=folder)
            kernels = [record for record in coverage if record["kind"] == "coverage"]
            refusals = [kernel["construct"] for kernel in kernels if not kernel["accepted"]]
            if refusals:
                return "refused", "; ".join(refusals)
            results = records("test", "--check", "--device", "sim", "launches.clk", folder=folder)
        except subprocess.TimeoutExpired:
            return "other failure", "time-out"
    titles = {record["code"]: record["title"] for record in results if record["kind"] == "diagnostic"}
    tests = [record for record in results if record["kind"] == "test"]
    if not tests or not all(record["ran"] for record in tests):
        return "other failure", "; ".join(titles.values())
    planted = {kind for bug, kind in KIND_OF.items() if bug in path.stem}
    found = {kind for kind, codes in CODES.items() if codes & titles.keys()}
    expected_codes = {code for kind in planted for code in CODES[kind]}
    unexpected = [code for code in sorted(titles) if code not in expected_codes and not is_advice(code)]
    if unexpected:
        return "false alarm", "; ".join(f"{code} {titles[code]}" for code in unexpected)
    if planted - found:
        return "missed", ", ".join(sorted(planted - found))
    return ("found", ", ".join(sorted(planted))) if planted else ("correct", "")


def is_advice(code):
    """Returns whether a code is about the text of a program, and not about a fault of a run."""
    return code.startswith("W") and code not in CODES["race"]


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    if len(words) < 2:
        sys.exit(__doc__)
    root, headers = (pathlib.Path(word).resolve() for word in words[:2])
    paths = [path for path in sorted(root.rglob("*.cu")) if all(word in path.stem for word in words[2:])]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outcomes = list(pool.map(lambda path: examine(path, headers), paths))
    counts = collections.defaultdict(collections.Counter)
    for path, (outcome, why) in zip(paths, outcomes):
        counts[path.parent.name][outcome] += 1
        if "-v" in sys.argv or outcome not in ("found", "correct"):
            print(f"{outcome:14} {path.stem}  {why}")
    counts["all"] = sum(counts.values(), collections.Counter())
    columns = ["found", "missed", "correct", "false alarm", "refused", "other failure"]
    print(f"\n| pattern | files | {' | '.join(columns)} |\n{'| --- ' * (len(columns) + 2)}|")
    for pattern, row in counts.items():
        print(f"| {pattern} | {row.total()} | {' | '.join(str(row[column]) for column in columns)} |")
    sys.exit(1 if counts["all"]["false alarm"] else 0)


if __name__ == "__main__":
    main()
