"""The blocks of Python in docs/python.md run, in order, each beside the ones before it."""

import importlib.util
import pathlib
import re

import pytest

TEXT = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
BLOCKS = re.findall(r"^```python *(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def is_missing(needed):
    if needed == "gpu":
        return is_missing("torch") or not __import__("torch").cuda.is_available()
    return importlib.util.find_spec(needed) is None


def test_the_blocks_run():
    assert len(BLOCKS) >= 6
    names = {}
    for needed, block in BLOCKS:
        if needed and is_missing(needed):
            continue
        exec(compile(block, "docs/python.md", "exec"), names)


def test_all_blocks_are_run():
    missing = {needed for needed, _ in BLOCKS if needed and is_missing(needed)}
    if missing:
        pytest.skip(f"not installed, so its blocks are not run: {', '.join(missing)}")
