"""Objects as they are announced, listed, replaced and left out: one course each, in virtual time.

    python -m tests.simulation.discovery_courses

in a process of its own, as the simulation exchanges clocks, threads and locks: what broke, by course.
"""

import gc
import hashlib
import itertools
import json
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from headrace.kafka.kafka_clients import client_properties
from headrace.kafka.ledger_reader import LedgerReader
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId, S3Object
from ingest.cli.submit import write_commands
from ingest.source.command_queue import new_commands
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.kernel import EPOCH_MS
from tests.simulation.s3 import SimulatedS3, StoredObject
from tests.simulation.source_generator import FIXED, INCOMING, TOPIC
from tests.support.service import rows

_QUEUE: Final = "https://sqs.us-east-1.amazonaws.com/1/q"
_SECONDS: Final = 120.0
_NUMBERS: Final = itertools.count(1)

Named = tuple[str, str | None, int | None]
"""Key, ETag and size of an object that a message is about."""


class Course:
    """A bucket, its queue, a topic, and one process that reads."""

    def __init__(self, made: Environment) -> None:
        self.made = made
        self.uploaded: Counter[bytes] = Counter()
        """Rows that have to be in Kafka, each as often as it counts."""
        self.options = {
            **FIXED,
            # Clients are kept by their properties: those of another course are none of this one's.
            "bootstrap.servers": f"course-{next(_NUMBERS)}:9092",
            "state.dir": str(made.folder / "state"),
            "input.format": "jsonl",
            "sqs.queue.url": _QUEUE,
            "job.linger.ms": "0",
        }
        self._one: Instance | None = None
        made.bucket.make(INCOMING)
        made.broker.create(TOPIC, 2)

    def start(self, **options: str | None) -> None:
        """Begin to read, with these options, `__` for a dot; None: not that one."""
        self._choose(options)
        self._one = Instance(self.made, self.options)

    def run_until_idle(self, **options: str | None) -> str | None:
        """Read until nothing is left to do, with options as `start` has them; how that ended."""
        self._choose(options)
        self._one = Instance(self.made, self.options, until_idle=True)
        self.wait(lambda: self.one.is_over, "its end")
        return self.one.ending

    def _choose(self, options: Mapping[str, str | None]) -> None:
        for name, value in options.items():
            self.options.pop(name.replace("__", "."), None)
            if value is not None:
                self.options[name.replace("__", ".")] = value

    def stop(self) -> None:
        """End what reads; it has to be without an error."""
        if self._one is not None:
            self._one.stop.ask("the end of the course")
            self.wait(lambda: self.one.is_over, "its end")
            assert self.one.ending == "exit 0", self.one.ending

    @property
    def one(self) -> Instance:
        """What reads."""
        assert self._one is not None, "it is started"
        return self._one

    @property
    def connector(self) -> Any:
        """The connector that reads."""
        self.wait(lambda: self.one.connector is not None, "a connector")
        return self.one.connector

    def wait(self, found: Callable[[], bool], what: str) -> None:
        """Let time pass until this is so."""
        deadline = self.made.kernel.now + _SECONDS
        while not found():
            assert self.made.kernel.now < deadline, f"within {_SECONDS:.0f} s there was not: {what}"
            self.made.kernel.sleep(0.1)

    # -- objects and messages --------------------------------------------------------------------------------

    def put(self, key: str, lines: Iterable[bytes], *, counts: bool = True, announced: bool = True) -> str:
        """An upload, and its notification; its ETag."""
        lines = list(lines)
        body = b"".join(line + b"\n" for line in lines)
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        stored = StoredObject(body, f'"{etag}"', {}, self.made.bucket.now_ms())
        self.made.bucket.put(INCOMING, key, stored, "put")
        if announced:
            version = {} if stored.version == "null" else {"versionId": stored.version}
            self.send(message((key, etag, len(body)), at_ms=stored.modified_ms, **version))
        if counts:
            self.uploaded.update(lines)
        return etag

    def delete(self, key: str) -> None:
        """A deletion, and its notification."""
        del self.made.bucket.objects[INCOMING][key]
        self.send(message((key, None, None), event="ObjectRemoved:DeleteMarkerCreated"))

    def send(self, body: str) -> None:
        """A message."""
        self.made.queue.send(body)

    # -- what came of it -------------------------------------------------------------------------------------

    def settled(self) -> None:
        """Wait until all rows are in Kafka, and the queue is empty."""
        self.wait(lambda: not self.made.queue.messages and self.values() >= self.uploaded, "all rows")
        self.listed()

    def listed(self) -> None:
        """Wait for what is shown, which follows what is there by moments, and for two polls of a listing."""
        self.wait(lambda: not self.snapshot.pending_objects, "nothing pending")
        self.made.kernel.sleep(6.0)

    @property
    def snapshot(self) -> Any:
        """What is shown."""
        return self.connector.snapshot_holder.snapshot

    def values(self) -> Counter[bytes]:
        """What is in Kafka."""
        return Counter(value for _, value in self._records())

    def of(self, key: str) -> list[bytes]:
        """The records of one object's key, in their order."""
        return [value for found, value in self._records() if found == key.encode()]

    def _records(self) -> list[tuple[bytes | None, bytes]]:
        visible = self.made.broker.visible
        return [(one.key, one.value or b"") for number in range(2) for one in visible(TOPIC, number)]

    def counted(self, name: str, **labels: str) -> float:
        """A sample of the metrics."""
        found: float | None = self.connector.metrics.registry.get_sample_value(name, labels)
        return found or 0.0

    def ignored(self, reason: str) -> float:
        """How many objects were left out for it."""
        return self.counted("headrace_objects_total", state="ignored", reason=reason)

    def log(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of one event."""
        return [given for _, _, found, given in self.made.log if found == event]

    def outcomes(self, key: str) -> list[tuple[str, str | None]]:
        """How the contents of a key ended, state and reason, in order."""
        return [(str(line["outcome"]), line["reason"]) for line in self.log("object") if line["key"] == key]


def message(
    *named: Named,
    bucket: str = INCOMING,
    event: str = "ObjectCreated:Put",
    at_ms: int = EPOCH_MS,
    **more: Any,
) -> str:
    """One message as S3 words it, about these objects."""
    records = [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventName": event,
            "eventTime": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "s3": {"bucket": {"name": bucket}, "object": {"key": key, **_known(etag, size), **more}},
        }
        for key, etag, size in named
    ]
    return json.dumps({"Records": records})


def _known(etag: str | None, size: int | None) -> dict[str, Any]:
    return {} if etag is None else {"eTag": etag, "size": size}


# -- announced -----------------------------------------------------------------------------------------------


def existing_left_alone(course: Course) -> None:
    """`include.existing=false`: the listing passes it over, and an event about it is believed."""
    etag = course.put("v/existing.jsonl", rows("existing", 5), counts=False, announced=False)
    course.put("v/quiet.jsonl", rows("quiet", 5), counts=False, announced=False)
    course.made.kernel.sleep(3.0)
    course.start(include__existing="false")
    course.wait(lambda: course.snapshot.last_full_listing_ms is not None, "the first listing")
    course.listed()
    assert not course.values()
    assert course.ignored("existing") == 2
    size = len(course.made.bucket.objects[INCOMING]["v/existing.jsonl"].body)
    course.send(message(("v/existing.jsonl", etag, size)))
    course.uploaded.update(rows("existing", 5))
    course.settled()


def existing_beneath_a_broken_upload(course: Course) -> None:
    """`include.existing=false`: an upload that was never aborted makes no new object of what came later."""
    s3 = SimulatedS3(course.made.bucket)

    def begin(key: str) -> str:
        return str(s3.create_multipart_upload(Bucket=INCOMING, Key=key)["UploadId"])

    begin("v/again.jsonl")
    late = begin("v/late.jsonl")
    course.made.kernel.sleep(3.0)
    course.put("v/again.jsonl", rows("again", 5), counts=False, announced=False)
    course.put("v/late.jsonl", rows("early", 5), counts=False, announced=False)
    course.made.kernel.sleep(3.0)
    course.start(include__existing="false", sqs__queue__url=None, poll__interval__ms="500")
    course.wait(lambda: course.snapshot.last_full_listing_ms is not None, "the first listing")
    course.listed()
    assert not course.values()
    body = b"".join(line + b"\n" for line in rows("late", 5))
    named = {"Bucket": INCOMING, "Key": "v/late.jsonl", "UploadId": late}
    etag = s3.upload_part(PartNumber=1, Body=body, **named)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **named)
    course.uploaded.update(rows("late", 5))
    course.settled()


def announced_thrice(course: Course) -> None:
    """SQS delivers at least once, and S3 itself repeats events: it is read once."""
    course.start()
    etag = course.put("thrice.jsonl", rows("thrice", 10))
    size = len(course.made.bucket.objects[INCOMING]["thrice.jsonl"].body)
    for _ in range(3):
        course.send(message(("thrice.jsonl", etag, size)))
    course.settled()
    course.send(message(("thrice.jsonl", etag, size)))
    course.settled()
    assert course.outcomes("thrice.jsonl") == [("done", None)]


def several_in_one_message(course: Course) -> None:
    """A message is deleted only when every object that it names is done."""
    course.start()
    named = []
    for number in range(5):
        lines = rows(f"together-{number}", 10)
        etag = course.put(f"together/{number}.jsonl", lines, announced=False)
        named.append((f"together/{number}.jsonl", etag, sum(len(line) + 1 for line in lines)))
    course.made.queue.on_deleted = lambda _body: _all_there(course)
    course.send(message(*named))
    course.settled()


def _all_there(course: Course) -> None:
    assert course.values() >= course.uploaded, "a message is deleted when all its objects are in Kafka"


def empty_objects(course: Course) -> None:
    """Nothing comes of one, and its message does not come again either."""
    course.start()
    course.put("empty.jsonl", [])
    course.settled()
    assert course.snapshot.objects["skipped"] == 1


def overwritten(course: Course) -> None:
    """Another ETag is another object: both contents, once each; the log has a line of each."""
    course.start()
    course.put("overwritten.jsonl", rows("first", 10))
    course.settled()
    course.put("overwritten.jsonl", rows("second", 10))
    course.settled()
    lines = [line for line in course.log("object") if line["key"] == "overwritten.jsonl"]
    assert [(line["records"], str(line["outcome"])) for line in lines] == [(10, "done"), (10, "done")]


# -- versions ------------------------------------------------------------------------------------------------


def every_version(course: Course) -> None:
    """Each event names its version, and that version is read, however many came since."""
    course.made.bucket.versioned.add(INCOMING)
    course.start()
    contents = [rows(f"overwritten-{number}", 3) for number in range(5)]
    for content in contents:
        course.put("v/overwritten.jsonl", content)
    course.settled()
    assert course.outcomes("v/overwritten.jsonl") == [("done", None)] * 5


def a_then_b_then_a(course: Course) -> None:
    """The second A has the ETag of the first: a key with an ETag is ingested once."""
    course.made.bucket.versioned.add(INCOMING)
    course.start()
    course.put("v/aba.jsonl", rows("a", 3))
    course.put("v/aba.jsonl", rows("b", 3))
    course.settled()
    course.put("v/aba.jsonl", rows("a", 3), counts=False)
    course.settled()


def deleted_and_uploaded_again(course: Course) -> None:
    """Deleted before it was read, its version is there still; the same bytes again are known, others new."""
    course.made.bucket.versioned.add(INCOMING)
    first, second = rows("again-1", 3), rows("again-2", 3)
    course.put("v/again.jsonl", first)
    course.delete("v/again.jsonl")
    course.put("v/again.jsonl", first, counts=False)
    course.delete("v/again.jsonl")
    course.start()
    course.settled()
    course.put("v/again.jsonl", second)
    course.settled()
    assert course.of("v/again.jsonl") == first + second
    assert course.ignored("removed") == 2


def missing_until_it_is_there(course: Course) -> None:
    """404 is `skipped`, reason `missing`, and not final: the same content is read when it is there."""
    course.start()
    lines = rows("missing", 3)
    body = b"".join(line + b"\n" for line in lines)
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    course.send(message(("v/missing.jsonl", etag, len(body))))
    course.wait(lambda: course.outcomes("v/missing.jsonl") == [("skipped", "missing")], "a missing object")
    course.put("v/missing.jsonl", lines)
    course.settled()
    assert course.outcomes("v/missing.jsonl") == [("skipped", "missing"), ("done", None)]


def headers_left_out(course: Course) -> None:
    """By a proxy: a start says so and ends, and once running nothing ends it; mended, all is read."""
    bucket, lacks = course.made.bucket, "was answered without"
    bucket.left_out = frozenset({"date"})
    ending = course.run_until_idle()
    assert ending is not None
    assert ending.startswith("Unavailable: ")
    assert f"{lacks} Date, which S3 always sends" in ending

    bucket.left_out = frozenset()
    course.start()
    course.put("in/before.jsonl", rows("before", 2))
    course.settled()
    bucket.left_out = frozenset({"ETag", "ContentLength", "LastModified"})
    course.put("in/named.jsonl", rows("named", 2), announced=False)
    course.send(message(("in/named.jsonl", None, None)))
    course.wait(lambda: f"{lacks} ETag" in course.snapshot.problems.get("heads", ""), "a header, of HEADs")
    bucket.left_out = frozenset()
    course.settled()
    course.stop()

    course.start(sqs__queue__url=None)
    bucket.left_out = frozenset({"ETag"})
    course.put("in/listed.jsonl", rows("listed", 2), announced=False)
    course.wait(lambda: f"{lacks} ETag" in course.snapshot.problems.get("bucket", ""), "one of listings")
    bucket.left_out = frozenset()
    course.settled()
    course.wait(lambda: not course.snapshot.problems, "no problem")


# -- messages that name nothing to read ----------------------------------------------------------------------


def messages_of_nothing(course: Course) -> None:
    """What names nothing to read is deleted, and counted."""
    course.start(file__name__template="in/.*")
    elsewhere = ("in/elsewhere.jsonl", "0" * 32, 3)
    events = {
        "removed": "ObjectRemoved:Delete",
        "restored": "ObjectRestore:Completed",
        "other": "ObjectTagging:Put",
    }
    course.send(message(("does not match", "0" * 32, 3)))
    for event in events.values():
        course.send(message(elsewhere, event=event))
    course.send(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": INCOMING}))
    course.settled()
    found = {reason: course.ignored(reason) for reason in ("unmatched", *events, "test_event")}
    assert found == dict.fromkeys(found, 1.0)
    assert course.outcomes("in/elsewhere.jsonl") == []


def messages_of_others(course: Course) -> None:
    """What is foreign is left to the queue; counted, with one WARN for each shape or bucket."""
    course.start()
    bodies = [message((f"a-{n}", "0" * 32, 3), bucket="another") for n in range(3)]
    bodies += [f"no JSON, {n}" for n in range(3)] + [json.dumps({"hello": n}) for n in range(3)]
    for body in bodies:
        course.send(body)
    course.wait(
        lambda: course.counted("headrace_sqs_messages_total", outcome="left") >= len(bodies), "all counted"
    )
    course.put("in/after.jsonl", rows("after", 3))
    course.wait(lambda: course.values() == course.uploaded, "the next object")
    course.made.kernel.sleep(5.0)
    assert sorted(one.body for one in course.made.queue.messages) == sorted(bodies)
    said = [f"{line['shape']} {line['reason']}" for line in course.log("message_left_on_queue")]
    assert len(said) == 3
    assert sum("another" in line for line in said) == 1


# -- listed --------------------------------------------------------------------------------------------------


_LISTING: Final = {"sqs__queue__url": None, "aws__s3__prefix": "in/", "poll__listing": "full"}


def _listed(course: Course, objects: dict[str, list[bytes]], *, counts: bool = True) -> None:
    for key, lines in objects.items():
        course.put(key, lines, counts=counts, announced=False)


def keys_that_come_while_it_lists(course: Course) -> None:
    """Each listing finds keys that sort before the last one seen."""
    rng = random.Random(7)
    course.start(**_LISTING, poll__interval__ms="500")
    for portion in range(10):
        _listed(course, {f"in/{rng.random()}.jsonl": rows(f"{portion}-{n}", 2) for n in range(6)})
        course.made.kernel.sleep(0.7)
    course.settled()


def globs(course: Course) -> None:
    """What include and exclude leave out has no entry; its neighbours of the same second are read."""
    _listed(course, {key: rows(key, 1) for key in ("in/x/left-out-1.jsonl", "in/x/other.csv")}, counts=False)
    _listed(course, {"in/x/taken.jsonl": rows("taken", 3)})
    course.start(**_LISTING, object__include="*.jsonl", object__exclude="*/left-out-*")
    course.settled()
    assert {state: count for state, count in course.snapshot.objects.items() if count} == {"done": 1}
    assert course.ignored("excluded") > 0


def read_when_it_rests(course: Course) -> None:
    """`object.min.age.ms`: contents replaced sooner than that are never read."""
    course.start(**_LISTING, poll__interval__ms="500", object__min__age__ms="2500")
    for count in range(20):
        _listed(course, {"in/busy.jsonl": rows(f"busy-{count}", 2)}, counts=False)
        course.made.kernel.sleep(0.4)
    _listed(course, {"in/busy.jsonl": rows("at-rest", 2)})
    course.settled()
    found = course.outcomes("in/busy.jsonl")
    assert [outcome for outcome, reason in found if reason != "superseded"] == ["done"]


def keys_of_which_none_is_read(course: Course) -> None:
    """A restore until idle is no success, and says by what they are read: by the sink's own delimiter."""
    name = f"topics_{TOPIC}_partition=0_{TOPIC}+0+0000000000.json"
    _listed(course, {name: rows("archived", 3)})
    _listed(course, {"readme.txt": [b"none of it"]}, counts=False)
    restore = {"input__layout": "confluent", "restore__sidecars": "ignore"}
    left_out = dict.fromkeys(("input__format", "file__name__template", "topic", "sqs__queue__url"))
    assert course.run_until_idle(**restore, **left_out) == "exit 5"
    (line,) = course.log("keys_unread")
    assert "input.layout=confluent reads none of 2 keys" in line["error"]
    assert "directory.delim" in line["error"]
    assert not course.values()

    course.start()
    course.wait(lambda: "keys" in course.snapshot.problems, "a problem")
    (trace,) = course.connector.port.condition().problems
    assert "reads none of" in trace, "it is FAILED over REST and for a worker"
    assert not course.snapshot.ready
    course.stop()

    assert course.run_until_idle(directory__delim="_") == "exit 0"


def keys_that_the_template_does_not_take(course: Course) -> None:
    """A source until idle says so and is no failure, as other keys may come; so of globs."""
    _listed(course, {"in/a.txt": [b"none of it"], "in/b.txt": [b"nor this"]}, counts=False)
    listing = {"sqs__queue__url": None, "file__name__template": "never-{{partition}}"}
    assert course.run_until_idle(**listing) == "exit 0"
    (line,) = course.log("keys_not_matched")
    assert "file.name.template takes none of 2 keys below" in line["warning"]

    assert course.run_until_idle(file__name__template=".*", object__include="*.jsonl") == "exit 0"
    (_, line) = course.log("keys_not_matched")
    assert "object.include and object.exclude leave out all of 2 keys below" in line["warning"]

    course.start()
    course.wait(lambda: "keys" in course.snapshot.problems, "a problem")
    assert course.snapshot.ready, "it is ready for keys that may come"
    assert not course.connector.port.condition().problems, "and RUNNING"


def replayed_as_often_as_asked(course: Course) -> None:
    """A command whose commit is not answered, while another one takes its transactional id over."""
    course.start()
    given = {key: course.put(key, rows(key, 3)) for key in ("a", "b")}
    course.settled()
    over: list[str] = []

    def replay(key: str) -> None:
        found = S3Object(id=ObjectId(INCOMING, key, given[key]), size=1, last_modified_ms=1)
        states, at_ms = [State.DONE], course.made.bucket.now_ms()
        messages = new_commands("replay", [found], states=states, from_start=True, at_ms=at_ms)
        settings = course.made.settings(course.options)
        name, topic = settings.name, settings.kafka.ledger_topic
        clients = client_properties(settings)
        with LedgerReader(clients, name=name, topic=topic, timeout=30) as reading:
            write_commands(clients, reading, messages, name=name, topic=topic, timeout=60)
        over.append(key)

    kernel, network = course.made.kernel, course.made.network
    network.lose_answers = 1
    kernel.spawn(kernel.process("command"), lambda: replay("a"), "command")
    course.wait(lambda: network.lose_answers == 0, "a commit without an answer")
    replay("b")
    course.wait(lambda: sorted(over) == ["a", "b"], "both commands")
    for key in given:
        course.uploaded.update(rows(key, 3))
    course.settled()


COURSES: Final[dict[str, Callable[[Course], None]]] = {
    course.__name__: course
    for course in (
        existing_left_alone,
        existing_beneath_a_broken_upload,
        announced_thrice,
        several_in_one_message,
        empty_objects,
        overwritten,
        every_version,
        a_then_b_then_a,
        deleted_and_uploaded_again,
        missing_until_it_is_there,
        headers_left_out,
        messages_of_nothing,
        messages_of_others,
        keys_that_come_while_it_lists,
        globs,
        read_when_it_rests,
        keys_of_which_none_is_read,
        keys_that_the_template_does_not_take,
        replayed_as_often_as_asked,
    )
}


def run(body: Callable[[Course], None]) -> None:
    """Play one course, and raise what goes wrong in it."""
    with environment(7) as made:
        course = Course(made)
        made.operate(lambda: body(course))


def broken(name: str) -> str | None:
    """What broke in a course; None where nothing did. Each row that counts is in Kafka once, and no other."""
    with environment(7) as made:
        course = Course(made)

        def body() -> None:
            COURSES[name](course)
            course.stop()
            assert course.values() == course.uploaded

        try:
            made.operate(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what broke
            return "".join(traceback.format_exception(error))
        return None if course.one.is_over else "it has not come to its end"


if __name__ == "__main__":
    # What ends with garbage would end at a moment of its own.
    gc.disable()
    sys.stdout.write(json.dumps({name: broken(name) for name in sys.argv[1:] or COURSES}))
