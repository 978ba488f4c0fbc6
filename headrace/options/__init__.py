"""The options: declared once, parsed, all problems at once.

    text (JSON, .properties) ─▶ gather ─▶ Values ─▶ checks ─▶ Settings
                                  │                    ▲
             client options ──────┴─▶ client_translation (Java to librdkafka)

`declarations/` is the table: name, form, default and sentence of every option, from which parsing, error
texts, `docs/options.md` and the REST interface come. `value_types` says what values look like, and
`client_bounds` those of Kafka's clients; `suggestions` and `masks` recognize what was meant, a
configuration of another tool, or no value; `connector_shapes` finds a connector's options in a document,
`references` finds and replaces those of Connect in values, `worker_file` has what a worker gives its
connectors and forbids them, and `topic_expressions` matches names of topics. `headrace.vendors.load` is the
way in; `Settings` is what the rest of the program sees.
"""

from headrace.options.declarations import FAMILIES, OPTIONS
from headrace.options.describe import applied, changed_options, describe, is_same, unmasked, written_options
from headrace.options.given import Problem, SettingsError
from headrace.options.secret import Secret
from headrace.options.settings import Settings

__all__ = [
    "FAMILIES",
    "OPTIONS",
    "Problem",
    "Secret",
    "Settings",
    "SettingsError",
    "applied",
    "changed_options",
    "describe",
    "is_same",
    "unmasked",
    "written_options",
]
