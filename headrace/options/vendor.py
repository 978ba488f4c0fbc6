"""What a vendor's connector is to us: its classes, what becomes of each of its options, its translation."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.names.archive_names import LayoutName
from headrace.options.direction_forms import SINK_CLASS

if TYPE_CHECKING:
    from headrace.options.vendor_translation import Translation


class Fate(StrEnum):
    """What becomes of an option of another vendor."""

    KEPT = "kept"
    CHANGED = "changed"
    NEEDLESS = "needless"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorOption:
    """One option, or a family of them where `name` ends with `*`.

    `note` says which option of ours has its meaning, how that differs, why nothing depends on it, or what to
    write instead. Options without a meaning here are `NEEDLESS` and accepted with one warning for all.
    """

    name: str
    fate: Fate
    note: str

    def matches(self, option: str) -> bool:
        """Whether a given option is this one, or one of this family."""
        if self.name.endswith("*"):
            return option.startswith(self.name[:-1])
        return option == self.name


def option_row(fate: Fate, name: str, note: str) -> VendorOption:
    """A row of a vendor's table, in the order in which it is read there."""
    return VendorOption(name=name, fate=fate, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """`name` is what its users call it; `translate` reads its options and writes those of `own_class`."""

    name: str
    layout: LayoutName
    classes: tuple[str, ...]
    options: tuple[VendorOption, ...]
    translate: "Callable[[Translation], None]"
    own_class: str = SINK_CLASS

    @property
    def is_sink(self) -> bool:
        """Whether it archives topics; otherwise it brings objects to Kafka."""
        return self.own_class == SINK_CLASS

    def option(self, name: str) -> VendorOption | None:
        """The row of an option, None where it has none of this name."""
        return next((each for each in self.options if each.matches(name)), None)
