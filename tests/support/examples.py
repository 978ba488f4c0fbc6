"""How many examples a law is tried with, by the profile: few in `make test`, many in `make test-all`."""

import hypothesis


def max_examples() -> int:
    """Hypothesis' own number of this run; a law that needs more takes a multiple of it."""
    default = hypothesis.settings.default
    assert default is not None
    return default.max_examples
