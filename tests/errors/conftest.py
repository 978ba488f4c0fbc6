"""The two services that most rows of the error table are tried on: one of each tolerance, for all modules."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.errors.harness import Stand, stand


@pytest.fixture(scope="session")
def stands(tmp_path_factory: pytest.TempPathFactory, for_the_group: ExitStack) -> dict[str, Stand]:
    """A stand of each tolerance, brought up side by side."""
    makers = {
        "none": stand(tmp_path_factory.mktemp("none"), "strict"),
        "all": stand(tmp_path_factory.mktemp("all"), "tolerant", tolerant=True),
    }
    with ThreadPoolExecutor(len(makers)) as pool:
        started = {name: pool.submit(for_the_group.enter_context, maker) for name, maker in makers.items()}
    return {name: made.result() for name, made in started.items()}


# Where both columns say the same, `make test` looks at one of them.
@pytest.fixture(params=["none", pytest.param("all", marks=pytest.mark.long)])
def one(request: pytest.FixtureRequest, stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand of a column of the table; afterwards its proxy behaves."""
    found = stands[request.param]
    yield found
    found.proxy.off()


@pytest.fixture
def strict(stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand with `errors.tolerance=none`."""
    yield stands["none"]
    stands["none"].proxy.off()


@pytest.fixture
def tolerant(stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand with `errors.tolerance=all` and a dead letter topic."""
    yield stands["all"]
    stands["all"].proxy.off()
