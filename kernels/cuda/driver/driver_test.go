//go:build !nocuda && linux && amd64

package driver

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"dsstne/internal/fault"
)

// A driver is loaded once in a process, and found by LD_LIBRARY_PATH as the process began. So tests with one run this
// binary again, with a driver made for tests, and look at what a task writes.
var tasks = map[string]func() any{
	"devices": func() any {
		list, err := Devices()
		return []any{list, text(err)}
	},
	"check 7": func() any {
		_, err := Check(7)
		return []any{text(err), fault.KindOf(err)}
	},
	"open 0": func() any {
		_, err := Open(0)
		return []any{text(err), fault.KindOf(err)}
	},
	"contexts":   contexts,
	"launch":     launch,
	"images":     images,
	"graphs":     graphs,
	"meanwhile":  meanwhile,
	"order":      order,
	"peers":      peers,
	"attributes": attributes,
	"lost":       lost,
	"usage":      usage,
	"wait":       wait,
	"memory": func() any {
		c, err := Open(0)
		must(err)
		return c.Do(func() error {
			_, err := Alloc(64)
			e := err.(*Error)
			panic(answer{e.Error(), fault.KindOf(fault.Wrap(err, "weights"))})
		})
	},
}

// answer is a panic's value in tasks that have their answer before their end.
type answer []any

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	if task := tasks[os.Getenv("DRIVER_TASK")]; task != nil {
		func() {
			defer func() {
				if a, ok := recover().(answer); ok {
					must(json.NewEncoder(os.Stdout).Encode(a))
				}
			}()
			must(json.NewEncoder(os.Stdout).Encode(task()))
		}()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake makes the driver of testdata and returns its folder.
func fake(t *testing.T, options ...string) string {
	t.Helper()
	folder := t.TempDir()
	compile(t, folder, "libcuda.so.1", "driver.c", options...)
	return folder
}

// compile makes a library of a source in testdata.
func compile(t *testing.T, folder, library, source string, options ...string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	arguments := append(options, "-shared", "-fPIC", "-o", filepath.Join(folder, library),
		filepath.Join("testdata", source))
	output, err := exec.Command(compiler, arguments...).CombinedOutput()
	require.NoError(t, err, string(output))
}

// run runs a task in a process of its own, with a driver in folder.
func run(t *testing.T, task, folder string, environment ...string) string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), "DRIVER_TASK="+task, "LD_LIBRARY_PATH="+folder), environment...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(output))
}

func TestWithoutADriverEveryFunctionSaysThatThereIsNoDevice(t *testing.T) {
	_, err := cu.NumDevices()
	require.EqualError(t, wrapped("cuDeviceGetCount", err), "cuDeviceGetCount: CUDA_ERROR_100 (100)")
	require.Equal(t, fault.DeviceUnavailable, fault.KindOf(wrapped("cuDeviceGetCount", err)))
}

func TestAMachineWithoutADriverSaysSo(t *testing.T) {
	out := run(t, "devices", t.TempDir())
	if strings.Contains(out, `"Name"`) {
		t.Skip("this machine has a driver")
	}
	require.Contains(t, out, "libcuda.so.1")
	require.Contains(t, out, "not found")
}

func TestADriverThatDoesNotLoadSaysWhy(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "libcuda.so.1"), []byte("no library"), 0o755))
	require.Contains(t, run(t, "devices", folder), "does not load: ")
}

func TestEveryReasonForNoDeviceIsASentence(t *testing.T) {
	folder := fake(t)
	for setting, reason := range map[string]string{
		"FAKE_VERSION=11080": "the NVIDIA driver is too old: it supports CUDA 11.8, " +
			"and driver 525 (CUDA 12.0) or newer is needed",
		"FAKE_INIT=100": `the NVIDIA driver shows no device, and CUDA_VISIBLE_DEVICES is \"none\"`,
		"FAKE_INIT=803": "the NVIDIA driver was updated, and its kernel module is still the old one; " +
			"restart the machine",
		"FAKE_INIT=999":  "the NVIDIA driver does not start: cuInit: a fake error (CUDA_ERROR_FAKE, 999)",
		"FAKE_DEVICES=0": `the NVIDIA driver shows no device, and CUDA_VISIBLE_DEVICES is \"none\"`,
	} {
		require.Contains(t, run(t, "devices", folder, "CUDA_VISIBLE_DEVICES=none", setting), reason, setting)
	}
}

func TestAFileThatTheUserMayNotOpenIsNamed(t *testing.T) {
	defer func() { access = syscall.Access }()
	access = func(string, uint32) error { return syscall.ENOENT }
	require.Empty(t, notPermitted())
	access = func(path string, _ uint32) error {
		if path == "/dev/nvidia0" {
			return syscall.EACCES
		}
		return nil
	}
	require.Contains(t, notStarted(&Error{Name: "CUDA_ERROR_UNKNOWN"}), "no permission to use /dev/nvidia0; ")
	require.Contains(t, noDevice(), "no permission to use /dev/nvidia0; ")
}

func TestDevicesAreDescribed(t *testing.T) {
	var answer []json.RawMessage
	var list []DeviceInfo
	require.NoError(t, json.Unmarshal([]byte(run(t, "devices", fake(t), "FAKE_CAPABILITY=86")), &answer))
	require.NoError(t, json.Unmarshal(answer[0], &list))
	require.Equal(t, []DeviceInfo{
		{Name: "Fake 0", Capability: 86, Multiprocessors: 1, SharedBytes: 227 << 10, L2Bytes: 1, Memory: 8 << 30, Free: -1},
		{ID: 1, Name: "Fake 1", Capability: 86, Multiprocessors: 1, SharedBytes: 227 << 10, L2Bytes: 1,
			Memory: 9 << 30, Free: -1},
	}, list)
}

func TestADeviceThatCannotBeUsedSaysWhy(t *testing.T) {
	fits := DeviceInfo{Name: "A card", Capability: 80}
	require.Empty(t, fits.Unusable())
	fits.Mode, fits.Users = Exclusive, nil
	require.Empty(t, fits.Unusable())
	users := []User{{PID: 4711, Name: "python", Bytes: 3 << 29}, {PID: 12, Bytes: -1}}
	for reason, info := range map[string]DeviceInfo{
		"A card has compute capability 7.5, and 8.0 or newer is needed":      {Capability: 75},
		`A card is in compute mode "prohibited", in which nobody may use it`: {Capability: 90, Mode: Prohibited},
		`A card is in compute mode "exclusive process" and in use by python (pid 4711, 1.5 GiB)`: {
			Capability: 90, Mode: Exclusive, Users: users,
		},
	} {
		info.Name = "A card"
		require.Equal(t, reason, info.Unusable())
	}
	fits.Users = []User{{PID: 4710, Name: "nvidia-cuda-mps", Bytes: 3 << 20}}
	require.Empty(t, fits.Unusable(), "the server of MPS has the device, for all")
	require.Equal(t, "python (pid 4711, 1.5 GiB) and a process of another container or user (pid 12)",
		DeviceInfo{Users: users}.UsersText())
}

func TestADeviceThatIsNotThereIsToldFromThoseThatAre(t *testing.T) {
	folder := fake(t)
	require.Equal(t, `["device \"cuda:7\": it is not there; there are 2 devices, cuda:0 to cuda:1",10]`,
		run(t, "check 7", folder))
	require.Equal(t, `["device \"cuda:7\": it is not there; the only device is cuda:0",10]`,
		run(t, "check 7", folder, "FAKE_DEVICES=1"))
	require.Contains(t, run(t, "open 0", folder, "FAKE_CAPABILITY=75"), "compute capability 7.5")
}

func TestADeviceThatLetsNobodyInSaysWhatIsKnown(t *testing.T) {
	out := run(t, "open 0", fake(t), "FAKE_FAIL=cuDevicePrimaryCtxRetain=46", "FAKE_MODE=3")
	require.Equal(t, `["device \"cuda:0\", Fake 0, in compute mode \"exclusive process\": `+
		`cuDevicePrimaryCtxRetain: a fake error (CUDA_ERROR_FAKE, 46)",10]`, out)
}

func TestAFunctionThatTheDriverLacksIsNotSupported(t *testing.T) {
	require.Contains(t, run(t, "contexts", fake(t, "-DFAKE_OLD")), "801")
}

// contexts has a context of its own current while it uses two others.
func contexts() any {
	first, err := Open(0)
	must(err)
	second, err := Open(1)
	must(err)
	users, err := first.device.RetainPrimaryCtx()
	must(err)
	others, err := second.device.RetainPrimaryCtx()
	must(err)
	var seen []string
	see := func() {
		c, err := cu.CurrentContext()
		must(err)
		name := map[cu.CUContext]string{{}: "none", users: "first", others: "second"}[c]
		seen = append(seen, name)
	}
	see()
	must(second.Do(func() error {
		see()
		must(first.Do(func() error { see(); return nil }))
		see()
		return nil
	}))
	see()
	must(cu.PushCurrentCtx(users))
	must(second.Do(func() error { see(); return nil }))
	see()
	return []any{seen, text(first.Close()), text(first.Close()), text(second.Close())}
}

func TestTheCallersContextIsTheOneItWas(t *testing.T) {
	out := run(t, "contexts", fake(t))
	require.Equal(t, `[["none","second","first","second","none","second","first"],"","",""]`, out)
}

func launch() any {
	c, err := Open(0)
	must(err)
	var sum uint64
	must(c.Do(func() error {
		m, err := LoadModule([]byte("image"))
		must(err)
		k, err := m.Function("kernel")
		must(err)
		at, err := Alloc(8)
		must(err)
		args := struct {
			out        Address
			one, seven int64
		}{at, 1, 7}
		must(Launch(Stream{}, k, Dim{X: 3}, Dim{X: 5, Y: 2}, 4, &args))
		must(cu.MemcpyDtoH(unsafe.Pointer(&sum), cu.DevicePtr(at), 8))
		return Free(at)
	}))
	return sum
}

func TestALaunchHandsTheArgumentsOverAsOneBlock(t *testing.T) {
	require.Equal(t, "4125121", run(t, "launch", fake(t))) // 8 + 3 + 10 + 100, 5000 + 20000 + 100000, 4000000
}

func images() any {
	c, err := Open(0)
	must(err)
	var answer []any
	must(c.Do(func() error {
		_, err := LoadModule([]byte("nonsense"))
		answer = append(answer, text(err), fault.KindOf(err))
		_, err = Module{}.Function("nobody")
		answer = append(answer, text(err))
		return nil
	}))
	return answer
}

func TestARefusedImageComesWithTheCompilersWords(t *testing.T) {
	require.Equal(t, `["cuModuleLoadDataEx: a fake error: ptxas: it is no image (CUDA_ERROR_FAKE, 200)",8,`+
		`"cuModuleGetFunction: a fake error: nobody (CUDA_ERROR_FAKE, 500)"]`, run(t, "images", fake(t)))
}

func TestRefusedMemoryIsOutOfMemoryForTheEngine(t *testing.T) {
	require.Equal(t, `["cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)",9]`,
		run(t, "memory", fake(t), "FAKE_FAIL=cuMemAlloc_v2=2"))
}

func TestOneLostDeviceAmongOtherErrorsIsNoticed(t *testing.T) {
	unknown, failed := &Error{Code: 999}, fault.Wrap(&Error{Code: 719}, "kernel fill")
	for _, err := range []error{failed, errors.Join(unknown, failed), errors.Join(failed, unknown)} {
		require.True(t, Lost(err), err)
	}
	require.False(t, Lost(errors.Join(unknown, errors.New("other"))))
	require.False(t, Lost(nil))
}
