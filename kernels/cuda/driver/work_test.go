//go:build !nocuda && linux && amd64

package driver

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"dsstne/internal/fault"
)

// What needs a driver that computes is tested on the emulator of tests/cudaemu, with the kernel "fill" of ../src.

// emulator is the folder of the emulator's libcuda.so.1.
func emulator(t *testing.T) string {
	folder, err := filepath.Abs("../../../build/cudaemu")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(folder, "libcuda.so.1")); err != nil {
		t.Skip("the emulator is not built; make test-go builds it")
	}
	return folder
}

// fillArgs is FillArgs of ../src/fill.cu, with the kind "constant".
type fillArgs struct {
	out           Address
	rows, columns int64
	_             uint64 // seed
	_, _          uint32 // stream, kind
	scale         float32
}

// workshop is a context with what a task needs in it.
type workshop struct {
	context *Context
	stream  Stream
	fill    Kernel
	a, b    Address
}

const numbers = 1000

// work runs a task in the context of a device.
func work(id int, task func(w workshop)) {
	c, err := Open(id)
	must(err)
	must(c.Do(func() error {
		image, err := os.ReadFile("../images/compute_80.ptx")
		must(err)
		m, err := LoadModule(image)
		must(err)
		w := workshop{context: c}
		w.fill, err = m.Function("fill")
		must(err)
		w.stream, err = NewStream()
		must(err)
		w.a, err = Alloc(4 * numbers)
		must(err)
		w.b, err = Alloc(4 * numbers)
		must(err)
		task(w)
		must(Free(w.a))
		must(Free(w.b))
		must(w.stream.Close())
		return m.Unload()
	}))
	must(c.Close())
}

func (w workshop) launch(scale float32) error {
	a := &fillArgs{out: w.a, rows: 1, columns: numbers, scale: scale}
	return Launch(w.stream, w.fill, Dim{X: 4}, Dim{X: 256}, 0, a)
}

// value is a number out of the second buffer, all of which are to be equal.
func (w workshop) value() float32 {
	var host [numbers]float32
	must(w.stream.Synchronize())
	must(cu.MemcpyDtoH(unsafe.Pointer(&host), cu.DevicePtr(w.b), 4*numbers))
	for _, x := range host {
		if x != host[0] {
			panic("the numbers differ")
		}
	}
	return host[0]
}

func graphs() any {
	var answer []any
	work(0, func(w workshop) {
		capture := func(scale float32, copies int) Graph {
			g, err := w.stream.Capture(func() error {
				must(w.launch(scale))
				for range copies {
					must(w.stream.Copy(w.b, w.a, 4*numbers))
				}
				return nil
			})
			must(err)
			return g
		}
		must(w.stream.Fill32(w.b, 0, numbers))
		g := capture(2.5, 1)
		answer = append(answer, w.value())
		e, err := g.Instantiate()
		must(err)
		for range 3 {
			must(e.Launch(w.stream))
		}
		answer = append(answer, w.value())
		_, err = w.stream.Capture(func() error { return newError("record", 1) })
		answer = append(answer, err != nil)
		must(w.launch(9)) // the stream works again
		must(w.stream.Synchronize())
		must(g.Close())
		must(e.Close())
	})
	return answer
}

func TestACapturedGraphIsNotRunUntilItIsLaunchedAndRunsAgain(t *testing.T) {
	require.Equal(t, `[0,2.5,true]`, run(t, "graphs", emulator(t)))
}

// meanwhile returns what a thread may do while it captures, and what others may.
func meanwhile() any {
	var answer []any
	work(0, func(w workshop) {
		allocate := func() bool {
			at, err := Alloc(100)
			if err == nil {
				must(Free(at))
			}
			return err == nil
		}
		g, err := w.stream.Capture(func() error {
			others := make(chan bool)
			go func() {
				must(w.context.Do(func() error {
					others <- allocate()
					return nil
				}))
				close(others)
			}()
			answer = append(answer, <-others)
			<-others
			return w.launch(1)
		})
		must(err)
		must(g.Close())
		_, err = w.stream.Capture(func() error {
			return w.context.Do(func() error {
				answer = append(answer, allocate())
				return nil
			})
		})
		answer = append(answer, text(err))
	})
	return answer
}

func TestACaptureRestrainsItsOwnThreadOnly(t *testing.T) {
	require.Equal(t, `[true,false,"cuStreamEndCapture: stream capture invalidated `+
		`(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)"]`,
		run(t, "meanwhile", emulator(t)))
}

func order() any {
	var answer []any
	work(0, func(w workshop) {
		second, err := NewStream()
		must(err)
		before, err := NewEvent()
		must(err)
		after, err := NewEvent()
		must(err)
		host, err := HostAlloc(4 * numbers)
		must(err)
		must(w.stream.Record(before))
		must(w.launch(3))
		must(w.stream.Record(after))
		must(second.Wait(after))
		must(second.CopyToHostAsync(host, w.a, 4*numbers))
		must(second.Synchronize())
		happened, err := after.Happened()
		must(err)
		answer = append(answer, *(*float32)(host), happened)
		*(*float32)(host) = 5
		must(second.CopyToDeviceAsync(w.b, host, 4))
		must(second.Fill8(w.b+4, 0, 4*numbers-4))
		must(second.Synchronize())
		must(cu.MemcpyDtoH(host, cu.DevicePtr(w.b), 8))
		answer = append(answer, *(*[2]float32)(host))
		must(HostFree(host))
		must(before.Close())
		must(after.Close())
		must(second.Close())
	})
	return answer
}

func TestStreamsWaitForEventsAndCopyPinnedMemory(t *testing.T) {
	require.Equal(t, `[3,true,[5,0]]`, run(t, "order", emulator(t)))
}

func peers() any {
	var answer []any
	work(0, func(first workshop) {
		must(first.launch(7))
		must(first.stream.Synchronize())
		work(1, func(second workshop) {
			reaches, err := second.context.Reaches(first.context)
			must(err)
			must(second.stream.CopyPeer(second.b, second.context, first.a, first.context, 4*numbers))
			answer = append(answer, second.value())
			if reaches {
				must(second.context.EnablePeer(first.context))
				must(second.context.EnablePeer(first.context))
				must(second.stream.Fill32(second.b, 0, numbers))
				must(second.stream.Copy(second.b, first.a, 4*numbers))
			}
			answer = append(answer, second.value())
		})
	})
	return answer
}

func TestDevicesCopyFromEachOther(t *testing.T) {
	require.Equal(t, `[7,7]`, run(t, "peers", emulator(t)))
}

func attributes() any {
	var answer []any
	work(0, func(w workshop) {
		must(w.fill.AllowShared(64 << 10))
		free, total, err := MemoryInfo()
		must(err)
		_, err = Alloc(total + 1)
		answer = append(answer, free > 0 && free <= total, fault.KindOf(err) == fault.OutOfMemory)
	})
	return answer
}

func TestFreeMemoryIsKnownAndMoreThanAllOfItIsRefused(t *testing.T) {
	require.Equal(t, `[true,true]`, run(t, "attributes", emulator(t)))
}

func lost() any {
	var answer []any
	c, err := Open(0)
	must(err)
	must(c.Do(func() error {
		image, err := os.ReadFile("../images/compute_80.ptx")
		must(err)
		m, err := LoadModule(image)
		must(err)
		k, err := m.Function("fill")
		must(err)
		s, err := NewStream()
		must(err)
		must(Launch(s, k, Dim{X: 1}, Dim{X: 32}, 0, &fillArgs{out: 64, rows: 1, columns: 4})) // no one's memory
		failed := s.Synchronize()
		_, later := Alloc(4)
		answer = append(answer, failed.(*Error).Name, Lost(failed), Lost(later))
		return nil
	}))
	return answer
}

func TestAKernelThatFailsLosesTheDevice(t *testing.T) {
	require.Equal(t, `["CUDA_ERROR_ILLEGAL_ADDRESS",true,true]`, run(t, "lost", emulator(t)))
}
