"""What transforms cost: microseconds of CPU a record, over 100,000 records of a typical size.

    python -m bench.transforms

The records are converted already; what is measured is the chain alone.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.transforms.record_chain import RecordChain
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.options.sink_settings import OutputField, SinkSettings
from headrace.vendors.load import load

_COUNT: Final = 100_000
_BATCH: Final = 10_000
_REPEATS: Final = 3
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_ROW: Final = {"id": 7, "name": "a name", "city": "Ulm", "price": 12.5, "count": 3, "note": None}
_TYPES: Final = {int: "int64", str: "string", float: "double", type(None): "string"}


def _struct(value: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    fields = [
        {**(_struct(each) if isinstance(each, dict) else {"type": _TYPES[type(each)]}), "optional": True}
        | {"field": name}
        for name, each in value.items()
    ]
    return {"type": "struct", "fields": fields, **more}


_NESTED: Final = {"order": {"id": 7, "place": _ROW}, "at": 1_577_836_800_000, "who": {"name": "x", "age": 5}}
_EVENT: Final = {
    "before": _ROW,
    "after": _ROW,
    "source": {"table": "orders", "ts_ms": 5, "lsn": 12},
    "op": "u",
    "ts_ms": 9,
}
_UNWRAP: Final = {"type": "io.debezium.transforms.ExtractNewRecordState", "add.fields": "op,source.ts_ms"}
_FLATTEN: Final = {"type": "org.apache.kafka.connect.transforms.Flatten$Value"}
_CASES: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, Any], str | None]]] = {
    "Flatten, without a schema": (_FLATTEN, _NESTED, None),
    "Flatten, with a schema": (_FLATTEN, _NESTED, "orders.Value"),
    "ExtractNewRecordState": (_UNWRAP, _EVENT, "orders.Envelope"),
}


def _settings(step: Mapping[str, str], *, has_schema: bool) -> SinkSettings:
    options = {
        "name": "bench",
        "bootstrap.servers": "127.0.0.1:9092",
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        "value.converter": _JSON,
        "value.converter.schemas.enable": str(has_schema).lower(),
        "transforms": "t",
        **{f"transforms.t.{name}": text for name, text in step.items()},
    }
    settings = load(json.dumps(options), kind="json", environment={"HOME": "/"}, read_file=lambda path: path)
    assert settings.sink is not None
    return settings.sink


def _records(text: bytes, first: int) -> KafkaRecords:
    return KafkaRecords(
        topic="orders",
        partition=0,
        offsets=np.arange(first, first + _BATCH, dtype=np.int64),
        timestamps_ms=np.zeros(_BATCH, np.int64),
        timestamp_types=np.full(_BATCH, TIMESTAMP_CREATED, np.int64),
        keys=column_of([b"key"] * _BATCH),
        values=column_of([text] * _BATCH),
        headers=None,
    )


def microseconds(step: Mapping[str, str], value: Mapping[str, Any], schema: str | None) -> float:
    """The CPU time of the chain for each record, the least of some runs."""
    sink = _settings(step, has_schema=schema is not None)
    body = value if schema is None else {"schema": _struct(value, name=schema), "payload": value}
    text = json.dumps(body, separators=(",", ":")).encode()
    opened = frozenset(OutputField(which) for which in sink.transforms.looks_into)
    converter = RecordConverter(sink.converters, sink.output, transformed=opened)
    chain = RecordChain(sink.transforms)
    found = []
    for _ in range(_REPEATS):
        spent = 0.0
        for first in range(0, _COUNT, _BATCH):
            (run,) = converter.convert(_records(text, first)).runs
            begun = time.process_time()
            (made,) = chain.apply(run).runs
            spent += time.process_time() - begun
            assert len(made) == _BATCH
        found.append(spent / _COUNT * 1e6)
    return min(found)


def main() -> None:
    """Prints a line for each transform."""
    for name, case in _CASES.items():
        print(f"{name}: {microseconds(*case):.2f} us a record")


if __name__ == "__main__":
    main()
