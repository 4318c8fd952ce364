"""Benchmarks: cycles, utilisation, simulator speed. `python -m bench` runs them and appends to bench/history.jsonl."""
import os

os.environ.setdefault("TINYTPU_KERNELS", "0")  # what is measured and held against references is this compiler's, compiled now
