"""Entry point: `rlctl` and `python -m rlctl`."""

import gc
import sys

# What is imported stays: to look for garbage among it every 700 objects takes 7 % of a short command.
_OBJECTS_A_LOOK = 20_000


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_OBJECTS_A_LOOK)
    from rlctl.cli.main import run  # noqa: PLC0415  keeps `import rlctl` free of the command line

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
