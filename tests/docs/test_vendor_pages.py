"""The pages on moving from other makers' sinks have a line for each of their options."""

from pathlib import Path
from typing import Final

import pytest

from ingest.settings.vendors import Vendor
from ingest.settings.vendors.aiven import AIVEN
from ingest.settings.vendors.confluent import CONFLUENT
from ingest.settings.vendors.document import filled

_DOCS: Final = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("vendor", [AIVEN, CONFLUENT], ids=lambda vendor: vendor.layout)
def test_the_table_is_that_of_the_code(vendor: Vendor) -> None:
    """`python -m ingest.settings.vendors.document` prints what belongs between the marks."""
    text = (_DOCS / f"moving-from-{vendor.layout}.md").read_text(encoding="utf-8")

    assert filled(text, vendor) == text
