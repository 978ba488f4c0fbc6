"""File, worker file and overrides to one entry an option: old spellings unified, references replaced."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.text_formatting import HINTED, did_you_mean
from headrace.options import client_names
from headrace.options.configuration_text import PropertiesError, parse_properties
from headrace.options.declarations import CANONICAL, FAMILIES
from headrace.options.declarations.connection_options import STATE_DIR
from headrace.options.declarations.option import (
    JAVA_STORES,
    NAME_CHECK,
    NULL_DEFAULTS,
    PEM_FILE,
    PEM_KEYS,
    PEM_TEXT,
    PEM_TRUST,
    WITHOUT_MEANING,
)
from headrace.options.declarations.reading_options import BUCKET, ENDPOINT_URL, PREFIX
from headrace.options.declarations.sink_options import BUFFER_DIR
from headrace.options.given import Entry, Problems, canonical
from headrace.options.references import ReferenceMissing, References, is_unreplaced, note_missing
from headrace.options.suggestions import are_of_one_group, is_like_after_groups, override_meant, suggested
from headrace.options.tls import is_pem_name
from headrace.options.value_types import trimmed
from headrace.options.worker_file import is_of_worker

_OPEN: Final = tuple(
    family.prefix
    for family in FAMILIES
    if family.prefix.endswith((".override.", "spark.", "route.", "transforms.", "predicates."))
)
SPELLINGS: Final = (*CANONICAL, *client_names.TOP_LEVEL, *WITHOUT_MEANING)
"""All names that are read here, but for those of open families."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """What a configuration of another vendor's connector may hold: `names`, and lines that decide nothing.

    `is_leftover` is asked with an option and its text. `trimmed`: options of ours whose values that connector
    takes without blanks around them. `may_be_empty`: those that are as good as left out where they are empty.
    `meant`: by the names that people take for its options, the option. `given`: all that the configuration
    has, as which no other line of it is meant.
    """

    owner: str = ""
    names: tuple[str, ...] = ()
    meant: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    is_leftover: Callable[[str, str], bool] = lambda _option, _text: False
    trimmed: frozenset[str] = frozenset()
    may_be_empty: frozenset[str] = frozenset()


_NOTHING_FOREIGN: Final = Foreign()


class Gathered:
    """Entries by canonical name, those of a worker's clients apart, and the names whose value is lost."""

    __slots__ = ("broken", "entries", "without_meaning", "worker")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.worker: dict[str, Entry] = {}
        self.without_meaning: list[str] = []
        self.broken: set[str] = set()


def gather(
    file: Mapping[str, str],
    overrides: Mapping[str, str],
    worker: str | None,
    *,
    references: References,
    problems: Problems,
    foreign: Foreign = _NOTHING_FOREIGN,
) -> Gathered:
    """Return what is given: an override wins over the file, the file over the worker's file."""
    gathered = Gathered()
    for layer in (file, overrides):
        found: dict[str, Entry] = {}
        for entry in _entries(layer, references, gathered, problems, foreign):
            _put_unless_other(entry, found, gathered, problems)
        gathered.entries.update(found)
    if worker is not None:
        _gather_worker(worker, gathered, references, problems)
    return gathered


def _entries(
    layer: Mapping[str, str],
    references: References,
    gathered: Gathered,
    problems: Problems,
    foreign: Foreign,
) -> Iterator[Entry]:
    for spelled, raw in layer.items():
        option = canonical(spelled)
        if option in foreign.may_be_empty and not raw.strip():
            # An empty override takes away what the file gives, as in translated configurations.
            gathered.entries.pop(option, None)
            continue
        if option in WITHOUT_MEANING or foreign.is_leftover(option, raw):
            gathered.without_meaning.append(option)
        elif not is_known(option):
            problems.add(
                spelled if option else repr(spelled),
                _unknown(option, layer, foreign, is_hinted=len(problems) < HINTED),
            )
        else:
            entry = _entry(spelled, raw, references, gathered, problems)
            if entry is not None and option in foreign.trimmed:
                yield replace(entry, text=trimmed(entry.text))
            elif entry is not None:
                yield entry


def is_known(option: str) -> bool:
    """Whether an option is read here, by the name under which it is known."""
    return option in CANONICAL or option in client_names.TOP_LEVEL or _in_open_family(option)


def _in_open_family(option: str) -> bool:
    return any(option.startswith(prefix) and option != prefix for prefix in _OPEN)


_REGISTRY_STORE: Final = re.compile(r"(.*schema\.registry\.ssl\.(?:keystore|truststore)).*", re.DOTALL)


# What Java takes PEM itself by.
_PEM_TEXTS: Final = ("certificates", "certificate.chain", "key")


def _of_store(store: str, layer: Mapping[str, str]) -> str:
    """What to do about an option of a store of the registry's; of PEM, which of ours takes the file."""
    kind, location = layer.get(f"{store}.type"), layer.get(f"{store}.location", "")
    is_text = any(f"{store}.{name}" in layer for name in _PEM_TEXTS)
    is_pem = is_pem_name(location) if kind is None else kind.strip().upper() == "PEM"
    if not is_text and not is_pem:
        return JAVA_STORES
    return (PEM_TEXT if is_text else PEM_FILE) + (PEM_TRUST if store.endswith("truststore") else PEM_KEYS)


def _unknown(option: str, layer: Mapping[str, str], foreign: Foreign, *, is_hinted: bool) -> str:
    # The value is not told: it may be the secret of a misspelled option.
    if option == "state.path":
        return (
            "is an option of queries of Spark, whose files `headrace status` and `headrace plan` take, and "
            "no other command"
        )
    if option.endswith("schema.registry.ssl.endpoint.identification.algorithm"):
        return NAME_CHECK
    if (store := _REGISTRY_STORE.fullmatch(option)) is not None:
        return _of_store(store[1], layer)
    if option.endswith("replace.null.with.default"):
        return NULL_DEFAULTS
    close = foreign.meant.get(option) or _suggested(option, foreign) if is_hinted else None
    if close is not None and not _is_its_own(close, foreign):
        # Its name of today, whichever of its names was resembled.
        known = CANONICAL.get(close, close)
        close = known if are_of_one_group(close, known) or is_like_after_groups(option, close) else None
    role, _, rest = option.partition(".")
    if is_hinted and close is None and role in client_names.KNOWN:
        named = override_meant(role, rest)
        close = None if named is None else f"{role}.override.{named}"
    if not option.startswith(_CONVERTERS):
        close = close or _within(option)
    if close in foreign.given:
        close = None
    whose = f"{foreign.owner} or of Headrace" if foreign.owner else "Headrace"
    return f"is not an option of {whose}; {did_you_mean(close, otherwise='remove it')}"


_CONVERTERS: Final = ("key.converter.", "value.converter.", "header.converter.")


def _is_its_own(option: str, foreign: Foreign) -> bool:
    """Whether another vendor's connector has this name, or Connect for it."""
    return option in foreign.names or (bool(foreign.owner) and option.startswith(_CONVERTERS))


def _suggested(option: str, foreign: Foreign) -> str | None:
    """The known name that one resembles; of a converter's options one of the same converter."""
    known = (*SPELLINGS, *foreign.names)
    group = next(filter(option.startswith, _CONVERTERS), None)
    if group is None:
        return suggested(option, known)
    close = suggested(option, (name for name in known if name.startswith(group)))
    return close if close is not None and is_like_after_groups(option, close) else None


def _within(option: str) -> str | None:
    """The option that a longer name contains: other tools put a group in front, or a member after it."""
    _, _, rest = option.partition(".")
    if "." in rest and is_known(rest):
        return rest
    head = option
    while (head := head.rpartition(".")[0]).count("."):
        if is_known(head):
            return head
    return None


def _entry(
    spelled: str, raw: str, references: References, gathered: Gathered, problems: Problems
) -> Entry | None:
    """Return the entry; None, and a problem, when one of its references is missing."""
    option = canonical(spelled)
    try:
        text = references.replaced(option, raw)
    except ReferenceMissing as error:
        gathered.broken.add(option)
        note_missing(problems, spelled, error)
        return None
    return Entry(option=option, spelled=spelled.strip(), raw=raw, text=text)


def _put_unless_other(entry: Entry, found: dict[str, Entry], gathered: Gathered, problems: Problems) -> None:
    other = found.setdefault(entry.option, entry)
    if other.text.strip().lower() != entry.text.strip().lower():
        gathered.broken.add(entry.option)
        problems.add(entry.spelled, f"says otherwise than {other.spelled}; keep one of them", entry.shown)


def _gather_worker(text: str, gathered: Gathered, references: References, problems: Problems) -> None:
    try:
        pairs = parse_properties(text.removeprefix("\ufeff"))
    except PropertiesError as error:
        problems.add("", f"the worker's .properties text is broken: {error}")
        return
    for name, raw in dict(pairs).items():
        if not is_of_worker(name):
            continue
        entry = _entry(name, raw, references, gathered, problems)
        if entry is None:
            continue
        if name == "bootstrap.servers":
            gathered.entries.setdefault(name, entry)
        else:
            gathered.worker[name] = entry


# One line that ends as a commented one of a shell does, and does not begin with the sign.
_COMMENT: Final = re.compile(r"[^\n]*\S[ \t]+#[^\n]*")
_FREE_TEXTS: Final = ("transforms.", "predicates.")


def unlikely(gathered: Gathered) -> Iterator[str]:
    """Yield what is taken as it is, and will have been meant otherwise."""
    for name, entry in sorted(gathered.entries.items()):
        if name.startswith(_FREE_TEXTS):
            continue
        if entry.leads_to_mask:
            yield f"{entry.spelled} = {entry.shown!r}: leads to what looks like a mask, and is taken as it is"
        elif is_unreplaced(entry.text):
            yield f"{_taken(entry)}a variable of the environment is ${{env:NAME}}"
        elif _COMMENT.fullmatch(entry.text.strip()) is not None and not entry.is_secret:
            what = "a comment is a line of its own, and what follows the # belongs to the value"
            yield f"{_taken(entry)}{what}"
    for option, sign, meant in _HARDLY_MEANT:
        given = gathered.entries.get(option)
        if given is not None and sign.search(given.text.strip()) is not None:
            yield f"{given.spelled} = {given.shown!r} {meant}"
    yield from _named_twice(gathered)


def _taken(entry: Entry) -> str:
    return f"{entry.spelled} = {entry.shown!r} is taken as it is: "


def _named_twice(gathered: Gathered) -> Iterator[str]:
    """Yield a warning where an address of S3 names the bucket, which every request names after it."""
    endpoint, bucket = gathered.entries.get(ENDPOINT_URL.name), gathered.entries.get(BUCKET.name)
    if endpoint is None or bucket is None:
        return
    host, _, path = endpoint.text.strip().rpartition("://")[2].partition("/")
    for one in filter(None, map(str.strip, bucket.text.split(","))):
        if host.startswith(f"{one}.s3") or path.strip("/") == one:
            yield (
                f"{endpoint.spelled} = {endpoint.shown!r} names the bucket, and so do requests sent to it: "
                "leave the bucket out of it, or remove it where it is Amazon's S3"
            )


_AS_IT_IS: Final = "is taken as it is:"
_HOME: Final = (re.compile(r"^~"), f"{_AS_IT_IS} ~ is no home directory here; write the whole path")
_HARDLY_MEANT: Final = (
    (
        PREFIX.name,
        re.compile(r"^/"),
        "begins with a slash, and so do the keys that it means: those of S3 usually do not",
    ),
    (
        PREFIX.name,
        re.compile(r"^s3[an]?://"),
        f"{_AS_IT_IS} a prefix is what keys begin with, without s3:// and the bucket",
    ),
    (
        PREFIX.name,
        re.compile(r"\*"),
        f"{_AS_IT_IS} a prefix is no glob; object.include and object.exclude of a source take them",
    ),
    (STATE_DIR.name, *_HOME),
    (BUFFER_DIR.name, *_HOME),
)
"""Options, what their texts hold where something else was meant, and the words for it."""
