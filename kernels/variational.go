package kernels

import "fmt"

// Sample draws the units of a variational layer (Kingma and Welling, "Auto-encoding variational Bayes", ICLR 2014) from
// normal distributions with the mean m = Heads[u,k] and the log-variance v = Heads[u, Units+k]:
//
//	Out[u,k] = m + exp(v/2) e     in training, else m
//
// with e the standard normal number random.Noise has for (seed, Stream, step, Step.First + u, k): the same on every
// backend, device and thread.
type Sample struct {
	Name   string // of the layer
	Heads  Buffer // [B, 2 Units]
	Out    Buffer // [B, Units]
	Units  int64
	Stream uint32
}

func (o *Sample) Do(r Rank, s *Step) error { return r.Device.Sample(o, s) }
func (o *Sample) String() string           { return "Sample " + o.Name }

// Work: it reads both heads and writes the units.
func (o *Sample) Work(s *Sizes) Work { return Work{Bytes: 3 * numbers(s.Rows, o.Units)} }

// SampleBackward goes back through Sample, with the same m, v and e, and adds the Kullback-Leibler divergence of the
// distributions from the standard normal one, the mean over the rows of the whole batch. With w = the weight of the
// term at this step over Step.WholeRows(), and dh = DH[u,k],
//
//	Heads[u, k]       = dh + w m
//	Heads[u, Units+k] = dh e exp(v/2) / 2 + w (exp(v) - 1) / 2
//	Step.Loss[Term]  += w (m^2 + exp(v) - 1 - v) / 2
//
// Where v is above MaxLogVariance, whose exponential is near the end of float32, the gradient counts as infinite.
type SampleBackward struct {
	Name   string // of the layer, for error messages
	Heads  Buffer // [B, 2 Units]
	DH     Buffer // [B, Units]
	Units  int64
	Stream uint32
	Weight float32
	Term   int
	Silent bool // another rank adds the loss
	// Workspace has the divergences of the rows.
	Workspace Buffer
}

// MaxLogVariance is the largest log-variance that a training step accepts.
const MaxLogVariance = 88

func (o *SampleBackward) Do(r Rank, s *Step) error { return r.Device.SampleBackward(o, s) }
func (o *SampleBackward) String() string {
	return fmt.Sprintf("SampleBackward %s, divergence weight %g", o.Name, o.Weight)
}

// Work: it reads both heads and the gradient of the units, and writes both heads.
func (o *SampleBackward) Work(s *Sizes) Work { return Work{Bytes: 5 * numbers(s.Rows, o.Units)} }
