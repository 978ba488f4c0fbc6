"""How a sink reads its topics: the two properties of its consumer that the operator decides.

They are of what reads records alone: ledger and group are read as the protocol needs it.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from headrace.options.choices import IsolationLevel, OffsetReset
from headrace.options.given import Entry, Problems
from headrace.options.sink_settings import ReadSettings
from headrace.options.value_types import Form, FormError, choice

T = TypeVar("T")

ISOLATION: Final = "isolation.level"
RESET: Final = "auto.offset.reset"
NAMES: Final = (ISOLATION, RESET)


def read_settings(given: Mapping[str, Entry], problems: Problems) -> ReadSettings:
    """Return what these entries of the consumer say, by its own property names."""
    default = ReadSettings()
    return ReadSettings(
        isolation=_chosen(given.get(ISOLATION), choice(IsolationLevel), default.isolation, problems),
        reset=_chosen(given.get(RESET), choice(OffsetReset), default.reset, problems),
    )


def read_warnings(given: Mapping[str, Entry], settings: ReadSettings) -> tuple[str, ...]:
    """Return what the operator may not have meant."""
    if settings.isolation is IsolationLevel.READ_COMMITTED:
        return ()
    option = f"{given[ISOLATION].spelled} = {settings.isolation}"
    costs = (
        "records of transactions that are aborted, or not ended yet, are archived like any other, and no "
        "object tells them apart; without it only committed records are"
    )
    return (f"{option}: {costs}",)


def _chosen(entry: Entry | None, form: Form[T], default: T, problems: Problems) -> T:
    if entry is None:
        return default
    try:
        return form.parse(entry.text)
    except FormError:
        problems.add(entry.spelled, f"expected {form.expected}", entry.shown)
        return default
