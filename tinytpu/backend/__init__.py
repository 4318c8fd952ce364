"""The tinygrad backend: device, renderer and the compiler passes from UOps to TASM.

A kernel travels through `renderer` (entry), `lower` (UOps to machine IR, with `lanes`, `select`, `registers`
and `builder`), `regalloc`, `schedule` and `text`; `device` assembles, uploads and launches it. `optimize` decides how
tinygrad shapes kernels for the machine. Nothing here is imported before tinygrad asks for the device (`tinytpu.boot`).
"""
