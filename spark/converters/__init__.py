"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it."""
