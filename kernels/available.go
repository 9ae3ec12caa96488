package kernels

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// HostAvailable is the memory that could be taken now, in bytes: the system's estimate, or what the process's cgroups
// still allow or LimitHost leaves if that is less; -1 if nothing is known. Pages that only cache files count as
// available, since they give way.
func HostAvailable() int64 {
	available := hostAvailable("")
	if limit := hostLimit.Load(); limit > 0 {
		left := max(0, limit-allocated.Load())
		if available < 0 || left < available {
			return left
		}
	}
	return available
}

// hostAvailable looks at the system whose files are below root.
func hostAvailable(root string) int64 {
	available := int64(-1)
	if kilobytes, ok := field(read(root+"/proc/meminfo"), "MemAvailable:"); ok {
		available = kilobytes * 1024
	}
	memory, group := root+"/sys/fs/cgroup", version2
	at, found := cgroup(root+"/proc/self/cgroup", "")
	if _, err := os.Stat(memory + "/cgroup.controllers"); !found || err != nil {
		memory, group = root+"/sys/fs/cgroup/memory", version1
		at, _ = cgroup(root+"/proc/self/cgroup", "memory")
	}
	// A cgroup is also held to the limits of those around it. Some may be out of sight, as in most containers.
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		available = group.least(path.Join(memory, at), available)
		if at == "/" {
			return available
		}
	}
}

// cgroupFiles are the names that one version of cgroups has for its numbers.
type cgroupFiles struct{ limit, used, inactive, active string }

var (
	version1 = cgroupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"}
	version2 = cgroupFiles{"memory.max", "memory.current", "inactive_file", "active_file"}
)

// least is what is available, or what the cgroup in a folder still allows if it has a limit and that is less.
func (c cgroupFiles) least(folder string, available int64) int64 {
	limit, limited := number(read(path.Join(folder, c.limit)))
	const none = 1 << 62 // version 1 writes about 2^63 for no limit
	if !limited || limit > none {
		return available
	}
	used, known := number(read(path.Join(folder, c.used)))
	if !known || available >= 0 && limit-used >= available {
		return available // without a look at the cached files, which takes the system long
	}
	statistics := read(path.Join(folder, "memory.stat"))
	inactive, _ := field(statistics, c.inactive)
	active, _ := field(statistics, c.active)
	if left := max(0, limit-used+inactive+active); available < 0 || left < available {
		return left
	}
	return available
}

// cgroup is the path of the process in the hierarchy of a controller; version 2 has one hierarchy, without a name.
func cgroup(file, controller string) (string, bool) {
	for line := range strings.Lines(read(file)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], true
		}
	}
	return "", false
}

// read is the text of a file; "" if it cannot be read.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// field is the number behind a name in lines "name number".
func field(lines, name string) (int64, bool) {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, name) { // most lines end here
			if words := strings.Fields(line); len(words) > 1 && words[0] == name {
				return number(words[1])
			}
		}
	}
	return 0, false
}

// number is the number that a text consists of; "max" is none.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil
}
