"""If a rank exits, the other Python processes get an exception, whatever they do at that time."""

import os
import subprocess
import sys

from test_ranks import run_ranks

SPIN = """
spin = clk.source('''
kernel spin(inout x: [i32; N]) threads(i: N) {
    while x[i] >= 0 { x[i] = (x[i] + 1) % 7 }
}
fn all(x: [i32; N]) -> [i32; N] { all_reduce(x) }
''', name="spin.clk")
one, whole = np.ones(2, "float32"), np.ones(2, "int32")
m.total(one)
spin.all(whole)
"""

# Rank 1 exits while the kernel of rank 0 is running. The kernel writes the array in place, so a change shows that it
# runs.
END_IN_KERNEL = """
import pathlib, threading, time
runs = pathlib.Path(PATH)
def announce():
    while not x.any(): time.sleep(0.001)
    runs.touch()
if rank == 1:
    while not runs.exists(): time.sleep(0.001)
    os._exit(9)
x = np.zeros(64, "int32")
threading.Thread(target=announce, daemon=True).start()
"""


def end_in_kernel(folder):
    return SPIN + END_IN_KERNEL.replace("PATH", repr(str(folder / "runs")))


def test_rank_exit_during_a_kernel_of_another_program(tmp_path):
    script = end_in_kernel(tmp_path) + """
try:
    spin.spin(x)
except clk.Error as error:
    print(error.code, "rank 1 has ended: its process is gone" in error.title)
finally:
    # Calls that do not need other ranks still work.
    print(m.double(one).tolist(), flush=True)
try:
    m.total(one)
except clk.Error as error:
    print(error.code)
"""
    (code, out, err), other = run_ranks(script)
    assert (code, out) == (0, "E0551 True\n[2.0, 2.0]\nE0551\n"), err
    assert other[0] == 9


def test_rank_exit_during_python_code():
    # Sleeps longer than the grace period after which `clk run` would kill the process.
    script = SPIN + """
import time
if rank == 1: os._exit(9)
try:
    time.sleep(4)
    m.total(one)
except clk.Error as error:
    print(error.code)
finally:
    print("finally")
"""
    (code, out, err), _ = run_ranks(script)
    assert (code, out) == (0, "E0551\nfinally\n"), err


def test_rank_exit_stops_threads_of_all_programs(tmp_path):
    script = end_in_kernel(tmp_path) + """
other = clk.source('''
kernel spin(inout x: [f32; N]) threads(i: N) { while x[i] >= 0.0 { x[i] = 1.0 - x[i] } }
fn all(x: f32) -> f32 { all_reduce(x) }
''', name="other.clk")
codes = []
def work(call):
    try:
        call()
    except clk.Error as error:
        codes.append(error.code)
threads = [threading.Thread(target=work, args=(call,)) for call in (
    lambda: spin.spin(x), lambda: m.total(one), lambda: other.all(1.0))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(codes))
"""
    (code, out, err), _ = run_ranks(script)
    assert (code, out) == (0, "['E0551', 'E0551', 'E0551']\n"), err


def test_ctrl_c_handled_by_another_thread():
    # The main thread blocks the signal, so that another thread runs the handler while the program is freed.
    # Each round compiles a program.
    count = int(os.environ.get("CLK_PYTHON_ROUNDS", 15))
    script = f"count = {count}" + """
import clk, gc, numpy as np, os, signal, threading
rounds = threading.Semaphore(0)
def interrupt():
    for _ in range(count):
        rounds.acquire()
        os.kill(os.getpid(), signal.SIGINT)
helper = threading.Thread(target=interrupt)
helper.start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
interrupts = 0
for _ in range(count):
    m = clk.source("kernel k(inout x: [f32; N]) threads(i: N) { for n in 0..10 { x[i] += 1.0 } }")
    x = np.zeros(100_000, "float32")
    try:
        rounds.release()
        while True:
            m.k(x)
    except KeyboardInterrupt:
        interrupts += 1
    del m
    gc.collect()
helper.join()
print(interrupts)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, f"{count}\n"), ran.stderr
