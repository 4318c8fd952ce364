"""The instruction set: table, encoding, reference semantics, latencies and faults."""
