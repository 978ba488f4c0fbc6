"""What a page of a listing holds, read in the place of botocore's parser, which takes many times as long.

Only the objects are read here: botocore parses the rest of the answer, decodes the keys and raises the
errors, as without this.
"""

from datetime import datetime
from typing import Any, Final
from xml.etree.ElementTree import ParseError, XMLParser, fromstring

# Handlers for `*` as the service come before those for `s3`: one of these, botocore's own, parses the body
# once more in search of an error, and so has a short one to parse.
_EVENT: Final = "before-parse.*.ListObjectsV2"
_BEGIN: Final = b"<Contents>"
_END: Final = b"</Contents>"
# So many elements at once are too few to set off Python's collector, which would go through botocore's model.
_AT_ONCE: Final = 40
_OK: Final = 200


def use_fast_list_parser(client: Any) -> None:
    """Have this aiobotocore client's `list_objects_v2` give of each object only what the listing looks at."""
    client.meta.events.register(_EVENT, _before_parse)


def _before_parse(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_others: Any
) -> None:
    """Take the objects out of the body; botocore adds them to what it makes of the rest of it."""
    if response_dict["status_code"] != _OK:
        return
    try:
        objects, rest = _split(response_dict["body"])
    except (ParseError, KeyError, ValueError):
        return  # botocore parses it all, or says what is wrong with it
    customized_response_dict["Contents"], response_dict["body"] = objects, rest


def _split(body: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The objects as botocore would give them, and the answer without them; an error if it is unusual."""
    # Without a DOCTYPE, comments, CDATA and instructions, what looks like a tag is one.
    if b"<!" in body or body.rfind(b"<?") > 0:
        raise ValueError("There is more than elements.")
    head, *entries = body.split(_BEGIN)
    if not entries:
        raise ValueError("There are no objects.")
    entries[-1], end, tail = entries[-1].rpartition(_END)
    entries[-1] += end
    _check(head + _BEGIN + _END + tail)
    objects = [
        found
        for index in range(0, len(entries), _AT_ONCE)
        for found in _objects(_BEGIN + _BEGIN.join(entries[index : index + _AT_ONCE]))
    ]
    return objects, head + tail


def _check(frame: bytes) -> None:
    """An error if the place of the objects is not where botocore looks for them, or not the only one."""
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - no entities are declared in it
    parser.feed(frame)
    root = parser.close()
    if root.tag.rpartition("}")[2] != "ListBucketResult":
        raise ValueError("This is not a page.")
    if root.find("{*}Contents") is None or len(root.findall(".//{*}Contents")) > 1:
        raise ValueError("Objects are in several places.")


def _objects(entries: bytes) -> list[dict[str, Any]]:
    """Some objects; the page's own namespace is none here."""
    objects = []
    for entry in fromstring(b"<Some>" + entries + b"</Some>"):  # noqa: S314 - no entities are declared in it
        fields = {child.tag: child.text or "" for child in entry}
        if entry.tag != "Contents" or len(fields) < len(entry) or "}" in "".join(fields):
            raise ValueError("This is not one object, or botocore would read it otherwise.")
        objects.append(_object(fields))
    return objects


def _object(fields: dict[str, str]) -> dict[str, Any]:
    """What the listing looks at; KeyError or ValueError when it is not there or unusual."""
    modified = datetime.fromisoformat(fields["LastModified"])
    if modified.tzinfo is None:
        raise ValueError("This is a time without a zone.")
    found: dict[str, Any] = {
        "Key": fields["Key"],
        "ETag": fields["ETag"],
        "Size": int(fields["Size"]),
        "LastModified": modified,
    }
    if "StorageClass" in fields:
        found["StorageClass"] = fields["StorageClass"]
    return found
