"""Positions as a person is told them."""

import pytest

from headrace.model.positions import (
    BlockPosition,
    BytePosition,
    ElementPosition,
    JoinedPosition,
    MemberPosition,
    Position,
    RowPosition,
    position_text,
)


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (None, "the beginning"),
        (BytePosition(1204), "byte 1,204"),
        (ElementPosition(5, 77), "element 5, byte 77"),
        (BlockPosition(99, 3), "record 3 of the block at byte 99"),
        (RowPosition(1, 7), "row 7 of row group 1"),
        (JoinedPosition(BytePosition(9), 4), "row 4, byte 9"),
        (MemberPosition(1, 512, "a\n.json", BytePosition(9)), "byte 9 of the member a\\n.json"),
        (JoinedPosition(None, 0), "row 0, the beginning"),
    ],
)
def test_a_position_says_where_to_look(position: Position | None, text: str) -> None:
    """In the object's own terms."""
    assert position_text(position) == text
