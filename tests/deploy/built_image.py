"""The image built from the real Dockerfile without an engine's daemon, and run as an engine would run it.

Its base is made of Debian's packages, as no registry of images is at hand: `debootstrap` and `buildah` are
the distribution's. It runs in namespaces: process 1, its own user without a right, a root file system that is
read-only, /tmp in memory, and one folder that outlives it.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from tests.deploy import contained

TOP: Final = Path(__file__).parents[2]
BASE: Final = TOP / ".cache" / "image-base"
STATE: Final = "/var/lib/headrace"
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_BUILD_SECONDS: Final = 1800
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_INSIDE: Final = r"""
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --bind /proc "$root/proc"
mount -t tmpfs -o noexec,nosuid,nodev,size=256m,mode=1777 tmpfs "$root/tmp"
mount --bind "$state" "$root/var/lib/headrace"
mount --bind "$config" "$root/etc/headrace"
mount -o remount,bind,ro "$root/etc/headrace"
mount --bind "$hosts" "$root/etc/hosts"
mount -o remount,bind,ro "$root"
if touch "$root/etc/probe" 2> /dev/null; then exit 99; fi
exec chroot "$root" setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all "$@"
"""


def missing() -> str | None:
    """What this machine lacks for it; None when nothing."""
    lacking = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    return (
        f"{' and '.join(lacking)} (apt-get install buildah debootstrap)" if lacking else contained.missing()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A built image: where its files are, how it is to be run, and its bytes beyond its base's."""

    root: Path
    config: Mapping[str, Any]
    size: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables that it sets."""
        return dict(line.split("=", 1) for line in self.config["Env"])


@dataclass(slots=True)
class Store:
    """Images and containers in a folder of their own, which whoever makes it removes."""

    folder: Path
    containers: list[str] = field(default_factory=list)

    def buildah(self, *arguments: str, seconds: float = 300) -> str:
        """What buildah prints; AssertionError with the end of its words when it fails."""
        places = ("--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run")
        done = subprocess.run(
            ["buildah", *places, "--storage-driver", "vfs", *arguments],
            cwd=TOP, capture_output=True, text=True, check=False, timeout=seconds,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout.strip()

    def build(self) -> Image:
        """The image of this tree on the base; some minutes."""
        base = self._base()
        self.buildah(
            *("build", "--pull-never", "--isolation", "chroot", "--network", "host", "--format", "docker"),
            *("--build-arg", f"PYTHON_IMAGE={base}", "--tag", "headrace-test", "."),
            seconds=_BUILD_SECONDS,
        )
        inspected = json.loads(self.buildah("inspect", "--type", "image", "headrace-test"))
        config = inspected["Docker"]["config"]
        container = self.buildah("from", "--pull-never", "headrace-test")
        root = Path(self.buildah("mount", container))
        (root / "etc" / "headrace").mkdir(exist_ok=True)
        return Image(root=root, config=config, size=_bytes(root) - _bytes(BASE))

    def _base(self) -> str:
        if not (BASE / "made").exists():
            _make_base(BASE)
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, str(BASE), "/")
        settings = {"PATH": _PATH, **_package_settings()}
        given = [part for name, value in settings.items() for part in ("--env", f"{name}={value}")]
        self.buildah("config", *given, container)
        self.buildah("commit", "--quiet", "--rm", container, "headrace-test-base")
        return "localhost/headrace-test-base"


def _make_base(folder: Path) -> None:
    """A Debian with its own Python 3.11 and this machine's certificates."""
    shutil.rmtree(folder, ignore_errors=True)
    shown = subprocess.check_output(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"], text=True
    )
    mirrors = [line.split()[0] for line in shown.splitlines() if line.endswith(" bookworm")]
    packages = "--include=ca-certificates,python3,python3-venv"
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", packages, "bookworm", str(folder), *mirrors[:1]],
        capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    (folder / "usr/local/bin/python3").symlink_to("/usr/bin/python3")
    shutil.copyfile(_CERTIFICATES, f"{folder}{_CERTIFICATES}")
    shutil.rmtree(folder / "var/cache/apt/archives")
    (folder / "var/cache/apt/archives/partial").mkdir(parents=True)
    (folder / "made").touch()


def _package_settings() -> dict[str, str]:
    """Where this machine has its packages from: a network with a mirror has no other way."""
    found = {"PIP_CERT": _CERTIFICATES, "SSL_CERT_FILE": _CERTIFICATES}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        if name.endswith(".index-url"):
            found["PIP_INDEX_URL"] = value.strip("'")
    return found


def _bytes(folder: Path) -> int:
    """What the files of a folder take, each once however many names it has."""
    said = subprocess.check_output(["du", "--summarize", "--block-size=1", str(folder)], text=True)
    return int(said.split()[0])


class Container:
    """One run of an image, from its start; `state` outlives it, `config` is its /etc/headrace."""

    def __init__(
        self, image: Image, argv: Sequence[str], *, state: Path, config: Path, log: IO[bytes]
    ) -> None:
        hosts = config.parent / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        for folder in (state, config):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        os.chown(state, 10001, 10001)
        places = {"root": image.root, "state": state, "config": config, "hosts": hosts}
        self._outer = subprocess.Popen(
            [*contained.NAMESPACES, "bash", "-euo", "pipefail", "-c", _INSIDE, "container", *argv],
            env={**image.environment, **{name: str(place) for name, place in places.items()}},
            stdout=log,
            stderr=log,
        )

    @property
    def is_running(self) -> bool:
        """Until it ends."""
        return self._outer.poll() is None

    def terminate(self) -> None:
        """SIGTERM to its process 1, as an engine sends it."""
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
        return self._outer.wait(seconds)

    def kill(self) -> None:
        """End all of it at once, as the kernel does when memory is short."""
        self._outer.kill()
        self._outer.wait()
