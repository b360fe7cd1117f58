"""Entry point: `rlctl` and `python -m rlctl`."""

import gc
import os
import sys

# By default Python searches for garbage after every 700 new objects. Imported modules are never garbage, but during a
# short command these searches go through them and take 7 % of the time.
_GC_THRESHOLD = 20_000
_OUT_OF_MEMORY = b"rlctl: not enough memory to start\n  hint: set `ulimit -v unlimited`, or free memory\n"
_NO_OPERATOR = "rlctl: the package {} is not installed\n  hint: pip install 'rlctl[operator]'\n"


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_GC_THRESHOLD)
    try:
        code = _run()
    except MemoryError:
        # The usual error output would need more memory, so this text is prepared in advance.
        os.write(2, _OUT_OF_MEMORY)
        code = 6
    # At exit Python would search every imported module for garbage, which takes a tenth of the time of `status`. Python
    # does not search frozen objects.
    gc.freeze()
    sys.exit(code)


def _run() -> int:
    from rlctl.cli.streams import prepare  # noqa: PLC0415  keeps `import rlctl` free of the command line

    prepare()
    try:
        from rlctl.cli.main import run  # noqa: PLC0415  likewise
    except ModuleNotFoundError as missing:
        # A service that uses only rlctl.limiter installs rlctl without the extra `operator`. The packages of the
        # command line are then missing.
        if missing.name is None or missing.name.startswith("rlctl"):
            raise
        sys.stderr.write(_NO_OPERATOR.format(missing.name))
        return 5
    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
