"""The end of other ranks is an exception of a process of Python, whatever it does at that time."""

import os
import subprocess
import sys

from test_ranks import start

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

# Rank 1 ends once the kernel of rank 0 runs, which writes the array in place.
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


def test_a_rank_in_a_kernel_of_another_program_gets_an_exception(tmp_path):
    script = end_in_kernel(tmp_path) + """
try:
    spin.spin(x)
except clk.Error as error:
    print(error.code, "rank 1 has ended: its process is gone" in error.title)
finally:
    # Calls without other ranks go on.
    print(m.double(one).tolist(), flush=True)
try:
    m.total(one)
except clk.Error as error:
    print(error.code)
"""
    (code, out, err), other = start(script)
    assert (code, out) == (0, "E0551 True\n[2.0, 2.0]\nE0551\n"), err
    assert other[0] == 9


def test_the_end_of_a_rank_does_not_end_a_process_that_computes_in_python():
    # Longer than a script of `clk run` has to notice: there the process is ended.
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
    (code, out, err), _ = start(script)
    assert (code, out) == (0, "E0551\nfinally\n"), err


def test_threads_of_several_programs_are_all_stopped(tmp_path):
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
    (code, out, err), _ = start(script)
    assert (code, out) == (0, "['E0551', 'E0551', 'E0551']\n"), err


def test_ctrl_c_is_handled_by_any_thread():
    # The main thread does not take the signal, so another one runs the handler while the program of the call is freed.
    # Each turn compiles a program.
    count = int(os.environ.get("CLK_PYTHON_ROUNDS", 15))
    script = f"count = {count}" + """
import clk, gc, numpy as np, os, signal, threading
turns = threading.Semaphore(0)
def interrupt():
    for _ in range(count):
        turns.acquire()
        os.kill(os.getpid(), signal.SIGINT)
helper = threading.Thread(target=interrupt)
helper.start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
seen = 0
for turn in range(count):
    m = clk.source("kernel k(inout x: [f32; N]) threads(i: N) { for n in 0..10 { x[i] += 1.0 } }")
    x = np.zeros(100_000, "float32")
    try:
        turns.release()
        while True:
            m.k(x)
    except KeyboardInterrupt:
        seen += 1
    del m
    gc.collect()
helper.join()
print(seen)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, f"{count}\n"), ran.stderr
