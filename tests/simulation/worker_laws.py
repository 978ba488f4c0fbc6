"""The laws, as they are about workers."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.kafka.control_records import ConnectorRecord
from ingest.connect.changes import shown_config
from tests.simulation.laws import Finding
from tests.simulation.scenario import Scenario
from tests.simulation.worker_generator import PASSED_OVER
from tests.simulation.worker_run import DAMAGE, Asked, WorkerOutcome

_Config = Mapping[str, str]
_State = tuple[tuple[tuple[str, str], ...], str] | None
"""A connector's configuration and target state; None: there is none."""
_LOST: Final = (("lost", ""),)
"""Another program has written over its configuration; the target state is in its ledger."""
_STEERED: Final = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}
_ALL_ANSWER: Final = ("worker", "ask", "put", "wait", "garbage", "clean", "compact", "clock")
_SOON_SECONDS: Final = 20.0
_OK: Final = (200, 201, 202, 204)


def judge_worker(scenario: Scenario, outcome: WorkerOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(_sanity(outcome))
    found += _answers(outcome)
    found += [Finding("forward", sentence) for sentence in outcome.unsettled]
    for name, sentences in outcome.untrue.items():
        found += [Finding("shown = true", f"{name}: {sentence}") for sentence in sentences]
    found += [Finding("nothing changed", sentence) for sentence in outcome.restarted]
    found += _in_time(scenario, outcome)
    found += _passed_over(scenario, outcome)
    if not outcome.unsettled:
        found += _nothing_lost(outcome)
        found += [Finding("once", sentence) for sentence in outcome.missing]
    found += _once(outcome)
    return found


def _sanity(outcome: WorkerOutcome) -> Iterator[Finding]:
    for sentence in dict.fromkeys([*outcome.crashes, *outcome.failures, *outcome.refused]):
        yield Finding("forward", sentence)
    if outcome.is_stuck:
        yield Finding("forward", f"it goes on and on: {outcome.turns} turns in {outcome.seconds:.0f} s")
    if outcome.ending is None:
        yield Finding("forward", "it has not ended")
    for _, _, event, given in outcome.log:
        if "unexpected error" in str(given.get("error", "")):
            yield Finding("forward", f"{event}: {given}")


def _answers(outcome: WorkerOutcome) -> Iterator[Finding]:
    """An answer is one of Connect's."""
    for asked in outcome.asked:
        if asked.status is None:
            continue
        what = f"{asked.method} {asked.path} is {asked.status}: {asked.text[:300]}"
        shown = asked.json
        if asked.status in _OK:
            is_one = not asked.text or shown is not None
        else:
            is_one = (
                isinstance(shown, dict)
                and shown.keys() == {"error_code", "message"}
                and shown["error_code"] == asked.status
                and bool(shown["message"])
                and "Traceback" not in asked.text
            )
        if not is_one:
            yield Finding("answers", what)


def _in_time(scenario: Scenario, outcome: WorkerOutcome) -> Iterator[Finding]:
    """Where no worker and no broker is away, a change is answered soon: what is unreadable is no reason."""
    if any(step.act not in _ALL_ANSWER for step in scenario.steps):
        return
    for asked in outcome.asked:
        is_change = asked.method != "GET" and (asked.path == "/connectors" or asked.path.endswith("/config"))
        seconds = (asked.ended or asked.began) - asked.began
        if is_change and seconds > _SOON_SECONDS:
            said = f"{asked.method} {asked.path} was answered {asked.status} after {seconds:.0f} s"
            yield Finding("forward", f"{said}: {asked.text}")


def _passed_over(scenario: Scenario, outcome: WorkerOutcome) -> Iterator[Finding]:
    """What other programs have put into the configuration topic is no reason to refuse a change."""
    put = {step.given["what"] for step in scenario.steps if step.act == "garbage"}
    if put <= set(PASSED_OVER):
        for asked in outcome.asked:
            if "not Headrace's" in asked.text:
                yield Finding("forward", f"{asked.method} {asked.path} is {asked.status}: {asked.text}")


# -- an acknowledged change is never lost --------------------------------------------------------------------


def _nothing_lost(outcome: WorkerOutcome) -> Iterator[Finding]:
    """There is an order of the requests, as they overlapped, in which every answer and the end are right."""
    for name, state in outcome.states.items():
        changes = [one for one in outcome.asked[: outcome.judged] if _name_of(one) == name and _changes(one)]
        last = None if state is None else (_frozen(state[0]), state[1])
        if last is not None and last[1] == "FAILED":
            continue
        if not _Order(name, changes, last).is_there():
            what = "; ".join(
                f"{one.method} {one.path} {one.status or one.error} ({one.began - 1000:.1f} to "
                f"{(one.ended or 0) - 1000:.1f})"
                for one in changes
            )
            yield Finding("nothing lost", f"{name} is {_said(last)} at the end, after: {what}")


def _said(state: _State) -> str:
    return "not there" if state is None else f"{state[1]} with {dict(state[0])}"


def _name_of(asked: Asked) -> str | None:
    """The connector that a request is about."""
    if asked.path == "/connectors":
        return asked.body["name"] if asked.method == "POST" else None
    segments = asked.path.partition("?")[0].strip("/").split("/")
    return segments[1] if segments[0] == "connectors" and len(segments) > 1 else None


def _changes(asked: Asked) -> bool:
    """Whether it is one that changes a configuration or a target state."""
    last = asked.path.rpartition("/")[2]
    is_request = asked.method in {"POST", "DELETE", "PUT", "PATCH"}
    return asked.method == DAMAGE or (is_request and not (last == "offsets" or "restart" in last))


class _Order:
    """Searches an order of requests."""

    def __init__(self, name: str, changes: list[Asked], last: _State) -> None:
        self._name = name
        self._changes = changes
        self._last = last
        self._tried: set[tuple[frozenset[int], _State]] = set()

    def is_there(self) -> bool:
        """Whether there is one that ends with what was there."""
        return self._try(frozenset(range(len(self._changes))), None)

    def _try(self, left: frozenset[int], state: _State) -> bool:
        must = [one for one in left if not _is_unknown(self._changes[one])]
        if not must and self._is_last(state):
            return True
        if (left, state) in self._tried:
            return False
        self._tried.add((left, state))
        first_end = min((self._changes[one].ended or 0.0 for one in must), default=float("inf"))
        for one in left:
            asked = self._changes[one]
            if asked.began <= first_end:
                for after in self._after(asked, state):
                    if self._try(left - {one}, after):
                        return True
        return False

    def _is_last(self, state: _State) -> bool:
        if state is None or self._last is None:
            return state is None and self._last is None
        shown = shown_config(ConnectorRecord(name=self._name, config=dict(state[0]), at_ms=0))
        return (_frozen(shown), state[1]) == self._last

    def _after(self, asked: Asked, state: _State) -> Iterator[_State]:
        """The states that there may be after a request, as it was answered; none: it cannot come here."""
        status, last = asked.status, asked.path.rpartition("/")[2]
        is_there = state is not None and not _is_lost(state)
        if asked.method == DAMAGE:
            yield from self._damaged(asked, state)
            return
        if asked.passes or status == 400:
            yield state
            return
        if _is_unknown(asked):
            yield from self._done(asked, state, last)
        elif status == 404:
            if state is None:
                yield None
        elif status == 409:
            if is_there:
                yield state
        else:
            for after in self._done(asked, state, last):
                is_new = not is_there and after is not None
                # What another program has written over may have been read as it was before.
                if _is_lost(state) or (status == 201) is is_new:
                    yield after

    def _damaged(self, damage: Asked, state: _State) -> Iterator[_State]:
        yield from ((_LOST, target) for target in self._targets(damage, state))
        if self._is_written_over(damage):
            yield state

    def _targets(self, damage: Asked, state: _State) -> set[str]:
        """What the ledger may say, once it is read again, of what a connector in this state is to do."""
        if state is not None:
            # Before somebody leads it, the ledger does not know how it was created, and has what was last
            # wanted of the one of its name that was deleted; after that, both are the same.
            return {state[1], damage.body}
        # Of one of its name that was deleted, or that was never led.
        made = {one.body.get("initial_state", "RUNNING") for one in self._changes if one.method == "POST"}
        asked_for = {_STEERED.get(one.path.rpartition("/")[2], "") for one in self._changes} - {""}
        return {"RUNNING"} | made | asked_for

    def _is_written_over(self, damage: Asked) -> bool:
        """Whether a change may have read before it, and have been written after it."""
        others = (one for one in self._changes if one.method != DAMAGE and one.status not in (400, 404))
        return any(one.began <= damage.began <= (one.ended or damage.began) for one in others)

    def _done(self, asked: Asked, state: _State, last: str) -> Iterator[_State]:
        """The state after it was carried out; none where it cannot be."""
        body, name = asked.body, {"name": self._name}
        if asked.method == "DELETE":
            if state is not None:
                yield None
        elif asked.method == "POST":
            if state is None or _is_lost(state):
                yield _frozen({**body["config"], **name}), body.get("initial_state", "RUNNING")
        elif last in _STEERED:
            if state is not None and not _is_lost(state):
                yield state[0], _STEERED[last]
        elif asked.method == "PUT":
            target = "RUNNING" if state is None else state[1]
            yield _frozen({**body, **name}), target
        elif state is not None and not _is_lost(state):
            merged = {**dict(state[0]), **body}
            yield _frozen({option: text for option, text in merged.items() if text is not None}), state[1]


def _is_lost(state: _State) -> bool:
    return state is not None and state[0] == _LOST


def _is_unknown(asked: Asked) -> bool:
    """Whether the client cannot know whether it was carried out."""
    if asked.passes:
        return False
    if asked.status == 409:
        return "already exists" not in asked.text
    return asked.status is None or asked.status >= 500


def _frozen(config: _Config) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(config.items()))


# -- once ----------------------------------------------------------------------------------------------------


def _once(outcome: WorkerOutcome) -> Iterator[Finding]:
    """A row is in Kafka once, and a record in one object, but for those that were asked for again."""
    repeats: Counter[str] = Counter()
    for asked in outcome.asked:
        is_offsets = asked.path.endswith("/offsets") and asked.method in {"DELETE", "PATCH"}
        if is_offsets and not asked.passes and (asked.status in _OK or _is_unknown(asked)):
            repeats[str(_name_of(asked))] += 1
    most = 1 + repeats["one"] + repeats["two"]
    for row, count in outcome.rows.items():
        if count > most:
            yield Finding("once", f"row {row} is in Kafka {count} times")
    archived = Counter((row.partition, row.offset) for row in outcome.archived)
    for place, count in archived.items():
        if count > 1 + repeats["out"]:
            yield Finding("once", f"record {place} is archived {count} times")


def shown(asked: Asked) -> str:
    """A request in a line, for those who look at a run."""
    body: Any = "" if asked.body is None else json.dumps(asked.body)
    what = f"{asked.began - 1000:.2f} {asked.to} {asked.method} {asked.path} {body}"
    return f"{what} -> {asked.status} {asked.text or asked.error}"
