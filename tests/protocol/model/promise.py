"""What has to hold: each row of each object visible once, none lost."""

from collections import Counter

from tests.protocol.model.broker import entry_of
from tests.protocol.model.world import DONE, QUARANTINED, SETTLED, Scenario, World


def broken_promise(scenario: Scenario, world: World) -> str | None:
    """What is wrong with the world in a sentence, or None. Holds at every moment, not only at the end."""
    visible = Counter(world.broker.visible)
    for (name, row), times in visible.items():
        if times > 1:
            return f"{name}[{row}] is visible {times} times"
    truth = world.broker.decided_entries()
    for name, size in scenario.sizes.items():
        entry = entry_of(truth, name)
        settled = entry if entry and entry.state in SETTLED else None
        seen = sum(1 for row in range(size) if visible[name, row])
        if settled and settled.state == DONE and seen < size:
            return f"the ledger calls {name} done with {seen} of {size} rows visible"
        if settled and settled.state == QUARANTINED and seen < settled.position:
            return f"the ledger has {name} at row {settled.position} with {seen} rows visible"
        if name not in world.queue and settled is None and not (entry and seen >= entry.position):
            return f"the message of {name} is deleted, and the ledger does not have it"
    return None


def broken_end(scenario: Scenario, world: World) -> str | None:
    """What is wrong with a world in which nothing is left to do, or None."""
    truth = world.broker.decided_entries()
    for name, size in scenario.sizes.items():
        entry = entry_of(truth, name)
        rows = entry.position if entry and entry.state == QUARANTINED else size
        seen = sum(1 for row in world.broker.visible if row[0] == name)
        if seen != rows:
            return f"all is quiet with {seen} of {rows} rows of {name} visible"
        if name in world.queue:
            return f"all is quiet with the message of {name} not deleted"
    return None
