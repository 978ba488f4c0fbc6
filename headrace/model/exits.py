"""Exit codes (docs/commands.md), and the one place where an error becomes one."""

from enum import IntEnum

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidConfiguration,
    InvalidLedger,
    LeadershipLost,
    ResourceMissing,
    SourceUnavailable,
    TopicMissing,
    Unavailable,
)


class Exit(IntEnum):
    """The process's exit codes."""

    DONE = 0
    FAILED = 1
    CONFIGURATION = 2
    UNUSABLE = 3
    LEAD_LOST = 4
    QUARANTINED = 5


_CODES: dict[type[HeadraceError], Exit] = {
    InvalidConfiguration: Exit.CONFIGURATION,
    InvalidLedger: Exit.CONFIGURATION,
    ResourceMissing: Exit.CONFIGURATION,
    TopicMissing: Exit.CONFIGURATION,
    Unavailable: Exit.UNUSABLE,
    AccessDenied: Exit.UNUSABLE,
    SourceUnavailable: Exit.UNUSABLE,
    LeadershipLost: Exit.LEAD_LOST,
}


def exit_code(error: HeadraceError) -> Exit:
    """The exit code for an error that ended a command."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return Exit.FAILED
