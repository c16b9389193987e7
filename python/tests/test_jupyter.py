"""The Jupyter kernel (conformance, output of cells, interrupts, the example notebook), and the magics for Python notebooks."""

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("ipykernel")
jupyter_client = pytest.importorskip("jupyter_client")

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module", autouse=True)
def kernel_spec(tmp_path_factory):
    """Installs the kernel specification in a temporary folder, where Jupyter finds it during these tests."""
    folder = tmp_path_factory.mktemp("jupyter")
    command = [sys.executable, "-m", "clk.jupyter", "install", "--prefix", str(folder)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    previous = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(folder / "share/jupyter")
    yield
    if previous is None:
        del os.environ["JUPYTER_PATH"]
    else:
        os.environ["JUPYTER_PATH"] = previous


@pytest.fixture(scope="module")
def client(kernel_spec):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="clk")
    client.manager = manager
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client, cell, on_message=None):
    """Runs a cell. Returns the reply, and the messages of the cell as pairs of type and content."""
    request = client.execute(cell)
    messages = []
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        messages.append((kind, content))
        if on_message:
            on_message(kind, content)
    while True:
        reply = client.get_shell_msg(timeout=120)
        if reply["parent_header"].get("msg_id") == request:
            return reply["content"], messages


def contents(messages, kind):
    """The contents of the messages of one type."""
    return [content for message_kind, content in messages if message_kind == kind]


def test_values_are_shown(client):
    reply, messages = run(client, "let x = linspace(0.0, 1.0, 5)\n2.0 * x")
    assert reply["status"] == "ok"
    [shown] = contents(messages, "execute_result")
    assert shown["data"]["text/plain"] == "[0.  0.5 1.  1.5 2. ]"
    assert "<td>1.5</td>" in shown["data"]["text/html"] and "[f32; 5]" in shown["data"]["text/html"]
    assert shown["execution_count"] == reply["execution_count"]
    _, messages = run(client, 'print("a")\n"<b>"')
    assert contents(messages, "stream")[0]["text"] == "a\n"
    [shown] = contents(messages, "execute_result")
    assert shown["data"] == {"text/plain": "<b>"}
    _, messages = run(client, "1;")
    assert not contents(messages, "execute_result")


def test_pictures_are_shown(client):
    _, messages = run(client, "plot(linspace(0.0, 1.0, 9))\nheat(reshape(arange(12), 3, 4))\nimage(zeros(4, 4, 3))")
    bundles = [shown["data"] for shown in contents(messages, "display_data")]
    assert [next(kind for kind in data if kind.startswith("image/")) for data in bundles] == [
        "image/svg+xml",
        "image/png",
        "image/png",
    ]
    assert bundles[0]["image/svg+xml"].startswith("<svg") and bundles[1]["image/png"].startswith("iVBORw0KGgo")
    assert "0 … 11" in bundles[1]["text/plain"]
    _, messages = run(client, 'hist([1.0, 2.0], title = "two")\nheat(reshape(arange(12), 3, 2, 2), fps = 5)')
    chart, animation = [shown["data"] for shown in contents(messages, "display_data")]
    assert ">two</text>" in chart["image/svg+xml"]
    assert b"acTL" in base64.b64decode(animation["image/png"]) and animation["text/plain"].startswith("3 frames")


def test_errors_restore_variables(client):
    run(client, "var kept = 1")
    reply, messages = run(client, "kept = 2\nlet z = [1.0, 2.0][kept + 5]")
    [error] = contents(messages, "error")
    assert reply["status"] == "error" and reply["ename"] == error["ename"] == "E0502"
    text = "\n".join(error["traceback"])
    assert "\x1b[" in text and error["evalue"] in text
    _, messages = run(client, "kept")
    assert contents(messages, "execute_result")[0]["data"]["text/plain"] == "1"
    reply, messages = run(client, "let a = 1\nlet b = q")
    assert reply["ename"] == "E0201"


def test_commands(client):
    run(client, "kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] + x[i] }")
    reply, messages = run(client, ":type twice(ones(3))\n:check twice(ones(3))")
    text = "".join(content["text"] for content in contents(messages, "stream"))
    assert reply["status"] == "ok" and "[f32; 3]" in text and "1 launch checked" in text
    reply, _ = run(client, ":nonsense")
    assert reply["status"] == "error"
    reply, messages = run(client, ":nonsense\n1 + 1")
    assert not contents(messages, "execute_result")
    reply, messages = run(client, "?sqrt")
    assert "root" in contents(messages, "stream")[0]["text"]


def test_checks_are_on(client):
    cell = "kernel race(inout x: [i32; 1]) threads(i: 64) { x[0] = i }\nvar r = [0]\nrace(r)"
    reply, _ = run(client, cell)
    assert reply["ename"] == "E0610"


def reply_content(client, request):
    """Waits for the reply to a request, and returns its content."""
    while True:
        reply = client.get_shell_msg(timeout=120)
        if reply["parent_header"].get("msg_id") == request:
            return reply["content"]


def test_completion_and_inspection(client):
    run(client, "let tariff = 3.5")
    # Positions count characters; the cell has characters of several bytes.
    content = reply_content(client, client.complete('print("ä€"); tar + 1', 16))
    assert content["matches"][0] == "tariff" and (content["cursor_start"], content["cursor_end"]) == (13, 16)
    assert "sqrt" in reply_content(client, client.complete("sq"))["matches"]
    assert "help" in reply_content(client, client.complete(":he"))["matches"]
    content = reply_content(client, client.inspect("1.0 + sqrt(2.0)", 8))
    assert content["found"] and "root" in content["data"]["text/markdown"]
    assert "3.5" in reply_content(client, client.inspect("tariff", 3))["data"]["text/plain"]
    assert not reply_content(client, client.inspect("  ", 1))["found"]
    # `inspect` finds nothing for an undefined name.
    for cell, position in [("nothing_has_it", 4), ("let y = nothing_has_it + 1", 12), ("nothing_has_it(1)", 3), ("tariff.no", 8), ("f32x9", 2)]:
        content = reply_content(client, client.inspect(cell, position))
        assert not content["found"] and content["data"] == {}, (cell, content)


def test_completeness(client):
    status = lambda text: reply_content(client, client.is_complete(text))
    assert status("1 + 1")["status"] == "complete"
    found = status("fn f() -> i32 {")
    assert (found["status"], found["indent"]) == ("incomplete", "    ")
    assert status(":help")["status"] == "complete"
    for text in ["let x = = 3", "fn f() -> i32 { 1 }}", "let let = 1"]:
        assert status(text)["status"] == "invalid", text
    # A cell with only an undefined name is complete.
    assert status("let x = nothing")["status"] == "complete"


def test_interrupts(client):
    # Interrupt when the progress bar shows that the launch is running.
    cell = "kernel spin(out y: [i32; N]) threads(i: N) { var n = 0\n for k in 0..2000000000 { n = (n << 1) ^ k }\n y[i] = n }"
    run(client, cell)
    before = run(client, "let before = 5")[0]
    assert before["status"] == "ok"
    seen = []

    def on_message(kind, content):
        if kind == "display_data" and not seen:
            seen.append(content["data"]["text/html"])
            client.manager.interrupt_kernel()

    reply, _ = run(client, "spin(N = 1 << 22)", on_message)
    assert seen and "<progress" in seen[0]
    assert reply["status"] == "error" and reply["ename"] == "E0607"
    _, messages = run(client, "before")
    assert contents(messages, "execute_result")[0]["data"]["text/plain"] == "5"


def test_progress_moves_within_a_block(client):
    # With one thread, no further thread group starts during the launch.
    run(client, "kernel alone(out y: [i32; 1]) threads(i: 1) { var n = 0\n for k in 0..2000000000 { for l in 0..1000 { n = (n << 1) ^ k } }\n y[i] = n }")
    seen = []

    def on_message(kind, content):
        if kind in ("display_data", "update_display_data") and content["data"]["text/plain"]:
            seen.append((kind, content["data"]))
            if len(seen) == 3:
                client.manager.interrupt_kernel()

    reply, _ = run(client, "alone()", on_message)
    assert reply["status"] == "error" and [kind for kind, _ in seen[:3]] == ["display_data"] + 2 * ["update_display_data"]
    texts = [data["text/plain"] for _, data in seen]
    assert len(set(texts)) == len(texts) and all(text.endswith(" s") for text in texts)
    assert all("<progress>" in data["text/html"] for _, data in seen)


def test_history(client):
    start = run(client, "let first = 1")[0]["execution_count"]
    run(client, "first + 1")
    run(client, "let second = 2")
    run(client, "first + 1")
    history = lambda **query: reply_content(client, client.history(**{"raw": True, "output": False, **query}))["history"]
    assert history(hist_access_type="tail", n=2) == [[1, start + 2, "let second = 2"], [1, start + 3, "first + 1"]]
    assert history(hist_access_type="tail", n=1, output=True) == [[1, start + 3, ["first + 1", "2"]]]
    assert history(hist_access_type="tail", n=0) == []
    for session in (0, 1):
        assert history(hist_access_type="range", session=session, start=start, stop=start + 1) == [[1, start, "let first = 1"]]
    assert history(hist_access_type="range", session=-1, start=0, stop=start) == []
    found = history(hist_access_type="search", pattern="first *", unique=True)
    assert found == [[1, start + 3, "first + 1"]]
    assert len(history(hist_access_type="search", pattern="first *", n=5)) == 2


def test_interrupts_during_output(client):
    # The signal arrives at different times while the kernel sends messages.
    for after in (1, 2, 5):
        seen = []

        def on_message(kind, content):
            if kind == "stream":
                seen.append(content["text"])
                if len(seen) == after:
                    client.manager.interrupt_kernel()

        reply, _ = run(client, "for k in 0..100000000 { print(k) }", on_message)
        assert reply["status"] == "error" and reply["ename"] == "E0599"
    _, messages = run(client, "1 + 1")
    assert contents(messages, "execute_result")[0]["data"]["text/plain"] == "2"


def test_printed_lines_are_batched(client):
    reply, messages = run(client, "for k in 0..20000 { print(k) }\n6 * 7")
    texts = [content["text"] for content in contents(messages, "stream")]
    assert reply["status"] == "ok" and "".join(texts) == "".join(f"{k}\n" for k in range(20000))
    # Clients drop messages at a rate above 1000 per second.
    assert len(texts) < 1000
    assert [kind for kind, _ in messages][-1] == "execute_result", "in order"
    # Printed text is shown while the cell is still running.
    _, messages = run(client, 'print("first")\nheat(zeros(2, 2))\nprint("second")')
    assert [kind for kind, _ in messages if kind != "execute_input"] == ["status", "stream", "display_data", "stream"]
    assert [content["text"] for content in contents(messages, "stream")] == ["first\n", "second\n"]


def test_printed_lines_are_shown_while_the_cell_runs(client):
    seen = []

    def on_message(kind, content):
        if kind == "stream" and not seen:
            seen.append(content["text"])
            client.manager.interrupt_kernel()

    run(client, "fn forever(n: i32) -> i32 { var k = n\n loop { k = k ^ 1 } }")
    reply, _ = run(client, 'print("before")\nforever(1)', on_message)
    assert seen == ["before\n"] and reply["status"] == "error"


def test_exit_ends_the_kernel(kernel_spec):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="clk")
    for cell in ["exit(0)", "exit", "quit()", ":quit", ":q", "1 + 1\n:quit\n1 +"]:
        reply, _ = run(client, cell)
        assert reply.get("payload") == [{"source": "ask_exit", "keepkernel": False}], (cell, reply)
    reply, messages = run(client, "let exit = 3\nexit")
    assert reply["payload"] == [] and contents(messages, "execute_result")[0]["data"]["text/plain"] == "3"
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_example_notebook():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        errors = [cell for cell in notebook.cells if "raises-exception" in cell.metadata.get("tags", [])]
        ran = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
        for cell in ran.cells:
            failed = [out for out in cell.get("outputs", []) if out["output_type"] == "error"]
            assert bool(failed) == (cell in errors), cell.source
        pictures = [out for cell in ran.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
        assert pictures, f"{path} shows no picture"


def test_conformance(tmp_path):
    pytest.importorskip("jupyter_kernel_test")
    suite = tmp_path / "conformance.py"
    suite.write_text(
        """
import unittest
import jupyter_kernel_test as jkt


class ClkTests(jkt.KernelTests):
    kernel_name = "clk"
    language_name = "clk"
    file_extension = ".clk"
    code_hello_world = 'print("hello, world")'
    code_stderr = "fn f() -> i32 { let unused = 1\\n 2 }"
    completion_samples = [{"text": "sqr", "matches": {"sqrt", "rsqrt"}}, {"text": ":hel", "matches": {"help"}}]
    complete_code_samples = ["1", "let x = [\\n1,\\n]", ":help"]
    incomplete_code_samples = ["let x = [", "fn f() {"]
    code_generate_error = "let x = nothing"
    code_execute_result = [{"code": "6 * 7", "result": "42"}, {"code": "[1, 2]", "result": "[1 2]"}]
    code_display_data = [
        {"code": "heat(zeros(2, 2))", "mime": "image/png"},
        {"code": "plot([1.0, 2.0])", "mime": "image/svg+xml"},
    ]
    code_inspect_sample = "sqrt"
    supported_history_operations = ("tail", "range", "search")
    code_history_pattern = "6 [*]*"


unittest.main()
"""
    )
    done = subprocess.run([sys.executable, str(suite)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    print(done.stderr.strip().splitlines()[-1])


MAGIC = """
import numpy as np
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "clk")
shell.user_ns["x"] = np.arange(4, dtype="float32")
shell.run_cell("%%clk -i x -o y,n\\nkernel sq(a: [f32; N], out b: [f32; N]) threads(i: N) { b[i] = a[i] * a[i] }\\nlet y = sq(x)\\nlet n = 3\\nx[0] = 9.0")
print(shell.user_ns["y"].tolist(), shell.user_ns["n"], shell.user_ns["x"].tolist())
print(shell.run_cell("%clk nothing").success)
import clk
shell.user_ns.update(clk=clk, k=5, ratio=0.5, name="ä", flag=True, wide=np.int64(7))
shell.run_cell("%%clk -i k, ratio, name, flag, wide, x -o z, text\\nlet z = x * ratio + f32(k)\\nlet text = name")
print(shell.user_ns["z"].tolist(), shell.user_ns["text"])
shell.run_cell("r = %clk sum(z) + 1.0")
print(shell.user_ns["r"])
for cell, kind in [("%%clk -i missing\\n1", NameError), ("%clk nothing", clk.CompileError), ("%clk [1, 2][k]", clk.Fault), ("%%clk -o missing\\n1", NameError)]:
    print(type(shell.run_cell(cell).error_in_exec) , isinstance(shell.run_cell(cell).error_in_exec, kind))
print("FRAMES")
shell.run_cell("def caller():\\n    return clk.source('kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }').shift(x)\\ncaller()")
shell.run_cell("%%clk -o sq, half\\nfn half(x: f32) -> f32 { 0.5 * x }")
print("KERNEL", shell.user_ns["sq"](shell.user_ns["x"]).tolist(), shell.user_ns["half"](3), type(shell.user_ns["sq"]) is clk.Callable)
shell.run_cell("%%clk -o deep\\nconst K = 3.0\\nfn inner(x: f32) -> f32 { K * x }\\nfn deep(x: f32) -> f32 { inner(x) + 1.0 }\\nprint(deep(0.0))")
shell.run_cell("%%clk -o deep\\nfn inner(x: f32) -> f32 { 10.0 * x }")
print("REDEFINED", shell.user_ns["deep"](1.0), shell.run_cell("%clk deep(1.0)").result)
shell.run_cell("%clk print(sum(y))")
shell.run_cell("%clk :quit")
print("ENDED", type(shell.run_cell("%clk y").error_in_exec).__name__, shell.run_cell("%clk 6 * 7").result)
shell.run_cell("%clk print(7.0 * 2.0)")
"""


def test_magics(tmp_path):
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", MAGIC], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "IPYTHONDIR": str(tmp_path)})
    assert "[0.0, 1.0, 4.0, 9.0] 3 [0.0, 1.0, 2.0, 3.0]" in done.stdout, done.stdout + done.stderr
    assert "E0201" in done.stdout and "False" in done.stdout and done.stdout.rstrip().endswith("14.0")
    assert "[5.0, 5.5, 6.0, 6.5] ä\n24.0\n" in done.stdout, done.stdout
    assert done.stdout.count("> True") == 4, done.stdout
    # The traceback shows the frames of the caller, but not those of IPython.
    output = done.stdout.split("FRAMES\n")[1]
    assert "KERNEL [0.0, 1.0, 4.0, 9.0] 1.5 True" in output and "ENDED CompileError 42" in output, output
    [_, python_result, session_result] = next(line for line in output.splitlines() if line.startswith("REDEFINED")).split()
    assert python_result == session_result, output
    frames = output.split("KERNEL")[0]
    assert "in caller" in frames and "interactiveshell" not in frames and "E0601" in frames, frames


def test_kernel_specification_of_the_wheel():
    """The kernel specification in the wheel equals the one that `install` writes, except for the interpreter."""
    from clk.jupyter.__main__ import SPECIFICATION

    path = pathlib.Path(__file__).parent.parent / "clk.data/data/share/jupyter/kernels/clk/kernel.json"
    specification = json.loads(path.read_text())
    assert specification["argv"][1:] == SPECIFICATION["argv"][1:]
    assert {**specification, "argv": None} == {**SPECIFICATION, "argv": None}
