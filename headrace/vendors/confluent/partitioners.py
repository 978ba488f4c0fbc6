"""Confluent's partitioners as a template of names, and its rotation of all objects of a topic-partition."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.names.date_fields import DateField, DateKind, DateStyle
from headrace.names.date_letters import DateDialect
from headrace.names.date_pattern import DatePatternError, read_date_pattern
from headrace.names.name_template import read_path
from headrace.options.sink_forms import LOCALE
from headrace.options.value_types import FormError, listed
from headrace.options.vendor import Fate
from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.options import class_of

_PARTITIONER: Final = "partitioner.class"
_PATH: Final = "path.format"
_DURATION: Final = "partition.duration.ms"
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_PACKAGE: Final = "io.confluent.connect.storage.partitioner."
_EXAMPLE: Final = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
_EXTRACTOR: Final = f"{_PACKAGE}TimeBasedPartitioner$"
_OFF: Final = -1


_BY_TIME: Final = "a partitioner by time"
_BY_TEMPLATE: Final = (
    "; or leave it out and write file.name.template, which groups by fields, headers and times"
)


class _Partitioner(StrEnum):
    DEFAULT = "DefaultPartitioner"
    FIELD = "FieldPartitioner"
    TIME = "TimeBasedPartitioner"
    HOURLY = "HourlyPartitioner"
    DAILY = "DailyPartitioner"

    @property
    def is_timed(self) -> bool:
        """Whether it puts records where their time says."""
        return self in {_Partitioner.TIME, _Partitioner.HOURLY, _Partitioner.DAILY}


_PARTITIONERS: Final = {f"{_PACKAGE}{each}": each for each in _Partitioner}
_FIXED: Final = {
    _Partitioner.HOURLY: ("'year'=YYYY", "'month'=MM", "'day'=dd", "'hour'=HH"),
    _Partitioner.DAILY: ("'year'=YYYY", "'month'=MM", "'day'=dd"),
}


class _Affix(StrEnum):
    NONE = "NONE"
    PREFIX = "PREFIX"
    SUFFIX = "SUFFIX"


@dataclass(frozen=True, slots=True)
class Delimiters:
    """What separates the names of directories, and what the words of a file's name."""

    directory: str
    file: str

    @classmethod
    def of(cls, given: Translation) -> "Delimiters":
        """Those of the configuration, without blanks around them, as Connect reads them."""
        return cls(
            given.exact_text("directory.delim", "/").strip(), given.exact_text("file.delim", "+").strip()
        )


def translate_names(given: Translation) -> None:
    """Write prefix, template, times in names, and rotation."""
    partitioner = class_of(given, _PARTITIONER, _PARTITIONERS, _Partitioner.DEFAULT, otherwise=_BY_TEMPLATE)
    delimiters = Delimiters.of(given)
    directory = given.exact_text("topics.dir", "topics").strip()
    given.own("aws.s3.prefix", f"{directory}{delimiters.directory}" if directory else "", by="topics.dir")
    given.own("file.name.values", "plain")
    given.own("file.name.template", _template(given, partitioner, delimiters), by=_PARTITIONER)
    if partitioner.is_timed:
        _translate_times(given, partitioner)
    given.rename("timezone", "file.name.timestamp.timezone")
    _translate_rotation(given, partitioner)
    _note_unused_names(given, partitioner)


def _note_unused_names(given: Translation, partitioner: _Partitioner) -> None:
    """Say which options of other partitioners are given; all would land in directories of partitions."""
    if partitioner is not _Partitioner.TIME:
        given.unused(_PATH, _DURATION, without=f"{_PARTITIONER}={_PACKAGE}TimeBasedPartitioner")
    if partitioner is not _Partitioner.FIELD:
        given.unused("partition.field.name", without=f"{_PARTITIONER}={_PACKAGE}FieldPartitioner")
    if not partitioner.is_timed:
        given.unused("locale", "timestamp.extractor", "timestamp.field", without=_BY_TIME)
    elif "RecordField" not in given.text("timestamp.extractor"):
        given.unused("timestamp.field", without="timestamp.extractor=RecordField")
    is_own = given.own_given("file.name.template") or given.own_given("rotate.schedule.ms")
    if not (partitioner.is_timed or is_own or _interval(given, "rotate.schedule.interval.ms")):
        given.unused("timezone", without=f"{_BY_TIME} or rotate.schedule.interval.ms")


def _template(given: Translation, partitioner: _Partitioner, delimiters: Delimiters) -> str:
    encoded = _encoded(given, partitioner, delimiters)
    schema = "schema_name={{schema_name}}"
    match given.choice("s3.schema.partition.affix.type", {each: each for each in _Affix}, _Affix.NONE):
        case _Affix.PREFIX:
            encoded = [schema, *encoded]
        case _Affix.SUFFIX:
            encoded = [*encoded, schema]
    return name_template(given, delimiters, encoded)


def name_template(given: Translation, delimiters: Delimiters, directories: list[str]) -> str:
    """The template of names with these directories between the topic's and the file."""
    width = given.integer("filename.offset.zero.pad.width", 10, low=0, high=100)
    offset = f"{{{{start_offset:padding={width}}}}}" if width else "{{start_offset}}"
    file = delimiters.file.join(["{{topic}}", "{{partition}}", offset])
    return delimiters.directory.join(["{{topic}}", *directories, file]) + "{{extension}}"


def _encoded(given: Translation, partitioner: _Partitioner, delimiters: Delimiters) -> list[str]:
    """The directories between topic and file."""
    if partitioner is _Partitioner.DEFAULT:
        return ["partition={{partition}}"]
    if partitioner is _Partitioner.FIELD:
        return _fields(given)
    if partitioner in _FIXED:
        return [f"{{{{joda:{delimiters.directory.join(_FIXED[partitioner])}}}}}"]
    return [f"{{{{joda:{_pattern(given, delimiters.directory)}}}}}"]


def _pattern(given: Translation, delimiter: str) -> str:
    """`path.format` without a delimiter at its end; a problem, and another pattern, where it is invalid."""
    pattern = given.text(_PATH)
    if not pattern:
        given.refuse(_PATH, f"is missing; the partitioner needs it, add {_PATH}={_EXAMPLE}")
        return _EXAMPLE
    pattern = pattern.removesuffix(delimiter) if delimiter else pattern
    try:
        read_date_pattern(pattern, DateDialect.JODA)
    except DatePatternError as error:
        given.refuse(_PATH, f"is no pattern that can be written here: {error}")
        return _EXAMPLE
    return pattern


def _fields(given: Translation) -> list[str]:
    option = "partition.field.name"
    names = listed(given.text(option))
    if not names:
        given.refuse(option, "is missing; FieldPartitioner needs it, such as partition.field.name=region")
    found = []
    for name in names:
        try:
            read_path(name)
        except ValueError as error:
            given.refuse(option, f"has {name}, which is no name of a field: {error}")
        else:
            found.append(f"{name}={{{{value:{name}}}}}")
    return found


def _translate_times(given: Translation, partitioner: _Partitioner) -> None:
    """What partitioners by time need, as they do there: missing ones are problems with the line to add."""
    if partitioner is _Partitioner.TIME:
        _require(given, _DURATION, str(_HOUR_MS))
        _translate_duration(given)
    _require(given, "locale", "en")
    _require(given, "timezone", "UTC")
    _translate_locale(given, _shown(given) if partitioner is _Partitioner.TIME else ())
    extractors = {
        "Wallclock": "wallclock",
        "Record": "event",
        "RecordField": f"value:{given.text('timestamp.field', 'timestamp')}",
    }
    option = "timestamp.extractor"
    name = given.text(option, "Wallclock").removeprefix(_EXTRACTOR).removesuffix("TimestampExtractor")
    if name not in extractors:
        known = ", ".join(extractors)
        given.refuse(option, f"is an extractor that is not known here; the known ones are {known}")
        return
    given.own("file.name.timestamp.source", extractors[name], by=option)


def _translate_locale(given: Translation, fields: Sequence[DateField]) -> None:
    """The language of the words that names show; where they show none any text will do, as it does there."""
    if not any(each.is_word for each in fields) and not _is_language(given.text("locale")):
        given.note("locale", Fate.NEEDLESS, "decides nothing, as names have no words of a language")
        return
    given.rename("locale", "file.name.locale")
    # Where names differ as Java has no words for what Confluent's sink takes for a language.
    words = [each.kind for each in fields if each.kind is DateKind.ERA or each.style is DateStyle.LONG]
    if words and "-" in given.text("locale"):
        given.warn(
            f"locale={given.text('locale')}: where path.format has {words[0]} in words, the other sink on "
            "Java 9 and later writes Apr, Fri or CE, as it knows no language of this name; here it is April, "
            "Friday or AD. MMM and EEE are the same in both, and locale=en says that these are meant"
        )


def _shown(given: Translation) -> Sequence[DateField]:
    """What names show of times; nothing where the pattern is broken, which is said already."""
    with suppress(DatePatternError):
        return read_date_pattern(given.text(_PATH), DateDialect.JODA).fields
    return ()


def _is_language(text: str) -> bool:
    with suppress(FormError):
        LOCALE.parse(text)
        return True
    return False


def _require(given: Translation, option: str, example: str) -> None:
    if not given.is_given(option):
        given.refuse(option, f"is missing; the partitioner needs it, add {option}={example}")


def _translate_duration(given: Translation) -> None:
    """Times are cut to the duration, which shows where the pattern is finer than it."""
    duration = given.integer(_DURATION, _HOUR_MS, low=1)
    try:
        shown = read_date_pattern(given.text(_PATH), DateDialect.JODA).step_ms
    except DatePatternError:
        return  # said already
    if shown % duration:
        given.own("file.name.timestamp.round.ms", duration, by=_DURATION)


def _translate_rotation(given: Translation, partitioner: _Partitioner) -> None:
    """Objects close by its triggers only, all of a topic-partition together."""
    given.own("rotate.together", "total")
    for off in ("rotate.bytes", "rotate.age.ms", "open.object.max.age.ms"):
        given.own(off, 0)
    given.own("rotate.on.stop", "false")
    flush = "flush.size"
    if not given.is_given(flush):
        given.refuse(flush, "is missing; add flush.size=N, the records of an object")
    given.own("rotate.records", given.integer(flush, 1, low=1, high=2**31 - 1), by=flush)
    by = "flush.size and rotate.interval.ms" if _translate_interval(given, partitioner) else "flush.size"
    if not _translate_schedule(given):
        given.warn(
            f"objects close by {by} alone, as in the other sink: a partition's last records wait for more of "
            "them (open.object.max.age.ms is off; set it, or rotate.schedule.interval.ms, to bound that)"
        )


def _translate_schedule(given: Translation) -> bool:
    """Write at which times of the day objects close; False where they do at none.

    There they count from each midnight, at which they begin again: what is longer than a day is a day.
    """
    option = "rotate.schedule.interval.ms"
    schedule = min(_interval(given, option), _DAY_MS)
    given.own("rotate.schedule.ms", schedule, by=option)
    if schedule and not given.is_given("timezone"):
        given.refuse("timezone", f"is missing; {option} needs it, add timezone=UTC")
    if schedule and _DAY_MS % schedule:
        given.warn(
            f"{option}={schedule}: a day is no multiple of it, and objects close at multiples since "
            "1970-01-01 00:00, where the other sink counts from each midnight: at other times of the day; "
            f"one that divides {_DAY_MS} closes them as there"
        )
    return bool(schedule)


def _translate_interval(given: Translation, partitioner: _Partitioner) -> bool:
    """Write how much time of records an object holds; False where they close by none."""
    option, change = "rotate.interval.ms", "rotate.file.on.partition.change"
    interval = _interval(given, option)
    closes_at_change = given.flag(change, default=True)
    if not interval or not partitioner.is_timed:
        given.unused(change, without=f"{option} and {_BY_TIME}")
        if interval:
            given.warn(
                f"{option}={interval} closes no object, as in the other sink: it counts by the times of "
                f"records that {_BY_TIME} takes; set rotate.schedule.interval.ms, or that partitioner"
            )
            given.unused(option, without=_BY_TIME)
        return False
    given.own("rotate.span.ms", interval, by=option)
    given.own("rotate.on.group.change", "true" if closes_at_change else "false", by=change)
    return True


def _interval(given: Translation, option: str) -> int:
    """The interval in ms; 0 for off."""
    return max(given.integer(option, _OFF, low=_OFF, high=2**53), 0)
