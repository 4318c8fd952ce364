"""Corrections of tinygrad's decompositions, and 64-bit division, as rewrites of UOps."""
