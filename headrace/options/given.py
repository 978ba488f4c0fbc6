"""What a configuration gives: text of each option, its origin, how much may be shown; all problems."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.options.declarations import BY_NAME, CANONICAL
from headrace.options.secret import HIDDEN, MASK, is_mask, is_secret_name, without_url_secrets

_SHOWN_MAX: Final = 200
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
_FREE_TEXTS: Final = ("transforms.", "predicates.")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Entry:
    """One option as given: `raw` as it was written, `text` with references replaced.

    `is_vendors`: `spelled` is another vendor's option, and not an old name of ours. `is_default`: it is
    not written anywhere, and that vendor's connector has it so.
    """

    option: str
    spelled: str
    raw: str
    text: str
    is_vendors: bool = False
    is_default: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether what was written is a secret, or is taken for one; a reference to one is not."""
        if _REFERENCE.fullmatch(self.raw.strip()) is not None:
            return False
        return self.is_secret

    @property
    def is_secret(self) -> bool:
        """Whether the value is a secret, or is taken for one, wherever it comes from."""
        known = BY_NAME.get(self.option)
        if known is not None:
            return known.is_secret
        # A whole property line for a JVM may carry a password; Spark masks by name and by value as well.
        return is_secret_name(self.option) or (self.option.startswith("spark.") and is_secret_name(self.text))

    @property
    def is_mask(self) -> bool:
        """Whether what was written is what is shown in place of a secret.

        `[hidden]` counts for any option: others may show a secret so that is not known as one here. A
        transform may write what looks like one, and its user calls it as they like.
        """
        return self._is_mask(self.raw)

    @property
    def leads_to_mask(self) -> bool:
        """Whether a reference leads to what looks like a mask: a value, as answers show the reference."""
        return self._is_mask(self.text) and not self.is_mask

    def _is_mask(self, text: str) -> bool:
        if self.option.startswith(_FREE_TEXTS):
            return False
        is_hidden = text.strip() == HIDDEN or self.option.startswith("spark.")
        return is_mask(text, is_secret=self.is_secret or is_hidden)

    @property
    def shown_whole(self) -> str:
        """What may be shown of the value: a reference stays a reference, a secret is masked."""
        return MASK if self.is_hidden else without_url_secrets(self.raw)

    @property
    def shown(self) -> str:
        """The same, short enough for a sentence."""
        shown = self.shown_whole
        return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}.."


def as_written(spelled: str, raw: str) -> Entry:
    """Return an entry for an option as a configuration has it, its references not replaced: to show it."""
    return Entry(option=canonical(spelled), spelled=spelled, raw=raw, text=raw)


def canonical(spelled: str) -> str:
    """Return the name under which an option is known here; unknown names are their own."""
    return CANONICAL.get(spelled.strip(), spelled.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One sentence about one option; `value` is what was given as it may be shown, None when it may not.

    `is_missing`: what its reference points at is not there, on this machine and at this time.
    `is_forbidden`: it may not be read, wherever it leads.
    """

    option: str
    message: str
    value: str | None = None
    is_missing: bool = False
    is_forbidden: bool = False

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value!r}"
        return f"{self.option}{shown}: {self.message}" if self.option else self.message


class SettingsError(HeadraceError):
    """The configuration cannot be used; `problems` holds all that was found, none of them with a secret."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"The configuration has a problem: {self.problems[0]}"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return f"The configuration has {len(self.problems)} problems:{lines}"


class Problems:
    """Collects problems; the same one found twice (a TLS option serves three clients) counts once."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(
        self,
        option: str,
        message: str,
        value: str | None = None,
        *,
        is_missing: bool = False,
        is_forbidden: bool = False,
    ) -> None:
        """Note a problem of an option; the value only as it may be shown."""
        problem = Problem(
            option=option, message=message, value=value, is_missing=is_missing, is_forbidden=is_forbidden
        )
        self._found[problem] = None

    def include(self, others: "Problems") -> None:
        """Note what others have found, too."""
        self._found |= dict.fromkeys(others)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SettingsError with all of them, if there are any."""
        if self._found:
            raise SettingsError(tuple(self._found))
