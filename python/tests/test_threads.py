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


ATTENDED = """
import os, signal, sys, threading, time
import numpy as np
import clk
m = clk.source({program!r})
got = []
MAIN = threading.get_ident()

def send(call, number, times):
    # Once the call runs: the main thread is in it at several looks in a row.
    for k in range(times):
        looks = 0
        while looks < 5:
            frame = sys._current_frames()[MAIN]
            looks = looks + 1 if frame.f_code is call.__code__ else 0
            time.sleep(0.01)
        os.kill(os.getpid(), number)
        # The handler has run while the call goes on.
        while len(got) <= k:
            time.sleep(0.01)

def during(call, number, times=1):
    sender = threading.Thread(target=send, args=(call, number, times), daemon=True)
    got.clear()
    sender.start()
    try:
        return call()
    except Exception as error:
        return type(error).__name__
    finally:
        sender.join()

class Enough(Exception):
    pass

def enough(*_):
    got.append(1)
    if len(got) == 3:
        raise Enough

endless = lambda: m.endless(1)
spin = lambda: m.spin(2_000_000_000, N=1 << 20)
signal.signal(signal.SIGALRM, enough)
signal.signal(signal.SIGINT, enough)
for call in (endless, spin):
    for number in (signal.SIGALRM, signal.SIGINT):
        # Two handlers return, and the call goes on; the third one raises.
        print(during(call, number, 3), len(got), m.double(np.ones(2, "float32")).tolist())
print(signal.getsignal(signal.SIGINT) is enough)
"""


def test_handlers_of_the_program_run_during_a_call():
    text = ATTENDED.format(program=PROGRAM)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600)
    assert done.stdout == "Enough 3 [2.0, 2.0]\n" * 4 + "True\n", done.stderr
