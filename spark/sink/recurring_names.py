"""Names that recur by design (a template of record keys alone): one object of a name at a time."""


class RecurringNames:
    """Which object has a recurring name at the moment; the next one's upload waits for its completion.

    S3 lets the upload that was started last win, so a later object must not be started before.
    """

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def hold(self, name: str, object_id: str) -> bool:
        """True when this object has the name, from now on or already."""
        holder = self._holders.setdefault(name, object_id)
        if holder == object_id:
            self._names[object_id] = name
        return holder == object_id

    def release(self, object_id: str) -> None:
        """The object is completed, or given up."""
        name = self._names.pop(object_id, None)
        if name is not None:
            del self._holders[name]
