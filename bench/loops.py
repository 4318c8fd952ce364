"""Two busy loops in assembly, for measuring simulator speed: every operand in VMEM, no memory waits."""
from __future__ import annotations

from tinytpu.config import Config

ELEMENTWISE = """
# the float32 additions of a tile every two cycles (more where a tile takes beats): the load port is the limit
.kernel elementwise
.arg 0 var passes
  smov s1, 0
  smov s2, 0x1000
  smov s3, 0x2000
loop s32, end
  vld.w v1, [s1] ; vfadd v5, v1, v2 ; vst.w v5, [s3] ; sadd s4, s1, {two_tiles}
  vld.w v2, [s2] ; sand s4, s4, 0xFFF
  vld.w v3, [s1 + s0 + {elements}] ; vfadd v6, v3, v4 ; vst.w v6, [s3 + s0 + {elements}] ; sadd s1, s4, 0
  vld.w v4, [s2 + s0 + {elements}] ; lend
end:
  halt
"""

GEMM = """
# float32 matrix steps back to back: the array is the limit
.kernel gemm
.arg 0 var passes
  smov s1, 0
  smov s2, 0x1000
loop s32, end
  vld.w v1, [s1] ; mmf p0, v3, v4 ; sadd s3, s1, {tile}
  vld.w v2, [s2]
  sand s1, s3, 0xFFF
  nop
  vld.w v3, [s1] ; mmf p1, v1, v2 ; sadd s3, s2, {tile}
  vld.w v4, [s2]
  sand s2, s3, 0x1FFF
  lend
end:
  halt
"""

LOOPS = {"elementwise": ELEMENTWISE, "gemm": GEMM}


def loops(config: Config) -> dict[str, str]:
  """The loops as assembly text for tiles of `config`, by name."""
  sizes = {"tile": config.tile_bytes, "two_tiles": 2 * config.tile_bytes, "elements": config.width}
  return {name: text.format_map(sizes) for name, text in LOOPS.items()}
