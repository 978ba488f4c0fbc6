"""Options of a Java that lasts for a second or two: one compiler and a plain collector, half the CPU."""

from typing import Final

OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
