//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
	"dsstne/kernels/cuda/nccl"
)

// groups are the ways to join devices.
var groups = map[string]func([]*device) ([]membership, error){"NCCL": joinNCCL, "peer copies": joinPeers}

// joined opens devices and joins them, each way in turn.
func joined(t *testing.T, ranks int, test func(t *testing.T, group []*device)) {
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		t.Skip("neither the emulator (make test-go builds it) nor devices that were asked for (DSSTNE_TEST_DRIVER=real)")
	}
	if have := len(backend{}.Devices()); have < ranks {
		t.Skipf("%d devices are needed, %d are here", ranks, have)
	}
	for _, name := range []string{"NCCL", "peer copies"} {
		t.Run(name, func(t *testing.T) {
			if err := nccl.Load(); name == "NCCL" && err != nil {
				t.Skip(err)
			}
			group := make([]*device, ranks)
			for rank := range group {
				opened, err := backend{}.Open(rank, kernels.Options{})
				require.NoError(t, err)
				group[rank] = opened.(*device)
				t.Cleanup(func() { require.NoError(t, opened.Close()) })
			}
			_, err := joinBy(groups[name], group)
			require.NoError(t, err)
			test(t, group)
		})
	}
}

// together does something on every rank at the same time, and answers what each said.
func together(group []*device, work func(rank int, d *device) error) []error {
	failures := make([]error, len(group))
	var all sync.WaitGroup
	for rank, d := range group {
		all.Go(func() { failures[rank] = work(rank, d) })
	}
	all.Wait()
	return failures
}

// numbersOf are different on every rank, of sizes whose sum depends on the order.
func numbersOf(rank int, n int64) []float32 {
	random := rand.New(rand.NewPCG(7, uint64(rank)))
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(random.NormFloat64() * math.Pow(10, float64(random.IntN(9))))
	}
	return list
}

// placed is a buffer with numbers in it, and one more that must stay.
func placed(t *testing.T, d *device, x []float32) kernels.Buffer {
	b, err := d.Alloc(int64(len(x)) + 1)
	require.NoError(t, err)
	t.Cleanup(b.Free)
	require.NoError(t, d.Write(b, 0, append(append([]float32{}, x...), -7)))
	return b
}

func read(t *testing.T, d *device, b kernels.Buffer) []float32 {
	x := make([]float32, b.Len())
	require.NoError(t, d.Read(b, 0, x))
	require.EqualValues(t, -7, x[len(x)-1], "what lies behind the numbers")
	return x[:len(x)-1]
}

func none(t *testing.T, failures []error) {
	for rank, err := range failures {
		require.NoError(t, err, "rank %d", rank)
	}
}

// summed has a group add the numbers of its ranks, and returns why a sum is wrong. Peer copies add in the order of the
// ranks, to the bit. NCCL adds in an order that it chooses by the number of ranks, their connections and the number of
// numbers. In any order a sum of R numbers takes R-1 additions, each of which is off by at most u = 2^-24 of its result.
// The error of the sum is therefore at most ((1+u)^(R-1) - 1) sum|x|, which is less than R u sum|x|. The bits are the
// same on all ranks either way: each rank updates its own copy of a weight by them.
func summed(t *testing.T, group []*device, n int64) error {
	inOrder, exact, most := make([]float32, n), make([]float64, n), make([]float64, n)
	buffers := make([]kernels.Buffer, len(group))
	for rank, d := range group {
		x := numbersOf(rank, n)
		buffers[rank] = placed(t, d, x)
		for i := range x {
			inOrder[i] += x[i]
			exact[i] += float64(x[i])
			most[i] += math.Abs(float64(x[i])) * 0x1p-24 * float64(len(group))
		}
	}
	none(t, together(group, func(rank int, d *device) error { return d.member.AllReduce(buffers[rank], n) }))
	_, byNCCL := group[0].member.(ncclRank)
	first := read(t, group[0], buffers[0])
	for rank, d := range group {
		for i, got := range read(t, d, buffers[rank]) {
			off := math.Abs(float64(got) - exact[i])
			if got != first[i] || byNCCL && !(off <= most[i]) || !byNCCL && got != inOrder[i] {
				return fmt.Errorf("rank %d of %d, number %d of %d is %v; rank 0 has %v, in the order of the ranks it is %v, "+
					"the sum is %v and an error of %v is allowed", rank, len(group), i, n, got, first[i], inOrder[i], exact[i],
					most[i])
			}
		}
	}
	return nil
}

func TestSumsOfSeveralDevicesAreThoseOfTheirNumbers(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		joined(t, ranks, func(t *testing.T, group []*device) {
			for _, n := range []int64{0, 1, 3, 1000, 5003} {
				require.NoError(t, summed(t, group, n))
			}
		})
	}
}

// The emulator's NCCL adds as the variable says.
func TestSumsInAnotherOrderAreAcceptedFromNCCLAndWrongSumsAreNot(t *testing.T) {
	if os.Getenv("DSSTNE_TEST_DRIVER") != "emulator" {
		t.Skip("a driver other than the emulator does not add as it is told")
	}
	joined(t, 4, func(t *testing.T, group []*device) {
		_, byNCCL := group[0].member.(ncclRank)
		t.Setenv("DSSTNE_CUDAEMU_SUMS", "ring")
		require.NoError(t, summed(t, group, 1000))
		t.Setenv("DSSTNE_CUDAEMU_SUMS", "short")
		if err := summed(t, group, 1000); byNCCL {
			require.ErrorContains(t, err, "is allowed")
		} else {
			require.NoError(t, err)
		}
	})
}

func TestPartsAreGatheredAndTheRootsNumbersSpread(t *testing.T) {
	const ranks, n = 3, 257
	joined(t, ranks, func(t *testing.T, group []*device) {
		parts, all := make([]kernels.Buffer, ranks), make([]kernels.Buffer, ranks)
		var want []float32
		for rank, d := range group {
			parts[rank], all[rank] = placed(t, d, numbersOf(rank, n)), placed(t, d, make([]float32, ranks*n))
			want = append(want, numbersOf(rank, n)...)
		}
		none(t, together(group, func(rank int, d *device) error { return d.member.AllGather(parts[rank], all[rank], n) }))
		for root := range ranks {
			none(t, together(group, func(rank int, d *device) error {
				return d.member.Broadcast(all[rank], int64(n-root), root)
			}))
		}
		for rank, d := range group {
			require.Equal(t, want, read(t, d, all[rank]))
			require.Equal(t, numbersOf(rank, n), read(t, d, parts[rank]))
		}
	})
}

func TestCollectivesFollowEachOtherWithoutWaiting(t *testing.T) {
	const ranks, n, rounds = 4, 100, 50
	joined(t, ranks, func(t *testing.T, group []*device) {
		buffers := make([]kernels.Buffer, ranks)
		for rank, d := range group {
			buffers[rank] = placed(t, d, make([]float32, n))
		}
		none(t, together(group, func(rank int, d *device) error {
			for round := range rounds {
				one := make([]float32, n)
				one[round] = float32(rank + round)
				if err := d.Write(buffers[rank], 0, one); err != nil {
					return err
				}
				for range 2 {
					if err := d.member.AllReduce(buffers[rank], n); err != nil {
						return err
					}
				}
				got := make([]float32, n)
				if err := d.Read(buffers[rank], 0, got); err != nil {
					return err
				}
				if want := float32(ranks * (6 + ranks*round)); got[round] != want {
					return fmt.Errorf("round %d: %v instead of %v", round, got[round], want)
				}
			}
			return nil
		}))
	})
}

func TestAnAbortedGroupLetsEverybodyGoAndCanBeJoinedAgain(t *testing.T) {
	const ranks, n = 3, 10
	joined(t, ranks, func(t *testing.T, group []*device) {
		buffers := make([]kernels.Buffer, ranks)
		for rank, d := range group {
			buffers[rank] = placed(t, d, numbersOf(rank, n))
		}
		broken := errors.New("broken")
		for cause := range ranks {
			failures := together(group, func(rank int, d *device) error {
				err := broken
				if rank != cause {
					if err = d.member.AllReduce(buffers[rank], n); err == nil {
						err = d.do("waiting", d.wait)
					}
				}
				d.member.Abort()
				return err
			})
			for rank, err := range failures {
				if rank != cause {
					require.ErrorIs(t, err, kernels.ErrAborted)
				}
			}
			for _, d := range group {
				require.ErrorIs(t, d.member.Broadcast(buffers[0], 0, 0), kernels.ErrAborted)
				require.NoError(t, d.stream.Synchronize())
			}
			for _, d := range group {
				require.NoError(t, d.member.Reset())
			}
			for rank, d := range group {
				require.NoError(t, d.Write(buffers[rank], 0, numbersOf(rank, n)))
			}
			none(t, together(group, func(rank int, d *device) error { return d.member.Broadcast(buffers[rank], n, cause) }))
			for rank, d := range group {
				require.Equal(t, numbersOf(cause, n), read(t, d, buffers[rank]))
			}
		}
	})
}

func TestNobodyLooksAgainAfterTheEnd(t *testing.T) {
	var looks atomic.Int32
	inside, let := make(chan struct{}), make(chan struct{})
	end := repeat(time.Millisecond, func() error {
		if looks.Add(1) == 3 {
			close(inside)
			<-let
		}
		return nil
	})
	<-inside // the timer is not set, so that stopping it does nothing
	require.NoError(t, end())
	close(let)
	time.Sleep(20 * time.Millisecond)
	require.EqualValues(t, 4, looks.Load(), "those of the timer and that of the end")
}

func TestALaunchThatWaitsDoesNotKeepOthersFromAborting(t *testing.T) {
	joined(t, 2, func(t *testing.T, group []*device) {
		aborted := make(chan struct{})
		other := make(chan error)
		go func() { other <- group[1].member.launch(func() error { return nil }) }()
		defer func() { <-other }()
		require.NoError(t, group[0].member.launch(func() error {
			go func() {
				group[1].member.Abort()
				close(aborted)
			}()
			select {
			case <-aborted:
				return nil
			case <-time.After(10 * time.Second):
				return errors.New("it waits")
			}
		}))
	})
}

func TestBuffersThatAreNotTheDevicesOwnAreRefused(t *testing.T) {
	joined(t, 2, func(t *testing.T, group []*device) {
		b := placed(t, group[0], make([]float32, 5))
		require.ErrorContains(t, group[1].member.AllReduce(b, 5), "are outside the buffer")
		require.ErrorContains(t, group[0].member.AllReduce(b, 7), "are outside the buffer")
		_, err := backend{}.Join([]kernels.Device{group[0], group[1]})
		require.ErrorContains(t, err, "cannot be joined")
	})
}

func TestAPanicWhileCommunicatorsEndIsNotTakenForTheirEnd(t *testing.T) {
	g, gone := &ncclGroup{devices: []*device{nil}}, make(chan struct{})
	g.ended([]*nccl.Communicator{nil}, gone) // in a goroutine, where a panic that nobody recovers ends the process
	select {
	case <-gone:
		require.Fail(t, "it is said to have ended")
	default:
	}
	g.ended(nil, gone)
	<-gone
}
