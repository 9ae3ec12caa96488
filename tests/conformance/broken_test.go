package conformance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// broken is the reference with a defect: after every op, spoil may change what the op has written.
type broken struct {
	kernels.Device
	spoil func(op any, step *kernels.Step)
}

func (b broken) after(err error, op any, step *kernels.Step) error {
	if err == nil {
		b.spoil(op, step)
	}
	return err
}

func (b broken) Fill(op *kernels.Fill) error { return b.after(b.Device.Fill(op), op, nil) }

func (b broken) Gather(op *kernels.Gather, s *kernels.Step) error {
	return b.after(b.Device.Gather(op, s), op, s)
}

func (b broken) Dense(op *kernels.Dense, s *kernels.Step) error {
	return b.after(b.Device.Dense(op, s), op, s)
}

func (b broken) Activate(op *kernels.Activate, s *kernels.Step) error {
	return b.after(b.Device.Activate(op, s), op, s)
}

func (b broken) CombineStats(op *kernels.CombineStats, s *kernels.Step) error {
	return b.after(b.Device.CombineStats(op, s), op, s)
}

// statsOf distinguishes OutputStats from OutputStep, whose ops have the same type.
type statsOf struct{ *kernels.Output }

func (b broken) OutputStats(op *kernels.Output, s *kernels.Step) error {
	return b.after(b.Device.OutputStats(op, s), statsOf{op}, s)
}

func (b broken) OutputStep(op *kernels.Output, s *kernels.Step) error {
	return b.after(b.Device.OutputStep(op, s), op, s)
}

func (b broken) UnitSums(op *kernels.UnitSums, s *kernels.Step) error {
	return b.after(b.Device.UnitSums(op, s), op, s)
}

func (b broken) Sparsity(op *kernels.Sparsity, s *kernels.Step) error {
	return b.after(b.Device.Sparsity(op, s), op, s)
}

func (b broken) Merge(op *kernels.Merge, s *kernels.Step) error {
	return b.after(b.Device.Merge(op, s), op, s)
}

func (b broken) MergeBackward(op *kernels.MergeBackward, s *kernels.Step) error {
	return b.after(b.Device.MergeBackward(op, s), op, s)
}

func (b broken) Skip(op *kernels.Skip, s *kernels.Step) error {
	return b.after(b.Device.Skip(op, s), op, s)
}

func (b broken) SoftmaxRows(op *kernels.SoftmaxRows, s *kernels.Step) error {
	return b.after(b.Device.SoftmaxRows(op, s), op, s)
}

func (b broken) SoftmaxRowsBackward(op *kernels.SoftmaxRowsBackward, s *kernels.Step) error {
	return b.after(b.Device.SoftmaxRowsBackward(op, s), op, s)
}

func (b broken) CapRows(op *kernels.CapRows, s *kernels.Step) error {
	return b.after(b.Device.CapRows(op, s), op, s)
}

func (b broken) CopyMatrix(op *kernels.CopyMatrix, s *kernels.Step) error {
	return b.after(b.Device.CopyMatrix(op, s), op, s)
}

func (b broken) Sample(op *kernels.Sample, s *kernels.Step) error {
	return b.after(b.Device.Sample(op, s), op, s)
}

func (b broken) SampleBackward(op *kernels.SampleBackward, s *kernels.Step) error {
	return b.after(b.Device.SampleBackward(op, s), op, s)
}

func (b broken) UnitMoments(op *kernels.UnitMoments, s *kernels.Step) error {
	return b.after(b.Device.UnitMoments(op, s), op, s)
}

func (b broken) RowMoments(op *kernels.RowMoments, s *kernels.Step) error {
	return b.after(b.Device.RowMoments(op, s), op, s)
}

func (b broken) CombineMoments(op *kernels.CombineMoments, s *kernels.Step) error {
	return b.after(b.Device.CombineMoments(op, s), op, s)
}

func (b broken) MoveMoments(op *kernels.MoveMoments, s *kernels.Step) error {
	return b.after(b.Device.MoveMoments(op, s), op, s)
}

func (b broken) NormSums(op *kernels.NormSums, s *kernels.Step) error {
	return b.after(b.Device.NormSums(op, s), op, s)
}

func (b broken) NormBackward(op *kernels.NormBackward, s *kernels.Step) error {
	return b.after(b.Device.NormBackward(op, s), op, s)
}

func (b broken) Backward(op *kernels.Backward, s *kernels.Step) error {
	return b.after(b.Device.Backward(op, s), op, s)
}

func (b broken) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	return b.after(b.Device.DenseBackward(op, s), op, s)
}

func (b broken) MarginalTargets(op *kernels.MarginalTargets, s *kernels.Step) error {
	return b.after(b.Device.MarginalTargets(op, s), op, s)
}

func (b broken) OutputEntries(op *kernels.OutputEntries, s *kernels.Step) error {
	return b.after(b.Device.OutputEntries(op, s), op, s)
}

func (b broken) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	return b.after(b.Device.Scatter(op, s), op, s)
}

func (b broken) Replay(op *kernels.Replay, s *kernels.Step) error {
	return b.after(b.Device.Replay(op, s), op, s)
}

func (b broken) ClipNorm(op *kernels.ClipNorm, s *kernels.Step) error {
	return b.after(b.Device.ClipNorm(op, s), op, s)
}

func (b broken) ColumnNorms(op *kernels.ColumnNorms, s *kernels.Step) error {
	return b.after(b.Device.ColumnNorms(op, s), op, s)
}

func (b broken) CapWeight(op *kernels.CapWeight, s *kernels.Step) error {
	return b.after(b.Device.CapWeight(op, s), op, s)
}

func (b broken) Update(op *kernels.Update, s *kernels.Step) error {
	return b.after(b.Device.Update(op, s), op, s)
}

func (b broken) Scores(op *kernels.Scores, s *kernels.Step) error {
	return b.after(b.Device.Scores(op, s), op, s)
}

func (b broken) TopK(op *kernels.TopK, s *kernels.Step) error {
	return b.after(b.Device.TopK(op, s), op, s)
}

func (b broken) Moments(op *kernels.Moments, s *kernels.Step) error {
	return b.after(b.Device.Moments(op, s), op, s)
}

func (b broken) Blend(op *kernels.Blend, s *kernels.Step) error {
	return b.after(b.Device.Blend(op, s), op, s)
}

func (b broken) MergeTopK(op *kernels.MergeTopK, s *kernels.Step) error {
	return b.after(b.Device.MergeTopK(op, s), op, s)
}

func (b broken) RankingMetrics(op *kernels.RankingMetrics, s *kernels.Step) error {
	return b.after(b.Device.RankingMetrics(op, s), op, s)
}

func (b broken) Neighborhood(op *kernels.Neighborhood, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).Neighborhood(op, s), op, s)
}

func (b broken) SparseProduct(op *kernels.SparseProduct, s *kernels.Step) error {
	return b.after(b.Device.SparseProduct(op, s), op, s)
}

func (b broken) Solve(op *kernels.Solve, s *kernels.Step) error {
	return b.after(b.Device.Solve(op, s), op, s)
}

func (b broken) KeepLargest(op *kernels.KeepLargest, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).KeepLargest(op, s), op, s)
}

func (b broken) RowsToPanel(op *kernels.RowsToPanel, s *kernels.Step) error {
	return b.after(b.Device.RowsToPanel(op, s), op, s)
}

func (b broken) PanelToRows(op *kernels.PanelToRows, s *kernels.Step) error {
	return b.after(b.Device.PanelToRows(op, s), op, s)
}

func (b broken) RestrictedInverse(op *kernels.RestrictedInverse, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).RestrictedInverse(op, s), op, s)
}

func (b broken) PanelGram(op *kernels.PanelGram, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).PanelGram(op, s), op, s)
}

func (b broken) PanelProduct(op *kernels.PanelProduct, s *kernels.Step) error {
	return b.after(b.Device.PanelProduct(op, s), op, s)
}

func (b broken) RowsToBlocks(op *kernels.RowsToBlocks, s *kernels.Step) error {
	return b.after(b.Device.RowsToBlocks(op, s), op, s)
}

func (b broken) PanelScale(op *kernels.PanelScale, s *kernels.Step) error {
	return b.after(b.Device.PanelScale(op, s), op, s)
}

func (b broken) LeastSquares(op *kernels.LeastSquares, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).LeastSquares(op, s), op, s)
}

func (b broken) PrincipalAxes(op *kernels.PrincipalAxes, s *kernels.Step) error {
	return b.after(b.Device.(kernels.Solver).PrincipalAxes(op, s), op, s)
}

// off makes the largest number a ten-thousandth too large.
func off(x []float32) {
	largest := 0
	for i, v := range x {
		if v != guardValue && math.Abs(float64(v)) > math.Abs(float64(x[largest])) {
			largest = i
		}
	}
	if len(x) > 0 && x[largest] != guardValue {
		x[largest] *= 1.0001
	}
}

func offBuffer(b kernels.Buffer) {
	if b != nil {
		off(b.Float32())
	}
}

// weightDefects are one wrong number in each part of a weight.
func weightDefects[T any](what string, of func(op T) *kernels.Weights) map[string]func(any, *kernels.Step) {
	part := func(part func(*kernels.Weights) kernels.Buffer) func(any, *kernels.Step) {
		return func(op any, _ *kernels.Step) {
			if op, matches := op.(T); matches && of(op) != nil {
				offBuffer(part(of(op)))
			}
		}
	}
	return map[string]func(any, *kernels.Step){
		what:               part(func(w *kernels.Weights) kernels.Buffer { return w.Value }),
		what + ".state0":   part(func(w *kernels.Weights) kernels.Buffer { return w.State[0] }),
		what + ".state1":   part(func(w *kernels.Weights) kernels.Buffer { return w.State[1] }),
		what + ".gradient": part(func(w *kernels.Weights) kernels.Buffer { return w.Gradient }),
	}
}

// defect is one wrong output of one kind of op.
func defect[T any](what string, spoil func(op T, step *kernels.Step)) map[string]func(any, *kernels.Step) {
	return map[string]func(any, *kernels.Step){what: func(op any, step *kernels.Step) {
		if op, matches := op.(T); matches {
			spoil(op, step)
		}
	}}
}

func lastSource(op *kernels.Output) *kernels.Weights {
	if len(op.Sources) == 0 {
		return nil
	}
	return op.Sources[len(op.Sources)-1].Weight
}

func markWrongly(w *kernels.Weights) {
	if w.Last != nil {
		w.Last.Int32()[len(w.Last.Int32())-1]++
	}
}

var scoresDefects = []map[string]func(any, *kernels.Step){
	defect("one ULP", func(op *kernels.Scores, _ *kernels.Step) { op.Out[0] = math.Nextafter32(op.Out[0], 1e38) }),
	defect("padding", func(op *kernels.Scores, _ *kernels.Step) { op.Out[op.Items] = 0 }),
}

// topKDefects are those of TopK, whichever of its ways a backend takes.
var topKDefects = []map[string]func(any, *kernels.Step){
	defect("one ULP", func(op *kernels.TopK, _ *kernels.Step) { oneULP(op.Scores) }),
	defect("swapped tie", func(op *kernels.TopK, _ *kernels.Step) { swapTie(op.K, op.IDs.Int32(), op.Scores.Float32()) }),
	defect("row behind the batch", func(op *kernels.TopK, step *kernels.Step) { op.IDs.Int32()[step.Rows*op.K] = 0 }),
}

func oneULP(b kernels.Buffer) { b.Float32()[0] = math.Nextafter32(b.Float32()[0], 1e38) }

func swapTie(k int64, ids []int32, scores []float32) {
	if k > 1 && scores[0] == scores[1] {
		ids[0], ids[1] = ids[1], ids[0]
	}
}

// defects are, by op, all the ways in which it can be wrong by one number.
var defects = map[string][]map[string]func(any, *kernels.Step){
	"Fill": {
		defect("one ULP", func(op *kernels.Fill, _ *kernels.Step) {
			if op.Rows > 0 {
				op.Out.Float32()[0] = math.Nextafter32(op.Out.Float32()[0], 1e38)
			}
		}),
		defect("row behind the matrix", func(op *kernels.Fill, _ *kernels.Step) { op.Out.Float32()[op.Rows*op.Columns] = 0 }),
	},
	"Gather": {defect("out", func(op *kernels.Gather, _ *kernels.Step) { offBuffer(op.Out) })},
	"Dense":  {defect("out", func(op *kernels.Dense, _ *kernels.Step) { offBuffer(op.Out) })},
	"Activate": {
		defect("out", func(op *kernels.Activate, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("row behind the batch", func(op *kernels.Activate, step *kernels.Step) { op.Out.Float32()[step.Rows*op.Units] = 0 }),
	},
	"CombineStats": {
		defect("maximum", func(op *kernels.CombineStats, _ *kernels.Step) { op.Stats.Float32()[0] *= 1.0001 }),
		defect("log-sum-exp", func(op *kernels.CombineStats, _ *kernels.Step) { op.Stats.Float32()[1] *= 1.0001 }),
		defect("row behind the batch", func(op *kernels.CombineStats, step *kernels.Step) { op.Stats.Float32()[2*step.Rows] = 0 }),
	},
	"OutputStats": {
		defect("maximum", func(op statsOf, _ *kernels.Step) { op.Stats.Float32()[0] *= 1.0001 }),
		defect("log-sum-exp", func(op statsOf, _ *kernels.Step) { op.Stats.Float32()[1] *= 1.0001 }),
		defect("row behind the batch", func(op statsOf, step *kernels.Step) { op.Stats.Float32()[2*step.Rows] = 0 }),
	},
	"OutputStep": {
		weightDefects("weight", lastSource),
		weightDefects("bias", func(op *kernels.Output) *kernels.Weights { return op.Bias }),
		defect("loss", func(op *kernels.Output, step *kernels.Step) { step.Loss[op.Term] *= 1.0001 }),
		defect("tied gradient", func(op *kernels.Output, _ *kernels.Step) { offBuffer(op.TiedGradient) }),
		defect("addend", func(op *kernels.Output, _ *kernels.Step) { offBuffer(op.Addend.Sum) }),
		defect("dh", func(op *kernels.Output, _ *kernels.Step) {
			for _, s := range op.Sources {
				offBuffer(s.DH)
			}
		}),
		defect("row behind the batch", func(op *kernels.Output, step *kernels.Step) {
			for _, s := range op.Sources {
				if s.DH != nil {
					s.DH.Float32()[step.Rows*s.Weight.Columns] = 0
				}
			}
		}),
	},
	"MarginalTargets": {
		defect("by row", func(op *kernels.MarginalTargets, _ *kernels.Step) { offBuffer(op.Output.Targets.ByRow) }),
		defect("by item", func(op *kernels.MarginalTargets, _ *kernels.Step) { offBuffer(op.Output.Targets.ByItem) }),
		defect("sums", func(op *kernels.MarginalTargets, _ *kernels.Step) { offBuffer(op.Output.Targets.Sums) }),
		defect("entry behind the batch", func(op *kernels.MarginalTargets, _ *kernels.Step) {
			op.Output.Targets.ByRow.Float32()[op.Entries-1] = 0
		}),
		defect("row behind the batch", func(op *kernels.MarginalTargets, step *kernels.Step) {
			op.Output.Targets.Sums.Float32()[step.Rows] = 0
		}),
	},
	"OutputEntries": {
		defect("loss", func(op *kernels.OutputEntries, step *kernels.Step) { step.Loss[op.Term] *= 1.0001 }),
		defect("dz", func(op *kernels.OutputEntries, _ *kernels.Step) { offBuffer(op.DZ) }),
		defect("entry behind the batch", func(op *kernels.OutputEntries, _ *kernels.Step) {
			op.DZ.Float32()[op.Entries-1] = 0
		}),
		defect("dh", func(op *kernels.OutputEntries, _ *kernels.Step) {
			for _, s := range op.Sources {
				offBuffer(s.DH)
			}
		}),
		defect("directions", func(op *kernels.OutputEntries, _ *kernels.Step) { offBuffer(op.Directions) }),
		defect("x", func(op *kernels.OutputEntries, _ *kernels.Step) { offBuffer(op.X) }),
		defect("y", func(op *kernels.OutputEntries, _ *kernels.Step) { offBuffer(op.Y) }),
	},
	"UnitSums": {
		defect("sums", func(op *kernels.UnitSums, _ *kernels.Step) { offBuffer(op.Sums) }),
		defect("unit behind the layer", func(op *kernels.UnitSums, _ *kernels.Step) { op.Sums.Float32()[op.Units] = 0 }),
	},
	"Sparsity": {
		defect("slopes", func(op *kernels.Sparsity, _ *kernels.Step) { offBuffer(op.Sums) }),
		defect("loss", func(op *kernels.Sparsity, step *kernels.Step) { step.Loss[op.Term] *= 1.0001 }),
		defect("unit behind the layer", func(op *kernels.Sparsity, _ *kernels.Step) { op.Sums.Float32()[op.Units] = 0 }),
	},
	"Sample": {
		defect("out", func(op *kernels.Sample, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("row behind the batch", func(op *kernels.Sample, step *kernels.Step) { op.Out.Float32()[step.Rows*op.Units] = 0 }),
	},
	"Merge": {
		defect("out", func(op *kernels.Merge, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("source", func(op *kernels.Merge, _ *kernels.Step) { offBuffer(op.Sources[0].H) }),
	},
	"MergeBackward": {
		defect("dh", func(op *kernels.MergeBackward, _ *kernels.Step) {
			for _, source := range op.Sources {
				offBuffer(source.DH)
			}
		}),
		defect("gradient", func(op *kernels.MergeBackward, _ *kernels.Step) { offBuffer(op.DOut) }),
	},
	"Skip": {
		defect("out", func(op *kernels.Skip, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("in", func(op *kernels.Skip, _ *kernels.Step) { offBuffer(op.In) }),
	},
	"SoftmaxRows": {
		defect("values", func(op *kernels.SoftmaxRows, _ *kernels.Step) { offBuffer(op.X) }),
		defect("row behind the batch", func(op *kernels.SoftmaxRows, step *kernels.Step) {
			op.X.Float32()[step.Rows*op.Units] = 0
		}),
	},
	"SoftmaxRowsBackward": {
		defect("gradient", func(op *kernels.SoftmaxRowsBackward, _ *kernels.Step) { offBuffer(op.DH) }),
		defect("values", func(op *kernels.SoftmaxRowsBackward, _ *kernels.Step) { offBuffer(op.H) }),
	},
	"CapRows": {
		defect("gradient", func(op *kernels.CapRows, _ *kernels.Step) { offBuffer(op.DZ) }),
		defect("row behind the batch", func(op *kernels.CapRows, step *kernels.Step) {
			op.DZ.Float32()[step.Rows*op.Units] = 0
		}),
	},
	"CopyMatrix": {
		defect("out", func(op *kernels.CopyMatrix, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("in", func(op *kernels.CopyMatrix, _ *kernels.Step) { offBuffer(op.In) }),
		defect("row behind the matrix", func(op *kernels.CopyMatrix, _ *kernels.Step) {
			op.Out.Float32()[op.Rows*op.Columns] = 0
		}),
	},
	"SampleBackward": {
		defect("heads", func(op *kernels.SampleBackward, _ *kernels.Step) { offBuffer(op.Heads) }),
		defect("loss", func(op *kernels.SampleBackward, step *kernels.Step) { step.Loss[op.Term] *= 1.0001 }),
		defect("row behind the batch", func(op *kernels.SampleBackward, step *kernels.Step) {
			op.Heads.Float32()[2*step.Rows*op.Units] = 0
		}),
	},
	"UnitMoments": {
		defect("moments", func(op *kernels.UnitMoments, _ *kernels.Step) { offBuffer(op.Moments) }),
		defect("rows", func(op *kernels.UnitMoments, _ *kernels.Step) { op.Moments.Float32()[2*op.Units]++ }),
		defect("unit behind the layer", func(op *kernels.UnitMoments, _ *kernels.Step) { op.Moments.Float32()[op.Size()] = 0 }),
	},
	"RowMoments": {
		defect("mean", func(op *kernels.RowMoments, _ *kernels.Step) { offBuffer(op.Mean) }),
		defect("variance", func(op *kernels.RowMoments, _ *kernels.Step) { offBuffer(op.Variance) }),
		defect("row behind the batch", func(op *kernels.RowMoments, step *kernels.Step) {
			op.Variance.Float32()[step.Rows] = 0
		}),
	},
	"CombineMoments": {
		defect("mean", func(op *kernels.CombineMoments, _ *kernels.Step) { offBuffer(op.Mean) }),
		defect("variance", func(op *kernels.CombineMoments, _ *kernels.Step) { offBuffer(op.Variance) }),
		defect("unit behind the layer", func(op *kernels.CombineMoments, _ *kernels.Step) {
			op.Variance.Float32()[op.Units] = 0
		}),
	},
	"MoveMoments": {
		defect("mean", func(op *kernels.MoveMoments, _ *kernels.Step) { offBuffer(op.RunningMean) }),
		defect("variance", func(op *kernels.MoveMoments, _ *kernels.Step) { offBuffer(op.RunningVariance) }),
		defect("unit behind the layer", func(op *kernels.MoveMoments, _ *kernels.Step) {
			op.RunningMean.Float32()[op.Units] = 0
		}),
	},
	"NormSums": {
		defect("sums", func(op *kernels.NormSums, _ *kernels.Step) { offBuffer(op.Sums) }),
		defect("unit behind the layer", func(op *kernels.NormSums, _ *kernels.Step) { op.Sums.Float32()[2*op.Units] = 0 }),
	},
	"NormBackward": {
		weightDefects("scale", func(op *kernels.NormBackward) *kernels.Weights { return op.Scale }),
		defect("dy", func(op *kernels.NormBackward, _ *kernels.Step) { offBuffer(op.DY) }),
	},
	"Backward": {
		weightDefects("bias", func(op *kernels.Backward) *kernels.Weights { return op.Bias }),
		defect("dh", func(op *kernels.Backward, _ *kernels.Step) { offBuffer(op.DH) }),
	},
	"DenseBackward": {
		weightDefects("weight", func(op *kernels.DenseBackward) *kernels.Weights { return op.Weight }),
		defect("din", func(op *kernels.DenseBackward, _ *kernels.Step) { offBuffer(op.DIn) }),
	},
	"Scatter": {
		weightDefects("weight", func(op *kernels.Scatter) *kernels.Weights { return op.Weight }),
		defect("last", func(op *kernels.Scatter, _ *kernels.Step) { markWrongly(op.Weight) }),
	},
	"Replay": {
		defect("weight", func(op *kernels.Replay, _ *kernels.Step) { offBuffer(op.Weight.Value) }),
		defect("state0", func(op *kernels.Replay, _ *kernels.Step) { offBuffer(op.Weight.State[0]) }),
		defect("state1", func(op *kernels.Replay, _ *kernels.Step) { offBuffer(op.Weight.State[1]) }),
		defect("last", func(op *kernels.Replay, _ *kernels.Step) { markWrongly(op.Weight) }),
	},
	"ClipNorm": {
		defect("gradients", func(op *kernels.ClipNorm, _ *kernels.Step) { offBuffer(op.Gradients) }),
		defect("number behind the gradients", func(op *kernels.ClipNorm, _ *kernels.Step) {
			op.Gradients.Float32()[op.Count] = 0
		}),
	},
	"ColumnNorms": {
		defect("norms", func(op *kernels.ColumnNorms, _ *kernels.Step) { offBuffer(op.Norms) }),
		defect("column behind the weight", func(op *kernels.ColumnNorms, _ *kernels.Step) {
			op.Norms.Float32()[op.Weight.Columns] = 0
		}),
	},
	"CapWeight": {
		defect("weight", func(op *kernels.CapWeight, _ *kernels.Step) { offBuffer(op.Weight.Value) }),
		defect("row behind the weight", func(op *kernels.CapWeight, _ *kernels.Step) {
			op.Weight.Value.Float32()[op.Weight.Rows*op.Weight.Columns] = 0
		}),
	},
	"Update": {
		defect("weight", func(op *kernels.Update, _ *kernels.Step) { offBuffer(op.Weight.Value) }),
		defect("state0", func(op *kernels.Update, _ *kernels.Step) { offBuffer(op.Weight.State[0]) }),
		defect("state1", func(op *kernels.Update, _ *kernels.Step) { offBuffer(op.Weight.State[1]) }),
		defect("gradient", func(op *kernels.Update, _ *kernels.Step) { offBuffer(op.Weight.Gradient) }),
	},
	"Scores": scoresDefects, "Scores of a sparse source": scoresDefects, "Scores that are given": scoresDefects,
	"Scores of weights of 2 bytes": scoresDefects,
	"Scores in a list": {
		defect("one ULP", func(op *kernels.Scores, _ *kernels.Step) { oneULP(op.To) }),
		defect("row behind the batch", func(op *kernels.Scores, step *kernels.Step) { op.To.Float32()[step.Rows*op.Items] = 0 }),
	},
	"Moments": {
		defect("count", func(op *kernels.Moments, _ *kernels.Step) { kernels.View[float64](op.Out)[0]++ }),
		defect("last bit of the squares", func(op *kernels.Moments, _ *kernels.Step) { flipLast(op.Out, 3) }),
		defect("row behind the batch", func(op *kernels.Moments, step *kernels.Step) { op.Out.Float32()[8*step.Rows] = 0 }),
	},
	"Blend": {
		defect("one ULP", func(op *kernels.Blend, _ *kernels.Step) { oneULP(op.Out) }),
		defect("row behind the batch", func(op *kernels.Blend, step *kernels.Step) { op.Out.Float32()[step.Rows*op.Items] = 0 }),
	},
	"TopK": topKDefects, "TopK of many items": topKDefects, "TopK of a sparse source": topKDefects,
	"TopK of scores that are given": topKDefects, "TopK of weights of 2 bytes": topKDefects,
	"MergeTopK": {
		defect("one ULP", func(op *kernels.MergeTopK, _ *kernels.Step) { oneULP(op.Scores) }),
		defect("swapped tie", func(op *kernels.MergeTopK, _ *kernels.Step) { swapTie(op.K, op.IDs.Int32(), op.Scores.Float32()) }),
		defect("row behind the batch", func(op *kernels.MergeTopK, step *kernels.Step) { op.IDs.Int32()[step.Rows*op.K] = 0 }),
	},
	"RankingMetrics": {
		defect("value", func(op *kernels.RankingMetrics, _ *kernels.Step) { flipLast(op.Values, 0) }),
		defect("row behind the batch", func(op *kernels.RankingMetrics, step *kernels.Step) {
			if op.Values != nil {
				kernels.View[float64](op.Values)[step.Rows*int64(len(op.Metrics))] = 0
			}
		}),
		defect("sum", func(op *kernels.RankingMetrics, _ *kernels.Step) { flipLast(op.Totals, 0) }),
		defect("carry", func(op *kernels.RankingMetrics, _ *kernels.Step) { flipLast(op.Totals, 1) }),
		defect("rows", func(op *kernels.RankingMetrics, _ *kernels.Step) { flipLast(op.Totals, int64(2*len(op.Metrics))) }),
		defect("coverage", func(op *kernels.RankingMetrics, _ *kernels.Step) {
			flipLast(op.Totals, kernels.MetricTotals{Metrics: op.Metrics}.Size())
		}),
	},
	"Neighborhood": {
		defect("one ULP", func(op *kernels.Neighborhood, _ *kernels.Step) { oneULP(op.Similarities) }),
		defect("another item", func(op *kernels.Neighborhood, step *kernels.Step) {
			if first, end := op.Items(step); first < end {
				op.IDs.Int32()[first*op.K]++
			}
		}),
		defect("an item of the next step", func(op *kernels.Neighborhood, step *kernels.Step) {
			if _, end := op.Items(step); end < op.ByItem.Rows {
				op.IDs.Int32()[end*op.K] = -1
			}
		}),
	},
	"SparseProduct": {
		defect("an element", func(op *kernels.SparseProduct, _ *kernels.Step) { offBuffer(op.Out) }),
	},
	"Solve": {
		defect("an element", func(op *kernels.Solve, _ *kernels.Step) { offBuffer(op.X) }),
	},
	"RestrictedInverse": {
		defect("an element", func(op *kernels.RestrictedInverse, _ *kernels.Step) { offBuffer(op.Weights) }),
	},
	"RowsToPanel": {
		defect("one ULP", func(op *kernels.RowsToPanel, _ *kernels.Step) { oneULP(op.Panel) }),
	},
	"PanelToRows": {
		defect("one ULP", func(op *kernels.PanelToRows, _ *kernels.Step) { oneULP(op.Out) }),
	},
	"KeepLargest": {
		defect("one ULP", func(op *kernels.KeepLargest, _ *kernels.Step) { oneULP(op.Values) }),
		defect("one ULP of the diagonal", func(op *kernels.KeepLargest, _ *kernels.Step) { oneULP(op.Diagonal) }),
		defect("another row", func(op *kernels.KeepLargest, step *kernels.Step) {
			if first, end := op.Columns(step); first < end {
				op.IDs.Int32()[first*op.K]++
			}
		}),
	},
	"PanelGram": {
		defect("an element", func(op *kernels.PanelGram, _ *kernels.Step) {
			kernels.View[float64](op.Out)[op.As*op.Bs*blockArea-1] *= 1.001
		}),
	},
	"RowsToBlocks": {
		defect("an element", func(op *kernels.RowsToBlocks, _ *kernels.Step) { offBuffer(op.Out) }),
	},
	"PanelScale": {
		defect("an element", func(op *kernels.PanelScale, _ *kernels.Step) { offBuffer(op.Out) }),
	},
	"PanelProduct": {
		defect("an element", func(op *kernels.PanelProduct, _ *kernels.Step) {
			offBuffer(op.Out.Slice(0, op.Outs*op.Rows*kernels.BlockWidth))
		}),
	},
}

func init() {
	defects["LeastSquares"] = []map[string]func(any, *kernels.Step){
		defect("factors", func(op *kernels.LeastSquares, _ *kernels.Step) { offBuffer(op.Out) }),
		defect("biases", func(op *kernels.LeastSquares, _ *kernels.Step) { offBuffer(op.Bias) }),
		defect("a row of the next step", func(op *kernels.LeastSquares, step *kernels.Step) {
			if _, end, offsets, _, _ := op.Rows(step); end+1 < int64(len(offsets)) {
				op.Out.Float32()[end*op.Width] = 0
			}
		}),
	}
	defects["PrincipalAxes"] = []map[string]func(any, *kernels.Step){
		defect("factors", func(op *kernels.PrincipalAxes, _ *kernels.Step) { offBuffer(op.Factors) }),
		defect("squares", func(op *kernels.PrincipalAxes, _ *kernels.Step) { offBuffer(op.Squares) }),
		defect("two axes the wrong way round", func(op *kernels.PrincipalAxes, _ *kernels.Step) {
			if squares := op.Squares.Float32(); op.Width > 1 {
				squares[0], squares[1] = squares[1], squares[0]
			}
		}),
		defect("an idle step", func(op *kernels.PrincipalAxes, step *kernels.Step) {
			if op.Idle(step) {
				op.Factors.Float32()[0]++
			}
		}),
	}
}

// flipLast flips the last bit of a number of 8 bytes.
func flipLast(b kernels.Buffer, at int64) {
	if b != nil && 2*at < b.Len() {
		kernels.View[uint64](b)[at] ^= 1
	}
}

// caught reports whether a case list finds a device to disagree with the reference.
func caught(cases []opCase, d, reference kernels.Device) bool {
	for _, c := range cases {
		if agree(c, d, reference) != nil {
			return true
		}
	}
	return false
}

func TestADefectInAnyOutputOfAnyOpIsCaught(t *testing.T) {
	t.Parallel()
	reference := oracle(t)
	for _, group := range append(opCases, rankingOps...) {
		cases := group.cases()
		require.NotEmpty(t, defects[group.op], group.op)
		for _, list := range defects[group.op] {
			for what, spoil := range list {
				require.True(t, caught(cases, broken{reference, spoil}, reference), "%s: %s", group.op, what)
			}
		}
	}
}

func TestADependenceOnTheNumberOfThreadsIsCaught(t *testing.T) {
	reference := oracle(t)
	open := func(threads int) kernels.Device {
		if threads != 3 {
			return reference
		}
		return broken{reference, func(op any, _ *kernels.Step) {
			if op, matches := op.(*kernels.Gather); matches {
				op.Out.Float32()[0] = math.Nextafter32(op.Out.Float32()[0], 1e38)
			}
		}}
	}
	require.Error(t, sameBits(forwardCases(false, kernels.Float32)[0], open))
}

// deaf is a device that finds nothing to complain about.
type deaf struct{ kernels.Device }

func (d deaf) OutputStep(op *kernels.Output, s *kernels.Step) error {
	_ = d.Device.OutputStep(op, s)
	return nil
}

func TestADeviceThatSwallowsNotFiniteNumbersIsCaught(t *testing.T) {
	require.Error(t, stops(plantedOutputs()[0], deaf{oracle(t)}))
}

func TestAWeightThatIsNotFiniteAfterAnErrorIsCaught(t *testing.T) {
	require.Error(t, stops(plantedOutputs()[0], ruined{oracle(t)}))
}

// ruined stops with the right error, but after the damage.
type ruined struct{ kernels.Device }

func (d ruined) OutputStep(op *kernels.Output, s *kernels.Step) error {
	err := d.Device.OutputStep(op, s)
	op.Sources[0].Weight.Value.Float32()[5] = nan
	return err
}

func TestAWrongGradientIsCaughtByFiniteDifferences(t *testing.T) {
	d := broken{oracle(t), func(op any, _ *kernels.Step) {
		if op, matches := op.(*kernels.DenseBackward); matches {
			scaleBy(op.DIn.Float32(), 1.01)
		}
	}}
	c := netCases()[1]
	c.stored = false // the gradients of a few entries are too small for a hundredth of them to show
	require.Error(t, gradientAgrees(smoothNet(t, c), d, float32Tolerance))
}

// hasty forgets the last step of a replay whenever it has more than one to make.
type hasty struct{ kernels.Device }

func (d hasty) Replay(op *kernels.Replay, s *kernels.Step) error {
	shorter := *s
	if op.Input < 0 && op.Weight.Last.Int32()[1] < int32(s.Number-1) {
		shorter.Number--
	}
	return d.Device.Replay(op, &shorter)
}

// forgettable are optimizers that move a row without a gradient: by a state, and by L1 alone.
var forgettable = []kernels.Optimizer{{Kind: kernels.Momentum, Momentum: 0.9}, {Kind: kernels.SGD, L1: 0.3}}

func TestAReplayThatDependsOnItsPiecesIsCaught(t *testing.T) {
	for _, o := range forgettable {
		require.Error(t, splitReplayAgrees(hasty{oracle(t)}, o))
	}
}

func TestALazyUpdateThatForgetsAStepIsCaught(t *testing.T) {
	d := hasty{oracle(t)}
	for _, o := range forgettable {
		require.Error(t, lazyAgrees(d, o, 19, func(r *lazyRun) (result, error) { return r.densely(d) }))
	}
}
