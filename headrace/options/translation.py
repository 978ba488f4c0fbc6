"""Properties of one librdkafka client as they are translated, each with the entry that it came from."""

from headrace.options.given import Entry
from headrace.options.problems import Problems


class Translation:
    """Collects properties; two entries that say one thing differently are a problem."""

    __slots__ = ("_found", "_from", "problems")

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self._found: dict[str, str] = {}
        self._from: dict[str, str] = {}

    def put(self, name: str, value: str, entry: Entry) -> None:
        """Set a property of librdkafka from an entry."""
        if self._found.setdefault(name, value) != value:
            self.refuse(entry, f"says otherwise than {self._from[name]}; keep one of them")
        self._from.setdefault(name, entry.spelled)

    def refuse(self, entry: Entry, message: str) -> None:
        """Note a problem of an entry."""
        self.problems.add(entry.spelled, message, entry.shown)

    def get(self, name: str) -> str | None:
        """Return a property set so far."""
        return self._found.get(name)

    def result(self) -> dict[str, str]:
        """Return all properties."""
        return dict(self._found)
