"""From machine IR to issue groups: software pipelining, register allocation, scheduling."""
