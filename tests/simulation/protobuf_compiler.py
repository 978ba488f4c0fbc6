"""Protobuf's compiler, a real process of 0.1 s: asked once about the same files, which alone decide."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.formats.records import protobuf_schemas

_Files = tuple[tuple[str, bytes], ...]


class AskedOnce:
    """`subprocess.run` of protoc, which remembers what it made of which files."""

    def __init__(self, run: protobuf_schemas.Run = subprocess.run) -> None:
        self._process: Final = run
        self._answers: Final[dict[_Files, tuple[subprocess.CompletedProcess[str], bytes]]] = {}

    def run(self, argv: Sequence[str], *, cwd: Path, **given: Any) -> subprocess.CompletedProcess[str]:
        """See `subprocess.run`; a failure is not remembered, which may have been the machine's."""
        paths = (one for one in sorted(cwd.rglob("*")) if one.is_file())
        files = tuple((str(one.relative_to(cwd)), one.read_bytes()) for one in paths)
        found = cwd / protobuf_schemas._FOUND
        if files not in self._answers:
            done = self._process(argv, cwd=cwd, **given)
            if done.returncode != 0:
                return done
            self._answers[files] = done, found.read_bytes()
        done, descriptors = self._answers[files]
        found.write_bytes(descriptors)
        return done


def ask_once() -> None:
    """Have all schemas be compiled so, once and for all."""
    once = AskedOnce()
    protobuf_schemas.ProtobufSchema.__init__.__defaults__ = (once.run,)  # its only one
    protobuf_schemas.compiled.__defaults__ = (once.run,)
