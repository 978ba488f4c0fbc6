"""The options: declared once, parsed, all problems at once.

    text (JSON, .properties) ─▶ gather ─▶ Values ─▶ checks ─▶ Settings
                                  │                    ▲
             client options ──────┴─▶ client (Java to librdkafka)

`options/` is the table: name, form, default and sentence of every option, from which parsing, error texts,
`docs/options.md` and the REST interface come. `forms` says what values look like. `load` is the way in;
`Settings` is what the rest of the program sees.
"""

from ingest.settings.comparison import changed_options
from ingest.settings.describe import describe
from ingest.settings.load import load
from ingest.settings.options import FAMILIES, OPTIONS
from ingest.settings.problems import Problem, SettingsError
from ingest.settings.secret import Secret
from ingest.settings.settings import Settings

__all__ = [
    "FAMILIES",
    "OPTIONS",
    "Problem",
    "Secret",
    "Settings",
    "SettingsError",
    "changed_options",
    "describe",
    "load",
]
