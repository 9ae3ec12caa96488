package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/train"
	"dsstne/kernels"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// gate is a dataset that stops whoever reads it for the first time until it is opened.
type gate struct {
	csr.Source
	reached, open chan bool
	passed        bool
}

func (g *gate) Read(rows []int64, dst *csr.Entries) error {
	if !g.passed {
		g.passed = true
		g.reached <- true
		<-g.open
	}
	return g.Source.Read(rows, dst)
}

// held begins to train, and stops in the middle of the first step until its gate is opened.
func held(t *testing.T, seed string) (*train.Trainer, *model.Model, *gate) {
	t.Helper()
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	trainer, err := openers.Trainer(m, []byte(`{"devices": "cpu", "batch_size": 16, "seed": `+seed+`}`))
	require.NoError(t, err)
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	g := &gate{Source: data, reached: make(chan bool), open: make(chan bool)}
	require.NoError(t, trainer.Bind("input", g))
	require.NoError(t, trainer.Bind("output", data))
	t.Cleanup(func() {
		require.NoError(t, trainer.Close())
		require.NoError(t, m.Close())
		require.NoError(t, data.Close())
	})
	return trainer, m, g
}

func TestTrainingsAtTheSameTimeShareTheThreadsAndHaveTheBitsOfSingleOnes(t *testing.T) {
	require.NoError(t, devices.Configure(4, ""))
	defer func() { require.NoError(t, devices.Configure(0, "")) }()
	const steps = 20
	seeds := []string{"1", "2"}
	want := map[string][]uint32{}
	for _, seed := range seeds {
		trainer, m, g := held(t, seed)
		g.passed = true
		run(t, trainer, steps)
		want[seed] = weights(m)
	}

	threads := func(trainer *train.Trainer) int { return trainer.Ranks[0].Device.(kernels.Threaded).ThreadsInUse() }
	first, a, firstGate := held(t, seeds[0])
	second, b, secondGate := held(t, seeds[1])
	errs := map[*train.Trainer]chan error{first: make(chan error, 1), second: make(chan error, 1)}
	for trainer, ended := range errs {
		go func() {
			_, err := trainer.Run(steps, 0)
			ended <- err
		}()
	}
	<-firstGate.reached
	<-secondGate.reached
	require.Equal(t, []int{2, 2}, []int{threads(first), threads(second)})
	firstGate.open <- true
	require.NoError(t, <-errs[first])
	require.Equal(t, 4, threads(second), "what the first had")
	secondGate.open <- true
	require.NoError(t, <-errs[second])
	require.Equal(t, want, map[string][]uint32{seeds[0]: weights(a), seeds[1]: weights(b)})
}
