"""Java's `sasl.*` options to librdkafka's."""

from collections.abc import Mapping
from typing import Final

from ingest.settings.given import Entry
from ingest.settings.jaas import JaasError, parse_jaas
from ingest.settings.translation import Translation

_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Java's own classes for OAuth with client credentials are what librdkafka calls the method oidc.
_OIDC_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_TOKEN_SOURCES: Final = frozenset(
    {
        "sasl.oauthbearer.token.endpoint.url",
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
        "sasl.login.callback.handler.class",
    }
)


def put_login(given: Mapping[str, Entry], into: Translation) -> None:
    """Translate protocol, mechanism and JAAS entry."""
    protocol = _put_one_of("security.protocol", given.get("security.protocol"), _PROTOCOLS, into)
    mechanism = None
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        mechanism = _put_one_of("sasl.mechanisms", given.get(name), _MECHANISMS, into) or mechanism
    jaas = given.get("sasl.jaas.config")
    if jaas is not None:
        try:
            for name, value in parse_jaas(jaas.text).items():
                into.put(name, value, jaas)
        except JaasError as error:
            into.refuse(jaas, str(error))
    handler = given.get("sasl.login.callback.handler.class")
    if handler is not None:
        if handler.text.strip() in _OIDC_HANDLERS:
            into.put("sasl.oauthbearer.method", "oidc", handler)
        else:
            into.refuse(
                handler, f"classes of Java cannot be called from here; understood is {_OIDC_HANDLERS[0]}"
            )
    endpoint = given.get("sasl.oauthbearer.token.endpoint.url")
    if endpoint is not None and "sasl.oauthbearer.method" not in given:
        # Java needs no word for it: a token endpoint is what its own login handler asks.
        into.put("sasl.oauthbearer.method", "oidc", endpoint)
    if protocol is not None and protocol.startswith("SASL"):
        _refuse_incomplete(given["security.protocol"], mechanism, given, into)


def _put_one_of(name: str, entry: Entry | None, values: tuple[str, ...], into: Translation) -> str | None:
    if entry is None:
        return None
    value = entry.text.strip().upper()
    if value in values:
        into.put(name, value, entry)
        return value
    into.refuse(entry, f"expected {', '.join(values[:-1])} or {values[-1]}")
    return None


def _refuse_incomplete(
    protocol: Entry, mechanism: str | None, given: Mapping[str, Entry], into: Translation
) -> None:
    """Note what a log-in lacks that librdkafka would only miss, less clearly, when it starts."""
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
