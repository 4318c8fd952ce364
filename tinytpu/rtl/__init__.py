"""The hardware: one unit per file in Amaranth, and the path from there through Verilator to a native simulation."""
