package program_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/kernels"
	"dsstne/tests/fixture"
)

// pipe joins two ranks in two processes: each writes what it has and reads what the other has.
type pipe struct {
	rank int
	in   *bufio.Reader
	out  io.Writer
}

// exchange sends numbers and receives as many.
func (p *pipe) exchange(send []float32) ([]float32, error) {
	sent := make(chan error, 1)
	send = slices.Clone(send) // the caller may free it while the other process ends
	go func() {
		defer func() { _ = recover() }()
		sent <- binary.Write(p.out, binary.LittleEndian, send)
	}()
	received := make([]float32, len(send))
	err := binary.Read(p.in, binary.LittleEndian, received)
	if err == nil {
		err = <-sent
	}
	if err != nil {
		return nil, fmt.Errorf("the process of rank %d has ended: %w", 1-p.rank, err)
	}
	return received, nil
}

func (p *pipe) AllReduce(b kernels.Buffer, n int64) error {
	own := b.Float32()[:n]
	other, err := p.exchange(own)
	for i := range other {
		own[i] += other[i] // of two numbers, so the order does not matter
	}
	return err
}

func (p *pipe) AllGather(part, all kernels.Buffer, n int64) error {
	own := part.Float32()[:n]
	other, err := p.exchange(own)
	if err == nil {
		copy(all.Float32()[int64(p.rank)*n:], own)
		copy(all.Float32()[int64(1-p.rank)*n:], other)
	}
	return err
}

func (p *pipe) Broadcast(b kernels.Buffer, n int64, root int) error {
	other, err := p.exchange(b.Float32()[:n])
	if err == nil && root != p.rank {
		copy(b.Float32(), other)
	}
	return err
}

func (p *pipe) Agree(_ *kernels.Step, collective func(kernels.Communicator) error) error {
	return collective(p)
}
func (p *pipe) Abort()        {}
func (p *pipe) Reset() error  { return nil }
func (p *pipe) Memory() int64 { return 0 }

// trained does some steps and returns the losses, in hexadecimal digits, and a digest of all weights.
func trained(t *testing.T, spec program.Spec, m *model.Model, steps int, each func()) (string, error) {
	p, err := program.Build(spec)
	require.NoError(t, err)
	defer p.Free()
	step := wideStep(t, p, m, 0)
	step.Rates, step.Number = nil, 0
	text := ""
	for n := range steps {
		step.Number = int64(n) + 1
		step.Rates = append(step.Rates, kernels.Rates{LearningRate: 0.1, Scale1: 1, Scale2: 1})
		if n == 0 {
			if err := p.Begin(&step); err != nil {
				return "", err
			}
		}
		if err := p.Run(&step); err != nil {
			return "", err
		}
		results, err := p.Settle(0)
		if err != nil {
			return "", err
		}
		for _, loss := range results[0].Loss {
			text += strconv.FormatFloat(loss, 'x', -1, 64) + " "
		}
		each()
	}
	if err := p.Flush(&step); err != nil {
		return "", err
	}
	hash := fnv.New64a()
	for _, tensor := range m.Tensors() {
		for _, w := range tensor.Float32() {
			_ = binary.Write(hash, binary.LittleEndian, math.Float32bits(w))
		}
	}
	return text + strconv.FormatUint(hash.Sum64(), 16), nil
}

const processSteps = 8

// momentum moves rows that a batch does not touch, so they are updated lazily.
var momentum = program.Training{Optimizer: kernels.Optimizer{Kind: kernels.Momentum, Momentum: 0.9}}

// inProcess is the part of a process that is started by startRank.
func inProcess(t *testing.T, rank int, steps int) {
	m, spec := wideOn(t, fixture.Ranks(t, "cpu", 1), program.Model, momentum)
	to := &pipe{rank: rank, in: bufio.NewReader(os.NewFile(3, "in")), out: os.NewFile(4, "out")}
	spec.Ranks[0].Communicator, spec.First, spec.World = to, rank, 2
	text, err := trained(t, spec, m, steps, func() { fmt.Println("step") })
	if err != nil {
		text = "error: " + err.Error()
	}
	fmt.Println("result", text)
}

// startRank runs a test again in a process of its own, as a rank that reads from one pipe and writes to another.
func startRank(t *testing.T, rank, steps int, in, out *os.File) (*exec.Cmd, *bufio.Scanner) {
	again := exec.Command(os.Args[0], "-test.run=^TestRanksInTwoProcesses$")
	again.Env = append(os.Environ(), fmt.Sprintf("DSSTNE_TEST_RANK=%d/%d", rank, steps))
	again.ExtraFiles, again.Stderr = []*os.File{in, out}, os.Stderr
	lines, err := again.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, again.Start())
	return again, bufio.NewScanner(lines)
}

// startBoth starts both ranks.
func startBoth(t *testing.T, steps int) (processes [2]*exec.Cmd, lines [2]*bufio.Scanner) {
	var read, write [2]*os.File
	for n := range 2 {
		var err error
		read[n], write[n], err = os.Pipe()
		require.NoError(t, err)
	}
	for rank := range 2 {
		processes[rank], lines[rank] = startRank(t, rank, steps, read[rank], write[1-rank])
	}
	for n := range 2 { // only the processes hold the ends
		require.NoError(t, read[n].Close())
		require.NoError(t, write[n].Close())
	}
	return processes, lines
}

// resultOf reads lines up to the result.
func resultOf(lines *bufio.Scanner) string {
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "result "); found {
			return text
		}
	}
	return ""
}

func TestRanksInTwoProcesses(t *testing.T) {
	var rank, steps int
	if n, _ := fmt.Sscanf(os.Getenv("DSSTNE_TEST_RANK"), "%d/%d", &rank, &steps); n == 2 {
		inProcess(t, rank, steps)
		return
	}
	m, spec := wideOn(t, fixture.Ranks(t, "cpu", 2), program.Model, momentum)
	want, err := trained(t, spec, m, processSteps, func() {})
	require.NoError(t, err)

	processes, lines := startBoth(t, processSteps)
	for rank := range 2 {
		require.Equal(t, want, resultOf(lines[rank]), "rank %d has the bits of two ranks in one process", rank)
		require.NoError(t, processes[rank].Wait())
	}

	processes, lines = startBoth(t, 1<<30) // goes on until one is killed
	for range 3 {
		require.True(t, lines[0].Scan(), "some steps are done")
	}
	require.NoError(t, processes[1].Process.Kill())
	killed := time.Now()
	require.Contains(t, resultOf(lines[0]), "the process of rank 1 has ended")
	require.Less(t, time.Since(killed), 5*time.Second)
	require.NoError(t, processes[0].Wait())
	require.Error(t, processes[1].Wait())
}
