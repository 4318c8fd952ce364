"""What happens at launch: device memory, what lies in VMEM from kernel to kernel, graphs, statistics."""
