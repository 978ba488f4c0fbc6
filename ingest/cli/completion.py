"""What the shell offers after the Tab key, next to commands, options and choices, which typer knows itself.

CONFIG and other files are left to the shell: it offers files where nothing else is offered.
"""

from headrace.model.ledger_entry import State
from headrace.options.declarations import OPTIONS


def option_assignments(incomplete: str) -> list[str]:
    """The options of a configuration that begin so, with the sign that `--set` expects after them."""
    return [f"{option.name}=" for option in OPTIONS if option.name.startswith(incomplete)]


def option_names(incomplete: str) -> list[str]:
    """The options of a configuration that begin so."""
    return [option.name for option in OPTIONS if option.name.startswith(incomplete)]


def ledger_states(incomplete: str) -> list[str]:
    """The states of the ledger that begin so."""
    return [state.value for state in State if state.value.startswith(incomplete)]
