"""Java's `sasl.*` options to librdkafka's."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.options.given import Entry
from headrace.options.jaas import JaasError, parse_jaas
from headrace.options.token_logins import CONFIG, IAM, IAM_MECHANISM, file_config
from headrace.options.translation import Translation

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
    if jaas is not None:
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
