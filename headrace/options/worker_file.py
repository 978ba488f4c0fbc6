"""What a Connect worker's file gives to the connectors that leave it out."""

import re
from typing import Final

from headrace.options.problems import Problems
from headrace.options.properties import PropertiesError, parse_properties

_DEFAULTS: Final = re.compile(r"(key|value|header)\.converter(\..+)?|offset\.flush\.interval\.ms")


def connector_defaults(text: str, problems: Problems) -> dict[str, str]:
    """The converters and the flush interval of a worker's `.properties` text; broken text is a problem."""
    try:
        pairs = parse_properties(text.removeprefix("\ufeff"))
    except PropertiesError as error:
        problems.add("", f"the worker's .properties text is broken: {error}")
        return {}
    return {name: value for name, value in pairs if _DEFAULTS.fullmatch(name)}
