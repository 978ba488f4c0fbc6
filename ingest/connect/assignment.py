"""Which worker runs which connector: spread evenly, and moved as little as possible."""

from collections.abc import Collection, Mapping


def assign(
    connectors: Collection[str], workers: Collection[str], before: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """The connectors of each worker, sorted: each connector once, no worker with two more than another.

    A connector stays where it was `before` unless its worker is gone, or has more than its share.
    """
    if not workers:
        return {}
    least, more = divmod(len(connectors), len(workers))
    kept: dict[str, list[str]] = {}
    taken: set[str] = set()
    # Who has most may keep one more than the others, so that nothing moves for the rest's sake.
    for worker in sorted(workers, key=lambda one: (-len(before.get(one, ())), one)):
        room = least + (1 if more > 0 else 0)
        mine = [one for one in sorted(before.get(worker, ())) if one in connectors and one not in taken][
            :room
        ]
        if len(mine) > least:
            more -= 1
        kept[worker] = mine
        taken.update(mine)
    for connector in sorted(set(connectors) - taken):
        worker = min(kept, key=lambda one: (len(kept[one]), one))
        kept[worker].append(connector)
    return {worker: tuple(sorted(kept[worker])) for worker in sorted(kept)}
