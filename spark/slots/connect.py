"""Slots' jobs on a Spark Connect server: the same tasks, which find this process over their own socket.

The protocol needs nothing of the session but to start a job and to interrupt it: a plan is granted over the
socket, once, and never travels in a job. What has to be set on the cluster is the server's to set; it is read
and checked at start.
"""

import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc  # type: ignore[import-untyped]  # publishes no types
import structlog
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.process.threads import start_thread
from spark.session import build_code_archive
from spark.slots.jobs import JobFailed, cause_of
from spark.spark_conf import REQUIRED, is_local, require_server
from spark.task.entry import SlotFunction

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

log = structlog.get_logger(__name__)

# Printed beside the error that says the same, and logged here.
warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")

# A row a task, as `SlotFunction` gives it.
_RESULT_SCHEMA: Final = "error string"
_CONNECT_SECONDS: Final = 5.0
# A server answers such questions in milliseconds, a first job in seconds; one that hangs is not waited for.
_START_SECONDS: Final = 60.0
# Some 15 s in all; Spark's own default goes on for ten minutes, in which a standby would not be told.
_MAX_RETRIES: Final = 6
_MAX_BACKOFF_MS: Final = 5000
# A machine that vanished is noticed. More often than each five minutes a gRPC server takes for abuse.
_CHANNEL: Final = [("grpc.keepalive_time_ms", 310_000), ("grpc.keepalive_timeout_ms", 20_000)]
# The server was started anew, or has forgotten us;
# https://spark.apache.org/docs/latest/sql-error-conditions.html
_SESSION_GONE: Final = frozenset(
    {
        "INVALID_HANDLE.SESSION_CHANGED",
        "INVALID_HANDLE.SESSION_CLOSED",
        "INVALID_HANDLE.SESSION_NOT_FOUND",
        # What the client says once it has heard one of them.
        "NO_ACTIVE_SESSION",
    }
)
# Of our socket, not of the server's session.
_OURS: Final = frozenset({"spark.driver.host", "spark.driver.bindAddress"})


class ConnectJobs:
    """See `Jobs`. A session that the server has lost is made again for the next job."""

    def __init__(self, url: str, given: Mapping[str, str], *, name: str) -> None:
        """Blocks for some seconds. `given` holds the `spark.*` options as the user wrote them.

        Unavailable when no server answers; InvalidConfiguration when its settings do not fit the protocol, or
        `given`.
        """
        self.is_local = False
        self._builder = _channel(url)
        self._given = given
        self._name = name
        self._changing = threading.Lock()
        self._place = f"the Spark Connect server at {self._builder.endpoint}"
        ours = _own_address(self._builder.endpoint, self._place)
        self.advertise = given.get("spark.driver.host", ours)
        self.bind = given.get("spark.driver.bindAddress", self.advertise)
        self._session = self._asked(self._new_session, "to open a session")
        try:
            require_server(self._asked(lambda: self._session.version, "for its version"), self._place)
            self._asked(self._check_server, "for its settings")
            self.slots: int = self._asked(self._count_cores, "for its cores")
        except BaseException:
            self.close()
            raise

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """See `Jobs.run`. Pools are the server's own affair."""
        del pool
        session = self._session
        try:
            # A tag is of the calling thread, and its operations only.
            session.addTag(group)
            rows = session.range(0, tasks, 1, tasks).mapInArrow(_in_arrow(function), _RESULT_SCHEMA).collect()
        except (PySparkException, grpc.RpcError) as error:
            self._renew(session, error)
            raise JobFailed(_cause(error)) from error
        finally:
            session.removeTag(group)
        return [row.error for row in rows if row.error is not None]

    def cancel(self, group: str) -> None:
        """See `Jobs.cancel`; what fails is logged."""
        # A server that is gone is waited for, and whoever cancels has slots to look after.
        start_thread(partial(self._interrupt, group), name="connect-cancel")

    def close(self) -> None:
        """Release the session; the server interrupts what it still runs. Blocks for a moment."""
        self._session.client.set_retry_policies([])
        self._session.stop()

    def _interrupt(self, group: str) -> None:
        try:
            self._session.interruptTag(group)
        except (PySparkException, grpc.RpcError) as error:
            log.info("spark_job_not_cancelled", job=group, error=_cause(error))

    def _asked(self, call: Callable[[], T], what: str) -> T:
        """What `call` gives; Unavailable when the server fails, or does not answer in time."""
        found: list[T] = []
        failures: list[BaseException] = []

        def ask() -> None:
            try:
                found.append(call())
            except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
                failures.append(error)

        asking = start_thread(ask, name="connect-start")
        asking.join(_START_SECONDS)
        if found:
            return found[0]
        error = failures[0] if failures else None
        if error is None:
            raise Unavailable(f"{self._place} does not answer: it was asked {what}; check spark.remote.")
        if isinstance(error, (PySparkException, grpc.RpcError)):
            raise Unavailable(f"{self._place} failed, asked {what}: {_cause(error)}") from error
        raise error

    def _new_session(self) -> SparkSession:
        session: Any = SparkSession.builder.channelBuilder(self._builder).create()
        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=_MAX_RETRIES, max_backoff=_MAX_BACKOFF_MS)]
        )
        session.addArtifacts(str(build_code_archive(session)), pyfile=True)
        made: SparkSession = session
        return made

    def _renew(self, lost: SparkSession, error: Exception) -> None:
        """Replace the session when it is why a job failed; the next job has the new one."""
        if not isinstance(error, PySparkException) or error.getCondition() not in _SESSION_GONE:
            return
        with self._changing:
            if self._session is not lost:
                return
            log.warning("spark_session_lost", error=_cause(error), detail="a new one is opened")
            try:
                self._session = self._new_session()
            except (PySparkException, grpc.RpcError) as failure:
                # The next job finds the lost session once more, and tries again.
                log.warning("spark_session_failed", error=_cause(failure))
                return
        # What the server still knew of the old one ends with it.
        lost.client.set_retry_policies([])
        lost.stop()

    def _check_server(self) -> None:
        """InvalidConfiguration unless tasks run once at most there, and what was given can be had."""
        conf = self._session.conf
        master = str(conf.get("spark.master", ""))
        for option, needed in REQUIRED.items():
            # A local master has no retries, except as local[N,F], and speculation is off unless it is set.
            is_default_right = option == "spark.speculation" or (is_local(master) and "," not in master)
            said = conf.get(option, None)
            if said != needed and not (said is None and is_default_right):
                raise InvalidConfiguration(
                    f"{self._place} runs with {option}={said or 'its default'}, so Spark may repeat a task: "
                    f"start the server with --conf {option}={needed}."
                )
        for option, value in self._given.items():
            if option in _OURS or option in REQUIRED or conf.get(option, None) == value:
                continue
            try:
                conf.set(option, value)
            except PySparkException as error:
                raise InvalidConfiguration(
                    f"{option} cannot be set by a client of Spark Connect: remove it here and start the "
                    f"server with it ({cause_of(error).splitlines()[0]})"
                ) from error

    def _count_cores(self) -> int:
        """Spark's default parallelism there, told by how it cuts a range."""
        parts = self._session.range(0, 1_000_000).selectExpr("spark_partition_id() AS part")
        return parts.distinct().count()


def _cause(error: PySparkException | grpc.RpcError) -> str:
    """Of gRPC's errors the sentence within."""
    details = getattr(error, "details", None)
    return cause_of(error) if details is None else f"{details()}"


def _channel(url: str) -> DefaultChannelBuilder:
    try:
        return DefaultChannelBuilder(url, channelOptions=list(_CHANNEL))
    except PySparkException as error:
        # Its text repeats the URL, which may hold a token.
        raise InvalidConfiguration(
            "spark.remote: Spark does not take this URL; expected sc://host:port, and options as in "
            "sc://host:port/;use_ssl=true;token=.."
        ) from error


def _own_address(endpoint: str, place: str) -> str:
    """The address of this machine on the way to the server, where its executors most likely find it."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        raise Unavailable(
            f"{place} does not answer ({error.strerror or error}): check spark.remote."
        ) from error


def _in_arrow(function: SlotFunction) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """The function as tasks of a DataFrame run it, which is all that there is over Spark Connect."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for error in function(batches):
            yield pa.RecordBatch.from_pydict({"error": pa.array([error], type=pa.string())})

    return run
