"""The end of other ranks is an exception of a process of Python, whatever it does at that time."""

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


def test_a_rank_in_a_kernel_of_another_program_gets_an_exception():
    script = SPIN + """
if rank == 1: os._exit(9)
try:
    spin.spin(np.zeros(64, "int32"))
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


def test_threads_of_several_programs_are_all_stopped():
    script = SPIN + """
import threading
if rank == 1: os._exit(9)
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
"""
    # The third program joins the ranks only now, after the end: its own call says so.
    script += """
threads = [threading.Thread(target=work, args=(call,)) for call in (
    lambda: spin.spin(np.zeros(64, "int32")), lambda: m.total(one), lambda: other.all(1.0))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(codes))
"""
    (code, out, err), _ = start(script)
    assert (code, out) == (0, "['E0551', 'E0551', 'E0551']\n"), err


def test_ctrl_c_is_handled_by_any_thread():
    # The main thread does not take the signal, so another one runs the handler while the program of the call is freed.
    script = """
import clk, gc, numpy as np, os, signal, threading
turns = threading.Semaphore(0)
def interrupt():
    for _ in range(100):
        turns.acquire()
        os.kill(os.getpid(), signal.SIGINT)
helper = threading.Thread(target=interrupt)
helper.start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
seen = 0
for turn in range(100):
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
    assert (ran.returncode, ran.stdout) == (0, "100\n"), ran.stderr
