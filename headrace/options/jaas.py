"""`sasl.jaas.config` to what librdkafka wants to know: user and password, an OAuth client, or a keytab.

The text is one entry of a JAAS file: `Class required name="value" ..;`, values quoted or not, backslashes
escaping. What goes wrong is told without any of the text.
"""

import re
from typing import Final

from headrace.options.token_logins import IAM, JAAS_OPTIONS, WITHOUT_EFFECT

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
