"""The sink's driver, as pure decisions: partitions to slots, sealed objects, completion, recovery."""
