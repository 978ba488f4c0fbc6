"""The directories of names as partition columns: which there are, and how Athena works them out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.names.date_fields import DateField, DateKind, DateStyle, read_zone
from headrace.names.date_pattern import DatePattern
from headrace.names.name_template import OF_THE_CLOCK, NameField, NameToken, NameVariable, read_name_template
from headrace.options.sink_settings import NameSettings, NameTimeSource
from ingest.checks.athena.table_columns import NotQueryable

# These differ from object to object: no partition is of them.
_OF_OBJECTS: Final = frozenset(
    {
        NameField.START_OFFSET,
        NameField.END_OFFSET,
        NameField.BATCH_OFFSET,
        NameField.FIRST_TIMESTAMP,
        NameField.LAST_TIMESTAMP,
        NameField.EXTENSION,
    }
)
_LETTERS: Final = {
    DateKind.YEAR: "y",
    DateKind.MONTH: "M",
    DateKind.DAY: "d",
    DateKind.HOUR: "H",
    DateKind.MINUTE: "m",
    DateKind.SECOND: "s",
}
_UNITS: Final = {
    DateKind.YEAR: "YEARS",
    DateKind.MONTH: "MONTHS",
    DateKind.DAY: "DAYS",
    DateKind.HOUR: "HOURS",
    DateKind.MINUTE: "MINUTES",
    DateKind.SECOND: "SECONDS",
}
_RANGES: Final = {
    DateKind.MONTH: "1,12",
    DateKind.DAY: "1,31",
    DateKind.HOUR: "0,23",
    DateKind.MINUTE: "0,59",
    DateKind.SECOND: "0,59",
}
# A time of a record may be older than the sink, and zones are up to a day ahead of NOW.
_SINCE: Final = "NOW-10YEARS,NOW+1DAYS"
# Where nobody says how many partitions the topic has.
_PARTITIONS: Final = 1024
_LABEL: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=$")
_STRING: Final = "string"
_NO_NAME: Final = re.compile(r"[^a-z0-9_]+")
# In January and in July: some zones have an offset in summer alone.
_HALVES_MS: Final = (1_704_067_200_000, 1_719_792_000_000)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """`projection` are the table's properties after `projection.<name>.`."""

    name: str
    type: str
    projection: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Where a topic's objects are: `location` ends with a slash, `template` has `${column}` for each column.

    `is_hive`: every directory from the first column to the last is `name=value`, in lower case and without a
    colon, so that MSCK REPAIR finds them. `is_plain`: values are as the data has them. `injected` are the
    columns of which a query has to say the value. `later` is where objects of the topic are once it was
    deleted and made again; empty where they are in the table, or it is that of such a life. `dates_of_values`
    are the columns with projected dates of what a field of the value says, which may be of any year.
    """

    location: str
    template: str
    columns: tuple[PartitionColumn, ...] = ()
    is_hive: bool = False
    is_plain: bool = False
    later: str = ""
    dates_of_values: tuple[str, ...] = ()

    @property
    def injected(self) -> tuple[str, ...]:
        """See above."""
        return tuple(each.name for each in self.columns if ("type", "injected") in each.projection)


def partitions_of(
    names: NameSettings,
    *,
    bucket: str,
    topic: str,
    has_other_topics: bool,
    partition_count: int | None = None,
    taken: Iterable[str] = (),
    in_directories: bool = False,
) -> Partitions:
    """The partitions of a topic's table; `taken` are the names of its other columns.

    With `in_directories` a date that goes through several directories has a column for each.

    NotQueryable where a topic has no directory of its own, and others are next to it.
    """
    template = read_name_template(names.template)
    segments = _segments(_apart(template.tokens) if in_directories else template.tokens)
    has_topic = any(
        isinstance(token, NameVariable) and token.field is NameField.TOPIC
        for segment in segments
        for token in segment
    )
    if has_other_topics and not has_topic:
        raise NotQueryable(
            f"The objects of {topic!r} are in one directory with those of other topics, and a table has "
            "all that is below its directory: begin file.name.template with {{topic}}/, or give it a route."
        )
    maker = _Columns(names, partition_count, taken)
    fixed, shown = f"s3://{bucket}/{names.prefix}", f"s3://{bucket}/{names.prefix}"
    is_hive, has_gap = True, False
    for segment in segments:
        if any(isinstance(token, NameVariable) and token.field in _OF_OBJECTS for token in segment):
            # What is below is found by Athena itself.
            break
        text, columns = maker.read(segment, topic)
        if columns:
            is_hive = is_hive and not has_gap and _is_hive(text, columns, segment, names)
        elif maker.made:
            has_gap = True
        shown += f"{text}/"
        fixed += "" if maker.made else f"{text}/"
    if not fixed.endswith("/"):
        # A prefix that ends within a name has no directory of its own.
        fixed = shown = f"{fixed.rpartition('/')[0]}/"
    later = f"s3://{bucket}/{names.prefix}topic_id=<id>/"
    has_all = (not maker.made and later.startswith(fixed)) or "topic_id=" in names.prefix
    return Partitions(
        location=fixed,
        template=shown,
        columns=tuple(maker.made),
        is_hive=is_hive and bool(maker.made),
        is_plain=names.values.is_plain,
        later="" if has_all else later,
        dates_of_values=tuple(maker.dates_of_values),
    )


class _Columns:
    """Makes the columns, each with a name of its own."""

    def __init__(self, names: NameSettings, partition_count: int | None, taken: Iterable[str]) -> None:
        self._names = names
        self._partition_count = partition_count
        self._taken = {name.lower() for name in taken}
        self.made: list[PartitionColumn] = []
        self.dates_of_values: list[str] = []

    def read(self, segment: Sequence[NameToken], topic: str) -> tuple[str, list[PartitionColumn]]:
        """The text of a directory with `${column}`, and its columns."""
        text, columns, label = "", [], None
        for token in segment:
            if isinstance(token, str):
                text += token
                found = _LABEL.search(token)
                label = found[1] if found else None
            elif token.field is NameField.TOPIC:
                text += topic.replace("-", token.hyphens)
            else:
                column = self._column(token, label)
                columns.append(column)
                self.made.append(column)
                text += f"${{{column.name}}}"
        return text, columns

    def _column(self, variable: NameVariable, label: str | None) -> PartitionColumn:
        if variable.field is NameField.PARTITION:
            last = (self._partition_count or _PARTITIONS) - 1
            digits = variable.padding.width
            is_padded = digits > 1 and variable.padding.char == "0" and not variable.padding.is_right
            if digits > 1 and not is_padded:
                return self._injected(label or "kafka_partition")
            width = (("digits", str(digits)),) if is_padded else ()
            return self._named(
                label or "kafka_partition", "int", (("type", "integer"), ("range", f"0,{last}"), *width)
            )
        if variable.date is not None:
            column = self._date(variable.date, label)
            is_of_value = self._names.time_source is NameTimeSource.VALUE
            if is_of_value and variable.field not in OF_THE_CLOCK and ("range", _SINCE) in column.projection:
                self.dates_of_values.append(column.name)
            return column
        return self._injected(label or (variable.path[-1] if variable.path else f"record_{variable.field}"))

    def _date(self, date: DatePattern, label: str | None) -> PartitionColumn:
        fields = date.fields
        pattern = _java_pattern(date)
        if pattern is None or not fields:
            return self._injected(label or "date_part")
        if len(date.elements) == 1 and fields[0].kind in _RANGES:
            kind, width = fields[0].kind, fields[0].width
            digits = (("digits", str(width)),) if width > 1 else ()
            return self._named(
                label or kind.removeprefix("the "),
                "int",
                (("type", "integer"), ("range", _RANGES[kind]), *digits),
            )
        finest = min(fields, key=lambda field: list(_UNITS).index(field.kind) * -1)
        name = label or ("year" if len(date.elements) == 1 else "dt")
        unit = _UNITS[finest.kind]
        return self._named(
            name,
            _STRING,
            (
                ("type", "date"),
                ("format", pattern),
                ("range", _SINCE),
                ("interval", "1"),
                ("interval.unit", unit),
            ),
        )

    def _injected(self, name: str) -> PartitionColumn:
        return self._named(name, _STRING, (("type", "injected"),))

    def _named(self, wish: str, kind: str, projection: tuple[tuple[str, str], ...]) -> PartitionColumn:
        name = _NO_NAME.sub("_", wish.lower()).strip("_") or "part"
        while name in self._taken:
            name += "_dir"
        self._taken.add(name)
        return PartitionColumn(name, kind, projection)


def _segments(tokens: Iterable[NameToken]) -> list[list[NameToken]]:
    """The directories of a template, without the name of the file itself."""
    found: list[list[NameToken]] = [[]]
    for token in tokens:
        if not isinstance(token, str):
            found[-1].append(token)
            continue
        first, *others = token.split("/")
        for text, is_new in ((first, False), *((other, True) for other in others)):
            if is_new:
                found.append([])
            if text:
                found[-1].append(text)
    return found[:-1]


def _apart(tokens: Iterable[NameToken]) -> Iterator[NameToken]:
    """The tokens, dates cut at the slashes in them, and from the text around them."""
    for token in tokens:
        if isinstance(token, str) or token.date is None:
            yield token
            continue
        element: list[DateField | str] = []
        for each in token.date.elements:
            if isinstance(each, DateField) or "/" not in each:
                element.append(each)
                continue
            before, slash, after = each.rpartition("/")
            yield from _labelled(token, (*element, before))
            yield slash
            element = [after] if after else []
        yield from _labelled(token, tuple(element))


def _labelled(variable: NameVariable, elements: tuple[DateField | str, ...]) -> Iterator[NameToken]:
    """The text that a part of a date begins and ends with apart from it, which names its column."""
    fields = [index for index, element in enumerate(elements) if isinstance(element, DateField)]
    first, last = (fields[0], fields[-1] + 1) if fields else (len(elements), len(elements))
    yield from (element for element in elements[:first] if isinstance(element, str) and element)
    if fields:
        yield replace(variable, date=DatePattern(elements[first:last]))
    yield from (element for element in elements[last:] if isinstance(element, str) and element)


def _is_hive(
    text: str, columns: Sequence[PartitionColumn], segment: Sequence[NameToken], names: NameSettings
) -> bool:
    if len(columns) != 1 or text != f"{columns[0].name}=${{{columns[0].name}}}":
        return False
    dates = [each.date for each in segment if isinstance(each, NameVariable) and each.date is not None]
    zone = read_zone(names.timezone)
    return not any(":" in date.text(moment, zone) for date in dates for moment in _HALVES_MS)


def _java_pattern(date: DatePattern) -> str | None:
    """The pattern as Athena takes it; None where it has parts that projection does not know."""
    text = ""
    for element in date.elements:
        if isinstance(element, DateField):
            if element.kind not in _LETTERS or element.style not in {DateStyle.NUMBER, DateStyle.TWO_DIGITS}:
                return None
            text += _LETTERS[element.kind] * (2 if element.style is DateStyle.TWO_DIGITS else element.width)
        else:
            quoted = element.replace("'", "''")
            text += quoted if not re.search("[A-Za-z'\\[\\]{}#]", element) else f"'{quoted}'"
    return text
