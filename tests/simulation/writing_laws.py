"""The laws, as they are about objects that queries and frames of Spark write."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from headrace.options import OPTIONS
from spark.frames.writing import WRITTEN
from tests.simulation.archive_rows import Row, decoded
from tests.simulation.laws import Finding, sanity
from tests.simulation.layouts_laws import Archive
from tests.simulation.scenario import Scenario
from tests.simulation.sink_laws import bounded, values_differ
from tests.simulation.sink_run import Place
from tests.simulation.writing_generator import BUCKET, OUT
from tests.simulation.writing_run import (
    KEPT,
    Visible,
    WritingOutcome,
    WrittenFrame,
    is_of_frames,
    is_of_other,
)

_SAID: Final = ("FrameRefused: ", "QueryEnded: ")
_SEVERAL: Final = frozenset({"second", "pause", "kill leader", "pause worker", "executor lost"})
_TWO_DRIVERS: Final = ("was written by another driver", "Multiple streaming queries")
_PUT_BACK: Final = ("was written before with other rows", "comes after batch", "begins with offset")
_GOING: Final = frozenset({"uploads ended", "taken away"})
_ADVISED: Final = re.compile(r"\b([a-z]+(?:\.[a-z]+)+)=")
_OTHERS: Final = frozenset(one.name for one in OPTIONS) - {one.name for one in WRITTEN}


def judge_writing(scenario: Scenario, outcome: WritingOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    found += _said(scenario, outcome)
    found += [Finding("foreign", f"{one} was changed") for one in outcome.foreign_changed]
    found += [Finding("bounded", sentence) for sentence in outcome.calls]
    found += _files(outcome)
    found += _names(scenario, outcome)
    own = [one for one in outcome.visible if not is_of_frames(one.key) and not is_of_other(one.key)]
    found += _rows(scenario, outcome, own, set(outcome.expected))
    if outcome.other is not None:
        found += _rows(
            scenario, outcome, [one for one in outcome.visible if is_of_other(one.key)], set(outcome.expected)
        )
    for frame in outcome.frames:
        found += _frame(scenario, outcome, frame)
    if outcome.ending is not None and outcome.ending != "exit 0":
        found.append(Finding("forward", f"it is refused at the end: {outcome.ending}"))
    return found


def _frame(scenario: Scenario, outcome: WritingOutcome, frame: WrittenFrame) -> Iterator[Finding]:
    """What was written at once is there as a whole where it ended well; of what is refused nothing is."""
    own = [one for one in outcome.visible if one.id in frame.ids]
    if frame.ending == "exit 0":
        # One that ends while it commits may leave some of its objects.
        if frame.is_again and not frame.overwrites:
            # The same bytes, which are there, are left as they are.
            over = {own for each in outcome.frames if each.overwrites for own in each.ids}
            there = (one for one in outcome.visible if one.id not in over)
            own = [one for one in there if one.key.startswith(frame.prefix)]
        wanted = {(*row.place, row.offset) for row in frame.rows}
        yield from _rows(scenario, outcome, own, wanted, is_frame=True, is_again=frame.is_again)
    if frame.overwrites and frame.ending is not None and "another object has the name" in frame.ending:
        yield Finding("forward", f"it was to overwrite, and is refused: {frame.ending}")
    if own and frame.ending is not None and "do not come in the order" in frame.ending:
        yield Finding("once", f"{own[0].key} is there, and its frame was refused")


def _said(scenario: Scenario, outcome: WritingOutcome) -> Iterator[Finding]:
    """Each query that ended said why, in one sentence, and what it said was so."""
    acts = {step.act for step in scenario.steps}
    for sentence in dict.fromkeys(outcome.sentences):
        is_of_options = " = " in sentence and ": " in sentence
        ends = sentence.endswith((".", ")")) or is_of_options
        if not sentence.startswith(_SAID) or "\n" in sentence or not ends:
            yield Finding("forward", f"a query ended without a sentence: {sentence}")
        for name in sorted({*_ADVISED.findall(sentence)} & _OTHERS):
            yield Finding("forward", f"{name} is advised, which no writing query takes: {sentence}")
        if any(words in sentence for words in _TWO_DRIVERS) and not acts & _SEVERAL:
            yield Finding("shown = true", f"there was one driver, and it was said: {sentence}")
        # A filter that leaves rows out of a batch that is written is a query that gives others.
        is_put_back = bool(acts & {*_SEVERAL, "checkpoint restored"} or outcome.is_filtered_later)
        if any(words in sentence for words in _PUT_BACK) and not is_put_back:
            yield Finding("shown = true", f"no checkpoint was put back, and it was said: {sentence}")
        if "its upload is gone, and is old enough" in sentence and not {"rule", "days"} <= acts:
            yield Finding("shown = true", f"no rule had ended an upload, and it was said: {sentence}")
        # With a clock that was put back, what the rule has ended is too young for it.
        is_ended = "another program has ended its upload" in sentence and not _is_days_back(scenario)
        if is_ended and not acts & {*_SEVERAL, *_GOING}:
            yield Finding("shown = true", f"there was no other program, and it was said: {sentence}")
        if "another object has the name" in sentence and not acts & {"foreign name", "batch again"}:
            yield Finding("shown = true", f"there was no other object, and it was said: {sentence}")


def _files(outcome: WritingOutcome) -> Iterator[Finding]:
    """So many batches are remembered, and no more."""
    for query, count in outcome.files.items():
        if count > KEPT + 1:
            yield Finding("bounded", f"{query} has the files of {count} batches")


def _names(scenario: Scenario, outcome: WritingOutcome) -> Iterator[Finding]:
    """A name is taken once, unless it is of keys alone, and nothing visible is taken away."""
    recurring = {one.key for one in outcome.visible if _recurs(one.key)}
    over = {own for frame in outcome.frames if frame.overwrites for own in frame.ids}
    # What other programs put there is looked at by another law.
    foreign = {key for _, what, key, _ in outcome.history if what == "foreign"}
    for one in outcome.visible:
        if f"{one.bucket}/{one.key}" in foreign:
            continue
        if one.was_there and one.key not in recurring and one.id not in over:
            yield Finding("once", f"{one.bucket}/{one.key} was replaced")
    for _, what, key, by in outcome.history:
        if what == "deleted" and not key.startswith("state/"):
            yield Finding("last step last", f"{key} was deleted by {by}")
    for (_, key), count in Counter((one.id, one.key) for one in outcome.visible).items():
        if count > 1:
            yield Finding("once", f"{key} became visible {count} times")
    del scenario


def _recurs(key: str) -> bool:
    return "/keys/" in key and not key.rpartition("/")[2][:1].isdigit()


def _rows(
    scenario: Scenario,
    outcome: WritingOutcome,
    visible: Sequence[Visible],
    wanted: set[Place],
    *,
    is_frame: bool = False,
    is_again: bool = False,
) -> Iterator[Finding]:
    """What these objects have is what was to be written, each row once and as its record is."""
    if "output.layout" in scenario.options:
        archive = _archive(scenario, outcome, visible)
        yield from archive.broken
        rows = archive.rows
    else:
        try:
            rows = [_row(one, fields) for one in visible for fields in decoded(one.stored.body)]
        except (ValueError, KeyError, TypeError) as error:
            yield Finding("once", f"an object cannot be read: {type(error).__name__}: {error}")
            return
        yield from _own_layout(scenario, outcome, rows)
        if not is_frame and not _ignores(scenario):
            yield from _last_of_keys(outcome, rows)
    counts = Counter((row.topic, row.partition, row.offset) for row in rows)
    keys = {row.key for row in rows}
    has_recurring = any(_recurs(key) for key in keys)
    for place, count in counts.items():
        if place not in outcome.expected:
            yield Finding("once", f"{place} is there, and in no row")
        elif count > 1 and not has_recurring and not is_again:
            where = [row.key for row in rows if (row.topic, row.partition, row.offset) == place]
            yield Finding("once", f"{place} is there {count} times: {where[:3]}")
    if outcome.ending != "exit 0" or has_recurring or _is_days_back(scenario):
        return
    for place in sorted(wanted - counts.keys()):
        given = outcome.expected[place]
        is_left_out = ((place[0], place[1]), place[2]) in outcome.left_out
        if not is_left_out and not (given.value is None and _ignores(scenario)):
            yield Finding(
                "once", f"{place} is in no object, and {'the frame' if is_frame else 'all'} ended well"
            )


def _is_days_back(scenario: Scenario) -> bool:
    """Whether a clock went back by days between a rule and who asks how old an upload is.

    S3 would refuse requests of such a clock, as this one does not.
    """
    return {"rule", "days", "clock"} <= {step.act for step in scenario.steps} and any(
        step.given.get("ms", 0) < 0 for step in scenario.steps
    )


def _last_of_keys(outcome: WritingOutcome, rows: Sequence[Row]) -> Iterator[Finding]:
    """What came last under a name of keys has the last record of its key, where one partition has that."""
    if outcome.ending != "exit 0":
        return
    last = {row.key.partition("/")[2]: row for row in rows if _recurs(row.key)}
    # Under another template.
    elsewhere = {row[1:4] for row in rows if not _recurs(row.key)}
    for name, row in last.items():
        own = row.topic, outcome.expected[row.topic, row.partition, row.offset].key
        places = [place for place, given in outcome.expected.items() if (place[0], given.key) == own]
        places = [place for place in places if place not in elsewhere]
        offsets = [offset for topic, at, offset in places if ((topic, at), offset) not in outcome.left_out]
        if {place[1] for place in places} == {row.partition} and max(offsets) != row.offset:
            yield Finding("once", f"{name} has offset {row.offset}, and its key has {max(offsets)}")


def _ignores(scenario: Scenario) -> bool:
    """Whether a null may be left out."""
    changed = [step.given.get("options", {}).get("behavior.on.null.values") for step in scenario.steps]
    return "ignore" in (scenario.options.get("behavior.on.null.values"), *changed)


def _archive(scenario: Scenario, outcome: WritingOutcome, visible: Sequence[Visible]) -> Archive:
    archive = Archive(scenario, _seen(outcome, visible, outcome.left_out))
    if archive.broken and outcome.left_out:
        # Rows may have been written before a filter left them out.
        archive = Archive(scenario, _seen(outcome, visible, ()))
    return archive


def _seen(
    outcome: WritingOutcome, visible: Sequence[Visible], left_out: Collection[tuple[tuple[str, int], int]]
) -> Any:
    """As an archive in which all is that ever was; a null is none of the rows that are left out."""
    objects = {f"{one.bucket}/{one.key}": one.stored.body for one in visible}
    given = {
        place: one
        for place, one in outcome.expected.items()
        if ((place[0], place[1]), place[2]) not in left_out
    }
    return replace(
        outcome, objects=objects, letters=[], earlier=[], expected=given, history=_history(outcome)
    )


def _history(outcome: WritingOutcome) -> list[Any]:
    """What became of objects; what a frame that was cut off has replaced is as it was before."""
    cut_off = tuple(one.prefix for one in outcome.frames if one.overwrites and one.ending != "exit 0")
    seen: set[str] = set()
    kept = []
    for at, what, key, by in outcome.history:
        if key in seen and key.partition("/")[2].startswith(cut_off):
            continue
        seen.add(key)
        kept.append((at, what, key, by))
    return kept


def _row(one: Visible, fields: dict[str, Any]) -> Row:
    return Row(
        f"{one.bucket}/{one.key}",
        str(fields["topic"]),
        int(fields["partition"]),
        int(fields["offset"]),
        fields,
    )


def _own_layout(scenario: Scenario, outcome: WritingOutcome, rows: Sequence[Row]) -> Iterator[Finding]:
    """Names show what is in their objects, rows are in order, and parts are those of records."""
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    for key, own in by_key.items():
        if _recurs(key):
            continue
        first = own[0]
        # Those of the templates that are drawn, or of none.
        names = (
            f"/{first.topic}/{first.partition}-{first.offset}",
            f"/{first.topic}/{first.partition}/{first.offset:020}.headrace",
        )
        if not any(key.endswith(name) or f"{name}." in key for name in names):
            yield Finding("layout", f"{key} begins with {first[1:4]}")
        if {(row.topic, row.partition) for row in own} != {(first.topic, first.partition)}:
            yield Finding("layout", f"{key} has rows of several partitions")
        offsets = [row.offset for row in own]
        if offsets != sorted(offsets):
            yield Finding("layout", f"{key} has its rows in the order {offsets}")
    seen = replace(outcome, rows=[row for row in rows if not _recurs(row.key)], earlier=[])
    yield from values_differ(scenario, seen)
    if not any(OUT in row.key and f"{BUCKET}/" not in row.key for row in rows):
        yield from bounded(scenario, seen)
