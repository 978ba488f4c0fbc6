"""Brokers that are too old are refused in one sentence, before anything is made there."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from headrace.kafka import kafka_clients
from headrace.kafka.kafka_clients import is_too_old, new_admin, offered_versions, require_brokers
from headrace.model.errors import InvalidConfiguration
from tests.support.mock_brokers import mock_brokers

# Highest versions of ListOffsets, OffsetFetch, FindCoordinator, DescribeTransactions, ListTransactions.
RELEASES = {
    "2.5": {2: 5, 9: 7, 10: 3},
    "2.7": {2: 5, 9: 7, 10: 3},
    "2.8": {2: 6, 9: 7, 10: 3},
    "3.0": {2: 7, 9: 8, 10: 4, 65: 0, 66: 0},
    "3.9": {2: 9, 9: 9, 10: 6, 65: 0, 66: 1},
    "4.1": {2: 11, 9: 10, 10: 6, 65: 0, 66: 2},
}


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_older_than_3_0_is_too_old(release: str) -> None:
    """By what such brokers offer."""
    assert is_too_old(RELEASES[release]) is release.startswith("2.")


@pytest.mark.parametrize(
    "offered", [{}, {2: 4, 9: 4, 10: 3, 65: 0}, {2: 7}], ids=["no-answer", "another-maker", "one-of-them"]
)
def test_what_nobody_can_tell_is_not_refused(offered: dict[int, int]) -> None:
    """Other brokers speak the protocol with gaps; silence is somebody else's to report."""
    assert not is_too_old(offered)


def test_a_broker_of_2_8_is_refused_in_one_sentence() -> None:
    """With where it is, and what to do."""
    with mock_brokers(RELEASES["2.8"]) as bootstrap, pytest.raises(InvalidConfiguration) as refused:
        require_brokers({"bootstrap.servers": bootstrap}, timeout=60)

    assert str(refused.value) == (
        f"The brokers at {bootstrap} are older than Apache Kafka 3.0, which is the oldest that Headrace "
        "supports: update them (docs/support.md)."
    )


def test_a_broker_of_3_0_is_not() -> None:
    """Its versions are read, not guessed."""
    with mock_brokers({2: 7}) as bootstrap:
        require_brokers({"bootstrap.servers": bootstrap}, timeout=60)

        assert offered_versions({"bootstrap.servers": bootstrap}, timeout=60)[2] == 7


def test_brokers_that_do_not_answer_are_not_judged() -> None:
    """Whoever asks them for something says that they are away."""
    assert offered_versions({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.3) == {}


def test_the_client_is_kept_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended with its question open it was the process's end, now and then: librdkafka dereferences NULL."""
    answers: list[Future[Any]] = []

    def noting(*arguments: Any, **named: Any) -> Any:
        client = new_admin(*arguments, **named)
        monkeypatch.setattr(client, "describe_cluster", lambda **asked: asking(client, asked))
        return client

    def asking(client: Any, asked: Any) -> Any:
        answers.append(type(client).describe_cluster(client, **asked))
        return answers[-1]

    monkeypatch.setattr(kafka_clients, "new_admin", noting)
    with mock_brokers({2: 7}, answers_after_ms=300) as bootstrap:
        assert offered_versions({"bootstrap.servers": bootstrap}, timeout=60)
        assert [answer.done() for answer in answers] == [True]


def test_connectors_that_ask_together_do_not_read_each_others_answers() -> None:
    """A worker starts many at once: a part of an answer must not look like that of an old broker."""
    with mock_brokers({2: 7}) as bootstrap, ThreadPoolExecutor(8) as threads:
        properties = {"bootstrap.servers": bootstrap}
        alone = offered_versions(properties, timeout=60)
        found = list(threads.map(lambda _: offered_versions(properties, timeout=60), range(16)))

    assert alone[2] == 7
    assert found == [alone] * 16
