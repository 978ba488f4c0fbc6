"""Confluent's and Lenses' S3 sources: what becomes of their options, and what is refused with which fix."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.names.archive_names import any_of
from headrace.options import Settings, SettingsError
from headrace.options.merge import is_known
from headrace.options.vendor import Fate, Vendor
from headrace.vendors.confluent.source_translation import CONFLUENT_SOURCE_VENDOR
from headrace.vendors.lenses.kcql import Property, Statement, read_source_kcql
from headrace.vendors.lenses.source_translation import LENSES_SOURCE_VENDOR
from headrace.vendors.load import VENDORS, vendor_of
from tests.headrace.options.loading import own_options
from tests.support.sink_archives import sink_settings

_CONFLUENT: Final = "io.confluent.connect.s3."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
RESTORE: Final[Mapping[str, str]] = {
    "connector.class": f"{_CONFLUENT}source.S3SourceConnector",
    "s3.bucket.name": "bucket",
    "format.class": f"{_CONFLUENT}format.json.JsonFormat",
}
GENERIC: Final[Mapping[str, str]] = {**RESTORE, "mode": "GENERIC", "topic.regex.list": "orders:.*"}
LENSES: Final[Mapping[str, str]] = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector"
}
_TEXT: Final = "insert into t select * from bkt:p STOREAS `TEXT` PROPERTIES("
_SEARCH: Final = "connect.s3.source.partition."


def _load(given: Mapping[str, str]) -> Settings:
    return sink_settings({"name": "reader", **given})


def _own(given: Mapping[str, str]) -> Mapping[str, str]:
    return own_options(_load(given))


def _kcql(text: str, **more: str) -> Mapping[str, str]:
    return {**LENSES, "connect.s3.kcql": text, **more}


def _problems(given: Mapping[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        _load(given)
    return [str(problem) for problem in caught.value.problems]


_ARCHIVE: Final = {"input.layout": "confluent", "aws.s3.prefix": "topics/", "aws.s3.region": "us-west-2"}
TRANSLATED: Final[list[tuple[Mapping[str, str], Mapping[str, str | None]]]] = [
    (RESTORE, {**_ARCHIVE, "poll.interval.ms": "60000", "topic": None, "file.name.template": None}),
    (
        {**RESTORE, "topics.dir": "a/b", "directory.delim": "_", "file.delim": "-"},
        {"aws.s3.prefix": "a/b_", "directory.delim": "_", "file.delim": "-"},
    ),
    ({**RESTORE, "topics.dir": ""}, {"aws.s3.prefix": ""}),
    (
        {**RESTORE, "format.class": f"{_CONFLUENT}format.bytearray.ByteArrayFormat"},
        {"input.format": "bytes", "input.layout": "confluent"},
    ),
    (
        {**RESTORE, "format.bytearray.separator": "|", "tombstone.encoded.partition": "gone"},
        {"format.bytearray.separator": "|", "tombstone.encoded.partition": "gone"},
    ),
    *(
        ({**RESTORE, "format.bytearray.separator": blank}, {"format.bytearray.separator": blank})
        for blank in ("\r\n", "\n\n", "\t", " ", "\x1e", "\x85")
    ),
    *(
        ({**RESTORE, "format.bytearray.extension": ending, "keys.format.class": f"{_CONFLUENT}{keys}"}, own)
        for ending, keys, own in (
            (".json", "format.bytearray.ByteArrayFormat", {"restore.keys.format": "bytes"}),
            (".avro", "format.bytearray.ByteArrayFormat", {"restore.keys.format": "bytes"}),
            (".json", "format.avro.AvroFormat", {"restore.keys.format": None}),
            (".txt", "format.bytearray.ByteArrayFormat", {"restore.keys.format": None}),
        )
    ),
    (
        # Connect trims what is part of names.
        {**RESTORE, "directory.delim": " - ", "file.delim": " _", "tombstone.encoded.partition": "gone "},
        {
            "directory.delim": "-",
            "file.delim": "_",
            "tombstone.encoded.partition": "gone",
            "aws.s3.prefix": "topics-",
        },
    ),
    (
        {**RESTORE, "value.converter": _JSON, "value.converter.schemas.enable": "false"},
        {"restore.value": "json", "value.converter": None},
    ),
    ({**RESTORE, "value.converter": _STRING, "key.converter": _STRING}, {"restore.key": "string"}),
    (
        {
            **RESTORE,
            "s3.region": "eu-west-1",
            "store.url": "http://store:9000",
            "s3.poll.interval.ms": "5000",
        },
        {"aws.s3.region": "eu-west-1", "aws.s3.endpoint": "http://store:9000", "poll.interval.ms": "5000"},
    ),
    (
        {**RESTORE, "aws.access.key.id": "id", "aws.secret.access.key": "${env:HOME}"},
        {"aws.access.key.id": "id", "aws.secret.access.key": "${env:HOME}"},
    ),
    (
        {
            **RESTORE,
            "s3.credentials.provider.class": f"{_CONFLUENT}auth.AwsAssumeRoleCredentialsProvider",
            "s3.credentials.provider.sts.role.arn": "arn:aws:iam::123456789012:role/r",
            "s3.credentials.provider.aws.access.key.id": "id",
            "s3.credentials.provider.aws.secret.access.key": "${env:HOME}",
        },
        {
            "aws.sts.role.arn": "arn:aws:iam::123456789012:role/r",
            "aws.access.key.id": "id",
            "aws.secret.access.key": "${env:HOME}",
        },
    ),
    (
        {**RESTORE, "s3.path.style.access.enabled": "false", "s3.part.retries": "9"},
        {"aws.s3.path.style.access": "false", "aws.s3.backoff.max.retries": "9"},
    ),
    (
        GENERIC,
        {
            "input.layout": None,
            "topic": "orders",
            "file.name.template": ".*",
            "input.format": "jsonl",
            "key.source": "none",
            "aws.s3.prefix": "topics/",
        },
    ),
    (
        {**GENERIC, "topic.regex.list": r"a:in/\d+\.json", "topics.dir": "q"},
        {"topic": "a", "file.name.template": r"^(?:q/)?(?:in/\d+\.json)$"},
    ),
    (
        {**GENERIC, "topic.regex.list": r"a:(?i)\Qx.y\E.*\.json"},
        {"topic": "a", "file.name.template": r"^(?:topics/)?(?i:x\.y.*\.json)$"},
    ),
    (
        {**GENERIC, "topic.regex.list": r"a:.*\.json\Z"},
        # As Java's: before a line feed at the end, too, which names have seldom.
        {"file.name.template": r"^(?:topics/)?(?:.*\.json(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z))$"},
    ),
    (
        {
            **GENERIC,
            "format.class": "io.confluent.connect.cloud.storage.source.format.CloudStorageByteArrayFormat",
        },
        {"input.format": "text", "text.exact": "true"},
    ),
    *(
        (
            {
                **GENERIC,
                "format.class": f"{_CONFLUENT}format.bytearray.ByteArrayFormat",
                "format.bytearray.separator": separator,
            },
            {"input.format": "text", "text.exact": "true"},
        )
        for separator in ("\n", "\\n")
    ),
    (
        {
            **GENERIC,
            "format.class": f"{_CONFLUENT}format.bytearray.ByteArrayFormat",
            "input.format": "csv",
        },
        {"input.format": "csv"},
    ),
    (
        {
            **GENERIC,
            "format.class": f"{_CONFLUENT}format.avro.AvroFormat",
            "value.converter": _AVRO,
            "value.converter.schema.registry.url": "http://registry:8081",
        },
        {"input.format": "avro", "schema.registry.url": "http://registry:8081"},
    ),
    (
        {**GENERIC, "behavior.on.error": "log", "parse.error.topic.prefix": "errors"},
        {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "errors-reader"},
    ),
    ({**GENERIC, "behavior.on.error": "fail"}, {"errors.tolerance": "none"}),
    (
        _kcql(
            "insert into orders select * from bucket:backup BATCH=100 STOREAS `AVRO` LIMIT 5000 "
            "PROPERTIES('store.envelope'=true)"
        ),
        {
            "aws.s3.bucket.name": "bucket",
            "aws.s3.prefix": "backup/",
            "input.layout": "lenses",
            "store.envelope": "true",
            "topic": "orders",
            "layout.indexes": ".indexes/,.temp-upload/",
            "poll.interval.ms": "300000",
        },
    ),
    (
        _kcql(
            "insert into x select * from bkt:p PROPERTIES("
            "'store.envelope'=true,'source.topic.from.envelope'=true)"
        ),
        {"topic": None, "input.layout": "lenses"},
    ),
    (
        _kcql("insert into x select * from bkt STOREAS CSV", **{f"{_SEARCH}extractor.type": "hierarchical"}),
        {"aws.s3.prefix": "", "input.layout": "lenses", "store.envelope": "false", "csv.header": "false"},
    ),
    (
        # Without quotes; `topics`, which Lenses' source does not read, decides nothing.
        _kcql("insert into x select * from bkt:p/year=2022/month=11/ STOREAS 'JSON'", topics="y"),
        {"aws.s3.prefix": "p/year=2022/month=11/", "topic": "x", "topics": None},
    ),
    (
        _kcql("insert into `my-topic` select * from bkt:p/q/"),
        {"topic": "my-topic", "aws.s3.prefix": "p/q/", "file.name.template": ".*", "input.format": "jsonl"},
    ),
    (_kcql("insert into x select * from bkt STOREAS `CSV`"), {"input.format": "text", "csv.header": None}),
    (
        _kcql("insert into x select * from bkt STOREAS `BYTES`"),
        {
            "input.format": "bytes",
            "transformer.max.buffer.size": "999934464",
            "record.max.bytes": "999934464",
        },
    ),
    (
        _kcql(f"{_TEXT}'read.text.mode'='regex','read.text.regex'='^[1-9].*')"),
        dict.fromkeys(("text.start.pattern", "text.end.pattern"), r"(?u)^(?a:^[1-9].*)\r?\n?$"),
    ),
    (
        _kcql(f"{_TEXT}'read.text.mode'='StartEndLine','read.text.start.line'='S.','read.text.end.line'='')"),
        {"text.start.pattern": r"(?u)^(?i:S\.)\r?\n?$", "text.end.pattern": r"(?u)^(?i:)\r?\n?$"},
    ),
    (
        _kcql(f"{_TEXT}'read.text.mode'='regex','read.text.regex'=' [a-z] ')"),
        {"text.start.pattern": r"(?u)^(?a: [a-z] )\r?\n?$"},
    ),
    (
        _kcql(
            f"{_TEXT}'read.text.mode'='StartEndLine','read.text.start.line'=' ','read.text.end.line'=' E')"
        ),
        {"text.start.pattern": r"(?u)^(?i:\ )\r?\n?$", "text.end.pattern": r"(?u)^(?i:\ E)\r?\n?$"},
    ),
    (
        # Paragraphs: an empty line is found in no other one.
        {**_kcql(f"{_TEXT}'post.process.action'=delete)"), "text.end.pattern": "^$"},
        {"post.action": "delete", "text.end.pattern": "^$"},
    ),
    (
        _kcql(
            f"{_TEXT}'post.process.action'=MOVE,'post.process.action.bucket'='bkt',"
            "'post.process.action.prefix'='done/')"
        ),
        {"post.action": "move:done/"},
    ),
    (
        _kcql(
            f"{_TEXT}'post.process.action'=move,'post.process.action.prefix'=d,'post.process.action.bucket'=cold)"
        ),
        {"post.action": "move:s3://cold/d/"},
    ),
    (
        # Lenses replaces the statement's prefix in keys; without one they stay.
        _kcql(
            "insert into t select * from bkt PROPERTIES('post.process.action'=move,"
            "'post.process.action.prefix'='d','post.process.action.bucket'='cold/')"
        ),
        {"post.action": "move:s3://cold/"},
    ),
    (
        _kcql(
            "insert into t select * from bkt PROPERTIES('post.process.action'=move,"
            "'post.process.action.prefix'='d/','post.process.action.bucket'='bkt/')"
        ),
        {"post.action": "move:d/"},
    ),
    (
        _kcql(
            "insert into x select * from bkt:p",
            **{
                "connect.s3.source.extension.includes": "json,.csv",
                "connect.s3.source.extension.excludes": "tmp",
                f"{_SEARCH}search.excludes": ".state",
                f"{_SEARCH}search.interval": "1000",
                "connect.s3.custom.endpoint": "http://store:9000",
                "connect.s3.vhost.bucket": "true",
            },
        ),
        {
            "object.include": "*.[jJ][sS][oO][nN],*.[cC][sS][vV]",
            "object.exclude": "*.[tT][mM][pP],*.state*/*",
            "poll.interval.ms": "1000",
            "aws.s3.endpoint": "http://store:9000",
            "aws.s3.path.style.access": "true",
        },
    ),
]


@pytest.mark.parametrize("extension", ["Json", "json", ".JSON", "tar.gz", "a[b]c*"])
def test_extensions_of_lenses_are_of_any_case(extension: str) -> None:
    """Lenses lowers keys and extensions, and reads them as they are."""
    option = "connect.s3.source.extension.includes"
    own = _own(_kcql("insert into x select * from bkt:p", **{option: extension}))
    is_included = any_of([own["object.include"]])
    name = extension.removeprefix(".")

    assert is_included is not None
    assert all(is_included(f"p/a.{each}") for each in (name.lower(), name.upper(), name.title()))
    assert not is_included(f"p/a.{name}x")
    assert not is_included(f"p/a{name}")


@pytest.mark.parametrize(("given", "expected"), TRANSLATED)
def test_options_become_ours(given: Mapping[str, str], expected: Mapping[str, str | None]) -> None:
    """A configuration as it is, in our own options; None: not set."""
    own = _own(given)

    assert own["connector.class"] == "HeadraceSource"
    assert {option: own.get(option) for option in expected} == expected


def test_the_name_is_the_connectors_own() -> None:
    """Connect's group of a sink has no counterpart: a source has no consumer there."""
    settings = _load(RESTORE)

    assert settings.sink is None
    assert settings.name == "reader"


_REFUSED: Final[list[tuple[Mapping[str, str], str]]] = [
    ({**RESTORE, "format.class": ""}, "format.class = '': is missing; add one of"),
    ({**RESTORE, "mode": "ALL"}, "mode = 'ALL': expected one of RESTORE_BACKUP, GENERIC"),
    ({**RESTORE, "topics": "orders"}, "topics: restores no less than all topics"),
    (
        {**RESTORE, "value.converter": _AVRO},
        f"value.converter = '{_AVRO}': writes a form that a restore does not",
    ),
    (
        {**RESTORE, "value.converter": _JSON},
        "value.converter.schemas.enable: must be false with JsonConverter",
    ),
    ({**RESTORE, "s3.sse.customer.key": "k"}, "s3.sse.customer.key: objects under keys of customers"),
    (
        {**RESTORE, "file.discovery.starting.timestamp": "5"},
        "remove it, and set include.existing=false",
    ),
    ({**RESTORE, "s3.pol.interval.ms": "5"}, "s3.pol.interval.ms: is not an option of Confluent's S3 source"),
    (
        {**RESTORE, "s3.credentials.provider.aws.access.key.id": "id"},
        "s3.credentials.provider.aws.access.key.id = 'id': means nothing without s3.credentials",
    ),
    ({**GENERIC, "topic.regex.list": ""}, "topic.regex.list = '': is missing; mode=GENERIC needs it"),
    ({**GENERIC, "topic.regex.list": "a:x,b:y"}, "topic.regex.list = 'a:x,b:y': names several pairs"),
    ({**GENERIC, "topic.regex.list": "a"}, "topic.regex.list = 'a': expected TOPIC:EXPRESSION"),
    ({**GENERIC, "topic.regex.list": "a:["}, "topic.regex.list = 'a:[': has an expression without a counter"),
    ({**GENERIC, "topic.regex.list": "a:part[a[0-9]]"}, "a class within a class, such as [a[bc]]"),
    *(
        (
            {
                **GENERIC,
                "format.class": f"{_CONFLUENT}format.bytearray.ByteArrayFormat",
                "format.bytearray.separator": separator,
            },
            f"format.bytearray.separator = {separator!r}: splits no files here",
        )
        for separator in ("|", "\r\n", "\t", "")
    ),
    (
        {**RESTORE, "format.bytearray.separator": ""},
        "format.bytearray.separator = '': is empty, and values with",
    ),
    (
        {**RESTORE, "directory.delim": " "},
        "directory.delim = ' ': is blank, and keys without it cannot be read",
    ),
    ({**RESTORE, "file.delim": ""}, "file.delim = '': is blank, and keys without it cannot be read"),
    (
        {**RESTORE, "format.bytearray.extension": ".json"},
        "keys.format.class: is missing; with format.bytearray.extension=.json names do not show whether keys",
    ),
    ({**RESTORE, "keys.format.class": "a.B"}, "keys.format.class = 'a.B': is a class that is not known here"),
    (LENSES, "connect.s3.kcql: is missing; expected INSERT INTO topic SELECT * FROM bucket:prefix"),
    (_kcql("insert into a select * from bkt; insert into c select * from dkt"), "has several statements"),
    (_kcql("insert into * select * from bkt"), "Records go to one topic; write its name in the place of *"),
    (_kcql("insert into $T select * from bkt"), "is a placeholder of an example"),
    (
        _kcql("insert into a select * from bkt PARTITIONBY x"),
        "PARTITIONBY is of Lenses' sink and decides nothing in a source; remove it",
    ),
    (_kcql("insert into a select * from bkt WITH_FLUSH_COUNT=1"), "WITH_FLUSH_COUNT is of Lenses' sink"),
    (
        _kcql("insert into a select * from bkt STOREAS CSV_WITHHEADERS"),
        "set input.format=csv and csv.header=true",
    ),
    (_kcql(f"{_TEXT}'store.envelope'=true)"), "store.envelope needs STOREAS JSON, AVRO or PARQUET, not TEXT"),
    (_kcql(f"{_TEXT}'store.envelope'=maybe)"), "store.envelope expected true or false"),
    (
        _kcql(f"{_TEXT}'source.topic.from.envelope'=true)"),
        "source.topic.from.envelope needs store.envelope=true",
    ),
    (_kcql(f"{_TEXT}'read.text.mode'=StartEndTag)"), "read.text.mode is StartEndTag"),
    (_kcql(f"{_TEXT}'read.text.mode'=StartEndLine)"), "read.text.start.line is missing"),
    (_kcql(f"{_TEXT}'read.text.mode'=Regex)"), "read.text.regex is missing"),
    (
        _kcql(f"{_TEXT}'read.text.mode'=Regex,'read.text.regex'='[')"),
        "read.text.regex has no counterpart: a [ is not closed",
    ),
    (
        _kcql(
            f"{_TEXT}'read.text.mode'=StartEndLine,'read.text.start.line'='---','read.text.end.line'='---')"
        ),
        "read.text.end.line is the line of read.text.start.line",
    ),
    (
        _kcql(
            f"{_TEXT}'read.text.mode'=StartEndLine,'read.text.start.line'='Début','read.text.end.line'='DÉBUT')"
        ),
        "read.text.end.line is the line of read.text.start.line",
    ),
    *(
        (
            _kcql(f"{_TEXT}'read.text.mode'=Regex,'read.text.regex'='{expression}')"),
            f"read.text.regex has no counterpart: {why}",
        )
        for expression, why in (
            ("[a-z&&[^b]]+", "&& within [..]"),
            ("[a[bc]]", "a class within a class"),
            ("(?x) a # c", "the flag (?x)"),
            ("(?iu)é", "the flag (?u)"),
            ("a(?i)b", "(?i) is after the beginning"),
        )
    ),
    (_kcql(f"{_TEXT}'read.text.mode'=Lines)"), "read.text.mode expected one of Regex, StartEndLine"),
    (_kcql(f"{_TEXT}'read.text.trim'=true)"), "read.text.trim is not done here"),
    (
        _kcql("insert into a select * from bkt PROPERTIES('read.text.mode'=Regex)"),
        "read.text.mode is for STOREAS",
    ),
    (_kcql(f"{_TEXT}'flush.count'=1)"), "flush.count is not a property of Lenses' source"),
    (_kcql(f"{_TEXT}'post.process.action'=rename)"), "post.process.action expected Delete or Move"),
    (_kcql(f"{_TEXT}'post.process.action'=move)"), "post.process.action.prefix is missing"),
    (
        _kcql("insert into a select * from bkt", **{f"{_SEARCH}extractor.type": "regex"}),
        "set file.name.template with {{partition}}",
    ),
    (_kcql("insert into a select * from bkt", **{"connect.s3.error.policy": "NOOP"}), "loses records"),
    (
        _kcql("insert into a select * from bkt", **{"connect.s3.source.write.watermark.header": "true"}),
        "set record.headers=source",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), _REFUSED)
def test_what_has_no_counterpart_is_refused_with_its_fix(given: Mapping[str, str], sentence: str) -> None:
    """One sentence that names the option, and nothing besides it."""
    found = _problems(given)

    assert len(found) == 1, found
    assert sentence in found[0]


def test_lines_that_decide_nothing_are_one_warning() -> None:
    """Of the sink's configuration, to which Confluent's page says to make minor changes, and of licenses."""
    settings = _load(
        {
            **RESTORE,
            "flush.size": "3",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "schema.compatibility": "NONE",
            "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
            "record.batch.max.size": "500",
            "confluent.topic.bootstrap.servers": "broker:9092",
            "errors.log.include.messages": "true",
        }
    )

    (warning,) = [each for each in settings.warnings if each.startswith("accepted though nothing")]
    assert warning.count(",") == 6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (GENERIC, "a file that is one array, or of objects over several lines, needs input.format=json"),
        ({**GENERIC, "behavior.on.error": "ignore"}, "what cannot be read is only in the log"),
        (_kcql("insert into a select * from bkt LIMIT 5"), "LIMIT and BATCH decide nothing"),
        (
            _kcql("insert into a select * from bkt", **{f"{_SEARCH}search.continuous": "false"}),
            "--until-idle",
        ),
        (
            _kcql("insert into a select * from bkt", **{"connect.s3.ordering.type": "LastModified"}),
            "side by side",
        ),
        (
            _kcql("insert into a select * from bkt PROPERTIES('store.envelope'=true)"),
            "others are counted as unmatched",
        ),
        (_kcql(f"{_TEXT}'post.process.action.retain.dirs'=true)"), "properties that nothing depends on here"),
    ],
)
def test_what_differs_is_a_warning(given: Mapping[str, str], words: str) -> None:
    """What an operator would notice."""
    assert any(words in warning for warning in _load(given).warnings)


@pytest.mark.parametrize(
    "vendor", [CONFLUENT_SOURCE_VENDOR, LENSES_SOURCE_VENDOR], ids=lambda each: each.name
)
def test_no_option_of_ours_is_passed_on_by_chance(vendor: Vendor) -> None:
    """An option of the sister sink that has our name is in the source's own table, or of Connect."""
    (sister,) = [each for each in VENDORS if each.layout == vendor.layout and each.is_sink]
    shared = {row.name for row in sister.options if is_known(row.name)}
    of_connect = {name for name in shared if ".converter" in name or name.startswith("errors.")}

    assert {name for name in shared - of_connect if vendor.option(name) is None} == set()
    assert vendor_of({"connector.class": vendor.classes[0]}) is vendor


@pytest.mark.parametrize("search", ["connect.s3.partition.search.", f"{_SEARCH}search."])
def test_the_search_of_lenses_has_names_of_older_versions(search: str) -> None:
    """They say the same as those of today, which win where both are given."""
    older = {f"{search}interval": "7000", f"{search}continuous": "false", f"{search}recurse.levels": "3"}
    kcql = "insert into t select * from bkt:p"
    settings = _load(_kcql(kcql, **older))

    assert own_options(settings)["poll.interval.ms"] == "7000"
    assert any(f"{search}continuous=false: run with" in warning for warning in settings.warnings)
    newer = {**older, f"{_SEARCH}search.interval": "9000"}
    assert _own(_kcql(kcql, **newer))["poll.interval.ms"] == "9000"


def test_each_given_option_has_a_line() -> None:
    """What `headrace translate` prints."""
    translated = _load({**RESTORE, "record.batch.max.size": "5"}).translated

    assert translated is not None
    fates = {line.option: line.fate for line in translated}
    assert fates["s3.bucket.name"] is Fate.KEPT
    assert fates["record.batch.max.size"] is Fate.NEEDLESS
    assert fates["format.class"] is Fate.CHANGED


def test_a_statement_of_a_source_is_read() -> None:
    """The other way round than a sink's."""
    text = (
        "INSERT INTO `a-b` SELECT * FROM `some-bucket:p/q` BATCH = 7 STOREAS `text` LIMIT 5 "
        "PROPERTIES('x'=1,)"
    )

    assert read_source_kcql(text) == (
        Statement(
            bucket="some-bucket",
            prefix="p/q",
            topic="a-b",
            store_as="TEXT",
            limit=5,
            properties=(Property("x", "1"),),
        ),
    )
