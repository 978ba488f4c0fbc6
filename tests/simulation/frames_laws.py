"""The laws, as they are about objects that a query of Spark reads."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.simulation.frames_generator import EXCLUDED, START_KEY
from tests.simulation.frames_run import FramesOutcome, Put, is_left_out, stretched
from tests.simulation.frames_spark import Checkpoint
from tests.simulation.laws import Finding, sanity
from tests.simulation.objects import rows_of_object
from tests.simulation.scenario import Scenario

_SEVERAL: Final = frozenset({"second", "second query", "pause"})
_TWO_QUERIES: Final = ("was written by another query", "another query compacts", "Multiple streaming queries")


def judge_frames(scenario: Scenario, outcome: FramesOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += _said(scenario, outcome)
    found += _log(outcome)
    for kept in outcome.checkpoints:
        found += _once(scenario, outcome, kept)
    if outcome.ending == "exit 0":
        found += _all_there(scenario, outcome)
        found += _bad_rows(scenario, outcome)
    elif outcome.ending is not None:
        found.append(Finding("forward", f"it is refused at the end: {outcome.ending}"))
    return found


def _said(scenario: Scenario, outcome: FramesOutcome) -> Iterator[Finding]:
    """Each query that ended said why, and what it said was so."""
    acts = {step.act for step in scenario.steps}
    for sentence in dict.fromkeys(outcome.sentences):
        if not sentence.startswith(("FrameRefused: ", "QueryEnded: ")):
            yield Finding("forward", f"a query ended without a sentence: {sentence}")
        if any(words in sentence for words in _TWO_QUERIES) and not acts & _SEVERAL:
            yield Finding("shown = true", f"there was one query, and it was said: {sentence}")


def _log(outcome: FramesOutcome) -> Iterator[Finding]:
    """An object is in one batch, which is what it was."""
    batches: dict[tuple[str, str], set[int]] = {}
    for one in outcome.logged:
        batches.setdefault((one.key, one.etag), set()).add(one.batch)
    for (key, _), found in batches.items():
        if len(found) > 1:
            yield Finding("once", f"{key} is in batches {sorted(found)} of the log")
    for what, place in {(what, place) for _, what, place, _ in outcome.history}:
        if what == "replaced" and ("/entries/" in place or "/known/" in place):
            yield Finding("once", f"{place} was replaced")
    for kept in outcome.checkpoints:
        for sentence in kept.strange:
            yield Finding("once", f"a batch that is repeated is another one: {sentence}")


def _rows(outcome: FramesOutcome, number: int) -> list[str]:
    """The rows of an object as they are in the output."""
    good, _ = rows_of_object(stretched(outcome.given[number]))
    return [f"{name} {len(text)}" for name, text in good]


def _once(scenario: Scenario, outcome: FramesOutcome, kept: Checkpoint) -> Iterator[Finding]:
    """No row is there twice, none that is of no object, and an object is there whole or not at all."""
    seen = Counter(row for batch in kept.sink.values() for row in batch)
    known: set[str] = set()
    for put in {(one.key, one.etag): one for one in outcome.puts}.values():
        rows = _rows(outcome, put.number)
        known.update(rows)
        there = sum(1 for row in rows if seen[row])
        if there and there < len(rows):
            yield Finding("once", f"{there} of {len(rows)} rows of {put.key} are there")
        if there and _is_excluded(scenario, put):
            yield Finding("alone", f"{put.key} is left out, and its rows are there")
    for row, count in seen.items():
        if row.startswith("foreign-"):
            yield Finding("no memory of another life", f"a row of another bucket is there: {row}")
        elif row not in known:
            yield Finding("once", f"{row} is there, and in no object")
        elif count > 1:
            yield Finding("once", f"row {row} is there {count} times")


def _is_excluded(scenario: Scenario, put: Put) -> bool:
    """Whether an object is left out by its key, whoever finds it and when."""
    has_glob = "object.exclude" in scenario.options
    return not put.key.startswith("in/") or (has_glob and put.key.startswith(EXCLUDED.rstrip("*")))


def _all_there(scenario: Scenario, outcome: FramesOutcome) -> Iterator[Finding]:
    """What is there at the end, and is not left out, is in the output; so is each version that was logged."""
    seen = {row for batch in outcome.checkpoints[-1].sink.values() for row in batch}
    for put in _judged(scenario, outcome):
        missing = [row for row in _rows(outcome, put.number) if row not in seen]
        if missing:
            yield Finding("once", f"{put.key}: {len(missing)} of its rows are not there")
    by_version = {(one.key, one.version): one for one in outcome.puts if one.version is not None}
    for one in outcome.logged:
        found = None if one.version_id is None else by_version.get((one.key, one.version_id))
        if found is not None and any(row not in seen for row in _rows(outcome, found.number)):
            yield Finding("once", f"{one.key}: its version {one.version_id} is in the log, and was not read")


def _judged(scenario: Scenario, outcome: FramesOutcome) -> Iterator[Put]:
    """The objects that have to be in the output."""
    for put in {(one.key, one.etag): one for one in outcome.puts}.values():
        is_there = outcome.there.get(put.key) == put.etag
        if is_there and not is_left_out(scenario, put) and not _is_existing(scenario, outcome, put):
            yield put


def _is_existing(scenario: Scenario, outcome: FramesOutcome, put: Put) -> bool:
    """Whether the first start may have left an object to the past."""
    before, second = outcome.existing_before_ms, 1000
    is_before = before is not None and put.at_ms < before + second
    return is_before or ("native.start.key" in scenario.options and put.key <= START_KEY)


def _bad_rows(scenario: Scenario, outcome: FramesOutcome) -> Iterator[Finding]:
    """Each bad row of what was read is noted, where bad rows are left out."""
    if scenario.options.get("input.format", "jsonl") != "jsonl":
        # The others hold good rows alone.
        return
    noted = Counter(outcome.bad_rows)
    for put in _judged(scenario, outcome):
        _, bad = rows_of_object(outcome.given[put.number])
        if bad > noted[put.key, put.etag]:
            yield Finding("once", f"{put.key}: {noted[put.key, put.etag]} of {bad} bad rows are noted")
