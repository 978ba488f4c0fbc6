"""Keys and headers that our own sink puts next to its values, under its own names, there and back."""

from typing import Final

import pytest

from headrace.formats.records.restored import SOURCE_OFFSET
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.names.archive_names import LayoutName
from headrace.options.choices import NameOptions
from headrace.vendors.key_names import ArchiveNames
from tests.headrace.options.loading import load_with, problems_with
from tests.headrace.vendors.archive import Archive, Record
from tests.restore.driven import PRODUCED_MS, DrivenRestore
from tests.support.sink_archives import written

_BARE: Final = {"topic": None, "file.name.template": None}
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_HEADERS: Final = ((("h", b"v"), ("h", b"w")), (("h", b""),), (("i", b"x"),))
_VALUES: Final = (b'{"id":1}', b'{"id":2}', b'{"id":3}')
# Keys that a line of JSON would alter, or skip.
_KEYS: Final = (b'"a"', b"", b"null")


def _records(keys: tuple[bytes, ...] = _KEYS) -> list[Record]:
    parts = zip(keys, _VALUES, _HEADERS, strict=True)
    return [
        Record("orders", 3, 42 + at, PRODUCED_MS - 9 + at, key, value, headers)
        for at, (key, value, headers) in enumerate(parts)
    ]


def _archive(records: list[Record], **changes: str) -> Archive:
    options = {name.replace("__", "."): value for name, value in changes.items()}
    config = {"aws.s3.bucket.name": "bucket", "topics": "orders", "aws.s3.prefix": "backup/", **options}
    objects = written(config, records).objects
    return Archive("own", {}, {key: each.body for key, each in objects.items()}, {}, tuple(records))


def _restored(bucket: Archive, **changes: str) -> DrivenRestore:
    options = {name.replace("__", "."): value for name, value in changes.items()}
    restore = DrivenRestore(bucket, load_with({**_BARE, "aws.s3.prefix": "backup/", **options}))
    restore.run()
    return restore


def _ends(restore: DrivenRestore) -> set[tuple[State, str | None]]:
    def end(entry: LedgerEntry) -> tuple[State, str | None]:
        return entry.state, entry.reason

    return {end(entry) for entry in restore.ends.values()}


@pytest.mark.parametrize("layout", ["headrace", "auto"])
@pytest.mark.parametrize("output", ["jsonl", "json", "avro", "parquet"])
@pytest.mark.parametrize("keys", ["avro", "parquet", "jsonl", "bytes"])
@pytest.mark.parametrize("headers", ["avro", "parquet", "jsonl"])
def test_our_own_side_objects_are_joined(layout: str, output: str, keys: str, headers: str) -> None:
    """In the layout that the sink has by default: no record is made of a key, and none lacks its own."""
    bucket = _archive(
        _records(),
        output__format=output,
        sidecars="keys,headers",
        sidecars__keys__format=keys,
        sidecars__headers__format=headers,
        header__converter=_STRING,
    )
    key = {"restore__key": "base64"} if keys == "jsonl" else {}
    restore = _restored(bucket, input__layout=layout, **key)

    assert len(bucket.objects) == 3
    assert _ends(restore) == {(State.DONE, None), (State.SKIPPED, "joined")}
    (found,) = restore.rows.values()
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.headers, each.timestamp) for each in _records()
    ]


def test_what_rows_say_themselves_is_kept_next_to_side_objects() -> None:
    """Headers that are members of the rows, and their offsets; values of headers are no base64 there."""
    bucket = _archive(
        _records(), sidecars="keys", output__fields="topic,partition,offset,timestamp,value,headers"
    )
    restore = _restored(bucket, input__layout="headrace", restore__header="base64", record__headers="source")

    (found,) = restore.rows.values()
    assert [(each.key, each.headers[: len(own)]) for each, own in zip(found, _HEADERS, strict=True)] == list(
        zip(_KEYS, _HEADERS, strict=True)
    )
    assert [dict(each.headers)[SOURCE_OFFSET] for each in found] == [b"42", b"43", b"44"]


_CONFLUENTS: Final = "{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+{{start_offset}}{{extension}}"


@pytest.mark.parametrize("output", ["jsonl", "json", "avro", "parquet"])
def test_our_own_rows_under_confluents_names_are_joined(output: str) -> None:
    """As docs/sink.md says: the value is the record's, and not our envelope of it."""
    options = {"output__format": output, "file__name__template": _CONFLUENTS}
    bucket = _archive(_records(), sidecars="keys,headers", header__converter=_STRING, **options)
    restore = _restored(bucket, input__layout="confluent")

    (found,) = restore.rows.values()
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.headers, each.timestamp) for each in _records()
    ]


def test_a_copy_of_another_records_envelope_is_a_value() -> None:
    """Confluent's sink archives whatever is in its topic."""
    row = b'{"topic":"payments","partition":0,"offset":7,"value":1}'
    bucket = Archive("copies", {}, {"backup/orders/partition=3/orders+3+42.json": row + b"\n"}, {}, ())
    (found,) = _restored(bucket, input__layout="confluent", restore__sidecars="ignore").rows.values()

    assert [each.value for each in found] == [row]


def test_headers_of_bytes_are_base64_in_their_objects() -> None:
    """As Confluent's are: the sentence of the docs, and the option that undoes it."""
    bucket = _archive(_records(), sidecars="headers")

    (found,) = _restored(bucket, input__layout="headrace", restore__header="base64").rows.values()
    assert [each.headers for each in found] == list(_HEADERS)


def test_side_objects_that_are_left_out_are_no_records() -> None:
    """`format("headrace")` reads archives so."""
    bucket = _archive(_records(), sidecars="keys,headers")
    restore = _restored(bucket, input__layout="headrace", restore__sidecars="ignore")

    (found,) = restore.rows.values()
    assert [(each.key, each.value) for each in found] == [(None, value) for value in _VALUES]


def test_a_template_that_takes_any_ending_takes_no_keys_for_records() -> None:
    """Under names of a template nothing is joined, and that is said."""
    bucket = _archive(
        _records(),
        sidecars="keys",
        file__name__template="{{topic}}/{{partition}}/{{start_offset}}{{extension}}",
    )
    template = "{{topic}}/{{partition}}/{{start_offset}}.{{any}}"
    restore = _restored(bucket, input__layout="headrace", file__name__template=template)

    (found,) = restore.rows.values()
    assert [each.value for each in found] == list(_VALUES)
    side = "orders/3/42.keys.avro"
    assert (
        "records come without them"
        in ArchiveNames(LayoutName.HEADRACE, NameOptions(), template).read(side).reason
    )
    told = ArchiveNames(LayoutName.HEADRACE, NameOptions(), "{{topic}}/{{partition}}/{{any}}.keys.avro")
    assert told.read(side).name is not None


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"restore.value": "base64", "restore.envelope": "yes"}, "restore.value"),
        ({"restore.value": "json", "restore.envelope": "yes"}, "restore.value"),
        ({"restore.key": "string", "restore.sidecars": "ignore"}, "restore.key"),
        ({"restore.header": "base64", "restore.sidecars": "ignore"}, "restore.header"),
    ],
)
def test_what_our_rows_say_themselves_is_not_told_again(options: dict[str, str], wrong: str) -> None:
    """An option that could do nothing is refused, and with another layout it has its meaning."""
    (problem,) = problems_with({**_BARE, "input.layout": "headrace", **options})

    assert problem.option == wrong
    assert not problems_with({**_BARE, "input.layout": "confluent", **options})


@pytest.mark.parametrize(
    "options",
    [
        {"restore.value": "string", "restore.envelope": "yes"},
        {"restore.value": "base64"},
        {"restore.key": "base64", "restore.header": "base64"},
    ],
)
def test_what_our_rows_may_need_is_taken(options: dict[str, str]) -> None:
    """Texts written as JSON, bare rows, and objects of keys and headers."""
    assert not problems_with({**_BARE, "input.layout": "headrace", **options})
