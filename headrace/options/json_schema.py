"""A JSON schema of configurations, for editors: names, kinds and words; not how options combine."""

from typing import Any, Final

from headrace.options.declarations import CANONICAL, FAMILIES, OPTIONS
from headrace.options.declarations.option import Option

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
        "properties": {spelled: _option(by_name[name]) for spelled, name in CANONICAL.items()},
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


def _option(option: Option[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": f"{option.doc} ({option.form.expected})",
        "type": _KINDS.get(option.form.kind, ["string", "number", "boolean"]),
    }
    if option.default is not None:
        found["default"] = option.default
    if option.form.values:
        found["examples"] = list(option.form.values)
    return found
