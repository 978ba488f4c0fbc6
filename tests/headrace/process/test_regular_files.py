"""Files that a configuration names: what is none is refused at once, whatever it is."""

import json
import os
from pathlib import Path

import pytest

from headrace.options import SettingsError
from headrace.process.own_process import open_regular, read_regular, read_regular_text
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE


def test_a_file_is_read(tmp_path: Path) -> None:
    """By way of a link, as Kubernetes mounts secrets; line ends are Python's."""
    (tmp_path / "file").write_bytes("a=ü\r\nb\rc\n".encode())
    (tmp_path / "link").symlink_to("file")
    assert read_regular_text(str(tmp_path / "link")) == "a=ü\nb\nc\n"
    (tmp_path / "file").write_bytes(b"x" * 1024 * 1024)
    assert len(read_regular(str(tmp_path / "file"))) == 1024 * 1024


@pytest.mark.parametrize("read", [open_regular, read_regular, read_regular_text])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, read: object) -> None:
    """A pipe would be waited for, and a device has no end."""
    assert callable(read)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        with pytest.raises(OSError, match="it is no file"):
            read(path)
    with pytest.raises(IsADirectoryError):
        read(str(tmp_path))


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    """No more of it is held than that."""
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(OSError, match="more than 1 MiB"):
        read_regular(str(tmp_path / "large"))


@pytest.mark.parametrize("reference", ["${file:/dev/zero:k}", "${dir:/dev:zero}", "${dir:FOLDER:pipe}"])
def test_a_reference_to_what_is_no_file_leads_nowhere(tmp_path: Path, reference: str) -> None:
    """It is a problem of its option."""
    os.mkfifo(tmp_path / "pipe")
    config = {**COMPLETE, "aws.s3.prefix": reference.replace("FOLDER", str(tmp_path))}
    with pytest.raises(SettingsError, match=r"aws\.s3\.prefix.*cannot be read: it is no file"):
        load(json.dumps(config), kind="json", environment={}, read_file=read_regular_text)
