"""How many examples a law is tried with, by the profile: few in `make test`, many in `make test-all`."""

from typing import Final

import hypothesis

_FEW: Final = 100
"""No profile of `make test` has as many examples."""


def max_examples() -> int:
    """Hypothesis' own number of this run; a law that needs more takes a multiple of it."""
    default = hypothesis.settings.default
    assert default is not None
    return default.max_examples


def fewer_examples(number: int) -> int:
    """So many in `make test`, for a law that each of many kinds is tried with; all in `make test-all`."""
    return max_examples() if max_examples() > _FEW else min(number, max_examples())


def examples(number: int) -> int:
    """So many in `make test-all`, for a law of its own number; a fifth of them in `make test`."""
    return number if max_examples() > _FEW else max(number // 5, 1)
