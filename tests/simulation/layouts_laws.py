"""The laws, as they are about objects of other vendors' layouts: names, rows and parts are the records'."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.model.errors import HeadraceError
from tests.simulation.archive_rows import Row
from tests.simulation.laws import Finding
from tests.simulation.layouts_parts import (
    difference_in_key,
    difference_in_restored,
    difference_in_value,
    is_same_headers,
)
from tests.simulation.layouts_records import number_in_key, number_of_given
from tests.simulation.layouts_restore import restored_rows
from tests.simulation.layouts_rows import UNTOLD, Look, Name, looks, name_of, side_rows
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_laws import judge, letters_of
from tests.simulation.sink_run import Outcome, Place

_Found = tuple[Place, Given]
_TOMBSTONES: Final = "/tombstone/"


def judge_layouts(scenario: Scenario, outcome: Outcome, calm: Outcome | None) -> list[Finding]:
    """All that is against a law; `calm` are the same records with nothing that went wrong."""
    read = Archive(scenario, outcome)
    outcome.rows, outcome.set_aside = read.rows, read.set_aside
    broken = read.broken
    if calm is not None:
        undisturbed = Archive(scenario, calm)
        calm.rows = undisturbed.rows
        broken += [Finding(one.law, f"undisturbed: {one.sentence}") for one in undisturbed.broken]
    return [*judge(scenario, outcome, calm, group=_group), *broken]


def _group(row: Row) -> str:
    """What of a name the record decides: the directories."""
    return "" if row.fields["anonymous"] else row.key.rpartition("/")[0]


def stem_of(key: str) -> str:
    """What an object and those next to it have in common."""
    directory, _, file = key.rpartition("/")
    return f"{directory}/{file.partition('.')[0]}"


class Archive:
    """The objects of a run, each held against the records."""

    def __init__(self, scenario: Scenario, outcome: Outcome) -> None:
        self._options = scenario.options
        self._objects = outcome.objects
        self._layout = scenario.options["output.layout"]
        self._changes = {name for step in scenario.steps for name in step.given.get("options", ())}
        records = [*outcome.earlier, *outcome.expected.items()]
        self._records: dict[int, _Found] = {
            number: one for one in records if (number := number_of_given(one[1], self._options)) is not None
        }
        self._places: dict[Place, list[Given]] = {}
        """The records that had a place one after the other, as logs are cut off and topics made again."""
        for place, given in records:
            self._places.setdefault(place, []).append(given)
        # Of all lives of a topic: two of them have the same place.
        self._nulls = sorted((one for one in records if one[1].value is None), key=lambda one: one[0])
        apart = "sidecars.tombstones.directory"
        self._has_tombstones_apart = apart in scenario.options and "sidecars" not in self._changes
        self._lettered = set(letters_of(outcome))
        # At least once, what is next to values is put first: a topic that is made again, another bucket,
        # records that are deleted before they are read again, and an operator who stops it leave it alone.
        is_exact = scenario.options.get("exactly.once.support") != "disabled"
        # Of two buckets both may have it.
        self._repeats = not is_exact or any(step.act in ("rewind", "reset") for step in scenario.steps)
        is_moved = "aws.s3.bucket.name" in self._changes or any(
            step.act in ("topic again", "retention", "pause connector") for step in scenario.steps
        )
        self._loses_values = not is_exact and is_moved
        self._placed: set[int] = set()
        self._here: set[int] = set()
        """Of the object that is read now."""
        self._loses_sides = any(step.act == "uploads ended" for step in scenario.steps)
        # Another program may put something under a name that is free again; an upload of an attempt that was
        # not taken is ended after the objects were made.
        others = {"deleted", "foreign", "aborted"}
        self._made = {key: at for at, what, key, _ in outcome.history if what not in others}
        self._foreign = {stem_of(key) for key in outcome.foreign}
        """Of objects that are not completed, as one of theirs has a name that is taken."""
        self._uploads = outcome.uploads
        # A sink that an operator has stopped may end between two of the objects of one name.
        is_whole = outcome.ending in ("exit 0", "exit 5")
        self._halfway = set() if is_whole else {stem_of(key) for key in outcome.uploads}
        self.set_aside: set[Place] = set()
        self.rows: list[Row] = []
        self.broken: list[Finding] = []
        self._read()

    def _break(self, sentence: str) -> None:
        self.broken.append(Finding("layout", sentence))

    def _read(self) -> None:
        names = {key: name_of(self._layout, key) for key in sorted(self._objects)}
        sides: dict[str, dict[str, str]] = {}
        again: list[tuple[str, str]] = []
        for key, name in names.items():
            if name is None:
                self._break(f"{key} is no name of the layout")
            elif not name.side and "" in sides.get(stem_of(key), ()):
                # Put again, at least once, in another format or compression.
                again.append((stem_of(key), key))
            else:
                sides.setdefault(stem_of(key), {})[name.side] = key
        objects = [*sides.items(), *((stem, {**sides[stem], "": key}) for stem, key in again)]
        for stem, kinds in objects:
            name = names[kinds.get("", next(iter(kinds.values())))]
            assert name is not None, "those without one are left out"
            # Of tombstones the keys are all there is.
            is_lost = (self._loses_values or self._loses_sides) and "tombstone" not in stem
            if "" not in kinds and (is_lost or stem in self._foreign | self._halfway):
                continue
            if "" not in kinds and "keys" not in kinds:
                self._break(f"{kinds} have no values next to them")
                continue
            try:
                found = self._rows_of(name, kinds)
            except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
                self._break(f"{stem} cannot be read: {type(error).__name__}: {error}")
                continue
            self._hold(name, kinds.get("", kinds.get("keys", stem)), found)
            if "" in kinds:
                self._restore(kinds[""], found)
        self._read_set_aside(sides)

    def _read_set_aside(self, sides: Mapping[str, Mapping[str, str]]) -> None:
        """What of objects with a name that is taken has stayed uploads, and is told where it is."""
        found = {stem: {**sides.get(stem, {})} for stem in self._foreign if "" not in sides.get(stem, ())}
        for key, body in self._uploads.items():
            name = name_of(self._layout, key)
            # An attempt that was cut off may have left an upload of what another one has completed.
            if name is not None and stem_of(key) in found and key not in self._objects:
                found[stem_of(key)][name.side] = key
                self._objects = {**self._objects, key: body}
        for kinds in found.values():
            if name := name_of(self._layout, kinds.get("", kinds.get("keys", ""))):
                self.set_aside.update(one[0] for _, one in self._rows_of(name, kinds, is_whole=False) if one)

    def _rows_of(
        self, name: Name, kinds: Mapping[str, str], *, is_whole: bool = True
    ) -> list[tuple[Look, _Found | None]]:
        """The rows of an object, with what is next to it, and their records; `is_whole`: all is there."""
        options = self._options
        keys, headers = (
            None if side not in kinds else self._side(name, kinds[side], side) for side in ("keys", "headers")
        )
        if "" in kinds:
            rows = looks(self._objects[kinds[""]], options)
        else:
            rows = [Look(number_in_key(key), None, key) for key in keys or ()]
        for side, found in (("keys", keys), ("headers", headers)):
            if found is not None and len(found) != len(rows):
                self._break(f"{kinds[side]} has {len(found)} rows for {len(rows)}")
        if keys is not None and len(keys) == len(rows):
            rows = [
                look._replace(key=key, number=number_in_key(key) if look.number is None else look.number)
                for look, key in zip(rows, keys, strict=True)
            ]
        self._here = set()
        if headers is None or len(headers) != len(rows):
            placed = [(look, self._place(name, look)) for look in rows]
        else:
            placed = [(look, self._place(name, look, own)) for look, own in zip(rows, headers, strict=True)]
            for (_, record), own in zip(placed, headers, strict=True):
                if record is not None and not self._may_have_headers(record, own):
                    self._break(f"{kinds['headers']}: {record[0]} has the headers {own!r}")
        if is_whole:
            self._hold_partners(kinds)
        return placed

    def _side(self, name: Name, key: str, side: str) -> list[Any]:
        options = self._options
        endings = {".avro": "avro", ".parquet": "parquet", ".json": "jsonl"}
        form = next((form for ending, form in endings.items() if ending in key.rpartition("/")[2]), "bytes")
        separator = options.get("output.separator", "\\n").replace("\\n", "\n")
        return side_rows(name._replace(side=side), self._objects[key], form, separator)

    def _may_have_headers(self, record: _Found, own: Any) -> bool:
        """Whether these are the record's, or may be as a transform adds one; None: they are not told."""
        if own is None or self._options.get("transforms") == "header":
            return True
        return is_same_headers([(one["key"], one["value"]) for one in own], record[1].headers)

    def _hold_partners(self, kinds: Mapping[str, str]) -> None:
        """What is next to values is there, and was before them."""
        if "sidecars" in self._changes:
            return
        wanted = [role for role in self._options.get("sidecars", "").split(",") if role]
        base = kinds.get("", kinds.get("keys", ""))
        for role in wanted:
            if role not in kinds:
                # What a rule of the bucket has ended before it was completed is quarantined, and said.
                if self._loses_sides:
                    continue
                self._break(f"{base} has no {role} next to it")
            elif self._made[kinds[role]] > self._made[base]:
                self._break(f"{kinds[role]} was made after {base}")

    def _place(self, name: Name, look: Look, headers: Any = None) -> _Found | None:
        """The record of a row; of one that shows no more than headers a tombstone that has no row yet."""
        if look.number is not None:
            return self._records.get(look.number)
        if look.offset is not UNTOLD:
            return self._at((name.topic, name.partition, int(look.offset)), look)
        own = [at for at, (place, _) in enumerate(self._nulls) if place[:2] == (name.topic, name.partition)]
        # Objects are not read in the order of their offsets, where a date is in their names.
        own.sort(
            key=lambda at: (
                not name.may_have(self._nulls[at][0][2]),
                not self._may_have_headers(self._nulls[at], headers),
            )
        )
        free = [at for at in own if at not in self._placed and self._nulls[at][0] not in self._lettered]
        sure = (at for at in free if name.may_have(self._nulls[at][0][2]))
        chosen = next(sure if self._repeats else iter(free), None)
        if self._repeats and chosen is None:
            # It is archived again under the name that it had, each once in an object.
            end = (name.topic, name.partition, name.offset)
            again = (
                at
                for at in own
                if self._nulls[at][0] >= end
                and at not in self._here
                and self._nulls[at][0] not in self._lettered
            )
            chosen = next(again, next(iter(free), None))
        if chosen is None:
            return None
        self._placed.add(chosen)
        self._here.add(chosen)
        return self._nulls[chosen]

    def _at(self, place: Place, look: Look) -> _Found | None:
        """Of the records that had the place the newest that the row may be of; else the newest."""
        given = self._places.get(place, [])[::-1]
        fitting = [one for one in given if self._is_of(look, place, one)]
        return next(((place, one) for one in [*fitting, *given]), None)

    def _is_of(self, look: Look, place: Place, given: Given) -> bool:
        return (
            look.timestamp_ms in (UNTOLD, given.timestamp_ms)
            and difference_in_value(look.value, place, given, self._options) is None
            and difference_in_key(look.key, given, self._options) is None
        )

    def _hold(self, name: Name, key: str, found: list[tuple[Look, _Found | None]]) -> None:
        """Rows and name of one object against the records."""
        is_apart = self._has_tombstones_apart and _TOMBSTONES not in key
        if is_apart and any(look.value is None for look, _ in found):
            self._break(f"{key} has a tombstone among its values")
        offsets, stamps = self._hold_rows(name, key, found)
        shown = [offset for offset in offsets if offset is not None]
        if shown != sorted(set(shown)):
            self._break(f"{key} has its rows in the order {shown}")
        end = offsets[-1 if name.is_last else 0] if offsets else None
        if end is not None and end != name.offset:
            which = "last" if name.is_last else "first"
            self._break(f"{key} shows {name.offset}, and its {which} record is {end}")
        is_sure = name.times is not None and None not in offsets and bool(stamps)
        if is_sure and name.times != (min(stamps), max(stamps)):
            self._break(f"{key} shows {name.times}, and its records are of {min(stamps)} to {max(stamps)}")

    def _hold_rows(
        self, name: Name, key: str, found: list[tuple[Look, _Found | None]]
    ) -> tuple[list[int | None], list[int]]:
        """Each row against its record; offsets, None where a row shows nothing, and times of the records."""
        offsets: list[int | None] = []
        stamps: list[int] = []
        for look, record in found:
            if record is None:
                self.broken.append(Finding("once", f"{key}: {look} is of no record"))
                continue
            place, given = record
            topic, partition, offset = place
            fields = {"anonymous": look.is_anonymous, "given": given}
            self.rows.append(Row(key, topic, partition, offset, fields))
            stamps.append(given.timestamp_ms)
            offsets.append(None if look.is_anonymous else offset)
            if (topic, partition) != (name.topic, name.partition):
                self._break(f"{key} has a row of {topic}/{partition}")
            if look.offset is not UNTOLD and look.offset != offset:
                self._break(f"{key}: {place} shows the offset {look.offset}")
            for what, difference in (
                ("value", difference_in_value(look.value, place, given, self._options)),
                ("key", difference_in_key(look.key, given, self._options)),
            ):
                if difference is not None:
                    self._break(f"{key}: the {what} of {place} is another one: {difference}")
        return offsets, stamps

    def _restore(self, key: str, found: list[tuple[Look, _Found | None]]) -> None:
        """The product's own reader gives the same records in the same order."""
        options = self._options
        is_raw = options["output.format"] in ("text", "bytes")
        if is_raw or (options["output.layout"], options["output.format"]) == ("lenses", "csv"):
            return
        try:
            rows = restored_rows(options, key.partition("/")[2], self._objects[key])
        except (HeadraceError, AssertionError) as error:
            self._break(f"{key} cannot be restored: {error}")
            return
        if len(rows) != len(found):
            self._break(f"{key} has {len(found)} rows and is restored as {len(rows)}")
            return
        for row, (look, record) in zip(rows, found, strict=True):
            if record is None or look.is_anonymous:
                continue
            difference = difference_in_restored(row, record, options)
            if difference is not None:
                self._break(f"{key}: {record[0]} is restored with another {difference}")
