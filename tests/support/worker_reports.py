"""What a worker of xdist tells the process that started it: what is printed, and no more."""

from collections.abc import Callable
from typing import Any, Final

import pytest

_SHOWN_SECONDS: Final = 0.005
"""`--durations` hides what takes less."""


def is_told(event: str, values: dict[str, Any]) -> bool:
    """Whether anything that is printed of a run depends on this event.

    Neither the beginning and end of a test nor a setup or teardown that passed at once, without output.
    """
    if event == "testreport":
        report = values["data"]
        is_call = report["when"] == "call" or report["outcome"] != "passed"
        return bool(is_call or report["sections"] or report["duration"] >= _SHOWN_SECONDS)
    return event not in {"logstart", "logfinish"}


def tell_less(config: pytest.Config) -> None:
    """Have a worker leave out what is not printed: of six messages a test four, a millisecond of CPU.

    Where more is asked for, by `-v` or `--junit-xml`, all are sent.
    """
    if config.option.verbose > 0 or config.getoption("xmlpath", None) is not None:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _less(plugin.sendevent)


def _less(send: Callable[..., None]) -> Callable[..., None]:
    def sendevent(name: str, **values: Any) -> None:
        if is_told(name, values):
            send(name, **values)

    return sendevent
