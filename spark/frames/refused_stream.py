"""The reader of a stream that is refused: PySpark takes an error of its own for that of a missing reader."""

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from headrace.model.errors import FrameRefused


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Ends its query with a sentence at the first call.

    Where `streamReader` raises, PySpark stops a reader that it does not have, and shows that as the error.
    """

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # PySpark's name
        """FrameRefused, as of all that a query calls."""
        raise FrameRefused(self._sentence)

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802  # PySpark's name
        """FrameRefused."""
        raise FrameRefused(self._sentence)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # PySpark's name
        """FrameRefused."""
        raise FrameRefused(self._sentence)

    def partitions(self, *_: object) -> list[Any]:
        """FrameRefused: a batch of an earlier run is asked for by this alone."""
        raise FrameRefused(self._sentence)

    def read(self, *_: object) -> Any:
        """FrameRefused; no task gets here."""
        raise FrameRefused(self._sentence)
