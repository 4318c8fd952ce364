"""Training and generation with plain tinygrad, for reading: docs/training.md and docs/generation.md tell what they show.

Each runs on any device of tinygrad; cycles are known on TINYTPU: `DEV=TINYTPU python -m examples.digits`.
"""
