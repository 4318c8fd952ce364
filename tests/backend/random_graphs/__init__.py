"""Random graphs of tensors whose results are known to the bit: drawing, reference, running, cutting down a wrong one.

`tests/backend/expressions.py` is the other half: expressions whose floats are compared within a tolerance, on both engines.
"""
