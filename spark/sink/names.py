"""The key of an object, from the template and what is known of the object. Pure."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from ingest.errors import HeadraceError
from ingest.settings.sink_settings import NameSettings, NameTimeSource
from ingest.template.date_pattern import DatePattern, step_ms
from ingest.template.name_escape import escape, unescape
from ingest.template.name_template import (
    DATA,
    OFFSET_DIGITS,
    PARTITION_DIGITS,
    NameField,
    NameVariable,
    read_name_template,
)

KEY_MAX_BYTES: Final = 1024
"""S3 takes no longer key, in UTF-8."""

# Stands in no escaped text, so the values of a group can be told apart again.
_BETWEEN: Final = "|"
_MAX_OFFSET: Final = 2**63 - 1
_YEAR_MS: Final = 367 * 86_400_000


class NameTooLong(HeadraceError):
    """The key has more bytes than S3 takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """What a name is made of. `group` is one of `Grouping`'s.

    `last_offset` is None while the object is open. `topic_id` is given when a topic of this name was archived
    before and another one, with this id, has its name now: its objects stand in a directory of their own, so
    that small offsets do not meet those of the earlier topic.
    """

    topic: str
    partition: int
    group: str
    first_offset: int
    opened_ms: int
    last_offset: int | None = None
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
        self.value_path = settings.value_path
        self.zone = ZoneInfo(settings.timezone)
        self.grouping = tuple(dict.fromkeys(filter(self._groups, self._template.variables)))
        """The variables whose values group records, each once."""
        self._next = lru_cache(maxsize=64)(self._text_ends)

    @property
    def time_source(self) -> NameTimeSource:
        """Where the times in names come from."""
        return self._source

    @property
    def is_known_at_start(self) -> bool:
        """Whether an open object has its key already; else its upload begins when it closes."""
        return NameField.END_OFFSET not in self._template.fields

    @property
    def overwrites(self) -> bool:
        """Whether names are of record keys alone: a later object of a key replaces the earlier one."""
        return self._template.is_of_keys

    def key(self, facts: ObjectFacts) -> str:
        """The object's key; NameTooLong when S3 would not take it."""
        texts = self._group_texts(facts.group)
        again = "" if facts.topic_id is None else f"topic_id={facts.topic_id}/"
        tokens = (
            token if isinstance(token, str) else self._text(token, facts, texts)
            for token in self._template.tokens
        )
        key = "".join([self._prefix, again, *tokens])
        if len(key.encode()) > self._max_bytes:
            raise NameTooLong(
                f"The name of an object of {facts.topic}-{facts.partition} has more than {KEY_MAX_BYTES:,} "
                "bytes: shorten aws.s3.prefix or file.name.template."
            )
        return key

    def fits(self, topic: str, partition: int, group: str) -> bool:
        """Whether every object of this group has a key that S3 takes, whatever its offsets and topic id."""
        widest = ObjectFacts(
            topic=topic,
            partition=partition,
            group=group,
            first_offset=_MAX_OFFSET,
            last_offset=_MAX_OFFSET,
            opened_ms=0,
            topic_id="x" * 22,
        )
        try:
            self.key(widest)
        except NameTooLong:
            return False
        return True

    def group(self, texts: tuple[str | bytes | None, ...]) -> str:
        """The group of records with these values of `grouping`, in its order."""
        return _BETWEEN.join(map(escape, texts))

    def name_ends_ms(self, opened_ms: int) -> int | None:
        """When the wall clock in the name of an object opened then is over; None where there is none."""
        if self._source is not NameTimeSource.WALLCLOCK or not self._dates():
            return None
        step = self._step(opened_ms)
        return self._next(opened_ms // step * step, step)

    def _text_ends(self, moment_ms: int, step: int) -> int | None:
        dates = self._dates()
        now = [date.text(moment_ms, self.zone) for date in dates]
        for later in range(moment_ms + step, moment_ms + _YEAR_MS, step):
            if [date.text(later, self.zone) for date in dates] != now:
                return later
        return None

    def _dates(self) -> list[DatePattern]:
        return [variable.date for variable in self._template.variables if variable.date is not None]

    def _step(self, moment_ms: int) -> int:
        return step_ms(min(date.unit_ms for date in self._dates()), self.zone, moment_ms)

    def _groups(self, variable: NameVariable) -> bool:
        if variable.date is not None:
            return self._source is not NameTimeSource.WALLCLOCK
        return variable.field in DATA

    def _group_texts(self, group: str) -> dict[NameVariable, str]:
        """The text in the name of each variable that groups."""
        parts = group.split(_BETWEEN) if self.grouping else []
        return {
            variable: part if variable.date is None else (unescape(part) or b"").decode()
            for variable, part in zip(self.grouping, parts, strict=True)
        }

    def _text(self, variable: NameVariable, facts: ObjectFacts, texts: dict[NameVariable, str]) -> str:
        if variable in texts:
            return texts[variable]
        if variable.date is not None:
            return variable.date.text(facts.opened_ms, self.zone)
        numbers = {
            NameField.PARTITION: (facts.partition, PARTITION_DIGITS),
            NameField.START_OFFSET: (facts.first_offset, OFFSET_DIGITS),
            NameField.END_OFFSET: (facts.last_offset, OFFSET_DIGITS),
        }
        if variable.field in numbers:
            number, digits = numbers[variable.field]
            assert number is not None, "an open object has no name with {{end_offset}}"
            return f"{number:0{digits if variable.padded else 1}}"
        return facts.topic if variable.field is NameField.TOPIC else self._extension
