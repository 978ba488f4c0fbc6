"""From a maker's options to ours: what a translation may read and write, and what comes of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.model.text_formatting import MarkedError
from headrace.names.archive_names import LayoutName
from headrace.options.client_names import GROUP_NAME, LONGEST_MS
from headrace.options.declarations.connection_options import NAME
from headrace.options.given import Problems, as_written, canonical
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.references import ReferenceMissing, References, note_missing
from headrace.options.value_types import WHOLE_NUMBER
from headrace.options.vendor import SINK_CLASS, Fate, Vendor

T = TypeVar("T")

_CLASS: Final = "connector.class"
_FLAGS: Final = {"true": True, "false": False}
_LAYOUT: Final = "output.layout"
_TEMPLATE: Final = "file.name.template"
_LEFTOVER: Final = "the other connector does not know it either"
_OF_JAVA: Final = "only Java's clients have it"
_CONSUMER: Final = "consumer.override."
_GROUP: Final = f"{_CONSUMER}group.id"
# Consumers in Connect share the work by their group; here it decides who leads.
# Connect's default of each is an empty text, which tools that fill in defaults write out.
_EMPTY_IN_CONNECT: Final = ("topics", "topics.regex", "errors.deadletterqueue.topic.name")
_HEARTBEATS: Final = f"{_CONSUMER}heartbeat.interval.ms"
_OFTEN_ENOUGH: Final = "heartbeats are sent five times a session, or each second"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedLine:
    """What became of one option that was given.

    `reference` is how it was written, as it may be shown, where options of ours have what that led to.
    """

    option: str
    fate: Fate
    note: str
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """The configuration in our own options, as text with references unreplaced.

    `spelled` names the maker's option that an option of ours comes from, for error texts; `lost` has those of
    ours whose value is one of a reference that leads nowhere, `defaults` those that are not written: the
    maker's connector has them so.
    """

    options: Mapping[str, str]
    spelled: Mapping[str, str]
    lines: tuple[TranslatedLine, ...]
    warnings: tuple[str, ...]
    lost: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()


class Translation:
    """Read by `text`, `flag`, `integer` and `choice`; written by `own` and `rename`.

    `worker` holds what a Connect worker's file says of converters and flushing, `ours` the options of ours
    next to theirs. Every problem is noted, none raised: a value that is wrong reads as its default.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        raw: Mapping[str, str],
        worker: Mapping[str, str],
        problems: Problems,
        ours: Mapping[str, str],
    ) -> None:
        self._ours = {name.strip(): text.strip() for name, text in ours.items()}
        self._given = given
        self._raw = raw
        self._worker = worker
        self._problems = problems
        self._own: dict[str, str] = {}
        self._spelled: dict[str, str] = {}
        self._lost: set[str] = set()
        self._read: set[str] = set()
        self._renamed: set[str] = set()
        self._notes: dict[str, tuple[Fate, str]] = {}
        self._warnings: list[str] = []

    # -- reading ---------------------------------------------------------------------------------------------

    def is_given(self, option: str) -> bool:
        """Whether the option is there and not empty."""
        return bool(self._given.get(option, "").strip())

    def text(self, option: str, default: str = "") -> str:
        """The value without blanks around it, the default where it is missing or empty."""
        self._read.add(option)
        return self._given.get(option, "").strip() or default

    def exact_text(self, option: str, default: str = "") -> str:
        """The value as it was written, blanks and all; the default only where it is missing."""
        self._read.add(option)
        return self._given.get(option, default)

    def flag(self, option: str, *, default: bool) -> bool:
        """True or false."""
        return self.choice(option, _FLAGS, default)

    def integer(self, option: str, default: int, *, low: int, high: int = 2**63 - 1) -> int:
        """A whole number from `low` to `high`."""
        text = self.text(option)
        if not text:
            return default
        number = int(text) if WHOLE_NUMBER.fullmatch(text) else low - 1
        if not low <= number <= high:
            self.refuse(option, f"expected a whole number from {low} to {high}")
            return default
        return number

    def choice(self, option: str, words: Mapping[str, T], default: T) -> T:
        """What one of these words, in any case, stands for."""
        text = self.text(option)
        if not text:
            return default
        known = {word.lower(): value for word, value in words.items()}
        if text.lower() not in known:
            self.refuse(option, f"expected one of {', '.join(words)}")
            return default
        return known[text.lower()]

    def worker(self, option: str, default: str = "") -> str:
        """What the Connect worker's file says of an option, the default where there is none."""
        return self._worker.get(option, default)

    def own_given(self, option: str) -> str:
        """The value of an option of ours that is given next to theirs, and wins; empty where it is not.

        A reference that leads nowhere stays as it was written: it is a problem of that option.
        """
        return self._ours.get(option, "")

    def own_family(self, name: str) -> dict[str, str]:
        """An option of ours that is given next to theirs, and those below it."""
        return {
            option: text
            for option, text in self._ours.items()
            if option == name or option.startswith(f"{name}.")
        }

    def worker_family(self, name: str) -> dict[str, str]:
        """What the worker's file says of an option, and of those below it."""
        return {
            option: value
            for option, value in self._worker.items()
            if option == name or option.startswith(f"{name}.")
        }

    def family(self, prefix: str) -> dict[str, str]:
        """All given options that begin with this, with their values."""
        return {name: text for name, text in self._given.items() if name.startswith(prefix)}

    # -- writing ---------------------------------------------------------------------------------------------

    def own(self, option: str, value: str | int, *, by: str | None = None) -> None:
        """Set an option of ours; `by` is the option of theirs that says so, None: their sink always does."""
        self._own[option] = str(value).lower() if isinstance(value, bool) else str(value)
        if by is not None:
            self._spelled[option] = by

    def rename(self, option: str, own: str, *, may_be_blank: bool = False) -> None:
        """Set an option of ours to exactly what theirs was given, references and secrets included.

        `may_be_blank`: white space alone is a value like others, and only a text without any is none.
        """
        if self.is_given(option) or (may_be_blank and self.exact_text(option)):
            self._own[own] = self._raw[option]
            self._spelled[own] = option
            self._renamed.add(option)
        elif self._is_lost(option):
            self._lost.add(own)

    def note(self, option: str, fate: Fate, sentence: str) -> None:
        """Say what became of an option, where that depends on its value."""
        self._notes[option] = (fate, sentence)

    def unused(self, *options: str, without: str) -> None:
        """Say of these, where they are given, that they decide nothing without what is not."""
        for option in filter(self.is_given, options):
            sentence = f"decides nothing without {without}, as in the other connector"
            self.note(option, Fate.NEEDLESS, sentence)

    def older(self, older: str, newer: str) -> None:
        """Say of a former name, where both are given, that the newer one wins."""
        if self.is_given(older) and self.is_given(newer):
            self.note(older, Fate.NEEDLESS, f"`{newer}` is given as well, and wins")

    def warn(self, sentence: str) -> None:
        """Have an operator read this at start."""
        self._warnings.append(sentence)

    def refuse(self, option: str, message: str) -> None:
        """Note a problem of an option that is given, or is missing; of a lost value there is one already."""
        if self._is_lost(option):
            return
        raw = self._raw.get(option)
        self._problems.add(option, message, None if raw is None else as_written(option, raw).shown_whole)

    def marked(self, option: str, error: MarkedError) -> str:
        """What is wrong with a text of this option; where it has references, the place and no word of it."""
        if self._given.get(option) == self._raw.get(option):
            return str(error)
        return (
            f"what its references lead to is wrong at character {error.start + 1}; `headrace lint` says what "
            "is, of a configuration with that text in place of them"
        )

    def quoted(self, option: str, words: str) -> str:
        """Words of an option's text, as a problem may quote them: not where they may be a reference's."""
        has_references = self._given.get(option) != self._raw.get(option)
        return "(text of a reference)" if has_references else words

    def result(self, vendor: Vendor) -> Translated:
        """What came of it."""
        return Translated(
            options=dict(self._own),
            spelled=dict(self._spelled),
            lines=tuple(self._line(vendor, name) for name in self._raw),
            warnings=tuple(self._warnings),
            lost=frozenset(self._lost),
        )

    def _is_lost(self, option: str) -> bool:
        """Whether it is given by a reference that leads nowhere."""
        return option in self._raw and option not in self._given

    def _line(self, vendor: Vendor, name: str) -> TranslatedLine:
        row = vendor.option(name)
        assert row is not None, "only options of the table are read"
        fate, note = self._notes.get(name, (row.fate, row.note))
        return TranslatedLine(option=name, fate=fate, note=note, reference=self._reference(name, fate))

    def _reference(self, option: str, fate: Fate) -> str | None:
        """The reference that no option of ours has, as the option was read and not passed on."""
        decides = option in self._read and fate in {Fate.KEPT, Fate.CHANGED}
        raw = self._raw[option]
        if not decides or option in self._renamed or self._given.get(option, raw) == raw:
            return None
        return as_written(option, raw).shown_whole


def translate(
    vendor: Vendor,
    configuration: Mapping[str, str],
    *,
    worker: Mapping[str, str],
    references: References,
    problems: Problems,
    is_leftover: Callable[[str], bool] = lambda _option: False,
) -> Translated:
    """The configuration of a maker's sink in our own options.

    What the maker's table does not have is passed on as it is: options of ours, which win, and unknown ones.
    What `is_leftover` says decides nothing is kept back.
    """
    raw, others = _divided(vendor, configuration)
    leftovers = [name for name in others if is_leftover(name.strip())]
    others = {name: text for name, text in others.items() if name not in leftovers}
    given = {}
    for name, text in raw.items():
        try:
            given[name] = references.replaced(name, text)
        except ReferenceMissing as error:
            note_missing(problems, name, error)
    others = _without_empty(others, references)
    translation = Translation(given, raw, worker, problems, _followed(others, references))
    for name in raw:
        row = vendor.option(name)
        if row is not None and row.fate is Fate.REFUSED:
            problems.add(name, row.note)
    is_named = not vendor.is_sink or _has_name(vendor, translation, configuration, problems)
    vendor.translate(translation)
    found = translation.result(vendor)
    capped = _capped(others) if vendor.is_sink else {}
    if vendor.is_sink and others.pop(_HEARTBEATS, None) is not None:
        capped[_HEARTBEATS] = TranslatedLine(option=_HEARTBEATS, fate=Fate.NEEDLESS, note=_OFTEN_ENOUGH)
    lines = (
        *found.lines,
        *capped.values(),
        *(
            TranslatedLine(
                option=each, fate=Fate.NEEDLESS, note=_OF_JAVA if ".override." in each else _LEFTOVER
            )
            for each in leftovers
        ),
    )
    # Names that are given may have blanks around them.
    own_lines = {canonical(name) for name in others}
    made = {own: text for own, text in found.options.items() if own not in own_lines}
    return Translated(
        options={_CLASS: vendor.own_class, **made, **others},
        spelled={own: theirs for own, theirs in found.spelled.items() if own not in own_lines},
        lines=lines,
        defaults=frozenset(own for own in made if found.spelled.get(own) not in raw),
        lost=found.lost - others.keys() | (frozenset() if is_named else {NAME.name}),
        warnings=(
            *found.warnings,
            *(f"{each.option}: {each.note}" for each in capped.values() if each.fate is Fate.CHANGED),
            *_overruled(found, others, raw),
            *_named_as_theirs(vendor, found, translation),
            *_needless(lines),
        ),
    )


def _followed(ours: Mapping[str, str], references: References) -> dict[str, str]:
    """Options of ours with what their references lead to."""
    found = dict(ours)
    for name, text in ours.items():
        with suppress(ReferenceMissing):
            found[name] = references.replaced(name, text)
    return found


def _has_name(
    vendor: Vendor, given: Translation, configuration: Mapping[str, str], problems: Problems
) -> bool:
    """Whether a sink may have the connector's name here; else a problem says how another one takes over."""
    name = given.own_given(NAME.name) or given.text(NAME.name)
    if NAME.form.takes(name):
        return True
    may_follow = name and "${" not in name and _GROUP not in configuration
    if not may_follow or not GROUP_NAME.takes(f"connect-{name}"):
        return True  # What is wrong is told where all options are read.
    locks = f" and takeover.connector={name}" if vendor.layout is LayoutName.LENSES else ""
    problems.add(
        NAME.name,
        f"expected {NAME.form.expected}; to continue where the connector stopped, choose another name, "
        f"and set {_GROUP}=connect-{name}{locks}",
        as_written(NAME.name, name).shown,
    )
    return False


def _without_empty(ours: dict[str, str], references: References) -> dict[str, str]:
    """Options of ours without those that are given as Connect's empty default."""
    texts = _followed(ours, references)
    empty = {name for name, text in texts.items() if name.strip() in _EMPTY_IN_CONNECT and not text.strip()}
    return {name: text for name, text in ours.items() if name not in empty}


def _capped(others: dict[str, str]) -> dict[str, TranslatedLine]:
    """Bring what is longer than a consumer may be silent here to the longest, and say so.

    Pages of other vendors recommend five minutes and more; nothing of what is written depends on it.
    """
    found = {}
    for name, longest in LONGEST_MS.items():
        option = f"{_CONSUMER}{name}"
        text = others.get(option, "").strip()
        if text.isdecimal() and int(text) > longest:
            others[option] = str(longest)
            note = (
                f"{text} is more than the longest here, {longest:,}, which is used: after that long another "
            )
            note += "process takes over"
            found[option] = TranslatedLine(option=option, fate=Fate.CHANGED, note=note)
    return found


def _divided(vendor: Vendor, configuration: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the maker's table, and all others."""
    theirs, others = {}, {}
    for name, text in configuration.items():
        if vendor.option(name.strip()) is not None:
            theirs[name.strip()] = text
        elif name.strip() != _CLASS:
            others[name] = text
    return theirs, others


def _overruled(found: Translated, others: Mapping[str, str], raw: Mapping[str, str]) -> list[str]:
    return [
        f"{own} wins over {found.spelled[own]}, which says the same in the other connector's words"
        for own in others
        if found.spelled.get(own) in raw
    ]


def _named_as_theirs(vendor: Vendor, found: Translated, given: Translation) -> Iterator[str]:
    """Yield that rows of our layout have names of theirs, which a restore of that layout does not read."""
    layout = given.own_given(_LAYOUT)
    is_named = bool(given.own_given(_TEMPLATE)) or _TEMPLATE not in found.options
    if is_named or layout != LayoutName.HEADRACE:
        return
    fix = f"write {_TEMPLATE}={DEFAULT_TEMPLATE} as well"
    if vendor.option(_TEMPLATE) is not None:
        fix = f"set connector.class={SINK_CLASS} and what `headrace translate` prints, without {_TEMPLATE}"
    yield (
        f"{_LAYOUT}={layout}: objects keep the names of {vendor.name}, and restores do not find these by "
        f"that layout, only by a {_TEMPLATE} of their own; {fix}"
    )


def _needless(lines: tuple[TranslatedLine, ...]) -> list[str]:
    names = [line.option for line in lines if line.fate is Fate.NEEDLESS]
    return [f"accepted though nothing depends on them here: {', '.join(sorted(names))}"] if names else []
