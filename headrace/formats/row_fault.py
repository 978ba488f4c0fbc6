"""What makes a single row unfit for its record."""


class RowFaultError(ValueError):
    """A value cannot be shown; `str()` says why without its content, `reason` is a bad record's word."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
