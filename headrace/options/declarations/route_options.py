"""Routes of a sink: the family, and which options of the sink a route may have of its own."""

from typing import Any, Final

from headrace.options.declarations.option import Family, Group, Option

ROUTE: Final = "route."
_ROUTABLE: Final = (
    "aws.s3.bucket.name",
    "aws.s3.prefix",
    "behavior.on.null.values",
    "csv.",
    "file.",
    "json.format",
    "open.object.max.age.ms",
    "output.",
    "rotate.",
    "schema.compatibility",
    "sidecars",
)
_OF_SOURCES: Final = frozenset({"file.name.match"})

FAMILIES: Final = (
    Family(
        prefix=ROUTE,
        group=Group.SINK,
        doc="Topics whose objects are other ones: `route.NAME.topics` names them, and "
        "`route.NAME.aws.s3.bucket.name`, `.aws.s3.prefix`, `.file.name.*`, `.file.compression.*`, "
        "`.output.*`, `.sidecars*`, `.csv.*`, `.rotate.*`, `.open.object.max.age.ms`, "
        "`.schema.compatibility`, `.behavior.on.null.values` say what is in force for them instead of the "
        "sink's own option. A topic is in one route at most.",
    ),
)


def is_routable(option: Option[Any]) -> bool:
    """Whether a route may have this option of its own."""
    return option.name.startswith(_ROUTABLE) and option.name not in _OF_SOURCES
