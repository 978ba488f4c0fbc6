"""Schemas of Protobuf, compiled from the text that registries have, and what Kafka Connect makes of them.

The compiler is protoc itself (grpcio-tools), in a process of its own: a text from outside cannot end ours.
"""

import errno
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from headrace.formats.avro_schema import FIELDS_MAX, TOO_MANY_FIELDS
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectField,
    ConnectSchema,
    InvalidSchema,
    Type,
)
from headrace.model.errors import SourceUnavailable

# With a question to the registry before it below the 105 s after which a silent task is given up.
_SECONDS: Final = 30
_MAIN: Final = "headrace_schema.proto"
_FOUND: Final = "found.set"
# What the names of a schema's files alone can be wrong in.
_OF_NAMES: Final = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP})
# Of itself, at a text: it would come again. Other signals come from elsewhere.
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})
# What C++ says before it aborts. Schemas may name types and files so, but begin no line with it.
_ABORTS: Final = ("terminate called", "libc++abi")
Run = Callable[..., "subprocess.CompletedProcess[str]"]
_WORDS: Final = 300
# Files that schemas import without a reference: Confluent's, and Google's common types.
_BUILT_IN: Final = (
    "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
    "google.protobuf.timestamp_pb2",
    "google.protobuf.duration_pb2",
    "google.protobuf.wrappers_pb2",
    "google.protobuf.descriptor_pb2",
    *(f"google.type.{name}_pb2" for name in ("calendar_period", "color", "date", "datetime", "dayofweek")),
    *(f"google.type.{name}_pb2" for name in ("decimal", "expr", "fraction", "interval", "latlng")),
    *(f"google.type.{name}_pb2" for name in ("localized_text", "money", "month", "phone_number")),
    *(f"google.type.{name}_pb2" for name in ("postal_address", "quaternion", "timeofday")),
)
_PREFIX: Final = "io.confluent.connect.protobuf."
_SHORT: Final = {"int8": Type.INT8, "int16": Type.INT16}
# By the numbers of FieldDescriptor.Type that their values have.
_WRAPPERS: Final = {
    "google.protobuf.DoubleValue": 1,
    "google.protobuf.FloatValue": 2,
    "google.protobuf.Int64Value": 3,
    "google.protobuf.UInt64Value": 4,
    "google.protobuf.Int32Value": 5,
    "google.protobuf.BoolValue": 8,
    "google.protobuf.StringValue": 9,
    "google.protobuf.BytesValue": 12,
    "google.protobuf.UInt32Value": 13,
}


class ProtobufSchema:
    """One compiled schema."""

    def __init__(self, text: str, files: Mapping[str, str], run: Run = subprocess.run) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        found = compiled(text, files, run)
        for file in found.file:
            self._pool.Add(file)
        self._file = self._pool.FindFileByName(_MAIN)
        self._names = [each.name for each in found.file[-1].message_type]

    def message(self, place: tuple[int, ...]) -> Any:
        """The descriptor of the message at a place; InvalidSchema where there is none."""
        try:
            found = self._file.message_types_by_name[self._names[place[0]]]
            for index in place[1:]:
                # Without those that maps are made of, as Java counts them.
                found = [each for each in found.nested_types if not each.GetOptions().map_entry][index]
        except IndexError:
            raise InvalidSchema(f"it has no message at the place {list(place)}") from None
        return found

    def numbered(self, number: int) -> Any:
        """The descriptor of a message by AWS Glue's number of it; InvalidSchema where there is none.

        They count in the order of their full names, those in others and those of maps too.
        """
        found = self._by_name()
        if not 0 <= number < len(found):
            raise InvalidSchema(f"it has no message with the number {number}")
        return found[number]

    def number(self, message: Any) -> int:
        """AWS Glue's number of a message."""
        return [each.full_name for each in self._by_name()].index(message.full_name)

    def _by_name(self) -> list[Any]:
        found = list(self._file.message_types_by_name.values())
        for each in found:
            found += each.nested_types
        return sorted(found, key=lambda each: str(each.full_name))


def compiled(text: str, files: Mapping[str, str], run: Run = subprocess.run) -> Any:
    """The descriptors of a schema and of all that it imports, its own last; takes 0.1 s at first.

    InvalidSchema where protoc says so; SourceUnavailable where it came to no end, or there was no room.
    """
    from google.protobuf import descriptor_pb2

    found: Any = descriptor_pb2.FileDescriptorSet.FromString(_descriptors(text, tuple(files.items()), run))
    return found


@lru_cache(maxsize=8)
def _descriptors(text: str, files: tuple[tuple[str, str], ...], run: Run) -> bytes:
    """What protoc makes of the last few schemas, which nothing but their texts decides.

    Each slot, and each batch of a query, that begins in this process asks for the same ones.
    """
    try:
        with TemporaryDirectory(prefix="headrace-proto-") as folder:
            home = Path(folder)
            (home / "built-in.set").write_bytes(_built_in())
            _write(home, {**dict(files), _MAIN: text})
            _compile(home, run)
            return (home / _FOUND).read_bytes()
    except OSError as error:
        # No more processes, memory or disk.
        raise _no_answer(error.strerror or type(error).__name__) from error


def _write(home: Path, files: Mapping[str, str]) -> None:
    for name, body in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise InvalidSchema(f"it imports {name!r}, which is no relative path")
        place = home / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(body, encoding="utf-8")
        except OSError as error:
            if error.errno not in _OF_NAMES:
                raise
            raise InvalidSchema(f"it imports {name!r:.{_WORDS}}, which can be no file") from error
        except ValueError as error:
            # A name with a zero byte, or characters that UTF-8 does not have.
            raise InvalidSchema(f"it imports {name!r:.{_WORDS}}, or says, what no file can") from error


def _compile(home: Path, run: Run) -> None:
    # Its whole path, which is the name of no file in any schema.
    found = f"{home / _FOUND}"
    argv = [sys.executable, "-m", "grpc_tools.protoc", "--descriptor_set_in=built-in.set", "-I.",
            "--include_imports", f"--descriptor_set_out={found}", _MAIN]  # fmt: skip
    try:
        done = run(argv, cwd=home, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise _no_answer(f"no end in {_SECONDS} s") from None
    if done.returncode == 0:
        return
    words = " ".join(done.stderr.replace(f"{_MAIN}:", "").replace(found, _FOUND).split())[:_WORDS]
    if -done.returncode in _CRASHES and not _aborts_without_memory(done.stderr):
        raise InvalidSchema(f"protoc crashes at it (signal {-done.returncode})")
    if done.returncode < 0:
        raise _no_answer(f"ended by the signal {-done.returncode}")
    if done.stderr.startswith(f"{found}:") or _is_memory_error(done.stderr):
        raise _no_answer(words)
    raise InvalidSchema(f"protoc does not read it ({words})")


def _aborts_without_memory(text: str) -> bool:
    return any(line.startswith(_ABORTS) and "bad_alloc" in line for line in text.splitlines())


def _is_memory_error(text: str) -> bool:
    """Whether Python, in which protoc runs, ended for want of memory: its last line says so."""
    last = text.rstrip().rpartition("\n")[2]
    return last == "MemoryError" or last.startswith("MemoryError:")


def _no_answer(why: str) -> SourceUnavailable:
    """It says nothing of the schema, by which records that follow would be bad as well."""
    return SourceUnavailable(
        f"protoc, which reads a Protobuf schema of the registry, came to no end ({why}): see that there is "
        "memory and disk. It is tried again."
    )


@cache
def _built_in() -> bytes:
    from google.protobuf import descriptor_pb2

    found: Any = descriptor_pb2.FileDescriptorSet()
    for name in _BUILT_IN:
        found.file.add().ParseFromString(import_module(name).DESCRIPTOR.serialized_pb)
    return bytes(found.SerializeToString())


def logical_schema(message: Any, field: Any, holder: Any = None) -> ConnectSchema | None:
    """The schema of messages that Connect has a type for; None for others. `holder` is the map of a value."""
    match message.full_name:
        case "google.protobuf.Timestamp":
            return ConnectSchema(type=Type.INT64, name=TIMESTAMP, version=1, optional=True)
        case "google.type.Date":
            return ConnectSchema(type=Type.INT32, name=DATE, version=1, optional=True)
        case "google.type.TimeOfDay":
            return ConnectSchema(type=Type.INT32, name=TIME, version=1, optional=True)
        case "confluent.type.Decimal":
            scale = registered_scale(field, holder) or "0"
            return ConnectSchema(
                type=Type.BYTES, name=DECIMAL, version=1, parameters=((SCALE, scale),), optional=True
            )
        case _:
            return None


def field_parameters(field: Any) -> Mapping[str, str]:
    """What Confluent's `(confluent.field_meta)` says of a field."""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from google.protobuf import descriptor_pb2

    # The pool of a schema makes options of its own classes.
    options: Any = descriptor_pb2.FieldOptions.FromString(field.GetOptions().SerializeToString())
    extension: Any = meta_pb2.field_meta  # type: ignore[attr-defined]  # made when it is imported
    return dict(options.Extensions[extension].params)


def registered_scale(field: Any, holder: Any = None) -> str | None:
    """The scale that a field's decimals have by its metadata, or by those of `holder`, the map it is of.

    A map's values have no place for metadata in the text of a schema.
    """
    own = field_parameters(field).get("scale")
    return own if own is not None or holder is None else field_parameters(holder).get("scale")


def wrapped(message: Any) -> Any:
    """The field whose value one of Google's wrappers is; None for other messages."""
    field = message.fields_by_name.get("value")
    return field if field is not None and field.type == _WRAPPERS.get(message.full_name) else None


def connect_schema(
    message: Any, path: tuple[str, ...] = (), *, keeps_wrappers: bool = False
) -> ConnectSchema:
    """The schema of a message as ProtobufConverter makes it.

    A wrapper is the value in it, wherever it is: so Confluent's `wrapper.for.raw.primitives` has it by
    default, which says "at the root" and means every message. With `keeps_wrappers` it is a message.
    InvalidSchema where it refers to itself, or has too many fields with those of messages in messages.
    """
    value = None if keeps_wrappers else wrapped(message)
    if value is not None:
        return ConnectSchema(type=_TYPES[value.type])
    if not path and _field_count(message, {}) > FIELDS_MAX:
        raise InvalidSchema(TOO_MANY_FIELDS)
    if message.full_name in path:
        raise InvalidSchema(f"{message.full_name} refers to itself, for which there are no columns")
    path = (*path, message.full_name)
    fields = [
        ConnectField(union_name(message, one), _union_schema(one, path, keeps_wrappers=keeps_wrappers))
        for one in real_oneofs(message)
    ]
    fields += [
        ConnectField(each.name, _field_schema(each, path, keeps_wrappers=keeps_wrappers))
        for each in message.fields
        if real_oneof(each) is None
    ]
    return ConnectSchema(type=Type.STRUCT, name=message.name, fields=tuple(fields))


def _field_count(message: Any, known: dict[str, int]) -> int:
    """How many fields a message has with those of messages in it; one within itself counts once."""
    if message.full_name not in known:
        known[message.full_name] = 0
        below = [_field_count(each.message_type, known) for each in message.fields if each.message_type]
        known[message.full_name] = min(len(message.fields) + sum(below), FIELDS_MAX + 1)
    return known[message.full_name]


def real_oneofs(message: Any) -> list[Any]:
    """The `oneof`s of a message, without those that `optional` makes."""
    return [each for each in message.oneofs if any(real_oneof(field) is each for field in each.fields)]


def real_oneof(field: Any) -> Any:
    """The `oneof` of a field, if it is written in one."""
    found = field.containing_oneof
    if found is None or (len(found.fields) == 1 and _is_made_for(found.name, field.name)):
        return None
    return found


def _is_made_for(oneof: str, field: str) -> bool:
    """Whether protoc calls the `oneof` of an `optional` field so: `_a`, and `X_a` where a field is `_a`."""
    return oneof.lstrip("X") == (field if field.startswith("_") else f"_{field}")


def union_name(message: Any, oneof: Any) -> str:
    """What Connect calls the field of a `oneof`."""
    return f"{oneof.name}_{[each.name for each in real_oneofs(message)].index(oneof.name)}"


def _union_schema(oneof: Any, path: tuple[str, ...], *, keeps_wrappers: bool) -> ConnectSchema:
    """A struct with a field for each member of a `oneof`, one of which is there."""
    fields = tuple(
        ConnectField(each.name, _field_schema(each, path, keeps_wrappers=keeps_wrappers).as_optional())
        for each in oneof.fields
    )
    return ConnectSchema(type=Type.STRUCT, name=f"{_PREFIX}Union.{oneof.name}", optional=True, fields=fields)


def is_map(field: Any) -> bool:
    """Whether a field is a map, which is a list of entries for Protobuf."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _field_schema(field: Any, path: tuple[str, ...], *, keeps_wrappers: bool) -> ConnectSchema:
    """The schema of a field."""
    tag = ((f"{_PREFIX}Tag", str(field.number)),)
    if is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        keys = _plain(key, path, keeps_wrappers=keeps_wrappers)
        values = _plain(value, path, keeps_wrappers=keeps_wrappers, holder=field)
        return ConnectSchema(type=Type.MAP, key=keys, value=values, parameters=tag)
    inner = _plain(field, path, keeps_wrappers=keeps_wrappers)
    if field.is_repeated:
        # Neither is ever null; Confluent's converter says that they may be.
        return ConnectSchema(type=Type.ARRAY, optional=True, items=inner.as_optional(), parameters=tag)
    schema = inner if field.is_required else inner.as_optional()
    return replace(schema, parameters=(*schema.parameters, *tag))


def _plain(field: Any, path: tuple[str, ...], *, keeps_wrappers: bool, holder: Any = None) -> ConnectSchema:
    """The schema of one value of a field; `holder` is the map whose values it is."""
    if field.enum_type is not None:
        prefix = f"{_PREFIX}Enum"
        symbols = ((f"{prefix}.{each.name}", str(each.number)) for each in field.enum_type.values)
        return ConnectSchema(type=Type.STRING, parameters=((prefix, field.enum_type.name), *symbols))
    if field.message_type is not None:
        logical = logical_schema(field.message_type, field, holder)
        if logical is not None:
            return logical.as_optional(optional=False)
        return connect_schema(field.message_type, path, keeps_wrappers=keeps_wrappers)
    kind = _TYPES[field.type]
    if kind is Type.INT32:
        kind = _SHORT.get(field_parameters(field).get("connect.type", ""), kind)
    return ConnectSchema(type=kind)


# By the numbers of FieldDescriptor.Type; 32 bits without a sign are long, as Java has none.
_TYPES: Final = {
    1: Type.FLOAT64,
    2: Type.FLOAT32,
    3: Type.INT64,
    4: Type.INT64,
    5: Type.INT32,
    6: Type.INT64,
    7: Type.INT64,
    8: Type.BOOLEAN,
    9: Type.STRING,
    12: Type.BYTES,
    13: Type.INT64,
    15: Type.INT32,
    16: Type.INT64,
    17: Type.INT32,
    18: Type.INT64,
}
