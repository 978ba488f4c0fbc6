"""The error tree, sorted by who must act. Foreign errors are translated into it at the adapters' doors.

    HeadraceError
    ├── SettingsError             the operator, before start (exit 2)      headrace.options
    ├── InvalidConfiguration      the configuration, or what it names      exit 2
    ├── Unavailable               broker, bucket or ledger not usable      exit 3
    ├── InvalidLedger             a lost, foreign or newer ledger          exit 2
    ├── LeadershipLost            this leadership is over; the process leads again when it can
    │   └── TakenOver             another instance leads, and a run until idle is over        exit 4
    ├── ObjectError               one object cannot be read, now or ever
    │   ├── ObjectMissing         404: deleted since
    │   ├── ObjectSuperseded      412, or a 206 of other content: overwritten since
    │   ├── ObjectArchived        the storage class forbids reading
    │   ├── ObjectForbidden       403 on this object
    │   ├── ObjectCorrupt         gzip, block or footer damaged, or the upload was torn
    │   └── InvalidObject         a permanent refusal with its reason (unit_too_large, unknown_partition, ..)
    ├── SourceUnavailable         throttling, 5xx, resets: the object goes back and is tried later
    ├── AccessDenied              403, expired credentials: true of all objects
    │   ├── ResourceMissing       there is no such bucket or queue         exit 2
    │   ├── TopicForbidden        one topic may not be written: other objects have others
    │   └── SubjectForbidden      one subject of the schema registry may not be used: the same
    ├── TopicMissing              the topic is not there: try again, and say so
    ├── TopicWithoutLeader        no broker takes what is written to the topic: the same
    ├── RecordRefused             the broker refuses a record that was measured
    ├── FrameRefused              a frame of Spark cannot be read or written (docs/spark.md)
    ├── TransactionAborted        everything since the last checkpoint is produced again
    └── Fenced                    a newer producer or generation exists: this task must end

`headrace.model.error_policy` maps every class below ObjectError and next to it to what becomes of the object.

Exit codes (docs/commands.md), and the one place where an error becomes one.
"""

from collections.abc import Iterable
from enum import IntEnum


class HeadraceError(Exception):
    """What Headrace raises on purpose; anything else is a bug and ends the process."""


class InvalidConfiguration(HeadraceError):
    """The configuration, or what it names, cannot work: several sentences, a line each. Exit code 2."""


class Unavailable(HeadraceError):
    """Broker, bucket or ledger could not be used within the start-up timeout: exit code 3."""


class InvalidLedger(HeadraceError):
    """The ledger topic is lost, belongs to another ingester, or needs a newer version: exit code 2."""


class LeadershipLost(HeadraceError):
    """This leadership is over: nothing may be started or committed in its name any more."""


class TakenOver(LeadershipLost):
    """Another instance of this name leads, which ends `--until-idle`: exit code 4."""


class ObjectError(HeadraceError):
    """One object cannot be read to its end; `str()` names it as `s3://bucket/key` with the cause."""


class ObjectMissing(ObjectError):
    """The object, or the version asked for, is not there any more (404)."""


class ObjectSuperseded(ObjectError):
    """The object has other content than the ETag that was announced (412, or a 206 that differs)."""


class ObjectArchived(ObjectError):
    """The object's storage class has to be restored before it can be read."""


class ObjectForbidden(ObjectError):
    """S3 refuses to read this object (403), while others may well be readable."""


class ObjectCorrupt(ObjectError):
    """The content is damaged or ends too early; the upload may have been torn, so it is tried again."""


class InvalidObject(ObjectError):
    """Trying again cannot help; `reason` is the ledger's word for it."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class SourceUnavailable(HeadraceError):
    """S3 throttles, fails or cannot be reached: not the object's fault, tried later without a limit."""


class AccessDenied(HeadraceError):
    """Credentials are refused or expired, or there is no such bucket: no object can be read."""


class ResourceMissing(AccessDenied):
    """There is no bucket or queue of this name: a final answer, as for a missing topic (exit code 2)."""


class TopicForbidden(AccessDenied):
    """The brokers' ACLs forbid this user to write `topic`, one that keys or transforms may name."""

    def __init__(self, message: str, *, topic: str) -> None:
        super().__init__(message)
        self.topic = topic


class SubjectForbidden(AccessDenied):
    """The schema registry lets this user not use `subject`, which other objects may not need."""

    def __init__(self, message: str, *, subject: str) -> None:
        super().__init__(message)
        self.subject = subject
        suffix = next((one for one in ("-key", "-value") if subject.endswith(one)), "")
        self.topic = subject.removesuffix(suffix)
        """By the usual strategy of names, what the subject is of."""


class TopicMissing(HeadraceError):
    """The output topic does not exist (any more); `topic` where it is known which."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class TopicWithoutLeader(HeadraceError):
    """Partitions of the output `topic` have no leader: what is sent to it is not taken in its time."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class RecordRefused(HeadraceError):
    """The broker refuses a request because of a record in it, and does not say which."""


class FrameRefused(HeadraceError):
    """A frame of Spark cannot be read, or not all of its rows are in objects: its query has to fail."""


class TransactionAborted(HeadraceError):
    """The open transaction was given up; its records are invisible and will be produced again."""


class Fenced(HeadraceError):
    """A newer producer of this slot, or a newer generation of the group, exists."""


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


def first_refusal(refusals: Iterable[HeadraceError]) -> HeadraceError:
    """The one of several to raise: what may pass by itself, and is waited for, before what is missing."""
    return min(refusals, key=lambda error: isinstance(error, ResourceMissing))
