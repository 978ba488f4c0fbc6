"""The text of a worker's file: Kafka Connect's `.properties`, or the same options as one JSON object."""

import json
from collections.abc import Mapping
from typing import Final

from headrace.model.errors import InvalidConfiguration
from headrace.options.configuration_text import Members, PropertiesError, parse_properties

_BOM: Final = "\ufeff"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
_ESCAPES_OF_NAMES: Final = str.maketrans({sign: f"\\{sign}" for sign in "=: #!"})


def is_json(text: str, suffix: str) -> bool:
    """Whether a worker's file is JSON, by the end of its name or by what it holds.

    No option begins with a brace: such a text has none of a worker's options as `.properties`, and what it
    forbids connectors would not hold.
    """
    return suffix.lower() == ".json" or text.removeprefix(_BOM).lstrip().startswith("{")


def worker_pairs(text: str, *, is_json: bool) -> list[tuple[str, str]]:
    """Return the options of a worker's file in order, one given twice twice. InvalidConfiguration."""
    content = text.removeprefix(_BOM)
    try:
        pairs = _json_pairs(content) if is_json else parse_properties(content)
    except (PropertiesError, ValueError) as error:
        raise InvalidConfiguration(f"The worker's file cannot be read: {error}.") from error
    return [(name, value if _has_own_blanks(name) else value.strip()) for name, value in pairs]


def _json_pairs(text: str) -> list[tuple[str, str]]:
    """Return the options that have a value; ValueError of a text that is no JSON."""
    try:
        found = json.loads(text, object_pairs_hook=Members)
    except RecursionError:
        raise InvalidConfiguration("The worker's file cannot be read: it is nested too deeply.") from None
    if isinstance(found, Members) and isinstance(dict(found).get("config"), Members):
        raise of_connector("config")
    if not isinstance(found, Members) or any(isinstance(value, list) for _, value in found):
        raise InvalidConfiguration("The worker's file has to be one JSON object of options and their values.")
    last = dict(found)
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in found
        if last[name] is not None
    ]


def of_connector(named: str) -> InvalidConfiguration:
    """What to say of the configuration of a connector in place of a worker's file, by options of it."""
    return InvalidConfiguration(
        f"The worker's file is the configuration of a connector ({named}): create it at a worker that runs "
        "(POST /connectors), or put the file into the folder of --connectors; `headrace run` runs it alone."
    )


def _has_own_blanks(name: str) -> bool:
    """Whether blanks at the ends of the value are its own.

    Kafka cuts them off from whatever it knows, other secrets included; a password of SASL it has in
    `sasl.jaas.config` only, in quotes.
    """
    return name.endswith("sasl.password")


def properties_text(given: Mapping[str, str]) -> str:
    """Return the options as `.properties` text, every sign that means something there escaped."""
    lines = []
    for name, value in given.items():
        key, text = name.translate(_ESCAPES | _ESCAPES_OF_NAMES), value.translate(_ESCAPES)
        lines.append(f"{key}=\\{text}" if text.startswith(" ") else f"{key}={text}")
    return "\n".join(lines)
