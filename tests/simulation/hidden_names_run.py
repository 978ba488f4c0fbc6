"""What happens to names of which S3 tells nothing, and the laws about what is to have them."""

from collections.abc import Callable

from tests.simulation.course import Course
from tests.simulation.hidden_names import HIDDEN, LOOK_AFTER, LOOKED_HIDDEN
from tests.simulation.operations import Operations


class HiddenNames:
    """Of one run of the sink. `waiting` tells which partitions have records that no checkpoint has passed."""

    def __init__(self, course: Course, operations: Operations, waiting: Callable[[], list[str]]) -> None:
        self._course = course
        self._operations = operations
        self._waiting = waiting
        self.broken: list[tuple[str, str]] = []

    def acts(self) -> dict[str, Callable[..., None]]:
        """What each step does."""
        return {HIDDEN: self._hide, LOOKED_HIDDEN: self._look}

    def _hide(self, seconds: float) -> None:
        """Another program takes a name that is about to be needed, and who may see it is not told."""
        made, before = self._course.made, set(self._operations.foreign)
        self._operations.take_a_name()
        for place in self._operations.foreign.keys() - before:
            made.bucket.weather.hidden_until[place] = made.kernel.now + seconds

    def _look(self) -> None:
        """What waits for such a name is one of the problems, and holds nothing else back."""
        made, course = self._course.made, self._course
        if not course.are_running():
            return
        hidden = {
            place for place, until in made.bucket.weather.hidden_until.items() if until > made.kernel.now
        }
        wanted = {(one.bucket, one.key) for one in made.bucket.uploads.values()} & hidden
        said = "; ".join(course.problems())
        # One of those that wait for the same reason is named.
        if wanted and not any(f"s3://{bucket}/{key}" in said for bucket, key in wanted):
            what = f"{sorted(wanted)} wait for their names for {LOOK_AFTER:.0f} s"
            self.broken.append(("shown = true", f"{what}, and {said or 'nothing'} is said"))
        # After a slot is lost, a partition of which an object waits is given to none.
        own = [str(("events0", int(key.rpartition("/")[2].partition("-")[0]))) for _, key in wanted]
        if waiting := [one for one in self._waiting() if not one.startswith(tuple(own))]:
            self.broken.append(("forward", f"records wait next to a hidden name: {waiting}; {said}"))
