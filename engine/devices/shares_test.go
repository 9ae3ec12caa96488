package devices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/devices"
	"dsstne/kernels"
)

// shared opens devices of the host when the process has 8 threads, and returns them with a function that says with how
// many threads each computes.
func shared(t *testing.T, word string, threads int) (*devices.Opened, func() []int) {
	t.Helper()
	opened, err := devices.Placement{Devices: []string{word}, Threads: threads}.Open(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Rest()) })
	return opened, func() (list []int) {
		for _, r := range opened.Ranks {
			list = append(list, r.Device.(kernels.Threaded).ThreadsInUse())
		}
		return list
	}
}

// eight gives the process 8 threads for the length of a test.
func eight(t *testing.T) {
	require.NoError(t, devices.Configure(8, ""))
	t.Cleanup(func() { require.NoError(t, devices.Configure(0, "")) })
}

func TestRunsThatNameNoThreadsShareThem(t *testing.T) {
	eight(t)
	first, firsts := shared(t, "cpu", 0)
	second, seconds := shared(t, "cpu", 0)
	third, thirds := shared(t, "cpu", 0)
	require.Equal(t, []int{8, 8, 8}, []int{firsts()[0], seconds()[0], thirds()[0]}, "open devices alone take none")
	endFirst := first.Compute()
	require.Equal(t, []int{8}, firsts())
	endSecond := second.Compute()
	require.Equal(t, []int{4, 4}, []int{firsts()[0], seconds()[0]})
	endThird := third.Compute()
	require.Equal(t, []int{2, 3, 3}, []int{firsts()[0], seconds()[0], thirds()[0]})
	endFirst()
	require.Equal(t, []int{4, 4}, []int{seconds()[0], thirds()[0]})
	endThird()
	require.Equal(t, []int{8}, seconds())
	endSecond()
}

func TestARunKeepsTheThreadsThatItNames(t *testing.T) {
	eight(t)
	named, has := shared(t, "cpu", 5)
	first, firsts := shared(t, "cpu", 0)
	second, seconds := shared(t, "cpu", 0)
	defer first.Compute()()
	defer second.Compute()()
	end := named.Compute()
	require.Equal(t, []int{5, 1, 2}, []int{has()[0], firsts()[0], seconds()[0]})
	end()
	require.Equal(t, []int{4, 4}, []int{firsts()[0], seconds()[0]})
}

func TestMoreRunsThanThreadsHaveOneEach(t *testing.T) {
	eight(t)
	var all, ones []int
	var inUse []func() []int
	for range 20 {
		opened, has := shared(t, "cpu", 0)
		defer opened.Compute()()
		inUse, ones = append(inUse, has), append(ones, 1)
	}
	for _, has := range inUse {
		all = append(all, has()...)
	}
	require.Equal(t, ones, all)
}

func TestVirtualDevicesDivideTheirShare(t *testing.T) {
	eight(t)
	first, firsts := shared(t, "cpu:3", 0)
	second, seconds := shared(t, "cpu", 0)
	defer first.Compute()()
	require.Equal(t, []int{2, 3, 3}, firsts())
	end := second.Compute()
	require.Equal(t, [][]int{{1, 1, 2}, {4}}, [][]int{firsts(), seconds()})
	end()
	require.Equal(t, []int{2, 3, 3}, firsts())
}

func TestThreadsThatASmallRunCannotUseAreForOthers(t *testing.T) {
	require.NoError(t, devices.Configure(2, ""))
	small, has := shared(t, "cpu", 0)
	eight(t)
	large, larges := shared(t, "cpu", 0)
	defer large.Compute()()
	defer small.Compute()()
	require.Equal(t, []int{2, 6}, []int{has()[0], larges()[0]})
	require.NoError(t, devices.Configure(4, "")) // counts from the next run on
	other, others := shared(t, "cpu", 4)
	defer other.Compute()()
	require.Equal(t, []int{1, 1, 4}, []int{has()[0], larges()[0], others()[0]})
}
