"""Single message transforms: their aliases; what each does is under its alias."""

from typing import Final

from headrace.options.declarations.option import Family, Group, optional
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
