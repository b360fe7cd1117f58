"""Entry point: `rlctl` and `python -m rlctl`."""

import gc
import os
import sys

# Imported modules are never garbage. A collection every 700 objects, Python's default, takes 7 % of a short command.
_GC_THRESHOLD = 20_000
_OUT_OF_MEMORY = b"rlctl: not enough memory to start\n  hint: set `ulimit -v unlimited`, or free memory\n"
_NO_OPERATOR = "rlctl: the package {} is not installed\n  hint: pip install 'rlctl[operator]'\n"


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_GC_THRESHOLD)
    try:
        code = _run()
    except MemoryError:
        # Formatting the error as usual would need more memory.
        os.write(2, _OUT_OF_MEMORY)
        code = 6
    # At exit Python would search every imported module for garbage, which takes a tenth of the time of `status`.
    gc.freeze()
    sys.exit(code)


def _run() -> int:
    from rlctl.cli.streams import prepare  # noqa: PLC0415  keeps `import rlctl` free of the command line

    prepare()
    try:
        from rlctl.cli.main import run  # noqa: PLC0415  likewise
    except ModuleNotFoundError as missing:
        # A service that uses only rlctl.limiter installs rlctl without the extra `operator`.
        if missing.name is None or missing.name.startswith("rlctl"):
            raise
        sys.stderr.write(_NO_OPERATOR.format(missing.name))
        return 5
    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
