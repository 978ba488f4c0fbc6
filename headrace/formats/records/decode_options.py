"""What a decoder needs to know: the format settings, and what is particular to the records of an object."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from headrace.formats.content_kind import RowFormat, RowShape
from headrace.formats.record_columns import ArrowReader, TextReader, ToJson
from headrace.model.columns import Column
from headrace.model.positions import MemberPosition, PlainPosition, Position
from headrace.names.archive_names import ArchiveName
from headrace.options.choices import Envelope, Form, RestoreOptions
from headrace.options.settings import FormatSettings

# Rows of an archive that are a value or key byte for byte, unless they are base64.
_PLAIN: Final = frozenset({RowFormat.WHOLE, RowFormat.TEXT, RowFormat.SEPARATED})
# An escape of JSON for each byte (`\u0000`), and what is around key, value and headers.
_MOST_FOR_A_BYTE: Final = 6
_AROUND_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRestore:
    """How the rows of one object of an archive become records.

    `text` reads rows that are texts; None where rows are Arrow's. For those `arrow` makes a reader, which
    needs the format's way to JSON and the shape of the rows.
    """

    name: ArchiveName
    row_format: RowFormat
    options: RestoreOptions
    text: TextReader | None
    arrow: Callable[[ToJson, RowShape], ArrowReader]
    separator: bytes = b"\n"

    @property
    def is_plain(self) -> bool:
        """True where each row is the bytes of a value or key, and nothing else."""
        return self.row_format in _PLAIN and Form.BASE64 not in {self.options.key, self.options.value}


@dataclass(frozen=True, slots=True)
class PackedMember:
    """A member of a zip or tar: its number among all entries, the byte of its header, its name."""

    entry: int
    header: int
    name: str

    def at(self, within: Position) -> MemberPosition:
        """The position in the archive of what is there in the member."""
        assert isinstance(within, PlainPosition), "archives are not nested"
        return MemberPosition(self.entry, self.header, self.name, within)


class GlueVersions(Protocol):
    """Versions of schemas in AWS Glue's registry; see `headrace.aws.glue.GlueRegistry`."""

    def version(self, schema: str, kind: str, text: str) -> UUID:
        """The version of a schema with this text."""

    def latest(self, schema: str) -> tuple[UUID, str, str]:
        """The newest version: its id, type and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How the rows of one object are cut out, and what of them goes into its records.

    `topic` names the subjects of the schema registry. `overhead_bytes` is what the key and headers that are
    the same for all rows add to each record when it is measured, and `topic_max_bytes` the topic's own limit
    where it is the lower one. `archive` says how rows of an archive become records. `members` are what each
    JSON object of a value gets at its end, as in an object of JSON. `member` is what the rows are of, where
    they are in a zip or tar. `glue` has the schemas of values in Glue's framing. `fit` reads lines of JSON
    at once as who takes the rows wants them, see `LineReader.fit`.
    """

    format: FormatSettings
    topic: str = ""
    overhead_bytes: int = 0
    topic_max_bytes: int | None = None
    archive: ObjectRestore | None = None
    members: bytes = b""
    glue: GlueVersions | None = None
    member: PackedMember | None = None
    fit: Callable[[Column], bool] | None = None

    @property
    def record_max_bytes(self) -> int:
        """What key, value and headers of a record may come to together."""
        limit = self.format.record_max_bytes
        return limit if self.topic_max_bytes is None else min(limit, self.topic_max_bytes)

    def too_large(self, size: int) -> str:
        """What is said of a record of `size` bytes, which are too many."""
        whose = "record.max.bytes"
        if self.record_max_bytes < self.format.record_max_bytes:
            whose = "the topic's max.message.bytes"
        return f"the record of {size} bytes exceeds {whose} ({self.record_max_bytes})"

    @property
    def own_max_bytes(self) -> int:
        """What is left of `record_max_bytes` for what differs from record to record."""
        return max(0, self.record_max_bytes - self.overhead_bytes)

    @property
    def row_max_bytes(self) -> int:
        """How long a row may be as it is stored; a longer one is bad, and passed over without being held.

        Not less than its record: base64 and escapes of JSON are longer than the bytes that are in Kafka. The
        topic's limit is for records alone, so that where rows begin and end does not depend on it.
        """
        limit = self.format.record_max_bytes
        return _MOST_FOR_A_BYTE * limit + _AROUND_BYTES if self._is_encoded else limit

    @property
    def row_limit(self) -> str:
        """The words for `row_max_bytes`."""
        limit = f"record.max.bytes ({self.format.record_max_bytes})"
        return f"six times {limit} and 64 KiB" if self._is_encoded else limit

    def row_too_large(self, size: int) -> str:
        """What is said of a row that is `size` bytes as it is stored, which are too many."""
        return f"the row of {size} bytes exceeds {self.row_limit}"

    @property
    def _is_encoded(self) -> bool:
        """True where a row is a text that a record is read out of, with what was around it."""
        if self.archive is not None:
            return not self.archive.is_plain
        return self.format.restore is not None or self.format.envelope is not Envelope.NONE
