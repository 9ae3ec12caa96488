package main

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"syscall"

	"dsstne/kernels"
)

// processor is what dsstne_describe tells about the CPU.
type processor struct {
	Model          string   `json:"model,omitempty"`
	Features       []string `json:"features"`                  // of those that matter here, what the CPU and the system offer
	InstructionSet string   `json:"instruction_set,omitempty"` // what the CPU backend runs with
	Threads        int      `json:"threads,omitempty"`         // used unless told otherwise
}

// memory is what dsstne_describe tells about memory, in bytes.
type memory struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
}

// features are the CPU flags that decide about kernels, as /proc/cpuinfo spells them.
var features = []string{
	"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "amx_bf16",
	"asimd", "asimdhp", "bf16", "sve",
}

func readProcessor(devices []kernels.DeviceInfo) processor {
	p := processor{Features: []string{}}
	for _, d := range devices {
		if d.Name == "cpu" {
			p.InstructionSet, p.Threads = d.Kind, d.Threads
		}
	}
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return p // a description without it is still one
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name":
			p.Model = strings.TrimSpace(value)
		case "flags", "Features":
			offered := strings.Fields(value)
			for _, feature := range features {
				if slices.Contains(offered, feature) {
					p.Features = append(p.Features, feature)
				}
			}
			return p
		}
	}
	return p
}

func readMemory(devices []kernels.DeviceInfo) memory {
	var m memory
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		m.Total = int64(info.Totalram) * int64(info.Unit)
	}
	for _, d := range devices {
		if d.Name == "cpu" {
			m.Available = d.Available
		}
	}
	return m
}
