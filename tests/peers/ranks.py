#!/usr/bin/env python3
"""Several processes on GPUs of one machine: `clk run --ranks` over NCCL, compared with torch.distributed.

    CLK=path/to/clk python3 tests/peers/ranks.py [RANKS]

Needs as many GPUs as ranks (2 unless said otherwise), and NCCL; torch is optional. It checks
1. all collectives of all types against one rank, over NCCL (and without the note that values go through the host);
2. that a collective mismatch over NCCL is an error with both lines, and a killed rank ends the others;
3. the time of `all_reduce` of 1 GiB, compared with torch's with the same library;
4. the time of a training step on one and on all ranks.
Times are differences between long and short runs, so they exclude the time to start.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CLK = os.environ.get("CLK", "clk")
FAILED = []


def clk(ranks, script, *arguments, limit=600):
    command = [CLK, "run", "--device", "gpu", "--ranks", str(ranks), str(script), *map(str, arguments)]
    begin = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    return ran, time.monotonic() - begin


def check(name, holds, ran=None):
    print(f"{'ok    ' if holds else 'FAILED'} {name}", flush=True)
    if not holds:
        FAILED.append(name)
        if ran is not None:
            print(ran.returncode, ran.stdout, ran.stderr, flush=True)


def per_turn(ranks, script, few, many, *arguments):
    """Returns the seconds of one iteration: the median of three differences."""
    found = []
    for _ in range(3):
        times = []
        for turns in (few, many):
            ran, seconds = clk(ranks, script, *arguments, turns)
            if ran.returncode != 0:
                check(f"{script} on {ranks}", False, ran)
                return float("nan")
            times.append(seconds)
        found.append((times[1] - times[0]) / (many - few))
    return sorted(found)[1]


def torch_all_reduce(ranks, count):
    text = f"""
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
x = torch.ones({count}, device="cuda")
for _ in range(5): dist.all_reduce(x)
torch.cuda.synchronize(); dist.barrier()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
for _ in range(100): dist.all_reduce(x)
end.record(); torch.cuda.synchronize()
if rank == 0: print("seconds", begin.elapsed_time(end) * 1e-3 / 100, torch.cuda.nccl.version())
dist.destroy_process_group()
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(text)
        file.flush()
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", file.name]
        environment = {**os.environ, "NCCL_NVLS_ENABLE": "0"}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    for line in ran.stdout.splitlines():
        if line.startswith("seconds"):
            print("       torch:", line)
            return float(line.split()[1])
    print("       torch says nothing:", ran.stderr[-500:])
    return None


def endings(ranks):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        script = folder / "differ.clk"
        script.write_text(
            "let x = ones(1000000)\nlet warm = all_reduce(x)\nif rank() == 0 {\n    print(sum(all_reduce(x)))\n} else {\n"
            "    print(sum(all_gather(x)))\n}\n"
        )
        ran, seconds = clk(ranks, script, limit=120)
        both = "differ.clk:4" in ran.stderr and "rank 1 is here" in ran.stderr and "E0550" in ran.stderr
        check(f"different calls are an error with both lines ({seconds:.1f} s)", ran.returncode == 1 and both, ran)
        check("nothing is printed of them", ran.stdout == "", ran)
        script = folder / "killed.clk"
        script.write_text(
            "let x = ones(1000000)\nlet warm = sum(all_reduce(x))\nwrite_text(\"{rank()}.txt\", \"here\")\n"
            "if rank() == 1 { loop { } }\nprint(sum(all_reduce(x)))\n"
        )
        command = [CLK, "run", "--device", "gpu", "--ranks", str(ranks), str(script)]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        while not all((folder / f"{rank}.txt").exists() for rank in range(ranks)) and started.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5)  # so that rank 0 has begun its exchange
        children = subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True).stdout.split()
        for child in children:
            if b"CLK_RANK=1\0" in pathlib.Path(f"/proc/{child}/environ").read_bytes():
                os.kill(int(child), signal.SIGKILL)
        begin = time.monotonic()
        try:
            out, err = started.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            started.kill()
            out, err = started.communicate()
        seconds = time.monotonic() - begin
        said = "rank 1 has ended" in err and out == ""
        check(f"a rank that is killed ends the others ({seconds:.1f} s)", said and seconds < 10 and started.returncode == 137)
        if not said:
            print(out, err)


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    ran, _ = clk(ranks, HERE / "ranks_collectives.clk")
    wanted = sorted(f"rank {rank} of {ranks} is well" for rank in range(ranks))
    check("collectives", ran.returncode == 0 and sorted(ran.stdout.splitlines()) == wanted, ran)
    check("over NCCL", "through the host" not in ran.stderr, ran)
    endings(ranks)
    count = 1 << 28
    own = per_turn(ranks, HERE / "ranks_reduce.clk", 50, 350, count)
    moved = 2 * (ranks - 1) / ranks * 4 * count
    print(f"       all_reduce of 1 GiB: {own * 1e3:.3f} ms, {moved / own / 1e9:.0f} GB/s of the bus")
    theirs = torch_all_reduce(ranks, count)
    if theirs:
        check(f"{theirs / own:.2f} of torch's speed", theirs / own >= 0.9)
    arguments = (16384, 4096)
    one = per_turn(1, HERE / "ranks_train.clk", 20, 220, *arguments)
    all_ = per_turn(ranks, HERE / "ranks_train.clk", 20, 220, *arguments)
    check(f"training: {one * 1e3:.2f} ms on one, {all_ * 1e3:.2f} ms on {ranks}: {one / all_:.2f}", one / all_ >= 0.9 * ranks)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
