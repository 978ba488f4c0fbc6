"""What all partitions of a slot of the sink work with."""

from dataclasses import dataclass

from headrace.conversion.sink_records import SinkRecords
from spark.sink.batch_rotation import BatchRotation
from spark.sink.dead_letters import DeadLetters
from spark.sink.object_shape import ObjectShapes
from spark.sink.recurring_names import RecurringNames
from spark.sink.rotation import Rotation
from spark.sink.slot_uploads import SlotUploads
from spark.sink.small_files import SmallFiles
from spark.sink.task_settings import SinkTaskSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTools:
    """What all partitions of a slot work with. `earlier` groups by options that are no longer in force."""

    settings: SinkTaskSettings
    converter: SinkRecords
    shapes: ObjectShapes
    earlier: dict[str, ObjectShapes]
    rotation: Rotation
    batches: BatchRotation
    uploads: SlotUploads
    dead_letters: DeadLetters
    recurring: RecurringNames
    small_files: SmallFiles
