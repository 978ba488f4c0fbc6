"""Parquet files as other writers make them: Arrow's, with the schema of their footer changed."""

import io
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.parquet_thrift import BINARY, BYTE, I32, STRUCT, Struct, ThriftReader, struct_bytes

# Values of parquet.thrift.
ENUM, MAP, MAP_KEY_VALUE, INTERVAL = 4, 1, 2, 21
LOGICAL_MAP, LOGICAL_ENUM, LOGICAL_NULL, LOGICAL_VARIANT = 2, 4, 11, 16


def written(table: Any, **how: Any) -> bytes:
    """A table as Arrow writes it."""
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    return out.getvalue()


def refooted(content: bytes, change: Callable[[Struct], None]) -> bytes:
    """The file with FileMetaData changed."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = ThriftReader(content[-8 - length : -8], bytes_max=length).struct()
    change(footer)
    changed = struct_bytes(footer)
    return content[: -8 - length] + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def elements(footer: Struct) -> list[Struct]:
    """The schema of a footer."""
    found: list[Struct] = footer[2][1][1]
    return found


def element(footer: Struct, name: str) -> Struct:
    """The first element of the schema that is called so."""
    return next(each for each in elements(footer) if each[4][1] == name.encode())


def annotated(column: str, converted: int, logical: int | None) -> Callable[[Struct], None]:
    """A change that gives a column another meaning."""

    def change(footer: Struct) -> None:
        found = element(footer, column)
        found[6] = (I32, converted)
        found.pop(10, None)
        if logical is not None:
            found[10] = (STRUCT, {logical: (STRUCT, {})})

    return change


def annotated_variant(column: str) -> Callable[[Struct], None]:
    """A change that makes a group a variant."""

    def change(footer: Struct) -> None:
        element(footer, column)[10] = (STRUCT, {LOGICAL_VARIANT: (STRUCT, {1: (BYTE, 1)})})

    return change


def renamed(names: dict[str, str]) -> Callable[[Struct], None]:
    """A change that gives columns other names."""

    def change(footer: Struct) -> None:
        for before, after in names.items():
            element(footer, before)[4] = (BINARY, after.encode())

    return change


def presto_map(
    rows: Sequence[list[tuple[Any, Any]] | None],
    *,
    key: Any = None,
    value: Any = None,
    converted: int = MAP,
    logical: int | None = LOGICAL_MAP,
) -> bytes:
    """A map `m` whose keys are optional, as Presto and Athena write it."""
    entry = pa.struct([("key", key or pa.string()), ("value", value or pa.int64())])
    kind = pa.list_(pa.field("element", entry, nullable=False))
    entries = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    content = written(pa.table({"m": pa.array(entries, kind)}), store_schema=False)

    def change(footer: Struct) -> None:
        annotated("m", converted, logical)(footer)
        found = elements(footer)
        at = next(index for index, each in enumerate(found) if each[4][1] == b"m")
        # A required group adds no level: without it the entries are the repeated group's own fields.
        found[at + 1] |= {4: (BINARY, b"key_value"), 5: (I32, 2)}
        del found[at + 2]

    return refooted(content, change)


def mutated(stored: bytes, rng: random.Random) -> bytes:
    """The file cut off, overwritten somewhere, or with some bytes changed, more often in its footer."""
    content = bytearray(stored)
    match rng.randrange(4):
        case 0:
            del content[rng.randrange(len(content)) :]
        case 1:
            at = rng.randrange(len(content))
            content[at : at + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
        case _:
            for _ in range(rng.randint(1, 6)):
                # Footers hold the numbers that hurt.
                low = 0 if rng.random() < 0.5 else len(content) * 3 // 4
                content[rng.randrange(low, len(content))] = rng.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
                )
    return bytes(content)
