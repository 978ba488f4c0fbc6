"""Looking for secrets where they must not be, and for characters that steer a terminal."""

import base64
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

# Control, format (bidirectional marks), lone surrogates, line and paragraph separators.
_STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def leaked(secrets: Mapping[str, str], where: str, content: bytes | str) -> list[str]:
    """A sentence for each secret that can be read in the content, as it is or in Base64."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    found = []
    for name, secret in secrets.items():
        text = secret.encode()
        # In Base64 a text looks in one of three ways, by what stands before it; its ends hang on neighbours.
        shapes = [text] + [base64.b64encode(b"x" * shift + text)[4:-4] for shift in range(3)]
        found += [f"{name} in {where}" for shape in shapes if shape in raw][:1]
    return found


def steering(text: str) -> list[str]:
    """The characters of a text that could forge a line or steer a terminal; line ends are no such."""
    return [repr(one) for one in text if one != "\n" and unicodedata.category(one) in _STEERING]


def family(pid: int) -> list[int]:
    """The process and all that it, or one of its children, has started and that still runs."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # ended meanwhile
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def listening(pids: list[int]) -> set[str]:
    """The addresses, as /proc/net writes them, at which these processes accept connections."""
    opened = {target for pid in pids for target in _opened(pid)}
    return {address for address, inode in _accepting() if f"socket:[{inode}]" in opened}


def _opened(pid: int) -> Iterator[str]:
    """What the descriptors of a process are, of those that are open long enough to be looked at."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                yield str(descriptor.readlink())


def _accepting() -> Iterator[tuple[str, str]]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        # There is none where the machine has no IPv6.
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                yield fields[1].partition(":")[0], fields[9]
