#!/usr/bin/env python3
"""Fuzzing and fault injection for `clk` that take too long for a test. Input: the binary, a duration in seconds, a seed. Output:
counts, and every input that violated a guarantee of SECURITY.md, saved to a folder. See README.md here."""

import argparse
import collections
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Timeout of every run in seconds; a run that exceeds it is a finding.
PATIENCE = 60
# Allowed exit codes: success, an error in the input, a usage error, and the signals that were sent.
ENDS = {0, 1, 2, 129, 130, 143}


def default_signals():
    """Restores the default handling of signals. A background job inherits an ignored SIGINT, so an early signal would be lost."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Soak:
    def __init__(self, clk, seconds, seed, kept):
        self.clk, self.seconds, self.kept = clk, seconds, kept
        self.random = random.Random(seed)
        self.counts = collections.Counter()
        self.findings = 0
        examples = sorted(ROOT.glob("examples/**/*.clk")) + sorted(ROOT.glob("tests/faults/*.clk"))
        self.programs = [path.read_text() for path in examples]
        self.words = sorted({word for text in self.programs for word in text.split()})
        self.environment = {**os.environ, "CLK_DEVICE": "sim", "NO_COLOR": "1"}

    def finding(self, attack, what, data):
        self.findings += 1
        path = self.kept / f"{attack}-{self.findings}"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        print(f"FINDING {attack}: {what}; kept as {path}", flush=True)

    def run(self, attack, words, data, folder, stdin=b"", limits=(), allowed=ENDS):
        """Runs a command to its end; returns its exit code."""

        def limit():
            for which, most in limits:
                resource.setrlimit(which, (most, most))

        process = subprocess.Popen(
            [self.clk, *words], cwd=folder, env=self.environment, preexec_fn=limit, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, errors = process.communicate(stdin, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.finding(attack, f"{words} does not end", data)
            return None
        self.counts[attack] += 1
        if process.returncode not in allowed:
            tail = errors.decode(errors="replace").strip().splitlines()[-3:]
            self.finding(attack, f"{words} ended with {process.returncode}: {tail}", data)
        return process.returncode

    def mutated(self, text):
        """Returns a program with a few random changes, some of them longer than a character."""
        for _ in range(self.random.randint(1, 6)):
            at = self.random.randrange(len(text) + 1)
            what = self.random.randrange(7)
            if what == 0:
                text = text[:at] + text[at + self.random.randint(1, 20):]
            elif what == 1:
                text = text[:at] + self.random.choice("(){}[]<>\"'`;:,.=+-*/%&|!^~@#\\\r\0\u00e9\u202e") + text[at:]
            elif what == 2:
                text = text[:at] + " " + self.random.choice(self.words) + " " + text[at:]
            elif what == 3:
                start = self.random.randrange(len(text) + 1)
                text = text[:at] + text[start:start + self.random.randint(1, 80)] + text[at:]
            elif what == 4:
                number = self.random.choice(["0", "-1", "2147483647", "9223372036854775807", "1e308", "0.0", "1e-400"])
                text = text[:at] + number + text[at:]
            elif what == 5:
                text = text[:at] + self.random.choice("([{") * self.random.randint(1, 300) + text[at:]
            else:
                other = self.random.choice(self.programs)
                cut = self.random.randrange(len(other) + 1)
                text = text[:at] + other[cut:cut + 200] + text[at:]
        return text

    def attack_programs(self, until):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.clk")
            while time.monotonic() < until:
                text = self.mutated(self.random.choice(self.programs)).encode(errors="replace")
                path.write_bytes(text)
                for words in (["check"], ["fmt", "--check"], ["fix", "--dry-run"], ["emit", "--stage", "ir"]):
                    self.run("programs", [*words, "a.clk"], text, folder)
                for words in (["run"], ["test"]):
                    limits = [(resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_AS, 4 << 30), (resource.RLIMIT_CPU, 30)]
                    # A program may legitimately use up its CPU time limit.
                    words = [*words, "--max-steps", "100000", "a.clk"]
                    self.run("programs", words, text, folder, limits=limits, allowed=ENDS | {-signal.SIGXCPU, -signal.SIGKILL})

    def attack_files(self, until):
        script = ("let n = 6\nlet x = reshape(arange(24), 4, 6)\nsave(\"x.npy\", x)\nsave(\"x.npz\", a = x, b = ones(3))\n"
                  "save(\"x.safetensors\", a = x, b = ones(3))\nsave(\"x.csv\", f32(x))\nimage(\"x.png\", u8(x))\n")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "make.clk").write_text(script)
            self.run("files", ["run", "make.clk"], script, folder, allowed={0})
            names = ["x.npy", "x.npz", "x.safetensors", "x.csv", "x.png"]
            good = {name: pathlib.Path(folder, name).read_bytes() for name in names}
            while time.monotonic() < until:
                name = self.random.choice(names)
                data = bytearray(good[name])
                for _ in range(self.random.randint(1, 5)):
                    at = self.random.randrange(len(data))
                    what = self.random.randrange(5)
                    if what == 0:
                        data[at] = self.random.randrange(256)
                    elif what == 1:
                        data[at:at + 4] = struct.pack("<I", self.random.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF]))
                    elif what == 2:
                        del data[at:at + self.random.randint(1, 40)]
                    elif what == 3:
                        data[at:at] = data[:self.random.randint(1, 100)]
                    else:
                        data[at:at] = b"9" * self.random.randint(1, 12)
                    if not data:
                        data = bytearray(b"0")
                data = bytes(data)
                pathlib.Path(folder, "d" + name).write_bytes(data)
                text = f"print(load(\"d{name}\"))\n"
                self.run("files", ["-e", text], data, folder, limits=[(resource.RLIMIT_AS, 4 << 30)])

    def attack_server(self, until):
        program = "kernel add(by: i32, inout x: [i32; N]) threads(i: N) { x[i] = x[i] + by }\n"
        requests = [
            b'{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": [1, 2, 3]}}', b'{"op": "list"}',
            b'{"op": "put", "arrays": {"u": [1, 2]}}', b'{"op": "get", "names": ["u"]}', b'{"op": "free", "names": ["u"]}',
            b'{"id": 7, "op": "sync"}', b'{"op": "put", "arrays": {"u": {"type": "f32", "shape": [2], "data": [1, 2]}}}']
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "k.clk").write_text(program)
            while time.monotonic() < until:
                stream = b""
                for _ in range(200):
                    data = bytearray(self.random.choice(requests))
                    for _ in range(self.random.randrange(4)):
                        at = self.random.randrange(len(data))
                        data[at:at + self.random.randrange(3)] = self.random.choice(
                            [b"", b'"', b"[", b"]", b"{", b"}", b"-1", b"1e999", b"\xff", b"\n", b"null", b"9" * 20])
                        data = data or bytearray(b"0")
                    if self.random.randrange(4) == 0:
                        header = bytes(data)
                        length = self.random.choice([len(header), len(header), len(header) + 1, 0, 1 << 40])
                        data = b"CLK\x01" + struct.pack("<IQ", length & 0xFFFFFFFF, self.random.choice([0, 0, 3, 1 << 50])) + header
                    stream += bytes(data) + b"\n"
                words = ["launch", "k.clk", "--serve", "--max-bytes", "1000000"]
                self.run("server", words, stream, folder, stdin=stream, allowed={0})
                self.counts["requests"] += 200

    def attack_editor(self, until):
        def frame(method, params, number=None):
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            if number is not None:
                message["id"] = number
            body = json.dumps(message).encode()
            return b"Content-Length: %d\r\n\r\n" % len(body) + body

        address = "file:///soak/a.clk"
        document = {"uri": address}
        while time.monotonic() < until:
            text = self.random.choice(self.programs)
            lines = text.count("\n") + 1
            stream = frame("initialize", {"capabilities": {}}, 0) + frame("initialized", {})
            stream += frame("textDocument/didOpen", {"textDocument": {**document, "languageId": "clk", "version": 1, "text": text}})
            for number in range(1, 60):
                spot = lambda: {"line": self.random.randrange(lines + 2), "character": self.random.randrange(90)}
                first, second = sorted((spot(), spot()), key=lambda p: (p["line"], p["character"]))
                if self.random.randrange(6) > 0:
                    second = first
                change = {"range": {"start": first, "end": second}, "text": self.random.choice(
                    ["", "x", "\n", "\r", "(", "{ ", " let ", "\u00e9\U0001f600", self.random.choice(self.words)])}
                stream += frame("textDocument/didChange", {
                    "textDocument": {**document, "version": number + 1}, "contentChanges": [change]})
                method = self.random.choice(["hover", "completion", "definition", "signatureHelp", "documentHighlight"])
                stream += frame(f"textDocument/{method}", {"textDocument": document, "position": spot()}, number)
                self.counts["edits"] += 1
            stream += frame("shutdown", None, 1000) + frame("exit", None)
            self.run("editor", ["lsp"], stream, ".", stdin=stream, allowed={0, 1})

    def attack_kills(self, until):
        with tempfile.TemporaryDirectory() as folder:
            script = "let x = ones(2000000)\nloop { save(\"x.npy\", x); let y = sort(x); let z = x + y }\n"
            pathlib.Path(folder, "a.clk").write_text(script)
            while time.monotonic() < until:
                process = subprocess.Popen([self.clk, "run", "a.clk"], cwd=folder, env=self.environment,
                                           preexec_fn=default_signals,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(self.random.random() * 0.6)
                number = self.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
                start = time.monotonic()
                process.send_signal(number)
                try:
                    code = process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = None
                took = time.monotonic() - start
                self.counts["kills"] += 1
                self.counts["slowest kill in ms"] = max(self.counts["slowest kill in ms"], int(took * 1000))
                parts = [name for name in os.listdir(folder) if name.endswith(".part")]
                # Until clk handles signals, they have their default action.
                if code not in (128 + number, -number) or parts:
                    self.finding("kills", f"signal {number} gave {code} and left {parts}", script)
                    for name in parts:
                        os.remove(os.path.join(folder, name))

    def attack_disks(self, until):
        with tempfile.TemporaryDirectory() as folder:
            full = pathlib.Path(folder, "full")
            full.mkdir()
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full], stderr=subprocess.DEVNULL)
            if mounted.returncode != 0:
                print("skipped: a small tmpfs takes the right to mount", flush=True)
                return
            try:
                while time.monotonic() < until:
                    count = self.random.randint(1, 600_000)
                    kind = self.random.choice(["npy", "npz", "safetensors", "csv"])
                    script = f"save(\"x.{kind}\", ones({count}))\n"
                    code = self.run("disks", ["-e", script], script, full)
                    names = os.listdir(full)
                    if any(name.endswith(".part") for name in names) or (code != 0) != (f"x.{kind}" not in names):
                        self.finding("disks", f"{names} are left after {code}", script)
                    for name in names:
                        os.remove(full / name)
            finally:
                subprocess.run(["umount", full], check=False)

    def attack_memory(self, until):
        scripts = [
            "print(zeros(0, 2147483647))", "let x = ones(20000000)\nsave(\"x.npy\", x)", "let x = ones(4000, 4000)\nheat(x, \"x.png\")",
            "let x = ones(20000000)\nprint(sum(sort(x)))", "let x = ones(1500, 1500)\nprint(sum(x @ x))",
            "let x = [" + "1.5, " * 200_000 + "]", "plot(\"x.svg\", ones(20000000))", "save(\"x.csv\", ones(3000, 3000))",
            "kernel k(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }\nprint(sum(k(N = 20000000)))"]
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < until:
                script = self.random.choice(scripts)
                pathlib.Path(folder, "a.clk").write_text(script)
                most = self.random.randint(200, 1600) << 20
                # If there is not even enough memory for threads, clk reports that and exits with 70.
                self.run("memory", ["run", "--workers", "2", "a.clk"], f"{most} bytes: {script[:200]}", folder,
                         limits=[(resource.RLIMIT_AS, most)], allowed={0, 1, 70})

    def all(self, names):
        attacks = [name for name in ATTACKS if not names or name in names]
        share = self.seconds / len(attacks)
        for name in attacks:
            start = time.monotonic()
            getattr(self, f"attack_{name}")(start + share)
            print(f"{name}: {time.monotonic() - start:.0f} s, so far {dict(self.counts)}", flush=True)
        print(f"{sum(self.counts[name] for name in ATTACKS)} runs in all, {self.findings} findings: {dict(self.counts)}")
        return 1 if self.findings else 0


ATTACKS = ["programs", "files", "server", "editor", "kills", "disks", "memory"]


def main():
    parser = argparse.ArgumentParser(description="attacks on clk that take longer than a test may")
    parser.add_argument("seconds", type=float, help="how long all attacks together may take")
    parser.add_argument("attacks", nargs="*", choices=[[], *ATTACKS], help="only these")
    parser.add_argument("--clk", default=str(ROOT / "target/release/clk"), help="the binary (target/release/clk)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="the same one does the same again")
    options = parser.parse_args()
    clk = pathlib.Path(options.clk).resolve()
    if not clk.is_file():
        sys.exit(f"there is no {clk}: build it, or name another by --clk")
    kept = pathlib.Path(tempfile.mkdtemp(prefix="clk-soak-"))
    print(f"seed {options.seed}; inputs that break a promise are kept in {kept}", flush=True)
    code = Soak(str(clk), options.seconds, options.seed, kept).all(options.attacks)
    if not any(kept.iterdir()):
        kept.rmdir()
    sys.exit(code)


if __name__ == "__main__":
    main()
