"""`headrace status` and `headrace plan` asked when all is done: what they say is held against what is so."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from headrace.kafka.ledger_reader import open_ledger_reader
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from ingest.checks.probes.bucket_keys import AwsClients
from ingest.checks.probes.status_reader import StatusReader
from ingest.cli.plan import forecasts_of
from tests.simulation.s3 import SimulatedS3
from tests.simulation.shown import TRUE, Ledger, Said

if TYPE_CHECKING:
    from tests.simulation.course import Course

_SECONDS: Final = 40.0


def said_in_error(course: "Course") -> list[Said]:
    """What the commands say that is not so. For a thread of the simulation: they read the ledger."""
    settings, made = course.made.settings(course.options), course.made
    ledger = Ledger()
    ledger.read(made.broker, settings.kafka.ledger_topic)
    reader = StatusReader(settings, timeout=_SECONDS)
    try:
        status = reader.status()
    finally:
        reader.close()
    found = []
    if settings.sink is not None:
        pending = status["sink"]["pending_objects"]
        if pending and course.ended.ending == "exit 0":
            found.append((TRUE, f"status says that {pending} objects wait to be completed, and none does"))
        return found
    states = ledger.states(settings.buckets)
    said = Counter({name: count for name, count in status["objects"].items() if count})
    if said != states:
        found.append((TRUE, f"status says {dict(said)}, and the ledger has {dict(states)}"))
    if settings.format.restore is None:
        found += _of_plan(course, settings, ledger)
    # A command of an operator may still be under way, and write between two readings.
    now = Ledger()
    now.read(made.broker, settings.kafka.ledger_topic)
    return found if now.end == ledger.end else []


def _of_plan(course: "Course", settings: Any, ledger: Ledger) -> list[Said]:
    reading = open_ledger_reader(settings, timeout=_SECONDS)
    if reading is None:
        return []
    with reading:
        clients = AwsClients(s3=SimulatedS3(course.made.bucket), sqs=None)
        forecast, _ = forecasts_of(settings, clients, reading.cache)
    total = forecast.total()
    found = []
    there = [
        ObjectId(bucket, key, stored.etag.strip('"'))
        for bucket in settings.buckets
        for key, stored in course.made.bucket.objects[bucket].items()
        if key.startswith(settings.s3.prefix)
    ]
    # What a command of an operator has put back since waits rightly.
    waiting = sum(ledger.state_of(one) is State.NEW for one in there)
    if total.pending.objects > waiting and course.ended.ending == "exit 0":
        told = f"plan says that {total.pending.objects} objects are pending"
        found.append((TRUE, f"{told}, and {waiting} are"))
    left_out = sum(one.objects for one in forecast.left_out.values())
    for state, said in ((State.DONE, total.done), (State.QUARANTINED, total.quarantined)):
        known = sum(ledger.state_of(one) is state for one in there)
        if not known - left_out <= said.objects <= known:
            found.append((TRUE, f"plan says that {said.objects} objects are {state}, and {known} are"))
    if forecast.listed.objects != len(there):
        found.append((TRUE, f"plan lists {forecast.listed.objects} objects, and there are {len(there)}"))
    return found
