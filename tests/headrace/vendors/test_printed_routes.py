"""What `headrace translate` prints of a sink with routes: it loads as it is, and is the same sink."""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from headrace.options import SettingsError
from headrace.options.declarations import BY_NAME
from ingest.cli.configuration_commands import translated_shape
from tests.headrace.vendors.test_own_options import ALL, choices
from tests.ingest.cli.test_translate import meaning
from tests.support.sink_archives import sink_settings

_ROUTED: Final = (
    "output.layout",
    "output.format",
    "output.envelope",
    "file.compression.type",
    "file.name.values",
    "sidecars",
    "sidecars.keys.format",
    "rotate.together",
    "behavior.on.null.values",
)
"""What other options of a route have a meaning by."""
_KCQL: Final = "connect.s3.kcql"
_BY_STATEMENTS: Final = {
    **ALL["lenses"],
    "topics": "t,u",
    _KCQL: "INSERT INTO bucket SELECT * FROM t STOREAS PARQUET PROPERTIES('store.envelope'=true);"
    "INSERT INTO other:p SELECT * FROM u STOREAS JSON",
}


def _routed(config: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The vendor's configuration of two topics, one of which has a route of its own."""
    given = {**config, "topics": "t,u", "route.r.topics": "u"}
    if _KCQL in config:
        given[_KCQL] = config[_KCQL].replace("FROM t", "FROM *")
    return given | {f"route.r.{name}": text for name, text in own.items()}


def _is_printed_as_it_is(given: Mapping[str, str]) -> bool:
    """Whether it loads; then what is printed of it has to load, and to mean the same."""
    try:
        theirs = sink_settings(given)
    except SettingsError:
        return False
    found = translated_shape(theirs)
    assert found["hidden"] == []
    printed = sink_settings(found["config"])
    assert meaning(printed, printed.name) == meaning(theirs, printed.name), given
    return True


def _changes() -> Iterator[dict[str, str]]:
    for name in _ROUTED:
        for text in choices(BY_NAME[name]):
            yield {name: text}


@pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())
def test_what_is_printed_of_routes_is_the_same_sink(config: Mapping[str, str]) -> None:
    """A default of the vendor's gives way to a route's own option; printed, it was as good as written."""
    found = [_is_printed_as_it_is(_routed(config, own)) for own in _changes()]
    assert sum(found) > len(found) // 4


@pytest.mark.parametrize("own", [*_changes()], ids=str)
def test_what_is_printed_of_statements_is_the_same_sink(own: Mapping[str, str]) -> None:
    """Statements become routes, whose own defaults give way to options of ours as well."""
    _is_printed_as_it_is({**_BY_STATEMENTS, **own})


@pytest.mark.parametrize(
    ("config", "own", "printed"),
    [
        ("confluent keys", {"output.format": "jsonl"}, {"route.r.file.compression.type": "auto"}),
        ("aiven csv", {"output.layout": "quix"}, {"route.r.output.format": "jsonl"}),
        ("aiven csv", {"output.format": "parquet"}, {"output.value.encoding": "base64"}),
    ],
)
def test_a_default_that_cannot_be_in_a_route_is_printed_as_ours(
    config: str, own: Mapping[str, str], printed: Mapping[str, str]
) -> None:
    """And one that means nothing there stays the sink's."""
    found = translated_shape(sink_settings(_routed(ALL[config], own)))["config"]
    assert {name: found.get(name) for name in printed} == printed


@pytest.mark.parametrize(
    ("config", "own", "problem"),
    [
        (
            {**ALL["aiven csv"], "format.output.type": "parquet", "file.compression.type": "zstd"},
            {"output.layout": "lenses", "output.format": "csv"},
            "file.compression.type",
        ),
        (ALL["confluent"], {"output.format": "csv"}, "route.r.output.format"),
    ],
)
def test_what_was_written_and_cannot_be_in_a_route_is_refused(
    config: Mapping[str, str], own: Mapping[str, str], problem: str
) -> None:
    """It says how objects are to be, and they would be others."""
    with pytest.raises(SettingsError) as caught:
        sink_settings(_routed(config, own))
    assert any(each.option.startswith(problem) for each in caught.value.problems), caught.value.problems
