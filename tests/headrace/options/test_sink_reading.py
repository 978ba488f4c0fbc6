"""How a sink reads its topics: what its operator may decide, what is warned of, and what is refused."""

import json
from collections.abc import Mapping

import pytest

from headrace.options import Settings, SettingsError
from headrace.options.choices import IsolationLevel, OffsetReset
from headrace.options.sink_settings import ReadSettings
from headrace.vendors.load import load
from ingest.cli.configuration_commands import translated_shape
from tests.headrace.options.loading import COMPLETE, no_file

_SINK: Mapping[str, str] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders,payments",
}
_AIVEN: Mapping[str, str] = {
    **_SINK,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
_ISOLATION = "consumer.override.isolation.level"
_DECIDED = "would weaken the guarantee; Headrace decides it itself: remove it"
_RESET = "consumer.override.auto.offset.reset"


def _load(options: Mapping[str, str], *, worker: str | None = None) -> Settings:
    text = json.dumps(options)
    return load(text, kind="json", environment={}, read_file=no_file, worker_config=worker)


def _reading(options: Mapping[str, str], *, worker: str | None = None) -> ReadSettings:
    sink = _load(options, worker=worker).sink
    assert sink is not None
    return sink.reading


def _problem(options: Mapping[str, str], *, worker: str | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        _load(options, worker=worker)
    (problem,) = caught.value.problems
    return str(problem)


def test_committed_records_from_the_beginning_by_default() -> None:
    """Without a warning, given or not."""
    assert _reading(_SINK) == ReadSettings()
    given = _load({**_SINK, _ISOLATION: "read_committed", _RESET: "earliest"})
    assert given.sink is not None
    assert given.sink.reading == ReadSettings()
    assert given.warnings == ()


@pytest.mark.parametrize("options", [_SINK, _AIVEN], ids=["ours", "aiven"])
def test_read_uncommitted_is_one_warning_that_names_the_option_and_what_it_costs(
    options: Mapping[str, str],
) -> None:
    """Also beside another maker's class, whose sinks read so by default."""
    settings = _load({**options, _ISOLATION: "READ_UNCOMMITTED"})
    assert settings.sink is not None
    assert settings.sink.reading.isolation is IsolationLevel.READ_UNCOMMITTED
    found = [one for one in settings.warnings if _ISOLATION in one]
    expected = (
        f"{_ISOLATION} = read_uncommitted: records of transactions that are aborted, or not ended yet, are "
        "archived like any other, and no object tells them apart; without it only committed records are"
    )
    assert found == [expected]


@pytest.mark.parametrize("name", ["isolation.level", "auto.offset.reset"])
def test_no_other_client_gets_them(name: str) -> None:
    """Ledger and group are read as the protocol needs it."""
    settings = _load({**_SINK, _ISOLATION: "read_uncommitted", _RESET: "latest"})
    assert all(name not in settings.kafka.client(role) for role in ("producer", "consumer", "admin"))


def test_where_topics_begin_that_nobody_has_read() -> None:
    """`latest`, of what is there at the first start."""
    assert _reading({**_SINK, _RESET: "latest"}).reset is OffsetReset.LATEST


def test_a_workers_file_decides_for_its_sinks_and_the_connector_wins() -> None:
    """In Connect, too, a worker's `consumer.*` is what its sinks read with."""
    worker = "consumer.isolation.level=read_uncommitted\nconsumer.auto.offset.reset=latest\n"
    assert _reading(_SINK, worker=worker) == ReadSettings(
        isolation=IsolationLevel.READ_UNCOMMITTED, reset=OffsetReset.LATEST
    )
    assert _reading({**_SINK, _ISOLATION: "read_committed"}, worker=worker).isolation == "read_committed"
    (warning,) = _load(_SINK, worker=worker).warnings
    assert warning.startswith("consumer.isolation.level = read_uncommitted: ")


def test_a_source_passes_over_what_a_workers_file_says_of_sinks() -> None:
    """The ledger that it reads stays read as before."""
    worker = "consumer.isolation.level=read_uncommitted\nconsumer.auto.offset.reset=latest\n"
    settings = _load(COMPLETE, worker=worker)
    assert settings.warnings == ()
    assert settings.kafka.client("consumer") == _load(COMPLETE).kafka.client("consumer")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({_ISOLATION: "dirty"}, f"{_ISOLATION} = 'dirty': expected read_committed or read_uncommitted"),
        ({_RESET: "none"}, f"{_RESET} = 'none': expected earliest or latest"),
        (
            {"consumer.isolation.level": "read_uncommitted"},
            f"consumer.isolation.level: is not an option of Headrace; did you mean {_ISOLATION}?",
        ),
        (
            {"producer.override.isolation.level": "x"},
            f"producer.override.isolation.level = 'x': {_DECIDED}",
        ),
    ],
)
def test_what_is_refused(changes: Mapping[str, str], problem: str) -> None:
    """One sentence each."""
    assert _problem({**_SINK, **changes}) == problem


def test_a_source_decides_neither() -> None:
    """What it reads is the ledger."""
    assert _DECIDED in _problem({**COMPLETE, _ISOLATION: "read_uncommitted"})


_GROUP = "consumer.override.group.id"


def test_another_vendors_sink_continues_in_the_group_that_it_was_given() -> None:
    """Without it the group is the one that Connect names; begun there, all would be archived again."""
    assert (sink := _load({**_AIVEN, _GROUP: "backup"}).sink) is not None
    assert sink.group_id == "backup"
    assert (named := _load(_AIVEN).sink) is not None
    assert named.group_id == "connect-archive"


def test_a_workers_file_gives_its_sinks_a_group() -> None:
    """Connect has it win over its own name of a group; a connector's own line wins over both."""
    file = "consumer.group.id=backups"
    assert (sink := _load(_AIVEN, worker=file).sink) is not None
    assert sink.group_id == "backups"
    assert (sink := _load({**_AIVEN, _GROUP: "own"}, worker=file).sink) is not None
    assert sink.group_id == "own"


@pytest.mark.parametrize("configuration", [COMPLETE, _SINK], ids=["a source", "our own sink"])
def test_a_workers_group_is_passed_over_by_what_has_its_own(configuration: Mapping[str, str]) -> None:
    """Connect's sources have none, and its file is not written for our sinks."""
    settings = _load(configuration, worker="consumer.group.id=backups")
    assert settings.sink is None or settings.sink.group_id == settings.name
    assert "group.id" not in settings.kafka.client("consumer")


def test_no_client_gets_that_group() -> None:
    """Ledger and leadership have groups of their own."""
    settings = _load({**_AIVEN, _GROUP: "backup"})
    assert all("group.id" not in settings.kafka.client(role) for role in ("producer", "consumer", "admin"))


@pytest.mark.parametrize(
    "group", ["connect-S3 Sink Prod", "connect-team/orders:eu", "connect-é→s3", "x" * 999]
)
def test_a_group_need_not_be_a_name(group: str) -> None:
    """Connect makes one of any connector's name. `translate` says that it does not go over."""
    settings = _load({**_AIVEN, _GROUP: f" {group} "})
    found = translated_shape(settings)

    assert settings.sink is not None
    assert settings.sink.group_id == group
    assert found["config"]["name"] == settings.name
    assert _GROUP not in found["config"]
    assert [
        each for each in found["warnings"] if f"does not continue at the offsets of group {group!r}" in each
    ]


@pytest.mark.parametrize("group", ["a\nb", "a*", "${*}", "\ud800", "", "x" * 1001])
def test_a_group_that_policies_cannot_name_is_refused(group: str) -> None:
    """A control character is none of Connect's, and three signs mean something else in AWS's policies."""
    with pytest.raises(SettingsError) as caught:
        _load({**_AIVEN, _GROUP: group})
    assert [each.option for each in caught.value.problems] == [_GROUP]


@pytest.mark.parametrize("name", ["S3 Sink Prod", "team/orders:eu"])
def test_a_name_that_a_sink_may_not_have_says_how_another_takes_over(name: str) -> None:
    """One problem, with the group that Connect made of it."""
    problem = _problem({**_AIVEN, "name": name})

    assert problem.startswith(f"name = {name!r}: expected 1 to 200 of a-z A-Z 0-9 . _ -; to continue where")
    assert problem.endswith(f"choose another name, and set {_GROUP}=connect-{name}")
    assert "takeover" not in _problem({**_SINK, "name": name})


def test_translated_it_is_the_sinks_name() -> None:
    """In our own options a sink's group has its name, and the line of Connect is gone."""
    found = translated_shape(_load({**_AIVEN, _GROUP: "backup"}))["config"]
    assert found["name"] == "backup"
    assert (sink := _load(found).sink) is not None
    assert sink.group_id == "backup"


def test_a_sink_of_our_own_has_the_group_of_its_name() -> None:
    """Another one is refused."""
    assert _DECIDED in _problem({**_SINK, _GROUP: "backup"})
