"""Objects of the source's scenarios: their rows, and their bytes in each format."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.scenario import Given

Row = tuple[str, str]
"""What a row says: its number, and its text."""
Members = dict[str, Any]
WITHIN: Final = " within"
"""Behind `json`: the array is inside an object, where `json.path` finds it."""
PACKED: Final = " in "
"""After a format: objects are archives of it."""
PAD: Final = "pad"
"""A header of an object: before every third line, as JSON Lines, are so many empty ones."""
_PADDED_EACH: Final = 3
BLANK: Final = "blank"
"""A header of an object: before its lines, as JSON Lines, are so many bytes of lines of spaces."""
_BLANK_LINE: Final = b" " * 999 + b"\n"
LINES: Final = ("jsonl", "text")
"""Formats in which bad rows are kept as they are."""


def form_of(options: Mapping[str, str]) -> str:
    """The format that a configuration names."""
    archive = options.get("input.archive")
    return (
        options.get("input.format", "jsonl")
        + (WITHIN if "json.path" in options else "")
        + ("" if archive is None else PACKED + archive)
    )


def rows_of_object(given: Given) -> tuple[list[Row], int]:
    """The good rows of an object, and how many bad ones it has."""
    lines = [line.rstrip(b"\r") for line in (given.value or b"").split(b"\n")]
    good = [row for line in lines if (row := row_of(line)) is not None]
    return good, sum(1 for line in lines if line.strip()) - len(good)


def row_of(value: bytes | None) -> Row | None:
    """What a record or a line says; None for what is no row."""
    members = members_of(value)
    return None if members is None else (str(members["n"]), str(members["x"]))


def members_of(value: bytes | None) -> Members | None:
    """All that a record or a line says; None for what is no row."""
    try:
        found = json.loads(value or b"null")
        found["n"], found["x"]
    except (ValueError, TypeError, KeyError):
        return None
    return dict(found)


def rows_in(value: bytes | None) -> list[Row]:
    """The rows of a record: one, or those of an array that was read as a line."""
    row = row_of(value)
    if row is not None:
        return [row]
    try:
        found = json.loads(value or b"null")
        if isinstance(found, dict):
            found = found[_ARRAY]
        return [(str(one["n"]), str(one["x"])) for one in found]
    except (ValueError, TypeError, KeyError):
        return []


def encoded(given: Given, form: str) -> bytes:
    """The bytes of an object: lines as they are, of other formats the good rows."""
    form, _, archive = form.partition(PACKED)
    body = given.value or b""
    if archive:
        return _archived(given, form, archive, body.split(b"\n"))
    body = _padded(given, body) if form == "jsonl" else _FORMS[form](body.split(b"\n"))
    return _compressed(given, body)


def _padded(given: Given, body: bytes) -> bytes:
    """As long as the object says: a scenario that is written down is none."""
    if not given.headers:
        return body
    headers = dict(given.headers)
    if BLANK in headers:
        return _BLANK_LINE * (int(headers[BLANK] or 0) // len(_BLANK_LINE)) + body
    blank = b"\n" * int(headers[PAD] or 0)
    lines = enumerate(body.split(b"\n"))
    padded = (line if at % _PADDED_EACH else blank + line for at, line in lines)
    return b"\n".join(padded)


def _compressed(given: Given, body: bytes) -> bytes:
    if given.topic.endswith(".gz"):
        return gzip.compress(body, mtime=0)
    return bytes(cramjam.zstd.compress(body)) if given.topic.endswith(".zst") else body


def _archived(given: Given, form: str, archive: str, lines: Sequence[bytes]) -> bytes:
    """Three lines a member, after a member without any; a zip is never compressed."""
    parts = [lines[at : at + 3] for at in range(0, len(lines), 3)]
    members = [b"", *(b"\n".join(part) if form == "jsonl" else _FORMS[form](part) for part in parts)]
    named = [(f"{number}.data", body) for number, body in enumerate(members)]
    out = io.BytesIO()
    if archive == "zip" or (archive == "auto" and len(members) % 2):
        with zipfile.ZipFile(out, "w") as zipped:
            for name, body in named:
                zipped.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w") as tarred:
        for name, body in named:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tarred.addfile(info, io.BytesIO(body))
    return _compressed(given, out.getvalue())


def _rows(lines: Sequence[bytes]) -> list[Members]:
    return [row for line in lines if (row := members_of(line)) is not None]


def _texts(lines: Sequence[bytes]) -> list[Members]:
    return [{"n": row["n"], "x": row["x"]} for row in _rows(lines)]


def _avro(lines: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    fields = [{"name": "n", "type": "string"}, {"name": "x", "type": "string"}]
    schema: Any = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(out, schema, _texts(lines), sync_interval=100, sync_marker=b"0123456789abcdef")
    return out.getvalue()


def _parquet(lines: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    schema = pa.schema([("n", pa.string()), ("x", pa.string())])
    pq.write_table(pa.Table.from_pylist(_texts(lines), schema), out, row_group_size=3)
    return out.getvalue()


def _csv(lines: Sequence[bytes]) -> bytes:
    return "\r\n".join(["n,x", *(f"{row['n']},{row['x']}" for row in _texts(lines))]).encode()


def _json(lines: Sequence[bytes]) -> bytes:
    """One array, or of an odd number of rows objects with nothing between them."""
    rows = _rows(lines)
    return "".join(map(json.dumps, rows)).encode() if len(rows) % 2 else json.dumps(rows).encode()


_ARRAY: Final = "Records"


def _within(lines: Sequence[bytes]) -> bytes:
    """Two documents, each with an array beside something else."""
    rows = _rows(lines)
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    return "\n".join(json.dumps({"of": [1], _ARRAY: half, "to": None}) for half in halves).encode()


def _text(lines: Sequence[bytes]) -> bytes:
    """Lines for `text.pattern`; what is no row is none here."""
    found = ((line, row_of(line.rstrip(b"\r"))) for line in lines)
    return b"\n".join(line if row is None else f"{row[0]} {row[1]}".encode() for line, row in found)


_FORMS: Final[dict[str, Callable[[Sequence[bytes]], bytes]]] = {
    "avro": _avro,
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    f"json{WITHIN}": _within,
    "text": _text,
}
