"""Runs the OpenCL version of a program. A line of standard input is `save`, or a number of runs: the answer is the seconds per run.

    opencl.py PROGRAM FOLDER

FOLDER has the inputs as .npy files; `save` writes the results there as opencl_NAME.bin. The first run includes the compilation.
OPENCL_LIBRARY names the library to load [default: libOpenCL.so.1].
"""
import ctypes
import os
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.dirname(HERE)]
from cases import CASES  # noqa: E402
from compare import read_npy  # noqa: E402

OPTIONS = ["-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt"]
DEVICE_NAME, BUILD_LOG, READ_WRITE, CPU = 0x102B, 0x1183, 1, 2


class Queue:
    """The first CPU device, with the buffers of one program."""

    def __init__(self, name, case, folder):
        self.name, self.case, self.folder = name, case, folder
        self.cl = ctypes.CDLL(os.environ.get("OPENCL_LIBRARY", "libOpenCL.so.1"))
        for function in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateProgramWithSource", "clCreateKernel"):
            getattr(self.cl, function).restype = ctypes.c_void_p
        self.device = ctypes.c_void_p(self.cpu())
        self.context = self.created("clCreateContext", None, 1, ctypes.byref(self.device), None, None)
        self.queue = self.created("clCreateCommandQueue", self.context, self.device, ctypes.c_ulong(0))
        self.program, self.kernels, self.buffers, self.sizes = None, {}, {}, {}
        for buffer in case.inputs:
            self.allocate(buffer, read_npy(os.path.join(folder, f"{buffer}.npy")))
        for buffer, size in case.room.items():
            self.allocate(buffer, bytearray(size))

    def cpu(self):
        count, platforms, device = ctypes.c_uint(), (ctypes.c_void_p * 8)(), ctypes.c_void_p()
        self.cl.clGetPlatformIDs(8, platforms, ctypes.byref(count))
        for platform in platforms[:count.value]:
            if self.cl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_ulong(CPU), 1, ctypes.byref(device), None) == 0:
                return device.value
        raise SystemExit("no OpenCL platform with a CPU device")

    def device_name(self):
        text = ctypes.create_string_buffer(200)
        self.cl.clGetDeviceInfo(self.device, DEVICE_NAME, ctypes.c_size_t(200), text, None)
        return text.value.decode().strip()

    def created(self, function, *arguments):
        code = ctypes.c_int()
        made = getattr(self.cl, function)(*arguments, ctypes.byref(code))
        self.ensure(code.value, function)
        return ctypes.c_void_p(made)

    @staticmethod
    def ensure(code, what):
        if code:
            raise RuntimeError(f"{what}: OpenCL error {code}")

    def allocate(self, buffer, content):
        size = ctypes.c_size_t(len(content))
        made = self.created("clCreateBuffer", self.context, ctypes.c_ulong(READ_WRITE), size, None)
        pointer = (ctypes.c_char * len(content)).from_buffer(content)
        self.ensure(self.cl.clEnqueueWriteBuffer(self.queue, made, 1, ctypes.c_size_t(0), size, pointer, 0, None, None), buffer)
        self.buffers[buffer], self.sizes[buffer] = made, len(content)

    def build(self):
        with open(os.path.join(HERE, "kernels.cl"), "rb") as f:
            source = ctypes.c_char_p(f.read())
        self.program = self.created("clCreateProgramWithSource", self.context, 1, ctypes.byref(source), None)
        options = " ".join(OPTIONS + [f"-D{self.name.upper()}"]).encode()
        code = self.cl.clBuildProgram(self.program, 1, ctypes.byref(self.device), options, None, None)
        if code:
            log = ctypes.create_string_buffer(20_000)
            self.cl.clGetProgramBuildInfo(self.program, self.device, BUILD_LOG, ctypes.c_size_t(20_000), log, None)
            raise RuntimeError(log.value.decode())

    def kernel(self, name, arguments):
        """Returns a kernel with these arguments: names of buffers, integers, or floats."""
        key = (name, arguments)
        if key not in self.kernels:
            made = self.created("clCreateKernel", self.program, name.encode())
            for i, a in enumerate(arguments):
                value = self.buffers[a] if isinstance(a, str) else ctypes.c_int(a) if isinstance(a, int) else ctypes.c_float(a)
                size = ctypes.c_size_t(ctypes.sizeof(value))
                self.ensure(self.cl.clSetKernelArg(made, i, size, ctypes.byref(value)), f"argument {i} of {name}")
            self.kernels[key] = made
        return self.kernels[key]

    def enqueue(self, name, threads, block, *arguments):
        sizes = ctypes.c_size_t * len(threads)
        self.ensure(self.cl.clEnqueueNDRangeKernel(self.queue, self.kernel(name, arguments), len(threads), None, sizes(*threads),
                                                   sizes(*block), 0, None, None), name)

    def copy(self, source, target, size=None):
        size = ctypes.c_size_t(size or self.sizes[source])
        zero = ctypes.c_size_t(0)
        self.ensure(self.cl.clEnqueueCopyBuffer(self.queue, self.buffers[source], self.buffers[target], zero, zero, size, 0, None, None),
                    "copy")

    def fill(self, buffer, pattern, size):
        self.ensure(self.cl.clEnqueueFillBuffer(self.queue, self.buffers[buffer], pattern, ctypes.c_size_t(len(pattern)),
                                                ctypes.c_size_t(0), ctypes.c_size_t(size), 0, None, None), "fill")

    def read(self, buffer):
        content = ctypes.create_string_buffer(self.sizes[buffer])
        self.ensure(self.cl.clEnqueueReadBuffer(self.queue, self.buffers[buffer], 1, ctypes.c_size_t(0),
                                                ctypes.c_size_t(self.sizes[buffer]), content, 0, None, None), "read")
        return content.raw

    @staticmethod
    def rounded(x):
        """Returns the nearest 32-bit float."""
        return struct.unpack("f", struct.pack("f", x))[0]

    def measure(self, runs):
        start = time.perf_counter()
        if not self.program:
            self.build()
        for _ in range(runs):
            self.case.launch(self)
            self.ensure(self.cl.clFinish(self.queue), "finish")
        return (time.perf_counter() - start) / max(runs, 1)

    def save(self):
        for buffer in self.case.results:
            with open(os.path.join(self.folder, f"opencl_{buffer}.bin"), "wb") as f:
                f.write(self.read(buffer))


def main():
    name, folder = sys.argv[1:]
    queue = Queue(name, CASES[name], folder)
    for line in sys.stdin:
        if line.strip() == "save":
            queue.save()
            print("saved", flush=True)
        elif line.strip() == "device":
            print(queue.device_name(), flush=True)
        else:
            print(f"{queue.measure(int(line)):e}", flush=True)


if __name__ == "__main__":
    main()
