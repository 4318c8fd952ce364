"""Proofs on the RTL: what is proved (`theorems`), and how (`circuit` and `proof`). docs/prove.md is the way in."""
