"""PKCS12 trust stores, as Java's own keytool writes them, become the PEM that librdkafka wants."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.headrace.options.loading import load_with, problems_with
from tests.support import short_java


@pytest.fixture(scope="session")
def trust_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one trusted certificate, password `changeit`."""
    folder = tmp_path_factory.mktemp("stores")
    options = [f"-J{option}" for option in short_java.OPTIONS]
    password = ["-storepass", "changeit", "-storetype", "PKCS12", "-noprompt"]
    for command in (
        ["-genkeypair", "-alias", "ca", "-keyalg", "EC", "-dname", "CN=ca", "-keystore", "ca.p12"],
        ["-exportcert", "-rfc", "-alias", "ca", "-file", "ca.pem", "-keystore", "ca.p12"],
        ["-importcert", "-alias", "ca", "-file", "ca.pem", "-keystore", "trust.p12"],
    ):
        subprocess.run(
            ["keytool", *options, *command, *password], cwd=folder, check=True, capture_output=True
        )
    return folder / "trust.p12"


def test_the_certificates_of_a_pkcs12_trust_store_become_pem(trust_store: Path) -> None:
    """The certificates of a PKCS12 trust store become PEM."""
    properties = load_with(
        {"ssl.truststore.location": str(trust_store), "ssl.truststore.password": "changeit"}
    ).kafka.client("admin")

    exported = trust_store.with_name("ca.pem").read_text()
    assert properties["ssl.ca.pem"].split() == exported.split()
    assert "ssl.ca.location" not in properties


def test_a_wrong_password_is_told_without_it(trust_store: Path) -> None:
    """A wrong password is told without it."""
    (problem,) = problems_with(
        {"ssl.truststore.location": str(trust_store), "ssl.truststore.password": "wrong-one"}
    )

    assert problem.message == "is no PKCS12 store, or ssl.truststore.password is not its password"
    assert "wrong-one" not in str(problem)


def test_a_store_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A connector's configuration that named one hung the thread that read it, for good."""
    pipe = tmp_path / "trust.p12"
    os.mkfifo(pipe)
    problems = problems_with(
        {
            "producer.override.security.protocol": "SSL",
            "producer.override.ssl.truststore.type": "PKCS12",
            "producer.override.ssl.truststore.location": str(pipe),
            "producer.override.ssl.truststore.password": "secret",
        }
    )

    assert ["ssl.truststore.location" in problem.option for problem in problems] == [True]
