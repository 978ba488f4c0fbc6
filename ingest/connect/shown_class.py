"""The class of a connector whose configuration names none: which way it goes, and what is shown of it."""

from collections.abc import Mapping
from typing import Final

from headrace.kafka.control_records import ConnectorRecord
from headrace.options.given import canonical
from headrace.options.vendor import Direction, direction_of
from ingest.http.rest import plugins

CLASS: Final = "connector.class"


def way_of(config: Mapping[str, str]) -> Direction:
    """Which way the data goes, as far as the names of the options tell."""
    plugin = plugins.plugin_class(config.get(CLASS, "").strip())
    return direction_of(plugin or "", map(canonical, config))


def shown_class(config: Mapping[str, str]) -> str:
    """The class that is shown of a configuration without one."""
    return plugins.default_class(way_of(config))


def without_shown_class(config: Mapping[str, str], before: ConnectorRecord | None) -> Mapping[str, str]:
    """The configuration without a class that it has only because it was shown: it was configured without one.

    Who sends back what was shown changes nothing.
    """
    if before is None or before.problem is not None or CLASS in before.config:
        return config
    rest = {option: text for option, text in config.items() if option != CLASS}
    return rest if config.get(CLASS) == shown_class(before.config) == shown_class(rest) else config
