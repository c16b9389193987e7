#!/usr/bin/env python3
"""Compares the verdicts of `clk prove` with those that the CUDA tests of GPUVerify expect.

    gpuverify.py TESTS             # `testsuite/CUDA` of a checkout of GPUVerify: a line for each test, and a table
    gpuverify.py TESTS WORD… -v    # tests whose path contains the words; -v prints all verdicts and messages

A test begins with its expectation and its launch: `//pass` or `//xfail:…`, and `//--blockDim=64 --gridDim=1`. In a copy
of the file, a `clk:` comment before each kernel states the launch. `CLK` selects the binary.

GPUVerify examines races, barriers and assertions. A test is decided if these properties are proved, or if one of them is
refuted. GPUVerify lets threads write equal values to one element, which Clk reports as a warning. It examines neither
lengths of arrays, nor overflow, nor variables without a value.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CLK = os.environ.get("CLK", "clk")
SECONDS = 120
EXAMINED = ("free of races", "barriers", "assertions")
# Blocks of more threads exist on no device.
MOST_THREADS = 1024
# Refusals that name the fault of a kernel.
FAULTS = re.compile(r"which is constant|has no elements|null pointer|`int` as a pointer to a function")
# Equal values from several threads.
EQUAL_VALUES = "W0601"
# Tests that do not tell whether a verdict is right, with the reason.
APART = {
    "warpsync/2d": "needs warps in lockstep",
    "warpsync/intragroup_scan": "needs warps in lockstep",
    "warpsync/scan_warp": "needs warps in lockstep",
    "warpsync/shuffle": "needs warps in lockstep",
    "globalarray/fail": "fails because the host may change the constant array",
    "misc/fail/miscfail2": "fails because an invariant is missing",
    "misc/fail/miscfail7": "fails because GPUVerify does not follow addresses",
    "atomics/pointer_add": "uses a variable of the host, which nvcc rejects",
    "memcpy_simplification/i8_element_global_passed_to_call1": "uses a variable of the host, which nvcc rejects",
    "memcpy_simplification/i8_element_global_passed_to_call2": "uses a variable of the host, which nvcc rejects",
    "annotation_tests/test_axiom": "its axioms contradict its launch",
}


def launch_of(text):
    """Returns the conditions on the launch, and the macros, that the first lines of a test state."""
    options = " ".join(line for line in text.split("\n")[1:4] if line.startswith("//"))
    extents = {
        name: [int(extent) for extent in numbers.split(",")]
        for name, numbers in re.findall(r"--(blockDim|gridDim)=\[?([\d,]+)\]?", options)
    }
    axes = max(map(len, extents.values()), default=1)
    conditions = []
    for name, numbers in extents.items():
        for axis, extent in zip("xyz", (numbers + [1, 1])[:axes]):
            extent = min(extent, MOST_THREADS) if name == "blockDim" else extent
            conditions.append(f"{name}.{axis} == {extent}")
    return conditions, re.findall(r"-D(\w+=\w+)", options)


def prove(path):
    """Proves the kernels of a test. Returns the exit status and the records of the output."""
    text = path.read_text()
    conditions, macros = launch_of(text)
    comment = f"/* clk: assume {', '.join(conditions)} */ "
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "kernel.cu"
        copy.write_text(text.replace("__global__", f"{comment}__global__"))
        words = [CLK, "prove", str(copy), "--json", *[word for macro in macros for word in ("-D", macro)]]
        try:
            ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return 124, []
    lines = (ran.stdout + ran.stderr).splitlines()
    return ran.returncode, [json.loads(line) for line in lines if line.startswith("{")]


def outcome_of(status, records):
    """Returns an outcome and the reason."""
    if status == 124:
        return "unknown", "time-out"
    messages = [record for record in records if record["kind"] in ("diagnostic", "message")]
    titles = [message.get("title") or message.get("text", "") for message in messages]
    verdicts = [record for record in records if record["kind"] == "verdict"]
    examined = [verdict for verdict in verdicts if verdict["property"] in EXAMINED]
    refuted = [verdict for verdict in examined if verdict["verdict"] == "refuted"]
    refusals = [title for title in titles if "is not translated" in title]
    if refuted and all(verdict.get("code") == EQUAL_VALUES for verdict in refuted):
        return "refuted, equal values", refuted[0]["property"]
    if refuted:
        return "refuted", ", ".join(verdict["property"] for verdict in refuted)
    if any(FAULTS.search(title) for title in refusals):
        return "refused for its fault", refusals[0]
    if refusals or not verdicts:
        return "refused", "; ".join(refusals or titles)
    unknown = [verdict for verdict in examined if verdict["verdict"] == "unknown"]
    if unknown:
        return "unknown", "; ".join(f"{verdict['property']}: {verdict.get('why', '')}" for verdict in unknown)
    # Atomic operations may have any order.
    others = [verdict for verdict in verdicts if verdict not in examined and verdict["property"] != "any order"]
    others = [f"{verdict['property']} {verdict['verdict']}" for verdict in others if verdict["verdict"] != "proved"]
    return ("proved, but not all", ", ".join(others)) if others else ("proved", "")


DECIDED = {
    "pass": ("proved", "proved, but not all", "refuted, equal values"),
    "fail": ("refuted", "refuted, equal values", "refused for its fault"),
}
WRONG = {"pass": ("refuted",), "fail": ("proved", "proved, but not all")}


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    if not words:
        sys.exit(__doc__)
    root = pathlib.Path(words[0]).resolve()
    tests = {path: str(path.parent.relative_to(root)) for path in sorted(root.rglob("*.cu"))}
    tests = {path: name for path, name in tests.items() if all(word in name for word in words[1:])}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        proofs = list(pool.map(prove, tests))
    counts, wrong = collections.Counter(), []
    for (path, name), (status, records) in zip(tests.items(), proofs):
        stated = path.read_text().split("\n")[0].strip("/ \r").lower()
        expected = {"pass": "pass", "xfail:not_all_verified": "fail"}.get(stated, "error in a tool")
        outcome, why = outcome_of(status, records)
        apart = APART.get(name)
        counts["apart" if apart else expected, outcome] += 1
        if not apart and outcome in WRONG.get(expected, ()):
            wrong.append(name)
        print(f"{expected:16} {outcome:24} {name}  {why}{f' [{apart}]' if apart else ''}")
        if "-v" in sys.argv:
            for record in records:
                if record["kind"] == "verdict":
                    print(f"    {record['property']}: {record['verdict']} {record.get('why') or record.get('sizes', '')}")
                elif record["kind"] == "diagnostic":
                    print(f"    {record['code']} {record['title']}")
    print()
    for (expected, outcome), count in sorted(counts.items()):
        print(f"{count:6} {expected:16} {outcome}")
    all_counted = sum(count for (expected, _), count in counts.items() if expected in DECIDED)
    decided = sum(count for (expected, outcome), count in counts.items() if outcome in DECIDED.get(expected, ()))
    if all_counted:
        print(f"{decided} of {all_counted} decided ({100 * decided / all_counted:.0f} %), {len(wrong)} wrong")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
