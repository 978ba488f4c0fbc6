"""The alert rules, read from their file."""

import re
from pathlib import Path

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
# What of waiting work is no news while nothing is meant to be done.
WHILE_IT_RUNS = {"HeadraceBehind", "HeadraceSinkBehind", "HeadraceStuck", "HeadraceListingOverdue"}


def rules() -> list[tuple[str, str]]:
    """Name and expression of each alert; folded lines are one."""
    text = RULES.read_text()
    found = re.findall(r"- alert: (\w+)\n(?:\s+#.*\n)*\s+expr: (?:>-\n)?((?:.+\n)+?)\s+(?:for|labels):", text)
    return [(name, " ".join(expression.split())) for name, expression in found]
