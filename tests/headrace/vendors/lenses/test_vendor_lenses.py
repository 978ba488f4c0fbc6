"""Lenses' S3 sink: what becomes of its options and statements, and what is refused with which remedy."""

from collections.abc import Mapping

import pytest

from headrace.options import Settings, SettingsError
from headrace.options.vendor import Fate
from headrace.vendors.lenses.translation import LENSES
from tests.headrace.options.loading import own_options
from tests.support.sink_archives import sink_settings

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_B = "INSERT INTO bkt SELECT * FROM orders"
GIVEN: Mapping[str, str] = {
    "name": "archive",
    "connector.class": LENSES.classes[0],
    "topics": "orders",
    "connect.s3.kcql": "INSERT INTO bucket:kafka SELECT * FROM orders",
    "key.converter": _STRING,
    "value.converter": _JSON,
}


def _load(changes: Mapping[str, str | None] | None = None) -> Settings:
    given = {**GIVEN, **(changes or {})}
    return sink_settings({name: text for name, text in given.items() if text is not None})


def _own(changes: Mapping[str, str | None] | None = None) -> Mapping[str, str]:
    return own_options(_load(changes))


def _kcql(text: str, **more: str) -> Mapping[str, str]:
    return _own({"connect.s3.kcql": text, **more})


def test_the_vendors_defaults_hold() -> None:
    """50,000 records, 500,000,000 bytes, an hour."""
    own = _own()

    assert own["aws.s3.bucket.name"] == "bucket"
    assert own["aws.s3.prefix"] == "kafka/"
    assert (own["rotate.records"], own["rotate.bytes"], own["rotate.age.ms"]) == (
        "50000",
        "500000000",
        "3600000",
    )
    assert (own["output.format"], own["output.envelope"], own["output.fields"]) == ("jsonl", "false", "value")
    assert "aws.s3.path.style.access" not in own
    assert (own["aws.s3.backoff.max.retries"], own["aws.s3.backoff.delay.ms"]) == ("5", "50")
    assert own["file.compression.type"] == "none"
    settings = _load()
    assert settings.sink is not None
    assert settings.sink.group_id == "connect-archive"
    assert any("no index objects are written" in warning for warning in settings.warnings)


_DEFAULT = "{{end_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}"
_CUSTOM = "{{topic}}({{partition}}_{{end_offset:padding=12}}).json"
_PADDED = "{{partition:padding=5,char=x}}"


@pytest.mark.parametrize(
    ("clauses", "template"),
    [
        ("", "{{topic}}/{{partition}}/{{end_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}.json"),
        (
            "PROPERTIES('partition.include.keys'=true,'key.suffix'='-a')",
            f"topic={{{{topic}}}}/partition={{{{partition}}}}/{_DEFAULT}-a.json",
        ),
        (
            "PARTITIONBY region, _value.`a.b`.c, _key.id, _header.h-1",
            f"region={{{{value:region}}}}/a.b.c={{{{value:`a.b`.c}}}}/id={{{{key:id}}}}/h-1={{{{header:h-1}}}}/{_CUSTOM}",
        ),
        (
            "PARTITIONBY _key, _topic PROPERTIES('partition.include.keys'=false)",
            "{{key}}/{{topic}}/{{topic}}({{partition}}_{{end_offset:padding=12}}).json",
        ),
        (
            "PARTITIONBY _date.yyyy, _date.MM",
            "date={{date:yyyy}}/date={{date:MM}}/{{topic}}({{partition}}_{{end_offset:padding=12}}).json",
        ),
        ("NOPARTITION", "/{{topic}}({{partition}}_{{end_offset:padding=12}}).json"),
        (
            "PARTITIONBY region PROPERTIES('padding.type'='NoOp')",
            "region={{value:region}}/{{topic}}({{partition}}_{{end_offset}}).json",
        ),
        (
            "PARTITIONBY _partition PROPERTIES('padding.length.partition'=5,'padding.char'='x')",
            f"partition={_PADDED}/{{{{topic}}}}({_PADDED}_{{{{end_offset}}}}).json",
        ),
    ],
)
def test_names(clauses: str, template: str) -> None:
    """Directories, then the offset of the last record."""
    assert _kcql(f"{_B} {clauses}", **{"key.converter": _JSON})["file.name.template"] == template


def test_each_statement_is_a_route_of_its_own() -> None:
    """The statement of `*` is what the others differ from."""
    settings = _load(
        {
            "topics": "orders,payments,returns",
            "connect.s3.kcql": "INSERT INTO vault:money SELECT * FROM payments STOREAS TEXT PROPERTIES("
            "'flush.count'=1); insert into all select * from `*` properties('flush.interval'=30)",
        }
    )
    payments, returns = settings.for_topic("payments"), settings.for_topic("returns")

    assert (payments.s3.bucket, payments.s3.prefix) == ("vault", "money/")
    assert (returns.s3.bucket, returns.s3.prefix) == ("all", "")
    assert payments.sink is not None
    assert returns.sink is not None
    assert (payments.sink.rotation.records, payments.sink.rotation.age_ms) == (1, 3_600_000)
    assert (returns.sink.rotation.records, returns.sink.rotation.age_ms) == (50_000, 30_000)
    assert payments.sink.names.template.endswith(".text")


def test_a_pattern_without_a_statement_of_all() -> None:
    """Only topics with a statement are archived."""
    statements = "INSERT INTO bkt SELECT * FROM orders; INSERT INTO other SELECT * FROM other"
    settings = _load(
        {"topics": None, "topics.regex": "ord.*", "connect.s3.kcql": statements.partition(";")[0]}
    )

    assert settings.sink is not None
    assert settings.sink.topics.names == ("orders",)
    assert any("topics.regex: only topics with a statement" in each for each in settings.warnings)


def test_an_envelope_has_the_fields_that_are_switched_on() -> None:
    """Metadata is four of ours."""
    own = _kcql(
        "INSERT INTO bkt SELECT * FROM orders PROPERTIES('store.envelope'=true,"
        "'store.envelope.fields.key'=false)"
    )
    assert own["output.fields"] == "value,headers,topic,partition,offset,timestamp"
    own = _kcql(
        "INSERT INTO bkt SELECT * FROM orders PROPERTIES('store.envelope'=true,"
        "'store.envelope.fields.metadata'=false,'store.envelope.fields.headers'=false)"
    )
    assert own["output.fields"] == "key,value"


def test_keys_are_for_credentials_mode_alone() -> None:
    """Without it they are ignored, as by Lenses, with a warning."""
    keys = {"connect.s3.aws.access.key": "AKIA", "connect.s3.aws.secret.key": "hunter2"}

    assert "aws.access.key.id" not in _own(keys)
    assert any("connect.s3.aws.access.key" in warning for warning in _load(keys).warnings)
    own = _own({**keys, "connect.s3.aws.auth.mode": "credentials"})
    assert (own["aws.access.key.id"], own["aws.secret.access.key"]) == ("AKIA", "hunter2")


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({"connect.s3.vhost.bucket": "true"}, {"aws.s3.path.style.access": "true"}),
        ({"connect.s3.vhost.bucket": "false"}, {"aws.s3.path.style.access": "false"}),
        ({"connect.s3.path.style.access": "true"}, {"aws.s3.path.style.access": "true"}),
        (
            {"connect.s3.path.style.access": "true", "connect.s3.vhost.bucket": "true"},
            {"aws.s3.path.style.access": "true"},
        ),
        ({"connect.s3.pool.max.connections": "50"}, {"aws.s3.max.connections": "50"}),
        ({"connect.s3.http.max.retries": "7"}, {"aws.s3.backoff.max.retries": "7"}),
        ({"connect.s3.skip.null.values": "true"}, {"behavior.on.null.values": "ignore"}),
        ({"connect.s3.local.tmp.directory": "/data/buffer"}, {"buffer.dir": "/data/buffer"}),
        ({"connect.s3.schema.change.detector": "version"}, {"schema.compatibility": "backward"}),
        ({"connect.s3.latest.schema.optimization.enabled": "true"}, {"schema.compatibility": "backward"}),
        (
            {"connect.s3.compression.codec": "gzip", "connect.s3.compression.level": "9"},
            {"file.compression.type": "gzip", "file.compression.level": "9"},
        ),
        (
            {"connect.s3.kcql": f"{_B} STOREAS PARQUET", "connect.s3.compression.codec": "ZSTD"},
            {"file.compression.type": "zstd", "file.compression.level": None},
        ),
        (
            {"connect.s3.kcql": f"{_B} STOREAS PARQUET", "connect.s3.compression.codec": "BROTLI"},
            {"file.compression.type": "brotli"},
        ),
        (
            {"connect.s3.padding.strategy": "NoOp"},
            {
                "file.name.template": "{{topic}}/{{partition}}/{{end_offset}}_{{first_timestamp}}_"
                "{{last_timestamp}}.json"
            },
        ),
        ({"rotate.records": "9"}, {"rotate.records": "9"}),
    ],
)
def test_options(changes: Mapping[str, str], own: Mapping[str, str | None]) -> None:
    """Each says the same in our words."""
    found = _own(changes)
    assert {name: found.get(name) for name in own} == own


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"connect.s3.kcql": None}, "connect.s3.kcql: is missing"),
        ({"connect.s3.kcql": "INSERT INTO $target SELECT * FROM orders"}, "^^^^^^^"),
        ({"connect.s3.kcql": "INSERT INTO bkt SELECT a FROM orders"}, "ReplaceField"),
        ({"topics": "orders,payments"}, "payments: has no statement in connect.s3.kcql"),
        ({"topics": "payments"}, "orders: is not among topics"),
        ({"connect.s3.kcql": f"{_B}; {_B}"}, "orders is in two statements"),
        (
            {"connect.s3.kcql": f"{_B} PROPERTIES('flush.number'=1)"},
            "'flush.number' is not a property of the S3",
        ),
        ({"connect.s3.kcql": f"{_B} PROPERTIES('read.text.mode'=a)"}, "is a property of Lenses' source"),
        (
            {"connect.s3.kcql": f"{_B} PROPERTIES('object.key.template'='{{topic}}')"},
            "set file.name.template next to the statement",
        ),
        ({"connect.s3.kcql": f"{_B} PROPERTIES('flush.count'=0)"}, "flush.count is a whole number from 1"),
        ({"connect.s3.kcql": f"{_B} PROPERTIES('store.envelope'=yes)"}, "store.envelope is true or false"),
        ({"connect.s3.kcql": f"{_B} STOREAS CSV PROPERTIES('store.envelope'=true)"}, "not for CSV"),
        ({"connect.s3.kcql": f"{_B} STOREAS BYTES"}, "write PROPERTIES('flush.count'=1)"),
        ({"connect.s3.kcql": f"{_B} PROPERTIES('padding.type'=Middle)"}, "LeftPad, RightPad, NoOp"),
        ({"connect.s3.kcql": f"{_B} PROPERTIES('padding.char'=ab)"}, "padding.char is one character"),
        ({"connect.s3.kcql": f"{_B} PARTITIONBY _header.a.b"}, "_header takes a header's name"),
        ({"connect.s3.compression.codec": "SNAPPY"}, "SNAPPY is not written in JSON"),
        ({"connect.s3.compression.codec": "LZ0"}, "LZ0 is LZO, which is not written in JSON"),
        (
            {"connect.s3.kcql": f"{_B} STOREAS AVRO", "connect.s3.compression.codec": "ZSTD"},
            "Lenses needs one for ZSTD in AVRO",
        ),
        (
            {"connect.s3.path.style.access": "false", "connect.s3.vhost.bucket": "true"},
            "connect.s3.path.style.access = 'false': says otherwise than connect.s3.vhost.bucket",
        ),
        ({"connect.s3.error.policy": "NOOP"}, "set errors.tolerance=all"),
        ({"connect.s3.aws.auth.mode": "Credentials"}, "connect.s3.aws.access.key: is missing"),
        ({"connect.s3.schema.change.rollover": "false"}, "could not be written into the same object"),
        ({"connect.s3.source.partition.search.continuous": "true"}, "is an option of Lenses' source"),
        ({"value.converter": None}, "value.converter: is missing"),
        (
            {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
            "gives bytes, which bare JSON cannot hold",
        ),
        ({"connect.s3.kcql": f"{_B} STOREAS CSV", "value.converter": _STRING}, "rows of csv have members"),
        (
            {
                "connect.s3.padding.strategy": "NoOp",
                "connect.s3.kcql": f"{_B} PROPERTIES('padding.char'='1')",
            },
            "padding is set in connect.s3.padding.strategy as well",
        ),
    ],
)
def test_what_is_refused(changes: Mapping[str, str | None], problem: str) -> None:
    """With the remedy."""
    with pytest.raises(SettingsError) as caught:
        _load(changes)
    found = list(map(str, caught.value.problems))
    assert any(problem in each for each in found), found


def test_every_option_has_a_row_and_a_note() -> None:
    """None stands twice; needless ones say why."""
    names = [row.name for row in LENSES.options]
    assert len(set(names)) == len(names)
    assert all(row.note for row in LENSES.options)


def test_options_without_a_meaning_are_one_warning() -> None:
    """None is ignored in silence."""
    needless = {row.name.replace("*", "x"): "1" for row in LENSES.options if row.fate is Fate.NEEDLESS}
    ours = {name: text for name, text in needless.items() if name.startswith("connect.s3.")}
    (warning,) = [each for each in _load(ours).warnings if each.startswith("accepted though")]
    assert all(name in warning for name in ours)
