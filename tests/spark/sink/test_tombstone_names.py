"""Tombstones with names of their own: their objects are opened, closed and committed by those names."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options.given import SettingsError
from spark.sink.object_shape import ObjectShapes
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import Written, sink_settings, written

_TIME_MS: Final = 1_700_000_000_000
_TAIL: Final = "{{topic}}+{{partition}}+{{start_offset}}"
_VALUES: Final = ((b"a", b"1"), (b"a", None), (b"b", b"2"), (b"c", None))
_KEYS: Final = "{{topic}}/gone/{{key}}{{extension}}"


def _options(template: str, changes: Mapping[str, str]) -> dict[str, str]:
    return {
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "file.name.template": f"{{{{topic}}}}/{_TAIL}{{{{extension}}}}",
        "file.compression.type": "none",
        "sidecars": "keys",
        "sidecars.keys.format": "jsonl",
        "sidecars.tombstones.template": template,
        **changes,
    }


def _written(template: str, later_ms: int, changes: Mapping[str, str]) -> Written:
    records = [
        Record("t", 0, offset, _TIME_MS + offset, key, value, ())
        for offset, (key, value) in enumerate(_VALUES)
    ]
    return written(_options(template, changes), records, later_ms=later_ms)


@pytest.mark.parametrize("support", ["required", "disabled"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (_TAIL, "t+0+1"),
        (_TAIL + "-{{end_offset}}", "t+0+1-3"),
        (_TAIL + "_{{first_timestamp}}_{{last_timestamp}}", f"t+0+1_{_TIME_MS + 1}_{_TIME_MS + 3}"),
        ("{{topic}}+{{partition}}+{{batch_offset}}", "t+0+0"),
    ],
)
def test_names_of_tombstones_show_what_those_of_values_do_not(name: str, shown: str, support: str) -> None:
    """What is known at the end among it; objects of values are begun with their names as before."""
    changes = {"exactly.once.support": support, "rotate.together": "first" if "batch" in name else "none"}

    found = _written(f"gone/{name}{{{{extension}}}}", 3_600_000, changes)

    assert sorted(found.objects) == [f"gone/{shown}.keys.jsonl", "t/t+0+0.jsonl", "t/t+0+0.keys.jsonl"]
    assert found.committed == {("t", 0): 4}


@pytest.mark.parametrize(
    ("of_values", "of_tombstones", "closed"),
    [
        ("", "{{date:HH-mm}}/", ["gone"]),
        ("{{date:HH-mm}}/", "", ["gone", "t"]),
        ("", "", []),
        ("{{date:HH}}/", "{{date:HH-mm}}/", ["gone"]),
    ],
)
def test_the_clock_in_the_name_of_tombstones_closes_them(
    of_values: str, of_tombstones: str, closed: list[str]
) -> None:
    """And not the objects of values; that of values closes both, as before."""
    changes = {
        "file.name.template": f"t/{of_values}{_TAIL}{{{{extension}}}}",
        "file.name.timestamp.source": "wallclock",
        "rotate.age.ms": "0",
    }

    found = _written(f"gone/{of_tombstones}{_TAIL}{{{{extension}}}}", 60_000, changes)

    assert sorted({key.split("/")[0] for key in found.objects}) == closed


@pytest.mark.parametrize("where", ["file.name.template", "sidecars.tombstones.template"])
def test_what_shows_the_first_of_all_offsets_is_committed_together(where: str) -> None:
    """After a crash the others are not open together with what they were, and the name would be another's."""
    changes = {"rotate.together": "first", where: "{{topic}}/{{topic}}+{{partition}}+{{batch_offset}}"}
    for options, expected in (({}, False), (changes, True)):
        sink = sink_settings(_options(f"gone/{_TAIL}", options)).sink
        assert sink is not None
        assert ObjectShapes(sink).are_of_batches is expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sidecars.tombstones.template": _KEYS}, "the last tombstone of each key"),
        (
            {
                "sidecars.tombstones.template": "",
                "sidecars.tombstones.directory": "gone",
                "file.name.template": "{{topic}}/{{partition}}/{{start_offset}}/{{key}}",
            },
            "{{topic}}/gone/{{key}}, which names the last tombstone",
        ),
        (
            {"file.name.template": "{{topic}}/{{key}}", "sidecars.tombstones.template": _KEYS},
            "cannot be with file.name.template of keys alone",
        ),
    ],
)
def test_tombstones_of_keys_alone_are_refused(changes: dict[str, str], problem: str) -> None:
    """All but the last of a key were lost, and committed."""
    given = {name: text for name, text in _options(_KEYS, changes).items() if text}

    with pytest.raises(SettingsError) as refused:
        sink_settings(given)

    assert problem in str(refused.value)
