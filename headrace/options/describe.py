"""What the settings are, as it may be shown: for `/status`, the REST interface and dumps."""

from collections.abc import Mapping

from headrace.options.build import state_dir
from headrace.options.declarations import (
    OPTIONS,
    connection_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.direction_forms import Direction
from headrace.options.directions import direction, is_for
from headrace.options.given import Entry
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.queue_url import queue_region
from headrace.options.settings import Settings
from headrace.options.values import Values


def describe(settings: Settings) -> dict[str, str]:
    """Return the effective value of each option by name, secrets masked, references left as written.

    Options that are neither given nor have a default are left out; `settings.given` tells the given ones.
    """
    return dict(settings.shown)


def shown_values(
    entries: Mapping[str, Entry], values: Values, environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return what `describe` shows, sorted by name."""
    way = direction(values)
    found = {
        option.name: option.default
        for option in OPTIONS
        if option.default is not None and is_for(option, way)
    }
    found[connection_options.OFFSETS_TOPIC.name] = f"{values[connection_options.NAME]}-offsets"
    found[connection_options.STATE_DIR.name] = str(state_dir(None, environment))
    found[reading_options.REGION.name] = values[reading_options.REGION]
    queue_url = values[reading_options.QUEUE]
    if queue_url is not None:
        found[reading_options.SQS_REGION.name] = queue_region(queue_url) or values[reading_options.REGION]
    if way is Direction.SINK:
        found[record_options.FILE_NAME_TEMPLATE.name] = DEFAULT_TEMPLATE
        found[sink_options.BUFFER_DIR.name] = str(
            state_dir(values[connection_options.STATE_DIR], environment) / "buffer"
        )
    found.update({name: entry.shown_whole for name, entry in entries.items()})
    return tuple(sorted(found.items()))
