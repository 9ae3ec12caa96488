package main

// A backend is part of the library because it is imported here; it registers itself.
import (
	_ "dsstne/kernels/cpu"
	_ "dsstne/kernels/reference"
)
