//go:build !nocuda && linux && amd64

package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

const nvmlLibrary = "libnvidia-ml.so.1"

// nobody is a pid that no process has: the system's are at most 2^22.
const nobody = 1<<22 + 1

// used is what is told of a device: MiB that are free, and by whom the others are used.
type used struct {
	Free  int64
	Users string
}

// usage looks at the devices twice: the library is opened once.
func usage() any {
	_, err := Devices()
	must(err)
	list, err := Devices()
	must(err)
	var answer []used
	for _, d := range list {
		answer = append(answer, used{d.Free >> 20, d.UsersText()})
	}
	return answer
}

// wait is a process that does nothing until its input ends.
func wait() any {
	_, err := io.ReadAll(os.Stdin)
	return text(err)
}

// managed makes the driver and the management library of testdata and returns their folder.
func managed(t *testing.T, options ...string) string {
	t.Helper()
	folder := fake(t)
	compile(t, folder, nvmlLibrary, "nvml.c", options...)
	return folder
}

func usageOf(t *testing.T, folder string, environment ...string) (list []used) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, "usage", folder, environment...)), &list))
	require.Len(t, list, 2)
	return list
}

// itself is what is said of the process of this test, with 1.5 GiB.
func itself(t *testing.T) string {
	name, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	return fmt.Sprintf("%s (pid %d, 1.5 GiB)", strings.TrimSpace(string(name)), os.Getpid())
}

func processes(list ...string) string { return "FAKE_NVML_PROCESSES=" + strings.Join(list, " ") }

func TestADeviceTellsWhatIsFreeAndWhoUsesTheRest(t *testing.T) {
	self := fmt.Sprintf("%d:1536", os.Getpid())
	stranger := fmt.Sprintf("a process of another container or user (pid %d", nobody)
	folder := managed(t)
	for name, c := range map[string]struct {
		settings []string
		want     used
	}{
		"nobody":                      {nil, used{3072, ""}},
		"a process":                   {[]string{processes(self)}, used{3072, itself(t)}},
		"the process that asks":       {[]string{processes("0:64")}, used{3072, ""}},
		"it is left out, others not":  {[]string{processes("0:64", self, "0:64")}, used{3072, itself(t)}},
		"a process without a name":    {[]string{processes(fmt.Sprint(nobody, ":512"))}, used{3072, stranger + ", 0.5 GiB)"}},
		"a process of unknown memory": {[]string{processes(fmt.Sprint(nobody, ":-1"))}, used{3072, stranger + ")"}},
		"two": {[]string{processes(self, fmt.Sprint(nobody, ":-1"))},
			used{3072, itself(t) + " and " + stranger + ")"}},
		"more free than there is": {[]string{"FAKE_NVML_FREE=8500", "FAKE_NVML_TOTAL=8600"}, used{8192, ""}},
		// A part of a device, whose memory is not told; who is told may use another part.
		"a part":        {[]string{"FAKE_NVML_TOTAL=81920", processes(self)}, used{-1, itself(t)}},
		"another thing": {[]string{"FAKE_NVML_TOTAL=4096", processes(self)}, used{-1, ""}},
	} {
		require.Equal(t, c.want, usageOf(t, folder, c.settings...)[0], name)
	}
	require.Equal(t, used{-1, ""}, usageOf(t, folder)[1], "it has more memory than is told")
	require.Equal(t, used{4096, ""}, usageOf(t, folder, "FAKE_NVML_TOTAL=9216", "FAKE_NVML_FREE=4096", processes(self))[1])
}

func TestWithoutTheManagementLibraryADeviceTellsWhatIsKnown(t *testing.T) {
	unknown := used{-1, ""}
	self := processes(fmt.Sprintf("%d:1536", os.Getpid()))
	require.Equal(t, used{3072, ""}, usageOf(t, managed(t, "-DFAKE_OLD"), self)[0], "it cannot tell who")
	folder := managed(t)
	require.Equal(t, unknown, usageOf(t, folder, self, "FAKE_NVML_INIT=9")[0], "it does not start")
	require.Equal(t, unknown, usageOf(t, folder, self, "FAKE_NVML_MEMORY=999")[0])
	require.NoError(t, os.WriteFile(filepath.Join(folder, nvmlLibrary), []byte("no library"), 0o755))
	require.Equal(t, unknown, usageOf(t, folder)[0], "it does not load")
	compile(t, folder, nvmlLibrary, "driver.c")
	require.Equal(t, unknown, usageOf(t, folder)[0], "it is another library")
	require.NoError(t, os.Remove(filepath.Join(folder, nvmlLibrary)))
	if out, err := exec.Command("ldconfig", "-p").Output(); err != nil || !strings.Contains(string(out), nvmlLibrary) {
		require.Equal(t, unknown, usageOf(t, folder)[0], "it is not there")
	}
}

func TestOfManyProcessesTheFirstAreNamedAndTheOthersCounted(t *testing.T) {
	folder := managed(t)
	for _, c := range []struct {
		there, grows int
		want         string
	}{
		{16, 0, ""}, {17, 0, " and 1 more"}, {64, 0, " and 48 more"}, {65, 0, " and 49 more"}, {300, 0, " and 284 more"},
		{65, 10, " and 69 more"}, // in the second look, after two answers that there is too little room
		{65, 100, ""},            // they come faster than room is made
	} {
		list := []string{"0:1"} // this process, which is not among them
		for range c.there {
			list = append(list, fmt.Sprint(nobody, ":-1"))
		}
		got := usageOf(t, folder, processes(list...), fmt.Sprint("FAKE_NVML_GROWS=", c.grows))[0]
		require.EqualValues(t, 3072, got.Free)
		if c.grows == 100 {
			require.Empty(t, got.Users)
			continue
		}
		require.Equal(t, 16, strings.Count(got.Users, "pid "), c.there)
		require.True(t, strings.HasSuffix(got.Users, ")"+c.want), "%d: %s", c.there, got.Users)
	}
}

// opened is the error of opening the first device.
func opened(t *testing.T, folder string, settings ...string) (words string, kind fault.Kind) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, "open 0", folder, settings...)), &[]any{&words, &kind}))
	return words, kind
}

func TestADeviceInExclusiveUseTellsByWhom(t *testing.T) {
	words, kind := opened(t, managed(t), "FAKE_MODE=3", "FAKE_FAIL=cuDevicePrimaryCtxRetain=46",
		processes(fmt.Sprintf("%d:1536", os.Getpid())))
	require.Equal(t, `device "cuda:0": Fake 0 is in compute mode "exclusive process" and in use by `+itself(t), words)
	require.Equal(t, fault.DeviceUnavailable, kind)
}

func TestADeviceThatDoesNotOpenTellsByWhomItIsUsed(t *testing.T) {
	folder, self := managed(t), fmt.Sprintf("%d:1536", os.Getpid())
	words, kind := opened(t, folder, "FAKE_FAIL=cuDevicePrimaryCtxRetain=2", "FAKE_NVML_FREE=102", processes(self))
	require.Equal(t, `device "cuda:0", Fake 0, 0.1 of 8.0 GiB free, used by `+itself(t)+
		`: cuDevicePrimaryCtxRetain: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)`, words)
	require.Equal(t, fault.OutOfMemory, kind)
	words, kind = opened(t, folder, "FAKE_FAIL=cuDevicePrimaryCtxRetain=46", "FAKE_MODE=3")
	require.Equal(t, `device "cuda:0", Fake 0, in compute mode "exclusive process", 3.0 of 8.0 GiB free: `+
		`cuDevicePrimaryCtxRetain: a fake error (CUDA_ERROR_FAKE, 46)`, words)
	require.Equal(t, fault.DeviceUnavailable, kind)
}

func TestADeviceThatTheServerOfMPSHasIsTriedAndTheServerNamed(t *testing.T) {
	server := filepath.Join(t.TempDir(), "nvidia-cuda-mps-server")
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, server))
	command := exec.Command(server)
	command.Env = append(os.Environ(), "DRIVER_TASK=wait")
	input, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	defer func() {
		require.NoError(t, input.Close())
		require.NoError(t, command.Wait())
	}()
	list := processes(fmt.Sprintf("%d:30", command.Process.Pid))
	folder := managed(t)
	words, _ := opened(t, folder, "FAKE_MODE=3", list)
	require.Empty(t, words)
	words, _ = opened(t, folder, "FAKE_MODE=3", "FAKE_FAIL=cuDevicePrimaryCtxRetain=46", list)
	require.Contains(t, words, fmt.Sprintf("3.0 of 8.0 GiB free, used by nvidia-cuda-mps (pid %d, 0.0 GiB): ",
		command.Process.Pid))
}
