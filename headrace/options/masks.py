"""What is shown in place of a secret, such as `[hidden]`, and was saved and given as one; pure."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from headrace.options.choices import ValueFormat
from headrace.options.client_translation import ROLES, layered, unused_entries
from headrace.options.declarations import format_options, record_options, sink_options
from headrace.options.given import Entry, Problems, as_written, canonical
from headrace.options.merge import Gathered
from headrace.options.record_forms import KINDS, is_of_glue
from headrace.options.secret import HIDDEN, NO_VALUE, NOT_FOR_CLIENTS, Secret
from headrace.options.sink_settings import OF_REGISTRIES

_LOGIN: Final = re.compile(r"((producer|consumer|admin)\.(override\.)?)?(sasl|ssl)\.")
_CONVERTERS: Final = (
    record_options.KEY_CONVERTER_CLASS.name,
    record_options.VALUE_CONVERTER_CLASS.name,
    sink_options.HEADER_CONVERTER_CLASS.name,
)
_FORMATS: Final = frozenset(ValueFormat) - {
    ValueFormat.AVRO,
    ValueFormat.JSON_SCHEMA,
    ValueFormat.PROTOBUF,
}
_OF_REGISTRY: Final = ("schema.registry.basic.auth.", "schema.registry.bearer.auth.")


def leave_out_registry(gathered: Gathered) -> None:
    """Leave out a log-in to a schema registry that holds a mask, where no converter asks a registry.

    Files have its lines for all connectors alike; they are among what has no meaning then.
    """
    login = {name for name in gathered.entries if name.startswith(_OF_REGISTRY)}
    where = format_options.REGISTRY_URL.name
    if where in gathered.entries and gathered.entries[where].is_mask:
        login.add(where)
    if _asks_registry(gathered) or not any(gathered.entries[name].is_mask for name in login):
        return
    gathered.without_meaning += [gathered.entries.pop(name).spelled for name in sorted(login)]


def _asks_registry(gathered: Gathered) -> bool:
    """Whether a converter or a format needs a registry; one that is not known, or has no value, may."""
    chosen = gathered.entries.get(record_options.VALUE_FORMAT.name)
    if chosen is not None and chosen.text.strip().lower() not in _FORMATS:
        return True
    if gathered.broken & {*_CONVERTERS, record_options.VALUE_FORMAT.name}:
        return True
    given = [gathered.entries[name].text.strip() for name in _CONVERTERS if name in gathered.entries]
    return any(KINDS.get(each) in {None, *OF_REGISTRIES} and not is_of_glue(each) for each in given)


def masks(
    gathered: Gathered,
    written: tuple[tuple[str, Secret, Secret], ...],
    *,
    needless: Collection[str],
) -> tuple[Entry, ...]:
    """Return what is given that is shown in place of a secret: who saved it would log in with asterisks.

    `written` is what is given by the names it has; `needless` are those of it that decide nothing. What no
    client has a use for, by its protocol, is left out too.
    """
    unused = _unused_logins(gathered)
    names = {name for name, _, _ in written}
    nothing = {*needless, *(one.spelled for one in gathered.entries.values() if one in unused)}
    given = [
        replace(as_written(name, raw.reveal()), text=text.reveal())
        for name, raw, text in written
        if not {name, canonical(name)} & nothing
    ]
    # What is translated has what references lead to in place of them.
    others = [one for one in gathered.entries.values() if one.spelled not in names]
    found = (*given, *others, *gathered.worker.values())
    return tuple(one for one in found if one.is_mask and one not in unused)


def refuse_masks(gathered: Gathered, found: tuple[Entry, ...], problems: Problems) -> None:
    """Note that these are no values. As of what a missing reference gives, nothing else is said of them."""
    for entry in found:
        problems.add(entry.spelled, NO_VALUE, _as_given(entry))
    # A worker's line that is used has no other one of its name in front of it.
    names = {entry.spelled for entry in found}
    for entries in (gathered.entries, gathered.worker):
        for name in [name for name, entry in entries.items() if entry.spelled in names]:
            del entries[name]
            gathered.broken.add(name)


def mask_warnings(found: tuple[Entry, ...]) -> Iterator[str]:
    """Yield what clients would refuse, where none is made."""
    for entry in found:
        yield f"{entry.spelled} = {_as_given(entry)!r}: {NOT_FOR_CLIENTS}"


def _as_given(entry: Entry) -> str:
    return HIDDEN if entry.raw.strip() == HIDDEN else entry.shown


def _unused_logins(gathered: Gathered) -> frozenset[Entry]:
    """Return what is given of log-ins and of TLS that no client has a use for, by the protocol of each."""
    given = {
        entry
        for entries in (gathered.entries, gathered.worker)
        for name, entry in entries.items()
        if _LOGIN.match(name) is not None
    }
    if not given:
        return frozenset()
    used: set[Entry] = set()
    for role in ROLES:
        of_client = layered(role, gathered)
        used.update(of_client[name] for name in of_client.keys() - unused_entries(of_client).keys())
    return frozenset(given - used)
