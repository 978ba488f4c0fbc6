"""A finding: what was looked at, how it is, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.model.exits import Exit


class Verdict(StrEnum):
    """How something is. A warning works, and deserves a look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of `check`. `remedy` says what to do unless all is well; `exit` is the code of a failure.

    `count` is how many things there are to do about it.
    """

    name: str
    verdict: Verdict
    sentence: str
    remedy: str | None = None
    exit: Exit = Exit.DONE
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "remedy": self.remedy,
        }


def ok(name: str, sentence: str) -> Finding:
    """All is well."""
    return Finding(name=name, verdict=Verdict.OK, sentence=sentence)


def warn(name: str, sentence: str, remedy: str) -> Finding:
    """It works, and not as well as it could, or not for ever."""
    return Finding(name=name, verdict=Verdict.WARN, sentence=sentence, remedy=remedy)


def unusable(name: str, sentence: str, remedy: str) -> Finding:
    """`run` would wait for it, and then end with 3."""
    return Finding(name=name, verdict=Verdict.FAIL, sentence=sentence, remedy=remedy, exit=Exit.UNUSABLE)


def misconfigured(name: str, sentence: str, remedy: str, *, count: int = 1) -> Finding:
    """`run` would end with 2, or bring objects to a wrong end."""
    return Finding(
        name=name,
        verdict=Verdict.FAIL,
        sentence=sentence,
        remedy=remedy,
        exit=Exit.CONFIGURATION,
        count=count,
    )


def exit_of(findings: Iterable[Finding]) -> Exit:
    """The exit code: 2 when a configuration is wrong, else 3 when something is not usable, else 0."""
    codes = {finding.exit for finding in findings if finding.verdict is Verdict.FAIL}
    for code in (Exit.CONFIGURATION, Exit.UNUSABLE):
        if code in codes:
            return code
    return Exit.DONE


class Cause(StrEnum):
    """Why a call was not answered as hoped."""

    MISSING = "missing"
    DENIED = "denied"
    CREDENTIALS = "credentials"
    ELSEWHERE = "elsewhere"  # another region's
    ARCHIVED = "archived"
    OPTION = "option"  # an option of ours is what the service refuses
    CLOCK = "clock"  # ours is too far from theirs
    UNREACHED = "unreached"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was refused or not answered: why, and the service's own words."""

    cause: Cause
    words: str
