"""Entry point: `rlctl` and `python -m rlctl`."""

import gc
import os
import sys

# What is imported stays: to look for garbage among it every 700 objects takes 7 % of a short command.
_OBJECTS_A_LOOK = 20_000
_OUT_OF_MEMORY = b"rlctl: not enough memory to start\n  hint: set `ulimit -v unlimited`, or free memory\n"


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_OBJECTS_A_LOOK)
    try:
        code = _run()
    except MemoryError:
        # Whatever makes a better sentence wants more memory.
        os.write(2, _OUT_OF_MEMORY)
        code = 6
    sys.exit(code)


def _run() -> int:
    from rlctl.cli.streams import prepare  # noqa: PLC0415  keeps `import rlctl` free of the command line

    prepare()
    from rlctl.cli.main import run  # noqa: PLC0415  likewise

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
