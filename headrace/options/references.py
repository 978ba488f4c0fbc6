"""`${env:NAME}`, `${file:PATH:KEY}` and `${dir:PATH:FILE}`: Connect's references to values kept elsewhere."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from headrace.options.properties import PropertiesError, parse_properties

# The pattern of Connect's ConfigTransformer: ${provider:path:key}, the path left out where a provider has
# none.
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")


class ReferenceMissing(LookupError):
    """What a reference points at is not there; the text says where it was looked for."""


class References:
    """Replaces references in values; files are read once."""

    __slots__ = ("_environment", "_files", "_read_file")

    def __init__(self, *, environment: Mapping[str, str], read_file: Callable[[str], str]) -> None:
        self._environment = environment
        self._read_file = read_file
        self._files: dict[str, Mapping[str, str]] = {}

    def replaced(self, option: str, raw: str) -> str:
        """Return the value with its references replaced, once: what comes in is not looked at again.

        Raises ReferenceMissing. Blocks for reading files. Other references are an error too, but for
        `spark.*`, where `${system:..}` and the like are Spark's own.
        """
        return _REFERENCE.sub(lambda found: self._one(option, found), raw)

    def _one(self, option: str, found: re.Match[str]) -> str:
        provider, path, key = found[1], found[2] or "", found[3]
        if provider == "env":
            return self._variable(key)
        if provider == "file":
            return self._entry(path, key)
        if provider == "dir":
            return self._whole(path, key)
        if option.startswith("spark."):
            return found[0]
        raise ReferenceMissing(
            "knows the references ${env:NAME}, ${file:PATH:KEY} and ${dir:PATH:FILE}, not those of "
            f"{provider!r}"
        )

    def _variable(self, name: str) -> str:
        if name not in self._environment:
            raise ReferenceMissing(f"the environment variable {name} is not set")
        return self._environment[name]

    def _whole(self, folder: str, file: str) -> str:
        """The content of a file, as Kubernetes mounts secrets."""
        path = f"{folder.rstrip('/')}/{file}"
        try:
            return self._read_file(path)
        except OSError as error:
            raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ReferenceMissing(f"the file {path} cannot be read as text") from error

    def _entry(self, path: str, key: str) -> str:
        if path not in self._files:
            try:
                self._files[path] = dict(parse_properties(self._read_file(path)))
            except OSError as error:
                raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
            except PropertiesError as error:
                raise ReferenceMissing(f"the file {path} is no .properties file: {error}") from error
            except ValueError as error:
                # Bytes that are no text, or a path that the system refuses outright.
                raise ReferenceMissing(f"the file {path} cannot be read as text") from error
        if key not in self._files[path]:
            raise ReferenceMissing(f"the file {path} has no entry {key!r}")
        return self._files[path][key]
