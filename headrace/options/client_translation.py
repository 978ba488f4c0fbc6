"""What a configuration says of Kafka clients, in Java's words or librdkafka's, to librdkafka's properties.

How a sink reads its topics is the operator's decision, in two properties of the consumer of records alone:
ledger and group are read as the protocol needs it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar, get_args

from headrace.model.text_formatting import HINTED, did_you_mean
from headrace.options import client_names as names
from headrace.options.choices import CredentialsProvider, IsolationLevel, OffsetReset
from headrace.options.client_bounds import counted, fit
from headrace.options.client_names import Translation
from headrace.options.declarations import connection_options, reading_options
from headrace.options.given import Entry, Problems, Values
from headrace.options.merge import Gathered
from headrace.options.sasl import CONSUMED, put_login
from headrace.options.settings import Role
from headrace.options.sink_settings import ReadSettings
from headrace.options.suggestions import property_like
from headrace.options.tls import (
    INLINE,
    PEM,
    ReadBytes,
    put_ciphers,
    put_key_store,
    put_trust_store,
    speaks_old_tls,
    with_line_breaks,
)
from headrace.options.token_logins import IAM
from headrace.options.value_types import Form, FormError, choice, trimmed

T = TypeVar("T")
D = TypeVar("D")

ISOLATION: Final = "isolation.level"
RESET: Final = "auto.offset.reset"
NAMES: Final = (ISOLATION, RESET)
GROUP: Final = "group.id"
_SUITES: Final = "ssl.cipher.suites"
_VERSIONS: Final = "ssl.enabled.protocols"


def read_settings(given: Mapping[str, Entry], problems: Problems) -> ReadSettings:
    """Return what these entries of the consumer say, by its own property names."""
    default = ReadSettings()
    return ReadSettings(
        isolation=_chosen(given.get(ISOLATION), choice(IsolationLevel), default.isolation, problems),
        reset=_chosen(given.get(RESET), choice(OffsetReset), default.reset, problems),
    )


def group_read(given: Mapping[str, Entry], problems: Problems) -> str | None:
    """Return the group that another vendor's sink was given for its offsets; None where Connect named it."""
    if GROUP not in given:
        return None
    return _chosen(given[GROUP], names.GROUP_NAME, None, problems)


def read_warnings(given: Mapping[str, Entry], settings: ReadSettings) -> tuple[str, ...]:
    """Return what the operator may not have meant."""
    if settings.isolation is IsolationLevel.READ_COMMITTED:
        return ()
    option = f"{given[ISOLATION].spelled} = {settings.isolation}"
    costs = (
        "records of transactions that are aborted, or not ended yet, are archived like any other, and no "
        "object tells them apart; without it only committed records are"
    )
    return (f"{option}: {costs}",)


def _chosen(entry: Entry | None, form: Form[T], default: D, problems: Problems) -> T | D:
    if entry is None:
        return default
    try:
        return form.parse(entry.text)
    except FormError:
        problems.add(entry.spelled, f"expected {form.expected}", entry.shown)
        return default


def _without_ends(name: str, text: str) -> str:
    """A value as Kafka's classes take it; librdkafka's password keeps blanks, but no line end."""
    if name in PEM:
        return text
    return text.rstrip("\r\n") if name == "sasl.password" else trimmed(text)


def translated(
    role: Role, given: Mapping[str, Entry], *, read_bytes: ReadBytes, into: Translation
) -> dict[str, str]:
    """Return librdkafka's properties for one kind of client; what cannot be translated becomes a problem.

    Blocks for reading a PKCS12 trust store.
    """
    given = {name: replace(entry, text=_without_ends(name, entry.text)) for name, entry in given.items()}
    put_login(given, into)
    put_trust_store(given, read_bytes, into)
    put_key_store(given, into)
    for name, entry in given.items():
        if name == _SUITES and not _protocol(given).endswith("SSL"):
            # They may be of a worker's listeners: no client asks for them.
            into.put(name, entry.text, entry)
        elif name == _VERSIONS and speaks_old_tls(given.get(_SUITES)):
            into.refuse(entry, f"older TLS is spoken, too, by @SECLEVEL=0 in {_SUITES}; remove that")
        elif name not in CONSUMED and name not in names.STORES:
            _put(role, name, entry, into)
    return into.result()


def _put(role: Role, name: str, entry: Entry, into: Translation) -> None:
    if name in names.DECIDED_HERE:
        if entry.text.strip().lower() not in names.DECIDED_HERE[name]:
            into.refuse(entry, "would weaken the guarantee; Headrace decides it itself: remove it")
    elif name in names.DECIDED_ELSEWHERE:
        into.refuse(entry, f"cannot differ by client; {names.DECIDED_ELSEWHERE[name]} instead")
    elif name not in _SPECIAL and names.own_name(role, name) not in names.KNOWN[role]:
        _refuse_unknown(role, name, entry, into)
    elif (text := counted(role, name, entry, into)) is not None:
        put = _SPECIAL.get(name)
        if put is None:
            into.put(names.own_name(role, name), text, entry)
        else:
            put(replace(entry, text=text), into)


def _refuse_unknown(role: Role, name: str, entry: Entry, into: Translation) -> None:
    owners = [
        other
        for other in ("producer", "consumer")
        if name in names.KNOWN[other] | names.RENAMED[other].keys()
    ]
    if name in names.WITHOUT_COUNTERPART:
        into.refuse(entry, names.WITHOUT_COUNTERPART[name])
    elif owners:
        into.refuse(entry, f"is a property of {owners[0]}s, not of {role}s")
    else:
        close = property_like(role, name) if len(into.problems) < HINTED else None
        # The value is not told: it may be the secret of a misspelled property.
        into.problems.add(
            entry.spelled,
            f"is not a property of librdkafka; {did_you_mean(close, otherwise='remove it')}",
        )


def _put_endpoint_check(entry: Entry, into: Translation) -> None:
    # Java switches the check of the broker's name off with an empty text, librdkafka with none.
    value = entry.text.strip().lower() or "none"
    if value in {"none", "https"}:
        into.put("ssl.endpoint.identification.algorithm", value, entry)
    else:
        into.refuse(entry, "expected https, or empty for no check of the broker's name")


def _put_buffer_memory(entry: Entry, into: Translation) -> None:
    into.put("queue.buffering.max.kbytes", str(int(entry.text) // 1_024), entry)


def _put_kinit(entry: Entry, into: Translation) -> None:
    # Java's is the program alone, librdkafka's a whole command.
    path = entry.text.strip()
    keytab = '-t "%{sasl.kerberos.keytab}" -k %{sasl.kerberos.principal}'
    command = path if re.search(r"[\s%]", path) else f"{path} -R {keytab} || {path} {keytab}"
    into.put("sasl.kerberos.kinit.cmd", command, entry)


def _put_pem(name: str) -> Callable[[Entry, Translation], None]:
    return lambda entry, into: into.put(name, with_line_breaks(entry.text), entry)


_SPECIAL: Final[dict[str, Callable[[Entry, Translation], None]]] = {
    "ssl.endpoint.identification.algorithm": _put_endpoint_check,
    "sasl.kerberos.kinit.cmd": _put_kinit,
    _SUITES: put_ciphers,
    "buffer.memory": _put_buffer_memory,
    **{name: _put_pem(name) for name in INLINE},
}


# -- The properties of the three kinds of Kafka client, from the layers of a configuration -------------------

ROLES: Final[tuple[Role, ...]] = get_args(Role)
_SHARED: Final = ("security.protocol", "sasl.", "ssl.")


def layered(role: Role, gathered: Gathered) -> dict[str, Entry]:
    """Return the entries for one kind of client by its own property names, the nearest layer winning."""
    entries = gathered.entries
    worker = gathered.worker
    return {
        **_shared(worker),
        **{name.removeprefix(f"{role}."): one for name, one in worker.items() if name.startswith(f"{role}.")},
        **_shared(entries),
        **{
            name.removeprefix(f"{role}.override."): one
            for name, one in entries.items()
            if name.startswith(f"{role}.override.")
        },
    }


def _shared(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if name.startswith(_SHARED)}


_BOTH: Final = ("sasl.", "ssl.")
# What these have no use for.
_UNUSED: Final = {"PLAINTEXT": _BOTH, "SSL": ("sasl.",), "SASL_PLAINTEXT": ("ssl.",), "SASL_SSL": ()}


def _protocol(given: Mapping[str, Entry]) -> str:
    entry = given.get("security.protocol")
    return "PLAINTEXT" if entry is None else entry.text.strip().upper()


def unused_entries(given: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries of log-ins and of TLS that a client has no use for, by its protocol."""
    prefixes = _UNUSED.get(_protocol(given), _BOTH)
    return {name: entry for name, entry in given.items() if name.startswith(prefixes)}


def _used(role: Role, gathered: Gathered) -> dict[str, Entry]:
    """The entries for one kind of client, without those of a worker's file that it does not use."""
    given = layered(role, gathered)
    if not gathered.worker:
        return given
    return _without_unused(role, _without_effect(given, gathered), gathered)


def _is_of_worker(entry: Entry, gathered: Gathered) -> bool:
    return gathered.worker.get(entry.spelled) is entry


def _without_effect(given: dict[str, Entry], gathered: Gathered) -> dict[str, Entry]:
    """What is left without what is so here in any case: only the nearest layer's word counts."""
    is_old = speaks_old_tls(given.get(_SUITES))
    return {
        name: entry
        for name, entry in given.items()
        if not _is_of_worker(entry, gathered)
        or (name == _VERSIONS and is_old)
        or not names.is_without_effect(name, entry.text)
    }


# What is left out whole, or not at all: the rest would mean something else, or nothing.
_WHOLE: Final = ("ssl.truststore.", "ssl.keystore.", "sasl.")


def _without_unused(role: Role, given: dict[str, Entry], gathered: Gathered) -> dict[str, Entry]:
    """What is left without Java's words of a worker's file that a client does not use: Connect reads none.

    They may be there for another kind of client, or for the worker's own listeners. Of a protocol that is not
    known, as its reference is not followed, all is left; so are names that are misspelt.
    """
    if _protocol(given) not in _UNUSED or _is_protocol_lost(role, given, gathered):
        return given
    unused = unused_entries(given)
    mixed = tuple(
        whole
        for whole in _WHOLE
        if any(name.startswith(whole) and not _is_of_worker(one, gathered) for name, one in unused.items())
        or (whole == "sasl." and _is_of_iam(given))
    )
    java_s = names.TOP_LEVEL - (names.KNOWN["admin"] - names.STORES)
    left_out = {
        name
        for name, one in unused.items()
        if name in java_s and not name.startswith(mixed) and _is_of_worker(one, gathered)
    }
    return {name: entry for name, entry in given.items() if name not in left_out}


def _is_protocol_lost(role: Role, given: Mapping[str, Entry], gathered: Gathered) -> bool:
    name = "security.protocol"
    farther = {name, f"{role}.{name}"} if name not in given else set()
    return not gathered.broken.isdisjoint({f"{role}.override.{name}", *farther})


def _is_of_iam(given: Mapping[str, Entry]) -> bool:
    """Whether a log-in by AWS IAM is meant: where no client logs in by it that is a problem."""
    trial = Translation(Problems())
    put_login(given, trial)
    return trial.get(IAM) is not None


def _unused_warnings(gathered: Gathered) -> dict[str, None]:
    """What no client uses, with the protocol by which it is; of several protocols, a line for each.

    Of a worker's file it is left out. What a configuration has of its own stays, and will have been meant
    otherwise: a log-in without its protocol is never asked for.
    """
    of_worker: dict[str, _Unused] = {}
    own: dict[str, _Unused] = {}
    for role in ROLES:
        given = _without_effect(layered(role, gathered), gathered)
        used = _without_unused(role, given, gathered) if gathered.worker else given
        left_out = {name: given[name] for name in given.keys() - used.keys()}
        protocol = f"{_protocol(given)}{'' if 'security.protocol' in given else ', as it is not set'}"
        for found, unused in ((of_worker, left_out), (own, _own_unused(role, given, gathered))):
            if unused:
                of_protocol = found.setdefault(protocol, _Unused([], {}))
                of_protocol.whose.append("admin clients" if role == "admin" else f"{role}s")
                of_protocol.options.update(dict.fromkeys(entry.spelled for entry in unused.values()))
    return dict.fromkeys(
        f"{', '.join(sorted(one.options))}{whose}: not used by {', '.join(one.whose)}, whose "
        f"security.protocol is {protocol}{fix}"
        for found, whose, fix in (
            (of_worker, " of the worker's file", ""),
            (own, "", "; set it to what their listener takes, or remove these"),
        )
        for protocol, one in found.items()
    )


class _Unused(NamedTuple):
    whose: list[str]
    options: dict[str, None]


def _own_unused(role: Role, given: Mapping[str, Entry], gathered: Gathered) -> dict[str, Entry]:
    """What a configuration itself gives to one kind of client that has no use for it, nor has another."""
    return {
        name: entry
        for name, entry in _useless(role, given, gathered).items()
        if not _is_of_worker(entry, gathered)
        and not names.is_without_effect(name, entry.text)
        and not any(_uses(other, name, entry, gathered) for other in ROLES)
    }


def _uses(role: Role, name: str, entry: Entry, gathered: Gathered) -> bool:
    given = layered(role, gathered)
    return given.get(name) is entry and name not in _useless(role, given, gathered)


def _useless(role: Role, given: Mapping[str, Entry], gathered: Gathered) -> dict[str, Entry]:
    """The entries of which one kind of client has no use, by a protocol that is known."""
    is_known = _protocol(given) in _UNUSED and not _is_protocol_lost(role, given, gathered)
    return unused_entries(given) if is_known else {}


def of_worker(gathered: Gathered, *, is_sink: bool) -> dict[str, Entry]:
    """Return what clients have of a worker's file, by the names that a configuration of its own has for it.

    Without the group, of which a name is made, without what sources pass over, and what no client uses.
    """
    if not gathered.worker:
        return {}
    used = [entry for role in ROLES for entry in _used(role, gathered).values()]
    found = {}
    for name, entry in gathered.worker.items():
        role, _, rest = name.partition(".")
        own = name if name.startswith(_SHARED) else f"{role}.override.{rest}"
        is_needless = rest == GROUP or (rest in NAMES and not is_sink)
        is_used = any(entry is one for one in used)
        # What a connector says of all its clients wins over what a worker says of one kind.
        if is_used and not is_needless and not {own, rest} & gathered.entries.keys():
            found[own] = entry
    return found


class Clients(NamedTuple):
    """librdkafka's properties of each kind of client, and what of them is taken otherwise than given."""

    properties: dict[Role, dict[str, str]]
    warnings: dict[str, None]


def client_properties(
    gathered: Gathered,
    values: Values,
    *,
    is_sink: bool,
    read_bytes: ReadBytes,
    problems: Problems,
    takes_over: bool = False,
) -> Clients:
    """Return librdkafka's properties of each kind of client, with what other options say of them.

    `takes_over`: it is another vendor's sink, of which `group_read` reads the group.
    """
    found = Clients(properties={}, warnings=_unused_warnings(gathered))
    for role in ROLES:
        given = _used(role, gathered)
        if role == "consumer":
            given = _without_reading(given, gathered, is_sink=is_sink)
            if takes_over or given.get(GROUP) in gathered.worker.values():
                given.pop(GROUP, None)
        into = Translation(problems, found.warnings)
        of_role = translated(role, given, read_bytes=read_bytes, into=into)
        fit(role, of_role, given, values, into, is_sink=is_sink)
        if IAM in of_role:
            _refuse_anonymous(values)
        if values.are_good(connection_options.BOOTSTRAP_SERVERS):
            of_role["bootstrap.servers"] = values[connection_options.BOOTSTRAP_SERVERS]
        found.properties[role] = of_role
    return found


def _refuse_anonymous(values: Values) -> None:
    """Note that nothing can be signed without credentials."""
    option = reading_options.PROVIDER_CLASS
    if values.are_good(option) and values[option] is CredentialsProvider.ANONYMOUS:
        values.refuse(option, "has nothing to sign Kafka's log-in by AWS IAM with; name another")


def _without_reading(given: dict[str, Entry], gathered: Gathered, *, is_sink: bool) -> dict[str, Entry]:
    """What is left where `headrace.options.client_translation` has decided how a sink reads.

    A worker's file gives these to the sinks among its connectors: a source passes over them.
    """
    of_worker = gathered.worker.values()
    return {
        name: entry
        for name, entry in given.items()
        if name not in NAMES or not (is_sink or entry in of_worker)
    }
