"""TinyTPU: an open TPU in Python. RTL, instruction set, cycle-exact simulator and tinygrad backend."""
__version__ = "0.1.0"
