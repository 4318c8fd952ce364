"""The machine IR: operations on virtual registers, and loops; how it is built, printed and dumped, and what its accesses cost."""
