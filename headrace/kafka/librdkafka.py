"""The librdkafka inside the confluent-kafka wheel, through ctypes, if it is the expected one."""

import ctypes
import functools
import os
import struct
import sys
import threading
from enum import IntEnum
from typing import Any, Final

import confluent_kafka
import structlog
from confluent_kafka import Consumer, Producer

log = structlog.get_logger(__name__)


class ArgumentKind(IntEnum):
    """What an argument of rd_kafka_produceva is (rd_kafka_vtype_t)."""

    TOPIC = 2
    PARTITION = 3
    VALUE = 4
    KEY = 5
    FLAGS = 7
    TIMESTAMP = 8
    HEADER = 9


# RD_KAFKA_MSG_F_COPY: librdkafka has its own copy when the call returns.
COPY: Final = 0x2

_EFFECT: Final = "records are produced and fetched one by one"
_POINTER: Final = ctypes.c_void_p
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "rd_kafka_version": (ctypes.c_int, []),
    "rd_kafka_type": (ctypes.c_int, [_POINTER]),
    "rd_kafka_opaque": (_POINTER, [_POINTER]),
    "rd_kafka_topic_new": (_POINTER, [_POINTER, ctypes.c_char_p, _POINTER]),
    "rd_kafka_topic_destroy": (None, [_POINTER]),
    "rd_kafka_produce_batch": (
        ctypes.c_int,
        [_POINTER, ctypes.c_int32, ctypes.c_int, _POINTER, ctypes.c_int],
    ),
    "rd_kafka_produceva": (_POINTER, [_POINTER, _POINTER, ctypes.c_size_t]),
    "rd_kafka_error_code": (ctypes.c_int, [_POINTER]),
    "rd_kafka_error_destroy": (None, [_POINTER]),
    "rd_kafka_metadata": (
        ctypes.c_int,
        [_POINTER, ctypes.c_int, _POINTER, ctypes.POINTER(_POINTER), ctypes.c_int],
    ),
    "rd_kafka_metadata_destroy": (None, [_POINTER]),
    "rd_kafka_conf": (_POINTER, [_POINTER]),
    "rd_kafka_conf_set_error_cb": (None, [_POINTER, _POINTER]),
    "rd_kafka_topic_name": (ctypes.c_char_p, [_POINTER]),
    "rd_kafka_queue_new": (_POINTER, [_POINTER]),
    "rd_kafka_queue_destroy": (None, [_POINTER]),
    "rd_kafka_queue_get_consumer": (_POINTER, [_POINTER]),
    "rd_kafka_queue_get_partition": (_POINTER, [_POINTER, ctypes.c_char_p, ctypes.c_int32]),
    "rd_kafka_queue_forward": (None, [_POINTER, _POINTER]),
    "rd_kafka_queue_yield": (None, [_POINTER]),
    "rd_kafka_queue_io_event_enable": (None, [_POINTER, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_consume_batch_queue": (
        ctypes.c_ssize_t,
        [_POINTER, ctypes.c_int, _POINTER, ctypes.c_size_t],
    ),
    "rd_kafka_message_timestamp": (ctypes.c_int64, [_POINTER, ctypes.POINTER(ctypes.c_int)]),
    "rd_kafka_message_leader_epoch": (ctypes.c_int32, [_POINTER]),
    "rd_kafka_message_headers": (ctypes.c_int, [_POINTER, ctypes.POINTER(_POINTER)]),
    "rd_kafka_header_get_all": (
        ctypes.c_int,
        [
            _POINTER,
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.POINTER(_POINTER),
            ctypes.POINTER(ctypes.c_size_t),
        ],
    ),
}
# How librdkafka names clients (`..#producer-1`), and its numbers of their kinds.
_KINDS: Final[dict[type, tuple[bytes, int]]] = {Producer: (b"#producer-", 0), Consumer: (b"#consumer-", 1)}
# PyObject_HEAD of a release build; `rd_kafka_t *rk` is the first member of confluent-kafka's Handle.
_HANDLE_OFFSET: Final = 16
# rd_kafka_t holds its name within its first pages.
_PROBE_BYTES: Final = 4096


@functools.cache
def library() -> ctypes.CDLL | None:
    """The librdkafka that confluent-kafka has loaded, or None, with one WARN, when it is unfit."""
    reason = _unfit()
    if reason is None:
        path = _loaded_path()
        if path is None:
            reason = "no librdkafka of the confluent-kafka wheel is loaded"
        else:
            loaded = ctypes.CDLL(path)
            try:
                for name, (result, arguments) in _SIGNATURES.items():
                    function = getattr(loaded, name)
                    function.restype, function.argtypes = result, arguments
            except AttributeError as error:
                reason = f"librdkafka lacks a function: {error}"
            else:
                if loaded.rd_kafka_version() == confluent_kafka.libversion()[1]:
                    return loaded
                reason = "two versions of librdkafka are loaded"
    log.warning("librdkafka_calls_disabled", reason=reason, effect=_EFFECT)
    return None


def handle_of(client: Producer | Consumer) -> int | None:
    """The `rd_kafka_t *` of a client, or None when it is not where it is expected.

    The memory it should point to is first looked at through /proc, where a wrong address is an error and no
    crash; then librdkafka itself says whether it is of this kind and its opaque is this very object.
    """
    loaded = library()
    known = next((known for one, known in _KINDS.items() if isinstance(client, one)), None)
    if loaded is None or known is None:
        return None
    name, kind = known
    (handle,) = struct.unpack_from("P", ctypes.string_at(id(client), _HANDLE_OFFSET + 8), _HANDLE_OFFSET)
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123  # Path has no unbuffered open
            memory.seek(handle)
            looks_right = name in memory.read(_PROBE_BYTES)
    except (OSError, OverflowError, ValueError):
        looks_right = False
    if looks_right and loaded.rd_kafka_type(handle) == kind and loaded.rd_kafka_opaque(handle) == id(client):
        return int(handle)
    log.warning(
        "librdkafka_calls_disabled", reason="confluent-kafka keeps its handle elsewhere", effect=_EFFECT
    )
    return None


def await_broker(client: Producer | Consumer, seconds: float) -> None:
    """Return once the client is connected to a broker, or after so long; at once where it cannot be asked.

    What needs the transaction coordinator before that, librdkafka begins again after half a second.
    """
    loaded, handle = library(), handle_of(client)
    if loaded is None or handle is None:
        return
    # The first answer names the brokers, to which it then connects anew; the second comes from one of them.
    for _ in range(2):
        found = _POINTER()
        # Of no topic: by name, a producer's request would make one where brokers do that.
        error = loaded.rd_kafka_metadata(handle, 0, None, ctypes.byref(found), int(seconds * 1000))
        if error:
            return
        loaded.rd_kafka_metadata_destroy(found)


class Waker:
    """Ends the wait of a consumer's `consume` from another thread; thread-safe.

    So a thread may wait for long, and still notice at once that it is to end. Only where librdkafka can be
    called: `seconds` gives the longest wait that is bearable where it cannot.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._lock = threading.Lock()
        self._library = library()
        handle = handle_of(consumer)
        self._queue: int | None = None
        if self._library is not None and handle is not None:
            self._queue = self._library.rd_kafka_queue_get_consumer(handle)
        self._can_wake = self._queue is not None

    def seconds(self, *, woken: float, otherwise: float) -> float:
        """`woken` where `wake` works, else `otherwise`."""
        return woken if self._can_wake else otherwise

    def wake(self) -> None:
        """Have the wait under way return, or else the next one."""
        with self._lock:
            if self._library is not None and self._queue is not None:
                self._library.rd_kafka_queue_yield(self._queue)

    def close(self) -> None:
        """Wake no more; to be called before the consumer is closed."""
        with self._lock:
            queue, self._queue = self._queue, None
            if self._library is not None and queue is not None:
                self._library.rd_kafka_queue_destroy(queue)


def _unfit() -> str | None:
    """Why this machine or Python cannot take the fast path, or None."""
    if sys.platform != "linux" or sys.implementation.name != "cpython":
        return f"{sys.implementation.name} on {sys.platform}"
    if struct.calcsize("P") != 8 or sys.byteorder != "little":  # noqa: PLR2004  # bytes of a pointer
        return "not a 64-bit little-endian machine"
    if hasattr(sys, "gettotalrefcount") or (sys.version_info >= (3, 13) and not sys._is_gil_enabled()):  # noqa: SLF001  # asked for where it exists only
        return "an interpreter whose objects begin otherwise"
    if confluent_kafka.libversion()[1] >> 24 != 2:  # noqa: PLR2004  # the major version whose header is above
        return f"librdkafka {confluent_kafka.libversion()[0]}"
    return None


def _loaded_path() -> str | None:
    """Path of the librdkafka mapped into this process that came with the confluent-kafka wheel."""
    # As the kernel spells it: a virtual environment may be reached through a link.
    home = os.path.realpath(os.path.dirname(confluent_kafka.__file__))  # noqa: PTH120  # a link is followed as the loader does
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123  # a link is followed as the loader does
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "librdkafka" in path and ("/" + path).startswith(home + ".libs"):
                return "/" + path
    return None
