//go:build !nocuda && linux && amd64

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "dsstne/kernels/cuda"
)

// A driver is found as the process begins. So the tests run again in a process that finds the emulated one, which `make
// test-go` builds; DSSTNE_TEST_DRIVER=real keeps them on the machine's own.
func TestMain(m *testing.M) {
	folder, err := filepath.Abs("../../build/cudaemu")
	if _, missing := os.Stat(folder + "/libcuda.so.1"); err != nil || missing != nil || os.Getenv("DSSTNE_TEST_DRIVER") != "" {
		os.Exit(m.Run())
	}
	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Env = append(os.Environ(), "DSSTNE_TEST_DRIVER=emulator", "DSSTNE_CUDAEMU_QUIET=1", "LD_LIBRARY_PATH="+folder,
		"DSSTNE_CUDAEMU_L2=1048576") // so that items are cut into several chunks
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	var ended *exec.ExitError
	if err := again.Run(); errors.As(err, &ended) {
		os.Exit(max(1, ended.ExitCode()))
	} else if err != nil {
		panic(err)
	}
}
