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


def test_concurrent_calls():
    m = clk.source(PROGRAM)
    failures = []

    def work(seed):
        module = clk.source(PROGRAM) if seed % 2 else m
        for n in range(1, 60):
            x = np.full(n, seed, "float32")
            if module.double(x).tolist() != [2.0 * seed] * n:
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_threads_run_during_a_call():
    m = clk.source(PROGRAM)
    started = threading.Event()
    steps = []

    def work():
        # Runs only if the long call releases the interpreter's lock.
        started.wait()
        for _ in range(1000):
            steps.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    started.set()
    m.spin(200_000, N=64)
    thread.join()
    assert len(steps) == 1000


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import clk
m = clk.source({program!r})
m.spin(10, N=1)

MAIN = threading.get_ident()

def interrupt(call):
    # Sends the signal of Ctrl-C when the main thread was inside of the call at five consecutive checks.
    checks = 0
    while checks < 5:
        frame = sys._current_frames()[MAIN]
        checks = checks + 1 if frame.f_code is call.__code__ else 0
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


def run_interrupted(calls):
    """Runs calls that Ctrl-C interrupts; returns the output."""
    text = INTERRUPTED.format(program=PROGRAM, calls=calls)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_ctrl_c_stops_kernels_and_functions():
    calls = "[lambda: m.spin(2_000_000_000, N=1 << 20), lambda: m.endless(1), lambda: m.spin.using(check=True)(2_000_000_000, N=4)]"
    assert run_interrupted(calls) == "interrupted [2.0, 2.0]\n" * 3


def test_ctrl_c_stops_waiting_for_another_thread():
    calls = (
        "[lambda: (threading.Thread(target=lambda: m.spin(100_000_000, N=8), daemon=True).start(), m.endless(1))]"
    )
    assert "interrupted" in run_interrupted(calls)


OWN_HANDLERS = """
import os, signal, sys, threading, time
import numpy as np
import clk
m = clk.source({program!r})
handled = []
MAIN = threading.get_ident()

def send(call, number, times):
    # Sends a signal when the main thread was inside of the call at five consecutive checks.
    for k in range(times):
        checks = 0
        while checks < 5:
            frame = sys._current_frames()[MAIN]
            checks = checks + 1 if frame.f_code is call.__code__ else 0
            time.sleep(0.01)
        os.kill(os.getpid(), number)
        # Wait until the handler has run.
        while len(handled) <= k:
            time.sleep(0.01)

def call_with_signals(call, number, times=1):
    sender = threading.Thread(target=send, args=(call, number, times), daemon=True)
    handled.clear()
    sender.start()
    try:
        return call()
    except Exception as error:
        return type(error).__name__
    finally:
        sender.join()

class Enough(Exception):
    pass

def handler(*_):
    handled.append(1)
    if len(handled) == 3:
        raise Enough

endless = lambda: m.endless(1)
spin = lambda: m.spin(2_000_000_000, N=1 << 20)
signal.signal(signal.SIGALRM, handler)
signal.signal(signal.SIGINT, handler)
for call in (endless, spin):
    for number in (signal.SIGALRM, signal.SIGINT):
        # The handler returns twice, and the call goes on; the third time it raises an exception.
        print(call_with_signals(call, number, 3), len(handled), m.double(np.ones(2, "float32")).tolist())
print(signal.getsignal(signal.SIGINT) is handler)
"""


def test_signal_handlers_run_during_a_call():
    text = OWN_HANDLERS.format(program=PROGRAM)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600)
    assert done.stdout == "Enough 3 [2.0, 2.0]\n" * 4 + "True\n", done.stderr
