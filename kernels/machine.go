package kernels

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Processor describes the CPU of the machine.
type Processor struct {
	Model          string   `json:"model,omitempty"`
	Features       []string `json:"features"`                  // of those below, the ones the CPU and the system offer
	InstructionSet string   `json:"instruction_set,omitempty"` // what the CPU backend runs with
	Threads        int      `json:"threads,omitempty"`         // used unless told otherwise
}

// MemorySizes describes the memory of the machine, in bytes.
type MemorySizes struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
	Allocated int64 `json:"allocated"` // by the library outside the Go heap
}

// features are the CPU flags that decide about kernels, as /proc/cpuinfo spells them.
var features = []string{
	"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "amx_bf16",
	"asimd", "asimdhp", "bf16", "sve",
}

// ReadProcessor describes the CPU, which host computes on.
func ReadProcessor(host DeviceInfo) Processor {
	p := Processor{Features: []string{}, InstructionSet: host.Kind, Threads: host.Threads}
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

// ReadMemory describes the memory, of which host may use a part.
func ReadMemory(host DeviceInfo) MemorySizes {
	m := MemorySizes{Available: host.Available, Allocated: allocated.Load()}
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		m.Total = int64(info.Totalram) * int64(info.Unit)
	}
	return m
}
