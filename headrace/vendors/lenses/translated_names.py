"""The names of Lenses' objects as a template of ours. The offset in them is that of the last record."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.vendors.lenses.kcql import FieldPart, PartitionField, Statement


class Side(StrEnum):
    """Where numbers are padded."""

    LEFT = "left"
    RIGHT = "right"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameParts:
    """How names are made beside the statement's fields. 0 digits: not padded. `suffix` has the extension."""

    side: Side
    char: str
    offset_digits: int
    partition_digits: int
    shows_names: bool
    suffix: str


_TOPIC: Final = PartitionField(FieldPart.TOPIC)
_PARTITION: Final = PartitionField(FieldPart.PARTITION)


def template(statement: Statement, parts: NameParts) -> str:
    """What stands behind `aws.s3.prefix`."""
    partition = _number("partition", parts.partition_digits, parts)
    offset = _number("end_offset", parts.offset_digits, parts)
    fields = statement.partition_by or (() if statement.no_partition else (_TOPIC, _PARTITION))
    directories = "/".join(_directory(each, partition, parts) for each in fields)
    if statement.partition_by or statement.no_partition:
        file = f"{{{{topic}}}}({partition}_{offset})"
    else:
        file = f"{offset}_{{{{first_timestamp}}}}_{{{{last_timestamp}}}}"
    # Without a partition their prefix is followed by two slashes.
    return f"{directories}/{file}{parts.suffix}"


def _number(name: str, digits: int, parts: NameParts) -> str:
    if parts.side is Side.NONE or not digits:
        return f"{{{{{name}}}}}"
    char = "" if parts.char == "0" else f",char={parts.char}"
    side = "" if parts.side is Side.LEFT else ",side=right"
    return f"{{{{{name}:padding={digits}{char}{side}}}}}"


def _directory(field: PartitionField, partition: str, parts: NameParts) -> str:
    name = ".".join(field.path) or field.part.removeprefix("_")
    if field.part is FieldPart.DATE:
        name = "date"
    return f"{name}=" * parts.shows_names + _variable(field, partition)


def _variable(field: PartitionField, partition: str) -> str:
    path = ".".join(f"`{each}`" if "." in each else each for each in field.path)
    match field.part:
        case FieldPart.TOPIC:
            return "{{topic}}"
        case FieldPart.PARTITION:
            return partition
        case FieldPart.KEY:
            return f"{{{{key:{path}}}}}" if path else "{{key}}"
        case FieldPart.HEADER:
            return f"{{{{header:{'.'.join(field.path)}}}}}"
        case FieldPart.DATE:
            return f"{{{{date:{field.path[0]}}}}}"
        case FieldPart.VALUE:
            return f"{{{{value:{path}}}}}"
