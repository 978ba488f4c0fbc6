"""Java's client options reach librdkafka in its own words, and librdkafka takes them."""

import ssl
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.kafka.kafka_clients import _made, _merged, new_admin
from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options.choices import CredentialsProvider
from headrace.options.client_names import DECIDED_HERE, KNOWN
from headrace.options.settings import Role
from headrace.options.token_logins import IamLogin, token_login
from tests.headrace.options.loading import load_with, problems_with

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hun\\"ter";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='me' password=hunter2;"
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="id" clientSecret="shh" scope="s" extension_logicalCluster="c";'
)


def properties_of(role: Role, changes: dict[str, str | None]) -> dict[str, str]:
    """Return a client's properties without those that are always there."""
    always = load_with().kafka.client(role)
    found = load_with(changes).kafka.client(role)
    return {name: value for name, value in found.items() if always.get(name) != value}


@pytest.mark.parametrize(
    ("role", "changes", "expected"),
    [
        pytest.param(
            "admin",
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "me",
                "sasl.password": 'hun"ter',
            },
            id="plain",
        ),
        pytest.param(
            "consumer",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": SCRAM,
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "me",
                "sasl.password": "hunter2",
            },
            id="scram",
        ),
        pytest.param(
            "producer",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "me",
                "sasl.password": "hunter2",
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "me",
                "sasl.password": "hunter2",
            },
            id="librdkafka's own words",
        ),
        pytest.param(
            "admin",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": OAUTH,
                "sasl.login.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "shh",
                "sasl.oauthbearer.scope": "s",
                "sasl.oauthbearer.extensions": "logicalCluster=c",
                "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
            },
            id="oauth",
        ),
        pytest.param(
            "admin",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "GSSAPI",
                "sasl.jaas.config": (
                    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                    'keyTab="/etc/me.keytab" principal="me@EXAMPLE";'
                ),
                "sasl.kerberos.service.name": "kafka",
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "GSSAPI",
                "sasl.kerberos.keytab": "/etc/me.keytab",
                "sasl.kerberos.principal": "me@EXAMPLE",
                "sasl.kerberos.service.name": "kafka",
            },
            id="kerberos",
        ),
        pytest.param(
            "admin",
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/tls/ca"},
            {"ssl.ca.location": "/tls/ca"},
            id="pem trust store",
        ),
        pytest.param(
            "admin",
            {"ssl.truststore.location": "/tls/ca.pem", "ssl.keystore.location": "/tls/me.pem"},
            {
                "ssl.ca.location": "/tls/ca.pem",
                "ssl.key.location": "/tls/me.pem",
                "ssl.certificate.location": "/tls/me.pem",
            },
            id="pem by name",
        ),
        pytest.param(
            "admin",
            {
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.key": "KEY",
                "ssl.keystore.certificate.chain": "CHAIN",
                "ssl.key.password": "shh",
            },
            {
                "ssl.ca.pem": "CA",
                "ssl.key.pem": "KEY",
                "ssl.certificate.pem": "CHAIN",
                "ssl.key.password": "shh",
            },
            id="pem in place",
        ),
        pytest.param(
            "admin",
            {"ssl.keystore.location": "/tls/me.p12", "ssl.keystore.password": "shh"},
            {"ssl.keystore.location": "/tls/me.p12", "ssl.keystore.password": "shh"},
            id="pkcs12 key store",
        ),
        pytest.param(
            "admin",
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
            id="no check of the name",
        ),
        pytest.param(
            "admin",
            {
                "security.protocol": "SSL",
                "ssl.cipher.suites": (
                    "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "
                    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
                ),
                "ssl.truststore.type": "JKS",
                "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
            },
            {
                "security.protocol": "SSL",
                "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305",
                "sasl.kerberos.kinit.cmd": (
                    '/usr/bin/kinit -R -t "%{sasl.kerberos.keytab}" -k %{sasl.kerberos.principal} || '
                    '/usr/bin/kinit -t "%{sasl.kerberos.keytab}" -k %{sasl.kerberos.principal}'
                ),
            },
            id="suites and kinit",
        ),
        pytest.param(
            "producer",
            {
                "producer.override.max.request.size": "2000000",
                "producer.override.buffer.memory": "33554432",
                "producer.override.compression.type": "lz4",
                "producer.override.compression.zstd.level": "3",
                "producer.override.send.buffer.bytes": "-1",
                "producer.override.request.timeout.ms": "20000",
                "consumer.override.client.id": "not here",
            },
            {
                "message.max.bytes": "2000000",
                "queue.buffering.max.kbytes": "32768",
                "compression.type": "lz4",
                "compression.level": "3",
                "socket.send.buffer.bytes": "0",
                "request.timeout.ms": "20000",
            },
            id="producer",
        ),
        pytest.param(
            "consumer",
            {
                "consumer.override.fetch.max.wait.ms": "100",
                "consumer.override.request.timeout.ms": "20000",
                "consumer.override.session.timeout.ms": "20000",
                "consumer.override.receive.buffer.bytes": "65536",
            },
            {
                "fetch.wait.max.ms": "100",
                "socket.timeout.ms": "20000",
                "session.timeout.ms": "20000",
                "socket.receive.buffer.bytes": "65536",
            },
            id="consumer",
        ),
        pytest.param(
            "admin",
            {"ssl.ca.location": "/all.pem", "admin.override.ssl.ca.location": "/admin.pem"},
            {"ssl.ca.location": "/admin.pem"},
            id="override wins",
        ),
        pytest.param(
            "producer",
            {"producer.override.acks": "all", "producer.override.enable.idempotence": "true"},
            {},
            id="what is decided here anyway",
        ),
    ],
)
def test_client_options_are_translated(
    role: Role, changes: dict[str, str | None], expected: dict[str, str]
) -> None:
    """Client options are translated."""
    assert properties_of(role, changes) == expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"ssl.truststore.location": "/tls/trust.jks"},
            "ssl.truststore.location = '/tls/trust.jks': its type is JKS unless it is set; a JKS store can "
            "only be read by Java; convert it with keytool -importkeystore -deststoretype PKCS12 and set "
            "the type to PKCS12, or give PEM",
            id="jks by name",
        ),
        pytest.param(
            {"ssl.keystore.location": "/tls/me.p12", "ssl.keystore.type": "JKS"},
            "ssl.keystore.type = 'JKS': a JKS store can only be read by Java; convert it with keytool "
            "-importkeystore -deststoretype PKCS12 and set the type to PKCS12, or give PEM",
            id="jks by type",
        ),
        pytest.param(
            {"ssl.keystore.location": "/tls/me", "ssl.keystore.type": "BCFKS"},
            "ssl.keystore.type = 'BCFKS': expected PEM or PKCS12",
            id="store type",
        ),
        pytest.param(
            {"ssl.truststore.password": "shh"},
            "ssl.truststore.password = '***': means nothing without ssl.truststore.location",
            id="password alone",
        ),
        pytest.param(
            {"ssl.truststore.location": "/ca.pem", "ssl.truststore.password": "shh"},
            "ssl.truststore.password = '***': a PEM trust store has no password; remove it",
            id="pem with password",
        ),
        pytest.param(
            {"ssl.truststore.location": "/nowhere/trust.p12"},
            "ssl.truststore.location = '/nowhere/trust.p12': cannot be read: No such file or directory",
            id="no pkcs12",
        ),
        pytest.param(
            {"sasl.client.callback.handler.class": "org.example.Login"},
            "sasl.client.callback.handler.class = 'org.example.Login': classes of Java cannot be called "
            "from here; remove it and log in with PLAIN, SCRAM, OAUTHBEARER (client credentials), "
            "AWS_MSK_IAM or a TLS certificate",
            id="callback",
        ),
        pytest.param(
            {"sasl.login.callback.handler.class": "org.example.Login"},
            "sasl.login.callback.handler.class = 'org.example.Login': "
            "classes of Java cannot be called from here; understood are "
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler and "
            "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
            id="login callback",
        ),
        pytest.param(
            {"sasl.mechanism": "DIGEST-MD5"},
            "sasl.mechanism = 'DIGEST-MD5': expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, "
            "AWS_MSK_IAM or GSSAPI",
            id="mechanism",
        ),
        pytest.param(
            {"security.protocol": "TLS"},
            "security.protocol = 'TLS': expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            id="protocol",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL"},
            "security.protocol = 'SASL_SSL': needs sasl.mechanism, one of PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI",
            id="no mechanism",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "security.protocol = 'SASL_SSL': needs sasl.jaas.config, or sasl.username and sasl.password",
            id="no user",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "security.protocol = 'SASL_SSL': needs sasl.oauthbearer.token.endpoint.url, and client id and "
            "secret",
            id="no token endpoint",
        ),
        pytest.param(
            {"sasl.jaas.config": PLAIN, "sasl.username": "other", "sasl.password": "x"},
            "sasl.username = 'other': says otherwise than sasl.jaas.config; keep one of them",
            id="two users",
        ),
        pytest.param(
            {"sasl.jaas.config": "com.sun.security.auth.module.LdapLoginModule required;"},
            "sasl.jaas.config = '***': its login module is a class of Java that has no counterpart here; "
            "PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, IAMLoginModule and Krb5LoginModule "
            "are understood",
            id="jaas module",
        ),
        pytest.param(
            {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"},
            "sasl.jaas.config = '***': its login module needs the option keyTab",
            id="no key tab",
        ),
        pytest.param(
            {"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_PLAINTEXT"},
            "security.protocol = 'SASL_PLAINTEXT': AWS IAM needs security.protocol = SASL_SSL: who reads a "
            "token logs in with it",
            id="iam in plain sight",
        ),
        pytest.param(
            {"sasl.mechanism": "AWS_MSK_IAM"},
            "sasl.mechanism = 'AWS_MSK_IAM': AWS IAM needs security.protocol = SASL_SSL: who reads a token "
            "logs in with it",
            id="iam without protocol",
        ),
        pytest.param(
            {"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"},
            "sasl.jaas.config = '***': AWS IAM needs sasl.mechanism = AWS_MSK_IAM",
            id="iam without mechanism",
        ),
        pytest.param(
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "security.protocol": "SASL_SSL",
                "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required awsRole=x;",
            },
            "sasl.jaas.config = '***': one of its options has no counterpart here; understood are "
            "awsProfileName, awsRoleArn, awsRoleSessionName, awsRoleExternalId, awsStsRegion, "
            "awsRoleAccessKeyId, awsRoleSecretAccessKey, awsRoleSessionToken",
            id="iam option",
        ),
        pytest.param(
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "security.protocol": "SASL_SSL",
                "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
            },
            "sasl.oauthbearer.token.endpoint.url = 'https://id.example/token': AWS IAM asks no token "
            "endpoint; keep one of them",
            id="iam and oidc",
        ),
        pytest.param(
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "security.protocol": "SASL_SSL",
                "aws.credentials.provider": (
                    "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
                ),
            },
            "aws.credentials.provider = "
            "'software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider': has nothing to sign "
            "Kafka's log-in by AWS IAM with; name another",
            id="iam with nobody's keys",
        ),
        pytest.param(
            {
                "security.protocol": "SSL",
                "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_KRB5_WITH_DES_CBC_SHA",
            },
            "ssl.cipher.suites = 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_KRB5_WITH_DES_CBC_SHA': expected "
            "OpenSSL's names of cipher suites, such as ECDHE-RSA-AES256-GCM-SHA384",
            id="cipher suites",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "ssl.cipher.suites = 'TLS_AES_256_GCM_SHA384': names suites of TLS 1.3 alone, which are taken in "
            "any case, and TLS 1.2 is as well; remove it",
            id="cipher suites of TLS 1.3",
        ),
        pytest.param(
            {
                "security.protocol": "SSL",
                "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_EMPTY_RENEGOTIATION_INFO_SCSV,!aNULL",
            },
            "ssl.cipher.suites = 'TLS_AES_256_GCM_SHA384,TLS_EMPTY_RENEGOTIATION_INFO_SCSV,!aNULL': names "
            "suites of TLS 1.3 alone, which are taken in any case, and TLS 1.2 is as well; remove it",
            id="what is no suite",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.cipher.suites": "!aNULL"},
            "ssl.cipher.suites = '!aNULL': names no suite that is to be taken",
            id="what is left out",
        ),
        pytest.param(
            {"ssl.enabled.protocols": "TLSv1.3"},
            "ssl.enabled.protocols = 'TLSv1.3': TLS 1.2 and 1.3 are spoken here, the newer one that both "
            "ends have, and neither can be left out; remove it, and to be sure of TLS 1.3 let the brokers "
            "speak nothing else",
            id="no counterpart",
        ),
        pytest.param(
            {"ssl.client.auth": "required"},
            "ssl.client.auth = 'required': is for servers, which check their clients by it; remove it",
            id="of servers",
        ),
        pytest.param(
            {"producer.override.sasl.oauthbearer.expected.audience": "kafka"},
            "producer.override.sasl.oauthbearer.expected.audience = 'kafka': is for servers, which check "
            "their clients by it; remove it",
            id="of servers that check tokens",
        ),
        pytest.param(
            {"producer.override.client.auth": "x"},
            "producer.override.client.auth: is not a property of librdkafka; remove it",
            id="like none",
        ),
        pytest.param(
            {"producer.override.key.serializer": "x"},
            "producer.override.key.serializer = 'x': keys and values are bytes here; remove it",
            id="serializer",
        ),
        pytest.param(
            {"producer.override.lingr.ms": "1"},
            "producer.override.lingr.ms: is not a property of librdkafka; did you mean linger.ms?",
            id="unknown property",
        ),
        pytest.param(
            {"producer.override.fetch.min.bytes": "1"},
            "producer.override.fetch.min.bytes = '1': is a property of consumers, not of producers",
            id="other client",
        ),
        pytest.param(
            {"producer.override.bootstrap.servers": "other:9092"},
            "producer.override.bootstrap.servers = 'other:9092': cannot differ by client; transactions span "
            "one cluster; set bootstrap.servers instead",
            id="other cluster",
        ),
        pytest.param(
            {"producer.override.partitioner.class": "x"},
            "producer.override.partitioner.class = 'x': cannot differ by client; set producer.partitioner "
            "instead",
            id="partitioner",
        ),
        pytest.param(
            {"producer.override.linger.ms": "soon"},
            "producer.override.linger.ms = 'soon': expected a whole number of milliseconds from 0 to 900,000",
            id="number",
        ),
        pytest.param(
            {"producer.override.compression.type": "brotli"},
            "producer.override.compression.type = 'brotli': expected none, gzip, snappy, lz4 or zstd",
            id="compression",
        ),
        pytest.param(
            {"producer.override.transaction.timeout.ms": "900000"},
            "producer.override.transaction.timeout.ms = '900000': expected a whole number of milliseconds "
            "from 6,000 to 60,000",
            id="transaction timeout",
        ),
        pytest.param(
            {"producer.override.delivery.timeout.ms": "120000"},
            "producer.override.delivery.timeout.ms = '120000': must not exceed "
            "producer.override.transaction.timeout.ms (15000)",
            id="delivery timeout",
        ),
        pytest.param(
            {
                "producer.override.transaction.timeout.ms": "60000",
                "producer.override.delivery.timeout.ms": "30000",
            },
            "producer.override.delivery.timeout.ms = '30000': must not exceed "
            "producer.override.transaction.timeout.ms (15000 at most)",
            id="delivery timeout beyond what brokers are told",
        ),
        pytest.param(
            {
                "producer.override.transaction.timeout.ms": "60000",
                "transaction.boundary.interval.ms": "50000",
            },
            "transaction.boundary.interval.ms = '50000': must be 5,000 ms at least below "
            "producer.override.transaction.timeout.ms (15000 at most), or the broker aborts transactions "
            "that are about to commit",
            id="interval beyond what brokers are told",
        ),
        pytest.param(
            {"producer.override.message.timeout.ms": "0"},
            "producer.override.message.timeout.ms = '0': must not exceed "
            "producer.override.transaction.timeout.ms (15000), and is no limit at all",
            id="no message timeout",
        ),
        pytest.param(
            {
                "exactly.once.support": "disabled",
                "producer.override.message.timeout.ms": "5000",
                "producer.override.linger.ms": "5000",
            },
            "producer.override.message.timeout.ms = '5000': must be above producer.override.linger.ms (5000)",
            id="delivery that ends before records are sent",
        ),
        pytest.param(
            {"exactly.once.support": "disabled", "producer.override.delivery.timeout.ms": "-1"},
            "producer.override.delivery.timeout.ms = '-1': expected a whole number from 0",
            id="negative delivery timeout",
        ),
        pytest.param(
            {"consumer.override.session.timeout.ms": "1000"},
            "consumer.override.session.timeout.ms = '1000': expected a whole number of milliseconds from "
            "6,000 to 60,000",
            id="session timeout",
        ),
        pytest.param(
            {"consumer.override.session.timeout.ms": "20000", "lead.session.timeout.ms": "30000"},
            "consumer.override.session.timeout.ms = '20000': says otherwise than lead.session.timeout.ms; "
            "keep one of them",
            id="two session timeouts",
        ),
        pytest.param(
            {"consumer.override.heartbeat.interval.ms": "9000"},
            "consumer.override.heartbeat.interval.ms = '9000': must be a third of the session timeout "
            "(10000) at most",
            id="heartbeat",
        ),
        pytest.param(
            {"producer.override.max.request.size": "1000000"},
            "producer.override.max.request.size = '1000000': must be 1,114,112 at least: record.max.bytes "
            "and 65,536 around a record",
            id="request size",
        ),
        pytest.param(
            {"producer.override.buffer.memory": "524288"},
            "producer.override.buffer.memory = '524288': must be 1,114,112 at least: record.max.bytes "
            "and 65,536 around a record",
            id="buffer memory",
        ),
        pytest.param(
            {"producer.override.queue.buffering.max.kbytes": "1088", "record.max.bytes": "1048577"},
            "producer.override.queue.buffering.max.kbytes = '1088': must be 1,089 at least: "
            "record.max.bytes and 65,536 around a record",
            id="queue",
        ),
        pytest.param(
            {"producer.override.max.in.flight.requests.per.connection": "6"},
            "producer.override.max.in.flight.requests.per.connection = '6': expected a whole number from 1 "
            "to 5",
            id="in flight",
        ),
    ],
)
def test_what_cannot_be_translated_is_told(changes: dict[str, str | None], problem: str) -> None:
    """What cannot be translated is told."""
    assert problem in map(str, problems_with(changes))


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("TLS_DHE_RSA_WITH_AES_256_CCM", "DHE-RSA-AES256-CCM"),
    ],
)
def test_java_s_cipher_suites_are_openssl_s(java: str, openssl: str) -> None:
    """By OpenSSL's own list, as Python has it."""
    found = properties_of("admin", {"security.protocol": "SSL", "ssl.cipher.suites": java})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{openssl}:@SECLEVEL=0")

    assert found["ssl.cipher.suites"] == openssl
    assert openssl in {one["name"] for one in context.get_ciphers()}


FORBIDDEN = (
    "transactional.id",
    "enable.idempotence",
    "acks",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "isolation.level",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "partition.assignment.strategy",
    "allow.auto.create.topics",
)


@pytest.mark.parametrize("role", ["producer", "consumer", "admin"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_overrides_that_would_weaken_the_guarantee_are_errors(role: str, name: str) -> None:
    """Overrides that would weaken the guarantee are errors."""
    option = f"{role}.override.{name}"

    (problem,) = problems_with({option: "other"})

    assert str(problem) == (
        f"{option} = 'other': would weaken the guarantee; Headrace decides it itself: remove it"
    )
    assert name in DECIDED_HERE


def test_a_problem_of_all_clients_is_told_once() -> None:
    """A problem of all clients is told once."""
    assert len(problems_with({"security.protocol": "TLS"})) == 1


CLIENTS: dict[Role, Callable[[dict[str, Any]], Any]] = {
    "producer": Producer,
    "consumer": Consumer,
    "admin": AdminClient,
}
VALUES = {
    "receive.message.max.bytes": "200000000",
    "max.in.flight.requests.per.connection": "5",
    "max.in.flight": "5",
    "metadata.recovery.strategy": "none",
    "topic.blacklist": "^x",
    "debug": "conf",
    "broker.address.family": "v4",
    "log_level": "0",
    "broker.version.fallback": "1.0.0",
    "security.protocol": "plaintext",
    "ssl.endpoint.identification.algorithm": "https",
    "sasl.mechanisms": "PLAIN",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.metadata.authentication.type": "none",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "lz4",
    "compression.codec": "lz4",
    "compression.level": "1",
    "transaction.timeout.ms": "15000",
    "max.poll.interval.ms": "300000",
    "fetch.max.bytes": "200000000",
}


@pytest.mark.parametrize("role", CLIENTS)
def test_every_name_known_here_is_known_to_librdkafka(role: Role) -> None:
    """A name that librdkafka does not have would end in its own, later and plainer, refusal."""
    unknown = []
    for name in sorted(KNOWN[role]):
        value = VALUES.get(
            name, "true" if name.startswith(("enable.", "topic.metadata.refresh.sp")) else "1000"
        )
        try:
            CLIENTS[role](
                {"group.id": "g", "log_level": "0", name: value} if role == "consumer" else {name: value}
            )
        except Exception as error:  # noqa: BLE001 - librdkafka's text is what is looked at
            if "No such configuration property" in str(error):
                unknown.append(name)

    assert unknown == []


@pytest.mark.parametrize("role", CLIENTS)
def test_librdkafka_takes_what_comes_out(role: Role) -> None:
    """Librdkafka takes what comes out."""
    properties = load_with(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM,
            "ssl.endpoint.identification.algorithm": "",
            f"{role}.override.receive.buffer.bytes": "-1",
            f"{role}.override.log_level": "0",
            "producer.override.max.request.size": "2000000",
            "producer.override.buffer.memory": "33554432",
        }
    ).kafka.client(role)
    protocol = {
        "producer": {"transactional.id": "t", "acks": "all"},
        "consumer": {"group.id": "g"},
        "admin": dict[str, str](),
    }

    assert CLIENTS[role]({**properties, **protocol[role]}) is not None


_IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
_OF_CONNECTOR: dict[str, str | None] = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "shh",
    "aws.s3.region": "eu-north-1",
}


def _login(changes: dict[str, str | None]) -> IamLogin:
    found = token_login(load_with(_OF_CONNECTOR | changes).kafka.client("producer"))
    assert isinstance(found, IamLogin)
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {"keys": ("AKIA", "shh", None), "region": "eu-north-1"}, id="the connector's"),
        pytest.param(
            {"bootstrap.servers": "b-1.me.x1.c2.kafka.us-east-1.amazonaws.com:9098"},
            {"region": "us-east-1", "sts_region": "eu-north-1"},
            id="the brokers' region",
        ),
        pytest.param(
            {"bootstrap.servers": "boot-x.c2.kafka-serverless.cn-north-1.amazonaws.com.cn:9098"},
            {"region": "cn-north-1"},
            id="serverless, in China",
        ),
        pytest.param(
            {"aws.sts.role.arn": "arn:aws:iam::123456789012:role/own", "aws.sts.role.session.name": "me"},
            {"role": "arn:aws:iam::123456789012:role/own", "role_session": "me"},
            id="the connector's role",
        ),
        pytest.param(
            {
                "aws.sts.role.arn": "arn:aws:iam::123456789012:role/own",
                "sasl.jaas.config": (
                    f"{_IAM_MODULE} awsRoleArn=other awsRoleSessionName=s awsRoleExternalId=e "
                    "awsStsRegion=eu-west-1 awsDebugCreds=true awsMaxRetries=3;"
                ),
            },
            {
                "keys": ("AKIA", "shh", None),
                "role": "other",
                "role_session": "s",
                "role_external_id": "e",
                "sts_region": "eu-west-1",
            },
            id="another role",
        ),
        pytest.param(
            {
                "aws.sts.role.arn": "arn:aws:iam::123456789012:role/own",
                "sasl.jaas.config": f"{_IAM_MODULE} awsProfileName=p;",
            },
            {"keys": None, "role": None, "provider": CredentialsProvider.PROFILE, "profile": "p"},
            id="a profile",
        ),
        pytest.param(
            {
                "sasl.jaas.config": (
                    f"{_IAM_MODULE} awsRoleArn=r awsRoleAccessKeyId=k awsRoleSecretAccessKey=s "
                    "awsRoleSessionToken=t;"
                )
            },
            {"keys": ("k", "s", "t"), "role": "r"},
            id="keys for the role",
        ),
    ],
)
def test_iam_signs_with_the_connectors_credentials_unless_jaas_names_others(
    changes: dict[str, str | None], expected: dict[str, object]
) -> None:
    """And for the region of the brokers, if they are MSK's."""
    login = _login(changes)

    assert {name: getattr(login, name) for name in expected} == expected


def test_no_secret_of_iam_is_shown_or_reaches_librdkafka() -> None:
    """Its debug lines show all of a configuration."""
    settings = load_with(_OF_CONNECTOR)

    assert "shh" not in repr(settings)
    assert "shh" not in str(_merged(settings.kafka.client("admin"), {}, None))


def test_kerberos_says_what_to_install() -> None:
    """The wheel's librdkafka has none; another that is in its place takes the same properties."""
    settings = load_with({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})

    with pytest.raises(InvalidConfiguration, match="Kerberos needs a librdkafka with libsasl2"):
        new_admin(settings.kafka.client("admin"))


def test_a_client_that_is_refused_a_thread_is_configured_well() -> None:
    """It can be made once there is room: nothing of its configuration is to be corrected."""

    def refused(_: object) -> AdminClient:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "Failed to create thread"))

    with pytest.raises(Unavailable, match="raise TasksMax= or the limit of pids"):
        _made(refused, {})


@pytest.mark.parametrize("option", ["sasl.password", "sasl.jaas.config", "producer.override.sasl.password"])
def test_a_log_in_whose_reference_is_missing_is_one_problem(option: str) -> None:
    """It lacks nothing else."""
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    if option.startswith("producer."):
        given["sasl.password"] = "x"
    (problem,) = problems_with(given | {option: "${env:NOPE}"})
    assert str(problem) == f"{option}: the environment variable NOPE is not set"


_PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
_ALL = "not used by producers, consumers, admin clients, whose security.protocol is"
_UNSET = "PLAINTEXT, as it is not set"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (_PLAIN, f"sasl.mechanism, sasl.password, sasl.username: {_ALL} {_UNSET}"),
        (_PLAIN | {"security.protocol": "ssl"}, f"sasl.mechanism, sasl.password, sasl.username: {_ALL} SSL"),
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            f"ssl.endpoint.identification.algorithm: {_ALL} {_UNSET}",
        ),
        (
            {"producer.override.sasl.username": "u"},
            f"producer.override.sasl.username: not used by producers, whose security.protocol is {_UNSET}",
        ),
        (_PLAIN | {"security.protocol": "SASL_SSL"}, None),
        (
            # Another listener is for consumers: to remove the log-in would take it from the others.
            _PLAIN | {"security.protocol": "SASL_SSL", "consumer.override.security.protocol": "PLAINTEXT"},
            None,
        ),
    ],
)
def test_a_log_in_that_the_protocol_does_not_use_is_reported(given: dict[str, str], said: str | None) -> None:
    """A password that is given is expected to be asked for."""
    expected = () if said is None else (f"{said}; set it to what their listener takes, or remove these",)
    assert load_with(given).warnings == expected
