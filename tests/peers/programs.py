"""The kernels of examples/bench as complete programs: inputs from .npy files, one run, the output in a .npy file."""
import os
import subprocess
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: The peers run on the CPU, so Clk has to as well, even if there is a GPU.
os.environ.setdefault("CLK_DEVICE", "sim")
CLK = os.environ.get("CLK", os.path.join(ROOT, "target", "release", "clk"))

FULL = dict(saxpy=1 << 24, mandel=1024, matmul=512, reduce=1 << 22, hist=1 << 22, nbody=4096, softmax=(4096, 1024), jacobi=2048,
            empty1=1, empty64k=65536)
SMALL = dict(saxpy=1 << 14, mandel=64, matmul=64, reduce=1 << 13, hist=1 << 13, nbody=512, softmax=(16, 1024), jacobi=64,
             empty1=1, empty64k=16)
TINY = dict(saxpy=1 << 12, mandel=32, matmul=32, reduce=1 << 11, hist=1 << 12, nbody=256, softmax=(2, 1024), jacobi=32,
            empty1=1, empty64k=16)
SIZES = dict(full=FULL, small=SMALL, tiny=TINY)


@dataclass
class Program:
    """A program of examples/bench: statements after the items of the file, in which {n} and {m} are the extents."""
    run: str
    out: str = ""
    setup: str = ""
    #: name -> (the type it is loaded as, the expression that creates it)
    inputs: dict = field(default_factory=dict)
    #: inputs that the run modifies
    changed: str = ""
    file: str = ""


PROGRAMS = dict(
    saxpy=Program("saxpy(ALPHA, x, y)", "y", changed="y",
                  inputs=dict(x=("f32; _", "random({n}, seed = 1)"), y=("f32; _", "random({n}, seed = 2)"))),
    mandel=Program("mandel(LIMIT, turns)", "turns", "var turns = zeros({n}, {n}, type = i32)"),
    matmul=Program("matmul(a, b, c)", "c", "var c = zeros({n}, {n})",
                   dict(a=("f32; _, _", "random({n}, {n}, seed = 1)"), b=("f32; _, _", "random({n}, {n}, seed = 2)"))),
    reduce=Program("block_sums(x, sums)\ntotal(sums, sum)", "sum", "var sums = zeros({n} / 256)\nvar sum = zeros(1)",
                   dict(x=("f32; _", "random({n}, seed = 1)"))),
    hist=Program("hist(d, bins)", "bins", "var bins = zeros(256, type = u32)", dict(d=("u8; _", "samples({n})"))),
    nbody=Program("step_bodies(DT, SOFT, here, speed, p_next, v_next)", "unpack(v_next)",
                  "let here = pack(p)\nlet speed = pack(v)\nvar p_next = here\nvar v_next = speed",
                  dict(p=("f32; _, _", "random({n}, 4, seed = 1)"), v=("f32; _, _", "zeros({n}, 4)"))),
    softmax=Program("softmax(x, y)", "y", "var y = zeros({n}, {m})",
                    dict(x=("f32; _, _", "20.0 * random({n}, {m}, seed = 1) - 10.0"))),
    jacobi=Program("for _ in 0..5 {{\n    sweep(a, b)\n    sweep(b, a)\n}}", "a", "var b = a",
                   dict(a=("f32; _, _", "random({n}, {n}, seed = 1)")), changed="a"),
    empty1=Program("empty(none, {n})", setup="let none = [0]", file="empty"),
    empty64k=Program("empty(none, {n})", setup="let none = [0]", file="empty"),
)


def extents(kernel, size):
    n = SIZES[size][kernel]
    return dict(n=n, m=0) if isinstance(n, int) else dict(n=n[0], m=n[1])


def start(kernel):
    """Returns the items of the file, which precede its tests. (Running the file would also create its large arrays.)"""
    path = os.path.join(ROOT, "examples", "bench", (PROGRAMS[kernel].file or kernel) + ".clk")
    with open(path) as f:
        return f.read().split('\ntest "')[0] + "\n"


def maker(kernel, size):
    """Returns a script that writes the inputs."""
    e = extents(kernel, size)
    lines = (f'save("{name}.npy", {how.format(**e)})\n' for name, (_, how) in PROGRAMS[kernel].inputs.items())
    return start(kernel) + "".join(lines)


def loader(kernel, size):
    """Returns the beginning of a script: it loads the inputs from their files and allocates the output."""
    p = PROGRAMS[kernel]
    lines = ((f'{"var" if name in p.changed else "let"} {name}: [{ty}] = load("{name}.npy")\n')
             for name, (ty, _) in p.inputs.items())
    return start(kernel) + "".join(lines) + p.setup.format(**extents(kernel, size)) + "\n"


def once(kernel, size):
    p = PROGRAMS[kernel]
    save = f'save("out.npy", {p.out})\n' if p.out else ""
    return loader(kernel, size) + p.run.format(**extents(kernel, size)) + "\n" + save


def bench(kernel, size):
    body = PROGRAMS[kernel].run.format(**extents(kernel, size))
    return loader(kernel, size) + f'bench "run" {{\n{body}\n}}\n'


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def run(folder, name, text, options=()):
    path = script(folder, name, text)
    ran = subprocess.run([CLK, *options, "run", path], cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)


class Timer:
    """A `clk bench --on-demand` process, which runs the bench on request."""

    def __init__(self, path, name, options=(), folder=None):
        words = [CLK, *options, "bench", path, "--on-demand", "--filter", name]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        bufsize=1, cwd=folder)

    def measure(self, runs):
        """Returns the seconds per run."""
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().strip() or "clk ended")
        return float(line)

    def cpu(self):
        """Returns the CPU time of its threads in seconds (Linux)."""
        folder = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{folder}/{t}/schedstat").read().split()[0]) for t in os.listdir(folder)) / 1e9

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()
