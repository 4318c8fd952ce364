"""From tinygrad's linear UOps to machine IR: one UOp, one operation or a few, by rules."""
