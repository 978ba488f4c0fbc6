"""The key of an object, from the template and what is known of the object. Pure.

Groups that Lenses' sink kept a lock of are found by our names. Of names that recur by design (a template of
record keys alone) there is one object at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from math import gcd
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from headrace.model.clock import ms_since_1970
from headrace.model.errors import HeadraceError
from headrace.names.date_fields import FIRST_OF_FOUR_DIGITS_MS, local_time, read_zone
from headrace.names.date_pattern import DatePattern, step_ms
from headrace.names.name_template import (
    DATA,
    KNOWN_AT_THE_END,
    OF_THE_CLOCK,
    NameField,
    NameVariable,
    escape,
    read_name_template,
    unescape,
)
from headrace.options.sink_settings import NameSettings, NameTimeSource, NameValues, NullKeys

KEY_MAX_BYTES: Final = 1024
"""S3 takes no longer key, in UTF-8."""

# Stands in no escaped text, so the values of a group can be told apart again.
_BETWEEN: Final = "|"
# Stands in a group of plain values for what is not of the data. No plain value has a control character.
_ELSEWHERE: Final = "\x1f"
_DOTS: Final = frozenset({".", ".."})
_MAX_OFFSET: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000
_YEAR_MS: Final = 367 * _DAY_MS
_UTC: Final = ZoneInfo("UTC")


class NameProblem(NamedTuple):
    """Why an object cannot have a name: a word of the metric, and a sentence about the record."""

    reason: str
    message: str


class NameTooLong(HeadraceError):
    """The key has more bytes than S3 takes."""


# librdkafka shows ids in plain base64, Kafka's own tools in the one for URLs, which has no slashes.
_PLAIN_ID: Final = str.maketrans("/+", "_-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """What a name is made of. `group` is one of `Grouping`'s.

    `batch_offset` is the first offset of all objects of the partition that are open together. `last_offset`
    and the least and greatest timestamp are None while the object is open. `first_time_ms` is
    the own time of its first record. `topic_id` is given when a topic of this name was archived before and
    another one, with this id, has its name now: its objects are in a directory of their own, so that small
    offsets do not meet those of the earlier topic.
    """

    topic: str
    partition: int
    group: str
    first_offset: int
    opened_ms: int
    first_time_ms: int = 0
    batch_offset: int | None = None
    last_offset: int | None = None
    least_timestamp_ms: int | None = None
    greatest_timestamp_ms: int | None = None
    topic_id: str | None = None


class ObjectNames:
    """Makes the keys of objects. `extension` is that of the output, such as `.jsonl.gz`.

    `spare_bytes` are what the keys of side objects have more.
    """

    def __init__(self, settings: NameSettings, extension: str, *, spare_bytes: int = 0) -> None:
        self._max_bytes = KEY_MAX_BYTES - spare_bytes
        self._prefix = settings.prefix
        self._extension = extension
        self._template = read_name_template(settings.template)
        self._source = settings.time_source
        self._is_plain = settings.values.is_plain
        self.is_of_lenses = settings.values is NameValues.LENSES
        """Whether values are read as Lenses' sink reads them."""
        self.header_kind = settings.headers
        """What reads headers; None: they are their bytes."""
        self._missing = settings.missing
        self.has_exact_numbers = settings.exact_numbers and not self._is_plain
        """Whether numbers that no double is show all their digits."""
        self.has_typed_dates = settings.typed_dates
        """Whether times of values know dates by their type."""
        self.has_whole_paths = settings.whole_paths
        """Whether a member that has the whole path as its name comes first."""
        self.has_cut_times = settings.cut_times
        """Whether fractions of times of values are left out, where earlier versions rounded."""
        self.has_digit_times = settings.digit_times
        """Whether texts of digits are times in ms."""
        self.has_early_times = settings.early_times
        """Whether times of values may be before 1970."""
        self.has_copied_data = settings.copied_data
        """Whether names show Avro data that are copied and have no columns."""
        self.has_own_nulls = settings.own_nulls
        """Whether a null has no schema's name, whatever was fetched with it."""
        self._round_ms = settings.round_ms
        self.value_path = settings.value_path
        self.zone = read_zone(settings.timezone)
        self.grouping = tuple(dict.fromkeys(filter(self._groups, self._template.variables)))
        """The variables whose values group records, each once."""
        self.shows_schemas = any(each.field is NameField.SCHEMA_NAME for each in self.grouping)
        """Whether the names of values' schemas group records."""
        self.needs_keys = settings.null_keys is NullKeys.FAIL and any(
            variable.field is NameField.KEY and not variable.path for variable in self.grouping
        )
        """Whether a record without a key has no name."""
        self._next = lru_cache(maxsize=64)(self._text_ends)

    @property
    def time_source(self) -> NameTimeSource:
        """Where the times in names come from."""
        return self._source

    @property
    def needs_first_time(self) -> bool:
        """Whether a name shows the own time of its object's first record, which groups nothing."""
        return self._source is NameTimeSource.FIRST and any(
            variable.date is not None and variable.field not in OF_THE_CLOCK
            for variable in self._template.variables
        )

    @property
    def is_known_at_start(self) -> bool:
        """Whether an open object has its key already; else its upload begins when it closes."""
        return not self._template.fields & KNOWN_AT_THE_END

    @property
    def shows_only_ends(self) -> bool:
        """Whether a name shows the last offset and not the first, so that it recurs with other beginnings."""
        return (
            NameField.END_OFFSET in self._template.fields
            and NameField.START_OFFSET not in self._template.fields
        )

    @property
    def is_plain(self) -> bool:
        """Whether values are in names as they are."""
        return self._is_plain

    @property
    def is_of_batches(self) -> bool:
        """Whether a name shows the first offset of all objects of its partition that are open with it."""
        return NameField.BATCH_OFFSET in self._template.fields

    @property
    def overwrites(self) -> bool:
        """Whether names are of record keys alone: a later object of a key replaces the earlier one."""
        return self._template.is_of_keys

    def key(self, facts: ObjectFacts) -> str:
        """The object's key; NameTooLong when S3 would not take it."""
        again = "" if facts.topic_id is None else f"topic_id={facts.topic_id.translate(_PLAIN_ID)}/"
        key = "".join([self._prefix, again, *self._texts(facts)])
        if len(key.encode()) > self._max_bytes:
            raise NameTooLong(
                f"The name of an object of {facts.topic}-{facts.partition} has more than {KEY_MAX_BYTES:,} "
                "bytes: shorten aws.s3.prefix or file.name.template."
            )
        return key

    def problem(self, topic: str, partition: int, group: str) -> NameProblem | None:
        """Why an object of this group may have no key that S3 takes, whatever its offsets; None: all have."""
        widest = ObjectFacts(
            topic=topic,
            partition=partition,
            group=group,
            first_offset=_MAX_OFFSET,
            last_offset=_MAX_OFFSET,
            batch_offset=_MAX_OFFSET,
            least_timestamp_ms=_MAX_OFFSET,
            greatest_timestamp_ms=_MAX_OFFSET,
            opened_ms=self._longest_ms,
            first_time_ms=self._longest_ms,
            topic_id="x" * 22,
        )
        try:
            key = self.key(widest)
        except NameTooLong:
            return NameProblem(
                "name_too_long",
                f"its object's name would have more than {KEY_MAX_BYTES:,} bytes, which S3 does not take",
            )
        if not _DOTS.isdisjoint(key.split("/")):
            return NameProblem(
                "name_not_valid", "its object's name would have a directory '.' or '..', which paths lose"
            )
        # S3 takes no empty key, and what ends with a slash passes for a directory: no restore reads it.
        if key.endswith("/"):
            return NameProblem("name_not_valid", "its object's name would be empty, or end with a slash")
        return None

    def group(self, texts: tuple[str | bytes | None, ...]) -> str:
        """The group of records with these values of `grouping`, in its order.

        ValueError for a plain value that no name can show: bytes that are no text, and control characters.
        """
        if not self._is_plain:
            return _BETWEEN.join(map(escape, texts))
        shown = {variable: self._plain(text) for variable, text in zip(self.grouping, texts, strict=True)}
        # Different values that make one name are one group: the text of the whole, not the values.
        tokens = (
            token if isinstance(token, str) else shown.get(token, _ELSEWHERE)
            for token in self._template.tokens
        )
        return _ELSEWHERE + "".join(tokens)

    def date_step_ms(self, date: DatePattern, earliest_ms: int) -> int:
        """A number of ms in each multiple of which a record's time has one text, from the earliest on."""
        return step_ms(date.step_ms, self.zone, earliest_ms, self._round_ms)

    def date_text(self, date: DatePattern, moment_ms: int) -> str:
        """The text of a record's time; ValueError where it has none, or less than four digits of a year."""
        if moment_ms < FIRST_OF_FOUR_DIGITS_MS and not date.has_full_years:
            raise ValueError
        return date.text(moment_ms, self.zone, self._round_ms)

    def name_ends_ms(self, opened_ms: int) -> int | None:
        """When the wall clock in the name of an object opened then is over; None where there is none."""
        dates = self._clock_dates()
        if not dates:
            return None
        finest = min(date.step_ms for date, _ in dates)
        step = gcd(*(step_ms(finest, zone, opened_ms, self._round_ms) for _, zone in dates))
        return self._next(opened_ms // step * step, step)

    def _text_ends(self, moment_ms: int, step: int) -> int | None:
        dates = self._clock_dates()

        def shown(at_ms: int) -> list[str]:
            return [date.text(at_ms, zone, self._round_ms) for date, zone in dates]

        def clocks(at_ms: int) -> list[timedelta | None]:
            return [local_time(at_ms, zone).utcoffset() for _, zone in dates]

        def first_change(begin: int, end: int) -> int | None:
            if shown(end) == now and clocks(begin) == clocks(end):
                return None
            if end - begin == step:
                return None if shown(end) == now else end
            middle = begin + (end - begin) // step // 2 * step
            return first_change(begin, middle) or first_change(middle, end)

        now = shown(moment_ms)
        # What is rounded changes at most once in such a stride, unless a clock is changed in it: a name of
        # seconds that is rounded to days never does, which would take a year of seconds to find out.
        stride = max(step, min(self._round_ms, _DAY_MS) // step * step)
        strides = range(moment_ms, moment_ms + _YEAR_MS, stride)
        return next((end for begin in strides if (end := first_change(begin, begin + stride))), None)

    @cached_property
    def _longest_ms(self) -> int:
        """A moment whose texts, of dates that group nothing, are the longest: of a Wednesday in September."""
        dates = [
            (variable.date, self._zone(variable))
            for variable in self._template.variables
            if variable.date is not None and variable not in self.grouping
        ]
        # All numbers of these have their most digits, and all weekdays are among them.
        moments = (
            ms_since_1970(datetime(2026, month, day, 23, 59, 59, 999_000, tzinfo=zone))
            for zone in dict.fromkeys(zone for _, zone in dates)
            for month in range(1, 13)
            for day in range(22, 29)
        )
        return max(
            moments,
            key=lambda moment: sum(len(date.text(moment, zone, self._round_ms)) for date, zone in dates),
            default=0,
        )

    def _clock_dates(self) -> list[tuple[DatePattern, tzinfo]]:
        """The dates of the wall clock in names, each with the zone of its clock."""
        return [
            (variable.date, self._zone(variable))
            for variable in self._template.variables
            if variable.date is not None
            and (self._source is NameTimeSource.WALLCLOCK or variable.field in OF_THE_CLOCK)
        ]

    def _zone(self, variable: NameVariable) -> tzinfo:
        return _UTC if variable.field is NameField.UTC_DATE else self.zone

    def _groups(self, variable: NameVariable) -> bool:
        if variable.date is None:
            return variable.field in DATA
        return variable.field not in OF_THE_CLOCK and self._source in {
            NameTimeSource.EVENT,
            NameTimeSource.VALUE,
        }

    def _plain(self, text: str | bytes | None) -> str:
        if text is None:
            return self._missing
        # Java reads bytes that are no UTF-8 as replacement characters.
        errors = "replace" if self.is_of_lenses else "strict"
        plain = text.decode(errors=errors) if isinstance(text, bytes) else text
        # Half of a surrogate pair is no text either.
        plain.encode()
        if any(char < " " or char == "\x7f" for char in plain):
            raise ValueError("a control character")
        return plain

    def _texts(self, facts: ObjectFacts) -> Iterator[str]:
        """The texts of the name after the prefix."""
        if self._is_plain and self.grouping:
            parts = facts.group.split(_ELSEWHERE)[1:]
            others = [
                token
                for token in self._template.tokens
                if isinstance(token, NameVariable) and token not in self.grouping
            ]
            for part, variable in zip(parts, [*others, None], strict=True):
                yield part
                if variable is not None:
                    yield self._text(variable, facts)
            return
        texts = self._group_texts(facts.group)
        for token in self._template.tokens:
            yield token if isinstance(token, str) else texts.get(token) or self._text(token, facts)

    def _group_texts(self, group: str) -> dict[NameVariable, str]:
        """The text in the name of each variable that groups."""
        parts = group.split(_BETWEEN) if self.grouping else []
        return {
            variable: part if variable.date is None else (unescape(part) or b"").decode()
            for variable, part in zip(self.grouping, parts, strict=True)
        }

    def _text(self, variable: NameVariable, facts: ObjectFacts) -> str:
        if variable.date is not None:
            is_first = self._source is NameTimeSource.FIRST and variable.field not in OF_THE_CLOCK
            moment_ms = facts.first_time_ms if is_first else facts.opened_ms
            return variable.date.text(moment_ms, self._zone(variable), self._round_ms)
        if variable.field is NameField.TOPIC:
            return facts.topic.replace("-", variable.hyphens)
        if variable.field is NameField.EXTENSION:
            return self._extension
        number = {
            NameField.PARTITION: facts.partition,
            NameField.START_OFFSET: facts.first_offset,
            NameField.END_OFFSET: facts.last_offset,
            NameField.BATCH_OFFSET: facts.batch_offset,
            NameField.FIRST_TIMESTAMP: facts.least_timestamp_ms,
            NameField.LAST_TIMESTAMP: facts.greatest_timestamp_ms,
        }[variable.field]
        assert number is not None, "the name of an open object is not known yet"
        return variable.padding.text(number)


def lenses_group(names: ObjectNames, values: tuple[tuple[str, str], ...]) -> str | None:
    """The group of records with these values, by the names that a lock's key has; None: of other names.

    What is missing is in the key as it does in names of objects.
    """
    given = dict(values)
    shown = [
        "date" if each.date is not None else ".".join(each.path) or str(each.field) for each in names.grouping
    ]
    if not names.is_plain or len(given) != len(values) or len(set(shown)) != len(shown):
        return None
    if not given.keys() >= set(shown):
        return None
    try:
        return names.group(tuple(given[name] for name in shown))
    except ValueError:
        return None


class RecurringNames:
    """Which object has a recurring name at the moment; the next one's upload waits for its completion.

    S3 lets the upload that was started last win, so a later object must not be started before.
    """

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def hold(self, name: str, object_id: str) -> bool:
        """True when this object has the name, from now on or already."""
        holder = self._holders.setdefault(name, object_id)
        if holder == object_id:
            self._names[object_id] = name
        return holder == object_id

    def release(self, object_id: str) -> None:
        """The object is completed, or given up."""
        name = self._names.pop(object_id, None)
        if name is not None:
            del self._holders[name]
