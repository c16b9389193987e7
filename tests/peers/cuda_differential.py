#!/usr/bin/env python3
"""Compares CUDA kernels, compiled by nvcc, with their translation to Clk, on the same random inputs.

    cuda_differential.py prepare SOURCES OUT   # anywhere: translates each kernel of *.cu and runs it on the simulator
    cuda_differential.py run OUT               # with nvcc and a GPU: runs the original and the translation, and compares

`prepare` skips a kernel if the translation has a fault with these inputs, because the original then has undefined
behavior. `run` compiles each file whole, without contraction. `CLK` selects the binary. Both commands need NumPy.

Results of mathematical functions differ by rounding. Results of atomics and of reductions in cooperative groups depend
on an order that CUDA leaves open. So a difference is a finding only if none of these explains it.
"""

import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zlib

import numpy as np

CLK = os.environ.get("CLK", "clk")
# Lengths of arrays, in the order of the attempts.
LENGTHS = (4096, 1 << 17)
MOST_THREADS = 1 << 16
SHARED_LENGTH = 2048
# Clk type: NumPy type, C++ type
TYPES = {
    "bool": ("bool", "bool"),
    "i8": ("int8", "signed char"),
    "u8": ("uint8", "unsigned char"),
    "i16": ("int16", "short"),
    "u16": ("uint16", "unsigned short"),
    "i32": ("int32", "int"),
    "u32": ("uint32", "unsigned"),
    "i64": ("int64", "long long"),
    "u64": ("uint64", "unsigned long long"),
    "f16": ("float16", "__half"),
    "f32": ("float32", "float"),
    "f64": ("float64", "double"),
}
# The C++ names of vectors without their length.
VECTORS = {"i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int", "u32": "uint"}
VECTORS |= {"i64": "longlong", "u64": "ulonglong", "f32": "float", "f64": "double"}
HEADER = re.compile(r"^kernel (\w+)\((.*)\) grid\((.*?)\) block\((.*?)\)(?:\n    assume (.*))?", re.M)
PARAM = re.compile(r"(inout |out )?(\w+): (?:\[(\w+); (\w+)\]|(\w+))$")

HARNESS = """
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
template <typename T> static T convert(void* bytes, T*) { return *(T*)bytes; }
template <typename T> static T* convert(void* bytes, T**) {
    return (T*)bytes;
}
struct Argument { void* device; std::vector<char> host; const char* result; };
static Argument load(const char* path, bool is_array, const char* result) {
    Argument argument{nullptr, {}, result};
    FILE* file = fopen(path, "rb");
    int c;
    while ((c = fgetc(file)) != EOF) argument.host.push_back((char)c);
    fclose(file);
    if (is_array) {
        cudaMalloc(&argument.device, argument.host.size());
        cudaMemcpy(argument.device, argument.host.data(), argument.host.size(), cudaMemcpyHostToDevice);
    } else {
        argument.device = argument.host.data();
    }
    return argument;
}
template <typename... P, size_t... I>
static void invoke(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, std::vector<Argument>& a,
                   std::index_sequence<I...>) {
    kernel<<<grid, block, shared>>>(convert(a[I].device, (typename std::remove_const<P>::type*)nullptr)...);
}
template <size_t N, typename... P>
static void invoke(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, std::vector<Argument>& a) {
    static_assert(N == sizeof...(P), "the number of parameters");
    invoke(kernel, grid, block, shared, a, std::index_sequence_for<P...>());
}
// Macros of the file must not change the text above.
#define main original_main
#include "%(source)s"
#undef main
int main() {
    std::vector<Argument> a;
%(loads)s
    invoke<%(count)s>(%(kernel)s, dim3(%(grid)s), dim3(%(block)s), %(shared)s, a);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess) { printf("%%s\\n", cudaGetErrorString(error)); return 2; }
    for (auto& argument : a) {
        if (!argument.result) continue;
        cudaMemcpy(argument.host.data(), argument.device, argument.host.size(), cudaMemcpyDeviceToHost);
        FILE* file = fopen(argument.result, "wb");
        fwrite(argument.host.data(), 1, argument.host.size(), file);
        fclose(file);
    }
}
"""


def cpp_name(name, source):
    """Returns the C++ name of a translated kernel, whose template arguments are a suffix of its name."""
    source = re.sub(r"__launch_bounds__\s*\([^)]*\)", "", source)
    known = re.findall(r"__global__[^;{}]*?\b(\w+)\s*\(", source)
    fitting = [base for base in known if name == base or name.startswith(base + "_")]
    if not fitting:
        return None
    base = max(fitting, key=len)
    args = [TYPES[arg][1] if arg in TYPES else arg for arg in name[len(base) + 1 :].split("_") if arg]
    return f"{base}<{', '.join(args)}>" if args else base


def is_known(ty):
    """Returns whether inputs of a type can be generated."""
    scalar, _, lanes = ty.partition("x")
    return scalar in TYPES and (not lanes or scalar in VECTORS and lanes in "234")


def inputs(params, fixed, size, length, seed):
    """Returns the arguments: arrays of small numbers, and `size` for each integer that is not fixed."""
    random = np.random.default_rng(seed)
    values = {}
    for _, name, element, extent, scalar in params:
        base, _, lanes = (element or scalar).partition("x")
        kind = np.dtype(TYPES[base][0])
        shape = (int(extent) if extent.isdigit() else length,) if element else ()
        shape += (int(lanes),) if lanes else ()
        if kind.kind == "f":
            values[name] = (random.integers(8, 64, shape) / 64.0 + random.random(shape) / 8).astype(kind)
        elif kind.kind == "b":
            values[name] = random.integers(0, 2, shape).astype(kind)
        elif element or lanes:
            values[name] = random.integers(0, 8, shape).astype(kind)
        else:
            values[name] = kind.type(fixed.get(name, size))
    return values


def launch_of(params, extents, comments, fixed):
    """Returns the parameters of the original kernel, the values of the others, and the bytes of shared memory."""
    own, launch, shared = [], {}, 0
    axes = len([extent for extent in extents if extent.startswith("block")])
    block = [64] if axes == 1 else [8, 8] if axes == 2 else [4, 4, 4]
    for param in params:
        name = param[1]
        axis = re.fullmatch(r"(grid|block)_([xyz])", name)
        if axis and name in extents:
            launch[name] = fixed.get(name, 2 if axis[1] == "grid" else block["xyz".index(axis[2])])
        elif f"is `{name}`" in comments:
            launch[name] = SHARED_LENGTH
            shared = SHARED_LENGTH * 8
        else:
            own.append(param)
    return own, launch, shared


def prepare_kernel(text, name, params, extents, assumed, comments, folder, source):
    """Runs a translated kernel on the simulator. Returns what happened."""
    if "of the file is passed as an argument" in comments:
        return "variables of the file"
    # A translation with a constant of the launch is the kernel only for that constant.
    fixed = {key: int(value) for key, value in re.findall(r"(?:^|, )(\w+) == (\d+)(?=,|$)", assumed or "")}
    own, launch, shared = launch_of(params, extents, comments, fixed)
    if math.prod(value for key, value in launch.items() if key in extents) > MOST_THREADS:
        return "too many threads"
    files = [file for file in (folder / source).resolve().parent.iterdir() if file.suffix in (".cu", ".cuh", ".h", ".hpp")]
    called = cpp_name(name, "\n".join(file.read_text(errors="replace") for file in files))
    if called is None:
        return "unknown name"
    for length, size in itertools.product(LENGTHS, (32, 8, 100, 1)):
        values = inputs(own, fixed, size, length, zlib.crc32(f"{source}{name}".encode()))
        given = {**values, **{key: np.int32(value) for key, value in launch.items()}}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.clk").write_text(text)
        np.savez(folder / "in.npz", **given)
        words = [CLK, "launch", "kernel.clk", name, "--npz", "in.npz", "out.npz", "--check"]
        try:
            ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return "time-out"
        if ran.returncode == 0:
            break
    else:
        code = re.search(r"\b([EW]\d{4})\b", ran.stderr + ran.stdout)
        return f"fault {code[1] if code else ran.stderr[-200:]}"
    loads, results = [], {}
    for at, (prefix, name_, element, _, _) in enumerate(own):
        result = f'"p{at}.out"' if prefix else "nullptr"
        loads.append(f'    a.push_back(load("p{at}.bin", {"true" if element else "false"}, {result}));')
        if prefix:
            results[name_] = f"p{at}.out"
    if not results:
        return "no result"

    def extent(kind):
        return ", ".join(str(launch.get(f"{kind}_{axis}", 1)) for axis in "xyz")

    harness = HARNESS % {
        "source": source,
        "loads": "\n".join(loads),
        "count": len(own),
        "kernel": called,
        "grid": extent("grid"),
        "block": extent("block"),
        "shared": shared,
    }
    (folder / "harness.cu").write_text(harness)
    params = [param[1] for param in own]
    case = {"kernel": name, "source": source, "params": params, "results": results, "math": uses_math(text)}
    (folder / "case.json").write_text(json.dumps(case))
    return "prepared"


def uses_math(text):
    """Returns whether the file calls a function whose last bits may differ, or adds in any order."""
    functions = r"rsqrt|cbrt|exp\w*|log\w*|a?sinh?|a?cosh?|a?tanh?|atan2|erfc?|[lt]gamma|pow|hypot|atomic_add"
    return bool(re.search(rf"\b({functions})\(", text))


def prepare_file(path, root, out):
    """Translates a file and prepares its kernels. Returns a line for each kernel."""
    ran = subprocess.run([CLK, "import", str(path)], capture_output=True, text=True, timeout=60)
    text, lines = ran.stdout, []
    for match in HEADER.finditer(text):
        name, parameters, grid, block, assumed = match.groups()
        params = [PARAM.match(param) for param in parameters.split(", ") if param]
        if not all(param and is_known(param[3] or param[5]) for param in params):
            lines.append((name, "parameter types"))
            continue
        comments = []
        for line in reversed(text[: match.start()].rstrip("\n").split("\n")):
            if not line.startswith("// "):
                break
            comments.append(line)
        extents = re.findall(r"\w+", f"{grid}, {block}")
        folder = out / "cases" / f"{path.parent.name}-{path.stem}-{name}"
        source = f"../../sources/{path.relative_to(root)}"
        groups = [param.groups() for param in params]
        happened = prepare_kernel(text, name, groups, extents, assumed, "\n".join(comments), folder, source)
        if happened != "prepared":
            shutil.rmtree(folder, ignore_errors=True)
        lines.append((name, happened))
    return [f"{path.relative_to(root)} {name}: {happened}" for name, happened in lines]


def prepare(root, out):
    shutil.copytree(root, out / "sources", symlinks=True, dirs_exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(prepare_file, path, root, out) for path in sorted(root.rglob("*.cu"))]
        lines = []
        for future in futures:
            try:
                lines += future.result()
            except subprocess.TimeoutExpired:
                lines.append("a file: time-out")
    counts = {}
    for line in lines:
        happened = line.rsplit(": ", 1)[1]
        counts[happened] = counts.get(happened, 0) + 1
    (out / "prepared.txt").write_text("\n".join(lines) + "\n")
    for happened, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        print(f"{count:6} {happened}")


def compare(expected, actual, has_math):
    """Compares two results. Returns an outcome."""
    worst = 0.0
    for name in expected:
        x, y = expected[name].ravel(), actual[name].ravel()
        same = x == y
        if x.dtype.kind == "f":
            same |= np.isnan(x) & np.isnan(y)
            with np.errstate(all="ignore"):
                scale = np.maximum(np.abs(x), np.float64(np.nanmax(np.abs(x))) * 1e-3)
                error = np.abs(x - y) / scale
            worst = max(worst, float(np.max(np.where(same, 0, np.where(np.isfinite(error), error, np.inf)))))
        elif not same.all():
            at = int(np.flatnonzero(~same)[0])
            return f"DIFFERENT: {name}[{at}] is {y[at]}, and {x[at]} on the simulator ({(~same).sum()} elements)"
    if worst == 0:
        return "same bits"
    if worst < 1e-5 and has_math:
        return "within 1e-5, with mathematical functions or atomics"
    return f"DIFFERENT: by {worst:.3g} relative to the result"


def start(words, folder, seconds):
    """Runs a command. Returns why it failed, or `None`."""
    try:
        ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "time-out"
    return None if ran.returncode == 0 else f"failed: {(ran.stdout + ran.stderr).strip()[-300:]}"


def run_original(folder, case, inputs_, expected):
    """Compiles and runs an original kernel. Returns the outcome of the comparison."""
    # Host code may call functions of other files, which are not needed. Makefiles name folders of headers.
    words = ["nvcc", "-std=c++17", "-w", "-arch=sm_90", "-fmad=false", "-O1", "--expt-relaxed-constexpr"]
    words += ["-Xlinker", "--unresolved-symbols=ignore-all"]
    own = (folder / case["source"]).resolve().parent
    shared = [own.parent / "include", own.parent / own.name.replace("-cuda", "-sycl"), own / "include"]
    words += [f"-I{include}" for include in shared if include.is_dir()]
    why = start([*words, "-o", "harness", "harness.cu"], folder, 300)
    if why:
        (folder / "log.txt").write_text(why)
        return "not compiled"
    for at, name in enumerate(case["params"]):
        inputs_[name].tofile(folder / f"p{at}.bin")
    why = start(["./harness"], folder, 60)
    if why:
        return why
    actual = {name: np.fromfile(folder / file, expected[name].dtype) for name, file in case["results"].items()}
    return compare(expected, actual, case["math"])


def run_case(folder):
    """Runs the original and the translation on a GPU. Returns the outcomes of both comparisons."""
    case = json.loads((folder / "case.json").read_text())
    inputs_, expected = dict(np.load(folder / "in.npz")), dict(np.load(folder / "out.npz"))
    original = run_original(folder, case, inputs_, expected)
    words = [CLK, "launch", "kernel.clk", case["kernel"], "--npz", "in.npz", "gpu.npz", "--device", "gpu"]
    why = start(words, folder, 120)
    translated = why or compare(expected, dict(np.load(folder / "gpu.npz")), case["math"])
    return original, translated


def run(out):
    folders = sorted((out / "cases").iterdir())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(run_case, folders))
    for at, title in enumerate(("original kernel", "translation on the GPU")):
        counts, lines = {}, []
        for folder, outcome in zip(folders, outcomes):
            kind = outcome[at].split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
            lines.append(f"{folder.name}: {outcome[at]}")
        print(f"{title}, compared with the translation on the simulator:")
        for kind, count in sorted(counts.items(), key=lambda pair: -pair[1]):
            print(f"{count:6} {kind}")
        print("\n".join(line for line in lines if "DIFFERENT" in line or "failed" in line))
        (out / f"outcomes{at}.txt").write_text("\n".join(lines) + "\n")


def main():
    match sys.argv[1:]:
        case ["prepare", root, out]:
            prepare(pathlib.Path(root).resolve(), pathlib.Path(out).resolve())
        case ["run", out]:
            run(pathlib.Path(out).resolve())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
