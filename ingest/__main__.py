"""`headrace`, and `python -m ingest`. This module runs on older Pythons too, to say that they are."""

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # It takes as long to load as all that is needed to answer a signal.
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the command line; on a Python that is too old, refuse in one sentence (exit code 2)."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a tree is run by whatever Python somebody has
        found = ".".join(map(str, sys.version_info[:3]))
        sys.stderr.write(
            f"Headrace needs Python 3.11 or later, and {sys.executable} is {found}: "
            "run it with a newer one.\n"
        )
        sys.exit(2)
    # What is imported stays: to look through it for garbage again and again is a part of the start.
    gc.disable()
    # What these import is written for 3.11, and takes time: a signal is answered before.
    from ingest.cli.interrupts import Interrupts, escape_what_cannot_be_shown, open_closed_streams

    open_closed_streams()
    escape_what_cannot_be_shown()
    interrupts = Interrupts(sys.argv[1:])
    interrupts.install()
    try:
        from ingest.cli.app import main as run_command_line

        run_command_line(interrupts)
    except SystemExit as ending:
        interrupts.leave(ending.code)
        raise


if __name__ == "__main__":
    main()
