"""Refusals as PySpark shows them: a sentence without what led to it, and a stream's reader of one.

PySpark shows each cause of an error with its stack. What led to it is there for who looks into a defect: in
`__context__`, which no traceback shows, and at DEBUG.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from headrace.model.errors import FrameRefused, HeadraceError

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

# Python's own: processes of Spark that have no logging of ours would show an event of any level.
_LOG: Final = logging.getLogger(__name__)


def in_a_sentence(call: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """The call, whose refusal is one sentence: PySpark shows each cause with its stack, and that last."""

    @wraps(call)
    def called(*args: _Given.args, **named: _Given.kwargs) -> _Found:
        try:
            return call(*args, **named)
        except HeadraceError as error:
            raise as_a_sentence(error) from None

    return called


def as_a_sentence(error: HeadraceError) -> FrameRefused:
    """The refusal with the sentence of what is handled now, to be raised `from None`; its stack is logged."""
    _LOG.debug("%s", error, exc_info=True)
    return FrameRefused(str(error))


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
