"""A finding: what was looked at, how it is, and what to do about it; and those about this machine.

Spark needs Java, and `run` listens on addresses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from headrace.model.errors import Exit


class Verdict(StrEnum):
    """How something is. A warning works, and deserves a look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of `check`. `remedy` says what to do unless all is well; `exit` is the code of a failure.

    `count` is how many things there are to do about it.
    """

    name: str
    verdict: Verdict
    sentence: str
    remedy: str | None = None
    exit: Exit = Exit.DONE
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "remedy": self.remedy,
        }


def ok(name: str, sentence: str) -> Finding:
    """All is well."""
    return Finding(name=name, verdict=Verdict.OK, sentence=sentence)


def warn(name: str, sentence: str, remedy: str) -> Finding:
    """It works, and not as well as it could, or not for ever."""
    return Finding(name=name, verdict=Verdict.WARN, sentence=sentence, remedy=remedy)


def unusable(name: str, sentence: str, remedy: str) -> Finding:
    """`run` would wait for it, and then end with 3."""
    return Finding(name=name, verdict=Verdict.FAIL, sentence=sentence, remedy=remedy, exit=Exit.UNUSABLE)


def without_credentials(error: Exception) -> Finding:
    """Nothing can be requested of the bucket: there are no credentials that could sign it."""
    return unusable("bucket", str(error), "Give credentials: see aws.credentials.provider.")


def misconfigured(name: str, sentence: str, remedy: str, *, count: int = 1) -> Finding:
    """`run` would end with 2, or bring objects to a wrong end."""
    return Finding(
        name=name,
        verdict=Verdict.FAIL,
        sentence=sentence,
        remedy=remedy,
        exit=Exit.CONFIGURATION,
        count=count,
    )


def exit_of(findings: Iterable[Finding]) -> Exit:
    """The exit code: 2 when a configuration is wrong, else 3 when something is not usable, else 0."""
    codes = {finding.exit for finding in findings if finding.verdict is Verdict.FAIL}
    for code in (Exit.CONFIGURATION, Exit.UNUSABLE):
        if code in codes:
            return code
    return Exit.DONE


class Cause(StrEnum):
    """Why a call was not answered as hoped."""

    MISSING = "missing"
    DENIED = "denied"
    KEY = "key"  # of KMS
    QUOTA = "quota"
    CREDENTIALS = "credentials"
    ELSEWHERE = "elsewhere"  # another region's
    ARCHIVED = "archived"
    OPTION = "option"  # an option of ours is what the service refuses
    CLOCK = "clock"  # ours is too far from theirs
    UNREACHED = "unreached"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was refused or not answered: why, and the service's own words."""

    cause: Cause
    words: str


BROKERS_FIX: Final = "Check bootstrap.servers, the network, security.protocol, sasl.* and ssl.*."


def kafka_fix(refused: Refused, rights: str) -> str:
    """What to do where Kafka was asked in vain: give these rights, where it was for want of them."""
    return rights if refused.cause is Cause.DENIED else BROKERS_FIX


# https://spark.apache.org/docs/latest/: Spark 4 runs on Java 17 and 21.
_JAVA: Final = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """The Java that Spark would start: where it was looked for, and its version or why there is none."""

    command: str
    version: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of an option: why it cannot be listened on, and whether it is this ingester that does."""

    option: str
    address: str
    problem: str | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where Spark runs, by its option, and why that takes no connection."""

    option: str
    address: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFile:
    """A file or folder of an option, and why it cannot be used."""

    path: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What was found; `java` is None where Spark runs elsewhere (spark.remote).

    `cluster` is None where there is no address to try: here, on Kubernetes, or with YARN. `users` is the file
    of who may use the REST interface; None where there is none, or no interface. A source has no `buffer`,
    nor has a sink whose slots run on other machines.
    """

    java: Java | None
    cluster: Cluster | None
    addresses: Sequence[Address]
    users: OptionFile | None = None
    state: OptionFile | None = None
    buffer: OptionFile | None = None


def java_there(java: Java) -> Finding:
    """Whether Spark's JVM can be started."""
    name = "java"
    if java.version is None:
        return misconfigured(
            name,
            f"Spark needs Java, and {java.command} {java.problem}.",
            f"Install a JRE {_JAVA} or later and put it on PATH, or set JAVA_HOME (the image has one).",
        )
    if java.version < _JAVA:
        return misconfigured(
            name,
            f"Spark needs Java {_JAVA} or later, and {java.command} is {java.version}.",
            f"Install a JRE {_JAVA} or later and set JAVA_HOME to it.",
        )
    return ok(name, f"{java.command} is Java {java.version}")


def address_free(found: Address) -> Finding:
    """Whether `run` can listen there."""
    if found.problem is None:
        return ok(found.option, f"{found.address} is free")
    if found.is_ours:
        return ok(found.option, f"{found.address} is this ingester's, which is running")
    return misconfigured(
        found.option,
        f"{found.address} cannot be listened on ({found.problem}).",
        f"Choose a free address, or set {found.option} to an empty value to switch it off.",
    )


def cluster_there(found: Cluster) -> Finding:
    """Whether Spark's cluster, or its server, takes connections."""
    if found.problem is None:
        return ok(found.option, f"{found.address} takes connections")
    return unusable(
        found.option,
        f"{found.address} cannot be reached ({found.problem}).",
        f"Start it, or correct {found.option}.",
    )


def users_there(found: OptionFile) -> Finding:
    """Whether the REST interface knows its users; without them `run` does not start."""
    name = "rest.auth.file"
    if found.problem is None:
        return ok(name, f"{found.path} has users")
    return misconfigured(
        name,
        found.problem,
        "Correct the file, or its rights (chmod 640); without rest.listen none is read.",
    )


def state_kept(found: OptionFile) -> Finding | None:
    """Whether what is known of the ledger outlives the process; None where it does."""
    if found.problem is None:
        return None
    return warn(
        "state.dir",
        f"{found.path} cannot be written ({found.problem}), so each start reads the whole ledger.",
        "Set state.dir to a folder that may be written and that stays.",
    )


def buffer_usable(found: OptionFile) -> Finding | None:
    """Whether a sink's open objects have room beyond memory; None where they have."""
    if found.problem is None:
        return None
    return warn(
        "buffer.dir",
        f"{found.path} cannot be written ({found.problem}), so fetching stops once open objects hold "
        "more than buffer.max.bytes.",
        "Set buffer.dir to a folder that may be written.",
    )


def machine_findings(facts: MachineFacts) -> list[Finding]:
    """The findings about the machine."""
    java = [] if facts.java is None else [java_there(facts.java)]
    cluster = [] if facts.cluster is None else [cluster_there(facts.cluster)]
    users = [] if facts.users is None else [users_there(facts.users)]
    state = None if facts.state is None else state_kept(facts.state)
    buffer = None if facts.buffer is None else buffer_usable(facts.buffer)
    found = [*java, *cluster, *map(address_free, facts.addresses), *users]
    return [*found, *filter(None, (state, buffer))]
