"""Bytes on disk: private, bounded to their process, and never half written."""

import errno
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

from spark.sink.spill import SpillDirectory, SpillFile, SpillLost, remove_stale


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """What was there before stays, and the next attempt goes on behind it."""
    directory = SpillDirectory(tmp_path)
    path = tmp_path / "file"
    file = SpillFile(directory, path)
    file.append(b"before ")
    kept = path.rename(tmp_path / "kept")
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.append(b"lost?")
    path.unlink()
    kept.rename(path)
    file.append(b"after")
    with file.open() as reader:
        assert reader.read() == b"before after"
    assert directory.bytes == file.size == 12
    file.remove()
    file.remove()
    assert directory.bytes == 0


def test_a_file_that_somebody_removed_is_said_to_be_lost(tmp_path: Path) -> None:
    """It is not made again with a hole where its first bytes were, and cannot be read."""
    directory = SpillDirectory(tmp_path)
    file = directory.new_file()
    file.append(b"content")
    (path,) = tmp_path.glob("*/1.part")
    path.unlink()
    with pytest.raises(
        SpillLost, match=r"1\.part was removed by another program: its records are read again"
    ):
        file.append(b"more")
    with pytest.raises(SpillLost):
        file.open()
    assert list(tmp_path.glob("*/*.part")) == []
    directory.close()


def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    """For the files that come."""
    directory = SpillDirectory(tmp_path / "buffer")
    directory.new_file().append(b"content")
    shutil.rmtree(tmp_path / "buffer")
    file = directory.new_file()
    file.append(b"again")
    with file.open() as reader:
        assert reader.read() == b"again"
    (folder,) = (tmp_path / "buffer").iterdir()
    assert (folder / "lock").exists()
    directory.close()
    assert list((tmp_path / "buffer").iterdir()) == []


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """Records may be secrets: the folder and its files are their owner's."""
    directory = SpillDirectory(tmp_path / "made" / "when needed")
    file = directory.new_file()
    file.append(b"content")
    (folder,) = (tmp_path / "made" / "when needed").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(one.stat().st_mode & 0o077 == 0 for one in folder.glob("*.part"))
    directory.close()
    assert not folder.exists()


def _spill_and_wait(parent: Path, ready: "multiprocessing.synchronize.Event") -> None:
    directory = SpillDirectory(parent)
    directory.new_file().append(b"content")
    assert directory.bytes == 7
    ready.set()
    signal.pause()
    directory.close()


def test_what_the_dead_have_left_is_removed(tmp_path: Path) -> None:
    """Not what belongs to a process that lives."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_spill_and_wait, args=(tmp_path, ready))
    process.start()
    assert ready.wait(60)
    remove_stale(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert (folder / "1.part").read_bytes() == b"content"
    process.kill()
    process.join(60)
    (tmp_path / "of somebody else").mkdir()
    SpillDirectory(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["of somebody else"]
