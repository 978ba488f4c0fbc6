"""The option that a misspelled one was meant to be, the class of a connector, another tool's file."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile
from typing import Final

from headrace.model.text_formatting import did_you_mean, similar
from headrace.options.client_names import (
    BUFFER_SIZES,
    KNOWN,
    RENAMED,
    RENAMED_FOR_ALL,
    TOP_LEVEL,
    WITHOUT_COUNTERPART,
)
from headrace.options.declarations.option import MEANT
from headrace.options.vendor import CLASSES, CONFLUENT_SOURCE, CONNECTOR, NAMED, OTHER_SINKS, OTHER_SOURCES

# Of 1,700 names with one letter wrong, 99 of 100 find theirs; of 100 names of other tools, the five that find
# one have its meaning in fact (`aws.custom.endpoint`, `output.data.format`).
_ALIKE = 0.8
# One wrong letter in a name of four leaves so much.
_ALIKE_SHORT = 0.75
_SHORT: Final = 4
_ALIKE_GROUP = 0.5
# Two letters in the wrong order in a word of three are a mistake; `encoding` is no `endpoint` (0.63).
_ALIKE_REST = 0.65
_ALIKE_CLASS = 0.7
_OF_SOME: Final = {"producer": ("buffer.memory",), "consumer": ("auto.offset.reset", "isolation.level")}
_SEPARATORS = re.compile(r"[._-]+")
_OF_AWS: Final = "aws."
_OF_QUEUES: Final = "aws.sqs."
# No option's name is longer.
_LONGEST: Final = 200


def suggested(option: str, known: Iterable[str]) -> str | None:
    """Return the known name that this one resembles, within the same group; None where none does."""
    if option in MEANT:
        return MEANT[option]
    # The queue's options are no AWS ones by name, as the bucket's are.
    own = _plain(option).removeprefix(_OF_AWS) if _plain(option).startswith(_OF_QUEUES) else option
    return _most_alike(own, known)


def are_of_one_group(name: str, other: str) -> bool:
    """Return whether two names begin with the same word."""
    return _plain(name).partition(".")[0] == _plain(other).partition(".")[0]


def is_like_after_groups(name: str, other: str) -> bool:
    """Return whether two names are alike without the words that both begin with, which say nothing."""
    words = [_plain(each).split(".") for each in (name, other)]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False)))
    mine, its = (".".join(each[same:]) for each in words)
    return SequenceMatcher(None, mine, its).ratio() >= _ALIKE_REST


def property_like(role: str, name: str) -> str | None:
    """Return the property of this kind of Kafka client that a name resembles; None where none does."""
    # Sorted, for sets: of two that are as much alike it is the same one each time.
    return _most_alike(name, sorted(_properties(role)))


def override_meant(role: str, rest: str) -> str | None:
    """Return the property that is meant by what follows the kind of client; None where none is known.

    A first word that resembles `override` was meant as that.
    """
    words = _SEPARATORS.split(rest, maxsplit=1)
    if len(words) > 1 and SequenceMatcher(None, words[0].lower(), "override").ratio() >= _ALIKE:
        rest = words[1]
    return rest if rest in _properties(role) else property_like(role, rest)


def _properties(role: str) -> frozenset[str]:
    """All that may be given of this kind of client: of consumers also how a sink reads."""
    names = {*KNOWN[role], *RENAMED[role], *RENAMED_FOR_ALL, *BUFFER_SIZES, *_OF_SOME.get(role, ())}
    return frozenset(names) | (TOP_LEVEL - WITHOUT_COUNTERPART.keys())


def _most_alike(option: str, known: Iterable[str]) -> str | None:
    wanted = _plain(option)
    best, found = _ALIKE if len(wanted) > _SHORT else _ALIKE_SHORT, None
    for name in known:
        alike = _likeness(wanted, _plain(name), best)
        if alike >= best and (found is None or alike > best):
            best, found = alike, name
    return found


# Each name of a configuration is compared with all that are known.
def _plain(name: str) -> str:
    return _kept_plain(name) if len(name) <= _LONGEST else _without_signs(name)


def _without_signs(name: str) -> str:
    return _SEPARATORS.sub(".", name.lower())


# What users send may be megabytes, and is not kept.
_kept_plain = lru_cache(maxsize=10_000)(_without_signs)


def _likeness(wanted: str, name: str, least: float) -> float:
    """How alike two names are, 0 where it is less than `least` or their groups differ."""
    # The bound of `real_quick_ratio`, and the groups: both at once, and they leave few names.
    if 2.0 * min(len(wanted), len(name)) < least * (len(wanted) + len(name)):
        return 0.0
    if len(wanted) > _LONGEST or not _are_alike_groups(wanted.partition(".")[0], name.partition(".")[0]):
        return 0.0
    matcher = SequenceMatcher(None, wanted, name)
    return 0.0 if matcher.quick_ratio() < least else matcher.ratio()


@lru_cache(maxsize=10_000)
def _are_alike_groups(wanted: str, name: str) -> bool:
    return SequenceMatcher(None, wanted, name).ratio() >= _ALIKE_GROUP


# What their makers, and pages about them, call what has another class here.
_OTHERWISE: Final = {
    "S3_SINK": OTHER_SINKS[1],
    "S3Source": CONFLUENT_SOURCE,
    "S3SinkConnectorDeprecated": OTHER_SINKS[2],
    # Redpanda's, which has the options of Aiven's.
    "com.redpanda.kafka.connect.s3.S3SinkConnector": OTHER_SINKS[0],
}


def unknown_class(named: str) -> str | None:
    """What to write in place of a class that is not known here; None for one that is."""
    known = (*CLASSES, *OTHER_SOURCES, *OTHER_SINKS)
    if not named or named in known:
        return None
    meant = _OTHERWISE.get(named) or _OTHERWISE.get(named.rpartition(".")[2])
    # A source is never meant by what is called a sink, however alike the rest of the names is.
    words = [word for word in ("sink", "source", "s3") if word in named.lower()]
    alike = [each for each in NAMED if all(word in each.lower() for word in words)]
    if "s3" not in words:
        # Nor is a connector of another store.
        alike = [each for each in alike if each in CLASSES]
    meant = meant or similar(named, alike, least=_ALIKE_CLASS)
    expected = f"expected {CONNECTOR.expected}; its options are looked at once it is one of these"
    if named in _CLOUD:
        expected += (
            f", and those of Confluent Cloud have other names there: {_CLOUD[named]}, kafka.api.key and "
            ".secret are of sasl.jaas.config"
        )
    return expected if meant is None else f"{did_you_mean(meant, otherwise='')} {expected}"


# What is a sink's input is a source's output.
_CLOUD: Final = {
    "S3_SINK": "input.data.format is value.converter, output.data.format is format.class, time.interval is "
    "partitioner.class with path.format, compression.codec is s3.compression.type",
    "S3Source": "input.data.format is format.class, output.data.format is value.converter",
}
_TOOLS: Final = (
    (
        "Redpanda Connect",
        frozenset({"input", "output", "input_resources", "output_resources"}),
        "docs/moving-from-redpanda-connect.md",
    ),
    ("Vector", frozenset({"sources", "sinks"}), "docs/moving-from-vector.md"),
)
# A name at the beginning of a line that has no value next to it.
_MAPPING: Final = re.compile(r"^([\"']?)(\w+)\1[ \t]*:[ \t]*(?:#.*)?$", re.MULTILINE)
_KNOWN: Final = frozenset().union(*(known for _, known, _ in _TOOLS))
# `[sources.NAME]`, and `sources.NAME.type = ..`; further in it may be the text of a value of YAML.
_TABLE: Final = re.compile(r"^(\[{1,2}[ \t]*)?(sources|sinks)[ \t]*\.[^\n=:]*(?(1)\]|=)", re.MULTILINE)
# What a member is looked for in: comments and blank lines may come before it.
_LOOKED_AT: Final = 10_000


def other_tool(sections: Iterable[str]) -> str | None:
    """Return what to say of a configuration with these mappings in it; None where it may be ours."""
    given = frozenset(sections)
    for tool, known, page in _TOOLS:
        if found := sorted(known & given):
            return (
                f"this is a configuration of {tool} ({' and '.join(found)}), which is not read here: {page} "
                "has what each of its options becomes, and how to take over"
            )
    return None


def other_tool_of_text(text: str) -> str | None:
    """Return the same for a text that is no JSON: YAML, however deep and whatever is in it, or TOML."""
    sections = [
        name[2]
        for name in _MAPPING.finditer(text)
        if name[2] in _KNOWN and _is_indented(text[name.end() : name.end() + _LOOKED_AT])
    ]
    return other_tool(sections) or other_tool(table[2] for table in _TABLE.finditer(text))


def _is_indented(rest: str) -> bool:
    """Whether what follows begins with a member further in, which no list is."""
    lines = (line for line in rest.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    following = next(lines, "")
    return following[:1] in {" ", "\t"} and not following.lstrip().startswith("-")
