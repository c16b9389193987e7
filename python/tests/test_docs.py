"""Runs the Python code blocks of docs/python.md in order, in one namespace."""

import importlib.util
import pathlib
import re

import pytest

TEXT = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
BLOCKS = re.findall(r"^```python *(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def is_missing(requirement):
    if requirement == "gpu":
        return is_missing("torch") or not __import__("torch").cuda.is_available()
    return importlib.util.find_spec(requirement) is None


def test_code_blocks_run():
    assert len(BLOCKS) >= 6
    names = {}
    for requirement, block in BLOCKS:
        if requirement and is_missing(requirement):
            continue
        exec(compile(block, "docs/python.md", "exec"), names)


def test_no_code_block_is_skipped():
    missing = {requirement for requirement, _ in BLOCKS if requirement and is_missing(requirement)}
    if missing:
        pytest.skip(f"code blocks were not run, because these are not installed: {', '.join(missing)}")
