"""JSON lines of 200 bytes, each different, as the benchmarks send them."""

LINE_BYTES = 200


def lines(first: int, count: int) -> bytes:
    """`count` lines from number `first` on, LF included in the 200 bytes of each."""
    made = []
    for number in range(first, first + count):
        head = b'{"id":"%012d","name":"abcdefghij","n":%d,"f":1.25,"payload":"' % (number, number)
        made.append(head + b"x" * (LINE_BYTES - len(head) - 3) + b'"}\n')
    return b"".join(made)
