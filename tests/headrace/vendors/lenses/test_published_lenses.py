"""The configurations that Lenses' documentation shows run as they are, with converters of a worker's file."""

import pytest

from headrace.options import Settings
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

_WORKER = """\
bootstrap.servers=127.0.0.1:9092
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
"""
_BASIC = """\
connector.class=io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector
connect.s3.kcql=insert into lensesio:demo select * from demo PARTITIONBY _value.ts STOREAS `JSON` \
PROPERTIES ('flush.size'=1000000, 'flush.interval'=30, 'flush.count'=5000)
topics=demo
name=demo
"""
_ROLLING = """\
connector.class=io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector
connect.s3.kcql=insert into lensesio:demo select * from demo PARTITIONBY _value.metadata_id, \
_value.customer_id, _header.ts, _header.wallclock STOREAS `JSON` \
PROPERTIES ('flush.size'=1000000, 'flush.interval'=30, 'flush.count'=5000)
topics=demo
name=demo
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter=org.apache.kafka.connect.storage.StringConverter
transforms=insertFormattedTs,insertWallclock
transforms.insertFormattedTs.type=io.lenses.connect.smt.header.TimestampConverter
transforms.insertFormattedTs.header.name=ts
transforms.insertFormattedTs.field=timestamp
transforms.insertFormattedTs.target.type=string
transforms.insertFormattedTs.format.to.pattern=yyyy-MM-dd-HH
transforms.insertWallclock.type=io.lenses.connect.smt.header.InsertWallclock
transforms.insertWallclock.header.name=wallclock
transforms.insertWallclock.value.type=format
transforms.insertWallclock.format=yyyy-MM-dd-HH
"""
_FILE = "{{topic}}({{partition}}_{{end_offset:padding=12}}).json"


def _load(text: str) -> Settings:
    return load(text, kind="properties", environment={}, read_file=no_file, worker_config=_WORKER)


@pytest.mark.parametrize(
    ("text", "directories"),
    [
        pytest.param(_BASIC, "ts={{value:ts}}/", id="basic"),
        pytest.param(
            _ROLLING,
            "metadata_id={{value:metadata_id}}/customer_id={{value:customer_id}}/ts={{header:ts}}/"
            "wallclock={{header:wallclock}}/",
            id="rolling-window",
        ),
    ],
)
def test_published_configurations_run(text: str, directories: str) -> None:
    """Bucket, names and flushing are those of the statement."""
    settings = _load(text)
    sink = settings.sink

    assert sink is not None
    assert (settings.s3.bucket, settings.s3.prefix) == ("lensesio", "demo/")
    assert sink.names.template == directories + _FILE
    assert (sink.rotation.records, sink.rotation.bytes, sink.rotation.age_ms) == (5000, 1_000_000, 30_000)
    assert sink.group_id == "connect-demo"
