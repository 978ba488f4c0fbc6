"""The reference of all options, `python -m headrace.options.document > docs/options.md`, and a schema.

The schema is for editors: names, kinds and words; not how options combine.
"""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from headrace.options.choices import IsolationLevel, OffsetReset
from headrace.options.client_bounds import BOUNDED
from headrace.options.client_names import DECIDED_HERE, HEARTBEAT_MS, TRANSACTION_TIMEOUT_MS
from headrace.options.declarations import CANONICAL, FAMILIES, OPTIONS
from headrace.options.declarations.option import WITHOUT_MEANING, Group, Option

_INTRODUCTION: Final = """\
# Options

<!-- Written by `python -m headrace.options.document` from headrace/options/declarations: edit those. -->

One JSON file, flat or `{"name": .., "config": {..}}` as Kafka Connect takes them, also in an export of one
connector (`GET /connectors?expand=info`), or a Java `.properties` file, or YAML (`.yaml`, `.yml`) in the
JSON's shapes, a list being its texts with commas. Kubernetes' resources of connectors (Strimzi's
`KafkaConnector`, Confluent's `Connector`) are read as they are: `state`, `autoRestart` and all else that is
their operator's decides nothing. Values may be texts, numbers or booleans. `${env:NAME}`,
`${file:PATH:KEY}` and `${dir:PATH:FILE}` are replaced by an environment variable, by an entry of a
`.properties` file, and by a file's content (`${directory:..}` is the same as `${dir:..}`).
`--set option=value` wins over the file.

All problems are reported at once. Secrets are never shown; an option whose value came from a reference is
shown as the reference (but for those that are worked out of another vendor's, which have its value).
"""


def document() -> str:
    """Return the whole page."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for group in Group:
        yield f"## {group.value}\n"
        for option in OPTIONS:
            if option.group is group:
                yield from _option(option)
        for family in FAMILIES:
            if family.group is group:
                star = "*" if family.prefix.endswith(".") else ""
                yield f"### `{family.prefix}{star}`\n\n{family.doc}\n"
    yield from _client_rules()
    yield from _elsewhere()


def _option(option: Option[Any]) -> Iterator[str]:
    yield f"### `{option.name}`\n"
    yield f"{option.doc}\n"
    yield f"- Value: {_words(option)}"
    yield f"- Default: {_default(option)}"
    yield f"- Importance: {option.importance.lower()}"
    if option.aliases:
        yield f"- Also written: {_names(option.aliases)}"
    yield ""


def _words(option: Option[Any]) -> str:
    secret = ", never shown" if option.is_secret else ""
    return f"{option.form.expected}{secret}"


def _default(option: Option[Any]) -> str:
    if option.required:
        return "none, it has to be given"
    if option.default is None:
        return option.default_says or "none"
    return f"`{option.default}`" if option.default else "empty"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _choices(kinds: type[StrEnum]) -> str:
    return " or ".join(f"`{one}`" for one in kinds)


# What is their default, too.
_MOST: Final = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}


def _client_rules() -> Iterator[str]:
    yield "## Properties of Kafka clients\n"
    yield (
        "The clients are librdkafka's. Java's spellings are translated: `sasl.jaas.config` to user name and "
        "password (or an OAuth client), PEM and PKCS12 stores, `max.request.size` and the like. What has no "
        "counterpart (JKS stores, classes of Java) is an error that says what to use instead.\n"
    )
    yield "Headrace decides these itself; another value would weaken the guarantee and is an error:\n"
    yield f"{_names(tuple(DECIDED_HERE))}, `spark.task.maxFailures`, `spark.speculation`.\n"
    yield (
        "A sink may set two of them for what reads its topics: `consumer.override.isolation.level` to "
        f"{_choices(IsolationLevel)} (a warning: records of aborted transactions are archived, too), and "
        f"`consumer.override.auto.offset.reset` to {_choices(OffsetReset)}, where a topic begins that was "
        "there at the first start and that has not been read. A worker's `consumer.*` gives them to its "
        "sinks. With another vendor's sink class `consumer.override.group.id` is the group of its offsets, "
        "from which it continues.\n"
    )
    yield "These are bounded:\n"
    for name, form in BOUNDED.items():
        most = _MOST.get(name)
        default = "" if most is None else f" (default {most:,}; more counts as {most:,})"
        yield f"- `{name}`: {form.expected}{default}"
    yield (
        "\nOf all others librdkafka's ranges hold: a number that Java's clients take and librdkafka does not "
        "counts as the nearest that it does, with a warning (`linger.ms` of 20 minutes as 15); any other is "
        "an error that names the range.\n"
    )


def _elsewhere() -> Iterator[str]:
    yield "## Options of other tools\n"
    yield (
        "These options of the Aiven connector and of Kafka Connect are accepted without a meaning here, with "
        f"one warning that lists them: {_names(WITHOUT_MEANING)}.\n"
    )


if __name__ == "__main__":
    sys.stdout.write(document())


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Connect's clients write every value as a text, people write numbers and booleans: both are read.
_KINDS: Final[dict[str, list[str]]] = {
    "INT": ["integer", "string"],
    "LONG": ["integer", "string"],
    "BOOLEAN": ["boolean", "string"],
}


def json_schema() -> dict[str, Any]:
    """The schema of a flat configuration, and of Connect's shape `{"name": .., "config": {..}}`.

    A configuration that it refuses may still be right where it names another vendor's connector class.
    """
    by_name = {option.name: option for option in OPTIONS}
    flat: dict[str, Any] = {
        "type": "object",
        "properties": {spelled: _schema_option(by_name[name]) for spelled, name in CANONICAL.items()},
        "patternProperties": {
            f"^{family.prefix.replace('.', '[.]')}": {"description": family.doc} for family in FAMILIES
        },
        "additionalProperties": False,
    }
    return {
        "$schema": _DIALECT,
        "title": "Headrace",
        "anyOf": [
            flat,
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "config": flat},
                "required": ["config"],
                "additionalProperties": False,
            },
        ],
    }


def _schema_option(option: Option[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": f"{option.doc} ({option.form.expected})",
        "type": _KINDS.get(option.form.kind, ["string", "number", "boolean"]),
    }
    if option.default is not None:
        found["default"] = option.default
    if option.form.values:
        found["examples"] = list(option.form.values)
    return found
