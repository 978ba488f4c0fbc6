"""Files that a configuration names, which may be anything: a pipe without a writer, a device without end."""

import errno
import os
import stat
from typing import BinaryIO, Final

_MOST: Final = 1024 * 1024


def open_regular(path: str) -> BinaryIO:
    """The file, for reading; OSError for what is none, at once: nothing is waited for."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - it is the caller's, and Path takes no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise PermissionError(errno.EPERM, "it is no file", path)
    return file


def read_regular(path: str) -> bytes:
    """What is in the file; OSError for what is none, and for more than 1 MiB."""
    with open_regular(path) as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise PermissionError(errno.EFBIG, "it has more than 1 MiB", path)
    return content


def read_store(path: str) -> bytes:
    """What is in a trust store, of any size; OSError for what is no file."""
    with open_regular(path) as file:
        return file.read()


def read_regular_text(path: str) -> str:
    """The same as text with line ends as Python has them; ValueError for what is no UTF-8."""
    return read_regular(path).decode().replace("\r\n", "\n").replace("\r", "\n")
