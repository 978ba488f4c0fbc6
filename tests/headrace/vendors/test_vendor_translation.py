"""What every translation of another maker's configuration does, with a maker of the tests' own."""

from collections.abc import Mapping

import pytest

from headrace.options import SettingsError
from headrace.options.vendor import Fate
from tests.headrace.options.loading import own_options
from tests.headrace.vendors.vendor_example import load_example


def _problems(changes: Mapping[str, str | None]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_example(changes)
    return [str(problem) for problem in caught.value.problems]


def test_a_makers_configuration_becomes_ours() -> None:
    """What is kept is renamed, what its sink always does is set."""
    settings = load_example()
    sink = settings.sink

    assert sink is not None
    assert (settings.s3.bucket, sink.rotation.records, sink.rotation.age_ms) == ("bucket", 7, 0)
    assert sink.topics.names == ("orders",)


def test_offsets_are_those_of_the_connect_connector() -> None:
    """The group is the one that Connect made for the connector."""
    sink = load_example().sink

    assert sink is not None
    assert sink.group_id == "connect-archive"


def test_secrets_are_replaced_and_not_shown() -> None:
    """References are passed on as references."""
    settings = load_example()

    assert own_options(settings)["aws.secret.access.key"] == "${env:SECRET}"
    assert "hunter2" not in repr(settings)


def test_our_own_options_beside_theirs_win_with_a_warning() -> None:
    """Whoever writes ours means it."""
    settings = load_example({"rotate.records": "9"})

    assert settings.sink is not None
    assert settings.sink.rotation.records == 9
    assert any("rotate.records wins over example.count" in warning for warning in settings.warnings)
    alone = load_example({"rotate.records": "9", "example.count": None})
    assert not any("wins over" in warning for warning in alone.warnings)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        (r"\Qdb.orders\E.*", "db.orders-eu"),
        (r"(?<env>prod|dev)\..*", "prod.orders"),
        (r"\p{Alpha}+-events", "clicks-events"),
    ],
)
def test_a_pattern_is_java_as_it_is_everywhere_else_in_connect(pattern: str, topic: str) -> None:
    """RegexRouter took these, and topics.regex did not."""
    settings = load_example({"topics": None, "topics.regex": pattern})

    assert settings.sink is not None
    assert settings.sink.topics.has(topic)
    assert not settings.sink.topics.has(f"x.{topic}")


@pytest.mark.parametrize(
    ("changes", "names", "pattern"),
    [
        ({"topics.regex": ""}, ("orders",), None),
        ({"topics": " ", "topics.regex": "or.*"}, (), "or.*"),
        ({"errors.deadletterqueue.topic.name": "", "errors.tolerance": "all"}, ("orders",), None),
        ({"errors.deadletterqueue.topic.name": "${env:NO_TOPIC}"}, ("orders",), None),
    ],
)
def test_an_empty_default_of_connect_is_none(
    changes: Mapping[str, str], names: tuple[str, ...], pattern: str | None
) -> None:
    """Tools that fill in all options of a connector write these."""
    settings = load_example(changes)

    assert settings.sink is not None
    assert (settings.sink.topics.names, settings.sink.topics.pattern) == (names, pattern)
    assert settings.errors.dead_letter is None


def test_a_sink_without_topics_is_still_a_problem() -> None:
    """Both may be left empty in Connect's form, and its sink does not start then either."""
    assert _problems({"topics": "", "topics.regex": ""}) == ["topics: is missing; set it or topics.regex"]


@pytest.mark.parametrize(
    ("name", "text", "used"),
    [
        ("session.timeout.ms", "300000", "60000"),
        ("session.timeout.ms", "60000", "60000"),
        ("max.poll.interval.ms", "2147483647", "86400000"),
        ("max.poll.interval.ms", "900000", "900000"),
    ],
)
def test_a_longer_silence_than_is_borne_here_is_cut(name: str, text: str, used: str) -> None:
    """Pages of vendors recommend it, and nothing of what is written depends on it."""
    option = f"consumer.override.{name}"
    settings = load_example({option: text, "consumer.override.heartbeat.interval.ms": "100000"})

    assert settings.translated is not None
    assert own_options(settings)[option] == used
    assert settings.kafka.client("consumer")[name] == used
    assert "consumer.override.heartbeat.interval.ms" not in own_options(settings)
    warned = [each for each in settings.warnings if each.startswith(f"{option}: {text} is more than ")]
    lines = [(each.option, each.fate) for each in settings.translated if each.option == option]
    assert (len(warned), lines) == ((0, []) if text == used else (1, [(option, Fate.CHANGED)]))


@pytest.mark.parametrize("text", ["1000", "long"])
def test_a_silence_that_is_none_is_still_a_problem(text: str) -> None:
    """So short no broker takes it."""
    (problem,) = _problems({"consumer.override.session.timeout.ms": text})
    assert "expected a whole number of milliseconds from 6,000 to 60,000" in problem


def test_needless_options_are_one_warning() -> None:
    """Nothing is ignored in silence, and nothing fills the log."""
    settings = load_example({"example.pool.size": "5", "example.pool.age": "6"})

    (warning,) = [each for each in settings.warnings if "example.pool" in each]
    assert "example.pool.age, example.pool.size" in warning


def test_each_option_has_a_line() -> None:
    """What `headrace translate` prints."""
    translated = load_example({"example.size": "large"}).translated

    assert translated is not None
    lines = {line.option: (line.fate, line.note) for line in translated}
    assert lines["example.size"] == (Fate.CHANGED, "rotate.bytes, in two sizes")
    assert "connector.class" not in lines


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"example.count": "0"}, "example.count = '0': expected a whole number from 1 to"),
        ({"example.count": "many"}, "example.count = 'many': expected a whole number from 1 to"),
        ({"example.count": "1_0"}, "example.count = '1_0': expected a whole number from 1 to"),
        ({"example.count": "\uff15"}, "example.count = '\uff15': expected a whole number from 1 to"),
        ({"example.size": "huge"}, "example.size = 'huge': expected one of none, large"),
        ({"example.small": "yes"}, "example.small = 'yes': expected one of true, false"),
        ({"example.lossy": "true"}, "example.lossy: loses records; remove it"),
        ({"example.bucket": "s3://no"}, "example.bucket = 's3://no': expected the bare name of a bucket"),
        ({"example.key": None}, "aws.access.key.id: is missing next to aws.secret.access.key"),
        ({"example.secret": "${env:NONE}"}, "example.secret: the environment variable NONE is not set"),
        (
            {"example.buckets": "1"},
            "example.buckets: is not an option of the example's sink or of Headrace",
        ),
    ],
)
def test_problems_name_the_makers_option(changes: Mapping[str, str | None], problem: str) -> None:
    """A problem is told in the words of the configuration."""
    assert any(found.startswith(problem) for found in _problems(changes)), _problems(changes)


@pytest.mark.parametrize("option", ["example.bucket", "example.secret", "example.count"])
def test_a_reference_that_leads_nowhere_is_one_problem(option: str) -> None:
    """What it would have given is not said to be missing, too."""
    problems = _problems({option: "${env:NONE}"})

    assert problems == [f"{option}: the environment variable NONE is not set"]


def test_what_a_worker_says_fills_gaps() -> None:
    """A worker's file gives what connectors leave out."""
    sink = load_example(worker="offset.flush.interval.ms=5000\nkey.converter=x\n").sink

    assert sink is not None
    assert sink.rotation.schedule_ms == 5000
