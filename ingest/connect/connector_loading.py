"""A connector's configuration is read next to the worker's file, and held to what that has and forbids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.kafka.control_records import ConnectorRecord
from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings, SettingsError
from headrace.options.given import Problem, canonical
from ingest.connect.changes import STATE_FOLDER, folder_problems, worker_problems
from ingest.connect.worker_settings import WorkerSettings

_FOLDER_WARNING: Final = (
    f"{STATE_FOLDER} of this connector is passed over, and the worker's is used: remove it with a PATCH that "
    "has null for it"
)


@dataclass(frozen=True, slots=True)
class Loading:
    """What reads connectors' configurations; `load_text` takes one and the text of a worker's file."""

    settings: WorkerSettings
    load_text: Callable[[Mapping[str, str], str], Settings]

    def __call__(self, record: ConnectorRecord) -> Settings:
        """The connector's settings.

        SettingsError with all problems, those of options that are the worker's included.
        """
        return self._load(record, self.settings.text)

    def past(self, record: ConnectorRecord) -> Settings:
        """What a stored configuration has meant until now, whatever the worker's file forbids by now."""
        return self._load(record, self.settings.unlimited_text)

    def _load(self, record: ConnectorRecord, text: str) -> Settings:
        if record.problem is not None:
            raise InvalidConfiguration(record.problem)
        problems = worker_problems(record.name, record.config, reserved=self.settings.name)
        of_folder = folder_problems(record.config)
        if record.created_ms is None:
            problems += of_folder
        config = {name: given for name, given in record.config.items() if canonical(name) != STATE_FOLDER}
        config |= {STATE_FOLDER: str(self.settings.frame.state_dir), "name": record.name}
        try:
            found = self.load_text(config, text)
        except SettingsError as error:
            raise SettingsError((*problems, *error.problems)) from error
        if not problems and found.name != record.name:
            problems = [Problem(option="name", message=f"is read as {found.name!r}", value=record.name)]
        if problems:
            raise SettingsError(tuple(problems))
        # One that an earlier version stored: it loses a cache by it, and nothing else.
        return replace(found, warnings=(*found.warnings, _FOLDER_WARNING)) if of_folder else found
