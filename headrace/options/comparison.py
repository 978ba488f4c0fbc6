"""Whether another configuration is the running one: by names and texts, secrets included."""

from collections.abc import Iterator, Mapping
from hmac import compare_digest

from headrace.options import client_names
from headrace.options.declarations import BY_NAME
from headrace.options.declarations.foreign_options import WITHOUT_MEANING
from headrace.options.describe import describe
from headrace.options.given import canonical
from headrace.options.settings import Settings


def changed_options(settings: Settings, config: Mapping[str, str | None], *, is_whole: bool) -> list[str]:
    """Return the names of the options that `config` would change, sorted; none: it is the running one.

    A value counts as the same as it was written, with its references replaced, and as `describe` shows it.
    None removes an option. `is_whole` says that what `config` leaves out is removed too; only what a Connect
    worker knows by itself (brokers and their security) may be left out.
    """
    named = {canonical(name): text for name, text in config.items()}
    changed = set(_given_otherwise(settings, named))
    if is_whole:
        changed.update(_left_out(settings, named))
    return sorted(changed)


def _given_otherwise(settings: Settings, named: Mapping[str, str | None]) -> Iterator[str]:
    shown = describe(settings)
    texts = {option: (raw.reveal(), text.reveal()) for option, raw, text in settings.texts}
    for name, text in named.items():
        if name in WITHOUT_MEANING:
            continue
        known = {*texts.get(name, ()), *([shown[name]] if name in shown else [])}
        if text is None:
            if name in texts and not _is_default(name, texts[name][1]):
                yield name
        elif not any(compare_digest(text.strip().encode(), one.strip().encode()) for one in known):
            yield name


def _left_out(settings: Settings, named: Mapping[str, str | None]) -> Iterator[str]:
    for name, _, text in settings.texts:
        is_workers = name == "bootstrap.servers" or name in client_names.TOP_LEVEL
        if name not in named and not is_workers and not _is_default(name, text.reveal()):
            yield name


def _is_default(name: str, text: str) -> bool:
    option = BY_NAME.get(name)
    return option is not None and option.default == text.strip()
