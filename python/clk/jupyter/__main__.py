"""`python -m clk.jupyter install` registers the kernel with Jupyter. Jupyter starts the kernel with `-f FILE`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile

#: Jupyter's specification of the kernel. It names this interpreter, which has the package.
SPECIFICATION = {
    "argv": [sys.executable, "-m", "clk.jupyter", "-f", "{connection_file}"],
    "display_name": "Clk",
    "language": "clk",
    "interrupt_mode": "signal",
}


def install(arguments: list[str]) -> None:
    """Installs the kernel specification, so that Jupyter finds the kernel."""
    from jupyter_client.kernelspec import KernelSpecManager

    parser = argparse.ArgumentParser(prog="python -m clk.jupyter install", description=install.__doc__)
    location = parser.add_mutually_exclusive_group()
    location.add_argument("--sys-prefix", action="store_true", help="in this environment (default in a virtual environment)")
    location.add_argument("--user", action="store_true", help="for this user")
    location.add_argument("--prefix", help="in this folder")
    options = parser.parse_args(arguments)
    in_environment = options.sys_prefix or (sys.prefix != sys.base_prefix and not options.user)
    prefix = options.prefix or (sys.prefix if in_environment else None)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(SPECIFICATION, file, indent=2)
        target = KernelSpecManager().install_kernel_spec(folder, "clk", user=prefix is None, prefix=prefix)
    print(f"installed the kernel Clk in {target}")


def main() -> None:
    if sys.argv[1:2] == ["install"]:
        return install(sys.argv[2:])
    from ipykernel.kernelapp import IPKernelApp

    from . import ClkKernel

    IPKernelApp.launch_instance(kernel_class=ClkKernel)


if __name__ == "__main__":
    main()
