"""A certificate authority of a test's own, and what it signs: PEM files as brokers and clients read them."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Authority:
    """Its certificate is in `file`; `sign` makes others."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        """What others trust, as PEM."""
        return self.folder / "authority.pem"

    def sign(self, name: str, *, password: str | None = None) -> Path:
        """A PEM file with a new key (encrypted, if there is a password) and its certificate for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(name, self.certificate.subject, key)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
                ),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        file = self.folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
            + certificate.public_bytes(Encoding.PEM)
        )
        return file


def new_authority(folder: Path) -> Authority:
    """An authority that trusts itself, its certificate written to `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority of a test")
    certificate = (
        _builder("authority of a test", name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Authority(folder, key, certificate)
    made.file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return made


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
