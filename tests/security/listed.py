"""The ACLs that docs/security.md lists, read out of its table: what is documented is what is tried."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclOperation,
    ResourceType,
)

from tests.security.tls_environment import Acl

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "security.md"
_KINDS: Final = {
    "transactional ids": ResourceType.TRANSACTIONAL_ID,
    "group": ResourceType.GROUP,
    "topic": ResourceType.TOPIC,
}
_OPERATIONS: Final = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Create": AclOperation.CREATE,
}


def listed(heading: str, names: Mapping[str, str]) -> list[Acl]:
    """The ACLs of the table under a heading, its capitals (NAME, TOPIC ..) replaced by these names."""
    section = DOCUMENT.read_text().split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    found: list[Acl] = []
    for kind, name, operations, *_ in rows[2:]:
        resource = kind.strip().split(",")[0].split(" (")[0]
        found += [
            Acl(
                kind=_KINDS[resource],
                name=_filled(name.strip().strip("`"), names),
                operation=_OPERATIONS[operation.strip()],
                is_prefix="prefixed" in kind,
            )
            for operation in operations.split(",")
        ]
    return found


def _filled(pattern: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[A-Z]+(?:-[A-Z]+)*", lambda found: names[found[0]], pattern)
