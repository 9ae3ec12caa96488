//go:build !nocuda && linux && amd64

package cuda

import (
	"math"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/internal/random"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// emulator is the driver of tests/cudaemu, which `make test-go` builds.
const emulator = "../../build/cudaemu"

// The driver is found as the process begins. So these tests run again in a process that finds the emulator, if there is
// one; with DSSTNE_TEST_DRIVER=real they run on the machine's own driver.
func TestMain(m *testing.M) {
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		if _, err := os.Stat(emulator + "/libcuda.so.1"); err == nil {
			again := exec.Command(os.Args[0], os.Args[1:]...)
			again.Env = append(os.Environ(), "DSSTNE_TEST_DRIVER=emulator", "LD_LIBRARY_PATH="+emulator)
			again.Stdout, again.Stderr = os.Stdout, os.Stderr
			if again.Run() != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// firstDevice opens the first device and loads the kernels that fit it.
func firstDevice(t *testing.T) driver.Module {
	t.Helper()
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		t.Skip("neither the emulator (make test-go builds it) nor a device that was asked for (DSSTNE_TEST_DRIVER=real)")
	}
	info, err := driver.Check(0)
	require.NoError(t, err)
	context, err := driver.Open(0)
	require.NoError(t, err)
	leave, err := context.Enter()
	require.NoError(t, err)
	name, image := imageFor(info.Capability)
	module, err := driver.LoadModule(image)
	require.NoError(t, err, name)
	t.Cleanup(func() {
		require.NoError(t, module.Unload())
		leave()
		require.NoError(t, context.Close())
	})
	return module
}

// fillArgs is FillArgs of src/fill.cu.
type fillArgs struct {
	out           driver.Address
	rows, columns int64
	seed          uint64
	stream        uint32
	kind          kernels.FillKind
	scale         float32
}

func TestFillOnTheDeviceHasTheBitsOfTheEngine(t *testing.T) {
	module := firstDevice(t) // whose context is this goroutine's: no subtests
	kernel, err := module.Function("fill")
	require.NoError(t, err)
	stream, err := driver.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, stream.Close()) }()
	for _, shape := range [][2]int64{{1, 1}, {3, 5}, {100, 64}, {7, 1023}, {0, 4}, {5, 0}} {
		for _, kind := range []kernels.FillKind{kernels.FillConstant, kernels.FillUniform, kernels.FillNormal} {
			args := fillArgs{0, shape[0], shape[1], 0x123456789abcdef0, random.StreamInit | 3, kind, 0.25}
			require.Equal(t, filled(args), fillOn(t, stream, kernel, args), "%d x %d, kind %d", shape[0], shape[1], kind)
		}
	}
}

// guard is how many numbers behind the matrix must stay what they were.
const guard = 8

// fillOn runs the kernel.
func fillOn(t *testing.T, stream driver.Stream, kernel driver.Kernel, args fillArgs) []float32 {
	got := make([]float32, args.rows*args.columns+guard)
	bytes := int64(4 * len(got))
	at, err := driver.Alloc(bytes)
	require.NoError(t, err)
	args.out = at
	require.NoError(t, stream.Fill32(at, math.Float32bits(-7), int64(len(got))))
	require.NoError(t, driver.Launch(stream, kernel, driver.Dim{X: 3}, driver.Dim{X: 256}, 0, &args))
	require.NoError(t, stream.CopyToHostAsync(unsafe.Pointer(&got[0]), at, bytes))
	require.NoError(t, stream.Synchronize())
	require.NoError(t, driver.Free(at))
	return got
}

// filled is what the engine says.
func filled(args fillArgs) []float32 {
	want := make([]float32, args.rows*args.columns+guard)
	for i := range want {
		want[i] = args.scale
	}
	for i := range guard {
		want[len(want)-1-i] = -7
	}
	for row := range args.rows {
		switch part := want[row*args.columns : (row+1)*args.columns]; args.kind {
		case kernels.FillUniform:
			random.FillUniform(part, args.seed, args.stream, row, -args.scale, args.scale)
		case kernels.FillNormal:
			random.FillNormal(part, args.seed, args.stream, row, 0, args.scale)
		}
	}
	return want
}

// A digit that differs far behind the point changes few float32 numbers, which a comparison of results may miss.
func TestTheCoefficientsOfNormalNumbersAreThoseOfTheHost(t *testing.T) {
	coefficient := regexp.MustCompile(`\d\.\d{15,}(e-?\d+)?`)
	host, err := os.ReadFile("../../internal/random/normal.go")
	require.NoError(t, err)
	want := coefficient.FindAllString(string(host), -1)
	require.NotEmpty(t, want)
	for _, path := range []string{"src/normal.cuh", "../cpu/c/fill.h"} {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Subset(t, coefficient.FindAllString(string(source), -1), want, path)
	}
}
