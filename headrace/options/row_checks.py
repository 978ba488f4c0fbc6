"""CSV's and text's options, held against the format and against one another."""

from typing import Any, Final

from headrace.options.choices import InputFormat
from headrace.options.declarations import format_options, record_options
from headrace.options.declarations.option import Option
from headrace.options.restore_forms import input_format
from headrace.options.values import Values

_OPTIONS: Final[dict[InputFormat, tuple[Option[Any], ...]]] = {
    InputFormat.CSV: (
        format_options.CSV_DELIMITER,
        format_options.CSV_QUOTE,
        format_options.CSV_HEADER,
        format_options.CSV_COLUMNS,
        format_options.CSV_TYPES,
    ),
    InputFormat.TEXT: (format_options.TEXT_START, format_options.TEXT_END),
}


def check_rows(values: Values) -> None:
    """Note options that mean nothing here, or that contradict one another."""
    if not values.are_good(record_options.INPUT_FORMAT):
        return
    for wanted, options in _OPTIONS.items():
        if input_format(values) not in {wanted, InputFormat.AUTO}:
            for each in options:
                if values.is_given(each):
                    values.refuse(each, f"means nothing without input.format={wanted}")
    _check_csv(values)


def _check_csv(values: Values) -> None:
    if not values.are_good(*_OPTIONS[InputFormat.CSV]):
        return
    if values[format_options.CSV_DELIMITER] == values[format_options.CSV_QUOTE]:
        values.refuse(format_options.CSV_QUOTE, "is csv.delimiter as well; choose another")
    columns, types = values[format_options.CSV_COLUMNS], values[format_options.CSV_TYPES]
    if columns is not None and values[format_options.CSV_HEADER]:
        values.refuse(
            format_options.CSV_COLUMNS, "says otherwise than csv.header=true; set csv.header to false"
        )
    if types is None or values[format_options.CSV_HEADER]:
        return
    unknown = sorted({name for name, _ in types} - set(columns or ()))
    if unknown:
        values.refuse(
            format_options.CSV_TYPES,
            f"has {unknown[0]!r}, which is not in csv.columns; name the column there",
        )
