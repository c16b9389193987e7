"""Tests the MCP server with the official Python client, if the package `mcp` is installed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

mcp = pytest.importorskip("mcp", reason="the package mcp is not installed")

from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402

#: The number of calls in the test of memory.
CALLS = int(os.environ.get("CLK_MCP_CALLS", "200"))

#: `x[i + 1]` is out of bounds in the last thread of every launch.
PROGRAM = """
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = x[i + 1]
}
print(shift(ones(4)))
"""
CORRECT = PROGRAM.replace("i + 1", "i")
ENDLESS = "var i = 0\nwhile true { i += 1 }"


def command():
    """Returns the command of the server: a binary that a variable names, or this package."""
    binary = os.environ.get("CLK_TEST_BINARY")
    return [binary] if binary else [sys.executable, "-m", "clk"]


def session(work, *words):
    """Runs `work` with an initialized session."""

    async def run():
        program, *arguments = command()
        environment = {name: os.environ[name] for name in ["PYTHONPATH"] if name in os.environ}
        parameters = StdioServerParameters(command=program, args=[*arguments, "mcp", *words], env=environment)
        async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as client:
            result = await client.initialize()
            await work(client, result)

    asyncio.run(asyncio.wait_for(run(), 300 + CALLS))


def field(value, snake, camel):
    """Returns a field of a message. Version 2 of the client has other names than version 1."""
    return getattr(value, snake) if hasattr(value, snake) else getattr(value, camel)


def data(result):
    return field(result, "structured_content", "structuredContent")


def test_tools_and_resources(tmp_path):
    (tmp_path / "a.clk").write_text(PROGRAM)

    async def work(client, initialized):
        assert field(initialized, "server_info", "serverInfo").name == "clk"
        tools = (await client.list_tools()).tools
        assert {"check", "run", "prove", "profile", "debug_at", "why", "explain", "doc", "import_cuda"} == {
            tool.name for tool in tools
        }
        # The client checks structured content against the output schema of the tool.
        assert all(field(tool, "output_schema", "outputSchema") for tool in tools)
        for tool, arguments, status in [
            ("check", {"source": CORRECT}, "ok"),
            ("check", {"path": "a.clk"}, "failed"),
            ("check", {"source": "let x: i32 = 1.5"}, "failed"),
            ("run", {"path": "a.clk"}, "failed"),
            ("prove", {"path": "a.clk"}, "failed"),
            ("profile", {"source": CORRECT}, "ok"),
            ("debug_at", {"path": "a.clk", "line": 3}, "ok"),
            ("why", {"source": "let x = ones(3) + 1.0", "element": "x[1]"}, "ok"),
            ("explain", {"code": "E0301"}, "ok"),
            ("doc", {"name": "sqrt"}, "ok"),
            ("import_cuda", {"source": "__global__ void k(float* x) { x[0] = 1.0f; }"}, "ok"),
        ]:
            result = await client.call_tool(tool, arguments)
            assert not field(result, "is_error", "isError"), (tool, result)
            assert data(result)["status"] == status, (tool, result)
            assert result.content[0].text
        for tool, arguments, status in [
            ("check", {}, "refused"),
            ("check", {"path": "../secret.clk"}, "refused"),
            ("run", {"source": ENDLESS, "time_limit": 0.3}, "time_limit"),
            ("explain", {"code": "E9999"}, "failed"),
        ]:
            result = await client.call_tool(tool, arguments)
            assert field(result, "is_error", "isError") and data(result)["status"] == status, (tool, result)
        with pytest.raises(Exception, match="there is no tool"):
            await client.call_tool("none", {})
        resources = (await client.list_resources()).resources
        tour = next(resource for resource in resources if str(resource.uri) == "clk://manual/tour")
        assert (await client.read_resource(tour.uri)).contents[0].text.startswith("# ")
        templates = await client.list_resource_templates()
        assert field(templates, "resource_templates", "resourceTemplates") == []
        await client.send_ping()

    session(work, "--root", str(tmp_path))


def test_progress_and_cancellation():
    async def work(client, _):
        reported = []

        async def progress(value, total, message):
            reported.append(value)

        arguments = {"source": ENDLESS, "time_limit": 1.2}
        await client.call_tool("run", arguments, progress_callback=progress)
        assert len(reported) >= 2 and reported == sorted(reported)
        # The client gives up after a timeout, and tells the server; the server then has room for other calls.
        from datetime import timedelta

        seconds = 0.5 if hasattr(client, "send_discover") else timedelta(seconds=0.5)
        with pytest.raises(Exception, match="(?i)tim"):
            await client.call_tool("run", {"source": ENDLESS}, read_timeout_seconds=seconds)
        result = await client.call_tool("run", {"source": "print(6 * 7)"})
        assert data(result)["output"] == "42\n"

    session(work, "--time", "5", "--parallel", "1")


def test_malformed_messages():
    program, *arguments = command()
    server = subprocess.Popen(
        [program, *arguments, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    lines = [b"{", b"\xff\xfe", b"[]", b"5", b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}']
    output, _ = server.communicate(b"\n".join(lines) + b"\n", timeout=60)
    types = pytest.importorskip("mcp.types", reason="the package mcp has no types")
    answers = output.splitlines()
    assert len(answers) == len(lines) and server.returncode == 0
    for answer in answers:
        error = types.JSONRPCError.model_validate_json(answer.replace(b'"id":null', b'"id":0'))
        assert error.error.code in (-32700, -32600)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured in /proc")
def test_memory_does_not_grow(capsys):
    async def work(client, _):
        def server():
            """Returns the process id of the server, which is a child of this process."""
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                    words = (status.parent / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if f"PPid:\t{os.getpid()}\n" in text and b"mcp" in words:
                    return status
            raise AssertionError("the server is not found")

        def kib(name):
            return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))

        status = server()
        before = None
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in range(CALLS):
            tool, arguments = [
                ("check", {"source": CORRECT}),
                ("explain", {"code": "E0301"}),
                ("run", {"source": "print(6 * 7)"}),
                ("doc", {"name": "sqrt"}),
            ][number % 4]
            result = await client.call_tool(tool, arguments)
            assert data(result)["status"] == "ok", result
            if number == CALLS // 10:
                before = kib("VmRSS:")
        after, descriptors = kib("VmRSS:"), len(list((status.parent / "fd").iterdir()))
        seconds = loop.time() - start
        with capsys.disabled():
            print(f"{CALLS} calls, {seconds / CALLS * 1e3:.1f} ms each; {before} KiB then {after} KiB; {descriptors} files")
        assert after < before + 4096 and descriptors < 20 and kib("Threads:") < 20

    session(work, "--parallel", "2")
