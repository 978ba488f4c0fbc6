import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
import typer
from typer.main import get_command

from headrace.options.client_bounds import BOUNDED
from headrace.options.client_names import DECIDED_HERE
from headrace.options.declarations import CANONICAL, FAMILIES
from headrace.options.declarations.option import WITHOUT_MEANING
from headrace.vendors.lenses.options import PROPERTIES, SOURCE_PROPERTIES
from headrace.vendors.load import VENDORS
from ingest.cli.app import app
from ingest.connect.worker_settings import WORKER_OPTIONS
from spark.frames.frame_options import OWN as OF_FRAMES
from tests.docs.pages import PAGES, ROOT, Found, anchors, commands, links, spans

# The reference of options is generated, and tested where it is generated.
WRITTEN: Final = [page for page in PAGES if page.name != "options.md"]
# Settings of brokers, topics, consumers, Connect's workers and converters that pages name; and a module.
FOREIGN: Final = frozenset(
    {
        "cleanup.policy",
        "connector.class",
        "delete.retention.ms",
        "group.min.session.timeout.ms",
        "http.server",
        "isolation.level",
        "max.message.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "transactional.id.expiration.ms",
        "schemas.enable",
        "store.envelope",
        "transaction.state.log.min.isr",
        "unclean.leader.election.enable",
    }
)
# Options of single transforms, which stand under an alias.
OF_ALIASES: Final = frozenset(
    {
        "delete.handling.mode",
        "delete.tombstone.handling.mode",
        "field.syntax.version",
        "format.from.pattern",
        "format.to.pattern",
        "header.name",
        "header.prefix.name",
        "key.enforce.uniqueness",
        "key.field.name",
        "key.field.regex",
        "key.field.replacement",
        "offset.field",
        "partition.field",
        "schema.name",
        "schema.name.adjustment.mode",
        "schema.version",
        "target.timezone",
        "target.type",
        "timestamp.field",
        "timestamp.format",
        "topic.field",
        "topic.format",
        "topic.regex",
        "topic.replacement",
        "value.literal",
        "value.type",
    }
)
GROUP: Final[Any] = get_command(app)
COMMANDS: Final = [found for page in WRITTEN for found in commands(page)]
HEADRACE: Final = [found for found in COMMANDS if found.text.startswith("headrace ")]
_OPTION: Final = re.compile(r"^([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+)(?:=\S*)?$")
_TARGET: Final = re.compile(r"^([a-z-]+):", re.MULTILINE)


def _subcommand(verb: str) -> Any:
    with typer.Context(GROUP) as context:
        return GROUP.get_command(context, verb)


@pytest.mark.parametrize("found", HEADRACE, ids=str)
def test_a_command_is_one_that_headrace_takes(found: Found) -> None:
    """Verb, options, and values of the right form."""
    words = shlex.split(re.split(r" [<>|&] ?", found.text)[0])[1:]
    assert words, found
    if words[0].startswith("-"):
        GROUP.make_context("headrace", words, resilient_parsing=True)
        return
    command = _subcommand(words[0])
    assert command is not None, f"{found}: there is no such command"
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_commands_in_the_text_name_verbs_and_options_that_exist(page: Path) -> None:
    """`headrace replay --from-start` and the like, which leave the rest out."""
    for found in spans(page):
        words = found.text.split()
        if words[0] != "headrace" or len(words) == 1 or not words[1].isalpha():
            continue
        command = _subcommand(words[1])
        assert command is not None, f"{found}: there is no such command"
        known = {option for parameter in command.params for option in parameter.opts}
        for word in words[2:]:
            assert not word.startswith("--") or word.partition("=")[0] in known, found


def test_targets_of_make_and_modules_of_python_exist() -> None:
    """In blocks and in the text."""
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    everywhere = COMMANDS + [found for page in WRITTEN for found in spans(page)]
    for found in everywhere:
        if made := re.match(r"make ((?:[a-z-]+ ?)+)", found.text):
            assert set(made[1].split()) <= targets, found
        if module := re.match(r"(?:\S*python )-m ([\w.]+)", found.text):
            assert find_spec(module[1]) is not None, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the tree, and to a heading in it; addresses of the web are not asked."""
    for found in links(page):
        if re.match(r"https?://", found.text):
            continue
        path, _, anchor = found.text.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), found
        if anchor:
            assert anchor in anchors(target), found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_are_named_exist(page: Path) -> None:
    """Whatever looks like an option, by the first word of one, is one, or is another program's."""
    known = {
        *CANONICAL,
        *WITHOUT_MEANING,
        *DECIDED_HERE,
        *BOUNDED,
        *FOREIGN,
        *OF_ALIASES,
        *WORKER_OPTIONS,
        *(option.name for vendor in VENDORS for option in vendor.options),
        *(row.name for row in (*PROPERTIES, *SOURCE_PROPERTIES)),
        *(option.name for option in OF_FRAMES),
    }
    families = tuple(family.prefix for family in FAMILIES)
    first_words = {name.partition(".")[0] for name in known} | {
        prefix.partition(".")[0] for prefix in families
    }
    for found in spans(page):
        option = _OPTION.match(found.text)
        if option is None or option[1].partition(".")[0] not in first_words:
            continue
        if option[1].endswith((".md", ".json", ".py", ".svg", ".java", ".properties")):
            continue
        assert option[1] in known or option[1].startswith(families), found


def test_every_option_of_frames_is_in_its_table() -> None:
    """With its default as it is."""
    rows = [line for line in (ROOT / "docs" / "spark.md").read_text().splitlines() if line.startswith("| `")]
    for option in OF_FRAMES:
        found = [row for row in rows if f"`{option.name}`" in row.split("|")[1]]
        assert found, option.name
        assert option.default is None or f"`{option.default}`" in found[0], option.name


def test_every_page_is_in_the_index() -> None:
    """A page that nobody finds is none."""
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / found.text).resolve() for found in links(index)}
    pages = {page for page in (ROOT / "docs").glob("*.md") if page != index}
    assert pages <= named, sorted(page.name for page in pages - named)


def test_every_command_has_its_page() -> None:
    """docs/commands.md names each, if only to say where it is explained."""
    text = (ROOT / "docs" / "commands.md").read_text()
    assert not [verb for verb in GROUP.commands if f"`{verb}`" not in text and f"headrace {verb}" not in text]


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.name)
def test_a_picture_stands_alone_and_can_be_read_in_the_dark(picture: Path) -> None:
    """Well-formed, with a title for those who do not see it, and nothing from outside."""
    text = picture.read_text()
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}  # noqa: S314 - our file
    assert "title" in tags
    assert "prefers-color-scheme: dark" in text
    assert not tags & {"image", "script", "foreignObject"}
    assert not re.search(r"url\((?!#)|href=", text)


def test_the_index_of_decisions_lists_each_with_its_status() -> None:
    """One row a page, in the order of their numbers, and a page that is superseded names its successor."""
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(
        r"^\| \[(\d{4})\]\((\S+\.md)\) \| .+ \| (.+) \|$", (folder / "README.md").read_text(), re.MULTILINE
    )

    assert [name for _, name, _ in rows] == sorted(page.name for page in folder.glob("0*.md"))
    superseded = {name for _, name, status in rows if status.startswith("superseded by")}
    assert superseded == {page.name for page in folder.glob("0*.md") if "Superseded by" in page.read_text()}


def test_an_entry_of_the_changelog_is_one_line() -> None:
    """Details have their page; the line says what changed for who runs it."""
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("  ")] == []
    assert [line for line in lines if line.startswith("- ") and len(line) > 240] == []
