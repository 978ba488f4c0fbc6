from dataclasses import replace
from typing import Any, Final

import pytest

from headrace.options.choices import (
    Compression,
    CsvType,
    Envelope,
    FileNameMatch,
    InputFormat,
    JsonFormat,
    ObjectKeySource,
    Ordering,
    Packing,
)
from headrace.options.describe import options_hash
from headrace.options.row_settings import CsvSettings, PackingSettings, TextSettings
from headrace.options.settings import RoutingSettings
from headrace.options.transforms.chain import DropHeaders, RegexRouter, TransformChain, TransformStep
from headrace.vendors.key_names import options_of_object
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.options.loading import load_with

ROUTING = RoutingSettings(
    file_name_template=".*",
    file_name_match=FileNameMatch.SEARCH,
    topic="orders",
    ordering=Ordering.OBJECT,
    partitioner="murmur2_random",
)
JSONL = decode_options(InputFormat.JSONL).format
BYTES = decode_options(InputFormat.BYTES).format
_ARCHIVE: dict[str, str | None] = {"topic": None, "file.name.template": None}
ZIPS = PackingSettings(kind=Packing.ZIP, members=(), max_members=9, max_bytes=9, max_ratio=9)


@pytest.mark.parametrize(
    "change",
    [{"topic": None}, {"file_name_template": "{{topic}}"}, {"file_name_match": FileNameMatch.EXACT}],
)
def test_another_route_is_another_meaning(change: dict[str, Any]) -> None:
    """Rows after the position would go elsewhere than those before."""
    assert options_hash(JSONL, replace(ROUTING, **change)) != options_hash(JSONL, ROUTING)


@pytest.mark.parametrize(
    "change", [{"chunk_bytes": 1}, {"compression": Compression.NONE}, {"input_format": InputFormat.JSONL}]
)
def test_another_cut_of_bytes_is_another_meaning(change: dict[str, Any]) -> None:
    """A position of bytes means a chunk of one size."""
    assert options_hash(replace(BYTES, **change), ROUTING) != options_hash(BYTES, ROUTING)


@pytest.mark.parametrize(
    ("input_format", "change", "is_other"),
    [
        (InputFormat.CSV, {"csv": CsvSettings(delimiter=b";")}, True),
        (InputFormat.CSV, {"csv": CsvSettings(quote=b"")}, True),
        (InputFormat.CSV, {"csv": CsvSettings(header=False)}, True),
        (InputFormat.CSV, {"csv": CsvSettings(types=(("a", CsvType.LONG),))}, False),
        (InputFormat.CSV, {"text": TextSettings(start="x")}, False),
        (InputFormat.TEXT, {"text": TextSettings(start="x")}, True),
        (InputFormat.TEXT, {"text": TextSettings(end="x")}, True),
        (InputFormat.TEXT, {"csv": CsvSettings(delimiter=b";")}, False),
        (InputFormat.AUTO, {"csv": CsvSettings(delimiter=b";")}, True),
        (InputFormat.AUTO, {"text": TextSettings(end="x")}, True),
        (InputFormat.JSON, {"csv": CsvSettings(delimiter=b";")}, False),
        (InputFormat.JSON, {"json_path": ("a",)}, True),
        (InputFormat.JSON, {"json_path": ()}, False),
        (InputFormat.JSONL, {"packing": ZIPS}, True),
    ],
)
def test_what_bounds_rows_is_meaning(
    input_format: InputFormat, change: dict[str, Any], *, is_other: bool
) -> None:
    """A position means a row of CSV, text or an inner array by what bounds rows, of these formats alone."""
    plain = decode_options(input_format).format
    changed = options_hash(replace(plain, **change), ROUTING)
    assert (changed != options_hash(plain, ROUTING)) is is_other


def test_which_members_are_read_is_meaning() -> None:
    """Of an archive that was begun, other members would be missing or come twice; bounds decide nothing."""
    plain = replace(JSONL, packing=ZIPS)
    for other, is_other in (
        (replace(ZIPS, members=("*.json",)), True),
        (replace(ZIPS, kind=Packing.AUTO), True),
        (replace(ZIPS, max_members=1, max_bytes=1, max_ratio=2), False),
    ):
        changed = options_hash(replace(plain, packing=other), ROUTING)
        assert (changed != options_hash(plain, ROUTING)) is is_other


def test_another_envelope_is_another_meaning() -> None:
    """Rows of an envelope count as other records."""
    assert options_hash(replace(JSONL, envelope=Envelope.AIVEN), ROUTING) != options_hash(JSONL, ROUTING)


@pytest.mark.parametrize(
    "change",
    [
        {"json_format": JsonFormat.CONNECT},
        {"key_source": ObjectKeySource()},
        {"chunk_bytes": 1},
        {"compression": Compression.GZIP},
        {"record_max_bytes": 10},
    ],
)
def test_what_leaves_positions_alone_does_not_count(change: dict[str, Any]) -> None:
    """How rows look may change in the middle of an object."""
    assert options_hash(replace(JSONL, **change), ROUTING) == options_hash(JSONL, ROUTING)


def test_the_hash_is_pinned() -> None:
    """It stands in ledgers: another value after an upgrade would quarantine every partial object."""
    assert options_hash(JSONL, ROUTING) == "d5d5facdfce14477"


@pytest.mark.parametrize(
    ("layout", "pinned"),
    [
        ("auto", "93d1651a1ca380d7"),
        ("aiven", "754eb1dd9dd56673"),
        ("confluent", "0eda3b0555ad2b1b"),
        ("lenses", "dd3f8bc45dab0d38"),
        ("quix", "390ebaab65a3da1f"),
        ("headrace", "edfe33341e0edd9d"),
    ],
)
def test_the_hash_of_a_restore_is_pinned(layout: str, pinned: str) -> None:
    """As 1.0.0 gave it; options that it did not have count where they are set."""

    def hash_of(**options: str) -> str:
        settings = load_with(_ARCHIVE | {"input.layout": layout, **options})
        return options_hash(settings.format, settings.routing, settings.transforms)

    assert hash_of() == pinned
    if layout == "confluent":
        assert hash_of(**{"directory.delim": "-"}) != pinned
    if layout == "aiven":
        # Rows of it are cut out otherwise than by 1.0.0.
        assert hash_of(**{"format.output.fields.value.encoding": "none"}) != "ed9673adbffbb586"


def test_whose_rows_are_envelopes_is_meaning() -> None:
    """What one sink was told is of its own objects alone; where that says no more, the hash is as before."""
    told = [
        {},
        {"restore.envelope": "yes"},
        {"store.envelope": "true"},
        {"format.output.envelope": "true"},
        {"store.envelope": "true", "format.output.envelope": "true"},
        {"store.envelope": "true", "format.output.envelope": "false"},
        {"store.envelope": "true", "restore.envelope": "no"},
    ]

    def hash_of(layout: str, options: dict[str, str]) -> str:
        settings = load_with(_ARCHIVE | {"input.layout": layout, **options})
        return options_hash(settings.format, settings.routing)

    assert len({hash_of("auto", each) for each in told}) == len(told)
    yes = {"restore.envelope": "yes"}
    assert hash_of("auto", yes) == hash_of("auto", yes | {"store.envelope": "true"})
    assert hash_of("lenses", yes) == hash_of("lenses", {"store.envelope": "true"})
    assert hash_of("aiven", yes) == hash_of("aiven", {"format.output.envelope": "true"})


_OF_LINES = "insert into t select * from bucket:in STOREAS `TEXT` PROPERTIES('read.text.mode'="


@pytest.mark.parametrize(
    ("properties", "pinned"),
    [
        ("'Regex','read.text.regex'='error.*'", "c79cb0c8186a0845"),
        (r"'Regex','read.text.regex'='[a|b~]\d'", "88f8500e6f21f99a"),
        ("'StartEndLine','read.text.start.line'='A'", "87054e68e8494931"),
        ("'StartEndLine','read.text.start.line'='A','read.text.end.line'='B'", "e931699e507e547d"),
    ],
)
def test_the_hash_of_lines_of_lenses_is_pinned(properties: str, pinned: str) -> None:
    """As 1.0.0 gave it, which searched in bytes: an object that it has begun is resumed."""
    options = {
        "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
        "connect.s3.kcql": f"{_OF_LINES}{properties})",
    }
    settings = load_with({"aws.s3.bucket.name": None, **_ARCHIVE, **options})

    assert options_hash(settings.format, settings.routing) == pinned


_LENSES_BYTES = "pre/topic/3/000000000012_1_1.bytes"
_CONFLUENT_BYTES = "topics/orders/partition=0/orders+0+0000000000.bin"


@pytest.mark.parametrize(
    ("options", "key", "is_marked"),
    [
        ({"input.layout": "lenses"}, _LENSES_BYTES, True),
        ({"input.layout": "lenses"}, _LENSES_BYTES.replace(".bytes", ".json"), False),
        ({"input.layout": "confluent"}, _CONFLUENT_BYTES, True),
        ({"input.layout": "confluent"}, _CONFLUENT_BYTES.replace(".bin", ".csv"), True),
        ({"input.layout": "confluent"}, _CONFLUENT_BYTES.replace(".bin", ".json"), False),
        ({"input.layout": "confluent", "input.format": "bytes"}, _CONFLUENT_BYTES, True),
        ({"input.layout": "auto"}, _CONFLUENT_BYTES, True),
        ({"input.layout": "auto"}, _CONFLUENT_BYTES.replace(".bin", ".avro"), False),
        ({"input.layout": "auto"}, "content decides", True),
        ({"input.layout": "aiven"}, "orders-0-1", False),
        ({"input.layout": "quix"}, "orders/0/0000000000000000001.jsonl", False),
        ({"input.format": "bytes", "topic": "t", "file.name.template": ".*"}, "a.bytes", False),
    ],
)
def test_objects_of_bytes_have_a_hash_of_their_own(
    options: dict[str, str], key: str, is_marked: bool
) -> None:
    """1.0.0 unpacked them, so its positions are of other bytes: what it has begun is not resumed."""
    settings = load_with(_ARCHIVE | options)
    assert (options_of_object("hash", settings.format, key) != "hash") is is_marked


_CUTS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"chunk_bytes": 3000}, "-3000"),
    ({"compression": Compression.NONE}, "-stored"),
    ({"chunk_bytes": 3000, "compression": Compression.NONE}, "-3000-stored"),
    ({"compression": Compression.GZIP}, ""),
]


@pytest.mark.parametrize(("change", "mark"), _CUTS)
@pytest.mark.parametrize("key", ["in/x.bin", "x.BYTES", "x.bin.gz", "in/x.jsonl", "x.csv.gz", "x"])
def test_what_cuts_bytes_is_meaning_where_they_are_found(change: dict[str, Any], mark: str, key: str) -> None:
    """Of objects that are called so, and of members of archives; others, and defaults, keep their hash."""
    auto = replace(decode_options(InputFormat.AUTO).format, compression=Compression.AUTO, chunk_bytes=4096)
    changed = replace(auto, **change)
    may_hold_bytes = "bin" in key.lower() or "bytes" in key.lower()

    assert options_hash(changed, ROUTING) == options_hash(auto, ROUTING)
    assert options_of_object("hash", auto, key) == "hash"
    assert options_of_object("hash", changed, key) == f"hash{mark if may_hold_bytes else ''}"
    assert options_of_object("hash", replace(changed, packing=ZIPS), key) == f"hash{mark}"
    # By the format itself it is in the hash of all.
    assert options_of_object("hash", replace(changed, input_format=InputFormat.BYTES), key) == "hash"


def test_routers_send_records_elsewhere_and_other_transforms_do_not() -> None:
    """A half-read object whose records would go to another topic is not resumed."""
    router = TransformStep(alias="a", transform=RegexRouter(pattern="x", replacement="y"))
    drop = TransformStep(alias="a", transform=DropHeaders(names=frozenset({"h"})))
    routed = options_hash(JSONL, ROUTING, TransformChain(steps=(router,), text="x to y"))
    assert routed != options_hash(JSONL, ROUTING)
    assert routed != options_hash(JSONL, ROUTING, TransformChain(steps=(router,), text="x to z"))
    assert options_hash(JSONL, ROUTING, TransformChain(steps=(drop,), text="drop")) == options_hash(
        JSONL, ROUTING
    )
