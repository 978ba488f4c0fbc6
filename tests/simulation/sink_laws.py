"""The laws, as they are about archives: what a run of the sink must show, whatever has happened in it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from tests.simulation.apart import GROUP_MOVED, NO_CONDITIONS, REWINDS
from tests.simulation.archive_rows import Row
from tests.simulation.bare_nulls import is_bare
from tests.simulation.filtered_records import archived_all_the_same, is_filtered, may_be_dropped
from tests.simulation.hidden_names import HIDDEN
from tests.simulation.late_topics import has_late_topics
from tests.simulation.laws import Finding, sanity
from tests.simulation.null_objects import closed_by_nulls, refused_nulls
from tests.simulation.reported_nulls import is_reporting, may_leave_nulls_out, nulls_elsewhere
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_records import FRAMED, JSON, meaning_of_value
from tests.simulation.sink_run import Outcome, Place, letter_places

# After these, groups and verdicts are not those of an undisturbed run.
_OTHERWISE: Final = frozenset(
    {
        "change",
        "foreign name",
        GROUP_MOVED,
        HIDDEN,
        "log cut off",
        "pause connector",
        "reset",
        "retention",
        "rewind",
        REWINDS,
        "topic again",
        "uploads ended",
    }
)


_AGAIN: Final = ("reset", "rewind", REWINDS, "topic again")
"""After these records are read from elsewhere than from where reading was."""


def _is_changed(scenario: Scenario) -> bool:
    """Whether the format of objects, and so of their rows, is another one in the middle."""
    return any("output.format" in step.given.get("options", ()) for step in scenario.steps)


def _is_skipped(scenario: Scenario, place: Place) -> bool:
    """Whether an operator may have let the partition go on behind this record, before it was read."""
    return any(
        step.act == "rewind"
        and (step.given["topic"], step.given["partition"]) == place[:2]
        and place[2] < step.given["offset"]
        for step in scenario.steps
    )


def is_comparable(scenario: Scenario) -> bool:
    """Whether an undisturbed run of the same records must come to the same groups and verdicts."""
    # What a null is in rows that are bare values depends on what is fetched with it, as is documented.
    is_other = _is_promised(scenario) or is_bare(scenario)
    is_other = is_other or has_late_topics(scenario) or is_filtered(scenario)
    return not {step.act for step in scenario.steps} & _OTHERWISE and not is_other


def _is_promised(scenario: Scenario) -> bool:
    """Whether a schema is held against that of the open object, as `schema.compatibility` is documented."""
    options = scenario.options
    has_schemas = options.get("value.converter.schemas.enable") == "true"
    has_schemas = has_schemas or options.get("value.converter") in FRAMED
    return has_schemas and "schema.compatibility" in options


def _group(row: Row) -> str:
    """What of a name the record decides."""
    return row.key.rpartition(f"/{row.topic}/")[0]


def judge(
    scenario: Scenario, outcome: Outcome, calm: Outcome | None, *, group: Callable[[Row], str] = _group
) -> list[Finding]:
    """All that is against a law; `calm` are the same records with nothing that went wrong."""
    undisturbed = () if calm is None else sanity(calm)
    found = [*sanity(outcome), *(Finding(one.law, f"undisturbed: {one.sentence}") for one in undisturbed)]
    found += _once(scenario, outcome)
    # At least once, what is not known to be there is put again.
    found += _names_once(outcome) if scenario.options.get("exactly.once.support") != "disabled" else ()
    if not _looks_early(scenario):
        found += [Finding("foreign", f"{one} was changed") for one in outcome.foreign_changed]
    found += _last_step_last(outcome)
    found += bounded(scenario, outcome)
    found += values_differ(scenario, outcome)
    if is_bare(scenario):
        # Nulls are the only bad records there.
        is_other = outcome.ending not in ("exit 0", None) and "errors.tolerance" in scenario.options
        found += [Finding("alone", f"it ended with {outcome.ending!r}: {outcome.problems}")] * is_other
    else:
        found += refused_nulls(scenario, letters_of(outcome), {} if outcome.earlier else outcome.expected)
    if is_reporting(scenario):
        nulls = {place for place, given in outcome.expected.items() if given.value is None}
        archived = {(row.topic, row.partition, row.offset) for row in outcome.rows}
        letters = nulls & {*letters_of(outcome)}
        said = nulls_elsewhere(scenario, nulls & archived, letters, outcome.ending)
        found += [Finding("alone", sentence) for sentence in said]
    if is_filtered(scenario):
        places = [(row.topic, row.partition, row.offset) for row in outcome.rows]
        archived_places = {place: outcome.expected[place] for place in places if place in outcome.expected}
        said = archived_all_the_same(scenario, archived_places, outcome.ending)
        found += [Finding("alone", sentence) for sentence in said]
    found += () if calm is None else closed_by_nulls(scenario, calm)
    if not found and calm is not None:
        found += _alone(scenario, outcome, calm, group)
    return found


def letters_of(outcome: Outcome) -> list[Place]:
    """Where the dead letters come from."""
    return letter_places(outcome.letters)


def _once(scenario: Scenario, outcome: Outcome) -> Iterator[Finding]:
    """Every record that a reader gets is in exactly one visible object or dead letter."""
    rows = Counter((row.topic, row.partition, row.offset) for row in outcome.rows)
    letters = Counter(letters_of(outcome))
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    most = Counter(place for place, _ in outcome.earlier)
    most.update(outcome.expected.keys())
    for place, count in rows.items():
        if place not in most:
            yield Finding("once", f"{place} is archived, and no reader gets it")
        elif count > most[place] * (1 + outcome.repeats) and is_exact:
            yield Finding("once", f"{place} is archived {count} times")
    for place, count in letters.items():
        if is_exact and count > most[place] * (1 + outcome.repeats):
            yield Finding("once", f"{place} has {count} dead letters")
        if is_exact and place in rows and most[place] == 1 and not outcome.repeats:
            yield Finding("once", f"{place} is archived and has a dead letter")
    # With 5 ends what has set objects aside: also those that meet names of an earlier life.
    is_again = any(step.act in _AGAIN for step in scenario.steps)
    is_set_aside = outcome.ending == "exit 5" and not outcome.problems and not is_again
    if outcome.ending == "exit 0" or (is_set_aside and bool(outcome.set_aside)):
        yield from _whole(scenario, outcome, {*rows}, {*letters})


def _whole(scenario: Scenario, outcome: Outcome, rows: set[Place], letters: set[Place]) -> Iterator[Finding]:
    """What a run must show that has ended well, or with nothing but names that others had taken."""
    if not is_again_by_hand(scenario):
        yield from _lost_with_topics(outcome, {*rows, *letters})
    if not any(step.act in _AGAIN for step in scenario.steps):
        yield from _cut_off(scenario, outcome)
        yield from _all_anew(scenario, outcome, letters)
    if not outcome.ended_uploads:
        set_aside = outcome.set_aside if outcome.ending == "exit 5" else set()
        yield from _all_there(scenario, outcome, {*rows, *letters, *set_aside})


def _cut_off(scenario: Scenario, outcome: Outcome) -> Iterator[Finding]:
    """A partition whose log was cut off below its checkpoint waits for an operator.

    One that has grown to just there is known to be another's once it is read, and with the next record.
    """
    if not any(step.act == "retention" for step in scenario.steps):
        for name, partition in sorted(outcome.cut_below - outcome.cut_unread):
            yield Finding("shown = true", f"{name}-{partition} was cut off, and the sink has ended well")


def _all_anew(scenario: Scenario, outcome: Outcome, letters: set[Place]) -> Iterator[Finding]:
    """What has come where other records were lost is archived, unless the sink has stopped there."""
    if (scenario.direction != "layouts" and not has_values(scenario)) or _only_logs_bad(scenario):
        return
    rows: dict[Place, list[Row]] = {}
    for row in outcome.rows:
        rows.setdefault((row.topic, row.partition, row.offset), []).append(row)
    there = outcome.expected.keys() - letters - outcome.deleted.keys()
    for place in sorted(outcome.cut_off.keys() & rows.keys() & there):
        given = outcome.expected[place]
        is_unread = place[:2] in outcome.cut_unread
        if is_unread or given.value is None or given.value == outcome.cut_off[place].value:
            continue
        if not any(_is_of(row, given, given.value, scenario.options) for row in rows[place]):
            yield Finding("once", f"{place} is archived as the record that brokers have lost, and no other")


def _is_of(row: Row, given: Given, value: bytes, options: Mapping[str, str]) -> bool:
    """Whether the row is this record's, of those that had its place one after the other."""
    if "given" in row.fields:
        return bool(row.fields["given"] == given)
    return difference(meaning_of_value(value, options), row.fields.get("value")) is None


def _lost_with_topics(outcome: Outcome, found: set[Place]) -> Iterator[Finding]:
    """What went with a topic before it was archived is said."""
    for place in sorted(outcome.deleted_with_topic - found - outcome.said_lost):
        # What came after the last look at the topic is not known one by one.
        is_skipped = place[2] < outcome.skips.get(place[:2], 0)
        if place[:2] not in outcome.said_made_again and not is_skipped:
            yield Finding("shown = true", f"{place} was deleted with its topic, and no line says so")


def is_again_by_hand(scenario: Scenario) -> bool:
    """Whether an operator has asked for records once more: what is deleted then may have been archived."""
    return any(step.act in ("reset", "rewind", REWINDS) for step in scenario.steps)


def _only_logs_bad(scenario: Scenario) -> bool:
    """Whether bad records are neither in objects nor in a topic."""
    has_letters = "errors.deadletterqueue.topic.name" in scenario.options
    return scenario.options.get("errors.tolerance") == "all" and not has_letters


def _all_there(scenario: Scenario, outcome: Outcome, found: set[Place]) -> Iterator[Finding]:
    """Every record is in an object or a dead letter, unless options or an operator let go of it."""
    if _only_logs_bad(scenario):
        return
    # What a transform drops is handled.
    drops_nulls = "unwrap" in scenario.options.get("transforms", "")
    drops_nulls = drops_nulls or scenario.options.get("behavior.on.null.values") == "ignore"
    drops_nulls = drops_nulls or (is_reporting(scenario) and may_leave_nulls_out(scenario))
    # What is read again may have been archived, and is deleted since; of a log that was cut off nothing tells
    # any more once retention has passed that place.
    is_moved = any(step.act in (*_AGAIN, "log cut off") for step in scenario.steps)
    for place, given in outcome.expected.items():
        is_dropped = (drops_nulls and given.value is None) or may_be_dropped(scenario, given)
        is_unread = place[:2] in outcome.cut_unread
        is_skipped = _is_skipped(scenario, place) or place[2] < outcome.skips.get(place[:2], 0)
        if place in found or is_dropped or is_unread or is_skipped:
            continue
        if place in outcome.deleted:
            if outcome.deleted[place] and place not in outcome.said_lost and not is_moved:
                yield Finding("shown = true", f"{place} was deleted before it was read, and no line says so")
        else:
            yield Finding("once", f"{place} is in no object and no dead letter, and the sink ended well")


def _looks_early(scenario: Scenario) -> bool:
    """Whether a process may have slept between its look at a name and the write, which has no condition."""
    acts = {step.act for step in scenario.steps}
    return NO_CONDITIONS in acts and not acts.isdisjoint(
        ("executor lost", "pause", "pause leader", "pause worker")
    )


def _names_once(outcome: Outcome) -> Iterator[Finding]:
    """A name is taken once; what other programs put there is looked at by another law."""
    foreign = {key for _, what, key, _ in outcome.history if what == "foreign"}
    for _, what, key, by in outcome.history:
        if what == "replaced" and key not in foreign:
            yield Finding("once", f"{key} was replaced by {by}")


def bounded(scenario: Scenario, outcome: Outcome) -> Iterator[Finding]:
    """An object closes at exactly as many records as `rotate.records` lets it have."""
    most = int(scenario.options.get("rotate.records", "0"))
    # Two buckets may have an object of one name.
    others = {"rotate.records", "aws.s3.bucket.name"}
    is_changed = any(others & {*step.given.get("options", ())} for step in scenario.steps)
    for key, count in Counter(row.key for row in outcome.rows).items():
        if 0 < most < count and not is_changed:
            yield Finding("bounded", f"{key} has {count} records, with rotate.records={most}")


def _last_step_last(outcome: Outcome) -> Iterator[Finding]:
    """Nothing visible is taken away."""
    for _, what, key, by in outcome.history:
        if what == "deleted":
            yield Finding("last step last", f"{key} was deleted by {by}")


def has_values(scenario: Scenario) -> bool:
    """Whether rows have the values of their records, as these are."""
    return (
        scenario.options.get("value.converter") in (JSON, *FRAMED)
        and scenario.options["output.format"] != "csv"
        and {"i", "time"}.isdisjoint(scenario.options.get("transforms", "").split(","))
    )


def values_differ(scenario: Scenario, outcome: Outcome) -> Iterator[Finding]:
    """A row says what its record said, digit by digit."""
    if not has_values(scenario):
        return
    for row in outcome.rows:
        given = outcome.expected.get((row.topic, row.partition, row.offset))
        if outcome.earlier or _is_changed(scenario):
            return
        if given is None or "value" not in row.fields or given.value is None:
            continue
        try:
            meant = meaning_of_value(given.value, scenario.options)
        except (ValueError, KeyError, TypeError):
            yield Finding("alone", f"{row.key}: {given.value!r} is archived, and is no JSON")
            continue
        found = difference(meant, row.fields["value"])
        if found is not None:
            what = f"{given.value!r} became {row.fields['value']!r}: {found}"
            yield Finding("alone", f"{row.key} offset {row.offset}: {what}")


def difference(meant: Any, found: Any) -> str | None:
    """Where a row says something else; a null, and a member that is not there, are the same."""
    match meant:
        case Mapping():
            return _difference_of_members(meant, found)
        case list():
            if not isinstance(found, list) or len(meant) != len(found):
                return f"{meant} is {found}"
            inner = (difference(one, other) for one, other in zip(meant, found, strict=True))
            return next((one for one in inner if one is not None), None)
        case Decimal():
            return None if _is_same_number(meant, found) else f"{meant} is {found!r}"
        case _:
            return None if meant == found else f"{meant!r} is {found!r}"


def _difference_of_members(meant: Mapping[str, Any], found: Any) -> str | None:
    if not isinstance(found, Mapping):
        # No member has a type that a schema could be made of.
        return f"{meant} is {found}" if meant or found is not None else None
    inner = ((name, difference(meant.get(name), found.get(name))) for name in {*meant, *found})
    return next((f"{name}: {one}" for name, one in inner if one is not None), None)


def _is_same_number(meant: Decimal, found: Any) -> bool:
    """Whether it is the same number; a fraction may be the double next to it, which is written alike."""
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
        return False
    # Not by `% 1`, which decimals of more digits than their context refuse.
    if isinstance(found, float) and (meant != meant.to_integral_value() or Decimal(repr(found)) == meant):
        return float(meant) == found
    return Decimal(found) == meant


def _alone(
    scenario: Scenario, outcome: Outcome, calm: Outcome, group: Callable[[Row], str]
) -> Iterator[Finding]:
    """Group and verdict of a record are its own, however it was fetched and whatever had gone before."""
    if outcome.ending != "exit 0" or calm.ending != "exit 0":
        # Tasks that begin later than `--until-idle` waits end it, with a problem that says so.
        is_late = any(step.act == "starts late" for step in scenario.steps)
        if (outcome.ending == "exit 0") != (calm.ending == "exit 0") and not is_late:
            yield Finding("alone", f"it ended with {outcome.ending!r}, and undisturbed with {calm.ending!r}")
        return
    if outcome.expected.keys() != calm.expected.keys():
        return
    mine, theirs = Counter(letters_of(outcome)), Counter(letters_of(calm))
    if mine.keys() != theirs.keys():
        yield Finding(
            "alone", f"dead letters of {sorted(mine.keys() ^ theirs.keys())} in one of two runs only"
        )
    if scenario.options.get("file.name.timestamp.source") == "wallclock":
        return
    ours = {(row.topic, row.partition, row.offset): group(row) for row in outcome.rows}
    undisturbed = {(row.topic, row.partition, row.offset): group(row) for row in calm.rows}
    for place in sorted(ours.keys() & undisturbed.keys()):
        if ours[place] != undisturbed[place]:
            yield Finding(
                "alone", f"{place} is in group {ours[place]!r}, and undisturbed in {undisturbed[place]!r}"
            )
    for place in sorted(ours.keys() ^ undisturbed.keys()):
        yield Finding("alone", f"{place} is archived in one of two runs only")
