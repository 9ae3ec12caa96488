package kernels

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// system writes files below a folder, as a system shows them at its root.
func system(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return root
}

const meminfo = "MemTotal: 4000 kB\nMemAvailable:    1000 kB\n"

func TestAvailableMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known": {nil, -1},
		"no cgroup":        {map[string]string{"proc/meminfo": meminfo}, 1_024_000},
		"no limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5\n",
		}, 1_024_000},
		"cached files give way, the ones in use too": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			"sys/fs/cgroup/memory.max": "100000\n", "sys/fs/cgroup/memory.current": "90000\n",
			"sys/fs/cgroup/memory.stat": "anon 1\nfile 9\ninactive_file 2000\nactive_file 300\n",
		}, 12_300},
		"the process's own cgroup": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user/job:1\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			"sys/fs/cgroup/user/job:1/memory.max": "70000\n", "sys/fs/cgroup/user/job:1/memory.current": "20000\n",
			"sys/fs/cgroup/user/memory.max": "90000\n", "sys/fs/cgroup/user/memory.current": "30000\n",
		}, 50_000},
		"a cgroup around it": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user/job\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			"sys/fs/cgroup/user/job/memory.max": "max\n", "sys/fs/cgroup/user/job/memory.current": "20000\n",
			"sys/fs/cgroup/user/memory.max": "90000\n", "sys/fs/cgroup/user/memory.current": "30000\n",
		}, 60_000},
		"a path that is out of sight": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../host/job\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			"sys/fs/cgroup/memory.max": "30000\n", "sys/fs/cgroup/memory.current": "10000\n",
		}, 20_000},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,memory:/job\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "50000\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "40000\n",
			"sys/fs/cgroup/memory/job/memory.stat":           "inactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 500\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":     "1\n",
		}, 11_500},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, hostAvailable(system(t, c.files))) })
	}
}

func BenchmarkHostAvailable(b *testing.B) {
	for b.Loop() {
		HostAvailable()
	}
}
