"""Avro's variable-length integers, which also are before every text."""


def varint(number: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the least first."""
    return unsigned_varint(number << 1 if number >= 0 else ~(number << 1))


def unsigned_varint(number: int) -> bytes:
    """A number that is not negative as Protobuf writes it: seven bits a byte, the least first."""
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004  # seven bits
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
