"""What `rows=columns` has no place for: formats without columns, and options that make records of rows."""

from collections.abc import Mapping

from headrace.model.errors import FrameRefused
from headrace.options.choices import InputFormat, ValueFormat
from headrace.options.record_sources import FieldSource, NoSource, ProduceTime, TemplateSource
from headrace.options.settings import FormatSettings


def check_columns(settings: FormatSettings, given: Mapping[str, str]) -> None:
    """Refuse what has no columns, or makes something of records alone; `given` are the options by name."""
    if settings.input_format in {InputFormat.BYTES, InputFormat.TEXT} and settings.text.pattern is None:
        raise FrameRefused(
            f"input.format={settings.input_format} has no columns: use rows=records, or another format."
        )
    if settings.packing and settings.input_format is InputFormat.AUTO:
        raise FrameRefused(
            "rows=columns reads archives (input.archive) whose members are of one format: set input.format."
        )
    if settings.restore is not None:
        raise FrameRefused("rows=columns does not read archives (input.layout): use rows=records.")
    if settings.value_format not in {ValueFormat.AUTO, ValueFormat.JSON}:
        raise FrameRefused(
            f"value.format={settings.value_format} (or its value.converter) makes bytes of a row, and "
            "rows=columns gives its columns: leave it out, or use rows=records."
        )
    makes = {
        "key.source": ("keys", isinstance(settings.key_source, FieldSource | TemplateSource)),
        "key.converter": ("keys", True),
        "record.timestamp": ("timestamps", not isinstance(settings.timestamp, ProduceTime)),
        "record.headers": ("headers", not isinstance(settings.headers, NoSource)),
    }
    problems = [
        f"{name} = {given[name]!r}: makes {what} of records, and rows=columns gives columns: leave it out, "
        "or use rows=records. The object's key, time and position are in _metadata (metadata.column=true)."
        for name, (what, is_asked) in makes.items()
        if name in given and is_asked
    ]
    if problems:
        raise FrameRefused("\n".join(problems))
