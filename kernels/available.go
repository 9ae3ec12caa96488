package kernels

import (
	"os"
	"strconv"
	"strings"
)

// HostAvailable is the memory that could be taken now, in bytes: the system's estimate, or what the cgroup still allows if
// that is less; -1 if neither can be told. Pages that only cache files count as available, since they give way.
func HostAvailable() int64 {
	available := int64(-1)
	if kilobytes, ok := field("/proc/meminfo", "MemAvailable:"); ok {
		available = kilobytes * 1024
	}
	limit, limited := number("/sys/fs/cgroup/memory.max")
	used, known := number("/sys/fs/cgroup/memory.current")
	if limited && known {
		cached, _ := field("/sys/fs/cgroup/memory.stat", "inactive_file")
		left := max(0, limit-used+cached)
		if available < 0 || left < available {
			available = left
		}
	}
	return available
}

// field reads the number behind a name in a file of lines "name number".
func field(path, name string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseInt(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// number reads a file that holds one number; "max" is none.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
