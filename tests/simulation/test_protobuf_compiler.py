"""The simulation's memory of Protobuf's compiler gives what that gave, and nothing for other files."""

import subprocess
from typing import Any

import pytest

from headrace.formats.connect.schema import InvalidSchema
from headrace.formats.records.protobuf_schemas import compiled
from tests.simulation.protobuf_compiler import AskedOnce

_TEXT = 'syntax = "proto3"; message M { int64 id = 1; }'


class _Counted:
    """The real compiler, counted."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, *arguments: Any, **given: Any) -> subprocess.CompletedProcess[str]:
        """See `subprocess.run`."""
        self.count += 1
        done: subprocess.CompletedProcess[str] = subprocess.run(*arguments, **given)  # noqa: PLW1510  # as asked
        return done


def test_the_same_files_are_compiled_once() -> None:
    """A schema that differs, or that imports another file, is asked about of its own."""
    compiler = _Counted()
    once = AskedOnce(compiler.run)

    first, again = (compiled(_TEXT, {}, once.run) for _ in range(2))
    other = compiled(_TEXT.replace("id", "number"), {}, once.run)
    with_file = compiled(_TEXT, {"unused.proto": 'syntax = "proto3";'}, once.run)

    assert first == again == with_file
    assert other != first
    assert compiler.count == 3


def test_a_failure_is_asked_again() -> None:
    """What the machine may have been at fault for is not remembered."""
    compiler = _Counted()
    once = AskedOnce(compiler.run)

    for _ in range(2):
        with pytest.raises(InvalidSchema):
            compiled("no schema", {}, once.run)

    assert compiler.count == 2
