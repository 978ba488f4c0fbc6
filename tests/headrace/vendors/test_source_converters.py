"""What a restore by another vendor's class makes of dates and decimals: the JSON of its converter."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.source_records import SourceRecords
from headrace.formats import DecodeOptions
from headrace.model.columns import RecordTarget, RowBatch, column_of
from headrace.model.positions import BytePosition
from headrace.options import SettingsError
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import own_options
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import sink_settings, written

_CONFLUENT: Final = "io.confluent.connect.s3."
_CONNECT: Final = "org.apache.kafka.connect."
_JSON: Final = f"{_CONNECT}json.JsonConverter"
_DATA: Final = f"{_CONNECT}data."
_SINK: Final[Mapping[str, str]] = {
    "connector.class": f"{_CONFLUENT}S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "flush.size": "1",
    "storage.class": f"{_CONFLUENT}storage.S3Storage",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "true",
    "key.converter": f"{_CONNECT}storage.StringConverter",
}
_SCHEMALESS: Final = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
_SOURCE: Final[Mapping[str, str]] = {
    "name": "reader",
    "connector.class": f"{_CONFLUENT}source.S3SourceConnector",
    "s3.bucket.name": "bucket",
    **_SCHEMALESS,
}
_FIELDS: Final[list[tuple[dict[str, Any], Any]]] = [
    (
        {
            "field": "amount",
            "type": "bytes",
            "name": f"{_DATA}Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
        },
        "BNI=",
    ),
    ({"field": "day", "type": "int32", "name": f"{_DATA}Date", "version": 1}, 19844),
    ({"field": "at", "type": "int64", "name": f"{_DATA}Timestamp", "version": 1}, 1714521600000),
    ({"field": "clock", "type": "int32", "name": f"{_DATA}Time", "version": 1}, 36000000),
]
_PAYLOAD: Final = {field["field"]: payload for field, payload in _FIELDS}
_VALUE: Final = {
    "schema": {"type": "struct", "name": "Order", "fields": [field for field, _ in _FIELDS]},
    "payload": _PAYLOAD,
}
_LENSES: Final[Mapping[str, str]] = {
    "name": "reader",
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
}


def _format_class(name: str) -> dict[str, str]:
    return {"format.class": f"{_CONFLUENT}format.{name}.{name.title()}Format"}


_KCQL: Final = "insert into t select * from bkt:p STOREAS `FORM` PROPERTIES('store.envelope'=true)"


def _lenses(store_as: str, **more: str) -> dict[str, str]:
    return {**_LENSES, "connect.s3.kcql": _KCQL.replace("FORM", store_as), **_SCHEMALESS, **more}


def _own(given: Mapping[str, str]) -> Mapping[str, str]:
    return own_options(sink_settings(given))


@pytest.mark.parametrize("name", ["avro", "parquet"])
def test_what_was_archived_comes_back_as_it_was(name: str) -> None:
    """Numbers of days, times and base64 of decimals, as JsonConverter writes them again."""
    value = json.dumps(_VALUE).encode()
    found = written({**_SINK, **_format_class(name)}, [Record("orders", 0, 0, 1000, b"k", value, ())])
    ((key, each),) = found.objects.items()
    settings = sink_settings({**_SOURCE, **_format_class(name)}).format
    assert settings.restore is not None

    batches = ArchiveDecoder(settings.restore).decode(
        MemorySource(each.body, name=key),
        None,
        key=key,
        options=DecodeOptions(format=settings, topic="orders"),
        begin=None,
        end=None,
    )

    texts = [batch.values.get(0) for batch in batches]
    assert [json.loads(text or b"null") for text in texts] == [_PAYLOAD]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({**_SOURCE, **_format_class("avro")}, "connect"),
        ({**_SOURCE, **_format_class("avro"), "json.format": "iso"}, "iso"),
        ({**_SOURCE, **_format_class("avro"), "value.converter.decimal.format": "base64"}, "connect"),
        ({**_SOURCE, **_format_class("avro"), "value.converter": "", "key.converter": _JSON}, "connect"),
        ({**_SOURCE, **_format_class("avro"), "value.converter": ""}, None),
        ({**_SOURCE, **_format_class("json"), "value.converter.decimal.format": "NUMERIC"}, "connect"),
        (_lenses("AVRO"), "connect"),
        (_lenses("JSON", **{"value.converter.decimal.format": "NUMERIC"}), "connect"),
    ],
)
def test_json_converter_has_the_json_of_connect(given: Mapping[str, str], expected: str | None) -> None:
    """Unless an option of ours says otherwise."""
    assert _own(given).get("json.format") == expected


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({**_SOURCE, **_format_class("parquet"), "value.converter.decimal.format": "numeric"}, "value"),
        (
            {
                **_SOURCE,
                **_format_class("json"),
                "key.converter": _JSON,
                "key.converter.decimal.format": "NUMERIC",
            },
            "key",
        ),
        (_lenses("PARQUET", **{"value.converter.decimal.format": "NUMERIC"}), "value"),
    ],
)
def test_decimals_as_numbers_are_refused(given: Mapping[str, str], option: str) -> None:
    """Where what is stored has decimals, and not only their JSON; with what to write instead."""
    with pytest.raises(SettingsError) as caught:
        sink_settings(given)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{option}.converter.decimal.format")
    assert "json.format=iso" in str(problem)


_GENERIC: Final = {
    **_SOURCE,
    **_format_class("json"),
    "mode": "GENERIC",
    "topic.regex.list": "orders:.*",
    "transforms": "key, id",
    "transforms.key.type": f"{_CONNECT}transforms.ValueToKey",
    "transforms.key.fields": "id",
    "transforms.id.type": f"{_CONNECT}transforms.ExtractField$Key",
    "transforms.id.field": "id",
}
_WORKER: Final = f"key.converter={_JSON}\nkey.converter.schemas.enable=false\n"


@pytest.mark.parametrize(
    ("given", "worker", "key"),
    [
        ({"key.converter": _JSON, "key.converter.schemas.enable": "false"}, None, b'"x"'),
        ({}, _WORKER, b'"x"'),
        ({"key.converter.schemas.enable": "false"}, f"key.converter={_JSON}\n", b'"x"'),
        ({"key.converter": f"{_CONNECT}storage.StringConverter"}, _WORKER, b"x"),
        ({"key.converter": f"{_CONNECT}converters.ByteArrayConverter"}, None, b"x"),
        ({}, None, b"x"),
    ],
)
def test_the_converter_of_a_key_that_a_transform_makes(
    given: Mapping[str, str], worker: str | None, key: bytes
) -> None:
    """Of files without keys too."""
    settings = sink_settings({**_GENERIC, **given}, worker=worker)
    rows = RowBatch(values=column_of([b'{"id":"x"}']), after=BytePosition(1), positions=BytePosition)
    (found,) = SourceRecords(settings.transforms, settings.format).apply(rows, RecordTarget(topic="orders"))
    assert found.keys is not None
    assert found.keys.get(0) == key


@pytest.mark.parametrize(
    ("given", "worker", "option"),
    [
        ({"key.converter": f"{_CONNECT}converters.LongConverter"}, None, "key.converter"),
        ({}, "key.converter=io.confluent.connect.avro.AvroConverter\n", "key.converter"),
        ({"key.converter": _JSON}, None, "key.converter.schemas.enable"),
    ],
)
def test_other_forms_of_such_a_key_are_refused(
    given: Mapping[str, str], worker: str | None, option: str
) -> None:
    """They would be text in silence; without such a transform they decide nothing."""
    with pytest.raises(SettingsError) as caught:
        sink_settings({**_GENERIC, **given}, worker=worker)
    assert [problem.option for problem in caught.value.problems] == [option]
    plain = {name: text for name, text in _GENERIC.items() if not name.startswith("transforms")}
    sink_settings({**plain, **given}, worker=worker)


@pytest.mark.parametrize(
    ("step", "stored", "produced"),
    [
        ({"type": "HoistField$Key", "field": "k"}, ('"a"', "{}"), (b'{"k":"a"}', b"{}")),
        ({"type": "ExtractField$Value", "field": "id"}, ('"a"', '{"id":"x"}'), (b'"a"', b'"x"')),
        ({"type": "ExtractField$Key", "field": "id"}, ('{"id":"x"}', "7"), (b'"x"', b"7")),
        ({"type": "Cast$Key", "spec": "string"}, ("7", "7"), (b'"7"', b"7")),
        # What is stored as another thing than JSON comes back as it is.
        ({"type": "HoistField$Value", "field": "v", "predicate": "no"}, ("a", "b"), (b"a", b"b")),
    ],
)
def test_a_restore_with_json_converters_has_json_after_transforms(
    step: Mapping[str, str], stored: tuple[str, str], produced: tuple[bytes, bytes]
) -> None:
    """`restore.key=json` and `restore.value=json`, which they are."""
    settings = sink_settings(
        {
            **_SOURCE,
            **_format_class("json"),
            "key.converter": _JSON,
            "transforms": "t",
            **{f"transforms.t.{name}": text for name, text in step.items()},
            "transforms.t.type": f"{_CONNECT}transforms.{step['type']}",
            "predicates": "no",
            "predicates.no.type": f"{_CONNECT}transforms.predicates.HasHeaderKey",
            "predicates.no.name": "never",
        }
    )
    key, value = (text.encode() for text in stored)
    rows = RowBatch(
        values=column_of([value]),
        keys=column_of([key]),
        after=BytePosition(1),
        positions=BytePosition,
    )
    (found,) = SourceRecords(settings.transforms, settings.format).apply(rows, RecordTarget(topic="orders"))
    assert found.keys is not None
    assert (found.keys.get(0), found.values.get(0)) == produced
