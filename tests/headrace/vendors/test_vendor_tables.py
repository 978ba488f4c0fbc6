"""The pages about other makers' sinks have the tables that the code has."""

from pathlib import Path

import pytest

from tests.docs.vendor_tables import TABLES, tables

_DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("maker", TABLES)
def test_the_page_ends_with_the_tables(maker: str) -> None:
    """Put what `python -m tests.docs.vendor_tables VENDOR tables` prints at its end when this fails."""
    page = (_DOCS / f"moving-from-{maker}.md").read_text(encoding="utf-8")
    assert page.endswith(tables(maker))
