"""Inspection of kernels: proofs, generated code, profiles, origins of elements."""

import os
import signal
import sys
import threading
import time

import clk
import numpy as np
import pytest
from support import ones, raised_by

TEXT = """
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }
kernel column(x: [f32; M, N], out y: [f32; M]) threads(i: M) {
    var sum = 0.0
    for j in 0..N { sum += x[i, j] }
    y[i] = sum
}
kernel root(inout x: [f32; N]) threads(i: N) { x[i] = sqrt(x[i]) }
kernel levels(levels: i32, out y: [i32; N]) threads(i: N) { y[i] = levels }
kernel double<T: Num>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] + x[i] }
kernel repeat<const K: i32>(out y: [i32; N]) threads(i: N) { y[i] = K }
kernel spin(out y: [i32; N]) threads(i: N) {
    var n = 0
    for k in 0..2000000000 { n = (n << 1) ^ k }
    y[i] = n
}
fn twice(x: [f32; N]) -> [f32; N] { let half = saxpy(1.0, x, x); half * 1.0 }
fn total(x: [f32; N]) -> f32 { sum(x) }
fn plain(x: f32) -> f32 { x }
"""


@pytest.fixture(scope="module")
def m():
    return clk.source(TEXT, name="answers.clk")


def test_proofs(m):
    proof = m.saxpy.prove()
    assert isinstance(proof, clk.Proof) and proof.is_proved and proof.kernel == "saxpy" and not proof.counterexamples
    assert proof.verdicts["in bounds"] == proof.verdicts["free of races"] == "proved"
    assert "proved for all sizes" in proof.text and repr(proof) == proof.text.rstrip()
    refuted = m.shift.prove()
    assert refuted.verdicts["in bounds"] == "refuted" and not refuted.is_proved
    assert [diagnostic.code for diagnostic in refuted.counterexamples] == ["E0601"]
    assert refuted.counterexamples[0].spans[0].file == "answers.clk" and "E0601" in repr(refuted)
    error = raised_by(clk.ArgumentError, m.twice.prove)
    assert "`twice` is a function" in str(error)
    # A call compiles a launch statement. The proof must not examine that launch.
    m.saxpy(1.0, ones(3), ones(3))
    assert m.saxpy.prove() == proof


def test_cuda(m):
    text = m.saxpy.cuda()
    assert isinstance(text, str) and "__global__" in text and "saxpy" in text and repr(text) == text
    assert m.double.cuda().startswith("// for T = f32\n")
    assert "a compile-time parameter of `repeat` has no default" in str(raised_by(clk.ArgumentError, m.repeat.cuda))
    assert "`plain` is a function" in str(raised_by(clk.ArgumentError, m.plain.cuda))


def test_profiles(m):
    x = np.zeros((256, 256), "float32")
    profile = m.column.profile(x)
    assert isinstance(profile, clk.Profile) and profile.kernel == "column" and str(profile).startswith("column: 256 threads")
    [counts] = profile.counts
    assert counts["kernel"] == "column" and counts["threads"] == 256 and counts["launches"] == 1
    # The accesses are not coalesced, since neighboring threads read different rows.
    assert profile.advice and all(isinstance(advice, clk.Diagnostic) for advice in profile.advice)
    assert profile.advice[0].rendered.rstrip() in repr(profile)
    other = m.column.profile(x, gpu="a100")
    assert other.counts[0]["gpu"] != counts["gpu"]
    assert "no GPU `z80` is known" in str(raised_by(clk.ArgumentError, lambda: m.column.profile(x, gpu="z80")))
    assert m.plain.profile(1.0).text == "no kernel was launched\n"
    expressions = m.twice.profile(ones(4))
    assert {counts["kernel"] for counts in expressions.counts} >= {"saxpy"}
    for call in [lambda: m.column.profile(x, device="gpu"), lambda: m.column.using(device="gpu").profile(x)]:
        assert "`profile` runs on the simulator" in str(raised_by(clk.ArgumentError, call))
    assert raised_by(clk.Fault, lambda: m.shift.profile(ones(2))).code == "E0601"


def test_origins(m):
    x, y = np.array([1, 2, 3], "float32"), np.array([4, 5, 6], "float32")
    tree = m.saxpy.why("r[1]", 2.0, x, y)
    assert isinstance(tree, clk.Text) and repr(tree) == tree
    first, *rest = tree.splitlines()
    assert first.startswith("r[1] = 9") and "answers.clk" not in first and "line 3" in first
    assert any("x[1] = 2.0, of the argument `x` of the call" in line for line in rest), tree
    assert any("y[1] = 5.0, of the argument `y` of the call" in line for line in rest), tree
    assert "<launch>" not in tree
    # A parameter named like an option hides the option.
    assert m.levels.why("y[0]", levels=7, N=1).startswith("y[0] = 7")
    whole = m.column.why("y[0]", ones(1, 3))
    cut = m.column.why("y[0]", ones(1, 3), levels=1)
    assert "a sum of 3 terms" in whole and "… [1]" in cut and "a sum" not in cut


def test_origins_continue_at_a_node(m):
    cut = m.saxpy.why("r[0]", 2.0, ones(2), ones(2), levels=1)
    assert "… [1]" in cut and cut.splitlines()[-1] == '`more="1"` shows what is at [1]'
    assert "of the argument `x`" in m.saxpy.why("r[0]", 2.0, ones(2), ones(2), levels=2, more="1")
    with pytest.raises(clk.ArgumentError, match="no place"):
        m.saxpy.why("r[0]", 2.0, ones(2), ones(2), levels=1, more="9")


def test_origins_of_results_and_nonfinite_elements(m):
    tree = m.twice.why("result[1]", np.array([1, 2], "float32"))
    assert tree.startswith("result[1] = 4") and "saxpy" in tree and "launched at line" in tree
    x = np.array([1, -4, 9], "float32")
    tree = m.root.why("x", x, first_nan=True)
    assert "the first number that is not finite, in the call:" in tree and "sqrt" in tree
    assert x.tolist() == [1, -4, 9], "the call has copies"
    error = raised_by(clk.ArgumentError, lambda: m.root.why("x", ones(3), first_nan=True))
    assert "all numbers of `x` are finite" in str(error)


@pytest.mark.parametrize(
    "element, message",
    [
        ("r[3]", "`r[3]` is not an element of it"),
        ("r[0, 0]", "is not an element of it"),
        ("r", "is not an element of a variable"),
        ("alpha[0]", "`saxpy` writes no array `alpha`, but `r`"),
        ("rr[0]", "did you mean `r`?"),
        ("r[-1]", "`-1` is not an index"),
        ("r[i]", "`i` is not an index"),
    ],
)
def test_origins_of_missing_elements(m, element, message):
    error = raised_by(clk.ArgumentError, lambda: m.saxpy.why(element, 2.0, ones(3), ones(3)))
    assert message in str(error), str(error)


def test_invalid_origin_queries(m):
    assert "`total` writes and returns no array" in str(raised_by(clk.ArgumentError, lambda: m.total.why("result[0]", ones(2))))
    assert "`why` runs on the simulator" in str(raised_by(clk.ArgumentError, lambda: m.saxpy.why("r[0]", 1.0, ones(1), ones(1), device="gpu")))
    assert raised_by(clk.ArgumentError, lambda: m.saxpy.why("r[0]", 1.0, ones(1))).code == "E0802"
    with pytest.raises(TypeError):
        m.saxpy.why()
    # The call writes to copies of its arrays.
    r = np.full(2, 7, "float32")
    assert m.saxpy.why("r[0]", 1.0, ones(2), ones(2), out=r).startswith("r[0] = 2") and r.tolist() == [7, 7]


def test_ctrl_c_stops_inspection(m):
    def interrupt(main):
        # Sends SIGINT after the main thread was inside of the call at five consecutive checks.
        checks = 0
        while checks < 5:
            checks = checks + 1 if sys._current_frames()[main].f_code.co_name in ("profile", "why") else 0
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    for call in [lambda: m.spin.profile(N=1 << 20), lambda: m.spin.why("y[0]", N=1 << 20)]:
        sender = threading.Thread(target=interrupt, args=(threading.get_ident(),), daemon=True)
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            call()
        sender.join()
    assert m.plain(1.0) == 1


def test_repr_of_text_is_the_text():
    assert repr(clk.Text("a\nb")) == "a\nb" and clk.Text("a") == "a"
