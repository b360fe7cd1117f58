"""Entry point: `rlctl` and `python -m rlctl`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from rlctl.cli.main import run  # noqa: PLC0415  keeps `import rlctl` free of the command line

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
