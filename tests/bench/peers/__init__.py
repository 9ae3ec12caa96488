"""The peers, each at its best setting."""

# Read when the process starts. PyTorch frees and takes hundreds of megabytes in every step; glibc gives them back to
# the system each time unless told not to, and PyTorch asks for huge pages only if told to. Together they make its step
# of DSSTNE's benchmark network a seventh faster, eager as compiled.
TORCH_ENVIRONMENT = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(100 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
