"""Python processes as ranks that exchange values."""

import os
import socket
import subprocess
import sys

import pytest

START = """
import clk, numpy as np, os, sys
rank = int(os.environ.get("CLK_RANK") or os.environ["RANK"])
m = clk.source('''
fn total(x: [f32; N]) -> [f32; N] { all_reduce(x) }
fn parts(x: [i32; N]) -> [i32; _] { all_gather(x) }
fn place() -> (i32, i32) { (rank(), ranks()) }
kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
''', name="exchange.clk")
"""


def run_ranks(script, ranks=2, **variables):
    """Runs a script in a process for each rank. Returns exit code, output and error output of each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(ranks):
        numbers = {"CLK_RANK": str(rank), "CLK_RANKS": str(ranks), "CLK_PORT": str(port), "CLK_RANKS_WAIT": "60"}
        command = [sys.executable, "-c", START + script]
        environment = {**os.environ, **numbers, **variables}
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    results = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\ntimeout"
        results.append((process.returncode, out, err))
    return results


def test_all_modules_of_a_process_exchange_values():
    script = """
x = np.full(3, rank + 1, "float32")
for _ in range(20):
    assert m.total(m.double(x)).tolist() == [6.0] * 3
assert x.tolist() == [rank + 1.0] * 3
other = clk.source("fn most(x: [f64; N]) -> [f64; N] { all_reduce(x, op = \\"max\\") }")
assert other.most(np.array([rank, -rank], "float64")).tolist() == [1.0, 0.0]
assert m.place() == (rank, 2)
print("well", rank)
"""
    for rank, (code, out, err) in enumerate(run_ranks(script)):
        assert (code, out) == (0, f"well {rank}\n"), err


@pytest.mark.parametrize("first", [0, 1])
def test_ranks_continue_after_another_rank_has_finished(first):
    script = f"""
import time
m.total(np.ones(2, "float32"))
if rank != {first}:
    time.sleep(0.5)
    m.double(np.ones(2, "float32"))
print("well", rank)
"""
    for rank, (code, out, err) in enumerate(run_ranks(script)):
        assert (code, out) == (0, f"well {rank}\n"), err


def test_mismatched_collectives_are_errors_of_both_ranks():
    script = """
try:
    m.total(np.ones(2 + rank, "float32"))
except clk.Error as error:
    print(error.code, "exchange.clk:2" in error.rendered)
"""
    for code, out, err in run_ranks(script):
        assert (code, out) == (0, "E0550 True\n"), err


def test_exit_of_a_rank_is_an_error_of_the_others():
    script = """
m.total(np.ones(2, "float32"))
if rank == 1: sys.exit("enough")
try:
    m.total(np.ones(2, "float32"))
except clk.Error as error:
    print(error.code, error.title)
"""
    (code, out, err), other = run_ranks(script)
    assert code == 0 and out[:5] in ("E0550", "E0551") and "rank 1" in out, out + err
    assert other[0] == 1 and "enough" in other[2]


def test_a_single_process_is_the_only_rank():
    import clk

    m = clk.source("fn place() -> (i32, i32) { (rank(), ranks()) }")
    assert m.place() == (0, 1)


def test_within_torch_distributed(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        START
        + """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for turn in range(5):
    x = torch.arange(4.0) + rank + turn
    own = m.total(x)
    theirs = x.clone()
    dist.all_reduce(theirs)
    assert torch.equal(own, theirs), (own, theirs)
assert m.place() == (dist.get_rank(), dist.get_world_size())
dist.destroy_process_group()
# Write the line at once, since both ranks write to the same pipe.
os.write(1, f"well {rank}\\n".encode())
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0 and sorted(ran.stdout.splitlines()) == ["well 0", "well 1"], ran.stdout + ran.stderr
