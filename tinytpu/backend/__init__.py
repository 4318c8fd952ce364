"""The tinygrad backend: device, renderer and the compiler passes from UOps to TASM, in the order in which a kernel travels.

`opt` shapes the kernel, `decomp` corrects tinygrad's decompositions, `lower` makes machine IR (`mir`) of its UOps, `scratch` moves
buffers to VMEM, `emit` schedules and allocates; `renderer` calls them in turn. `device` launches, with `runtime`. `types` knows the dtypes,
`uops` what several passes ask of UOps, `hooks` installs what tinygrad must be told. Nothing here is imported before tinygrad asks for the
device (`tinytpu.boot`).
"""
