"""`python -m clk.jupyter install` tells Jupyter of the kernel; with `-f FILE`, Jupyter starts it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile

#: What Jupyter has to know of the kernel. This interpreter is the one that has the package.
SPECIFICATION = {
    "argv": [sys.executable, "-m", "clk.jupyter", "-f", "{connection_file}"],
    "display_name": "Clk",
    "language": "clk",
    "interrupt_mode": "signal",
}


def install(arguments: list[str]) -> None:
    """Writes the specification where Jupyter looks for kernels."""
    from jupyter_client.kernelspec import KernelSpecManager

    parser = argparse.ArgumentParser(prog="python -m clk.jupyter install", description=install.__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--sys-prefix", action="store_true", help="in this environment (the default in a virtual one)")
    where.add_argument("--user", action="store_true", help="for this user")
    where.add_argument("--prefix", help="below this folder")
    given = parser.parse_args(arguments)
    in_environment = given.sys_prefix or (sys.prefix != sys.base_prefix and not given.user)
    prefix = given.prefix or (sys.prefix if in_environment else None)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(SPECIFICATION, file, indent=2)
        place = KernelSpecManager().install_kernel_spec(folder, "clk", user=prefix is None, prefix=prefix)
    print(f"the kernel Clk is in {place}")


def main() -> None:
    if sys.argv[1:2] == ["install"]:
        return install(sys.argv[2:])
    from ipykernel.kernelapp import IPKernelApp

    from . import ClkKernel

    IPKernelApp.launch_instance(kernel_class=ClkKernel)


if __name__ == "__main__":
    main()
