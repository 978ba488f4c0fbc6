"""Messages are given back each once, by OpenSSL's loop where its stacks are as expected."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.kafka.consumer.message_return import (
    Addresses,
    MessageReturn,
    SingleReturn,
    StackReturn,
    are_as_expected,
    message_return,
    openssl_stacks,
)
from headrace.kafka.librdkafka import library

_CALLED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_HEAD = np.dtype(
    [("length", "<i4"), ("gap", "<i4"), ("pointers", "<u8"), ("is_sorted", "<i4"), ("room", "<i4")]
)
# Some builds of Python have it within themselves, and no stacks of it can be had.
_WITH_OPENSSL = pytest.mark.skipif(
    getattr(sys.modules.get("_hashlib"), "__file__", None) is None, reason="Python's OpenSSL is no library"
)


def _single(destroy: Any) -> MessageReturn:
    return SingleReturn(destroy)


def _stack(destroy: Any) -> MessageReturn:
    stacks = openssl_stacks()
    assert stacks is not None, "Python's hashlib has an OpenSSL here"
    return StackReturn(destroy, stacks)


def _without_memory(destroy: Any) -> MessageReturn:
    return StackReturn(destroy, _Stacks(has_memory=False))


@pytest.mark.parametrize("way", [_single, pytest.param(_stack, marks=_WITH_OPENSSL), _without_memory])
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


def test_openssl_is_used_only_where_there_are_stacks() -> None:
    """What gives messages of librdkafka's back, with OpenSSL and without."""
    loaded = library()
    assert loaded is not None
    assert isinstance(message_return(loaded, None), SingleReturn)
    assert isinstance(message_return(loaded, _Stacks()), StackReturn)


_OPENSSL_REPLACED = """
import hashlib, os, sys
os.unlink(sys.argv[1])
assert any("(deleted)" in line for line in open("/proc/self/maps") if "libcrypto" in line)
from headrace.kafka.consumer.message_return import openssl_stacks
assert openssl_stacks() is not None
"""


@_WITH_OPENSSL
def test_an_openssl_that_was_replaced_since_it_was_loaded_is_used(tmp_path: Path) -> None:
    """As by an upgrade of the system under a process that forks workers: its file is another one, or none."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    names = {"/" + line.partition("/")[2] for line in maps if "/libcrypto.so" in line}
    copies = [str(shutil.copy(name, tmp_path)) for name in names]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "LD_PRELOAD": ":".join(copies)}
    subprocess.run([sys.executable, "-c", _OPENSSL_REPLACED, *copies], env=environment, check=True)


_LayOut = Callable[[int, int, int], bytes]


def _as_known(length: int, pointers: int, room: int) -> bytes:
    return np.array([(length, 0, pointers, 0, room)], _HEAD).tobytes()


class _Stacks:
    """Stacks of a library: OpenSSL's, but for what a test says. `lay_out` is how they are in memory."""

    def __init__(
        self,
        lay_out: _LayOut = _as_known,
        *,
        version: int = 0x300000D0,
        has_memory: bool = True,
        room: int | None = None,
        more: int = 0,
        named: int | None = None,
        is_reversed: bool = False,
    ) -> None:
        self._lay_out = lay_out
        self._version = version
        self._has_memory = has_memory
        self._room = room
        self._more = more
        self._named = named
        self._is_reversed = is_reversed
        self._memory: dict[int, tuple[Any, Any]] = {}
        self.freed: list[int] = []

    def OpenSSL_version_num(self) -> int:  # noqa: N802  # OpenSSL's name
        return self._version

    def OPENSSL_sk_new_reserve(self, _compare: None, count: int) -> int | None:  # noqa: N802  # as above
        if not self._has_memory:
            return None
        head, pointers = ctypes.create_string_buffer(64), np.zeros(count, np.uint64)
        stack = ctypes.addressof(head)
        self._memory[stack] = head, pointers
        self._write(stack, 0)
        return stack

    def OPENSSL_sk_push(self, stack: int, address: int) -> None:  # noqa: N802  # as above
        _, pointers = self._memory[stack]
        length = int(np.count_nonzero(pointers))
        pointers[length] = address
        self._write(stack, length + 1)

    def _write(self, stack: int, length: int) -> None:
        head, pointers = self._memory[stack]
        room = len(pointers) if self._room is None else max(self._room, length)
        head.raw = self._lay_out(length, pointers.ctypes.data, room).ljust(64, b"\0")

    def OPENSSL_sk_num(self, stack: int) -> int:  # noqa: N802  # as above
        return int(np.frombuffer(self._memory[stack][0], _HEAD, 1)["length"][0]) + self._more

    def OPENSSL_sk_value(self, stack: int, place: int) -> int:  # noqa: N802  # as above
        return int(self._memory[stack][1][place]) if self._named is None else self._named

    def OPENSSL_sk_free(self, stack: int) -> None:  # noqa: N802  # as above
        self.freed.append(stack)

    def OPENSSL_sk_pop_free(self, stack: int, free: ctypes.c_void_p) -> None:  # noqa: N802  # as above
        addresses = self._memory[stack][1].tolist()
        for address in reversed(addresses) if self._is_reversed else addresses:
            ctypes.cast(free, _CALLED)(address)


@pytest.mark.parametrize("version", [0x1010100F, 0x300000D0, 0x306000A0, 0x40000010])
def test_stacks_as_they_are_known_are_used(version: int) -> None:
    """So that what the next test refuses is refused for what is different."""
    assert are_as_expected(_Stacks(version=version))


@pytest.mark.parametrize(
    "stacks",
    [
        pytest.param(_Stacks(lambda *head: np.array(head[::-1], "<u8").tobytes()), id="words reversed"),
        pytest.param(_Stacks(lambda length, _, room: _as_known(length, 16, room)), id="no address"),
        pytest.param(_Stacks(lambda length, *rest: _as_known(length + 1, *rest)), id="another count"),
        pytest.param(_Stacks(room=4), id="no room is reserved"),
        pytest.param(_Stacks(room=200), id="more room than was asked for"),
        pytest.param(_Stacks(more=1), id="counts otherwise"),
        pytest.param(_Stacks(named=0x500), id="names other pointers"),
        pytest.param(_Stacks(is_reversed=True), id="another order"),
        pytest.param(_Stacks(has_memory=False), id="no memory"),
        pytest.param(_Stacks(version=0x20000000), id="LibreSSL"),
        pytest.param(_Stacks(version=0x50000000), id="a version of later"),
    ],
)
def test_other_stacks_are_not_used(stacks: Any) -> None:
    """Nothing is written into memory that is not known, and nothing crashes."""
    assert not are_as_expected(stacks)


def test_nothing_is_written_where_pointers_are_not() -> None:
    """As where the second word of a stack leads to something else."""
    elsewhere = np.zeros(1000, np.uint64)
    assert not are_as_expected(
        _Stacks(lambda length, _, room: _as_known(length, elsewhere.ctypes.data, room))
    )
    assert not elsewhere.any()


def test_nothing_is_written_beyond_the_room_of_a_stack() -> None:
    """Where a library reserves none after all: its stack is freed, and each message given back by a call."""
    called: list[int] = []
    stacks = _Stacks(room=4)
    wanted: Addresses = np.arange(1, 6, dtype=np.uint64)
    StackReturn(_CALLED(called.append), stacks)(wanted)
    assert called == wanted.tolist()
    assert len(stacks.freed) == 1
