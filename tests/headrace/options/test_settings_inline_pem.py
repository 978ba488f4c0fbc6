"""PEM within a configuration, with the line breaks that a .properties file joins away."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from headrace.kafka.kafka_clients import new_admin
from headrace.options.tls import with_line_breaks
from tests.headrace.options.loading import load_with

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace")])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CERTIFICATE = (
    x509.CertificateBuilder(NAME, NAME, KEY.public_key(), 1, NOW, NOW + timedelta(days=9_000))
    .sign(KEY, SHA256())
    .public_bytes(Encoding.PEM)
    .decode()
)
KEY_PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
ENCRYPTED = KEY.private_bytes(
    Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret")
).decode()


def one_line(pem: str) -> str:
    """As a text of several lines is joined with backslashes."""
    return pem.replace("\n", " ").strip()


def without_breaks(pem: str) -> str:
    """The same, where each line ends right before its backslash."""
    return pem.replace("\n", "")


def as_it_is(pem: str) -> str:
    """From a JSON file."""
    return pem


@pytest.mark.parametrize("written", [as_it_is, one_line, without_breaks])
def test_librdkafka_takes_pem_however_its_lines_are_joined(written: Callable[[str], str]) -> None:
    """Java does."""
    settings = load_with(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SSL",
            "ssl.truststore.certificates": written(CERTIFICATE + CERTIFICATE),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": written(KEY_PEM),
            "ssl.keystore.certificate.chain": written(CERTIFICATE + CERTIFICATE),
        }
    )

    found = settings.kafka.client("admin")

    assert found["ssl.ca.pem"] == found["ssl.certificate.pem"] == CERTIFICATE + CERTIFICATE
    assert found["ssl.key.pem"] == KEY_PEM
    new_admin(found)


@pytest.mark.parametrize("text", ["CA", "${file:/pem:ca}", ENCRYPTED, one_line(ENCRYPTED)])
def test_what_is_not_understood_stays_as_it_is(text: str) -> None:
    """A key with lines of its own about its encryption needs them; what is no PEM librdkafka refuses."""
    assert with_line_breaks(text) == text


def test_librdkafka_s_own_names_take_it_too() -> None:
    """Of the role's clients alone."""
    settings = load_with({"consumer.override.ssl.ca.pem": one_line(CERTIFICATE)})

    assert settings.kafka.client("consumer")["ssl.ca.pem"] == CERTIFICATE
