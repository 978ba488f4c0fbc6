"""What the settings are, as it may be shown: for `/status`, the REST interface and dumps."""

from collections.abc import Mapping

from ingest.settings.build import state_dir
from ingest.settings.given import Entry
from ingest.settings.model import Settings
from ingest.settings.options import OPTIONS, connection, reading
from ingest.settings.values import Values


def describe(settings: Settings) -> dict[str, str]:
    """Return the effective value of each option by name, secrets masked, references left as written.

    Options that are neither given nor have a default are left out; `settings.given` tells the given ones.
    """
    return dict(settings.shown)


def shown_values(
    entries: Mapping[str, Entry], values: Values, environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return what `describe` shows, sorted by name."""
    found = {option.name: option.default for option in OPTIONS if option.default is not None}
    found[connection.OFFSETS_TOPIC.name] = f"{values[connection.NAME]}-offsets"
    found[connection.STATE_DIR.name] = str(state_dir(None, environment))
    if values[reading.QUEUE] is not None:
        found[reading.SQS_REGION.name] = values[reading.REGION]
    found.update({name: entry.shown for name, entry in entries.items()})
    return tuple(sorted(found.items()))
