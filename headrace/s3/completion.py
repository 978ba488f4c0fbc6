"""What became of an object when its upload was to be completed."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

OBJECT_ID: Final = "headrace-object"
"""The user metadata that holds the id of a sealed object, from its upload's start."""


class CompletionState(StrEnum):
    """Where an object is after a completion was tried."""

    COMPLETED = "completed"
    """It is there: completed by this call, or before."""
    NAME_TAKEN = "name_taken"
    """Another object has the name; the upload is there still."""
    UPLOAD_MISSING = "upload_missing"
    """There is neither the upload nor an object of this name."""
    SUPERSEDED = "superseded"
    """There is no upload, and another object has the name."""
    PARTS_DIFFER = "parts_differ"
    """The upload's parts are not those that were sealed."""
    UNPROVEN = "unproven"
    """There is no upload or the name is taken, and S3 forbids to ask by what: nothing may be concluded."""


class Completion(NamedTuple):
    """The state, and the id of the object that has the name when it is another (empty: it has none)."""

    state: CompletionState
    other_id: str = ""


def by_metadata(metadata: Mapping[str, str] | None, object_id: str, *, is_taken: bool) -> Completion:
    """What the object of the name means, None for no object: after a 412 (`is_taken`), or without upload."""
    if metadata is None:
        return Completion(CompletionState.UPLOAD_MISSING)
    found = metadata.get(OBJECT_ID, "")
    if found == object_id:
        return Completion(CompletionState.COMPLETED)
    return Completion(CompletionState.NAME_TAKEN if is_taken else CompletionState.SUPERSEDED, found)
