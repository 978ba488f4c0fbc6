"""Bytes against parts, however they are cut on the way."""

import hashlib
import zlib

from hypothesis import given
from hypothesis import strategies as st

from headrace.s3.completion import SentPart, crc32_text, is_same_content

_parts = st.lists(st.binary(max_size=20), min_size=1, max_size=4)


def _sent(bodies: list[bytes], *, kms: bool) -> list[SentPart]:
    return [
        SentPart(
            number=number,
            etag='"of no use"' if kms else f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"',
            size=len(body),
            checksum=crc32_text(zlib.crc32(body)) if kms else None,
        )
        for number, body in enumerate(bodies, 1)
    ]


def _cut(whole: bytes, size: int) -> list[bytes]:
    return [whole[begin : begin + size] for begin in range(0, len(whole), size)]


@given(bodies=_parts, size=st.integers(1, 30), kms=st.booleans())
def test_the_same_bytes_are_the_same_however_they_are_cut(
    *, bodies: list[bytes], size: int, kms: bool
) -> None:
    """By ETags, or by checksums where ETags are no digests."""
    assert is_same_content(_cut(b"".join(bodies), size), _sent(bodies, kms=kms))


@given(bodies=_parts, size=st.integers(1, 30), kms=st.booleans(), other=st.binary(max_size=60))
def test_other_bytes_are_not(*, bodies: list[bytes], size: int, kms: bool, other: bytes) -> None:
    """Nor more, nor fewer."""
    whole = b"".join(bodies)
    sent = _sent(bodies, kms=kms)
    assert is_same_content(_cut(other, size), sent) == (other == whole)
    assert not is_same_content([*_cut(whole, size), b"x"], sent)
    if whole:
        assert not is_same_content(_cut(whole[:-1], size), sent)
