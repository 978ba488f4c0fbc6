"""What comes back exactly from an archive and what does not, aspect by aspect, with a sentence for each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.formats.content_kind import RowFormat
from headrace.names.archive_names import ArchiveName, LayoutName, NameElement, ObjectKind
from headrace.options import Settings
from headrace.options.choices import RestorePartition, RestoreTombstones, TimestampFrom
from headrace.options.transforms import chain
from headrace.options.transforms.chain import KeyOrValue, TransformStep


class Aspect(StrEnum):
    """An aspect of what was in Kafka. `records` is that each record comes back once, and no other does."""

    RECORDS = "records"
    TOPIC = "topic"
    PARTITION = "partition"
    ORDER = "order"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TOMBSTONES = "tombstones"


class Grade(StrEnum):
    """How much of an aspect comes back, from best to worst."""

    EXACT = "exact"
    PARTLY = "partly"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Exactness:
    """How much of one aspect comes back, and why not all of it (`why` is empty where it does)."""

    aspect: Aspect
    grade: Grade
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentFacts:
    """What is known of an object's rows: their format, and the members of their envelope.

    `members` None: rows are values and nothing else. `sides` are the side objects that belong to it, and
    `ignored` those that the restore leaves out; `tombstones`: what becomes of those in objects of their own.
    """

    row_format: RowFormat
    members: frozenset[str] | None = None
    sides: frozenset[ObjectKind] = frozenset()
    ignored: frozenset[ObjectKind] = frozenset()
    tombstones: RestoreTombstones = RestoreTombstones.PROVEN


_JSON: Final = frozenset({RowFormat.JSON, RowFormat.JSONL})
_ARROW: Final = frozenset({RowFormat.AVRO, RowFormat.PARQUET})

_NOT_STORED: Final = "it is not stored"
_ABORTED: Final = (
    "records of aborted transactions were archived like others, unless the sink's consumer read committed"
)
_FIRST: Final = "only the first record's is known; the others follow it only where the partition has no gap"
_LAST: Final = "only the last record's is known; the others precede it only where the partition has no gap"
_WRITTEN_ANEW: Final = "the sink wrote JSON again: the same content, other text; JSON's null is a tombstone"
_SCHEMA: Final = "the content comes back, the schema that it had in Kafka does not"
_EMPTY_IS_NULL: Final = "null and empty were written alike, and come back as null"
_CSV_NULLS: Final = "null and empty values were written alike: an empty value comes back as a tombstone"
_HEADERS_AS_TEXT: Final = "values were stored as text, those of bytes as base64"
_SIDES: Final = {ObjectKind.KEYS: Aspect.KEY, ObjectKind.HEADERS: Aspect.HEADERS}
_IGNORED_SIDES: Final = "restore.sidecars=ignore leaves it out"
_UNIQUE: Final = "of headers of one name only the last was kept"


def exactness(name: ArchiveName, facts: ContentFacts, *, ordering: str) -> tuple[Exactness, ...]:
    """How much of each aspect comes back from one object; what several have in common is in `worst`.

    `ordering` is what the restore was told.
    """
    found: dict[Aspect, Exactness] = {aspect: Exactness(aspect, Grade.EXACT) for aspect in Aspect}
    for each in (*_of_name(name), *_of_ordering(ordering), *_RULES[name.layout](name, facts)):
        found[each.aspect] = _worse(found[each.aspect], each)
    for kind in facts.ignored:
        if found[_SIDES[kind]].grade is not Grade.EXACT:
            found[_SIDES[kind]] = Exactness(_SIDES[kind], Grade.ABSENT, (_IGNORED_SIDES,))
    return tuple(found.values())


def where_some_lack(
    found: tuple[Exactness, ...], kinds: Mapping[ObjectKind, int], *, least: int = 1
) -> tuple[Exactness, ...]:
    """The same, knowing how many objects of each kind there are: some have no keys or headers of their own.

    Fewer than `least` say nothing, where the last that were listed may have theirs in what was not.
    """
    values = kinds.get(ObjectKind.VALUES, 0)
    lacking = {aspect: values - count for kind, aspect in _SIDES.items() if (count := kinds.get(kind, 0))}
    more = [
        _partly(each.aspect, f"{lacking[each.aspect]} of {values} objects have no object of it")
        for each in found
        if each.grade is not Grade.ABSENT and lacking.get(each.aspect, 0) >= least
    ]
    return worst((found, tuple(more)))


def worst(objects: Iterable[tuple[Exactness, ...]]) -> tuple[Exactness, ...]:
    """What holds for all of several objects, of one topic for example: the worst grade, and every reason."""
    found: dict[Aspect, Exactness] = {}
    for aspects in objects:
        for each in aspects:
            found[each.aspect] = _worse(found[each.aspect], each) if each.aspect in found else each
    return tuple(found.values())


def _worse(one: Exactness, other: Exactness) -> Exactness:
    order = list(Grade)
    grade = max(one.grade, other.grade, key=order.index)
    return Exactness(one.aspect, grade, tuple(dict.fromkeys((*one.why, *other.why))))


_OF_NAME: Final = {
    NameElement.TOPIC: Aspect.TOPIC,
    NameElement.PARTITION: Aspect.PARTITION,
    NameElement.OFFSET: Aspect.OFFSET,
    NameElement.ORDER: Aspect.ORDER,
}


def _of_name(name: ArchiveName) -> Iterator[Exactness]:
    for each in name.inexact:
        # An offset that every row carries does not depend on the name.
        if each.element in _OF_NAME and each.element is not NameElement.OFFSET:
            yield Exactness(_OF_NAME[each.element], Grade.PARTLY, (each.why,))
    if name.topic is None:
        yield Exactness(Aspect.TOPIC, Grade.ABSENT, ("the name has no topic; topic says which",))
    if name.partition is None:
        yield Exactness(Aspect.PARTITION, Grade.ABSENT, ("the name has no partition",))


def _of_ordering(ordering: str) -> Iterator[Exactness]:
    if ordering != "partition":
        within = "" if ordering == "object" else ", and rows of large ones as well"
        why = f"ordering={ordering} reads objects of a partition side by side{within}; set ordering=partition"
        yield _partly(Aspect.ORDER, why)


_OF_TIMESTAMP: Final = {
    TimestampFrom.PRODUCE: "restore.timestamp=produce gives the time of producing in its place",
    TimestampFrom.OBJECT: "restore.timestamp=object gives the object's LastModified in its place",
}
_MODULO: Final = "restore.partition=modulo gives another number where the topic has fewer partitions"
_BY_KEY: Final = "restore.partition=partitioner spreads a partition's records over others, by their keys"
_TWICE: Final = "exactly.once.support=disabled may produce records again after a fault"


def exactness_of_options(settings: Settings) -> tuple[Exactness, ...]:
    """What the options of a restore change, whatever the archive holds; nothing of what they leave alone."""
    found: list[Exactness] = []
    restore = settings.format.restore
    if restore is not None and restore.rows.timestamp in _OF_TIMESTAMP:
        found.append(_partly(Aspect.TIMESTAMP, _OF_TIMESTAMP[restore.rows.timestamp]))
    if restore is not None and restore.partition is RestorePartition.MODULO:
        found.append(_partly(Aspect.PARTITION, _MODULO))
    if restore is not None and restore.partition is RestorePartition.PARTITIONER:
        found += [_partly(aspect, _BY_KEY) for aspect in (Aspect.PARTITION, Aspect.ORDER)]
    if not settings.kafka.exactly_once:
        found.append(_partly(Aspect.RECORDS, _TWICE))
    for step in settings.transforms.steps:
        found += [_partly(aspect, f"transforms.{step.alias} changes it") for aspect in _changed_by(step)]
    return worst((each,) for each in found)


_ASPECTS: Final = {KeyOrValue.KEY: Aspect.KEY, KeyOrValue.VALUE: Aspect.VALUE}


def _changed_by(step: TransformStep) -> frozenset[Aspect]:
    match step.transform:
        case chain.Filter():
            return frozenset({Aspect.RECORDS})
        case chain.InsertHeader() | chain.DropHeaders():
            return frozenset({Aspect.HEADERS})
        case chain.FieldTime() | chain.WallClock() | chain.TimeHeaders():
            return frozenset({Aspect.HEADERS})
        case chain.HeaderFrom(which=which, moves=moves):
            return frozenset({Aspect.HEADERS, _ASPECTS[which]} if moves else {Aspect.HEADERS})
        case chain.ValueToKey():
            return frozenset({Aspect.KEY})
        case _:
            routed = {Aspect.TOPIC} if step.routes else set[Aspect]()
            return frozenset(routed | {_ASPECTS[which] for which in step.looks_into})


def _absent(*aspects: Aspect) -> Iterator[Exactness]:
    return (Exactness(aspect, Grade.ABSENT, (_NOT_STORED,)) for aspect in aspects)


def _partly(aspect: Aspect, why: str) -> Exactness:
    return Exactness(aspect, Grade.PARTLY, (why,))


_NO_VALUE: Final = "rows have no value: they are bad records (no_value), as tombstones would delete keys"


def _value(facts: ContentFacts, *names: str) -> Iterator[Exactness]:
    """That no record comes back, where the envelope has none of these members."""
    if facts.members and facts.members.isdisjoint(names):
        for aspect in (Aspect.RECORDS, Aspect.VALUE):
            yield Exactness(aspect, Grade.ABSENT, (_NO_VALUE,))


def _missing(facts: ContentFacts, first_or_last: str, **members: Aspect) -> Iterator[Exactness]:
    """The aspects that the envelope lacks; without one, all of these."""
    has = facts.members or frozenset()
    for member, aspect in members.items():
        if member not in has:
            yield _partly(aspect, first_or_last) if aspect is Aspect.OFFSET else next(_absent(aspect))


def _aiven(name: ArchiveName, facts: ContentFacts) -> Iterator[Exactness]:
    yield _partly(Aspect.RECORDS, _ABORTED)
    yield from _missing(
        facts,
        _FIRST,
        key=Aspect.KEY,
        offset=Aspect.OFFSET,
        timestamp=Aspect.TIMESTAMP,
        headers=Aspect.HEADERS,
    )
    yield from _value(facts, "value")
    if any(each.element is NameElement.ORDER for each in name.inexact) and name.start_offset is None:
        yield _partly(Aspect.RECORDS, "only the newest record of each key was kept")
    if facts.row_format is RowFormat.LINES:
        yield from (_partly(aspect, _EMPTY_IS_NULL) for aspect in (Aspect.KEY, Aspect.VALUE))
        yield _partly(Aspect.TOMBSTONES, _CSV_NULLS)
        yield _partly(Aspect.RECORDS, "values written without encoding are cut at their own newlines")
    elif facts.row_format in _JSON:
        yield from (_partly(aspect, _WRITTEN_ANEW) for aspect in (Aspect.VALUE, Aspect.TOMBSTONES))
    else:
        yield _partly(Aspect.VALUE, _SCHEMA)
        yield _partly(Aspect.TOMBSTONES, "the sink stops at a tombstone")
        yield _partly(Aspect.HEADERS, f"{_UNIQUE}, and none where an object's first record had none")


def _confluent(name: ArchiveName, facts: ContentFacts) -> Iterator[Exactness]:
    if facts.members is not None:
        # Our own sink wrote them, under names of this form.
        yield from _headrace(name, facts)
        return
    yield _partly(Aspect.RECORDS, _ABORTED)
    yield _partly(Aspect.OFFSET, _FIRST)
    yield from _absent(Aspect.TIMESTAMP)
    if ObjectKind.KEYS not in facts.sides:
        yield from _absent(Aspect.KEY)
    if ObjectKind.HEADERS not in facts.sides:
        yield from _absent(Aspect.HEADERS)
    else:
        yield _partly(Aspect.HEADERS, _HEADERS_AS_TEXT)
    if facts.sides:
        yield _partly(Aspect.RECORDS, "records without a key or without headers were left out")
    yield _partly(Aspect.RECORDS, "the last open object of a partition may never have been written")
    yield from _tombstones_apart(facts, has_some=bool(name.tombstones or facts.sides or facts.ignored))
    if facts.row_format in _JSON:
        yield _partly(Aspect.VALUE, _WRITTEN_ANEW)
    elif facts.row_format in _ARROW:
        yield _partly(Aspect.VALUE, _SCHEMA)
    else:
        yield _partly(Aspect.RECORDS, "a value that holds the separator is cut in two")


def _tombstones_apart(facts: ContentFacts, *, has_some: bool) -> Iterator[Exactness]:
    """Of tombstones in objects of their own, which `restore.tombstones` is about."""
    if facts.tombstones is RestoreTombstones.IGNORE:
        why = "restore.tombstones=ignore leaves them out"
        yield Exactness(Aspect.TOMBSTONES, Grade.ABSENT, (why,))
    elif not has_some:
        yield _partly(Aspect.TOMBSTONES, "they may have been left out")
    elif facts.tombstones is RestoreTombstones.AFTER:
        why = (
            "restore.tombstones=after has tombstones come after all values: they delete what came after them"
        )
        yield from (_partly(aspect, why) for aspect in (Aspect.ORDER, Aspect.TOMBSTONES))
    else:
        why = (
            "they are objects of their own: where a place among the values is not proven, they are held back"
        )
        yield _partly(Aspect.TOMBSTONES, why)


def _lenses(_name: ArchiveName, facts: ContentFacts) -> Iterator[Exactness]:
    yield _partly(Aspect.RECORDS, _ABORTED)
    if facts.members is None:
        yield _partly(Aspect.OFFSET, _LAST)
        yield from _absent(Aspect.KEY, Aspect.TIMESTAMP, Aspect.HEADERS)
        yield _partly(Aspect.RECORDS, "null values stop the sink, or were left out")
        yield from _absent(Aspect.TOMBSTONES)
    else:
        if "metadata" not in facts.members:
            yield _partly(Aspect.OFFSET, _LAST)
            yield from _absent(Aspect.TIMESTAMP)
        yield from _lenses_members(facts)
        yield _partly(Aspect.HEADERS, f"{_UNIQUE}; their order is lost, and their types are those of JSON")
    if facts.row_format in _JSON:
        yield _partly(Aspect.VALUE, _WRITTEN_ANEW)
        yield _partly(Aspect.TOMBSTONES, _WRITTEN_ANEW)
    if facts.row_format in _JSON | {RowFormat.TEXT} and facts.members is None:
        yield _partly(Aspect.VALUE, "a newline in a text was written as a backslash and n, for good")
    if facts.row_format is RowFormat.CSV:
        yield _partly(Aspect.VALUE, "all fields are texts, and their names are not in the object")
    if facts.row_format in _ARROW:
        yield _partly(Aspect.VALUE, _SCHEMA)


def _lenses_members(facts: ContentFacts) -> Iterator[Exactness]:
    """What rows of the envelope lack. A schema lacks what was null in all of its object, too."""
    if facts.row_format in _JSON and facts.members:
        yield from _missing(facts, _LAST, key=Aspect.KEY, headers=Aspect.HEADERS)
        yield from _value(facts, "value")
    elif facts.row_format in _ARROW:
        # Of a topic some objects are looked at: that of tombstones may not be one of them.
        yield _partly(Aspect.TOMBSTONES, _NO_VALUES)
        if "value" not in (facts.members or ()):
            yield _partly(Aspect.VALUE, _NO_VALUES)
        if "key" not in (facts.members or ()):
            yield _partly(Aspect.KEY, _NO_KEYS)


_NO_KEYS: Final = "objects without a column of keys: all were null, or store.envelope.fields.key was false"
_NO_VALUES: Final = (
    "the records of objects without a column of values are tombstones, which none was where "
    "store.envelope.fields.value was false; leave such objects out then"
)


def _quix(_name: ArchiveName, facts: ContentFacts) -> Iterator[Exactness]:
    yield _partly(Aspect.OFFSET, _FIRST)
    yield from _absent(Aspect.HEADERS)
    yield _partly(
        Aspect.KEY,
        "a key that was null or no bytes was written as the dump of an object: it is null",
    )
    yield _partly(Aspect.VALUE, "the sink wrote JSON again: the same content, other text")
    if facts.row_format is RowFormat.PARQUET:
        yield _partly(Aspect.VALUE, "members that a value lacked come back as null")
        yield _partly(
            Aspect.TIMESTAMP, "a value with a member of its name took its place in the whole object"
        )
        yield from _absent(Aspect.TOMBSTONES)
    else:
        yield _partly(Aspect.TOMBSTONES, "JSON's null is a tombstone")


def _headrace(_name: ArchiveName, facts: ContentFacts) -> Iterator[Exactness]:
    apart = {_SIDES[side] for side in facts.sides}
    if Aspect.HEADERS in apart:
        yield _partly(Aspect.HEADERS, _HEADERS_AS_TEXT)
    if facts.members is None:
        yield _partly(Aspect.OFFSET, _FIRST)
        yield from _absent(Aspect.TIMESTAMP, *({Aspect.KEY, Aspect.HEADERS} - apart))
        yield _partly(Aspect.TOMBSTONES, "JSON's null is a tombstone")
        return
    yield from _value(facts, "value", "value_base64")
    facts = replace(facts, members=_own_members(facts.members, facts.row_format, apart))
    members = {
        "key": Aspect.KEY,
        "offset": Aspect.OFFSET,
        "timestamp": Aspect.TIMESTAMP,
        "headers": Aspect.HEADERS,
    }
    wanted = {member: aspect for member, aspect in members.items() if aspect not in apart}
    yield from _missing(facts, _FIRST, **wanted)


# With the key, all that the sink writes in any case; only who leaves out the headers alone has no more.
_ALL_BUT_HEADERS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key"})


def _own_members(members: frozenset[str], row_format: RowFormat, apart: set[Aspect]) -> frozenset[str]:
    """The members that our rows have or would have: JSON leaves out headers that a record has none of."""
    found = members | ({"key"} if "key_base64" in members else set())
    written = found | ({"key"} if Aspect.KEY in apart else set())
    return found | ({"headers"} if row_format in _JSON and written >= _ALL_BUT_HEADERS else set())


_RULES: Final = {
    LayoutName.AIVEN: _aiven,
    LayoutName.CONFLUENT: _confluent,
    LayoutName.LENSES: _lenses,
    LayoutName.QUIX: _quix,
    LayoutName.HEADRACE: _headrace,
}
