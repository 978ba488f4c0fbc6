"""When a sink's objects close, held against itself and its names."""

from headrace.names.name_template import NameField, NameTemplate
from headrace.options.declarations import record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.sink_settings import AgeFrom, RotateTogether
from headrace.options.values import Values


def check_rotation(values: Values, template: NameTemplate | None) -> None:
    """Note what closes no object, or closes them together where that means nothing."""
    triggers = (
        sink.ROTATE_RECORDS,
        sink.ROTATE_BYTES,
        sink.ROTATE_AGE,
        sink.ROTATE_SPAN,
        sink.ROTATE_SCHEDULE,
        sink.MAX_AGE,
    )
    if values.are_good(*triggers) and not any(values[trigger] for trigger in triggers):
        values.refuse(
            sink.MAX_AGE, "is 0, and so is every rotate.*: no object would ever close; set one of them"
        )
    if values.are_good(sink.ROTATE_TOGETHER):
        _check_together(values, template)


def _check_together(values: Values, template: NameTemplate | None) -> None:
    if values[sink.ROTATE_TOGETHER] is not RotateTogether.NONE:
        if template is not None and template.is_of_keys:
            values.refuse(
                sink.ROTATE_TOGETHER,
                "means nothing with names of keys alone, whose objects have one record",
            )
        return
    needs = "means nothing without rotate.together, by which objects close together; set it to first or total"
    age, change = sink.ROTATE_AGE_FROM, sink.ROTATE_ON_GROUP_CHANGE
    if values.are_good(age) and values[age] is AgeFrom.CLOSED:
        values.refuse(age, needs)
    if values.are_good(change) and values[change]:
        values.refuse(change, needs)
    if template is not None and NameField.BATCH_OFFSET in template.fields:
        values.refuse(record_options.FILE_NAME_TEMPLATE, f"shows {{{{batch_offset}}}}, which {needs}")
