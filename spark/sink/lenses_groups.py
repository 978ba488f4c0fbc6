"""The groups of our names that Lenses' sink kept a lock of. Pure."""

from spark.sink.names import ObjectNames


def lenses_group(names: ObjectNames, values: tuple[tuple[str, str], ...]) -> str | None:
    """The group of records with these values, by the names that a lock's key has; None: of other names.

    What is missing is in the key as it does in names of objects.
    """
    given = dict(values)
    shown = [
        "date" if each.date is not None else ".".join(each.path) or str(each.field) for each in names.grouping
    ]
    if not names.is_plain or len(given) != len(values) or len(set(shown)) != len(shown):
        return None
    if not given.keys() >= set(shown):
        return None
    try:
        return names.group(tuple(given[name] for name in shown))
    except ValueError:
        return None
