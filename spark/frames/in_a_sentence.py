"""A refusal without what led to it: PySpark shows each cause of an error with its stack; pure."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from headrace.model.errors import FrameRefused, HeadraceError

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def in_a_sentence(call: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """The call, whose refusal is one sentence: PySpark shows each cause with its stack, and that last."""

    @wraps(call)
    def called(*args: _Given.args, **named: _Given.kwargs) -> _Found:
        try:
            return call(*args, **named)
        except HeadraceError as error:
            sentence = str(error)
        raise FrameRefused(sentence)

    return called
