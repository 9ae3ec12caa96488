//go:build !nocuda && linux && amd64

package driver

// #include <cuda.h>
import "C"

// Graph is work that was recorded instead of done.
type Graph struct{ g C.CUgraph }

// Capture records what the function puts into the stream, and into streams that wait for it, instead of doing it.
// Only calls on this thread are restrained meanwhile; those of the user's other threads go on.
func (s Stream) Capture(record func() error) (Graph, error) {
	mode := C.CUstreamCaptureMode(C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
	before := mode // of the thread, which Context.Enter has let off
	if err := failure("cuThreadExchangeStreamCaptureMode", C.cuThreadExchangeStreamCaptureMode(&before)); err != nil {
		return Graph{}, err
	}
	defer func() { C.cuThreadExchangeStreamCaptureMode(&before) }()
	if err := failure("cuStreamBeginCapture", C.cuStreamBeginCapture(s.c(), mode)); err != nil {
		return Graph{}, err
	}
	ended := false
	end := func() (Graph, error) {
		ended = true
		var g Graph
		err := failure("cuStreamEndCapture", C.cuStreamEndCapture(s.c(), &g.g))
		if err != nil { // a refusal to end it must not leave the stream recording; where it has ended, nothing happens
			var late Graph
			if C.cuStreamEndCapture(s.c(), &late.g) == C.CUDA_SUCCESS && late.g != nil {
				_ = late.Close()
			}
		}
		return g, err
	}
	defer func() {
		if !ended { // a panic
			if g, _ := end(); g.g != nil {
				_ = g.Close()
			}
		}
	}()
	recorded := record()
	g, err := end()
	if recorded != nil {
		if g.g != nil {
			_ = g.Close()
		}
		return Graph{}, recorded
	}
	return g, err
}

// Close gives the graph back; what was instantiated from it stays.
func (g Graph) Close() error { return failure("cuGraphDestroy", C.cuGraphDestroy(g.g)) }

// Exec is a graph that is ready to run, again and again.
type Exec struct{ e C.CUgraphExec }

// Instantiate makes the graph ready to run.
func (g Graph) Instantiate() (Exec, error) {
	var e Exec
	err := failure("cuGraphInstantiateWithFlags", C.cuGraphInstantiateWithFlags(&e.e, g.g, 0))
	return e, err
}

// Launch runs the graph in the order of a stream.
func (e Exec) Launch(s Stream) error { return failure("cuGraphLaunch", C.cuGraphLaunch(e.e, s.c())) }

// Close gives it back.
func (e Exec) Close() error { return failure("cuGraphExecDestroy", C.cuGraphExecDestroy(e.e)) }
