"""Benchmarks: cycles, utilisation, simulator speed. `python -m bench` runs them and appends to bench/history.jsonl."""
