"""What transforms need of the options beside them: values whose fields can be read, names that stay apart."""

from typing import Any, Final

from headrace.options.choices import InputFormat, ValueFormat
from headrace.options.declarations import record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import Option
from headrace.options.declarations.transform_options import TRANSFORM_ALIASES
from headrace.options.direction_forms import Direction
from headrace.options.directions import direction
from headrace.options.name_checks import converter_kind
from headrace.options.restore_forms import input_format
from headrace.options.sink_settings import ConverterKind
from headrace.options.transforms.chain import (
    Cast,
    FieldTime,
    HoistField,
    RecordPart,
    TransformChain,
    TransformStep,
    ValueToKey,
)
from headrace.options.transforms.routing import reachable_topics
from headrace.options.values import Values

_FRAMED: Final = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})
_CONVERTERS: Final[dict[RecordPart, Option[Any]]] = {
    RecordPart.KEY: record_options.KEY_CONVERTER_CLASS,
    RecordPart.VALUE: record_options.VALUE_CONVERTER_CLASS,
}


def check_transforms(values: Values, chain: TransformChain, *, routed: frozenset[str]) -> None:
    """Note what transforms cannot do beside the other options; `routed` topics have names of their own."""
    if not chain or not values.are_good(*_CONVERTERS.values(), sink.FORMAT, record_options.INPUT_FORMAT):
        return
    if direction(values) is Direction.SINK:
        _check_sink_fields(values, chain)
        _check_names_apart(values, chain, routed)
    else:
        _check_source_fields(values, chain)


def _check_sink_fields(values: Values, chain: TransformChain) -> None:
    """Refuse to look for fields where none can be: until a step has made an object, bytes have none."""
    made: set[RecordPart] = set()
    for step in chain.steps:
        for part in _opened(step) - made:
            kind = converter_kind(values, _CONVERTERS[part])
            if kind in {ConverterKind.BYTES, ConverterKind.STRING}:
                values.refuse(
                    TRANSFORM_ALIASES,
                    f"{step.alias} needs fields of the {part}, which is read as "
                    f"{'text' if kind is ConverterKind.STRING else 'bytes'}: set {_CONVERTERS[part].name} to "
                    "JsonConverter's or AvroConverter's class",
                )
                made.add(part)
        if isinstance(step.transform, ValueToKey):
            made.add(RecordPart.KEY)
        elif isinstance(step.transform, HoistField):
            made.add(step.transform.part)


def _check_names_apart(values: Values, chain: TransformChain, routed: frozenset[str]) -> None:
    """Refuse two topics of the sink that become one: with equal offsets their objects would have one name."""
    if not chain.routes or not values.are_good(sink.TOPIC_NAMES):
        return
    owners: dict[str, str] = {}
    for topic in values[sink.TOPIC_NAMES] or ():
        if topic in routed:
            continue
        for target in reachable_topics(chain, topic):
            owner = owners.setdefault(target, topic)
            if owner != topic:
                values.refuse(
                    TRANSFORM_ALIASES,
                    f"send {owner} and {topic} to one name, {target}, under which their objects could not be "
                    "told apart: keep them apart, or run a sink for each with an aws.s3.prefix of its own",
                )
                return


def transform_warnings(values: Values, chain: TransformChain) -> tuple[str, ...]:
    """What cannot be judged before the topics are known."""
    if not chain.routes or direction(values) is not Direction.SINK or not values.is_given(sink.TOPICS_REGEX):
        return ()
    sentence = (
        "transforms give records other topics: where two topics become one, objects with one name are kept "
        "out of the bucket and quarantined (name_taken)"
    )
    return (sentence,)


def _opened(step: TransformStep) -> set[RecordPart]:
    """The parts whose fields a step reads."""
    match step.transform:
        case HoistField():
            return set()
        case Cast(whole=whole) if whole is not None:
            return set()
        case ValueToKey():
            return {RecordPart.VALUE}
        case FieldTime(part=part, path=path) if part is not None and not path:
            return set()
        case _:
            return set(step.parts)


def _check_source_fields(values: Values, chain: TransformChain) -> None:
    """Records are transformed as they would be produced, when Avro is in the registry's framing already."""
    formats = {
        RecordPart.KEY: values[record_options.KEY_CONVERTER_CLASS],
        RecordPart.VALUE: values[record_options.VALUE_CONVERTER_CLASS] or values[record_options.VALUE_FORMAT],
    }
    for part, form in formats.items():
        touching = [step.alias for step in chain.steps if part in step.parts]
        if touching and form in _FRAMED:
            values.refuse(
                _CONVERTERS[part],
                f"{form} makes bytes of the {part} that {touching[0]} cannot look into: leave the "
                f"transforms of the {part} out, or produce JSON (JsonConverter)",
            )
    opening = [step.alias for step in chain.steps if RecordPart.VALUE in _opened(step)]
    content = input_format(values)
    if opening and content in {InputFormat.BYTES, InputFormat.TEXT} and not _hoists_first(chain):
        values.refuse(
            TRANSFORM_ALIASES,
            f"{opening[0]} needs fields of the value, which input.format={content} does not have",
        )


def _hoists_first(chain: TransformChain) -> bool:
    first = next(step for step in chain.steps if RecordPart.VALUE in step.parts)
    return isinstance(first.transform, HoistField)
