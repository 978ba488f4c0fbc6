"""What a configuration gives: text of each option, its origin, value, how much may be shown; all problems."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from headrace.model.errors import HeadraceError
from headrace.options.declarations import (
    BY_NAME,
    CANONICAL,
    OPTIONS,
    connection_options,
    format_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.declarations.option import Group, Option
from headrace.options.secret import HIDDEN, MASK, is_mask, is_secret_name, without_url_secrets
from headrace.options.value_types import FormError
from headrace.options.vendor import Direction, direction_of

_SHOWN_MAX: Final = 200
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
_FREE_TEXTS: Final = ("transforms.", "predicates.")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Entry:
    """One option as given: `raw` as it was written, `text` with references replaced.

    `is_vendors`: `spelled` is another vendor's option, and not an old name of ours. `is_default`: it is
    not written anywhere, and that vendor's connector has it so.
    """

    option: str
    spelled: str
    raw: str
    text: str
    is_vendors: bool = False
    is_default: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether what was written is a secret, or is taken for one; a reference to one is not."""
        if _REFERENCE.fullmatch(self.raw.strip()) is not None:
            return False
        return self.is_secret

    @property
    def is_secret(self) -> bool:
        """Whether the value is a secret, or is taken for one, wherever it comes from."""
        known = BY_NAME.get(self.option)
        if known is not None:
            return known.is_secret
        # A whole property line for a JVM may carry a password; Spark masks by name and by value as well.
        return is_secret_name(self.option) or (self.option.startswith("spark.") and is_secret_name(self.text))

    @property
    def is_mask(self) -> bool:
        """Whether what was written is what is shown in place of a secret.

        `[hidden]` counts for any option: others may show a secret so that is not known as one here. A
        transform may write what looks like one, and its user calls it as they like.
        """
        return self._is_mask(self.raw)

    @property
    def leads_to_mask(self) -> bool:
        """Whether a reference leads to what looks like a mask: a value, as answers show the reference."""
        return self._is_mask(self.text) and not self.is_mask

    def _is_mask(self, text: str) -> bool:
        if self.option.startswith(_FREE_TEXTS):
            return False
        is_hidden = text.strip() == HIDDEN or self.option.startswith("spark.")
        return is_mask(text, is_secret=self.is_secret or is_hidden)

    @property
    def shown_whole(self) -> str:
        """What may be shown of the value: a reference stays a reference, a secret is masked."""
        return MASK if self.is_hidden else without_url_secrets(self.raw)

    @property
    def shown(self) -> str:
        """The same, short enough for a sentence."""
        shown = self.shown_whole
        return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}.."


def as_written(spelled: str, raw: str) -> Entry:
    """Return an entry for an option as a configuration has it, its references not replaced: to show it."""
    return Entry(option=canonical(spelled), spelled=spelled, raw=raw, text=raw)


def canonical(spelled: str) -> str:
    """Return the name under which an option is known here; unknown names are their own."""
    return CANONICAL.get(spelled.strip(), spelled.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One sentence about one option; `value` is what was given as it may be shown, None when it may not.

    `is_missing`: what its reference points at is not there, on this machine and at this time.
    `is_forbidden`: it may not be read, wherever it leads. `is_unread`: the file that the option itself names
    is not there, or cannot be read, at this time.
    """

    option: str
    message: str
    value: str | None = None
    is_missing: bool = False
    is_forbidden: bool = False
    is_unread: bool = False

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value!r}"
        return f"{self.option}{shown}: {self.message}" if self.option else self.message


class SettingsError(HeadraceError):
    """The configuration cannot be used; `problems` holds all that was found, none of them with a secret."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"The configuration has a problem: {self.problems[0]}"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return f"The configuration has {len(self.problems)} problems:{lines}"


class Problems:
    """Collects problems; the same one found twice (a TLS option serves three clients) counts once."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(
        self,
        option: str,
        message: str,
        value: str | None = None,
        *,
        is_missing: bool = False,
        is_forbidden: bool = False,
        is_unread: bool = False,
    ) -> None:
        """Note a problem of an option; the value only as it may be shown."""
        problem = Problem(
            option=option,
            message=message,
            value=value,
            is_missing=is_missing,
            is_forbidden=is_forbidden,
            is_unread=is_unread,
        )
        self._found[problem] = None

    def include(self, others: "Problems") -> None:
        """Note what others have found, too."""
        self._found |= dict.fromkeys(others)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SettingsError with all of them, if there are any."""
        if self._found:
            raise SettingsError(tuple(self._found))


T = TypeVar("T")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@cache
def _defaults() -> Mapping[str, object]:
    """The parsed defaults, which are immutable: of some hundred options nearly all have theirs, each time."""
    return {
        option.name: None if option.default is None else option.form.parse(option.default)
        for option in OPTIONS
        if not option.required
    }


_PLACES: Final = {option.name: place for place, option in enumerate(OPTIONS)}
_REQUIRED: Final = frozenset(option.name for option in OPTIONS if option.required)


class Values:
    """Parsed values by option: `values[POLL_INTERVAL]` is an int. Options with a problem are not `good`."""

    __slots__ = ("_bad", "_defaults", "_given", "_inherited", "_lost", "_parsed", "idle", "problems", "unfit")

    def __init__(
        self,
        given: Mapping[str, Entry],
        problems: Problems,
        broken: frozenset[str],
        defaults: Mapping[str, str] = _NONE,
        inherited: Collection[str] = (),
    ) -> None:
        """Parse all options; `broken` names those that have a problem before parsing.

        `defaults` are those that this machine has, in the place of the options' own. `inherited` names what
        a route has of its sink, and what that was given for may be its other topics.
        """
        self.problems = problems
        self.idle: set[str] = set()
        """To be left out, as it means nothing here: defaults of another vendor, and what is inherited."""
        self.unfit: set[str] = set()
        """Those of `idle` that say something, and cannot be: the options' own defaults are in force."""
        self._given = given
        self._inherited = inherited
        self._defaults = defaults
        self._lost = broken
        self._bad = set(broken)
        self._parsed: dict[str, Any] = dict(_defaults())
        decided = _PLACES.keys() & (_REQUIRED | given.keys() | defaults.keys())
        for name in _PLACES.keys() & (decided | broken):
            self._parsed.pop(name, None)
        # In their order, which is that of the problems.
        for place in sorted(_PLACES[name] for name in decided - broken):
            self._parse(OPTIONS[place])

    def __getitem__(self, option: Option[T]) -> T:
        # Not `cast`, which is a call: a configuration that is loaded looks here some hundred times.
        found: T = self._parsed[option.name]
        return found

    def is_given(self, option: Option[Any]) -> bool:
        """Whether the configuration names the option, well or badly, and does not leave it to its default."""
        return option.name in self._given or option.name in self._lost

    def text(self, option: Option[Any]) -> str | None:
        """The text of an option as given, references replaced; None when it is not."""
        entry = self._given.get(option.name)
        return None if entry is None else entry.text

    def are_good(self, *options: Option[Any]) -> bool:
        """Whether all of these have a value, so that they can be held against each other."""
        return not any(option.name in self._bad for option in options)

    def refuse(self, option: Option[Any], message: str) -> None:
        """Note a problem of an option, with the value given."""
        entry = self._given.get(option.name)
        self.problems.add(_named(option, entry), message, None if entry is None else entry.shown)

    def is_written(self, option: Option[Any]) -> bool:
        """Whether the configuration itself names the option, and it is not just another vendor's default."""
        entry = self._given.get(option.name)
        return self.is_given(option) and (entry is None or not entry.is_default)

    def refuse_idle(self, option: Option[Any], message: str) -> None:
        """Note a value that means nothing next to others; in `idle` where it is not written for these."""
        is_inherited = option.name in self._given and option.name in self._inherited
        if is_inherited or (self.is_given(option) and not self.is_written(option)):
            self.idle.add(option.name)
        else:
            self.refuse(option, message)

    def refuse_unfit(self, option: Option[Any], message: str) -> None:
        """Note a value that cannot be next to others; another vendor's default only as one of `unfit`."""
        if self.is_given(option) and not self.is_written(option):
            self.idle.add(option.name)
            self.unfit.add(option.name)
        else:
            self.refuse(option, message)

    def _parse(self, option: Option[Any]) -> None:
        entry = self._given.get(option.name)
        if entry is None:
            self._parse_missing(option)
            return
        if entry.text == "" and not option.form.empty:
            self._refuse_entry(entry, f"is empty; expected {option.form.expected}")
            return
        try:
            entry.text.encode()
            self._parsed[option.name] = option.form.parse(entry.text)
        except UnicodeEncodeError:
            self._refuse_entry(entry, "holds half of a surrogate pair, which is no character")
            return
        except FormError as error:
            reason = f"; {error}" if str(error) else ""
            self._refuse_entry(entry, f"expected {option.form.expected}{reason}")

    def _parse_missing(self, option: Option[Any]) -> None:
        if option.required:
            self._bad.add(option.name)
            self.problems.add(option.name, f"is missing; expected {option.form.expected}")
        else:
            self._parse_machines(option, self._defaults[option.name])

    def _parse_machines(self, option: Option[Any], text: str) -> None:
        try:
            self._parsed[option.name] = option.form.parse(text)
        except FormError:
            self._bad.add(option.name)
            self.problems.add(option.name, f"is {text!r} on this machine; set it to {option.form.expected}")

    def _refuse_entry(self, entry: Entry, message: str) -> None:
        self._bad.add(entry.option)
        spelled = _other_name(entry)
        self.problems.add(entry.spelled, f"{message}{spelled}", entry.shown)


def _named(option: Option[Any], entry: Entry | None) -> str:
    """The name that the configuration has for an option."""
    if entry is None or entry.spelled == option.name or _is_old_name(entry):
        return option.name
    return f"{entry.spelled} (here {option.name})"


def _is_old_name(entry: Entry) -> bool:
    return not entry.is_vendors and canonical(entry.spelled) == entry.option


def _other_name(entry: Entry) -> str:
    if entry.spelled == entry.option:
        return ""
    if _is_old_name(entry):
        return f" (an old spelling of {entry.option})"
    return f" (here {entry.option})"


_SINK_GROUPS: Final = frozenset({Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS})
# The Aiven connector's sources carry these without a meaning, whatever they say.
_WITHOUT_MEANING_FOR_SOURCES: Final = (
    sink_options.HEADER_CONVERTER_CLASS,
    sink_options.HEADER_SCHEMAS,
    sink_options.NAME_TIME_SOURCE,
    sink_options.TIMEZONE_NAME,
)
_NEEDLESS_NAMES: Final = frozenset(option.name for option in _WITHOUT_MEANING_FOR_SOURCES)
_NEEDLESS_OF: Final = f"{sink_options.HEADER_CONVERTER_CLASS.name}."
_OF_SINKS: Final = tuple(
    option
    for option in OPTIONS
    if option.group in _SINK_GROUPS and option not in _WITHOUT_MEANING_FOR_SOURCES
)
_REMOVE: Final = "has no meaning for a sink; remove it"
_TOPICS: Final = "is a source's; use topics or topics.regex for the topics that a sink archives"
_VALUES: Final = "is a source's; use value.converter, output.format and output.fields"
_SCHEMAS: Final = "is a source's; a sink reads each record by the schema that it names, and registers none"
_ENDLESS: Final = (
    "is a source's; a sink repeats calls as aws.s3.backoff.* says, and keeps trying while S3 is away"
)
_OF_SOURCES: Final[dict[Option[Any], str]] = {
    **{
        option: _REMOVE
        for option in OPTIONS
        if option.group in {Group.SQS, Group.DISCOVERY, Group.RESTORE}
        or option.name.startswith(("text.", "input.archive"))
    },
    record_options.TOPIC_NAME: _TOPICS,
    record_options.FILE_NAME_MATCH: _REMOVE,
    record_options.DISTRIBUTION: _REMOVE,
    record_options.ORDERING: _REMOVE,
    record_options.INPUT_FORMAT: "is a source's; use output.format",
    record_options.CHUNK_SIZE: _REMOVE,
    record_options.DECODE_UNIT_MAX_BYTES: _REMOVE,
    record_options.KEY_FROM: "is a source's; use key.converter and output.fields",
    record_options.VALUE_FROM: _VALUES,
    record_options.VALUE_FORMAT: _VALUES,
    record_options.HEADERS_FROM: "is a source's; use output.fields",
    record_options.RECORD_FIELDS: "is a source's; use output.fields",
    record_options.TIMESTAMP_FROM: "is a source's; use file.name.timestamp.source for names",
    record_options.ENVELOPE: "is a source's; use output.envelope",
    record_options.ENVELOPE_BASE64: _REMOVE,
    reading_options.POST_ACTION: _REMOVE,
    reading_options.POST_ACTION_UNCONDITIONAL: _REMOVE,
    record_options.JOB_MAX_OBJECTS: _REMOVE,
    record_options.JOB_MAX_BYTES: _REMOVE,
    record_options.JOB_MAX_SECONDS: _REMOVE,
    format_options.CSV_COLUMNS: "is a source's; output.fields are the columns",
    format_options.CSV_TYPES: _REMOVE,
    format_options.JSON_PATH: _REMOVE,
    connection_options.PARTITIONER: _REMOVE,
    connection_options.TOPIC_PARTITIONS: "is a source's; a sink creates no topics that it reads",
    connection_options.TOPIC_REPLICATION: "is a source's; a sink creates no topics that it reads",
    record_options.BOUNDARY_RECORDS: "is a source's; rotate.records closes objects",
    record_options.BOUNDARY_INTERVAL: "is a source's; rotate.age.ms closes objects",
    record_options.RECORD_MAX_BYTES: (
        "is a source's; a sink reads records as large as the brokers have them, and "
        "producer.override.message.max.bytes bounds its dead letters"
    ),
    format_options.REGISTRY_AUTO_REGISTER: _SCHEMAS,
    format_options.REGISTRY_USE_LATEST: _SCHEMAS,
    format_options.REGISTRY_SUBJECT: _SCHEMAS,
    format_options.GLUE_REGISTRY: _SCHEMAS,
    format_options.GLUE_SCHEMA: _SCHEMAS,
    format_options.GLUE_AUTO_REGISTER: _SCHEMAS,
    format_options.GLUE_COMPATIBILITY: _SCHEMAS,
    record_options.MAX_ATTEMPTS: _ENDLESS,
    record_options.RETRY_DELAY: _ENDLESS,
    record_options.RETRY_DELAY_MAX: _ENDLESS,
    connection_options.LEDGER_RETENTION: _REMOVE,
}


def is_for(option: Option[Any], way: Direction) -> bool:
    """Whether an option means something to sources, or to sinks."""
    if way is Direction.SINK:
        return option not in _OF_SOURCES
    return option.group not in _SINK_GROUPS


def direction(values: Values) -> Direction:
    """Return which way the data goes: by `connector.class`, else by `topics` or `topics.regex`."""
    topics = (sink_options.TOPIC_NAMES, sink_options.TOPICS_REGEX)
    given = [option.name for option in topics if values.is_given(option)]
    return direction_of(values.text(connection_options.CONNECTOR_CLASS) or "", given)


def is_needless_in_source(option: str) -> bool:
    """Whether an option decides nothing in a source, though it does in a sink."""
    return option in _NEEDLESS_NAMES or option.startswith(_NEEDLESS_OF)


def check_direction(values: Values) -> None:
    """Note the options of the other direction."""
    if direction(values) is Direction.SINK:
        for option, remedy in _OF_SOURCES.items():
            if values.is_given(option):
                values.refuse(option, remedy)
        return
    for option in _OF_SINKS:
        if values.is_given(option):
            remedy = (
                "is a sink's; use topic"
                if option is sink_options.TOPIC_NAMES
                else "is an option of a sink (connector.class=HeadraceSink); remove it"
            )
            values.refuse(option, remedy)
