"""The pages on moving from other makers' sinks have a line for each of their options."""

from pathlib import Path
from typing import Final

import pytest

from headrace.options.vendor import Vendor
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.confluent.source_translation import CONFLUENT_SOURCE_VENDOR
from headrace.vendors.confluent.translation import CONFLUENT
from tests.docs.vendor_tables import filled

_DOCS: Final = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "vendor", [AIVEN, CONFLUENT, CONFLUENT_SOURCE_VENDOR], ids=lambda vendor: vendor.name
)
def test_the_table_is_that_of_the_code(vendor: Vendor) -> None:
    """`python -m tests.docs.vendor_tables` prints what belongs between the marks."""
    text = (_DOCS / f"moving-from-{vendor.layout}.md").read_text(encoding="utf-8")

    assert filled(text, vendor) == text
