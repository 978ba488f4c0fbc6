"""Scenarios of the sink that writes other vendors' layouts: all pairs of what each of them takes."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from headrace.options.layout_checks import FORMS
from tests.simulation.apart import (
    LOG_CUT,
    around,
    by_schemas,
    store_steps,
    with_cut_logs,
    with_foreign_names,
    with_unknown_topics,
)
from tests.simulation.circumstances import SINK, Circumstance, chosen_options
from tests.simulation.layouts_records import layout_records
from tests.simulation.pairs import all_pairs, valid_options
from tests.simulation.scenario import Scenario
from tests.simulation.schemas import AVRO, JSON_SCHEMA
from tests.simulation.sink_generator import (
    BESIDE,
    BUCKET,
    BYTES,
    CHANGING,
    FAULTS,
    LETTERS,
    OPERATIONS,
    SECOND,
    STRING,
    Table,
    sink_steps,
)
from tests.simulation.sink_generator import DIMENSIONS as OF_SINK
from tests.simulation.sink_generator import FIXED as FIXED_OF_SINK
from tests.simulation.sink_records import JSON, records_by_schemas

__all__ = ["CHANGED", "DIMENSIONS", "FAULTS", "FIXED", "LAYOUTS", "OPERATIONS", "layout_scenario"]

LAYOUTS: Final = ("aiven", "confluent", "lenses", "quix")
FIXED: Final = dict(FIXED_OF_SINK)
CHANGED: Final = tuple(name for name in CHANGING if name != "output.format")
_SIMPLE: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_TOPIC: Final = "events-"
"""With a hyphen, which one vendor's names alter and another's separate with."""

_AIVEN: Final = "{{topic}}-{{partition}}-{{start_offset}}{{extension}}"
_CONFLUENT: Final = "{{topic}}+{{partition}}+{{start_offset:padding=10}}{{extension}}"
_LENSES: Final = "{{topic}}({{partition}}_{{end_offset:padding=12}}){{extension}}"
_LENSES_TIMES: Final = "{{end_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}{{extension}}"
_QUIX: Final = "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}{{extension}}"
# As their translations write them; the first is of values, by which circumstances group.
_NAMES: Final[Mapping[str, Sequence[str | None]]] = {
    "aiven": (
        f"{{{{value:a}}}}/{_AIVEN}",
        None,
        "b/{{topic}}-{{partition}}-{{start_offset:padding=20}}{{extension}}",
        f"{{{{key}}}}/{_AIVEN}",
        f"{{{{timestamp:unit=yyyy}}}}-{{{{timestamp:unit=MM}}}}-{{{{timestamp:unit=dd}}}}/{_AIVEN}",
    ),
    "confluent": (
        f"{{{{topic}}}}/a={{{{value:a}}}}/{_CONFLUENT}",
        None,
        f"{{{{topic}}}}/partition={{{{partition}}}}/{_CONFLUENT}",
        f"{{{{topic}}}}/{{{{joda:'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH}}}}/{_CONFLUENT}",
        f"{{{{topic}}}}/a={{{{value:a}}}}/b.c={{{{value:b.c}}}}/{_CONFLUENT}",
    ),
    "lenses": (
        f"a={{{{value:a}}}}/{_LENSES}",
        None,
        f"{{{{topic}}}}/{{{{partition:padding=5}}}}/{_LENSES_TIMES}",
        f"{{{{key}}}}/h={{{{header:h}}}}/{_LENSES}",
        f"date={{{{date:yyyy-MM-dd-HH}}}}/{_LENSES}",
    ),
    "quix": (f"{{{{value:a}}}}/{_QUIX}", None, f"{{{{date:yyyy}}}}/{_QUIX}"),
}
_BY_SCHEMA: Final = {
    "aiven": (f"{{{{schema_name}}}}/{_AIVEN}",),
    "confluent": (f"{{{{topic}}}}/schema={{{{schema_name}}}}/{_CONFLUENT}",),
    "lenses": (f"schema={{{{schema_name}}}}/{_LENSES}",),
    "quix": (f"{{{{schema_name}}}}/{_QUIX}",),
}
_OWN: Final[Mapping[str, Mapping[str, Sequence[str | None]]]] = {
    "aiven": {
        "output.fields": (None, "value", "key,value,timestamp", "value,offset", "headers,key,offset,value"),
        "output.envelope": (None, "false"),
        "output.value.encoding": (None, "none"),
        "output.avro.codec": (None, "deflate", "snappy", "zstandard"),
        "header.converter": (None, STRING),
    },
    "confluent": {
        "sidecars": (None, "keys", "headers", "keys,headers"),
        "sidecars.keys.format": (None, "parquet", "jsonl", "bytes"),
        "sidecars.headers.format": (None, "parquet", "jsonl"),
        "sidecars.keys.compression.type": (None, "gzip", "none"),
        "sidecars.tombstones.directory": (None, "tombstone"),
        "aws.s3.object.tags": (None, "offsets"),
        "json.decimal.format": (None, "numeric"),
        "output.avro.enhanced.schemas": (None, "false"),
        "output.avro.connect.metadata": (None, "false"),
        "output.bytes.extension": (None, ".dat"),
        "output.separator": (None, "|\\n"),
        "header.converter": (None, STRING),
    },
    "lenses": {
        "output.fields": (None, "key,value", "key,value,headers", "topic,partition,offset,timestamp,value"),
        "output.envelope": (None, "false"),
        "output.newlines": (None, "escaped"),
        "csv.header": (None, "false"),
        "header.converter": (None, STRING, _SIMPLE),
    },
    "quix": {},
}


def _dimensions(layout: str) -> dict[str, Sequence[str | None]]:
    forms = next(form for name, form in FORMS.items() if name == layout).formats
    codecs = dict.fromkeys(str(each) for each_of in forms.values() for each in each_of)
    return {
        **OF_SINK,
        "output.layout": (layout,),
        "output.format": tuple(map(str, forms)),
        "file.compression.type": (None, *codecs),
        "value.converter": (JSON, STRING, BYTES, None, AVRO),
        "key.converter": (None, STRING),
        "file.name.template": _NAMES[layout],
        "file.name.values": ("plain", None),
        "transforms": (None, "i", "flatten", "header"),
        "aws.s3.prefix": (None, "topics/"),
        "behavior.on.null.values": (None, "ignore", "fail"),
        **_OWN[layout],
    }


_OF_LAYOUT: Final = {layout: _dimensions(layout) for layout in LAYOUTS}
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    name: tuple(dict.fromkeys(value for one in _OF_LAYOUT.values() for value in one.get(name, (None,))))
    for name in dict.fromkeys(name for one in _OF_LAYOUT.values() for name in one)
}
"""Those of all layouts."""


@cache
def _rows(layout: str) -> list[dict[str, str | None]]:
    return all_pairs(_OF_LAYOUT[layout])


_KEPT: Final = ("rotate.", "exactly.once", "errors.", "max.open", "tasks.max")


def _circumstance(layout: str, about: Circumstance, *, is_beside: bool = False) -> Circumstance:
    """That of the sink, in a layout: its options of rotation and errors, in names of two groups."""
    options = {name: value for name, value in about.options.items() if name.startswith(_KEPT)}
    if "file.name.template" in about.options:
        options |= {"file.name.template": _NAMES[layout][:2], "value.converter": (JSON, JSON, None)}
    if is_beside:
        options |= {
            "sidecars": ("keys", "keys,headers"),
            "sidecars.tombstones.directory": (None, "tombstone", "tombstone"),
            "behavior.on.null.values": None,
            "transforms": None,
        }
    return about._replace(options=options)


@cache
def _circumstances(layout: str) -> dict[str, Circumstance]:
    names = [name for name in SINK if name not in ("types that change", "events of changed rows")]
    found = {name: _circumstance(layout, SINK[name]) for name in names}
    if layout == "confluent":
        beside = {f"beside: {name}": _circumstance(layout, SINK[name], is_beside=True) for name in names}
        # Of each the same, so that half of them have keys next to values.
        found = {name: one for pair in zip(found.items(), beside.items(), strict=True) for name, one in pair}
    return found


def layout_scenario(seed: int) -> Scenario:
    """The scenario of a seed: the layouts in turn, and of each pairs of options in their order first."""
    rng = random.Random(f"layouts-{seed}")
    layout, place = LAYOUTS[seed // 2 % len(LAYOUTS)], seed // 2 // len(LAYOUTS)
    drawn = chosen_options(
        rng, 2 * place + seed % 2, _rows(layout), _OF_LAYOUT[layout], _circumstances(layout)
    )
    converters = (AVRO, AVRO, JSON_SCHEMA)
    chosen, about, of_schemas = by_schemas("layouts", seed, drawn, _BY_SCHEMA[layout], converters)
    topics = {f"{_TOPIC}{number}": rng.choice((1, 1, 2, 3)) for number in range(rng.choice((1, 1, 2)))}
    if about is not None and about.partitions:
        topics = {f"{_TOPIC}0": rng.choice(about.partitions)}
    # The layout first: what it does not take is left out, and not the layout.
    fixed = {**FIXED, "topics": ",".join(topics), "output.layout": layout}
    options = {"output.format": "jsonl", **valid_options(chosen, fixed, BESIDE)}
    records = tuple(
        layout_records(rng, topics, options, about)
        if of_schemas is None or options.get("value.converter") not in converters
        else records_by_schemas(of_schemas, topics, options, about, is_numbered=True)
    )
    table = Table(_OF_LAYOUT[layout], fixed, BESIDE, CHANGED)
    steps = sink_steps(rng, len(records), options, topics, about, table)
    steps = with_foreign_names("layouts", seed, steps)
    steps = with_cut_logs("layouts", seed, steps, list(topics))
    if any(step.act == LOG_CUT for step in steps):
        # What is sent then shows numbers of its own, by which rows are told apart.
        anew = random.Random(f"anew-{seed}")
        records += tuple(layout_records(anew, topics, options, about, first=len(records)))
    steps = around("layouts", seed, steps, denied=(*topics, LETTERS), retained=list(topics))
    steps = with_unknown_topics("layouts", seed, steps, list(topics))
    return Scenario(
        seed=seed,
        direction="layouts",
        options=options,
        topics=topics,
        records=records,
        steps=(*store_steps("layouts", seed, (BUCKET, SECOND)), *steps),
    )
