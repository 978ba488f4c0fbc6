"""Findings about this machine: Java, which Spark needs, and the addresses that `run` listens on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ingest.checks.findings.finding import Finding, misconfigured, ok

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
class MachineFacts:
    """What was found; `java` is None where Spark runs elsewhere (spark.remote)."""

    java: Java | None
    addresses: Sequence[Address]


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
        f"{found.option}: {found.address} cannot be listened on ({found.problem}).",
        f"Choose a free address, or set {found.option} to an empty value to switch it off.",
    )


def machine_findings(facts: MachineFacts) -> list[Finding]:
    """The findings about the machine."""
    java = [] if facts.java is None else [java_there(facts.java)]
    return [*java, *map(address_free, facts.addresses)]
