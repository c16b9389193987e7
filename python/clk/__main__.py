"""The command line: `clk`, and `python -m clk`."""

import sys

from ._clk import command_line


def main() -> None:
    """Runs the command line and exits the process without finalizing Python, since threads may still use libraries."""
    sys.stdout.flush()
    sys.stderr.flush()
    import os

    os._exit(command_line(["clk", *sys.argv[1:]], [sys.executable, "-m", "clk"]))


if __name__ == "__main__":
    main()
