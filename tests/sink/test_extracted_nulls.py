"""Nulls that `ExtractField` takes out of JSON: their verdict and their object depend on no neighbour.

A record is fetched alone or with a thousand others, as it happens; that must not be told from the archive.
"""

from typing import Final

import hypothesis
import pytest
from hypothesis import strategies

from tests.headrace.vendors.archive import Record
from tests.support.examples import fewer_examples
from tests.support.sink_archives import Written, written

_KAFKA: Final = "org.apache.kafka.connect.transforms."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TEXT, _NUMBER, _MISSING, _NULL = b'{"id":"x"}', b'{"id":5}', b'{"v":1}', b'{"id":null}'
_KEY: Final = {
    "transforms": "a,b",
    "transforms.a.type": f"{_KAFKA}ValueToKey",
    "transforms.a.fields": "id",
    "transforms.b.type": f"{_KAFKA}ExtractField$Key",
    "transforms.b.field": "id",
}
_CHAINS: Final = {
    "key": _KEY,
    "value": {
        "transforms": "b",
        "transforms.b.type": f"{_KAFKA}ExtractField$Value",
        "transforms.b.field": "id",
    },
    "cast": {
        **_KEY,
        "transforms": "a,b,c",
        "transforms.c.type": f"{_KAFKA}Cast$Key",
        "transforms.c.spec": "string",
    },
    "hoisted": {
        **_KEY,
        "transforms": "a,b,c",
        "transforms.c.type": f"{_KAFKA}HoistField$Key",
        "transforms.c.field": "all",
    },
}


def _archive(layout: str, form: str, chain: str, values: list[bytes], batch: int) -> Written:
    config = {
        "topics": "t",
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "output.layout": layout,
        "output.format": form,
        "output.fields": "key,value,offset",
        "output.envelope": "true",
        "behavior.on.null.values": "write",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.log.enable": "false",
        **_CHAINS[chain],
    }
    records = [Record("t", 0, number, 1000, b'"k"', value, ()) for number, value in enumerate(values)]
    return written(config, records, batch=batch, stops=True)


def _told(found: Written) -> tuple[list[tuple[bytes | None, str]], list[str]]:
    """What is refused, and which objects there are: each name says where its object begins."""
    offset = "__connect.errors.offset"
    refused = [(dict(each.headers)[offset], each.reason) for each in found.dead_letters]
    return refused, sorted(found.objects)


@pytest.mark.parametrize("chain", _CHAINS)
@pytest.mark.parametrize(("layout", "form"), [("aiven", "avro"), ("headrace", "parquet")])
@hypothesis.given(
    values=strategies.lists(strategies.sampled_from([_TEXT, _NUMBER, _MISSING, _NULL]), max_size=9),
    batch=strategies.integers(1, 3),
)
@hypothesis.settings(max_examples=fewer_examples(8), deadline=None)
def test_verdicts_and_objects_are_the_same_however_records_are_fetched(
    layout: str, form: str, chain: str, values: list[bytes], batch: int
) -> None:
    """In few fetches as in many."""
    once = _archive(layout, form, chain, values, 1000)
    assert _told(_archive(layout, form, chain, values, batch)) == _told(once)


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("chain", ["key", "value", "cast"])
def test_nulls_between_texts_close_no_object(chain: str, batch: int) -> None:
    """They have no schema that would."""
    found = _archive("headrace", "parquet", chain, [_TEXT, _MISSING, _TEXT, _NULL, _TEXT], batch)
    assert (len(found.objects), found.dead_letters) == (1, ())


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("neighbour", [_TEXT, _NUMBER])
def test_a_null_without_a_schema_is_refused_next_to_texts_too(neighbour: bytes, batch: int) -> None:
    """Aiven's Avro and Parquet take none, whatever stands around it."""
    refused, _ = _told(_archive("aiven", "avro", "value", [neighbour, _MISSING, neighbour], batch))
    assert refused == [(b"1", "null_value")]
