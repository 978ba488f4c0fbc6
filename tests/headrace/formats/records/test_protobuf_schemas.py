"""The compiler of Protobuf schemas in a process of its own, which may be ended at any time."""

import errno
import subprocess
from typing import Any, Final

import pytest

from headrace.formats.connect import InvalidSchema
from headrace.formats.converters.framed_converter import FramedConverter
from headrace.formats.converters.framing import ConfluentFraming
from headrace.formats.converters.registry_schemas import RegistrySchemas, SchemaText
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.records.protobuf_schemas import ProtobufSchema, Run
from headrace.model.columns import column_of
from headrace.model.errors import SourceUnavailable
from headrace.options.choices import JsonFormat

_TEXT: Final = 'syntax = "proto3"; message M { string a = 1; }'


def _ended(code: int, says: str = "") -> Run:
    return lambda argv, **_: subprocess.CompletedProcess(argv, code, "", says)


def _no_room(argv: Any, **_: Any) -> Any:
    (out,) = [each.partition("=")[2] for each in argv if each.startswith("--descriptor_set_out=")]
    return subprocess.CompletedProcess(argv, 1, "", f"{out}: No space left on device\n")


def _times_out(argv: Any, **_: Any) -> Any:
    raise subprocess.TimeoutExpired(argv, 60)


def _no_process(_argv: Any, **_: Any) -> Any:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        pytest.param(_ended(-9), "ended by the signal 9", id="killed"),
        pytest.param(_ended(-15), "ended by the signal 15", id="terminated"),
        pytest.param(_ended(-6, "terminate called .. 'std::bad_alloc'"), "ended by the signal 6", id="abort"),
        pytest.param(_ended(1, "Traceback ..\nMemoryError\n"), "MemoryError", id="memory"),
        pytest.param(_ended(1, "Traceback ..\nMemoryError: no"), "MemoryError", id="memory, with words"),
        pytest.param(_no_room, "(found.set: No space left on device)", id="disk"),
        pytest.param(_times_out, "no end in 30 s", id="timeout"),
        pytest.param(_no_process, "Resource temporarily unavailable", id="no process"),
    ],
)
def test_a_compiler_that_comes_to_no_end_says_nothing_of_the_schema(run: Run, why: str) -> None:
    """All records of the schema were bad from then on, a source's object was quarantined."""
    with pytest.raises(SourceUnavailable, match="protoc") as caught:
        ProtobufSchema(_TEXT, {}, run)

    assert why in str(caught.value)
    assert ProtobufSchema(_TEXT, {}).message((0,)).name == "M"


def test_what_was_compiled_is_not_compiled_again() -> None:
    """A slot that begins, or a query's batch, waits a tenth of a second for the compiler otherwise."""
    codes = [-9, 0, 0]
    two, one = 'syntax = "proto3"; import "one.proto"; message N { M m = 1; }', {"one.proto": _TEXT}

    def run(argv: Any, **given: Any) -> Any:
        code = codes.pop(0)
        if code:
            return subprocess.CompletedProcess(argv, code, "", "")
        return subprocess.run(argv, **given)  # noqa: PLW1510  # it is given

    with pytest.raises(SourceUnavailable):
        ProtobufSchema(_TEXT, {}, run)
    made = [ProtobufSchema(text, files, run) for text, files in ((_TEXT, {}), (_TEXT, {}), (two, one))]

    assert [each.message((0,)).name for each in made] == ["M", "M", "N"]
    assert codes == []
    # Of other files the same text is another schema.
    with pytest.raises(IndexError):
        ProtobufSchema(_TEXT, one, run)


@pytest.mark.parametrize("run", [_ended(-11), _ended(-6, "F0000 check failed"), _ended(1, 'Expected "{".')])
def test_what_would_come_again_is_the_schemas(run: Run) -> None:
    """Also a crash at it, which must not hold up a partition for ever."""
    with pytest.raises(InvalidSchema, match="protoc"):
        ProtobufSchema(_TEXT, {}, run)


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; message R { NodeMemoryError x = 1; }',
        'syntax = "proto3"; message R { bad_alloc x = 1; }',
        'syntax = "proto3"; import "MemoryError"; message R { int32 a = 1; }',
        'syntax = "proto3"; import "found.set"; message R { int32 a = 1; }',
    ],
)
def test_words_of_a_schema_are_not_those_of_a_lack(text: str) -> None:
    """A partition waited for such a schema without end."""
    with pytest.raises(InvalidSchema, match="protoc does not read it"):
        ProtobufSchema(text, {})


@pytest.mark.parametrize("name", ["OutOfMemoryError.proto", "bad_alloc.proto", "found.set"])
def test_a_warning_is_no_fault(name: str) -> None:
    """That an import is not used, which names it."""
    text = f'syntax = "proto3"; import "{name}"; message M {{ int32 a = 1; }}'
    unused = 'syntax = "proto3"; message OutOfMemoryError { int32 a = 1; }'
    assert ProtobufSchema(text, {name: unused}).message((0,)).name == "M"


def test_an_abort_is_for_want_of_memory_where_it_says_so_itself() -> None:
    """Not where a warning before it names a file so."""
    says = "headrace_schema.proto:1:1: warning: Import bad_alloc.proto is unused.\nF0000 check failed"
    with pytest.raises(InvalidSchema, match="crashes"):
        ProtobufSchema(_TEXT, {}, _ended(-6, says))


@pytest.mark.parametrize(
    "files",
    [
        {"a": "", "a/b.proto": ""},
        {"a/b.proto": "", "a": ""},
        {"x" * 300: ""},
        {"a\x00b": ""},
        {"a.proto": 'syntax = "proto3"; // \ud800'},
    ],
)
def test_names_and_texts_that_no_file_can_have_are_the_schemas(files: dict[str, str]) -> None:
    """A sink's slot ended at them, over and over."""
    with pytest.raises(InvalidSchema, match="no file"):
        ProtobufSchema(_TEXT, files)


class _Store:
    def schema(self, id_: Any) -> SchemaText:
        return SchemaText(f"schema {id_}")


def test_a_reader_that_could_not_be_made_is_made_with_the_next_records() -> None:
    """What passes is not remembered; the records wait."""
    made = []

    def make(*key_and_text: Any) -> Any:
        made.append(key_and_text)
        if len(made) == 1:
            raise SourceUnavailable("protoc came to no end.")
        raise InvalidSchema("it is none")

    framing = ConfluentFraming()
    converter = FramedConverter(
        framing, RegistrySchemas(_Store()), make, what="value", style=JsonFormat.CONNECT
    )
    records = column_of([b"\x00\x00\x00\x00\x01\x00"])
    with pytest.raises(SourceUnavailable):
        converter.convert(records, "t", RowFaults())
    for _again in range(2):
        faults = RowFaults()
        assert converter.convert(records, "t", faults) == []

    assert len(made) == 2
