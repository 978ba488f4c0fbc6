from pathlib import Path

import pytest

from ingest.source.notification import (
    EventKind,
    Notification,
    ObjectEvent,
    ObjectEvents,
    TestEvent,
    parse_notification,
)

HERE = Path(__file__).parent / "notifications"
BODIES = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.json")}

CREATED, REMOVED, OTHER, RESTORED = (
    EventKind.CREATED,
    EventKind.REMOVED,
    EventKind.OTHER,
    EventKind.RESTORED,
)
ETAG = "4588ff3797b78d819d858fa3bdd82b09"
# document -> kind, event name, key, alternate key, ETag, size
OBJECTS: dict[str, tuple[EventKind, str, str, str | None, str | None, int | None]] = {
    "localstack_sqs_put": (CREATED, "ObjectCreated:Put", "in/plain.jsonl", None, ETAG, 8),
    "localstack_sqs_copy": (CREATED, "ObjectCreated:Copy", "in/copy.jsonl", None, ETAG, 8),
    "localstack_sqs_multipart": (
        CREATED,
        "ObjectCreated:CompleteMultipartUpload",
        "in/parts.jsonl",
        None,
        "9bc3d19625e27f952d4a18df6a9f082c-1",
        8,
    ),
    "localstack_sqs_tagging": (OTHER, "ObjectTagging:Put", "in/plain.jsonl", None, ETAG, None),
    "localstack_sqs_delete": (REMOVED, "ObjectRemoved:Delete", "in/plain.jsonl", None, None, None),
    "localstack_sqs_put_version": (CREATED, "ObjectCreated:Put", "in/version.jsonl", None, ETAG, 8),
    "localstack_sqs_delete_marker": (
        REMOVED,
        "ObjectRemoved:DeleteMarkerCreated",
        "in/version.jsonl",
        None,
        "d41d8cd98f00b204e9800998ecf8427e",
        None,
    ),
    "localstack_sqs_key_blank": (CREATED, "ObjectCreated:Put", "in/a b.jsonl", None, ETAG, 8),
    "localstack_sqs_key_plus": (CREATED, "ObjectCreated:Put", "in/a+b.jsonl", None, ETAG, 8),
    "localstack_sqs_key_percent": (CREATED, "ObjectCreated:Put", "in/100%25.jsonl", None, ETAG, 8),
    "localstack_sqs_key_equals": (CREATED, "ObjectCreated:Put", "in/day=1/a.jsonl", None, ETAG, 8),
    "localstack_sqs_key_accent": (CREATED, "ObjectCreated:Put", "in/café.jsonl", None, ETAG, 8),
    "localstack_sns_put": (CREATED, "ObjectCreated:Put", "in/a b+é=1%.jsonl", None, ETAG, 8),
    "localstack_sns_raw_put": (CREATED, "ObjectCreated:Put", "in/a b+é=1%.jsonl", None, ETAG, 8),
    "localstack_event_bridge_put": (CREATED, "Object Created", "in/plain.jsonl", None, ETAG, 8),
    "localstack_event_bridge_delete": (REMOVED, "Object Deleted", "in/plain.jsonl", None, None, None),
    # LocalStack quotes what AWS sends raw: the key uploaded is the alternate.
    "localstack_event_bridge_key_blank": (
        CREATED,
        "Object Created",
        "in/a%20b.jsonl",
        "in/a b.jsonl",
        ETAG,
        8,
    ),
    "localstack_event_bridge_key_plus": (
        CREATED,
        "Object Created",
        "in/a%2Bb.jsonl",
        "in/a+b.jsonl",
        ETAG,
        8,
    ),
    "localstack_event_bridge_key_percent": (
        CREATED,
        "Object Created",
        "in/100%2525.jsonl",
        "in/100%25.jsonl",
        ETAG,
        8,
    ),
    "localstack_event_bridge_key_equals": (
        CREATED,
        "Object Created",
        "in/day%3D1/a.jsonl",
        "in/day=1/a.jsonl",
        ETAG,
        8,
    ),
    "localstack_event_bridge_key_accent": (
        CREATED,
        "Object Created",
        "in/caf%C3%A9.jsonl",
        "in/café.jsonl",
        ETAG,
        8,
    ),
    "aws_put": (
        CREATED,
        "ObjectCreated:Put",
        "HappyFace.jpg",
        None,
        "d41d8cd98f00b204e9800998ecf8427e",
        1024,
    ),
    "aws_event_bridge_created": (
        CREATED,
        "Object Created",
        "example-key",
        None,
        "b1946ac92492d2347c6235b4d2611184",
        5,
    ),
    "aws_event_bridge_deleted": (
        REMOVED,
        "Object Deleted",
        "example-key",
        None,
        "d41d8cd98f00b204e9800998ecf8427e",
        None,
    ),
    "aws_event_bridge_expired": (
        REMOVED,
        "Object Deleted",
        "example-key",
        None,
        "d41d8cd98f00b204e9800998ecf8427e",
        None,
    ),
    "aws_event_bridge_restored": (
        RESTORED,
        "Object Restore Completed",
        "example-key",
        None,
        "b1946ac92492d2347c6235b4d2611184",
        5,
    ),
}
TEST_EVENTS = {
    "localstack_sqs_test_event",
    "localstack_sns_test_event",
    "localstack_sns_raw_test_event",
    "aws_test_event",
}


def the_event(notification: Notification) -> ObjectEvent:
    """The one event of a message that has one."""
    assert isinstance(notification, ObjectEvents)
    (event,) = notification.events
    return event


def test_every_document_is_expected() -> None:
    """No document lies in the folder without an expectation, and none is expected that is missing."""
    assert set(BODIES) == OBJECTS.keys() | TEST_EVENTS


@pytest.mark.parametrize("name", OBJECTS)
def test_object(name: str) -> None:
    """A document gives its object: the real key, the ETag without quotes, the size."""
    event = the_event(parse_notification(BODIES[name]))
    found = (event.kind, event.name, event.key, event.alternate_key, event.etag, event.size)
    assert found == OBJECTS[name]


@pytest.mark.parametrize("name", [name for name in OBJECTS if name.startswith("localstack")])
def test_captured_object(name: str) -> None:
    """What every captured document has besides: its bucket, a sequencer, a time of our century."""
    event = the_event(parse_notification(BODIES[name]))
    assert event.bucket.startswith("capture-")
    assert event.sequencer or event.kind is OTHER
    assert event.event_time_ms is not None
    assert event.event_time_ms > 1_700_000_000_000
    assert (event.version_id is None) == (name not in VERSIONED)


VERSIONED = {"localstack_sqs_put_version", "localstack_sqs_delete_marker"}


@pytest.mark.parametrize("name", sorted(TEST_EVENTS))
def test_test_event(name: str) -> None:
    """What S3 sends when it is configured is known, through SNS too, and names the bucket."""
    notification = parse_notification(BODIES[name].encode())
    assert isinstance(notification, TestEvent)
    assert notification.bucket is not None
    assert notification.bucket == "bucketname" or notification.bucket.startswith("capture-")


def test_the_whole_of_a_published_document() -> None:
    """The example of the S3 User Guide, field by field."""
    assert the_event(parse_notification(BODIES["aws_put"])) == ObjectEvent(
        kind=EventKind.CREATED,
        name="ObjectCreated:Put",
        bucket="mybucket",
        key="HappyFace.jpg",
        etag="d41d8cd98f00b204e9800998ecf8427e",
        version_id="096fKKXTRTtl3on89fVO.nfljtsv6qko",
        size=1024,
        sequencer="0055AED6DCD90281E5",
        event_time_ms=0,
    )


def test_the_whole_of_a_published_event_bridge_document() -> None:
    """The example of the S3 User Guide for EventBridge, field by field."""
    assert the_event(parse_notification(BODIES["aws_event_bridge_created"])) == ObjectEvent(
        kind=EventKind.CREATED,
        name="Object Created",
        bucket="DOC-EXAMPLE-BUCKET1",
        key="example-key",
        etag="b1946ac92492d2347c6235b4d2611184",
        version_id="IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
        size=5,
        sequencer="617f08299329d189",
        event_time_ms=1_636_675_200_000,
    )
