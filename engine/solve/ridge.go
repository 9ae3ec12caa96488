package solve

import (
	"cmp"
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Ridge says which matrix a linear model inverts: that of weighted EASE (Steck, "Embarrassingly Shallow Autoencoders
// for Sparse Data", 2019) with EDLAE's dropout term (Steck, "Autoencoders that don't overfit towards the Identity",
// 2020). With d_u and d_i the numbers of stored entries of rows and items:
//
//	Y     = W^1/2 X D^-ItemExponent, scaled so that the mean of diag(Y'Y) is 1; W = diag(d_u^-RowExponent)
//	g     = diag(Y'Y)
//	ridge = Regularization g^RegularizationExponent + Dropout/(1 - Dropout) g
//	P     = (Y'Y + diag(ridge))^-1
//	S_ij  = -d_i^-ItemExponent P_ij / P_jj d_j^(ItemExponent - OutputExponent), 0 for i = j
type Ridge struct {
	Regularization, RegularizationExponent    float64
	Dropout                                   float64
	RowExponent, ItemExponent, OutputExponent float64
}

// Check refuses values that are not finite.
func (Ridge) Check(data csr.Source) error { return checkValues(data, -math.MaxFloat64) }

// system is the data and the ridge of a linear model.
type system struct {
	byRow, byItem   kernels.SparseMatrix // Y
	ridge, diagonal kernels.Buffer       // [items]; diagonal: of Y'Y + ridge
	in, out         kernels.Buffer       // [items]: factors of the rows and of the columns of -P
}

func newSystem(b *program.Builder, data csr.Source) (s system) {
	items := data.Columns()
	s.byRow, s.byItem = stored(b, data)
	vector := func(of string) kernels.Buffer { return b.Alloc("system", of, items) }
	s.ridge, s.diagonal = vector("ridge"), vector("diagonal")
	s.in, s.out = vector("factors of rows"), vector("factors of columns")
	return s
}

// load computes in float64 and rounds once. Items without entries have equations of their own, and weights of 0.
func (s *system) load(data csr.Source, l Ridge) error {
	if err := csr.Store(data, &s.byRow, &s.byItem); err != nil {
		return err
	}
	rows, items := powers(&s.byRow, -l.RowExponent/2), powers(&s.byItem, -l.ItemExponent)
	g, mean := make([]float64, len(items)), 0.0
	entries(&s.byItem, func(i, u int64, x *float32) {
		y := rows[u] * float64(*x) * items[i]
		g[i] += y * y
	})
	with := 0.0
	for _, x := range g {
		mean += x
		if x > 0 {
			with++
		}
	}
	mean = cmp.Or(mean, 1) / max(1, with)
	outward := powers(&s.byItem, l.ItemExponent-l.OutputExponent)
	for i := range g {
		ridge, inward := 1.0, 0.0
		if g[i] /= mean; g[i] > 0 {
			ridge = l.Regularization*math.Pow(g[i], l.RegularizationExponent) + l.Dropout/(1-l.Dropout)*g[i]
			inward = items[i]
		}
		s.ridge.Float32()[i], s.diagonal.Float32()[i] = float32(ridge), float32(ridge+g[i])
		s.in.Float32()[i], s.out.Float32()[i] = float32(inward), float32(outward[i])
		items[i] /= math.Sqrt(mean)
	}
	multiply(&s.byRow, &s.byItem, rows, items)
	return nil
}
