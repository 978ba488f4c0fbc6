"""What a statement of KCQL says, and a mistake in one, with the part of the text that it is in."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.text_formatting import MarkedError


class FieldSource(StrEnum):
    """What of a record `PARTITIONBY` names."""

    VALUE = "_value"
    KEY = "_key"
    HEADER = "_header"
    TOPIC = "_topic"
    PARTITION = "_partition"
    DATE = "_date"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One entry of `PARTITIONBY`. `path`: a field (none: the whole key), a header, or a pattern of dates."""

    source: FieldSource
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join([self.source, *(f"`{each}`" for each in self.path)])


@dataclass(frozen=True, slots=True)
class Property:
    """A pair of `PROPERTIES`, and its place in the text."""

    name: str
    value: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"'{self.name}'='{self.value}'"


EVERY_TOPIC: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`INSERT INTO bucket:prefix SELECT * FROM topic ..`.

    `topic` is `*` for the topics without a statement of their own. `store_as` is in upper case, None where it
    is left out. `start` and `end` are its place in the text.
    """

    bucket: str
    prefix: str
    topic: str
    partition_by: tuple[PartitionField, ...] = ()
    no_partition: bool = False
    store_as: str | None = None
    limit: int | None = None
    properties: tuple[Property, ...] = ()
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """The canonical text, which reads as this statement."""
        prefix = f":`{self.prefix}`" if self.prefix else ""
        clauses = [" ".join(["INSERT INTO", f"`{self.bucket}`{prefix}", "SELECT * FROM", f"`{self.topic}`"])]
        if self.partition_by:
            clauses.append(f"PARTITIONBY {', '.join(map(str, self.partition_by))}")
        if self.no_partition:
            clauses.append("NOPARTITION")
        if self.store_as is not None:
            clauses.append(f"STOREAS `{self.store_as}`")
        if self.limit is not None:
            clauses.append(f"LIMIT {self.limit}")
        if self.properties:
            clauses.append(f"PROPERTIES({','.join(map(str, self.properties))})")
        return " ".join(clauses)


# Of a long text only what stands around the mistake is shown.
_BEFORE: Final = 60
_BEHIND: Final = 40


class KcqlError(MarkedError):
    """One sentence, then the text with the wrong part underlined."""

    def __str__(self) -> str:
        first, behind = max(0, self.start - _BEFORE), self.end + _BEHIND
        shown = "".join(_shown(char) for char in self.source[first:behind])
        cut = ".. " if first else ""
        more = " .." if behind < len(self.source) else ""
        underline = " " * (len(cut) + self.start - first) + "^" * (self.end - self.start)
        return f"{self.problem} (character {self.start + 1})\n    {cut}{shown}{more}\n    {underline}"


def _shown(char: str) -> str:
    if char.isspace():
        return " "
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
