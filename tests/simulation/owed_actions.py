"""Post-actions that operators interrupt: what is drawn, and what may be taken away then."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.kafka.control_records import TargetState
from headrace.model.ledger_entry import LedgerEntry, State, decode_entry, encode_key
from headrace.model.objects import ObjectId
from ingest.source.catalogue.effects import MARKED
from tests.simulation.apart import CUT_OFF, HELD, OWN_FROM, RESUMED
from tests.simulation.course import Course
from tests.simulation.operations import Operations
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Step

ACTION: Final = "post.action"
ACTIONS: Final = ("delete", "delete", "move:done/", "tag:state=done")
_SHARE: Final = 0.15
_SLOW_SHARE: Final = 0.05
_OWN_SHARE: Final = 0.5
_LINGER_SHARE: Final = 0.8
_REFUSED_SHARE: Final = 0.3
_CALLS: Final = {
    "delete": ("DeleteObject", "HeadObject"),
    "move": ("DeleteObject", "CopyObject", "HeadObject"),
    "tag": ("PutObjectTagging", "HeadObject"),
}
_LINGER: Final = (("503", 3), ("503", 12), ("lost", 1), ("silent", 1), ("silent", 2))
"""What requests meet that are tried again: as long as one object's are, and those of several at once."""
_KILL_SHARE: Final = 0.3
_FIRST: Final = ("put", "arrive")
_HANGS: Final = frozenset({"pause", "pause leader", CUT_OFF})
"""What a process was about to send it sends when it runs on, whatever its successor has committed."""
_SENT_SECONDS: Final = 1.0
"""A request that is with S3 is not called back."""
_SENT_BY_ALL_SECONDS: Final = 60.0
"""Nor are those of all that an object was read with, some of which may have to be tried again."""
_TO_BE_READ: Final = frozenset({State.NEW, State.PARTIAL, State.FAILED, State.QUARANTINED})


def with_owed_actions(
    direction: str, seed: int, options: Mapping[str, str], steps: Iterable[Step]
) -> tuple[dict[str, str], tuple[Step, ...]]:
    """Options and steps; in some scenarios an operator comes while post-actions are carried out.

    Drawn apart, so that what else a seed draws stays as it is.
    """
    rng, found, chosen = random.Random(f"owed-{direction}-{seed}"), list(steps), dict(options)
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return chosen, tuple(found)
    if ACTION not in chosen or rng.random() < _OWN_SHARE:
        chosen[ACTION] = rng.choice(ACTIONS)
    places = [place for place, step in enumerate(found) if step.act in _FIRST]
    for place in sorted(rng.sample(places, min(len(places), rng.choice((1, 1, 2)))), reverse=True):
        found[place + 1 : place + 1] = _interrupted(rng, chosen[ACTION])
    return chosen, (*found, Step(0.0, "start", {}), Step(0.0, RESUMED, {}))


def with_slow_replays(
    direction: str, seed: int, options: Mapping[str, str], steps: Iterable[Step]
) -> tuple[dict[str, str], tuple[Step, ...]]:
    """Options and steps; in some scenarios what is replayed is read late, while its action is tried again.

    Drawn apart, as above. An action that is refused is tried again after ten seconds.
    """
    rng, found, chosen = random.Random(f"replays-{direction}-{seed}"), list(steps), dict(options)
    places = [place for place, step in enumerate(found) if step.act in _FIRST]
    if seed < OWN_FROM or rng.random() >= _SLOW_SHARE or not places:
        return chosen, tuple(found)
    if ACTION not in chosen or rng.random() < _OWN_SHARE:
        chosen[ACTION] = rng.choice(ACTIONS)
    operation = rng.choice(_CALLS[chosen[ACTION].partition(":")[0]])
    place = rng.choice(places)
    found[place + 1 : place + 1] = [
        Step(0.0, "start", {}),
        Step(0.0, "forbidden", {"operation": operation, "seconds": rng.choice((4.0, 8.0))}),
        Step(0.0, "await", {"what": "action"}),
        Step(0.5, "pause workers", {"seconds": rng.choice((20.0, 40.0))}),
        Step(rng.choice((0.0, 1.0, 3.0)), "replay", {"from_start": True, "states": ["done"]}),
        Step(rng.choice((12.0, 25.0)), "wait", {}),
    ]
    return chosen, tuple(found)


def _interrupted(rng: random.Random, action: str) -> Iterator[Step]:
    """An operator does something in the middle of an action, and a process may end in the middle of that."""
    yield Step(0.0, "start", {})
    if rng.random() < _LINGER_SHARE:
        # So long that an operator's request comes while they are tried again.
        operation = rng.choice(_CALLS[action.partition(":")[0]])
        if rng.random() < _REFUSED_SHARE:
            yield Step(0.0, "forbidden", {"operation": operation, "seconds": rng.choice((0.3, 4.0, 8.0))})
        else:
            what, count = rng.choice(_LINGER)
            yield Step(0.0, "s3", {"kind": f"{what} {operation}", "count": count})
    yield Step(0.0, "await", {"what": "action"})
    after = rng.choice((0.0, 0.0, 0.002, 0.006, 0.02, 0.3))
    match rng.choice(("hold", "hold", "hold", "replay", "mark")):
        case "hold":
            target = rng.choice((TargetState.PAUSED, TargetState.STOPPED, TargetState.STOPPED))
            seconds = rng.choice((0.5, 3.0, 12.0, 25.0, 25.0))
            given: dict[str, Any] = {"target": str(target), "seconds": seconds}
            if target is TargetState.STOPPED:
                given["change"] = rng.choice((None, "again", "again", "done"))
            yield Step(after, HELD, given)
        case "replay":
            yield Step(after, "replay", {"from_start": True, "states": ["done"]})
        case _:
            yield Step(after, "mark", {"prefix": ""})
    if rng.random() < _KILL_SHARE:
        after, end = rng.choice((0.0, 0.05, 0.3, 1.5)), rng.choice(("kill", "stop", "kill leader"))
        yield Step(after, end, {"seconds": 3.0} if end == "kill leader" else {})
        yield Step(rng.choice((0.1, 2.0)), "start", {})


class OwedActions:
    """Looks at what post-actions take away or tag; `too_early` says what was to stay."""

    def __init__(self, course: Course, operations: Operations) -> None:
        self._course = course
        self._made = course.made
        self._operations = operations
        self._is_judged = not any(step.act in _HANGS for step in course.scenario.steps)
        self._ledger = ""
        self.too_early: list[str] = []

    def taken(self, bucket: str, key: str, stored: StoredObject, *, has_sides: bool = False) -> None:
        """Somebody takes an object away."""
        sent = _SENT_BY_ALL_SECONDS if has_sides else _SENT_SECONDS
        held = self._operations.held
        if self._is_judged and held is not None:
            target, since = held
            seconds = self._made.kernel.now - since
            # A stop is answered when nothing is being taken any more.
            if target is TargetState.STOPPED or seconds > sent:
                self.too_early.append(f"{key} was taken {seconds:.3f} s after the connector was {target}")
        self._look_up(ObjectId(bucket, key, stored.etag.strip('"')), "taken", sent)

    def called(self, operation: str, given: Mapping[str, Any]) -> None:
        """A request reaches S3."""
        stored = self._made.bucket.objects.get(given["Bucket"], {}).get(given.get("Key", ""))
        if operation == "PutObjectTagging" and stored is not None:
            # One that was begun is carried out: an object is not gone with it.
            found = ObjectId(given["Bucket"], given["Key"], stored.etag.strip('"'))
            self._look_up(found, "tagged", _SENT_BY_ALL_SECONDS)

    def _look_up(self, found: ObjectId, done: str, sent_seconds: float) -> None:
        """What is taken is, by the ledger, nothing that is to be read or that was marked."""
        known = self._entry_of(found) if self._is_judged else None
        if known is not None:
            entry, at_ms = known
            seconds = (self._made.bucket.now_ms() - at_ms) / 1000
            is_marked = entry.state is State.DONE and entry.reason == MARKED
            if (entry.state in _TO_BE_READ or is_marked) and seconds > sent_seconds:
                what = entry.reason or entry.state
                self.too_early.append(
                    f"{found.key} was {done}, and has been {what} in the ledger for {seconds:.1f} s"
                )

    def _entry_of(self, found: ObjectId) -> tuple[LedgerEntry, int] | None:
        """What the ledger says of an object, and since when."""
        self._ledger = self._ledger or self._made.settings(self._course.options).kafka.ledger_topic
        name, key = self._ledger, encode_key(found)
        records = self._made.broker.durable(name, 0) if name in self._made.broker.topics else ()
        last = next((one for one in reversed(records) if one.key == key), None)
        if last is None or last.value is None:
            return None
        return decode_entry(last.value), last.timestamp_ms


def still_owed(
    bucket_objects: Mapping[str, Mapping[str, StoredObject]],
    entries: Mapping[ObjectId, LedgerEntry],
    action: str | None,
    buckets: Sequence[str],
) -> Iterator[str]:
    """What a run that has ended well owes to objects that are there."""
    for object_id, entry in entries.items():
        stored = bucket_objects.get(object_id.bucket, {}).get(object_id.key)
        is_there = stored is not None and stored.etag.strip('"') == object_id.etag
        if is_there and entry.action is not None and entry.action == action and object_id.bucket in buckets:
            yield f"{object_id.url} is there, and {action} is still owed to it"
