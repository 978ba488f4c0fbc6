"""The partition of an object's constant key, asked of librdkafka once instead of for each row."""

import ctypes
from collections.abc import Callable
from ctypes import CDLL
from typing import Any, Final

_POINTER: Final = ctypes.c_void_p
_ARGUMENTS: Final[list[Any]] = [
    _POINTER,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_int32,
    _POINTER,
    _POINTER,
]
# By what `producer.partitioner` says. `random` asks for another partition each time.
_FUNCTIONS: Final = {
    name: f"rd_kafka_msg_partitioner_{name}"
    for name in ("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a")
}


class KeyPartitioner:
    """What librdkafka would choose for a key, by the very function that it would call."""

    def __init__(self, loaded: CDLL, name: str, count: Callable[[str], int]) -> None:
        self._count = count
        # A hash: to let go of the interpreter for it costs more than it does, among threads that want it.
        holding = ctypes.PyDLL(loaded._name, handle=loaded._handle)  # noqa: SLF001  # the library as it is loaded
        self._function: Any = getattr(holding, _FUNCTIONS.get(name, ""), None)
        if self._function is not None:
            self._function.restype, self._function.argtypes = ctypes.c_int32, _ARGUMENTS
        self._known: tuple[str, bytes, int, int] | None = None

    def of(self, topic: str, handle: int, key: bytes | None) -> int | None:
        """The partition of the key on this topic, or None where it is not for the key alone to say.

        May block and raise as `Topics.partitions` does.
        """
        # Those named `_random` take an empty key for none, or not; librdkafka knows.
        if not key or self._function is None:
            return None
        count = self._count(topic)
        if self._known is None or self._known[:3] != (topic, key, count):
            found: int = self._function(handle, key, len(key), count, None, None)
            self._known = (topic, key, count, found)
        return self._known[3]
