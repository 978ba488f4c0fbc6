"""Kafka Connect's schemas: what a value is, as its converters hand it to a sink."""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"
_MOST_PLACES: Final = 400


class Type(StrEnum):
    """The types, as they stand in the JSON of a schema."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class InvalidSchema(ValueError):
    """What stands there is no schema of Connect, or cannot become one; the message says why."""


@dataclass(frozen=True, slots=True)
class Default:
    """A default value that is not null, as JSON text in the form of Connect's JSON (bytes are base64).

    A decimal's is base64 of its unscaled value; dates, times and timestamps are whole numbers.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSchema:
    """One schema. Equal schemas are equal as Connect compares them, and hash alike.

    `parameters` keep their order. `fields` are a struct's, `key` and `value` a map's, `items` an array's.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Default | None = None
    fields: tuple["ConnectField", ...] = ()
    key: "ConnectSchema | None" = None
    value: "ConnectSchema | None" = None
    items: "ConnectSchema | None" = None

    def parameter(self, name: str) -> str | None:
        """The value of a parameter, None where there is none of that name."""
        return dict(self.parameters).get(name)

    def field(self, name: str) -> "ConnectSchema | None":
        """The schema of a struct's field."""
        return next((each.schema for each in self.fields if each.name == name), None)

    @property
    def has_text_keys(self) -> bool:
        """True for a map whose keys are strings, which JSON shows as an object."""
        return self.key is not None and self.key.type is Type.STRING

    @property
    def map_parts(self) -> "tuple[ConnectSchema, ConnectSchema]":
        """The schemas of a map's keys and values."""
        if self.key is None or self.value is None:
            raise InvalidSchema("a map has no schema of its keys or of its values")
        return self.key, self.value

    @property
    def item(self) -> "ConnectSchema":
        """The schema of an array's elements."""
        if self.items is None:
            raise InvalidSchema("an array has no schema of its elements")
        return self.items

    def as_optional(self, *, optional: bool = True) -> "ConnectSchema":
        """The same schema whose values may, or may not, be null."""
        return self if self.optional is optional else replace(self, optional=optional)


@dataclass(frozen=True, slots=True)
class ConnectField:
    """A field of a struct."""

    name: str
    schema: ConnectSchema


def plain(kind: Type, *, optional: bool = False) -> ConnectSchema:
    """A schema without a name."""
    return ConnectSchema(type=kind, optional=optional)


def struct(*fields: tuple[str, ConnectSchema], name: str | None = None, **more: Any) -> ConnectSchema:
    """A struct of these fields."""
    return ConnectSchema(
        type=Type.STRUCT, name=name, fields=tuple(ConnectField(each, inner) for each, inner in fields), **more
    )


def decimal_scale(schema: ConnectSchema) -> int:
    """The digits behind the point of a decimal's schema."""
    text = schema.parameter(SCALE)
    try:
        return int(text or "0")
    except ValueError:
        raise InvalidSchema("the scale of a decimal is no whole number") from None


def decimal_precision(schema: ConnectSchema) -> int | None:
    """The digits of a decimal's schema, None where it does not say."""
    text = schema.parameter(PRECISION)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise InvalidSchema("the precision of a decimal is no whole number") from None


def decimal_of(number: Any) -> Decimal:
    """A decoded number as a decimal. ArithmeticError for one of more places than any decimal has here.

    Arrow ends the process at 1e-999999999, and 1e999999999 would be written digit by digit.
    """
    found = Decimal(number)
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MOST_PLACES or found.adjusted() > _MOST_PLACES:
        raise ArithmeticError("a decimal has too many places")
    return found
