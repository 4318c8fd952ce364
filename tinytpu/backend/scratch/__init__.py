"""What a kernel keeps in VMEM while it works: whole buffers, or slabs of them, double-buffered."""
