"""Gives the messages of a fetch back to librdkafka, which takes them one by one: all in one loop of C.

A call by ctypes for each message costs three times what librdkafka does in it. OpenSSL, which is in this
process because Python's `hashlib` needs it, has a public function that makes the calls: `OPENSSL_sk_pop_free`
calls another one for each pointer of a stack
(docs/decisions/0107-messages-are-given-back-by-a-loop-of-c.md).
"""

import ctypes
import functools
import hashlib  # noqa: F401  # it loads OpenSSL
import itertools
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from ctypes import CDLL
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.uint64]
MessageReturn = Callable[[Addresses], None]
"""Gives these messages back; what points into them must not be used any more. Blocks for nothing."""


def message_return(loaded: CDLL, stacks: Any) -> MessageReturn:
    """The loop of C where there are `stacks` (see `openssl_stacks`), else a call for each message."""
    # It blocks for nothing: called without giving up Python's lock.
    destroy: Any = ctypes.PyDLL(loaded._name).rd_kafka_message_destroy  # noqa: SLF001  # the path it came from
    destroy.restype = None
    return SingleReturn(destroy) if stacks is None else StackReturn(destroy, stacks)


# -- A call of ctypes for each message -----------------------------------------------------------------------


class _Pointer(ctypes.c_void_p):
    """A pointer that stays an object when it is taken out of an array; it has what is in its place then."""


# So few that they stay in the processor's cache.
_POINTERS: Final = 256


class SingleReturn:
    """The pointers are made once: ctypes makes objects of an integer at each call, a quarter of its time.

    `destroy` is a function of ctypes that takes a pointer.
    """

    def __init__(self, destroy: Any) -> None:
        self._destroy = destroy
        array: Any = (_Pointer * _POINTERS)()
        self._pointers = list(array)
        self._places = np.frombuffer(array, np.uint64)

    def __call__(self, addresses: Addresses) -> None:
        """See `MessageReturn`."""
        for pointers in self._filled(addresses):
            deque(itertools.starmap(self._destroy, zip(pointers, strict=True)), 0)

    def _filled(self, addresses: Addresses) -> Iterator[list[_Pointer]]:
        """The pointers with these addresses, some at a time; they have others after that."""
        for begin in range(0, len(addresses), _POINTERS):
            some = addresses[begin : begin + _POINTERS]
            self._places[: len(some)] = some
            yield self._pointers[: len(some)]


# -- One call of OpenSSL's for all ---------------------------------------------------------------------------

_VOID: Final = ctypes.c_void_p
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "OpenSSL_version_num": (ctypes.c_ulong, []),
    "OPENSSL_sk_new_reserve": (_VOID, [_VOID, ctypes.c_int]),
    "OPENSSL_sk_push": (ctypes.c_int, [_VOID, _VOID]),
    "OPENSSL_sk_num": (ctypes.c_int, [_VOID]),
    "OPENSSL_sk_value": (_VOID, [_VOID, ctypes.c_int]),
    "OPENSSL_sk_free": (None, [_VOID]),
    "OPENSSL_sk_pop_free": (None, [_VOID, _VOID]),
}
_FREE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# A stack begins with how many pointers it has, where they are, whether they are sorted, and how many there is
# room for. That is OpenSSL's own affair: it is looked at before it is relied on.
_HEAD: Final = struct.Struct("=i4xQ4xi")
# The first numbers of versions that have it so: 1.1.1, 3 and 4. 2 is LibreSSL, later ones were not looked at.
_KNOWN: Final = frozenset({1, 3, 4})
# More than OpenSSL makes room for unasked, and no number that it would grow to.
_REHEARSED: Final = tuple(range(0x500, 0x500 + 16 * 101, 16))


class StackReturn:
    """A stack of the addresses for each fetch, which OpenSSL takes apart; `destroy` as of `SingleReturn`."""

    def __init__(self, destroy: Any, stacks: Any) -> None:
        self._stacks = stacks
        self._single = SingleReturn(destroy)
        self._destroy: Any = ctypes.cast(destroy, _VOID)

    def __call__(self, addresses: Addresses) -> None:
        """See `MessageReturn`."""
        stack = _filled_stack(self._stacks, addresses)
        if stack is None:
            self._single(addresses)
        else:
            self._stacks.OPENSSL_sk_pop_free(stack, self._destroy)


def _filled_stack(stacks: Any, addresses: Addresses) -> int | None:
    """A new stack of these pointers; None where there is no memory for it."""
    count, addresses = len(addresses), np.ascontiguousarray(addresses)
    stack: int | None = stacks.OPENSSL_sk_new_reserve(None, count)
    if stack is None:
        return None
    _, pointers, room = _HEAD.unpack(ctypes.string_at(stack, _HEAD.size))
    if room < count:
        # Never, as it was rehearsed; what is written beyond the room would be somebody else's.
        stacks.OPENSSL_sk_free(stack)
        return None
    ctypes.memmove(pointers, addresses.ctypes.data, addresses.nbytes)
    ctypes.c_int.from_address(stack).value = count
    return stack


@functools.cache
def openssl_stacks() -> Any:
    """The OpenSSL of Python's `hashlib` with stacks as they are expected, or None.

    A stack that OpenSSL has filled has to have its pointers where they are looked for, and one that is filled
    from here has to be, for OpenSSL, what it ought to be; its pointers come to a function in their order.
    """
    path = getattr(sys.modules.get("_hashlib"), "__file__", None)
    if path is None:
        return None
    try:
        # By way of what is linked to it: another one may be in this process, and its own file may have been
        # replaced since by an upgrade.
        stacks = ctypes.PyDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(stacks, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, OSError):
        return None
    return stacks if are_as_expected(stacks) else None


def are_as_expected(stacks: Any) -> bool:
    """Whether stacks of this library are what `openssl_stacks` says of them; nothing is risked by asking."""
    if stacks.OpenSSL_version_num() >> 28 not in _KNOWN:
        return False
    theirs = stacks.OPENSSL_sk_new_reserve(None, len(_REHEARSED))
    if theirs is None:
        return False
    for address in _REHEARSED:
        stacks.OPENSSL_sk_push(theirs, address)
    is_known = _is_laid_out(theirs)
    stacks.OPENSSL_sk_free(theirs)
    return is_known and _is_taken(stacks)


def _is_laid_out(stack: int) -> bool:
    """Looked at by way of a file, where a wrong address is an error and no crash."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123  # Path has no unbuffered open
            memory.seek(stack)
            count, pointers, room = _HEAD.unpack(memory.read(_HEAD.size))
            memory.seek(pointers)
            held = np.frombuffer(memory.read(8 * len(_REHEARSED)), np.uint64)
    except (OSError, OverflowError, ValueError, struct.error):
        return False
    return count == room == len(_REHEARSED) and tuple(held.tolist()) == _REHEARSED


def _is_taken(stacks: Any) -> bool:
    ours = _filled_stack(stacks, np.array(_REHEARSED, np.uint64))
    if ours is None or stacks.OPENSSL_sk_num(ours) != len(_REHEARSED):
        return False
    if [stacks.OPENSSL_sk_value(ours, place) for place in range(len(_REHEARSED))] != list(_REHEARSED):
        return False
    called: list[int] = []
    stacks.OPENSSL_sk_pop_free(ours, ctypes.cast(_FREE(called.append), _VOID))
    return called == list(_REHEARSED)
