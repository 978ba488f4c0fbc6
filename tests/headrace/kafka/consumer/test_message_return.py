"""Messages are given back each once, by OpenSSL's loop where its stacks are as expected."""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headrace.kafka.consumer.message_return import (
    Addresses,
    MessageReturn,
    SingleReturn,
    StackReturn,
    are_as_expected,
    openssl_stacks,
)

_CALLED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_HEAD = np.dtype([("count", "<i4"), ("pad", "<i4"), ("pointers", "<u8")])


def _single(destroy: Any) -> MessageReturn:
    return SingleReturn(destroy)


def _stack(destroy: Any) -> MessageReturn:
    stacks = openssl_stacks()
    assert stacks is not None, "Python's hashlib has an OpenSSL here"
    return StackReturn(destroy, stacks)


def _without_memory(destroy: Any) -> MessageReturn:
    return StackReturn(destroy, SimpleNamespace(OPENSSL_sk_new_reserve=lambda _compare, _count: None))


@pytest.mark.parametrize("way", [_single, _stack, _without_memory])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 10_000])
def test_each_message_is_given_back_once_and_in_its_order(
    way: Callable[[Any], MessageReturn], count: int
) -> None:
    """One by one, by OpenSSL, and where OpenSSL has no memory for a stack."""
    called: list[int] = []
    give_back = way(_CALLED(called.append))
    wanted: Addresses = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(64)
    give_back(wanted)
    give_back(wanted[::2])
    assert called == [*wanted.tolist(), *wanted[::2].tolist()]


class _Stacks:
    """Stacks of a library that is not OpenSSL as it is known: `lay_out` says what a stack is in memory."""

    def __init__(self, lay_out: Callable[[list[int]], bytes], *, is_reversed: bool = False) -> None:
        self._lay_out = lay_out
        self._is_reversed = is_reversed
        self._pushed: dict[int, list[int]] = {}
        self._memory: dict[int, Any] = {}

    def OPENSSL_sk_new_reserve(self, _compare: None, count: int) -> int:  # noqa: N802  # OpenSSL's name
        room = np.zeros(count, np.uint64)
        head = ctypes.create_string_buffer(64)
        self._memory[ctypes.addressof(head)] = head, room
        self._pushed[ctypes.addressof(head)] = []
        head.raw = self._lay_out([0, room.ctypes.data]).ljust(64, b"\0")
        return ctypes.addressof(head)

    def OPENSSL_sk_push(self, stack: int, address: int) -> None:  # noqa: N802  # as above
        head, room = self._memory[stack]
        room[len(self._pushed[stack])] = address
        self._pushed[stack].append(address)
        head.raw = self._lay_out([len(self._pushed[stack]), room.ctypes.data]).ljust(64, b"\0")

    def OPENSSL_sk_num(self, stack: int) -> int:  # noqa: N802  # as above
        return int(np.frombuffer(self._memory[stack][0], _HEAD, 1)["count"][0])

    def OPENSSL_sk_value(self, stack: int, place: int) -> int:  # noqa: N802  # as above
        return int(self._memory[stack][1][place])

    def OPENSSL_sk_free(self, stack: int) -> None:  # noqa: N802  # as above
        del self._memory[stack]

    def OPENSSL_sk_pop_free(self, stack: int, free: ctypes.c_void_p) -> None:  # noqa: N802  # as above
        addresses = self._memory[stack][1].tolist()
        for address in reversed(addresses) if self._is_reversed else addresses:
            ctypes.cast(free, _CALLED)(address)


def _as_known(head: list[int]) -> bytes:
    return np.array([(head[0], 0, head[1])], _HEAD).tobytes()


def test_stacks_as_they_are_known_are_used() -> None:
    """So that what the next test refuses is refused for what is different."""
    assert are_as_expected(_Stacks(_as_known))


@pytest.mark.parametrize(
    "stacks",
    [
        pytest.param(
            _Stacks(lambda head: np.array([head[1], head[0]], "<u8").tobytes()), id="pointers first"
        ),
        pytest.param(_Stacks(lambda head: _as_known([head[0], 16])), id="no address"),
        pytest.param(_Stacks(lambda head: _as_known([head[0] + 1, head[1]])), id="another count"),
        pytest.param(_Stacks(_as_known, is_reversed=True), id="another order"),
    ],
)
def test_other_stacks_are_not_used(stacks: Any) -> None:
    """Nothing is written into memory that is not known, and nothing crashes."""
    assert not are_as_expected(stacks)
