import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.source.notification import (
    EventKind,
    Ignored,
    ObjectEvent,
    ObjectEvents,
    Unreadable,
    parse_notification,
)


def record(key: str = "a.jsonl", name: str = "ObjectCreated:Put", **fields: Any) -> dict[str, Any]:
    """A record of S3's envelope with only what it must have, and what a test adds to its object."""
    return {"eventName": name, "s3": {"bucket": {"name": "b"}, "object": {"key": key, **fields}}}


def body(*records: dict[str, Any]) -> str:
    """A message of S3's own envelope."""
    return json.dumps({"Records": list(records)})


def bridge(key: str = "a.jsonl", detail_type: str = "Object Created") -> str:
    """A message of EventBridge."""
    detail = {"bucket": {"name": "b"}, "object": {"key": key}}
    return json.dumps({"detail-type": detail_type, "source": "aws.s3", "detail": detail})


def sns(message: str, kind: str = "Notification") -> str:
    """A message that SNS wraps."""
    return json.dumps({"Type": kind, "MessageId": "1", "TopicArn": "arn:aws:sns:x", "Message": message})


def events_of(text: str) -> tuple[ObjectEvent, ...]:
    """The events of a message that has some."""
    notification = parse_notification(text)
    assert isinstance(notification, ObjectEvents)
    return notification.events


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("noog+nork", "noog nork"),
        ("noog%2bnork", "noog+nork"),
        ("noog%2Bnork", "noog+nork"),
        ("noog%20nork", "noog nork"),
        ("100%25", "100%"),
        ("100%2525", "100%25"),
        ("day%3D1/a=b", "day=1/a=b"),
        ("caf%C3%A9", "café"),
        ("café", "café"),
        ("%F0%9F%9A%80/%00", "\N{ROCKET}/\0"),
        ("100%", "100%"),
        ("%zz", "%zz"),
    ],
)
def test_form_encoded_keys(sent: str, key: str) -> None:
    """In S3's own envelope, in SNS and raw from SNS, keys are form-encoded; they are decoded once."""
    for text in (body(record(sent)), sns(body(record(sent)))):
        (event,) = events_of(text)
        assert (event.key, event.alternate_key) == (key, None)


@pytest.mark.parametrize(
    ("sent", "alternate"),
    [
        ("plain", None),
        ("a+b", "a b"),
        ("100%25", "100%"),
        ("caf%C3%A9", "café"),
        ("café", None),
        ("100%", None),
        ("%ff", None),
    ],
)
def test_event_bridge_keys(sent: str, alternate: str | None) -> None:
    """EventBridge's keys are raw and stay as they are; one that decoding would change has an alternate."""
    for text in (bridge(sent), sns(bridge(sent))):
        (event,) = events_of(text)
        assert (event.key, event.alternate_key) == (sent, alternate)


@given(key=st.text(min_size=1))
def test_any_key_comes_back(key: str) -> None:
    """Whatever the characters of a key, encoded as S3 encodes them they come back."""
    encoded = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else "+" if byte == 32 else f"%{byte:02X}"
        for byte in key.encode()
    )
    (event,) = events_of(body(record(encoded)))
    assert event.key == key
    (raw,) = events_of(bridge(key))
    assert raw.key == key


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ObjectCreated:Put", EventKind.CREATED),
        ("ObjectCreated:Post", EventKind.CREATED),
        ("ObjectCreated:Copy", EventKind.CREATED),
        ("ObjectCreated:CompleteMultipartUpload", EventKind.CREATED),
        ("ObjectCreated:SomethingNew", EventKind.CREATED),
        ("s3:ObjectCreated:Put", EventKind.CREATED),  # S3-compatible stores keep the prefix
        ("ObjectRemoved:Delete", EventKind.REMOVED),
        ("ObjectRemoved:DeleteMarkerCreated", EventKind.REMOVED),
        ("LifecycleExpiration:Delete", EventKind.REMOVED),
        ("LifecycleExpiration:DeleteMarkerCreated", EventKind.REMOVED),
        ("ObjectRestore:Post", EventKind.OTHER),  # asked for, not yet there
        ("ObjectRestore:Completed", EventKind.RESTORED),
        ("ObjectRestore:Delete", EventKind.OTHER),  # the restored copy has expired
        ("LifecycleTransition", EventKind.OTHER),
        ("IntelligentTiering", EventKind.OTHER),
        ("ObjectTagging:Put", EventKind.OTHER),
        ("ObjectTagging:Delete", EventKind.OTHER),
        ("ObjectAcl:Put", EventKind.OTHER),
        ("Replication:OperationMissedThreshold", EventKind.OTHER),
        ("ReducedRedundancyLostObject", EventKind.OTHER),
        ("SomethingNew", EventKind.OTHER),
    ],
)
def test_kinds(name: str, kind: EventKind) -> None:
    """Every event name of the S3 User Guide has its kind; an unknown one is kept as text."""
    (event,) = events_of(body(record(name=name)))
    assert (event.kind, event.name) == (kind, name.removeprefix("s3:"))


@pytest.mark.parametrize(
    ("detail_type", "kind"),
    [
        ("Object Created", EventKind.CREATED),
        ("Object Deleted", EventKind.REMOVED),
        ("Object Restore Initiated", EventKind.OTHER),
        ("Object Restore Completed", EventKind.RESTORED),
        ("Object Restore Expired", EventKind.OTHER),
        ("Object Storage Class Changed", EventKind.OTHER),
        ("Object Access Tier Changed", EventKind.OTHER),
        ("Object ACL Updated", EventKind.OTHER),
        ("Object Tags Added", EventKind.OTHER),
        ("Object Tags Deleted", EventKind.OTHER),
    ],
)
def test_detail_types(detail_type: str, kind: EventKind) -> None:
    """Every detail type of the S3 User Guide has its kind."""
    (event,) = events_of(bridge(detail_type=detail_type))
    assert (event.kind, event.name) == (kind, detail_type)


def test_several_records_stay_together() -> None:
    """The records of one message come in its order, as one notification."""
    events = events_of(body(record("a"), record("b", "ObjectRemoved:Delete"), record("a")))
    assert [(event.key, event.kind.value) for event in events] == [
        ("a", "created"),
        ("b", "removed"),
        ("a", "created"),
    ]


@pytest.mark.parametrize(
    ("fields", "etag", "version_id", "size", "sequencer"),
    [
        ({}, None, None, None, None),
        ({"eTag": '"abc-2"', "versionId": "v", "size": 0, "sequencer": "0055"}, "abc-2", "v", 0, "0055"),
        ({"eTag": "", "versionId": "", "size": None, "sequencer": ""}, None, None, None, None),
        ({"eTag": None, "versionId": None, "sequencer": None}, None, None, None, None),
        ({"versionId": "null", "size": 2**63 - 1}, None, None, 2**63 - 1, None),
    ],
    ids=["absent", "quoted", "empty", "null", "null as text"],
)
def test_optional_fields(
    fields: dict[str, Any],
    etag: str | None,
    version_id: str | None,
    size: int | None,
    sequencer: str | None,
) -> None:
    """An absent, empty or null field is None; an ETag has no quotes; the version "null" is none."""
    (event,) = events_of(body(record("a", **fields)))
    assert (event.etag, event.version_id, event.size, event.sequencer) == (etag, version_id, size, sequencer)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2024-05-01T00:00:00.123Z", 1_714_521_600_123),
        ("2024-05-01T00:00:00Z", 1_714_521_600_000),
        ("2024-05-01T02:00:00+02:00", 1_714_521_600_000),
        ("2024-05-01T00:00:00", 1_714_521_600_000),
        ("yesterday", None),
        ("", None),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_event_time(text: str, milliseconds: int | None) -> None:
    """Event times are milliseconds since 1970; one that cannot be read is absent, the object is not."""
    (event,) = events_of(body({**record(), "eventTime": text}))
    assert event.event_time_ms == milliseconds


RECORDS = "the Records envelope is not understood: "
WAITING = "an SNS subscription may be waiting for confirmation"
BROKEN: list[tuple[str, str | bytes, str, str]] = [
    ("no JSON", "hello", "not JSON", "the body is not JSON"),
    ("empty", "", "not JSON", "the body is not JSON"),
    ("two values", "{}{}", "not JSON", "the body is not JSON"),
    ("not UTF-8", b'{"Records":"\xff"}', "not UTF-8", "the body is not UTF-8 text"),
    ("a lone surrogate", '{"Records":"\ud800"}', "not UTF-8", "the body is not UTF-8 text"),
    ("an escaped lone surrogate", r'{"Records":"\ud800x"}', "not JSON", "the body is not JSON"),
    ("an array", "[]", "not an object", "the body is JSON, but not an object"),
    ("null", "null", "not an object", "the body is JSON, but not an object"),
    ("nested too deep", '{"Records":' + "[" * 100_000, "not JSON", "the body is not JSON"),
    ("nothing in it", "{}", "{}", "the body has no envelope that is known"),
    (
        "another envelope",
        '{"b": 1, "a": null, "c": {}, "d": ""}',
        "{a:null, b:value, c:object, d:text}",
        "the body has no envelope that is known",
    ),
    (
        "records of no list",
        '{"Records": 1}',
        "{Records:value}",
        f"{RECORDS}Expected `array`, got `int` - at `$.Records`",
    ),
    (
        "one bad record of two",
        body(record(), {"eventName": "ObjectCreated:Put"}),
        "{Records:array}",
        f"{RECORDS}Object missing required field `s3` - at `$.Records[1]`",
    ),
    (
        "a size of the wrong type",
        body(record(size="8")),
        "{Records:array}",
        f"{RECORDS}Expected `int | null`, got `str` - at `$.Records[0].s3.object.size`",
    ),
    (
        "a negative size",
        body(record(size=-1)),
        "{Records:array}",
        f"{RECORDS}Expected `int` >= 0 - at `$.Records[0].s3.object.size`",
    ),
    (
        "a size of thousands of digits",
        body(record(size=1)).replace('"size": 1', '"size": 1' + "0" * 5000),
        "{Records:array}",
        f"{RECORDS}Integer value out of range - at `$.Records[0].s3.object.size`",
    ),
    (
        "an empty key",
        body(record("")),
        "{Records:array}",
        f"{RECORDS}Expected `str` of length >= 1 - at `$.Records[0].s3.object.key`",
    ),
    (
        "a key that is not UTF-8",
        body(record("a"), record("%ff")),
        "{Records:array}",
        f"{RECORDS}a key is not UTF-8 once decoded",
    ),
    (
        "another service",
        body({**record(), "eventSource": "aws:ses"}),
        "{Records:array}",
        f"{RECORDS}a record comes from another service than S3",
    ),
    (
        "a new major version",
        body({**record(), "eventVersion": "3.0"}),
        "{Records:array}",
        f"{RECORDS}a record has a major version other than 2",
    ),
    (
        "another event without record",
        '{"Service": "Amazon S3", "Event": "s3:Other"}',
        "{Event:text, Service:text}",
        "the Event envelope is not understood: it is an event without a record, but not s3:TestEvent",
    ),
    (
        "EventBridge of another service",
        bridge().replace("aws.s3", "aws.ec2"),
        "{detail:object, detail-type:text, source:text}",
        "the detail-type envelope is not understood: its source is not aws.s3",
    ),
    (
        "EventBridge of CloudTrail",
        '{"detail-type": "AWS API Call via CloudTrail", "source": "aws.s3", "detail": {"eventName": "X"}}',
        "{detail:object, detail-type:text, source:text}",
        "the detail-type envelope is not understood: Object missing required field `bucket` - at `$.detail`",
    ),
    (
        "SNS of anything",
        sns("hello"),
        "SNS of not JSON",
        "inside SNS, the body is not JSON",
    ),
    (
        "SNS of SNS",
        sns(sns(body(record()))),
        "SNS of {Message:text, MessageId:text, TopicArn:text, Type:text}",
        "inside SNS, the body has no envelope that is known",
    ),
    (
        "a subscription to confirm",
        sns("You have chosen to subscribe to the topic ..", "SubscriptionConfirmation"),
        "{Message:text, MessageId:text, TopicArn:text, Type:text}",
        f"the Message envelope is not understood: it is no notification; {WAITING}",
    ),
]


@pytest.mark.parametrize(
    ("text", "shape", "reason"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_unreadable(text: str | bytes, shape: str, reason: str) -> None:
    """What is not understood is unreadable as a whole, with its shape and a reason."""
    assert parse_notification(text) == Unreadable(shape=shape, reason=reason)


def test_malformed_inside() -> None:
    """A text that is wrong only where a first look skips it is unreadable too."""
    notification = parse_notification(body(record()).replace('"a.jsonl"', r'"\ud800"'))
    assert isinstance(notification, Unreadable)


def test_any_depth() -> None:
    """Nesting at and around the decoder's limit is refused as well, at whichever look it is met."""
    found = set()
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() + 10):
        notification = parse_notification(f'{{"Records": [], "deep": {"[" * depth}{"]" * depth}}}')
        found.add(notification.reason if isinstance(notification, Unreadable | Ignored) else "")
    assert found == {
        "the message has no records",
        f"{RECORDS}it is nested too deep",
        "the body is not JSON",
    }


def test_no_records() -> None:
    """A message of S3 without records names no object, and there is nothing to wait for."""
    assert parse_notification('{"Records": []}') == Ignored(reason="the message has no records")


def test_shapes() -> None:
    """Shapes are the same for the same fields in any order, short whatever the fields, and printable."""

    def shape(fields: dict[str, Any]) -> str:
        notification = parse_notification(json.dumps(fields))
        assert isinstance(notification, Unreadable)
        return notification.shape

    assert shape({"a": 1, "b": "x"}) == shape({"b": "y", "a": 2}) != shape({"a": 1, "b": 2})
    many = {f"{'name' * 50}{index}\n\N{ROCKET}": 1 for index in range(1000)}
    assert len(shape(many)) < 200
    assert shape(many).isprintable()
    assert shape(many) != shape({**many, "one more": 1})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(raw=st.binary() | st.text(st.characters(codec=None)))
def test_any_bytes_or_text_give_a_notification(raw: bytes | str) -> None:
    """Nothing that a queue can hold raises."""
    assert isinstance(parse_notification(raw), Unreadable | Ignored)


WHOLE: list[dict[str, Any]] = [
    {
        "Records": [
            {**record("k", size=1, eTag="e"), "eventVersion": "2.1", "eventTime": "2024-05-01T00:00:00Z"}
        ]
    },
    json.loads(bridge()),
    json.loads(sns(body(record()))),
    {"Event": "s3:TestEvent", "Bucket": "b"},
]


def replace_somewhere(value: Any, path: list[int], new: Any) -> Any:
    """A copy of a JSON value with the part that a path of positions leads to replaced."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    if isinstance(value, list):
        index = path[0] % len(value)
        return [replace_somewhere(v, path[1:], new) if i == index else v for i, v in enumerate(value)]
    chosen = sorted(value)[path[0] % len(value)]
    return {k: replace_somewhere(v, path[1:], new) if k == chosen else v for k, v in value.items()}


@given(whole=st.sampled_from(WHOLE), path=st.lists(st.integers(0, 5), max_size=6), new=json_values)
def test_any_change_of_a_message_gives_a_notification(whole: Any, path: list[int], new: Any) -> None:
    """With any part of a good message replaced, an object is named in full or the message is refused."""
    notification = parse_notification(json.dumps(replace_somewhere(whole, path, new)))
    if isinstance(notification, ObjectEvents):
        assert all(event.bucket and event.key and event.name for event in notification.events)
        assert notification.events
