"""Whether a cluster's master is there is asked over a connection, before a JVM is started."""

import socket

import pytest

from headrace.model.errors import InvalidConfiguration, Unavailable
from spark.jvm import addresses, require_master


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", []),
        ("local-cluster[2,1,1024]", []),
        ("yarn", []),
        ("spark://one:7077", [("one", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://api:6443", [("api", 6443)]),
        ("k8s://api", [("api", 443)]),
        ("k8s://api:6443", [("api", 6443)]),
        ("k8s://http://127.0.0.1:8001", [("127.0.0.1", 8001)]),
        ("k8s://http://api", [("api", 80)]),
    ],
)
def test_where_a_master_is(master: str, expected: list[tuple[str, int]]) -> None:
    """As Spark reads its URLs."""
    assert addresses(master) == expected


@pytest.mark.parametrize(
    "master", ["k8s://https://host:port", "k8s://host:70777", "k8s://https://[::1:6443", "k8s://h:-1"]
)
def test_an_address_that_is_none_is_a_wrong_configuration(master: str) -> None:
    """It is copied from a page as often as not."""
    with pytest.raises(InvalidConfiguration, match=r"^spark\.master = 'k8s://.*' is no address: "):
        require_master(master)


def test_one_master_of_several_is_enough() -> None:
    """A standby takes over by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        require_master(f"spark://127.0.0.1:1,127.0.0.1:{listening.getsockname()[1]}")


def test_the_sentence_names_the_option_and_each_refusal() -> None:
    """Of both masters."""
    expected = r"spark\.master = 'spark://127\.0\.0\.1:1,127\.0\.0\.1:2' cannot be reached .*:1: .*; .*:2: "
    with pytest.raises(Unavailable, match=expected):
        require_master("spark://127.0.0.1:1,127.0.0.1:2")
