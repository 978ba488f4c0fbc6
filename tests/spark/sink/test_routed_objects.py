"""Topics of a route in a driven sink: their objects have the route's bucket, name, form and size."""

from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import written

CONFIG = {
    "topics": "orders,payments",
    "aws.s3.bucket.name": "all",
    "output.fields": "value",
    "output.envelope": "false",
    "file.compression.type": "none",
    "route.money.topics": "payments",
    "route.money.aws.s3.bucket.name": "vault",
    "route.money.aws.s3.prefix": "money/",
    "route.money.file.name.template": "{{topic}}-{{partition}}-{{end_offset}}.csv",
    "route.money.output.format": "csv",
    "route.money.rotate.records": "2",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def _record(topic: str, offset: int) -> Record:
    return Record(topic, 0, offset, 1_700_000_000_000, None, b'{"a":%d}' % offset, ())


def test_objects_of_two_routes() -> None:
    """One slot writes to both places."""
    records = [_record(topic, offset) for topic in ("orders", "payments") for offset in range(3)]
    found = written(CONFIG, records).objects

    assert {key: (each.bucket, each.body) for key, each in found.items()} == {
        "orders/0/00000000000000000000.headrace.jsonl": ("all", b'{"a":0}\n{"a":1}\n{"a":2}\n'),
        "money/payments-0-1.csv": ("vault", b"a\r\n0\r\n1\r\n"),
        "money/payments-0-2.csv": ("vault", b"a\r\n2\r\n"),
    }
