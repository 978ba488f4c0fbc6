"""A statement of Lenses' KCQL in our own options: where its objects go, their form, and when they close."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.options.vendor import Fate
from headrace.vendors.lenses.kcql import FieldSource, KcqlError, PartitionField, Property, Statement
from headrace.vendors.lenses.options import PROPERTIES, property_row

# -- The names of Lenses' objects as a template of ours. The offset in them is that of the last record -------


class Side(StrEnum):
    """Where numbers are padded."""

    LEFT = "left"
    RIGHT = "right"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameStyle:
    """How names are made next to the statement's fields. 0 digits: not padded. `suffix` has the extension."""

    side: Side
    char: str
    offset_digits: int
    partition_digits: int
    shows_names: bool
    suffix: str


_TOPIC: Final = PartitionField(FieldSource.TOPIC)
_PARTITION: Final = PartitionField(FieldSource.PARTITION)


def template(statement: Statement, style: NameStyle) -> str:
    """What is after `aws.s3.prefix`."""
    partition = _number("partition", style.partition_digits, style)
    offset = _number("end_offset", style.offset_digits, style)
    fields = statement.partition_by or (() if statement.no_partition else (_TOPIC, _PARTITION))
    directories = "/".join(_directory(each, partition, style) for each in fields)
    if statement.partition_by or statement.no_partition:
        file = f"{{{{topic}}}}({partition}_{offset})"
    else:
        file = f"{offset}_{{{{first_timestamp}}}}_{{{{last_timestamp}}}}"
    # Without a partition their prefix is followed by two slashes.
    return f"{directories}/{file}{style.suffix}"


def _number(name: str, digits: int, style: NameStyle) -> str:
    if style.side is Side.NONE or not digits:
        return f"{{{{{name}}}}}"
    char = "" if style.char == "0" else f",char={style.char}"
    side = "" if style.side is Side.LEFT else ",side=right"
    return f"{{{{{name}:padding={digits}{char}{side}}}}}"


def _directory(field: PartitionField, partition: str, style: NameStyle) -> str:
    name = ".".join(field.path) or field.source.removeprefix("_")
    if field.source is FieldSource.DATE:
        name = "date"
    return f"{name}=" * style.shows_names + _variable(field, partition)


def _variable(field: PartitionField, partition: str) -> str:
    path = ".".join(f"`{each}`" if "." in each else each for each in field.path)
    match field.source:
        case FieldSource.TOPIC:
            return "{{topic}}"
        case FieldSource.PARTITION:
            return partition
        case FieldSource.KEY:
            return f"{{{{key:{path}}}}}" if path else "{{key}}"
        case FieldSource.HEADER:
            return f"{{{{header:{'.'.join(field.path)}}}}}"
        case FieldSource.DATE:
            return f"{{{{date:{field.path[0]}}}}}"
        case FieldSource.VALUE:
            return f"{{{{value:{path}}}}}"


# -- A statement of Lenses' KCQL in our own options: where its objects go, their form, and when they close ---

_COUNT: Final = 50_000
_BYTES: Final = 500_000_000
_SECONDS: Final = 3600
_PADDING: Final = 12
_FORMATS: Final = {
    "JSON": "jsonl",
    "AVRO": "avro",
    "PARQUET": "parquet",
    "CSV": "csv",
    "CSV_WITHHEADERS": "csv",
    "TEXT": "text",
    "BYTES": "bytes",
}
_ENVELOPED: Final = frozenset({"JSON", "AVRO", "PARQUET"})
_CODECS: Final = {
    "JSON": ("GZIP",),
    "AVRO": ("SNAPPY", "BZIP2", "DEFLATE", "XZ", "ZSTD"),
    "PARQUET": ("SNAPPY", "GZIP", "LZ4", "ZSTD", "BROTLI"),
}
_OWN_CODECS: Final = {"UNCOMPRESSED": "none", "DEFLATE": "gzip"}
_SIDES: Final = {"leftpad": Side.LEFT, "rightpad": Side.RIGHT, "noop": Side.NONE}
_METADATA: Final = ("topic", "partition", "offset", "timestamp")

Refuse = Callable[[KcqlError], None]


def unwritten_codec(statement: Statement, codec: str) -> str | None:
    """Why the statement's format is not written with this codec, in Lenses' words; None where it is."""
    form = statement.store_as or "JSON"
    known = ("UNCOMPRESSED", *_CODECS.get(form, ()))
    if codec in known:
        return None
    what = "LZ0 is LZO, which" if codec == "LZ0" else codec
    return (
        f"{what} is not written in {form}, which the statement of {statement.topic} stores; "
        f"expected one of {', '.join(known)}"
    )


class StatementOptions:
    """Reads one statement's clauses and properties; `refuse` reports a problem, with a caret under it."""

    def __init__(self, statement: Statement, source: str, refuse: Refuse) -> None:
        self.statement = statement
        self._source = source
        self._refuse = refuse
        self._given: Mapping[str, Property] = {each.name: each for each in statement.properties}
        self._idle: dict[str, str] = {}
        self._check_names()

    @property
    def idle(self) -> Mapping[str, str]:
        """The properties that are given and decide nothing, and without what; once `own` was asked for."""
        return self._idle

    def own(self, padding: tuple[Side, int] | None, codec: str) -> dict[str, str]:
        """Options of ours. `padding` is the connector's own, `codec` in Lenses' words."""
        statement, form = self.statement, self.statement.store_as or "JSON"
        prefix = statement.prefix
        found = {
            "aws.s3.bucket.name": statement.bucket,
            "aws.s3.prefix": f"{prefix}/" if prefix and not prefix.endswith("/") else prefix,
            "file.name.template": template(statement, self._names(padding, _extension(form, codec))),
            "output.format": _FORMATS[form],
            "file.compression.type": _OWN_CODECS.get(codec, codec.lower()),
            **self._rows(form),
            **self._flushing(form),
        }
        if form.startswith("CSV"):
            found["csv.header"] = "true" if form == "CSV_WITHHEADERS" else "false"
        return found

    @property
    def pads_on_the_right(self) -> bool:
        """Whether numbers of different objects may come to look alike."""
        return self._side() is Side.RIGHT

    def _check_names(self) -> None:
        for name, each in self._given.items():
            row = property_row(name)
            if row is None:
                known = ", ".join(each.name for each in PROPERTIES if each.fate is not Fate.REFUSED)
                self._wrong(f"{name!r} is not a property of the S3 sink; known are {known}", each)
            elif row.fate is Fate.REFUSED:
                self._wrong(f"{name!r} {row.note}", each)

    # -- names -----------------------------------------------------------------------------------------------

    def _names(self, padding: tuple[Side, int] | None, extension: str) -> NameStyle:
        is_own = any(name.startswith("padding.") for name in self._given)
        if is_own and padding is not None:
            self._wrong(
                "padding is set in connect.s3.padding.strategy as well; keep one of them",
                next(each for name, each in self._given.items() if name.startswith("padding.")),
            )
        side, length = padding or (self._side(), _PADDING)
        if side is Side.NONE:
            names = ("padding.char", "padding.length.offset", "padding.length.partition")
            self._note_idle(*names, without="padding.type LeftPad or RightPad")
        if self.statement.no_partition:
            self._note_idle("partition.include.keys", without="directories of a partition (NOPARTITION)")
        has_lengths = any(name.startswith("padding.length.") for name in self._given)
        return NameStyle(
            side=side,
            char=self._char(),
            offset_digits=self._integer("padding.length.offset", 0 if has_lengths else length, low=0),
            partition_digits=self._integer("padding.length.partition", 0, low=0),
            shows_names=self._flag("partition.include.keys", default=bool(self.statement.partition_by)),
            suffix=self._suffix() + extension,
        )

    def _side(self) -> Side:
        text = self._text("padding.type", "LeftPad").lower()
        if text not in _SIDES:
            self._wrong("padding.type is one of LeftPad, RightPad, NoOp", self._given["padding.type"])
        return _SIDES.get(text, Side.LEFT)

    def _char(self) -> str:
        char = self._text("padding.char", "0")
        if len(char) != 1 or char in ",{}=/" or not char.isprintable():
            self._wrong("padding.char is one character, and none of , { } = /", self._given["padding.char"])
            return "0"
        return char

    def _suffix(self) -> str:
        suffix = self._text("key.suffix", "")
        if re.search(r"[/{}]", suffix):
            self._wrong("key.suffix has no / and no braces", self._given["key.suffix"])
            return ""
        return suffix

    # -- rows ------------------------------------------------------------------------------------------------

    def _rows(self, form: str) -> dict[str, str]:
        envelope = self._flag("store.envelope", default=False)
        if envelope and form not in _ENVELOPED:
            self._wrong(
                f"store.envelope is for {', '.join(sorted(_ENVELOPED))}, not for {form}",
                self._given["store.envelope"],
            )
            envelope = False
        if not envelope:
            names = (f"store.envelope.fields.{name}" for name in ("key", "value", "headers", "metadata"))
            self._note_idle(*names, without="store.envelope=true")
            return {"output.envelope": "false", "output.fields": "value"}
        fields = [
            name
            for name in ("key", "value", "headers")
            if self._flag(f"store.envelope.fields.{name}", default=True)
        ]
        if self._flag("store.envelope.fields.metadata", default=True):
            fields += _METADATA
        if not fields:
            self._wrong("an envelope without any field would be empty", self._given["store.envelope"])
        return {"output.envelope": "true", "output.fields": ",".join(fields or ["value"])}

    # -- closing ---------------------------------------------------------------------------------------------

    def _flushing(self, form: str) -> dict[str, str]:
        count = self._integer("flush.count", _COUNT, low=1)
        if form == "BYTES" and count != 1:
            self._wrong(
                "BYTES stores one record an object: write PROPERTIES('flush.count'=1)",
                self._given.get("flush.count"),
            )
        return {
            "rotate.records": str(count),
            "rotate.bytes": str(self._integer("flush.size", _BYTES, low=1)),
            "rotate.age.ms": str(self._integer("flush.interval", _SECONDS, low=1) * 1000),
        }

    def _note_idle(self, *names: str, without: str) -> None:
        self._idle |= {name: without for name in names if name in self._given}

    # -- properties ------------------------------------------------------------------------------------------

    def _text(self, name: str, default: str) -> str:
        found = self._given.get(name)
        return default if found is None else found.value

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self._text(name, str(default)).strip().lower()
        if text not in {"true", "false"}:
            self._wrong(f"{name} is true or false", self._given[name])
            return default
        return text == "true"

    def _integer(self, name: str, default: int, *, low: int) -> int:
        text = self._text(name, str(default)).strip()
        if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < low:
            self._wrong(f"{name} is a whole number from {low}", self._given[name])
            return default
        return int(text)

    def _wrong(self, problem: str, each: Property | None) -> None:
        start, end = (self.statement.start, self.statement.end) if each is None else (each.start, each.end)
        self._refuse(KcqlError(problem, source=self._source, start=start, end=end))


def _extension(form: str, codec: str) -> str:
    """What names end with: a codec of JSON takes the place of the format, one inside Avro shows nowhere."""
    if form == "JSON" and codec == "GZIP":
        return ".gz"
    return {"CSV_WITHHEADERS": ".csv"}.get(form, f".{form.lower()}")
