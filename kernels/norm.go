package kernels

import (
	"fmt"
	"math"
)

// Norm centres and scales the sums z of a layer before its bias is added:
//
//	z' = xhat Scale[k],   xhat = (z - mean) / sqrt(variance + Epsilon)
//
// The mean and the variance are those of each unit: over a batch, or running ones (batch normalisation, Ioffe and
// Szegedy, 2015). With ByRow they are those of each row over its units (layer normalisation, Ba et al., 2016).
type Norm struct {
	Mean, Variance Buffer // [K], or [B] with ByRow
	Scale          Buffer // [K]
	Epsilon        float32
	ByRow          bool
}

func (n *Norm) String() string {
	if n == nil {
		return ""
	}
	if n.ByRow {
		return fmt.Sprintf(", normalised by row, epsilon %g", n.Epsilon)
	}
	return fmt.Sprintf(", normalised, epsilon %g", n.Epsilon)
}

// OfVariance is the What of an error about moments that are not finite.
const OfVariance = "the variance over the batch"

// momentsSize is the length of UnitMoments.Moments.
func momentsSize(units int64) int64 { return 2*units + 1 }

// UnitMoments computes, of each unit over the rows of the step, the mean and the sum of the squared deviations from it:
//
//	Moments = [mean of each unit, squares of each unit, number of rows]
//
// All are 0 where there are no rows.
type UnitMoments struct {
	Name    string // of the layer
	X       Buffer // [B, Units]
	Units   int64
	Moments Buffer // [2 Units + 1]
}

func (o *UnitMoments) Do(r Rank, s *Step) error { return r.Device.UnitMoments(o, s) }
func (o *UnitMoments) String() string           { return "UnitMoments " + o.Name }

// Size is the length of Moments.
func (o *UnitMoments) Size() int64 { return momentsSize(o.Units) }

// Work: it reads X for the mean and once more for the squares.
func (o *UnitMoments) Work(s *Sizes) Work { return Work{Bytes: 2 * numbers(s.Rows, o.Units)} }

// RowMoments computes the mean and the variance of each row over its units; the variance is the mean squared deviation.
type RowMoments struct {
	Name           string // of the layer
	X              Buffer // [B, Units]
	Units          int64
	Mean, Variance Buffer // [B]
}

func (o *RowMoments) Do(r Rank, s *Step) error { return r.Device.RowMoments(o, s) }
func (o *RowMoments) String() string           { return "RowMoments " + o.Name }

// Work: it reads X.
func (o *RowMoments) Work(s *Sizes) Work { return Work{Bytes: numbers(s.Rows, o.Units+2)} }

// CombineMoments combines the moments that ranks have found in their rows of a batch to the mean and the variance of
// each unit over the whole batch (Chan et al., "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979). With n rows in a part and N so far, in the order of the ranks:
//
//	d = mean of the part - mean;   squares += squares of the part + d^2 n N / (n + N);   mean += d n / (n + N)
//	variance = squares / rows of the batch
//
// A number that is not finite is an error.
type CombineMoments struct {
	Name           string // of the layer, for error messages
	Parts          Buffer // [Ranks, 2 Units + 1], those of UnitMoments
	Ranks          int64
	Units          int64
	Mean, Variance Buffer // [Units]
}

func (o *CombineMoments) Do(r Rank, s *Step) error { return r.Device.CombineMoments(o, s) }
func (o *CombineMoments) String() string {
	return fmt.Sprintf("CombineMoments %s of %d", o.Name, o.Ranks)
}

// Work: it reads the parts.
func (o *CombineMoments) Work(*Sizes) Work {
	return Work{Bytes: numbers(float64(o.Ranks+1), 2*o.Units)}
}

// Apply computes the op where the host reaches the numbers.
func (o *CombineMoments) Apply() error {
	parts, size := o.Parts.Float32(), momentsSize(o.Units)
	for k := range o.Units {
		var rows, mean, squares float64
		for r := range o.Ranks {
			part := parts[r*size:][:size]
			n := float64(part[size-1])
			if n == 0 {
				continue
			}
			d := float64(part[k]) - mean
			squares += float64(part[o.Units+k]) + d*d*n*rows/(n+rows)
			mean += d * n / (n + rows)
			rows += n
		}
		variance := float32(squares / max(1, rows))
		if math.IsNaN(mean) || math.IsInf(mean, 0) || !(variance <= math.MaxFloat32) {
			return &NotFiniteError{Tensor: o.Name, What: OfVariance, Row: k}
		}
		o.Mean.Float32()[k], o.Variance.Float32()[k] = float32(mean), variance
	}
	return nil
}

// MoveMoments moves running means and variances towards those of a batch: running += Momentum (batch - running).
type MoveMoments struct {
	Name                         string // of the layer
	Units                        int64
	Mean, Variance               Buffer // [Units], of the batch
	RunningMean, RunningVariance Buffer // [Units]
	Momentum                     float32
}

func (o *MoveMoments) Do(r Rank, s *Step) error { return r.Device.MoveMoments(o, s) }
func (o *MoveMoments) String() string {
	return fmt.Sprintf("MoveMoments %s, momentum %g", o.Name, o.Momentum)
}

// Work: it reads the moments of the batch and updates the others.
func (o *MoveMoments) Work(*Sizes) Work {
	updated := 4 * numbers(float64(o.Units), 1)
	return Work{Bytes: 2*numbers(float64(o.Units), 1) + updated, Updated: updated}
}

// Apply computes the op where the host reaches the numbers.
func (o *MoveMoments) Apply() error {
	for _, pair := range [][2]Buffer{{o.RunningMean, o.Mean}, {o.RunningVariance, o.Variance}} {
		running, of := pair[0].Float32()[:o.Units], pair[1].Float32()
		for k, x := range running {
			running[k] = float32(x*(1-o.Momentum)) + float32(o.Momentum*of[k])
		}
	}
	return nil
}

// NormSums adds up over the rows of the step what the way back through a Norm needs of each unit:
//
//	Sums = [sum of dy of each unit, sum of dy xhat of each unit]
//
// The second is the gradient with respect to Norm.Scale.
type NormSums struct {
	Name  string // of the layer
	DY    Buffer // [B, Units], dL/d(z' + bias)
	X     Buffer // [B, Units], z
	Norm  Norm
	Units int64
	Sums  Buffer // [2, Units]
}

func (o *NormSums) Do(r Rank, s *Step) error { return r.Device.NormSums(o, s) }
func (o *NormSums) String() string           { return "NormSums " + o.Name }

// Work: it reads DY and X.
func (o *NormSums) Work(s *Sizes) Work { return Work{Bytes: 2 * numbers(s.Rows, o.Units)} }

// NormBackward turns the gradient with respect to normalised sums into that with respect to the sums, in place, and
// updates the scale with the sums of this rank. With s = Norm.Scale[k] / sqrt(variance + Epsilon), N = Step.WholeRows()
// and the sums of all Parts in their order:
//
//	dz = s (dy - (sum of dy) / N - xhat (sum of dy xhat) / N),   or s dy with Constant
//
// With Norm.ByRow, the means are those over the units of the row, and g = Scale[k] dy:
//
//	dz = (g - mean of g - xhat (mean of g xhat)) / sqrt(variance + Epsilon)
type NormBackward struct {
	Name      string // of the layer, for error messages
	DY        Buffer // [B, Units], in: dL/dy, out: dL/dz
	X         Buffer // [B, Units], z
	Norm      Norm
	Units     int64
	Parts     Buffer // [Ranks, 2, Units], those of NormSums; nil if nothing needs them
	Ranks     int64
	Rank      int64 // whose part is the gradient of the scale
	Constant  bool  // the moments are not those of the batch, so they do not depend on z
	Scale     *Weights
	Optimizer Optimizer
}

func (o *NormBackward) Do(r Rank, s *Step) error { return r.Device.NormBackward(o, s) }
func (o *NormBackward) String() string {
	if o.Constant {
		return "NormBackward " + o.Name + ", constant moments"
	}
	return "NormBackward " + o.Name
}

// Work: it reads DY and X, writes DY, and updates the scale.
func (o *NormBackward) Work(s *Sizes) Work {
	return Work{Bytes: 3 * numbers(s.Rows, o.Units)}.update(o.Scale, float64(o.Units), o.Optimizer)
}

// Own is the sums of dy xhat of the op's rank, [Units].
func (o *NormBackward) Own() Buffer { return o.Parts.Slice((2*o.Rank+1)*o.Units, o.Units) }
