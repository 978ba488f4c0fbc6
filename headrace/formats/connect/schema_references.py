"""What the `$ref`s of a JSON Schema mean, in it and in the documents that it refers to."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urljoin

from headrace.formats.connect.schema import InvalidSchema

_DRAFT_4: Final = "draft-04"


class SchemaReferences:
    """Finds what is referred to; `documents` by the names of the references, the schema's own is ``""``.

    As in Java, a name and a reference are resolved against the `$id` of the schema, and a document is also
    what its own `$id` says, as are schemas within it. What resolves to nothing is looked for by its name.
    """

    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents
        self._bases: dict[str, str] = {}
        self._places: dict[str, tuple[str, Any]] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        own = _joined("", _id(documents[""], documents[""]))
        for name, root in documents.items():
            place = _joined(own, name) if name else own
            self._bases[name] = _joined(place, _id(root, root))
            for uri in (_joined("", name), place, self._bases[name]):
                if uri:
                    self._places.setdefault(uri, (name, root))
        for name, root in documents.items():
            self._note(name, root)

    def _note(self, name: str, root: Any) -> None:
        """Remember what is called by an `$id` or an anchor of its own within a document."""
        for shape in _within(root):
            if isinstance(anchor := shape.get("$anchor"), str):
                self._anchors.setdefault((name, anchor), shape)
            uri, _, anchor = _id(shape, root).partition("#")
            if anchor and not uri:
                self._anchors.setdefault((name, anchor), shape)
            elif uri:
                self._places.setdefault(_joined(self._bases[name], uri), (name, shape))

    def found(self, reference: str, document: str) -> tuple[Any, str]:
        """What a reference in a document means, and the name of the document that it is in.

        InvalidSchema where that is not there.
        """
        uri, _, fragment = reference.partition("#")
        name, shape = self._place(uri, document) if uri else (document, self._documents[document])
        if fragment and not fragment.startswith("/"):
            shape = self._anchors.get((name, unquote(fragment)))
            if shape is None:
                raise InvalidSchema(f"it refers to {reference}, which is not there")
            return shape, name
        for step in filter(None, fragment.split("/")):
            shape = _step(shape, step, reference)
        return shape, name

    def _place(self, uri: str, document: str) -> tuple[str, Any]:
        for base in (self._bases[document], "", self._bases[""]):
            found = self._places.get(_joined(base, uri))
            if found is not None:
                return found
        raise InvalidSchema(f"it refers to {uri}, which is not among its references")


def _step(shape: Any, step: str, reference: str) -> Any:
    plain = step.replace("~1", "/").replace("~0", "~")
    for key in (plain, unquote(step).replace("~1", "/").replace("~0", "~")):
        if isinstance(shape, dict) and key in shape:
            return shape[key]
        if isinstance(shape, list) and key.isdecimal() and int(key) < len(shape):
            return shape[int(key)]
    raise InvalidSchema(f"it refers to {reference}, which is not there")


def _id(shape: Any, root: Any) -> str:
    """What a schema calls itself, empty where it does not."""
    if not isinstance(shape, dict):
        return ""
    word = "id" if isinstance(root, dict) and _DRAFT_4 in str(root.get("$schema")) else "$id"
    found = shape.get(word)
    return found if isinstance(found, str) else ""


def _within(root: Any) -> Iterator[dict[str, Any]]:
    """All objects in a document."""
    left = [root]
    while left:
        shape = left.pop()
        if isinstance(shape, dict):
            yield shape
            left += shape.values()
        elif isinstance(shape, list):
            left += shape


def _joined(base: str, uri: str) -> str:
    """A reference resolved against where it is, without what says that it is there."""
    try:
        found = urljoin(base, uri)
    except ValueError:
        found = uri
    found = found.partition("#")[0]
    while found.startswith("./"):
        found = found[2:]
    return found
