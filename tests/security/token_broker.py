"""A broker that wants tokens, over TLS: on one listener IAM's signatures, on the other JSON Web Tokens."""

import base64
import contextlib
import hashlib
import json
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyspark
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from localstack import jars
from localstack.broker import Broker
from localstack.parts import CACHE, JAR_FOLDER
from localstack.ports import free_port
from tests.security.certificates import Authority, new_authority

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_LOGIN: Final = f"{_OAUTH}.OAuthBearerLoginModule required;"
REGION: Final = "eu-west-1"
KEYS: Final = {"AKIALONGLIVED": "a-long-lived-secret", "ASIATEMPORARY": "a-temporary-secret"}
"""Keys that the broker knows; the second is what `CredentialService` gives."""
AUDIENCE: Final = "kafka"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Signs JSON Web Tokens; `jwks` is what validates them."""

    key: rsa.RSAPrivateKey

    @property
    def jwks(self) -> str:
        """The public key, as JSON."""
        numbers = self.key.public_key().public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        key = {"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": _base64(numbers.n.to_bytes(size))}
        return json.dumps({"keys": [key | {"e": _base64(numbers.e.to_bytes(3))}]})

    def token(self, *, seconds: float, user: str = "me") -> str:
        """A token that ends so many seconds from now, or a second later: the claims are whole seconds."""
        now = time.time()
        claims = {"sub": user, "aud": AUDIENCE, "iss": "us", "iat": int(now), "exp": math.ceil(now + seconds)}
        head = {"alg": "RS256", "kid": "k", "typ": "JWT"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{_base64(self.key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBroker:
    """The broker, and how its listeners are reached."""

    broker: Broker
    iam: str
    jwt: str
    authority: Authority
    issuer: Issuer

    def options(self, address: str, **more: str) -> dict[str, Any]:
        """Options of a configuration that connects there."""
        return {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            **more,
        }


@contextmanager
def token_broker(folder: Path, *, reauthenticate_ms: int) -> Iterator[TokenBroker]:
    """Such a broker, which wants another log-in of each connection within this time; stopped at the end."""
    authority = new_authority(folder)
    issuer = Issuer(rsa.generate_private_key(65537, 2048))
    jwks = folder / "jwks.json"
    jwks.write_text(issuer.jwks)
    iam, jwt = free_port(), free_port()
    keys = ",".join(f"{key}={secret}" for key, secret in KEYS.items())
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("broker")),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": _LOGIN,
        "oauthbearer.connections.max.reauth.ms": str(reauthenticate_ms),
    }
    handler = "oauthbearer.sasl.server.callback.handler.class"
    broker = Broker(
        folder=folder / "broker",
        jar_folder=JAR_FOLDER,
        port=free_port(),
        listeners={f"IAM://127.0.0.1:{iam}": "SASL_SSL", f"JWT://127.0.0.1:{jwt}": "SASL_SSL"},
        properties={
            **{f"listener.name.{one}.{name}": text for one in ("iam", "jwt") for name, text in tls.items()},
            f"listener.name.iam.{handler}": "headrace.tests.IamValidator",
            f"listener.name.jwt.{handler}": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            "listener.name.jwt.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "listener.name.jwt.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        },
        java_options=(
            f"-Dheadrace.tests.keys={keys}",
            f"-Dheadrace.tests.region={REGION}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={jwks}",
        ),
        more_classes=(_compiled(),),
    )
    try:
        broker.start()
        yield TokenBroker(
            broker=broker,
            iam=f"127.0.0.1:{iam}",
            jwt=f"127.0.0.1:{jwt}",
            authority=authority,
            issuer=issuer,
        )
    finally:
        broker.kill()


def _compiled() -> Path:
    """The validator's classes: Spark brings a compiler, and a machine with Java need have no other.

    Kept from run to run, as what is compiled and by what are the same: six seconds of CPU.
    """
    compiler = sorted((Path(pyspark.__file__).parent / "jars").glob("scala-*.jar"))
    source = Path(__file__).with_name("IamValidator.scala")
    given = [source.read_bytes(), jars.LOCK.read_bytes(), *(jar.name.encode() for jar in compiler)]
    place = CACHE / "classes" / hashlib.sha256(b"\0".join(given)).hexdigest()[:16]
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    classes = Path(tempfile.mkdtemp(dir=place.parent))
    argv = ["java", "-Xss4m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, compiler))]
    known = [*jars.fetch(JAR_FOLDER), *(jar for jar in compiler if jar.name.startswith("scala-library-"))]
    done = subprocess.run(
        [
            *argv,
            "scala.tools.nsc.Main",
            "-nowarn",
            "-cp",
            ":".join(map(str, known)),
            "-d",
            str(classes),
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Whole or not at all; of two runs at once the second has made the same.
    with contextlib.suppress(OSError):
        classes.rename(place)
    shutil.rmtree(classes, ignore_errors=True)
    return place


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
