"""Java's key and trust stores to librdkafka's TLS properties: PEM and PKCS12; JKS has no reader outside Java.

librdkafka reads a PKCS12 key store itself, but wants the certificates it trusts as PEM, so a PKCS12 trust
store is turned into PEM here, from bytes that the caller reads.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from headrace.options.client_names import Translation
from headrace.options.given import Entry

ReadBytes = Callable[[str], bytes]
StoreType = Literal["PEM", "PKCS12"]

_PEM_NAME: Final = re.compile(r".*\.(pem|crt|cer)", re.IGNORECASE)
_PKCS12_NAME: Final = re.compile(r".*\.(p12|pfx|pkcs12)", re.IGNORECASE)
_JKS: Final = (
    "a JKS store can only be read by Java; convert it with keytool -importkeystore -deststoretype PKCS12 "
    "and set the type to PKCS12, or give PEM"
)

INLINE: Final = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "https.ca.pem")
"""librdkafka's names of what is PEM itself."""
PEM: Final = (
    *INLINE,
    "ssl.truststore.certificates",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
)
"""These, and Java's."""
_BLOCK: Final = re.compile(r"(-----BEGIN ([^-]+)-----)([A-Za-z0-9+/=\s]*)(-----END \2-----)\s*")
_LINE: Final = 64


def is_pem_name(location: str) -> bool:
    """Whether a file is PEM by its name."""
    return _PEM_NAME.fullmatch(location) is not None


def with_line_breaks(pem: str) -> str:
    """Return the text with the line breaks that OpenSSL needs, and that `.properties` files join away.

    Java takes PEM without them. What has them, or is no PEM, stays as it is.
    """
    return _BLOCK.sub(_broken, pem)


def _broken(block: re.Match[str]) -> str:
    begin, _, body, end = block.groups()
    if body.strip(" \t\r").startswith("\n") and body.strip(" \t\r").endswith("\n"):
        return block[0]
    text = "".join(body.split())
    lines = [text[first : first + _LINE] for first in range(0, len(text), _LINE)]
    return "\n".join([begin, *lines, end, ""])


def put_trust_store(given: Mapping[str, Entry], read_bytes: ReadBytes, into: Translation) -> None:
    """Translate `ssl.truststore.*`: inline PEM, a PEM file, or a PKCS12 file. Blocks for reading the last."""
    inline = given.get("ssl.truststore.certificates")
    location = given.get("ssl.truststore.location")
    password = given.get("ssl.truststore.password")
    if inline is not None:
        into.put("ssl.ca.pem", with_line_breaks(inline.text), inline)
    if location is None:
        if inline is None:
            _note_lonely(given, "ssl.truststore", into)
        return
    kind = _store_type(given.get("ssl.truststore.type"), location, into)
    if kind == "PEM":
        into.put("ssl.ca.location", location.text, location)
        if password is not None:
            into.refuse(password, "a PEM trust store has no password; remove it")
    elif kind == "PKCS12":
        pem = _certificates(location, password, read_bytes, into)
        if pem is not None:
            into.put("ssl.ca.pem", pem, location)


def put_key_store(given: Mapping[str, Entry], into: Translation) -> None:
    """Translate `ssl.keystore.*`: inline PEM, a PEM file with key and certificates, or a PKCS12 file."""
    key = given.get("ssl.keystore.key")
    chain = given.get("ssl.keystore.certificate.chain")
    location = given.get("ssl.keystore.location")
    password = given.get("ssl.keystore.password")
    for entry, name in ((key, "ssl.key.pem"), (chain, "ssl.certificate.pem")):
        if entry is not None:
            into.put(name, with_line_breaks(entry.text), entry)
    if location is None:
        if key is None and chain is None:
            _note_lonely(given, "ssl.keystore", into)
        return
    kind = _store_type(given.get("ssl.keystore.type"), location, into)
    if kind == "PEM":
        into.put("ssl.key.location", location.text, location)
        into.put("ssl.certificate.location", location.text, location)
        if password is not None:
            into.refuse(password, "a PEM key store has none; the password of its key is ssl.key.password")
    elif kind == "PKCS12":
        into.put("ssl.keystore.location", location.text, location)
        if password is not None:
            into.put("ssl.keystore.password", password.text, password)


def _store_type(kind: Entry | None, location: Entry, into: Translation) -> StoreType | None:
    """Return the type given, or the one that the file's name tells; None, and a problem, for another."""
    if kind is None:
        if is_pem_name(location.text):
            return "PEM"
        if _PKCS12_NAME.fullmatch(location.text):
            return "PKCS12"
        # Java takes a store without a type for JKS.
        into.refuse(location, f"its type is JKS unless it is set; {_JKS}")
        return None
    match kind.text.strip().upper():
        case "PEM":
            return "PEM"
        case "PKCS12":
            return "PKCS12"
        case "JKS":
            into.refuse(kind, _JKS)
        case _:
            into.refuse(kind, "expected PEM or PKCS12")
    return None


def _note_lonely(given: Mapping[str, Entry], store: str, into: Translation) -> None:
    """As in Java a type alone, which many files have, changes nothing, and a password alone is a problem."""
    message = f"means nothing without {store}.location"
    if (kind := given.get(f"{store}.type")) is not None:
        into.note(kind, message)
    if (password := given.get(f"{store}.password")) is not None:
        into.refuse(password, message)


def _certificates(
    location: Entry, password: Entry | None, read_bytes: ReadBytes, into: Translation
) -> str | None:
    """Return the certificates of a PKCS12 trust store as PEM; None, and a problem, when there are none."""
    # Loaded where it is needed: a tenth of a second that most configurations do not have to pay.
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        store = load_pkcs12(read_bytes(location.text), None if password is None else password.text.encode())
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        into.problems.add(location.spelled, message, location.shown, is_unread=True)
        return None
    except ValueError:
        into.refuse(location, "is no PKCS12 store, or ssl.truststore.password is not its password")
        return None
    found = [store.cert, *store.additional_certs]
    pem = [one.certificate.public_bytes(Encoding.PEM).decode() for one in found if one is not None]
    if not pem:
        into.refuse(location, "holds no certificate")
        return None
    return "".join(pem)


_SUITE: Final = re.compile(
    r"TLS_(RSA|(?:EC)?DHE_(?:RSA|ECDSA))_WITH_(AES_(?:128|256)_(?:CBC|GCM|CCM(?:_8)?)|CHACHA20_POLY1305)(_SHA\d*)?"
)
_OF_TLS_1_3: Final = re.compile(r"TLS_(?:AES|CHACHA20)_\w+")
# Of Java's lists, and no suite: OpenSSL sends it in any case.
_SIGNAL: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"

_OF_1_3_ALONE: Final = (
    "names suites of TLS 1.3 alone, which are taken in any case, and TLS 1.2 is as well; remove it"
)


def speaks_old_tls(suites: Entry | None) -> bool:
    """Whether a client with these cipher suites speaks older TLS than 1.2, too."""
    return suites is not None and "@SECLEVEL=0" in suites.text.upper()


def put_ciphers(entry: Entry, into: Translation) -> None:
    """Translate Java's names of cipher suites to OpenSSL's, which are taken as they are.

    Of TLS 1.3 librdkafka always takes all.
    """
    named = [one.strip() for one in re.split("[,:]", entry.text) if one.strip()]
    given = [one for one in named if one != _SIGNAL]
    suites = [one for one in given if _OF_TLS_1_3.fullmatch(one) is None]
    found = [_suite(one) if "_WITH_" in one else one for one in suites]
    # Signs before a name leave suites out, or order them.
    if named and all(one.startswith(("!", "-", "+", "@")) for one in suites):
        is_of_1_3 = len(suites) < len(given)
        into.refuse(entry, _OF_1_3_ALONE if is_of_1_3 else "names no suite that is to be taken")
    elif None in found:
        into.refuse(entry, "expected OpenSSL's names of cipher suites, such as ECDHE-RSA-AES256-GCM-SHA384")
    elif found == named:
        into.put("ssl.cipher.suites", entry.text, entry)
    else:
        if len(suites) < len(given):
            into.note(entry, "of TLS 1.3 all suites are taken, whichever are named")
        into.put("ssl.cipher.suites", ":".join(filter(None, found)), entry)


def _suite(name: str) -> str | None:
    """OpenSSL's name of one of Java's before TLS 1.3: `TLS_RSA_WITH_AES_128_CBC_SHA` is `AES128-SHA`."""
    found = _SUITE.fullmatch(name)
    if found is None:
        return None
    exchange, cipher, digest = found[1], found[2], found[3] or ""
    first = "" if exchange == "RSA" else f"{exchange.replace('_', '-')}-"
    bulk = re.sub(r"^AES_(\d+)", r"AES\1", cipher).removesuffix("_CBC").replace("_", "-")
    # OpenSSL leaves out what the cipher comes with.
    is_said = not cipher.startswith("CHACHA20") and "CCM" not in cipher
    return f"{first}{bulk.replace('CCM-8', 'CCM8')}{digest.replace('_', '-') if is_said else ''}"
