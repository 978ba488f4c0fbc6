"""What tests of the endpoints of a real service share."""

from contextlib import ExitStack

import pytest

from tests.ingest.http.numbered import Numbered, numbered


@pytest.fixture(scope="session")
def numbered_service(tmp_path_factory: pytest.TempPathFactory, for_the_group: ExitStack) -> Numbered:
    """One service for all that is asked of it by HTTP: its start is what most of these tests would cost."""
    return for_the_group.enter_context(numbered(tmp_path_factory.mktemp("numbers")))
