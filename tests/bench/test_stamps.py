import importlib

import pytest

from bench.stamps.sitecustomize import STEPS


@pytest.mark.parametrize("module", STEPS)
def test_the_steps_are_methods_that_there_are(module: str) -> None:
    """They are named by text: a renaming would be found by nobody else than who measures."""
    found = importlib.import_module(module)

    for owner, method, *_ in STEPS[module]:
        assert callable(getattr(getattr(found, owner), method))
