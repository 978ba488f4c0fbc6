"""The laws, as they are about ingested objects."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final

from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from tests.simulation.broker import Record
from tests.simulation.laws import Finding, sanity
from tests.simulation.objects import LINES, PACKED, Row, members_of, row_of, rows_in, rows_of_object
from tests.simulation.scenario import Scenario
from tests.simulation.source_run import SourceOutcome

# A row with more text may not fit in a topic with a limit of 700, with its headers and what transforms add.
_LARGE: Final = 300
_ROOMY: Final = 700
_NOT_OF_OBJECTS: Final = ("unreadable", "missing", "superseded", "source_unavailable")
# The second one: something is quarantined, and all else is done.
_ENDED_WELL: Final = ("exit 0", "exit 5")


def judge_source(scenario: Scenario, outcome: SourceOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += [Finding("no memory of another life", sentence) for sentence in outcome.misremembered]
    found += _left_out(outcome)
    found += _forgotten(scenario, outcome)
    found += _once(scenario, outcome)
    found += _again(scenario, outcome)
    found += _order(scenario, outcome)
    found += _versions(scenario, outcome)
    found += [Finding("forward", sentence) for sentence in outcome.unread]
    found += _places(scenario, outcome)
    found += _values(scenario, outcome)
    found += _held_against(outcome)
    return found


def _held_against(outcome: SourceOutcome) -> Iterator[Finding]:
    """No object is given up for what S3 says of keys, or of connections, for a while: it is not at fault."""
    for number in outcome.whole:
        entry = outcome.ledger.get(outcome.ids[number])
        if entry is not None and entry.state is State.QUARANTINED and entry.reason in _NOT_OF_OBJECTS:
            yield Finding("forward", f"{outcome.ids[number].url} is quarantined as {entry.reason}")


def _left_out(outcome: SourceOutcome) -> Iterator[Finding]:
    """What was there before the first start with its bucket is in Kafka only where an option lets it in."""
    # Of two buckets two objects may have the same rows.
    others = {
        row
        for number, given in enumerate(outcome.given)
        if number not in outcome.past
        for row in rows_of_object(given)[0]
    }
    seen = {row for partition in outcome.records for one in partition for row in rows_in(one.value)}
    for number in sorted(outcome.past):
        rows = set(rows_of_object(outcome.given[number])[0]) - others
        if rows & seen:
            url = outcome.ids[number].url
            yield Finding("no memory of another life", f"{url} was there before the first start, and is read")


def _forgotten(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """An entry leaves the ledger when its state is final, and not before it is as old as the option says.

    `_once` looks at those of objects that are still there: these would be read again.
    """
    # By the clock of who removes it.
    ahead_ms = sum(abs(step.given["ms"]) for step in scenario.steps if step.act == "clock")
    for object_id, entry, at_ms in outcome.left:
        if not entry.is_settled:
            yield Finding("once", f"{object_id.url} has left the ledger, where it was {entry.state}")
        elif at_ms + ahead_ms - entry.changed_ms <= outcome.retention_ms:
            hours = (at_ms - entry.changed_ms) / 3_600_000
            yield Finding("once", f"{object_id.url} has left the ledger after {hours:.1f} hours")


def _once(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Every row of every object that was there is in Kafka once, and no other."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    seen: Counter[Row] = Counter()
    known: Counter[Row] = Counter()
    for given in outcome.given:
        known.update(rows_of_object(given)[0])
    for record in itertools.chain.from_iterable(outcome.records):
        rows = [row for row in rows_in(record.value) if row in known]
        seen.update(rows)
        # Lines can be read as CSV, and arrays as lines: who gives objects another format gets them.
        if len(rows) != 1 and not outcome.misread:
            yield Finding("once", f"{record.value!r} is in Kafka, and in no object")
    for row, count in seen.items():
        if is_exact and count > known[row] * (1 + outcome.repeats):
            yield Finding("once", f"row {row[0]} is in Kafka {count} times")
    if outcome.ending in _ENDED_WELL:
        yield from _all_there(scenario, outcome, seen)


def _all_there(scenario: Scenario, outcome: SourceOutcome, seen: Counter[Row]) -> Iterator[Finding]:
    """What was not replaced, deleted, marked or quarantined is in Kafka, or has its dead letters."""
    acts = {step.act for step in scenario.steps}
    letters = Counter(_object_of(letter) for letter in outcome.letters)
    is_marked = "mark" in acts or any(step.given.get("change") == "done" for step in scenario.steps)
    judged = [] if is_marked else list(_judged(outcome))
    # Of two buckets two objects may have the same rows.
    needed: Counter[Row] = Counter()
    for number in set(judged) - outcome.misread:
        needed.update(rows_of_object(outcome.given[number])[0])
    largest = _largest(scenario)
    for number in judged:
        given = outcome.given[number]
        entry = outcome.ledger.get(outcome.ids[number])
        if entry is None:
            yield Finding("once", f"{outcome.ids[number].url} is unknown to the ledger")
        good, faulty = rows_of_object(given)
        # Other formats hold the good rows alone.
        faulty = faulty if outcome.forms[number].partition(PACKED)[0] in LINES else 0
        missing = [row for row in good if seen[row] < max(1, needed[row]) and not len(row[1]) > largest]
        found = letters[outcome.ids[number]]
        if missing and number in outcome.misread:
            # Read as CSV, the first line names columns, and is no row.
            if entry is None or not (entry.records or entry.bad or len(good) + faulty == 1):
                yield Finding("once", f"{given.topic}: read in another format, it is gone without a word")
            elif entry.bad and not found and _has_letters(scenario):
                yield Finding("once", f"{given.topic}: read in another format, it has no dead letter")
        elif missing:
            yield Finding("once", f"{given.topic}: {len(missing)} of {len(good)} rows are not in Kafka")
        elif faulty > found and number not in outcome.misread and _has_letters(scenario):
            yield Finding("once", f"{given.topic}: {found} dead letters of {faulty} bad rows")


def _largest(scenario: Scenario) -> float:
    """The length of a row's text that fits in the topic all along.

    With headers, and with what transforms add, no row may fit in a topic with the lower limit.
    """
    limits = [step.given["size"] for step in scenario.steps if step.act == "limit"]
    return float("inf") if not limits else _LARGE if min(limits) >= _ROOMY else -1


def _again(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """What a stopped connector was to read again is in Kafka once more, and nothing is owed for good."""
    if outcome.ending not in _ENDED_WELL:
        return
    if not any("aws.s3.prefix" in step.given.get("options", ()) for step in scenario.steps):
        yield from (Finding("forward", sentence) for sentence in outcome.still_owed)
    if any(step.act == "mark" or step.given.get("change") == "done" for step in scenario.steps):
        return
    seen = Counter(row for partition in outcome.records for one in partition for row in rows_in(one.value))
    for number in sorted(outcome.again.intersection(_judged(outcome)) - outcome.misread):
        rows = rows_of_object(outcome.given[number])[0]
        missing = [row for row in rows if seen[row] == 1 and not len(row[1]) > _largest(scenario)]
        if missing:
            url = outcome.ids[number].url
            yield Finding("once", f"{url} was to be read again, and {len(missing)} rows are in Kafka once")


def _judged(outcome: SourceOutcome) -> Iterator[int]:
    """Numbers of the objects that have to be in Kafka, and are not quarantined."""
    for number in outcome.whole:
        if number in outcome.past or number in outcome.unsure:
            continue
        entry = outcome.ledger.get(outcome.ids[number])
        is_quarantined = entry is not None and entry.state is State.QUARANTINED
        if outcome.given[number].topic.startswith(outcome.prefix) and not is_quarantined:
            yield number


def _has_letters(scenario: Scenario) -> bool:
    """Whether each bad row has a dead letter of its own, all along."""
    names = ("errors.deadletterqueue.topic.name", "errors.tolerance", "exactly.once.support")
    return (
        "errors.deadletterqueue.topic.name" in scenario.options
        and scenario.options.get("errors.tolerance") == "all"
        and scenario.options.get("exactly.once.support") != "disabled"
        and not any(name in step.given.get("options", ()) for step in scenario.steps for name in names)
        and not any(step.act == "limit" for step in scenario.steps)
    )


def _object_of(letter: Record) -> ObjectId:
    """The object that a dead letter is of."""
    named = {name: (value or b"").decode() for name, value in letter.headers if name.startswith("headrace.")}
    return ObjectId(named["headrace.bucket"], named["headrace.key"], named["headrace.etag"])


def _order(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Rows of one object keep their order in each partition, unless they need not."""
    if (
        scenario.options.get("ordering") == "none"
        or outcome.repeats
        or any("ordering" in step.given.get("options", ()) for step in scenario.steps)
        or scenario.options.get("exactly.once.support") == "disabled"
    ):
        return
    found = [
        (row, number, place)
        for number, given in enumerate(outcome.given)
        for place, row in enumerate(rows_of_object(given)[0])
    ]
    times = Counter(row for row, _, _ in found)
    # Rows that two objects have may come between one another.
    places = {row: (number, place) for row, number, place in found if times[row] == 1}
    for partition in outcome.records:
        last: dict[int, int] = {}
        for record in partition:
            row = row_of(record.value)
            if row is None or row not in places:
                continue
            number, place = places[row]
            if place < last.get(number, -1):
                yield Finding("once", f"rows of {outcome.given[number].topic} are out of their order")
                return
            last[number] = place


def _versions(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Versions of a key go one after the other, where the earlier one's HEAD was asked in time."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    again = {"replay", "mark", "reset", "topic again"}
    if not is_exact or any(step.act in again for step in scenario.steps):
        return
    rows = [set(rows_of_object(given)[0]) for given in outcome.given]
    times = Counter(row for each in rows for row in each)
    of = {row: number for number, each in enumerate(rows) for row in each if times[row] == 1}
    places = [
        [
            (of[row], place)
            for place, record in enumerate(partition)
            for row in rows_in(record.value)
            if row in of
        ]
        for partition in outcome.records
    ]
    for first, second in outcome.in_order:
        for partition in places:
            last = max((place for number, place in partition if number == first), default=-1)
            if any(place < last for number, place in partition if number == second):
                url = outcome.ids[second].url
                yield Finding("order", f"{url}: version {second} is read before {first}, an earlier one")
                return


def _places(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Of what is known in a topic-partition the lowest offset goes first."""
    if not any(step.act in ("replay", "mark", "reset", "topic again") for step in scenario.steps):
        for first, second in outcome.passed:
            first_url, url = outcome.ids[first].url, outcome.ids[second].url
            yield Finding(
                "order", f"{url} is read before {first_url}, which was known and has the lower offset"
            )


def _values(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """A record has what transforms and `record.fields` make of its row, whatever happened before it."""
    transforms = scenario.options.get("transforms", "").split(",")
    wanted = {"inserted": "yes"} if "insert" in transforms else {}
    wanted |= {"from": "constant"} if "record.fields" in scenario.options else {}
    for record in itertools.chain.from_iterable(outcome.records):
        members = members_of(record.value)
        if members is None:
            continue
        is_right = all(members.get(name) == value for name, value in wanted.items())
        if "flatten" in transforms:
            is_right = is_right and not any(isinstance(value, dict) for value in members.values())
        if "time" in transforms:
            is_right = is_right and members["t"] == "2023-11-14"
        if "header" in transforms:
            is_right = is_right and ("h", b"yes") in record.headers
        if not is_right:
            what = f"{record.value!r} with headers {record.headers}"
            yield Finding("alone", f"{what} has not been through {transforms}")
