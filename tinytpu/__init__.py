"""TinyTPU: an open TPU in Python. RTL, instruction set, cycle-exact simulator and tinygrad backend."""
import os

__version__ = "0.1.0"

if not os.path.isfile(__file__):
  raise ImportError(f"TinyTPU compiles the sources that it is made of and cannot run from an archive ({os.path.dirname(__file__)}): "
                    "unpack it, or install it with pip")
