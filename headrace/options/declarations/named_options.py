"""Options under a name that the configuration chooses: transforms by alias, and a sink's routes."""

from typing import Any, Final

from headrace.options.declarations.option import Family, Group, Option, optional
from headrace.options.value_types import ALIASES

TRANSFORM_ALIASES = optional(
    "transforms",
    ALIASES,
    Group.TRANSFORMS,
    "Aliases of Kafka Connect's single message transforms, in the order in which they apply; each record "
    "goes through them before it is grouped into objects (sink), or produced (source).",
)
PREDICATE_ALIASES = optional(
    "predicates",
    ALIASES,
    Group.TRANSFORMS,
    "Aliases of predicates, which say to which records a transform applies.",
)

FAMILIES: Final = (
    Family(
        prefix="transforms.",
        group=Group.TRANSFORMS,
        doc="`transforms.ALIAS.type` names the class, `transforms.ALIAS.predicate` and `.negate` the "
        "records, and the class's own options are next to them: [Transforms](transforms.md) has them all.",
    ),
    Family(
        prefix="predicates.",
        group=Group.TRANSFORMS,
        doc="`predicates.ALIAS.type` names the class, with the class's own options next to it.",
    ),
)


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

ROUTE_FAMILIES: Final = (
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
