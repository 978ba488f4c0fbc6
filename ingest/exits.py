"""Exit codes (contract, section 6), and the one place where an error becomes one."""

from enum import IntEnum

from ingest.errors import (
    AccessDenied,
    HeadraceError,
    LeadLost,
    LedgerUnfit,
    SourceUnavailable,
    TopicMissing,
    Unusable,
)
from ingest.http import AddressTaken
from ingest.rest.auth import AuthFileUnfit


class Exit(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    FAILED = 1
    CONFIGURATION = 2
    UNUSABLE = 3
    LEAD_LOST = 4
    QUARANTINED = 5


class ConfigurationUnfit(HeadraceError):
    """The configuration, or what it names, cannot work: several sentences, a line each."""


_CODES: dict[type[HeadraceError], Exit] = {
    ConfigurationUnfit: Exit.CONFIGURATION,
    AddressTaken: Exit.CONFIGURATION,
    AuthFileUnfit: Exit.CONFIGURATION,
    LedgerUnfit: Exit.CONFIGURATION,
    TopicMissing: Exit.CONFIGURATION,
    Unusable: Exit.UNUSABLE,
    AccessDenied: Exit.UNUSABLE,
    SourceUnavailable: Exit.UNUSABLE,
    LeadLost: Exit.LEAD_LOST,
}


def exit_code(error: HeadraceError) -> Exit:
    """The exit code for an error that ended a command."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return Exit.FAILED
