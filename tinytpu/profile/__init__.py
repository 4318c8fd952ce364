"""Profiles of what tinygrad programs do on the device: where the cycles of each kernel went, and how far it is from its limits;
docs/profiling.md. `collect` gathers, `sources` has the lines, `report` says it, `page`, `perfetto`, `notebook` and `compare` show it."""
