"""`headrace run` as a call, and as an object that a program starts and stops; its configuration."""

import functools
import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import structlog

from headrace.model.clock import LONGEST_START_SECONDS
from headrace.model.errors import Exit, HeadraceError, InvalidConfiguration, Unavailable
from headrace.options import Settings, SettingsError
from headrace.process import logs
from headrace.process.own_process import read_regular_text
from headrace.process.threads import start_thread
from headrace.vendors.load import load
from ingest.cli.configuration import environment, read_settings
from ingest.service.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ingest.service.composition import Service


Config = Mapping[str, Any] | str | Path
"""Options by name, in one of Kafka Connect's two shapes, or the path of a file that `headrace run` takes."""


def settings_of(config: Config) -> Settings:
    """The settings; InvalidConfiguration with every problem on a line of its own."""
    if isinstance(config, str | Path):
        return read_settings(Path(config), sets=(), worker_config=None)
    if not isinstance(config, Mapping):
        raise InvalidConfiguration(
            f"config is {type(config).__name__}: give options by name as a dict, or the path of a file."
        )
    try:
        return load(
            json.dumps(dict(config), default=_refuse),
            kind="json",
            environment=environment(),
            read_file=read_regular_text,
        )
    except SettingsError as error:
        raise InvalidConfiguration(str(error)) from error
    except TypeError as error:
        # What json says of a name that is no text.
        raise InvalidConfiguration(f"config has a name that is no text: {error}.") from error


def _refuse(value: object) -> object:
    # Its content is not shown: it may be a secret.
    raise InvalidConfiguration(
        f"config has a value of {type(value).__name__}: values are texts, numbers, true or false."
    )


_log = structlog.get_logger(__name__)

_LEDGER_SECONDS: Final = 30.0
# What an end at once takes, after a clean one took too long.
_AT_ONCE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
# Spark has one session a process, and so has what runs on it.
_running: Final = threading.Lock()


def run(
    config: Config,
    *,
    until_idle: bool = False,
    accept_new_ledger: bool = False,
    startup_timeout: float = 60.0,
) -> Exit:
    """How it ended: what `headrace run` does, until SIGTERM or SIGINT. Blocks; call it in the main thread.

    A `HeadraceError` where the command would print a sentence and end with another code. The handlers of both
    signals are those of before when it returns.
    """
    connector = Connector(
        config, until_idle=until_idle, accept_new_ledger=accept_new_ledger, startup_timeout=startup_timeout
    )
    if threading.current_thread() is not threading.main_thread():
        raise HeadraceError(
            "headrace.run answers signals, which Python gives to the main thread alone: call it there, or "
            "use headrace.Connector."
        )
    return connector.run_here()


class Connector:
    """One connector, source or sink, in this process; `start` and `stop` once each.

    Settings are read at once: InvalidConfiguration with every problem. The options next to `config` are those
    of `headrace run`. `http.listen` and `rest.listen` are served as the configuration says.
    """

    def __init__(
        self,
        config: Config,
        *,
        until_idle: bool = False,
        accept_new_ledger: bool = False,
        startup_timeout: float = 60.0,
    ) -> None:
        if not 1 <= startup_timeout <= LONGEST_START_SECONDS:
            raise InvalidConfiguration(
                f"startup_timeout = {startup_timeout}: expected seconds, from 1 to {LONGEST_START_SECONDS}."
            )
        self._settings = settings_of(config)
        self._until_idle = until_idle
        self._accept_new_ledger = accept_new_ledger
        self._startup_seconds = startup_timeout
        self._as_new()

    def _as_new(self) -> None:
        self._stop = Stop()
        self._service: Service | None = None
        self._thread: threading.Thread | None = None
        self._code: Exit | None = None
        self._error: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark Connect sends `foreach_batch` to its server. What runs stays here.
        kept = ("_settings", "_until_idle", "_accept_new_ledger", "_startup_seconds")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._as_new()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def settings(self) -> Settings:
        """What the configuration says, with every default."""
        return self._settings

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> Self:
        """Begin to run, in threads of its own; returns at once, and what goes wrong later is `wait`'s."""
        if self._thread is not None:
            raise HeadraceError(f"{self._settings.name!r} was started already; make another Connector.")
        self._prepare()
        self._thread = start_thread(self._live, name=f"connector-{self._settings.name}")
        return self

    def wait(self, seconds: float | None = None) -> Exit | None:
        """How it ended, None while it runs after this time; raises what ended it otherwise. Blocks."""
        if self._thread is None:
            raise HeadraceError(f"{self._settings.name!r} was not started.")
        self._thread.join(seconds)
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._code

    def ready(self, seconds: float = 60.0) -> bool:
        """Whether it is ready, as `/health/ready` has it, within this time. Blocks; raises what ended it.

        False as well where it has ended without an error.
        """
        until = time.monotonic() + seconds
        while not self.status()["ready"]:
            self.wait(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
            if not self.is_running or time.monotonic() >= until:
                self.wait(0)
                return bool(self.status()["ready"])
        return True

    def stop(self, seconds: float = 30.0) -> Exit:
        """How it ended: what is at hand is committed, and what is not after this time aborted. Blocks.

        Nothing is lost by either. Raises what had ended it before.
        """
        if not self._stop.asked.is_set():
            self._stop.ask("stop()")
        code = self.wait(seconds)
        if code is None:
            self._stop.ask("stop()")
            code = self.wait(_AT_ONCE_SECONDS)
        if code is None:
            raise Unavailable(f"{self._settings.name!r} did not end in time: a call of a library hangs.")
        return code

    def status(self) -> dict[str, Any]:
        """How it is now, in the shape of `/status` (docs/status.md); role `stopped` when it does not run.

        What ended it is `problems["ended"]`.
        """
        service = self._service
        if service is None:
            shown: dict[str, Any] = {"name": self._settings.name, "role": "stopped", "ready": False}
            return shown | {"problems": self._ended()}
        shown = service.snapshot.as_dict()
        if self.is_running:
            return shown
        return shown | {"role": "stopped", "ready": False, "problems": shown["problems"] | self._ended()}

    def _ended(self) -> dict[str, str]:
        if self._error is None:
            return {}
        return {"ended": str(self._error) or type(self._error).__name__}

    def foreach_batch(self, frame: "DataFrame", batch_id: int) -> None:
        """Write a batch of Spark's Kafka source into objects as this sink would; for `foreachBatch`.

        At least once: a batch that Spark repeats is written again, under the same names where names come of
        records alone. No other part of this connector runs, and offsets are Spark's.
        """
        from headrace.frames import write_frame

        _log_to_stderr()
        found = write_frame(frame, self._settings)
        _log.info(
            "batch_written",
            batch=batch_id,
            records=found.records,
            objects=found.objects,
            bad_records=found.bad,
        )

    def run_here(self) -> Exit:
        """How it ended, run in this thread, the main one, until a signal."""
        self._prepare()
        self._stop.install()
        try:
            return self._serve()
        finally:
            self._stop.uninstall()

    def _prepare(self) -> None:
        """Whether it can run here; logs as the command's where the program has set up none."""
        if not _running.acquire(blocking=False):
            raise HeadraceError(
                "Another connector runs in this process, and Spark has one session a process: stop it first, "
                "or run several with `headrace worker`."
            )
        try:
            refuse_other_sessions()
        except HeadraceError:
            _running.release()
            raise
        _log_to_stderr()
        for warning in self._settings.warnings:
            _log.warning("configuration_warned", warning=warning)

    def _live(self) -> None:
        try:
            self._code = self._serve()
        except BaseException as error:  # noqa: BLE001  # `wait` raises it
            self._error = error

    def _serve(self) -> Exit:
        # Spark and the clients take seconds to import: a wrong configuration is reported before.
        from headrace.kafka.ledger_reader import open_ledger_reader
        from ingest.service.composition import RunOptions, Service

        try:
            options = RunOptions(
                until_idle=self._until_idle,
                accept_new_ledger=self._accept_new_ledger,
                startup_seconds=self._startup_seconds,
            )
            open_ledger = functools.partial(open_ledger_reader, self._settings, timeout=_LEDGER_SECONDS)
            self._service = Service(self._settings, options, self._stop, open_ledger)
            return self._service.run()
        finally:
            _running.release()


def _log_to_stderr() -> None:
    """Log as the command does, where the program has set up nothing else."""
    if not structlog.is_configured():
        logs.configure(style="console" if sys.stderr.isatty() else "json")


def refuse_other_sessions() -> None:
    """HeadraceError where this process has a session of Spark already: ours needs one of its own."""
    spark: Any = sys.modules.get("pyspark")
    # Whoever has imported nothing of Spark has no session; the name is pyspark's own for its one JVM.
    if spark is not None and getattr(spark.SparkContext, "_gateway", None) is not None:
        raise HeadraceError(
            "This process has a Spark session, and Headrace needs one of its own: use foreach_batch with the "
            "session that is there, or run the connector in another process."
        )
