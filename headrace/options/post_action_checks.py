"""`post.action` held against where objects are read from."""

from headrace.model.post_action import PostActionKind
from headrace.options.declarations import reading_options
from headrace.options.values import Values


def check_post_action(values: Values) -> None:
    """Note a target that would be read again."""
    unconditional = reading_options.POST_ACTION_UNCONDITIONAL
    if values.is_given(unconditional) and not values.is_given(reading_options.POST_ACTION):
        values.refuse(unconditional, "means nothing without post.action")
    option, prefix = reading_options.POST_ACTION, reading_options.PREFIX
    if not values.are_good(option, prefix):
        return
    action = values[option]
    if action is None or action.kind is not PostActionKind.MOVE:
        return
    if values[prefix].startswith(action.target):
        values.refuse(
            option,
            f"moves objects to where they are read from (aws.s3.prefix = {values[prefix]!r}); choose a "
            "prefix beside it or below it",
        )
