"""Clk as a peer for the driver of the CPU suite: Prep(kernel, size) with build, run, reset and out.

Add this folder to PYTHONPATH in addition to the suite; CLK names the binary [default: this repository's release build], CLK_WORKERS its threads.
"""
import os
import shutil
import subprocess
import tempfile
import weakref

import numpy as np

import common
import programs

OPTIONS = [f"--workers={os.environ['CLK_WORKERS']}"] if "CLK_WORKERS" in os.environ else []


def version():
    return subprocess.run([programs.CLK, "--version"], capture_output=True, text=True, check=True).stdout.strip()


class Prep:
    def __init__(self, kernel, size):
        self.kernel, self.size, self.timer = kernel, size, None
        self.folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, self.folder, True)
        for name, value in common.inputs(kernel, size).items():
            np.save(os.path.join(self.folder, f"{name}.npy"), value)

    def build(self):
        path = programs.script(self.folder, "bench.clk", programs.bench(self.kernel, self.size))
        self.timer = programs.Timer(path, "run", OPTIONS, self.folder)
        self.timer.measure(0)

    def run(self, reps):
        return self.timer.measure(reps)

    def reset(self):
        """Does nothing, since `out` runs a separate program that starts from the inputs."""

    def out(self):
        programs.run(self.folder, "once.clk", programs.once(self.kernel, self.size), OPTIONS)
        result = np.load(os.path.join(self.folder, "out.npy"))
        return result[:, :3] if self.kernel == "nbody" else result

    def __del__(self):
        if self.timer:
            self.timer.end()
