"""A broker that trusts nobody: SASL over TLS, ACLs on, and the ACLs of docs/security.md as a table."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.security.certificates import Authority, new_authority

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One line of the list: an operation on a resource, by its name or by a prefix of names."""

    kind: ResourceType
    name: str
    operation: AclOperation
    is_prefix: bool = False

    def binding(self, user: str) -> AclBinding:
        """As brokers are told of it."""
        pattern = ResourcePatternType.PREFIXED if self.is_prefix else ResourcePatternType.LITERAL
        return AclBinding(
            self.kind, self.name, pattern, f"User:{user}", "*", self.operation, AclPermissionType.ALLOW
        )


@dataclass(slots=True, kw_only=True)
class Guarded:
    """The broker; `admin` is a super user's, over a listener that is for the brokers themselves."""

    broker: Broker
    address: str
    authority: Authority
    users: dict[str, str]
    admin: AdminClient

    def options(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> dict[str, object]:
        """Options of a configuration that logs in as this user, in Java's words."""
        module = _PLAIN if mechanism == "PLAIN" else _SCRAM
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{self.users[user]}";',
        }

    def allow(self, user: str, acls: Iterable[Acl]) -> None:
        """Give a user these rights, and wait until the broker has written them down."""
        bindings = [acl.binding(user) for acl in acls]
        for answer in self.admin.create_acls(bindings).values():
            answer.result(60)

    def forbid_all(self, user: str) -> None:
        """Take every right of a user away."""
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # any name, which the library admits and its types do not
            ResourcePatternType.ANY,
            f"User:{user}",
            None,  # type: ignore[arg-type]  # any host, as above
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for answer in self.admin.delete_acls([everything]).values():
            answer.result(60)


@contextmanager
def guarded_broker(folder: Path, users: dict[str, str]) -> Iterator[Guarded]:
    """Such a broker, which knows these users by password over PLAIN and SCRAM; stopped at the end."""
    authority = new_authority(folder)
    keys = authority.sign("broker")
    port = free_port()
    plain = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    broker = Broker(
        folder=folder / "broker",
        jar_folder=JAR_FOLDER,
        port=free_port(),
        listeners={f"GUARDED://127.0.0.1:{port}": "SASL_SSL"},
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.name.guarded.ssl.keystore.type": "PEM",
            "listener.name.guarded.ssl.keystore.location": str(keys),
            "listener.name.guarded.ssl.truststore.type": "PEM",
            "listener.name.guarded.ssl.truststore.location": str(authority.file),
            "listener.name.guarded.ssl.client.auth": "requested",
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.guarded.plain.sasl.jaas.config": f"{_PLAIN} required {plain};",
            "listener.name.guarded.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        },
        format_options=[
            option
            for name, password in users.items()
            for option in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ],
    )
    try:
        broker.start()
        yield Guarded(
            broker=broker,
            address=f"127.0.0.1:{port}",
            authority=authority,
            users=users,
            admin=AdminClient({"bootstrap.servers": broker.bootstrap}),
        )
    finally:
        broker.kill()
