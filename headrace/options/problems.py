"""What is wrong with a configuration: every problem, in the order found, in one error."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model.errors import HeadraceError


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One sentence about one option; `value` is what was given as it may be shown, None when it may not."""

    option: str
    message: str
    value: str | None = None

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

    def add(self, option: str, message: str, value: str | None = None) -> None:
        """Note a problem of an option; the value only as it may be shown."""
        self._found[Problem(option=option, message=message, value=value)] = None

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SettingsError with all of them, if there are any."""
        if self._found:
            raise SettingsError(tuple(self._found))
