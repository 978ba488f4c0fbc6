"""Scenarios of restores of other vendors' layouts: our sink writes the archive, and its objects come back."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from tests.simulation import first_rows
from tests.simulation.apart import around
from tests.simulation.circumstances import Act, Circumstance, chosen_options
from tests.simulation.hard_reading import with_hard_reading
from tests.simulation.layouts_generator import LAYOUTS
from tests.simulation.layouts_parts import has_no_tombstones, kept_parts
from tests.simulation.layouts_records import bears_line_feeds
from tests.simulation.layouts_restore import restore_options
from tests.simulation.owed_actions import with_owed_actions
from tests.simulation.pairs import all_pairs, drawn_count, valid_options
from tests.simulation.restore_generator import ARCHIVE, RESTORED, restore_steps
from tests.simulation.restore_generator import DIMENSIONS as OF_RESTORE
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_generator import BYTES, STRING
from tests.simulation.sink_records import JSON

ARCHIVED: Final = "my-events-0"
"""With hyphens, and a number at its end: names are read from their ends, and one vendor's have no hyphens."""
OF_ARCHIVE: Final = "archive."
"""Before options of the sink that wrote the archive."""

SINK: Final = {
    "name": "sink",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": ARCHIVE,
    "aws.s3.region": "us-east-1",
    "http.listen": "",
    "topics": ARCHIVED,
    "rotate.together": "first",
    "errors.tolerance": "all",
    "file.name.unique": "assumed",
    "file.name.values": "plain",
}
FIXED: Final = {
    "name": "restore",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": "incoming",
    "aws.s3.region": "us-east-1",
    "http.listen": "",
    "poll.interval.ms": "2000",
}
_SIDES_WAIT: Final = {"restore.sidecars.wait.ms": "3000"}

_WRITTEN: Final[Mapping[str, Mapping[str, Sequence[str | None]]]] = {
    "aiven": {
        "output.format": ("csv", "jsonl", "json", "avro", "parquet"),
        "file.compression.type": (None, "none", "snappy", "zstd"),
        "output.fields": (None, "key,value", "timestamp,value,key,headers", "value"),
        "output.envelope": (None, None, "false"),
        "output.value.encoding": (None, "none"),
        "file.name.template": (
            None,
            "b/{{topic}}-{{partition}}-{{start_offset:padding=true}}",
            "{{timestamp:unit=yyyy}}/{{topic}}-{{partition}}-{{start_offset}}",
        ),
    },
    "confluent": {
        "output.format": ("jsonl", "bytes", "avro", "parquet"),
        "file.compression.type": (None, "gzip", "zstd"),
        "sidecars": (None, "keys", "keys,headers", "headers"),
        "sidecars.keys.format": (None, "jsonl", "parquet", "bytes"),
        "sidecars.headers.format": (None, "jsonl", "parquet"),
        "sidecars.tombstones.directory": (None, "tombstone"),
        "aws.s3.object.tags": ("offsets", None),
        "output.separator": (None, "|\\n"),
        "file.name.template": (
            None,
            "{{topic}}/a={{value:a}}/{{topic}}+{{partition}}+{{start_offset:padding=10}}{{extension}}",
        ),
    },
    "lenses": {
        "output.format": ("jsonl", "avro", "parquet", "csv", "text"),
        "file.compression.type": (None, "gzip", "snappy"),
        "output.envelope": (None, None, "false"),
        "output.fields": (None, "key,value", "key,value,headers"),
        "csv.header": (None,),
        "file.name.template": (
            None,
            "{{topic}}/a={{value:a}}/{{topic}}({{partition}}_{{end_offset:padding=12}}){{extension}}",
        ),
    },
    "quix": {
        "output.format": ("json", "parquet"),
        "file.compression.type": (None, "gzip", "none"),
    },
}
_CONVERTERS: Final[Mapping[str, Sequence[str | None]]] = {
    "value.converter": (JSON, STRING, BYTES),
    "value.converter.schemas.enable": ("false", "true"),
    "key.converter": (None, STRING),
    "rotate.records": ("3", "1", "5"),
}
_OF_SIDES: Final = ("restore.sidecars", "restore.tombstones")
_READ: Final[Mapping[str, Sequence[str | None]]] = {
    **{name: each for name, each in OF_RESTORE.items() if not name.startswith(OF_ARCHIVE)},
    "restore.partition": (None, "modulo", "partitioner"),
    "restore.timestamp": (None, "produce"),
    "record.headers": (None, "source"),
    "input.layout": (None, None, "auto"),
}


def _dimensions(layout: str) -> dict[str, Sequence[str | None]]:
    written = {"output.layout": (layout,), **_WRITTEN[layout], **_CONVERTERS}
    own = {name: values for name, values in _READ.items() if layout == "confluent" or name not in _OF_SIDES}
    return {**{OF_ARCHIVE + name: values for name, values in written.items()}, **own}


_OF_LAYOUT: Final = {layout: _dimensions(layout) for layout in LAYOUTS}
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    name: tuple(dict.fromkeys(value for one in _OF_LAYOUT.values() for value in one.get(name, (None,))))
    for name in dict.fromkeys(name for one in _OF_LAYOUT.values() for name in one)
}
"""Those of all layouts."""


@cache
def _rows(layout: str) -> list[dict[str, str | None]]:
    return all_pairs(_OF_LAYOUT[layout])


def sink_part(options: Mapping[str, str]) -> dict[str, str]:
    """The configuration of the sink that wrote the archive."""
    own = {name.removeprefix(OF_ARCHIVE): one for name, one in options.items() if name.startswith(OF_ARCHIVE)}
    return SINK | own


_START: Final = Act((0.1, 2.0), "start")
_COMMON: Final = {
    "half read": Circumstance(
        {
            "transaction.boundary.records": "1",
            "exactly.once.support": None,
            "archive.rotate.records": "5",
            "sqs.queue.url": None,
        },
        ("kill", "kill worker", "commit unanswered"),
        orders=("sorted",),
        portions=(1,),
        counts=(6, 9, 12),
        story=(
            Act((0.0,), "await", {"what": "another transaction"}),
            Act((0.0, 0.004, 0.02), ("kill", "kill worker")),
            _START,
        ),
    ),
    "taken away as it is done": Circumstance(
        {"post.action": ("delete", "move:done/"), "archive.rotate.records": ("1", "3")},
        ("kill", "stop", "commit unanswered"),
        orders=("random", "sorted"),
    ),
    "several slots, one partition": Circumstance(
        {
            "archive.rotate.records": "1",
            "archive.sidecars.tombstones.directory": None,
            "ordering": (None, "partition"),
            "job.max.objects": (None, "1"),
            "tasks.max": (None, "3"),
            "restore.partition": None,
            "sqs.queue.url": None,
            "exactly.once.support": None,
            "input.layout": None,
            "archive.file.name.template": None,
        },
        ("kill worker", "executor lost", "kill"),
        orders=("sorted", "random"),
        portions=(1,),
        # More than ten, which names without zeros have in another order.
        counts=(9, 12, 14),
        # All objects are there when it begins.
        before=(Act((0.0,), "wait"),),
    ),
}
_BESIDE: Final = {
    "archive.sidecars": ("keys", "keys,headers"),
    "archive.sidecars.tombstones.directory": ("tombstone", None),
    "archive.rotate.records": ("1", "3"),
    "archive.output.separator": None,
    "post.action": ("delete", "move:done/", None),
    "restore.sidecars": None,
    "object.min.age.ms": None,
}
_OF_KEYS: Final = {
    "keys that are late": Circumstance(_BESIDE, ("kill", "stop"), bad_share=0.3, orders=("values first",)),
    "keys of some first": Circumstance(
        _BESIDE, ("kill", "stop"), bad_share=0.1, orders=("keys of some first",)
    ),
    "tombstones first": Circumstance(
        _BESIDE, ("kill", "stop"), bad_share=0.4, orders=("tombstones first",), counts=(4, 6)
    ),
}


def archives_scenario(seed: int) -> Scenario:
    """The scenario of a seed: the layouts in turn, and of each pairs of options in their order first."""
    rng = random.Random(f"archives-{seed}")
    layout, place = LAYOUTS[seed // 2 % len(LAYOUTS)], seed // 2 // len(LAYOUTS)
    circumstances = _COMMON | _OF_KEYS if layout == "confluent" else _COMMON
    chosen, about = chosen_options(
        rng, 2 * place + seed % 2, _rows(layout), _OF_LAYOUT[layout], circumstances
    )
    written = {
        name.removeprefix(OF_ARCHIVE): one for name, one in chosen.items() if name.startswith(OF_ARCHIVE)
    }
    if _needs_members(layout, written):
        written["value.converter"] = JSON
    first = first_rows.drawn(seed, layout, written)
    sink = {"output.format": "jsonl", **valid_options(written, SINK | {"output.layout": layout}, {})}
    own = {name: one for name, one in chosen.items() if not name.startswith(OF_ARCHIVE)}
    known = {"restore.topic.map": f"{_written_topic(layout)}:{RESTORED}", **restore_options(sink)}
    if layout == "confluent":
        known |= _SIDES_WAIT
    if "file.name.template" in sink and layout == "aiven":
        known["file.name.template"] = sink["file.name.template"]
    if own["input.layout"] == "auto":
        known["input.layout"] = "auto"
        known.pop("file.name.template", None)
    del own["input.layout"]
    if first is not None:
        known |= first_rows.OPTIONS
        if known.get("restore.envelope") == "yes" and first_rows.shows_its_form(seed):
            del known["restore.envelope"], known["input.format"]
    options = valid_options(own, FIXED | known, {})
    archive = {OF_ARCHIVE + name: one for name, one in sink.items() if name not in SINK}
    partitions = rng.choice((1, 1, 2))
    records = tuple(_records(rng, partitions, sink, about))
    drawn = first_rows.with_first(restore_steps(rng, about), first)
    steps = around("archives", seed, with_hard_reading("archives", seed, drawn), denied=(RESTORED, ARCHIVED))
    options, steps = with_owed_actions("archives", seed, options, steps)
    return Scenario(
        seed=seed,
        direction="archives",
        options=options | archive,
        topics={ARCHIVED: partitions},
        records=records,
        steps=steps,
    )


def _needs_members(layout: str, written: Mapping[str, str | None]) -> bool:
    """Whether rows are records, which values without members are not."""
    is_bare = layout in ("confluent", "quix") or written.get("output.envelope") == "false"
    return layout == "quix" or (is_bare and written["output.format"] in ("avro", "parquet", "csv"))


def _written_topic(layout: str) -> str:
    return ARCHIVED.replace("-", "_") if layout == "quix" else ARCHIVED


_HEADERS: Final = ((("h", b"one"),), (("h", b"two"), ("x-y", b"\xc3\xa9")), (("h", b""),))


def _records(
    rng: random.Random, partitions: int, sink: Mapping[str, str], about: Circumstance | None
) -> Iterator[Given]:
    """Records that the sink can write: with what objects next to values need, and tombstones with keys."""
    kept, sides = kept_parts(sink), sink.get("sidecars", "")
    share = rng.choice((0.0, 0.1, 0.3)) if "key" in kept and not has_no_tombstones(sink) else 0.0
    if about is not None and about.bad_share is not None and share:
        share = about.bad_share
    counts = () if about is None else about.counts
    for number in range(rng.choice(counts) if counts else drawn_count(rng, small=(2, 4, 6), big=(12, 25))):
        key = b"k%d" % number if "keys" in sides else rng.choice((b"k%d" % number, None))
        value: bytes | None = _value(rng, number, sink)
        if rng.random() < share:
            value, key = None, b"k%d" % number
        headers = rng.choice(_HEADERS if "headers" in sides else ((), *_HEADERS))
        stamp = 1_700_000_000_000 + number * rng.choice((1, 1, 1_800_000))
        yield Given(ARCHIVED, rng.randrange(partitions), key, value, stamp, headers)


def _value(rng: random.Random, number: int, sink: Mapping[str, str]) -> bytes:
    if sink.get("value.converter") == JSON:
        row = b'{"n":%d,"a":"%b"}' % (number, rng.choice((b"x", b"y", b"\xc3\xa9")))
        if sink.get("value.converter.schemas.enable") != "true":
            return row
        fields = b'[{"field":"n","type":"int64"},{"field":"a","type":"string"}]'
        schema = b'{"type":"struct","optional":true,"name":"rows.Value","fields":%b}' % fields
        return b'{"schema":%b,"payload":%b}' % (schema, row)
    ends = [b"", b" two, three", b' "quoted"', b"\xc3\xa9"]
    if bears_line_feeds(sink):
        ends.append(b"\nand more")
    if sink.get("value.converter") in (None, BYTES) and sink["output.format"] != "text":
        ends.append(b"\xff\x00")
    return b"plain %d;%b" % (number, rng.choice(ends))
