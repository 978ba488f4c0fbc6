import json
from typing import Final

import pytest

from headrace.options import SettingsError
from headrace.options.declarations import OPTIONS
from headrace.options.given import Entry
from headrace.options.merge import Gathered, unlikely
from headrace.vendors.load import load
from tests.headrace.options.loading import load_with, no_file, problems_with

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_VARIABLE = "is taken as it is: a variable of the environment is ${env:NAME}"
_COMMENT = "is taken as it is: a comment is a line of its own, and what follows the # belongs to the value"
_SLASH = "begins with a slash, and so do the keys that it means: those of S3 usually do not"
_ADDRESS = "is taken as it is: a prefix is what keys begin with, without s3:// and the bucket"
_GLOB = "is taken as it is: a prefix is no glob; object.include and object.exclude of a source take them"
_TWICE = (
    "names the bucket, and so do requests sent to it: leave the bucket out of it, or remove it where it is "
    "Amazon's S3"
)
_HOME = "is taken as it is: ~ is no home directory here; write the whole path"
LONG_CONVERTER = "org.apache.kafka.connect.converters.LongConverter"

_ARCHIVE: Final[dict[str, str | None]] = {"input.layout": "aiven", "topic": None, "file.name.template": None}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"name": None}, "name: is missing; expected 1 to 200 of a-z A-Z 0-9 . _ -", id="no name"
        ),
        pytest.param({"name": ".."}, "name = '..': expected 1 to 200 of a-z A-Z 0-9 . _ -", id="name"),
        pytest.param(
            {"connector.class": "org.example.Other"},
            "connector.class = 'org.example.Other': expected HeadraceSource, HeadraceSink, "
            "io.aiven.kafka.connect.s3.source.S3SourceConnector, "
            "io.confluent.connect.s3.source.S3SourceConnector, "
            "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector, "
            "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector, "
            "io.confluent.connect.s3.S3SinkConnector, "
            "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector, or absent; its options are looked "
            "at once it is one of these",
            id="class",
        ),
        pytest.param(
            {"aws.s3.regoin": "x"},
            "aws.s3.regoin: is not an option of Headrace; did you mean aws.s3.region?",
            id="unknown",
        ),
        pytest.param(
            {"bucket": "a"},
            "bucket: is not an option of Headrace; did you mean aws.s3.bucket.name?",
            id="meant",
        ),
        pytest.param(
            {"aws.s3.bucket": "a"},
            "aws.s3.bucket: is not an option of Headrace; did you mean aws.s3.bucket.name?",
            id="near an old name",
        ),
        pytest.param(
            {"value.converter.replace.null.with.default": "true"},
            "value.converter.replace.null.with.default: is not an option of Headrace: null fields have the "
            "defaults of their schemas, unless the output is JsonConverter's JSON unchanged; remove it",
            id="an option of JsonConverter",
        ),
        pytest.param(
            {"value.converter.schema.registry.ssl.endpoint.identification.algorithm": ""},
            "value.converter.schema.registry.ssl.endpoint.identification.algorithm: decides nothing here: "
            "the registry's name is always looked for in its certificate. Remove it, and have the name in "
            "the registry's certificate, or the certificate's name in schema.registry.url",
            id="no check of the registry's name",
        ),
        pytest.param({"": "1"}, "'': is not an option of Headrace; remove it", id="no name"),
        pytest.param(
            {"state.path": "/log"},
            "state.path: is an option of queries of Spark, whose files `headrace status` and `headrace plan` "
            "take, and no other command",
            id="a query's",
        ),
        pytest.param({"zzz": "1"}, "zzz: is not an option of Headrace; remove it", id="nothing near"),
        pytest.param(
            {"kafka.bootstrap.servers": "k:9092"},
            "kafka.bootstrap.servers: is not an option of Headrace; did you mean bootstrap.servers?",
            id="a group in front",
        ),
        pytest.param(
            {"post.action.move.prefix": "done/"},
            "post.action.move.prefix: is not an option of Headrace; did you mean post.action?",
            id="more than an option",
        ),
        pytest.param(
            {"producer.linger.ms": "1"},
            "producer.linger.ms: is not an option of Headrace; did you mean producer.override.linger.ms?",
            id="without override",
        ),
        pytest.param(
            {"poll.interval.ms": "abc"},
            "poll.interval.ms = 'abc': expected a whole number of milliseconds from 100 to 86,400,000",
            id="number",
        ),
        pytest.param(
            {"poll.interval.ms": "1"},
            "poll.interval.ms = '1': expected a whole number of milliseconds from 100 to 86,400,000",
            id="range",
        ),
        pytest.param(
            {"poll.interval.ms": ""},
            "poll.interval.ms = '': is empty; expected a whole number of milliseconds from 100 to 86,400,000",
            id="empty",
        ),
        pytest.param(
            {"reconcile.interval.ms": "5"},
            "reconcile.interval.ms = '5': expected a whole number of milliseconds from 1,000 to "
            "9,007,199,254,740,992, or 0",
            id="special value",
        ),
        pytest.param(
            {"include.existing": "yes"}, "include.existing = 'yes': expected true or false", id="boolean"
        ),
        pytest.param(
            {"input.format": "xml"},
            "input.format = 'xml': expected bytes, jsonl, json, csv, text, avro, parquet or auto",
            id="choice",
        ),
        pytest.param(
            {"file.compression.type": "brotli", "input.format": "jsonl"},
            "file.compression.type = 'brotli': is for Parquet alone, whose pages it compresses; compress "
            "other objects by gzip, zstd, snappy, lz4, bzip2 or xz",
            id="brotli around an object",
        ),
        pytest.param(
            {"aws_s3_bucket": "s3://bucket/", "aws.s3.bucket.name": None},
            "aws_s3_bucket = 's3://bucket/': expected the bare name of a bucket, 3 to 63 characters, or of "
            "several, separated by commas (an old spelling of aws.s3.bucket.name)",
            id="old spelling",
        ),
        pytest.param(
            {"error.tolerance": "all", "errors.tolerance": "none"},
            "errors.tolerance = 'none': says otherwise than error.tolerance; keep one of them",
            id="two spellings",
        ),
        pytest.param(
            {"bootstrap.servers": "broker"},
            "bootstrap.servers = 'broker': expected a comma-separated list of host:port",
            id="servers",
        ),
        pytest.param(
            {"aws.s3.endpoint": "nonsense"},
            "aws.s3.endpoint = 'nonsense': expected a URL such as https://host:port (https where the scheme "
            "is left out)",
            id="endpoint",
        ),
        pytest.param(
            {"aws.s3.endpoint": "https://me:hunter2@host"},
            "aws.s3.endpoint = 'https://***@host': expected a URL such as https://host:port (https where the "
            "scheme is left out); user and password do not belong in it",
            id="endpoint with password",
        ),
        pytest.param(
            {"sqs.queue.url": "arn:aws:sqs:eu-west-1:123456789012:q"},
            "sqs.queue.url = 'arn:aws:sqs:eu-west-1:123456789012:q': expected the URL of a queue (not its "
            "name or ARN), such as https://sqs.us-east-1.amazonaws.com/123456789012/queue",
            id="queue arn",
        ),
        pytest.param(
            {"sqs.queue.url": "http://127.0.0.1:4566/"},
            "sqs.queue.url = 'http://127.0.0.1:4566/': expected the URL of a queue (not its name or ARN), "
            "such as https://sqs.us-east-1.amazonaws.com/123456789012/queue; the path that names it is "
            "missing",
            id="queue without path",
        ),
        pytest.param(
            {"http.listen": "8085"}, "http.listen = '8085': expected host:port, or empty for off", id="listen"
        ),
        pytest.param(
            {"http.listen": "0.0.0.0:99999"},
            "http.listen = '0.0.0.0:99999': expected host:port, or empty for off",
            id="port",
        ),
        pytest.param(
            {"rest.listen": "0.0.0.0:8083"},
            "rest.listen = '0.0.0.0:8083': reaches beyond this machine and needs rest.auth.file",
            id="rest beyond loopback",
        ),
        pytest.param(
            {"rest.listen": "127.0.0.1:8085"},
            "rest.listen = '127.0.0.1:8085': is http.listen as well; give each its own port",
            id="one port twice",
        ),
        pytest.param(
            {"aws.s3.region": "useast1"},
            "aws.s3.region = 'useast1': expected a region such as us-east-1, unless aws.s3.endpoint is set",
            id="region",
        ),
        pytest.param(
            {"aws.access.key.id": "id"},
            "aws.secret.access.key: is missing next to aws.access.key.id; give both or none",
            id="half a key",
        ),
        pytest.param(
            {"aws.session.token": "t"},
            "aws.session.token = '***': belongs to aws.access.key.id and aws.secret.access.key; give all "
            "three",
            id="token alone",
        ),
        pytest.param(
            {"aws.credentials.provider": "com.amazonaws.auth.AWSStaticCredentialsProvider"},
            "aws.credentials.provider = 'com.amazonaws.auth.AWSStaticCredentialsProvider': needs "
            "aws.access.key.id and aws.secret.access.key",
            id="static without keys",
        ),
        pytest.param(
            {"aws.sts.role.external.id": "abc"},
            "aws.sts.role.external.id = 'abc': means nothing without aws.sts.role.arn",
            id="role without arn",
        ),
        pytest.param(
            {"poll.listing": "incremental", "reconcile.interval.ms": "0"},
            "reconcile.interval.ms = '0': with poll.listing=incremental and no sqs.queue.url, keys that sort "
            "before the last one would never be found; set it above 0, or poll.listing to auto",
            id="incremental without reconcile",
        ),
        pytest.param(
            {"aws.s3.bucket.name": "data--euw1-az1--x-s3", "poll.listing": "incremental"},
            "poll.listing = 'incremental': listings of a directory bucket have no order of keys; set full",
            id="incremental without an order",
        ),
        pytest.param(
            {"aws.s3.bucket.name": "data--euw1-az1--x-s3", "native.start.key": "a"},
            "native.start.key = 'a': listings of a directory bucket have no order of keys; remove it",
            id="start key without an order",
        ),
        pytest.param(
            {"aws.s3.bucket.name": "data--euw1-az1--x-s3", "aws.s3.prefix": "in/2026-"},
            "aws.s3.prefix = 'in/2026-': listings of a directory bucket take no prefix within a name; end it "
            "with a slash, and choose names by object.include",
            id="prefix within a name",
        ),
        pytest.param(
            {
                "aws.s3.bucket.name": "point-abc-s3alias",
                "sqs.queue.url": "https://sqs.eu-west-1.amazonaws.com/123456789012/q",
            },
            "aws.s3.bucket.name = 'point-abc-s3alias': point-abc-s3alias is the alias of an access point, "
            "and events name the bucket itself, so that none would be for it; name the bucket, or leave "
            "sqs.queue.url out",
            id="events of an access point",
        ),
        pytest.param(
            {"aws.s3.bucket.name": "arn:aws:s3:eu-west-1:123456789012:accesspoint/point"},
            "aws.s3.bucket.name = 'arn:aws:s3:eu-west-1:123456789012:accesspoint/point': expected the bare "
            "name of a bucket, 3 to 63 characters, or of several, separated by commas; an access point is "
            "named by its alias, which ends with -s3alias",
            id="access point by its ARN",
        ),
        pytest.param(
            {"topic": None},
            "topic: is missing; set it, or put {{topic}} into file.name.template",
            id="no topic",
        ),
        pytest.param(
            {"topic": "a topic"},
            "topic = 'a topic': expected a topic name: 1 to 249 of a-z A-Z 0-9 . _ -",
            id="topic",
        ),
        pytest.param(
            {"ordering": "partition"},
            "ordering = 'partition': needs {{partition}} in file.name.template",
            id="ordering",
        ),
        pytest.param(
            {"distribution.type": "partition"},
            "distribution.type = 'partition': needs {{partition}} in file.name.template",
            id="distribution",
        ),
        pytest.param(
            {"distribution.type": "partition", "ordering": "object", "file.name.template": "{{partition}}"},
            "ordering = 'object': says otherwise than distribution.type=partition; keep one of them",
            id="ordering and distribution",
        ),
        pytest.param(
            {"record.timestamp": "template"},
            "record.timestamp = 'template': needs {{timestamp}} in file.name.template",
            id="timestamp",
        ),
        pytest.param(
            {"key.source": "template:{{partition}}"},
            "key.source = 'template:{{partition}}': uses {{partition}}, which file.name.template does not "
            "have",
            id="key template",
        ),
        pytest.param(
            {"key.source": "template:{{topic}}{{"},
            "key.source = 'template:{{topic}}{{': This placeholder is not closed with '}}' (character 10 of "
            "the template)\n    {{topic}}{{\n             ^^",
            id="key template braces",
        ),
        pytest.param(
            {"key.source": "template:{{topik}}"},
            "key.source = 'template:{{topik}}': 'topik' is not a known placeholder; did you mean {{topic}}? "
            "(character 3 of the template)\n    {{topik}}\n      ^^^^^",
            id="key template's unknown variable",
        ),
        pytest.param(
            {
                "key.source": "template:{{partition:padding=perhaps}}",
                "file.name.template": "{{topic}}-{{partition}}",
            },
            "key.source = 'template:{{partition:padding=perhaps}}': padding of {{partition}} cannot be "
            "'perhaps'; it is one of true, false (character 21 of the template)\n"
            "    {{partition:padding=perhaps}}\n                        ^^^^^^^",
            id="key template's parameter",
        ),
        pytest.param(
            {"key.source": "template:{{any}}", "file.name.template": "{{any}}", "file.name.match": "exact"},
            "key.source = 'template:{{any}}': uses {{any}}, which stands for nothing that could be written",
            id="key template of anything",
        ),
        pytest.param(
            {"key.source": "fields"},
            "key.source = 'fields': expected object_key, none, field:PATH (dots for nesting) or "
            "template:TEXT",
            id="key source",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.source": "field:a..b"},
            "value.source = 'field:a..b': expected row or field:PATH (dots for nesting); each name between "
            "the dots of a path has a character at least",
            id="path",
        ),
        pytest.param(
            {"errors.deadletterqueue.topic.name": "events"},
            "errors.deadletterqueue.topic.name = 'events': is the output topic itself; bad records need a "
            "topic of their own",
            id="dead letters into the topic",
        ),
        pytest.param(
            {"topic": "__consumer_offsets"},
            "topic = '__consumer_offsets': is a topic of Kafka's own, which takes no records of clients",
            id="topic of Kafka's",
        ),
        pytest.param(
            {"errors.deadletterqueue.topic.name": "__transaction_state"},
            "errors.deadletterqueue.topic.name = '__transaction_state': is a topic of Kafka's own, which "
            "takes no records of clients",
            id="dead letters in a topic of Kafka's",
        ),
        pytest.param(
            {"offsets.storage.topic": "events"},
            "topic = 'events': is the ledger (events); records need a topic of their own",
            id="records into the ledger",
        ),
        pytest.param(
            {"errors.deadletterqueue.topic.name": "uploads-offsets"},
            "errors.deadletterqueue.topic.name = 'uploads-offsets': is the ledger (uploads-offsets); bad "
            "records need a topic of their own",
            id="dead letters into the ledger",
        ),
        pytest.param(
            {"errors.deadletterqueue.topic.replication.factor": "1"},
            "errors.deadletterqueue.topic.replication.factor = '1': means nothing without "
            "errors.deadletterqueue.topic.name",
            id="factor without topic",
        ),
        pytest.param(
            {"topic.creation.default.partitions": "3"},
            "topic.creation.default.replication.factor: is missing next to "
            "topic.creation.default.partitions; give both or none",
            id="half a creation",
        ),
        pytest.param(
            {"input.format": "parquet", "value.format": "raw"},
            "value.format = 'raw': raw cannot be made from input.format=parquet: a Parquet row has no bytes "
            "of its own; use auto, json or avro",
            id="raw parquet",
        ),
        pytest.param(
            {"value.format": "json"},
            "value.format = 'json': json cannot be made from input.format=bytes: a chunk of bytes is no "
            "JSON; use auto or raw",
            id="json bytes",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.format": "avro", "schema.registry.url": "http://r:8081"},
            "value.format = 'avro': avro cannot be made from input.format=jsonl: a line of JSON has no "
            "schema; use auto, raw or json",
            id="avro jsonl",
        ),
        pytest.param(
            {"input.format": "avro", "value.format": "avro"},
            "value.format = 'avro': needs schema.registry.url",
            id="registry",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.converter": JSON_CONVERTER},
            "value.converter.schemas.enable: is true by JsonConverter's default, which writes schemas into "
            "records; that is not done here: set it to false",
            id="schemas",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.converter": LONG_CONVERTER},
            f"value.converter = '{LONG_CONVERTER}': reads in a sink alone; a source writes rows and fields "
            "as they are, as JSON, or in the framing of Confluent's schema registry",
            id="numbers",
        ),
        pytest.param(
            {
                "input.format": "jsonl",
                "value.format": "raw",
                "value.converter": JSON_CONVERTER,
                "value.converter.schemas.enable": "false",
            },
            "value.format = 'raw': says otherwise than value.converter (json); keep one of them",
            id="format and converter",
        ),
        pytest.param(
            {"input.format": "text", "value.source": "field:a"},
            "value.source = 'field:a': a line of text has no fields; set input.format to jsonl, json, csv, "
            "avro or parquet",
            id="field of text",
        ),
        pytest.param(
            {"input.format": "csv", "value.format": "avro", "schema.registry.url": "http://r:8081"},
            "value.format = 'avro': avro cannot be made from input.format=csv: a CSV row has no schema; use "
            "auto, raw or json",
            id="avro csv",
        ),
        pytest.param(
            {"input.format": "csv", "csv.delimiter": ",,"},
            "csv.delimiter = ',,': expected one ASCII character, or \\t",
            id="two delimiters",
        ),
        pytest.param(
            {"input.format": "csv", "csv.quote": ","},
            "csv.quote = ',': is csv.delimiter as well; choose another",
            id="quote and delimiter",
        ),
        pytest.param(
            {"input.format": "csv", "csv.columns": "a,b"},
            "csv.columns = 'a,b': says otherwise than csv.header=true; set csv.header to false",
            id="columns and header",
        ),
        pytest.param(
            {"input.format": "csv", "csv.header": "false", "csv.columns": "a,a"},
            "csv.columns = 'a,a': expected a comma-separated list of names; a name is there twice",
            id="columns twice",
        ),
        pytest.param(
            {"input.format": "csv", "csv.header": "false", "csv.types": "a:long"},
            "csv.types = 'a:long': has 'a', which is not in csv.columns; name the column there",
            id="types without columns",
        ),
        pytest.param(
            {"input.format": "csv", "csv.types": "a:int"},
            "csv.types = 'a:int': expected a comma-separated list of name:type, with the types string, long, "
            "double, decimal, boolean",
            id="types",
        ),
        pytest.param(
            {"csv.delimiter": ";"},
            "csv.delimiter = ';': means nothing without input.format=csv",
            id="csv without csv",
        ),
        pytest.param(
            {"input.format": "jsonl", "text.start.pattern": "x"},
            "text.start.pattern = 'x': means nothing without input.format=text",
            id="text without text",
        ),
        pytest.param(
            {"post.action": "tag:Aws:state=done"},
            "post.action = 'tag:Aws:state=done': expected none, delete, move:PREFIX, "
            "move:s3://BUCKET/PREFIX or tag:KEY=VALUE; names of tags that begin with aws: are AWS's own, "
            "which S3 takes from no client",
            id="a tag of AWS's own",
        ),
        pytest.param(
            {"post.action": "move:s3://bucket/done/"},
            "post.action = 'move:s3://bucket/done/': names the bucket that objects are read from; write "
            "move:PREFIX ('done/' now)",
            id="move to the same bucket",
        ),
        *(
            pytest.param(
                {"aws.s3.bucket.name": bucket, "aws.s3.prefix": prefix, "post.action": action},
                f"post.action = {action!r}: may name the bucket that objects are read from, as an access "
                "point's alias does not show its bucket: what is moved would be read again; set "
                "aws.s3.prefix, and a target outside it",
                id=f"{bucket} {prefix} {action}",
            )
            for bucket, prefix, action in (
                ("reader-7x1k2m-s3alias", None, "move:s3://uploads/done/"),
                ("uploads", None, "move:s3://writer-7x1k2m-s3alias/done/"),
                ("reader-7x1k2m-s3alias", "in/", "move:s3://uploads/in/done/"),
                ("reader-7x1k2m-s3alias", "in/new/", "move:s3://uploads/in/"),
            )
        ),
        *(
            pytest.param(
                {"post.action": action},
                f"post.action = {action!r}: expected none, delete, move:PREFIX, move:s3://BUCKET/PREFIX or "
                "tag:KEY=VALUE; another bucket is named as in move:s3://bucket/prefix/",
                id=action,
            )
            for action in (
                "move:s3://cold",
                "move:S3://cold/a",
                "move:s3://c/a",
                "move:s3://cold//a",
                "move:gs://cold/",
            )
        ),
        *(
            pytest.param(
                {"input.format": "jsonl", "record.fields": texts},
                f"record.fields = {texts!r}: expected a comma-separated list of TEXT:NAME, such as "
                f"{{{{timestamp:unit=yyyy}}}}:year; {why}",
                id=f"record.fields {texts}",
            )
            for texts, why in (
                ("{{topic}}", "each text has a colon and a name after it"),
                ("{{topic}}:a,", "each text has a colon and a name after it"),
                ("{{topic}}:a,{{topic}}:a", "a name is there twice"),
            )
        ),
        pytest.param(
            {"input.format": "jsonl", "record.fields": "{{partition}}:p"},
            "record.fields = '{{partition}}:p': uses {{partition}}, which file.name.template does not have",
            id="a field of nothing",
        ),
        pytest.param(
            {"input.format": "jsonl", "record.headers": "template:{{partition}}:p"},
            "record.headers = 'template:{{partition}}:p': uses {{partition}}, which file.name.template does "
            "not have",
            id="a header of nothing",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.format": "raw", "record.fields": "{{topic}}:t"},
            "record.fields = '{{topic}}:t': needs values of JSON, which value.format=raw does not write",
            id="fields of raw values",
        ),
        pytest.param(
            {"input.format": "jsonl", "value.source": "field:a", "record.fields": "{{topic}}:t"},
            "record.fields = '{{topic}}:t': needs whole rows; leave value.source and input.envelope out",
            id="fields of fields",
        ),
        pytest.param(
            {"record.fields": "{{topic}}:t"},
            "record.fields = '{{topic}}:t': a chunk of bytes has no fields; set input.format to jsonl, json, "
            "csv, avro or parquet",
            id="fields of bytes",
        ),
        *(
            pytest.param(
                {"input.format": "text", "text.pattern": pattern},
                f"text.pattern = {pattern!r}: expected one of cloudfront, alb, nlb, vpc-flow, s3-access, or "
                f"a regular expression (RE2's) with named groups; {why}",
                id=f"text.pattern {pattern}",
            )
            for pattern, why in (
                ("nginx", "no group of it has a name, as in (?P<name>..)"),
                ("(?P<a>x", "Invalid regular expression: missing )"),
                (r"(?P<a>x)\1", "Invalid regular expression: invalid escape sequence: \\1"),
                ("(?=x)(?P<a>y)", "Invalid regular expression: invalid perl operator: (?="),
                ("(?P<a>(x)y)", "Regular expression contains unnamed groups"),
            )
        ),
        *(
            pytest.param(
                {"input.format": "jsonl", option: given},
                f"{option} = {given!r}: means nothing without input.archive=zip, tar or auto",
                id=f"{option} without archives",
            )
            for option, given in (
                ("input.archive.members", "*.json"),
                ("input.archive.max.members", "5"),
                ("input.archive.max.bytes", "5"),
                ("input.archive.max.ratio", "5"),
            )
        ),
        pytest.param(
            {"input.format": "jsonl", "text.pattern": "alb"},
            "text.pattern = 'alb': means nothing without input.format=text",
            id="text.pattern without text",
        ),
        *(
            pytest.param(
                {"input.layout": "lenses", "layout.indexes": text},
                f"layout.indexes = '{text}': expected a comma-separated list of beginnings of keys; "
                "globs (*, ? and [) go into object.exclude",
                id=f"layout.indexes as {text}",
            )
            for text in ("back/idx-*/", ".indexes/,*_old/", "idx-?/", "idx-[12]/")
        ),
        pytest.param(
            {"input.format": "csv", "text.exact": "true"},
            "text.exact = 'true': means nothing without input.format=text",
            id="text.exact without text",
        ),
        pytest.param(
            {"input.format": "text", "text.pattern": "alb", "text.null": "-"},
            "text.null = '-': means nothing without a regular expression in text.pattern",
            id="null of a known log",
        ),
        pytest.param(
            {"input.format": "text", "text.types": "a:long"},
            "text.types = 'a:long': means nothing without a regular expression in text.pattern",
            id="types without a pattern",
        ),
        pytest.param(
            {"input.format": "text", "text.pattern": "(?P<a>x)", "text.types": "b:long"},
            "text.types = 'b:long': has 'b', which is no group of text.pattern; name the group so",
            id="types of another group",
        ),
        *(
            pytest.param(
                {"input.format": "json", "json.path": path},
                f"json.path = {path!r}: expected a path to one array such as $.Records[*] or "
                f"$.detail['log events'][*]{more}",
                id=f"json.path {path}",
            )
            for path, more in (
                ("Records", ""),
                ("$.Records", ""),
                ("$.a[0].b[*]", "; between $ and [*] only names of objects may be, such as .a or ['b c']"),
                ("$.a[*].b[*]", "; between $ and [*] only names of objects may be, such as .a or ['b c']"),
                ("$..a[*]", "; between $ and [*] only names of objects may be, such as .a or ['b c']"),
            )
        ),
        pytest.param(
            {"input.format": "jsonl", "json.path": "$.Records[*]"},
            "json.path = '$.Records[*]': means nothing without input.format=json",
            id="json.path without json",
        ),
        pytest.param(
            {"input.format": "auto", "json.path": "$.Records[*]"},
            "json.path = '$.Records[*]': means nothing without input.format=json",
            id="json.path with auto",
        ),
        pytest.param(
            {"input.format": "text", "text.end.pattern": "("},
            "text.end.pattern = '(': expected a regular expression (Python's); it is invalid: missing ), "
            "unterminated subpattern",
            id="pattern",
        ),
        pytest.param(
            {"input.format": "text", "text.start.pattern": "x*"},
            "text.start.pattern = 'x*': expected a regular expression (Python's); it is found in an empty "
            "line, and so in every line",
            id="pattern of everything",
        ),
        pytest.param(
            {"value.source": "field:a"},
            "value.source = 'field:a': a chunk of bytes has no fields; set input.format to jsonl, json, "
            "csv, avro or parquet",
            id="field of bytes",
        ),
        pytest.param(
            {"record.headers": "fields:a"},
            "record.headers = 'fields:a': a chunk of bytes has no fields; set input.format to jsonl, json, "
            "csv, avro or parquet",
            id="headers of bytes",
        ),
        pytest.param(
            {"input.envelope": "aiven"},
            "input.envelope = 'aiven': a chunk of bytes has no fields; set input.format to jsonl, json, "
            "csv, avro or parquet",
            id="envelope of bytes",
        ),
        pytest.param(
            {"input.envelope": "aiven", "input.format": "jsonl", "value.source": "field:x"},
            "value.source = 'field:x': says otherwise than input.envelope=aiven, which takes the field value",
            id="envelope and field",
        ),
        pytest.param(
            {"input.envelope": "aiven", "input.format": "jsonl", "value.format": "raw"},
            "value.format = 'raw': raw is the whole row, of which input.envelope=aiven takes one field; use "
            "auto",
            id="envelope raw",
        ),
        pytest.param(
            {
                "input.format": "avro",
                "value.format": "avro",
                "value.source": "field:x",
                "schema.registry.url": "http://r",
            },
            "value.format = 'avro': avro is the whole row, of which value.source takes one field; use auto, "
            "json or json-schema",
            id="a field as Avro",
        ),
        pytest.param(
            {"input.envelope.base64": "key"},
            "input.envelope.base64 = 'key': means nothing without input.envelope=aiven",
            id="base64 alone",
        ),
        pytest.param(
            {**_ARCHIVE, "aws.s3.prefix": "backup/{{topic}}/{{utc_date}}/"},
            "aws.s3.prefix = 'backup/{{topic}}/{{utc_date}}/': has variables of a sink, and is the beginning "
            "of keys here: give what is before the first of them, a slash at its end",
            id="variables in a prefix",
        ),
        pytest.param(
            {**_ARCHIVE, "restore.topic.map": "orders.*:x"},
            "restore.topic.map = 'orders.*:x': expected a comma-separated list of from:to, each `from` once; "
            "'orders.*' is no topic: a topic is named as it is, not by a pattern",
            id="a pattern of topics",
        ),
        pytest.param(
            {**_ARCHIVE, "restore.topic.map": "a:b:c"},
            "restore.topic.map = 'a:b:c': expected a comma-separated list of from:to, each `from` once; "
            "'a:b' is no topic: a topic is named as it is, not by a pattern",
            id="a chain of topics",
        ),
        pytest.param(
            {**_ARCHIVE, "format.output.envelope": "false", "restore.envelope": "yes"},
            "restore.envelope = 'yes': says otherwise than format.output.envelope; keep one of them",
            id="two envelopes",
        ),
        pytest.param(
            {**_ARCHIVE, "store.envelope": "false"},
            "store.envelope = 'false': means nothing here: it is an option of Lenses' sink; use "
            "restore.envelope",
            id="an envelope of Lenses",
        ),
        pytest.param(
            {**_ARCHIVE, "format.output.type": "csv"},
            "format.output.type: is not an option of Headrace; did you mean input.format?",
            id="a format of Aiven",
        ),
        pytest.param(
            {"transformer.max.buffer.size": "2000000"},
            "transformer.max.buffer.size = '2000000': chunks of 2000000 bytes exceed record.max.bytes "
            "(1048576); lower transformer.max.buffer.size or raise record.max.bytes",
            id="chunks",
        ),
        pytest.param(
            {"aws.s3.backoff.delay.ms": "30000"},
            "aws.s3.backoff.delay.ms = '30000': must not exceed aws.s3.backoff.max.delay.ms (20000)",
            id="delays",
        ),
        pytest.param(
            {"transaction.boundary.interval.ms": "11000"},
            "transaction.boundary.interval.ms = '11000': must be 5,000 ms at least below "
            "producer.override.transaction.timeout.ms (15000), or the broker aborts transactions that are "
            "about to commit",
            id="interval",
        ),
        pytest.param(
            {"spark.master": "local[2,4]"},
            "spark.master = 'local[2,4]': lets Spark repeat tasks, as spark.task.maxFailures would; use "
            "local[N]",
            id="local retries",
        ),
        pytest.param(
            {"spark.master": "local", "spark.remote": "sc://host"},
            "spark.remote = 'sc://host': says otherwise than spark.master; keep one of them",
            id="two sparks",
        ),
        pytest.param(
            {"spark.driver.memory": "10GB"},
            "spark.driver.memory = '10GB': expected a size as Java takes it, such as 512m or 2g",
            id="a driver's memory in Spark's words",
        ),
        pytest.param(
            {"spark.driver.memory": "512"},
            "spark.driver.memory = '512': expected a size as Java takes it, such as 512m or 2g",
            id="a driver's memory in bytes",
        ),
        pytest.param(
            {"spark.driver.memory": "2g "},
            "spark.driver.memory = '2g ': expected a size as Java takes it, such as 512m or 2g",
            id="a driver's memory with a blank",
        ),
        pytest.param(
            {"spark.executor.memory": "two"},
            "spark.executor.memory = 'two': expected a size such as 512m or 2g",
            id="an executor's memory",
        ),
        pytest.param(
            {"spark.task.maxFailures": "4"},
            "spark.task.maxFailures = '4': would weaken the guarantee; Headrace sets 1: remove it",
            id="max failures",
        ),
        pytest.param(
            {"spark.speculation": "true"},
            "spark.speculation = 'true': would weaken the guarantee; Headrace sets false: remove it",
            id="speculation",
        ),
    ],
)
def test_each_problem_is_told_with_option_value_and_remedy(
    changes: dict[str, str | None], problem: str
) -> None:
    """Each problem is told with option value and remedy."""
    assert problem in map(str, problems_with(changes))


def test_a_converter_that_is_none_is_told_next_to_a_format() -> None:
    """Alone: what it would have said of values is not looked at."""
    (problem,) = problems_with({"value.format": "raw", "value.converter": "x"})
    assert str(problem).startswith("value.converter = 'x': expected ")


def test_a_template_that_does_not_compile_is_told_with_the_place() -> None:
    """A template that does not compile is told with the place."""
    (problem,) = problems_with({"file.name.template": "{{topic}}-{{unknown}}"})

    assert problem.option == "file.name.template"
    assert "'unknown' is not a known placeholder" in problem.message


def test_all_problems_are_told_at_once() -> None:
    """All problems are reported at once."""
    with pytest.raises(SettingsError) as caught:
        load_with(
            {
                "name": None,
                "poll.interval.ms": "soon",
                "producer.override.acks": "1",
                "spark.speculation": "true",
                "topic": None,
                "unknown.option": "x",
            }
        )

    told = str(caught.value)
    assert told.startswith("The configuration has 6 problems:\n  ")
    assert [problem.option for problem in caught.value.problems] == [
        "unknown.option",
        "name",
        "poll.interval.ms",
        "producer.override.acks",
        "spark.speculation",
        "topic",
    ]


def test_one_problem_is_one_sentence() -> None:
    """One problem is one sentence."""
    with pytest.raises(SettingsError) as caught:
        load_with({"name": None})

    assert str(caught.value) == (
        "The configuration has a problem: name: is missing; expected 1 to 200 of a-z A-Z 0-9 . _ -"
    )


def test_an_empty_configuration_misses_what_is_required() -> None:
    """An empty configuration misses what is required."""
    with pytest.raises(SettingsError) as caught:
        load("{}", kind="json", environment={}, read_file=no_file)

    assert [problem.option for problem in caught.value.problems] == [
        *(option.name for option in OPTIONS if option.required),
        "file.name.template",
    ]


def test_an_empty_transforms_is_none() -> None:
    """An empty transforms is none."""
    assert problems_with({"transforms": "", "predicates": " "}) == ()


def test_long_values_are_cut() -> None:
    """Long values are cut."""
    (problem,) = problems_with({"poll.interval.ms": "x" * 1000})

    assert problem.value == "x" * 200 + ".."


def test_half_a_surrogate_pair_is_no_text() -> None:
    """Half a surrogate pair is no text."""
    text = json.dumps({"aws.s3.prefix": "\ud800"})
    with pytest.raises(SettingsError) as caught:
        load(text, kind="json", environment={}, read_file=no_file)

    assert any("half of a surrogate pair" in problem.message for problem in caught.value.problems)


def test_what_is_no_text_is_one_problem() -> None:
    """It is not missing as well."""
    text = '{"name": {"a": 1}, "bootstrap.servers": ["a:1"]}'
    with pytest.raises(SettingsError) as caught:
        load(text, kind="json", environment={}, read_file=no_file)
    of_names = [each for each in caught.value.problems if each.option in {"name", "bootstrap.servers"}]
    assert [str(each) for each in of_names] == [
        "name: is an object; expected a text, a number or a boolean",
        "bootstrap.servers: is a list; expected a text, a number or a boolean",
    ]


@pytest.mark.parametrize(
    ("option", "text", "warning"),
    [
        ("producer.override.client.id", "${ID}", _VARIABLE),
        ("aws.secret.access.key", "${KEY}", _VARIABLE),
        ("aws.s3.prefix", "/in/", _SLASH),
        ("aws.s3.prefix", "s3://bucket/in/", _ADDRESS),
        ("aws.s3.prefix", "in/*", _GLOB),
        ("state.dir", "~/state", _HOME),
        ("aws.s3.endpoint", "https://bucket.s3.eu-central-1.amazonaws.com", _TWICE),
        ("aws.s3.endpoint", "http://localhost:4566/bucket/", _TWICE),
        ("aws.s3.prefix", "in/ # where", _COMMENT),
        ("file.name.template", ".* # all", _COMMENT),
    ],
)
def test_what_is_taken_as_it_is_and_was_hardly_meant_so(option: str, text: str, warning: str) -> None:
    """A warning, as it may be right."""
    keys = {"aws.access.key.id": "me", "aws.secret.access.key": "x"}
    assert load_with(keys | {option: text}).warnings == (f"{option} = {text!r} {warning}",)


def test_a_comment_within_certificates_is_none_of_ours() -> None:
    """Bundles have them, on lines of their own."""
    bundle = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n# Issuer: one # two"
    option, gathered = "ssl.truststore.certificates", Gathered()
    gathered.entries[option] = Entry(option=option, spelled=option, raw=bundle, text=bundle)

    assert list(unlikely(gathered)) == []
