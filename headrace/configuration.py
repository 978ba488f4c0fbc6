"""What a program gives as a configuration, to Settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings, SettingsError
from headrace.vendors.load import load
from ingest.cli.configuration import environment, read_settings

Config = Mapping[str, Any] | str | Path
"""Options by name, in one of Kafka Connect's two shapes, or the path of a file that `headrace run` takes."""


def settings_of(config: Config) -> Settings:
    """The settings; InvalidConfiguration with every problem on a line of its own."""
    if isinstance(config, str | Path):
        return read_settings(Path(config), sets=(), worker_config=None)
    if not isinstance(config, Mapping):
        raise InvalidConfiguration(
            f"config is {type(config).__name__}: give options by name as a dict, or the path of a file."
        )
    try:
        return load(
            json.dumps(dict(config), default=_refuse),
            kind="json",
            environment=environment(),
            read_file=lambda path: Path(path).read_text(encoding="utf-8"),
        )
    except SettingsError as error:
        raise InvalidConfiguration(str(error)) from error
    except TypeError as error:
        # What json says of a name that is no text.
        raise InvalidConfiguration(f"config has a name that is no text: {error}.") from error


def _refuse(value: object) -> object:
    # Its content is not shown: it may be a secret.
    raise InvalidConfiguration(
        f"config has a value of {type(value).__name__}: values are texts, numbers, true or false."
    )
