"""Threads, and Ctrl-C during a call."""

import subprocess
import sys
import threading

import clk
import numpy as np

PROGRAM = """
kernel spin(rounds: i32, out y: [i32; N]) threads(i: N) {
    var n = 0
    for k in 0..rounds { n = (n << 1) ^ k }
    y[i] = n
}
kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
fn endless(n: i32) -> i32 {
    var k = n
    loop { k = k ^ 1 }
}
"""


def test_threads_call_at_once():
    m = clk.source(PROGRAM)
    wrong = []

    def work(seed):
        own = clk.source(PROGRAM) if seed % 2 else m
        for n in range(1, 60):
            x = np.full(n, seed, "float32")
            if own.double(x).tolist() != [2.0 * seed] * n:
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_others_run_meanwhile():
    m = clk.source(PROGRAM)
    began = threading.Event()
    seen = []

    def watch():
        # Runs only if the long call has released the interpreter's lock.
        began.wait()
        for _ in range(1000):
            seen.append(1)

    thread = threading.Thread(target=watch)
    thread.start()
    began.set()
    m.spin(200_000, N=64)
    thread.join()
    assert len(seen) == 1000


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import clk
m = clk.source({program!r})
m.spin(10, N=1)

MAIN = threading.get_ident()

def interrupt(call):
    # As Ctrl-C does, once the call runs: the main thread is in it at several looks in a row.
    looks = 0
    while looks < 5:
        frame = sys._current_frames()[MAIN]
        looks = looks + 1 if frame.f_code is call.__code__ else 0
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

for call in {calls}:
    timer = threading.Thread(target=interrupt, args=(call,), daemon=True)
    timer.start()
    try:
        call()
        print("ended")
        break
    except KeyboardInterrupt:
        print("interrupted", m.double(np.ones(2, "float32")).tolist())
    timer.join()
"""


def interrupted(calls):
    text = INTERRUPTED.format(program=PROGRAM, calls=calls)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_ctrl_c_ends_a_kernel_and_a_function():
    calls = "[lambda: m.spin(2_000_000_000, N=1 << 20), lambda: m.endless(1), lambda: m.spin.using(check=True)(2_000_000_000, N=4)]"
    assert interrupted(calls) == "interrupted [2.0, 2.0]\n" * 3


def test_ctrl_c_ends_waiting_for_another_thread():
    calls = (
        "[lambda: (threading.Thread(target=lambda: m.spin(100_000_000, N=8), daemon=True).start(), m.endless(1))]"
    )
    assert "interrupted" in interrupted(calls)


def test_handlers_of_the_program_stay():
    text = f"""
import os, signal, sys, threading, time, clk
m = clk.source({PROGRAM!r})
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
call = lambda: m.endless(1)
MAIN = threading.get_ident()

def interrupt():
    looks = 0
    while looks < 5:
        looks = looks + 1 if sys._current_frames()[MAIN].f_code is call.__code__ else 0
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    call()
except clk.Error as error:
    print(error.code, got)
print(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.stdout == "E0599 [1]\nTrue\n", done.stderr
