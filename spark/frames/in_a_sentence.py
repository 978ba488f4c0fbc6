"""A refusal without what led to it: PySpark shows each cause of an error with its stack; pure.

What led to it is there for who looks into a defect: in `__context__`, which no traceback shows, and at DEBUG.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

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
