"""Java's `sasl.*` options to librdkafka's."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.options.client_names import Translation
from headrace.options.given import Entry
from headrace.options.token_logins import (
    CONFIG,
    IAM,
    IAM_MECHANISM,
    JAAS_OPTIONS,
    WITHOUT_EFFECT,
    file_config,
)

# -- `sasl.jaas.config` to what librdkafka wants to know: user and password, an OAuth client, or a keytab ----
# The text is one entry of a JAAS file: `Class required name="value" ..;`, values quoted or not, backslashes
# escaping. What goes wrong is told without any of the text.

_TOKEN: Final = re.compile(
    r"""\s+|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[=;])|(?P<word>[^\s=;"']+)""", re.DOTALL
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_IAM_MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_USER: Final = {"username": "sasl.username", "password": "sasl.password"}
_CLIENT: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION: Final = "extension_"
_IAM_OPTIONS: Final = {name: f"{IAM}.{name}" for name in JAAS_OPTIONS}
_KEYTAB: Final = {
    "keyTab": "sasl.kerberos.keytab",
    "principal": "sasl.kerberos.principal",
    "serviceName": "sasl.kerberos.service.name",
}
# How Java comes by a ticket; librdkafka has one made of the key tab.
_OF_TICKETS: Final = frozenset(
    {"useKeyTab", "storeKey", "useTicketCache", "renewTGT", "doNotPrompt", "refreshKrb5Config", "debug"}
)


class JaasError(ValueError):
    """A JAAS entry that cannot be translated; the text holds nothing of the entry's values."""


def parse_jaas(text: str) -> dict[str, str]:
    """Return librdkafka's properties for one JAAS entry. Raises JaasError."""
    module, options = _entry(_tokens(text))
    match module:
        case _ if module in {_PLAIN, _SCRAM}:
            return _renamed(options, _USER, needed=("username", "password"))
        case _ if module == _IAM_MODULE or (module == _OAUTH and _is_of_iam(options)):
            return {IAM: "true"} | _renamed(_without(options, WITHOUT_EFFECT), _IAM_OPTIONS, needed=())
        case _ if module == _OAUTH:
            return _oauth(options)
        case _ if module == _KERBEROS:
            return _renamed(_without(options, _OF_TICKETS), _KEYTAB, needed=("keyTab", "principal"))
        case _:
            raise JaasError(
                "its login module is a class of Java that has no counterpart here; PlainLoginModule, "
                "ScramLoginModule, OAuthBearerLoginModule, IAMLoginModule and Krb5LoginModule are understood"
            )


def _is_of_iam(options: dict[str, str]) -> bool:
    return bool(options.keys() & {*JAAS_OPTIONS, *WITHOUT_EFFECT})


def _without(options: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name not in names}


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return the tokens and whether each is a bare sign (`=` or `;`)."""
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JaasError("a quotation mark is not closed")
        at = found.end()
        if found["quoted"] is not None:
            tokens.append((_unescaped(found["quoted"][1:-1]), False))
        elif found["sign"] is not None or found["word"] is not None:
            tokens.append((found[0], found["sign"] is not None))
    return tokens


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def _entry(tokens: list[tuple[str, bool]]) -> tuple[str, dict[str, str]]:
    form = 'expected one entry of the form: Module required name="value" ..;'
    if len(tokens) < 3 or tokens[-1] != (";", True) or tokens[1][0].lower() not in _FLAGS:  # noqa: PLR2004  # a class, a flag, a semicolon
        raise JaasError(form)
    options: dict[str, str] = {}
    body = tokens[2:-1]
    if len(body) % 3:
        raise JaasError(form)
    for (name, name_sign), equals, (value, value_sign) in zip(body[::3], body[1::3], body[2::3], strict=True):
        if name_sign or equals != ("=", True) or value_sign or name in options:
            raise JaasError(form)
        options[name] = value
    return tokens[0][0], options


def _renamed(options: dict[str, str], names: dict[str, str], *, needed: tuple[str, ...]) -> dict[str, str]:
    for name in needed:
        if not options.get(name):
            raise JaasError(f"its login module needs the option {name}")
    for name in options:
        if name not in names:
            known = ", ".join(names)
            raise JaasError(f"one of its options has no counterpart here; understood are {known}")
    return {names[name]: value for name, value in options.items()}


def _oauth(options: dict[str, str]) -> dict[str, str]:
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    rest = {name: value for name, value in options.items() if not name.startswith(_EXTENSION)}
    if not options:
        # Kafka 4.1's clients have id and secret as options of their own; IAM and a file need neither.
        return {}
    found = {
        "sasl.oauthbearer.method": "oidc",
        **_renamed(rest, _CLIENT, needed=("clientId", "clientSecret")),
    }
    if extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(
            f"{name}={value}" for name, value in extensions.items()
        )
    return found


# -- Java's `sasl.*` options to librdkafka's -----------------------------------------------------------------

_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KERBEROS: Final = "GSSAPI"
_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER", IAM_MECHANISM, KERBEROS)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Java's own classes for OAuth with client credentials are what librdkafka calls the method oidc.
_OIDC_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
# Those of AWS's library: of the mechanism AWS_MSK_IAM, and of OAUTHBEARER.
_IAM_HANDLER: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_IAM_LOGIN_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_TOKEN_SOURCES: Final = frozenset(
    {
        _ENDPOINT,
        "sasl.oauthbearer.metadata.authentication.type",
        "enable.sasl.oauthbearer.unsecure.jwt",
    }
)
CONSUMED: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.jaas.config",
        _ENDPOINT,
        _LOGIN_HANDLER,
        _CLIENT_HANDLER,
    }
)


def put_login(given: Mapping[str, Entry], into: Translation) -> None:
    """Translate protocol, mechanism and JAAS entry."""
    protocol = _put_one_of("security.protocol", given.get("security.protocol"), _PROTOCOLS, into)
    mechanism = None
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        mechanism = _put_mechanism(given.get(name), into) or mechanism
    jaas = given.get("sasl.jaas.config")
    # A mask is let through where no client is made, or uses it.
    if jaas is not None and not jaas.is_mask:
        try:
            for name, value in parse_jaas(jaas.text).items():
                into.put(name, value, jaas)
        except JaasError as error:
            into.refuse(jaas, str(error))
    _put_handlers(given, into)
    _put_endpoint(given, into)
    if into.get(IAM) is not None:
        _refuse_without_iam(given, protocol, mechanism, into)
    elif protocol is not None and protocol.startswith("SASL"):
        _refuse_incomplete(given["security.protocol"], mechanism, given, into)


def _put_mechanism(entry: Entry | None, into: Translation) -> str | None:
    if entry is None or entry.text.strip().upper() != IAM_MECHANISM:
        return _put_one_of("sasl.mechanisms", entry, _MECHANISMS, into)
    # MSK takes IAM's signature as a token as well, which is the only way of librdkafka.
    into.put("sasl.mechanisms", "OAUTHBEARER", entry)
    into.put(IAM, "true", entry)
    return IAM_MECHANISM


def _put_one_of(name: str, entry: Entry | None, values: tuple[str, ...], into: Translation) -> str | None:
    if entry is None:
        return None
    value = entry.text.strip().upper()
    if value in values:
        into.put(name, value, entry)
        return value
    into.refuse(entry, f"expected {', '.join(values[:-1])} or {values[-1]}")
    return None


def _put_handlers(given: Mapping[str, Entry], into: Translation) -> None:
    """Translate the classes that Java calls for a token, those that have a counterpart."""
    login, client = given.get(_LOGIN_HANDLER), given.get(_CLIENT_HANDLER)
    if login is not None:
        name = login.text.strip()
        if name in _OIDC_HANDLERS:
            if not _is_file(given.get(_ENDPOINT)):
                into.put("sasl.oauthbearer.method", "oidc", login)
        elif name == _IAM_LOGIN_HANDLER:
            into.put(IAM, "true", login)
        else:
            into.refuse(
                login,
                "classes of Java cannot be called from here; understood are "
                f"{_OIDC_HANDLERS[0]} and {_IAM_LOGIN_HANDLER}",
            )
    if client is not None:
        if client.text.strip() in {_IAM_HANDLER, _IAM_LOGIN_HANDLER}:
            into.put(IAM, "true", client)
        else:
            into.refuse(
                client,
                "classes of Java cannot be called from here; remove it and log in with PLAIN, SCRAM, "
                "OAUTHBEARER (client credentials), AWS_MSK_IAM or a TLS certificate",
            )


def _is_file(endpoint: Entry | None) -> bool:
    return endpoint is not None and urlsplit(endpoint.text.strip()).scheme == "file"


def _put_endpoint(given: Mapping[str, Entry], into: Translation) -> None:
    endpoint = given.get(_ENDPOINT)
    if endpoint is None:
        return
    if _is_file(endpoint):
        # As Java has it: a token that something else renews, such as Kubernetes' of a service account.
        into.put(CONFIG, file_config(unquote(urlsplit(endpoint.text.strip()).path)), endpoint)
        return
    into.put(_ENDPOINT, endpoint.text, endpoint)
    if "sasl.oauthbearer.method" not in given:
        # Java needs no word for it: a token endpoint is what its own login handler asks.
        into.put("sasl.oauthbearer.method", "oidc", endpoint)


def _refuse_without_iam(
    given: Mapping[str, Entry], protocol: str | None, mechanism: str | None, into: Translation
) -> None:
    """Note what contradicts a log-in by AWS IAM."""
    names = ("sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", _LOGIN_HANDLER, _CLIENT_HANDLER)
    asked = next(given[name] for name in names if name in given)
    if mechanism not in {IAM_MECHANISM, "OAUTHBEARER"}:
        into.refuse(asked, f"AWS IAM needs sasl.mechanism = {IAM_MECHANISM}")
    if protocol != "SASL_SSL":
        into.refuse(
            given.get("security.protocol", asked),
            "AWS IAM needs security.protocol = SASL_SSL: who reads a token logs in with it",
        )
    if _ENDPOINT in given:
        into.refuse(given[_ENDPOINT], "AWS IAM asks no token endpoint; keep one of them")


_LOG_IN: Final = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "sasl.jaas.config")


def _refuse_incomplete(
    protocol: Entry, mechanism: str | None, given: Mapping[str, Entry], into: Translation
) -> None:
    """Note what a log-in lacks that librdkafka would only miss, less clearly, when it starts."""
    if any(problem.option.endswith(_LOG_IN) for problem in into.problems):
        # It may be given, by a reference to what is not there.
        return
    if mechanism is None:
        if not given.keys() & {"sasl.mechanism", "sasl.mechanisms"}:
            into.refuse(protocol, f"needs sasl.mechanism, one of {', '.join(_MECHANISMS)}")
    elif mechanism == "OAUTHBEARER":
        if not _TOKEN_SOURCES & given.keys():
            into.refuse(protocol, "needs sasl.oauthbearer.token.endpoint.url, and client id and secret")
    elif (
        mechanism in _PASSWORD_MECHANISMS
        and "sasl.jaas.config" not in given
        and not {"sasl.username", "sasl.password"} <= given.keys()
    ):
        into.refuse(protocol, "needs sasl.jaas.config, or sasl.username and sasl.password")
