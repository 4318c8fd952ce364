"""How tinygrad shapes kernels for the machine: what goes to lanes and to the matrix unit, is padded, tiled, upcast, unrolled."""
