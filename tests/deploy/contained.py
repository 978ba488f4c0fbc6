"""A command run as its container would run it, without an engine: by the kernel's own means, as root only.

Process 1 of its own, user 10001 without a capability, a root file system that is read-only, /tmp in memory
and without execution, and one folder that may be written.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

FOLDER = Path("/mnt")
"""Where the writable folder is seen from inside."""

NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What a container is apart from the machine in."""
_TREE = Path(__file__).resolve().parents[2]
_INSIDE = r"""
mount --make-rprivate /
mkdir -p "$folder/python"
mount --bind "$folder" /mnt
printf 'headrace:x:10001:10001::/mnt:/usr/sbin/nologin\n' | cat /etc/passwd - > /mnt/passwd
mount --bind /mnt/passwd /etc/passwd
if [[ -n $closed ]]; then
    # This Python lies where nobody else may go, which in an image it does not: open the way in here only.
    mount --bind "$python" /mnt/python
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$python"
    mount --bind /mnt/python "$python"
    umount /mnt/python
fi
chown -R 10001:10001 /mnt
# A tree that lies below /tmp would be hidden.
if [[ $tree == /tmp/* ]]; then mkdir /mnt/tree; mount --bind "$tree" /mnt/tree; fi
mount -t tmpfs -o noexec,nosuid,nodev,size=256m,mode=1777 tmpfs /tmp
if [[ $tree == /tmp/* ]]; then mkdir -p "$tree"; mount --bind /mnt/tree "$tree"; umount /mnt/tree; fi
mount -o remount,bind,ro /
if touch /etc/probe 2> /dev/null; then exit 99; fi
cd /mnt
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    "$@"
"""


def missing() -> str | None:
    """What this machine lacks for it; None when nothing."""
    if os.geteuid() != 0:
        return "root"
    lacking = [tool for tool in ("unshare", "setpriv", "mount") if shutil.which(tool) is None]
    if lacking:
        return ", ".join(lacking)
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "the right to make namespaces"


class Contained:
    """The process, from its start; `folder` is what it sees as FOLDER."""

    def __init__(self, folder: Path, argv: Sequence[str], log: IO[bytes]) -> None:
        python = Path(sys.base_prefix).resolve()
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_STATE_HOME": str(FOLDER),
            "folder": str(folder),
            "python": str(python),
            "tree": str(_TREE),
            "closed": _closed_above(python),
        }
        self._outer = subprocess.Popen(
            [*NAMESPACES, "bash", "-euo", "pipefail", "-c", _INSIDE, "contained", *argv],
            env=environment,
            stdout=log,
            stderr=log,
        )

    @property
    def is_running(self) -> bool:
        """Until it ends."""
        return self._outer.poll() is None

    @property
    def first(self) -> int:
        """The number, seen from outside, of the process that is 1 inside."""
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        return int(children[0])

    @property
    def rights(self) -> dict[str, list[str]]:
        """What the kernel says of it: NSpid, Uid, CapEff, CapBnd and so on."""
        lines = Path(f"/proc/{self.first}/status").read_text().splitlines()
        return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}

    def terminate(self) -> None:
        """SIGTERM to its process 1, as an engine sends it."""
        os.kill(self.first, signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Its exit code; killed, and subprocess.TimeoutExpired, when it does not end in time."""
        try:
            return self._outer.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self._outer.kill()
        self._outer.wait()


def _closed_above(folder: Path) -> str:
    """The topmost folder on the way there that other users may not enter; empty when there is none."""
    ways = reversed((folder, *folder.parents))
    return next((str(way) for way in ways if not way.stat().st_mode & 0o001), "")
