"""What fails at present, told once in the log when it begins and once when it is over."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_AGAIN_SECONDS: Final = 60.0
"""One that comes and goes is a line at most this often."""

_NUMBERS: Final = re.compile(r"\d+")


class ProblemLog:
    """The problems of a leadership as they come and go; for one thread, and does not block."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sentences: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def tell(self, problems: Mapping[str, str], *, ready: bool) -> None:
        """Take what fails now, a sentence for each part, as `/status` has it."""
        if not problems and not self._sentences:
            return
        now = self._now()
        # A sentence that counts seconds or records is the same problem still.
        sentences = {_NUMBERS.sub("0", sentence): sentence for sentence in problems.values()}
        self._told = {
            one: at for one, at in self._told.items() if one in self._sentences or now - at < _AGAIN_SECONDS
        }
        for one in [one for one in self._sentences if one not in sentences]:
            _log.info("problem_over", problem=self._sentences.pop(one), ready=ready)
        for one, sentence in sentences.items():
            if one in self._sentences or one in self._told:
                continue
            self._sentences[one], self._told[one] = sentence, now
            _log.warning("problem_found", problem=sentence, ready=ready)
