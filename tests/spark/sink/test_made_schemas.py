"""Schemas that transforms make of registered ones: which of them begin a new object."""

import io
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from headrace.model.columns import Headers
from tests.headrace.formats.encoding.registry import framed, registry
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import written

_KAFKA: Final = "org.apache.kafka.connect.transforms."
_A: Final = {"name": "a", "type": "int"}
_MARKED: Final[Headers] = (("h", b"1"),)


def _record(*fields: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _layout(name: str, form: str = "avro") -> dict[str, str]:
    return {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "file.compression.type": "none",
        "output.layout": name,
        "output.format": form,
        **({} if name == "confluent" else {"output.fields": "value", "output.envelope": "false"}),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


def _step(step: str, *, predicate: bool = False, **options: str) -> dict[str, str]:
    found = {"transforms": "t", "transforms.t.type": f"{_KAFKA}{step}$Value"}
    found |= {f"transforms.t.{name.replace('_', '.')}": text for name, text in options.items()}
    if predicate:
        kind = f"{_KAFKA}predicates.HasHeaderKey"
        found |= {"predicates": "p", "predicates.p.type": kind, "predicates.p.name": "h"}
        found["transforms.t.predicate"] = "p"
    return found


def _rows(body: bytes) -> list[Any]:
    if body.startswith(b"PAR1"):
        found: list[Any] = pq.read_table(io.BytesIO(body)).to_pylist()
        return found
    return list(fastavro.reader(io.BytesIO(body)))


def _objects(
    config: dict[str, str], *values: tuple[Any, Any], marked: tuple[int, ...] = (), batch: int = 1000
) -> list[list[Any]]:
    """The rows of each object, of values with their schemas; those marked have a header. None is refused."""
    one = registry()
    records = [
        Record("t", 0, number, 1000, b"k", framed(one, *value), _MARKED if number in marked else ())
        for number, value in enumerate(values)
    ]
    avro = "io.confluent.connect.avro.AvroConverter"
    more = {"value.converter": avro, "value.converter.schema.registry.url": one.urls[0]}
    found = written({"topics": "t", **config, **more}, records, stops=True, batch=batch)
    assert (found.stops, found.dead_letters) == ({}, ())
    return [_rows(each.body) for _, each in sorted(found.objects.items())]


def _versions(count: int) -> list[tuple[Any, Any]]:
    """Records of two versions in turn, which have `a` alone in common."""
    kinds = [_record(_A, {"name": name, "type": "int", "default": 5}) for name in ("n", "s")]
    return [(kinds[number % 2], {"a": number, "ns"[number % 2]: 0}) for number in range(count)]


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("compatibility", ["none", "backward", "forward"])
@pytest.mark.parametrize("layout", ["headrace", "aiven", "lenses"])
@pytest.mark.parametrize("batch", [1, 4])
def test_versions_that_a_transform_makes_equal_close_no_object(
    batch: int, layout: str, compatibility: str, form: str
) -> None:
    """Each alternation of them did."""
    config = {**_layout(layout, form), "schema.compatibility": compatibility}

    (rows,) = _objects({**config, **_step("ReplaceField", include="a")}, *_versions(6), batch=batch)

    assert rows == [{"a": number} for number in range(6)]


def test_they_do_in_the_layout_of_confluent() -> None:
    """Its sink compares the schemas of Connect, versions included."""
    found = _objects({**_layout("confluent"), **_step("ReplaceField", include="a")}, *_versions(3))

    assert found == [[{"a": 0}], [{"a": 1}], [{"a": 2}]]


@pytest.mark.parametrize("layout", ["headrace", "confluent"])
@pytest.mark.parametrize("compatibility", ["none", "backward", "forward", "full"])
@pytest.mark.parametrize("two", [False, True], ids=["of one version", "of two versions"])
def test_what_a_predicate_makes_unfit_begins_an_object(layout: str, compatibility: str, *, two: bool) -> None:
    """No registry has judged it: the partition stopped."""
    config = {**_layout(layout), "schema.compatibility": compatibility}
    old, new = _record(_A), _record(_A, {"name": "n", "type": "int", "default": 5})
    later = (new, {"a": 2, "n": 7}) if two else (old, {"a": 2})
    step = _step("Cast", predicate=True, spec="a:string")

    values = (old, {"a": 0}), (old, {"a": 1}), later, (old, {"a": 3})

    found = _objects({**config, **step}, *values, marked=(1, 3))

    assert [[row["a"] for row in rows] for rows in found] == [[0], ["1"], [2], ["3"]]


@pytest.mark.parametrize("compatibility", ["none", "backward", "forward", "full"])
def test_another_name_under_a_predicate_begins_an_object(compatibility: str) -> None:
    """The name was lost."""
    config = {**_layout("headrace"), "schema.compatibility": compatibility}
    step = _step("SetSchemaMetadata", predicate=True, schema_name="o")
    records = [(_record(_A), {"a": number}) for number in range(4)]

    found = _objects({**config, **step}, *records, marked=(1, 2))

    assert [[row["a"] for row in rows] for rows in found] == [[0], [1, 2], [3]]


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_a_cast_value_that_may_be_null_has_one_that_may_not_next_to_it(form: str) -> None:
    """Versions that differ in it alone closed an object in turn."""
    older, newer = _record(_A), _record({**_A, "type": ["null", "int"], "default": None})
    steps = _step("ExtractField", field="a")
    steps |= {"transforms": "t,c", "transforms.c.type": f"{_KAFKA}Cast$Value", "transforms.c.spec": "string"}
    more = {"output.fields": "key,value", "output.envelope": "true", "behavior.on.null.values": "write"}
    values = [(newer, {"a": 0}), (older, {"a": 1}), (newer, {"a": None}), (older, {"a": 3})]

    (rows,) = _objects({**_layout("headrace", form), **more, **steps}, *values)

    assert [row["value"] for row in rows] == ["0", "1", None, "3"]


def test_a_cast_value_that_may_not_be_null_has_no_place_for_one_that_may() -> None:
    """Its object closes, once."""
    older, newer = _record(_A), _record({**_A, "type": ["null", "int"], "default": None})
    steps = _step("ExtractField", field="a")
    steps |= {"transforms": "t,c", "transforms.c.type": f"{_KAFKA}Cast$Value", "transforms.c.spec": "string"}
    values = [(older, {"a": 0}), (newer, {"a": 1}), (older, {"a": 2}), (newer, {"a": 3})]

    found = _objects({**_layout("headrace"), **steps}, *values)

    assert found == [["0"], ["1", "2", "3"]]
