"""Members of values as Connect has them."""

from typing import Any

import pyarrow as pa
import pytest

from headrace.formats.converters.members import reading_of_arrow


@pytest.mark.parametrize("text", ["@@", "\u00e9", "YQ"])
@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(1), pa.decimal128(5, 2)])
def test_text_that_is_not_base64_stays_as_it_is(text: str, kind: Any) -> None:
    """It is what the JSON has, and no end of the reader."""
    read = reading_of_arrow(kind)
    assert read is not None
    assert read(text) == text
