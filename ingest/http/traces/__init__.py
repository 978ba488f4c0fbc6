"""An object's way as an OpenTelemetry trace: made of times that the driver has anyway, and exported."""
