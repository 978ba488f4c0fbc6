"""Numbers for people."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def bytes_text(count: float) -> str:
    """A number of bytes with a decimal unit, three digits or so.

    >>> bytes_text(999), bytes_text(1500), bytes_text(268435456)
    ('999 B', '1.5 kB', '268 MB')
    """
    for unit in _UNITS:
        if count < _STEP or unit == _UNITS[-1]:
            break
        count /= _STEP
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"  # noqa: PLR2004 - as said


def counted(number: int, noun: str) -> str:
    """A number of things: the noun with an s unless there is one.

    >>> counted(1, "object"), counted(2000, "record")
    ('1 object', '2,000 records')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
