package kernels

import (
	"maps"
	"slices"
	"unsafe"

	"dsstne/internal/fault"
)

// Backend is one way to compute: "reference", "cpu", "cuda".
type Backend interface {
	// Name is the word of its devices: "cpu", or "cuda" of "cuda:0".
	Name() string
	// Role says what its devices are for.
	Role() Role
	// Devices lists what is there; the reason of an absent device is in its Missing field.
	Devices() []DeviceInfo
	// Extras lists libraries of others that its devices use where they are installed; none if it has no device.
	Extras() []Extra
	// Open makes device number id ready to use.
	Open(id int, options Options) (Device, error)
	// Join makes devices of the backend a group: a communicator for each, by rank.
	Join([]Device) ([]Communicator, error)
}

var backends = map[string]Backend{}

// Register adds a backend; it is called from the init function of the backend's package.
func Register(b Backend) { backends[b.Name()] = b }

// Lookup finds a registered backend by name, or nil.
func Lookup(name string) Backend { return backends[name] }

// Registered lists the backends by name.
func Registered() []Backend {
	list := make([]Backend, 0, len(backends))
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		list = append(list, backends[name])
	}
	return list
}

// WithRole lists the registered backends with a role, by name.
func WithRole(role Role) []Backend {
	return slices.DeleteFunc(Registered(), func(b Backend) bool { return b.Role() != role })
}

// Role is what the devices of a backend are for, and how they are numbered.
type Role int

// An Accelerator's devices are used wherever there are any; a number behind its name is that of a device. The Host is
// used where there is none; a number behind its name is the number of virtual devices that it is divided into. An
// Oracle is for tests.
const (
	Accelerator Role = iota
	Host
	Oracle
)

// Absent stands for a backend that a build leaves out.
type Absent struct{ Backend, Reason string }

func (a Absent) Name() string { return a.Backend }

// Role is that of an accelerator: every build has a host.
func (Absent) Role() Role { return Accelerator }

func (a Absent) Devices() []DeviceInfo {
	return []DeviceInfo{{Name: a.Backend, Available: -1, Missing: a.Reason}}
}

func (Absent) Extras() []Extra { return nil }

func (a Absent) Open(int, Options) (Device, error) {
	return nil, fault.New(fault.DeviceUnavailable, "%s", a.Reason)
}

// Join is never reached.
func (a Absent) Join([]Device) ([]Communicator, error) {
	return nil, fault.New(fault.DeviceUnavailable, "%s", a.Reason)
}

// Extra describes a library that a backend can do without.
type Extra struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	For     string `json:"for"`               // what it does
	Missing string `json:"missing,omitempty"` // why it is not used, and what is done instead
}

// DeviceInfo describes a device for doctor and for error messages.
type DeviceInfo struct {
	Name      string `json:"name"`              // "cpu", "cuda:0"
	Kind      string `json:"kind"`              // instruction set or GPU model: equal kinds give equal bits
	Memory    int64  `json:"memory,omitempty"`  // bytes of its own; 0 for the CPU, whose memory is the machine's
	Available int64  `json:"available"`         // bytes that could be allocated, -1 if unknown or not looked up
	Threads   int    `json:"threads,omitempty"` // CPU only: threads used unless told otherwise
	// Precisions are those that the device has instructions for; others that it takes are emulated, which saves no time.
	Precisions []string `json:"precisions,omitempty"`
	// FastBFloat16: products of bfloat16 are faster than those of float32.
	FastBFloat16 bool   `json:"fast_bfloat16,omitempty"`
	Used         string `json:"used,omitempty"`    // who else uses its memory, where that is known
	Missing      string `json:"missing,omitempty"` // why the device cannot be used; empty if it can
}

// Options are chosen when a device is opened.
type Options struct {
	Threads        int    // 0: as many as the cgroup and the affinity mask allow
	Of             int    // CPU only: the number of virtual devices that share the threads, at least one each
	InstructionSet string // "", "auto", "avx512bf16", "avx512vnni", "avx512", "avx2", "portable"
	Precision      Precision
	// Form is for tests and measurements on CUDA devices: how outputs are computed, "simple", "fused" or "chunked";
	// empty: as is known to be best. An output that the form does not serve is refused, and a device whose form needs a
	// library that is not installed does not open.
	Form string
}

// Precision says what the products of hidden values, weights and gradients are made of. Weights, state, sums and
// everything else are float32. It concerns Dense, DenseBackward, OutputStats and OutputStep; the reference computes in
// float64 always.
type Precision int32

// Float32 multiplies the numbers as they are. BFloat16 rounds every factor to bfloat16 first (8 bits of precision, to
// nearest, ties to even, numbers below the normal ones to zero) and adds the products in float32. TensorFloat32
// multiplies numbers of which a device of its kind reads the first ten bits of the mantissa, rounded or cut off, and
// adds the products in float32.
const (
	Float32 Precision = iota
	BFloat16
	TensorFloat32
)

// AutoPrecision leaves the choice to the device that is opened, see On.
const AutoPrecision Precision = -1

// On is the precision that a device computes in: AutoPrecision is BFloat16 if that is faster, else Float32.
func (p Precision) On(d DeviceInfo) Precision {
	switch {
	case p != AutoPrecision:
		return p
	case d.FastBFloat16:
		return BFloat16
	}
	return Float32
}

// Device owns memory and does operations. Methods are called from one goroutine at a time. A device with memory of its
// own is also a Separate.
//
// An operation returns *NotFiniteError when a loss, gradient or weight became NaN or infinite. Some rows are updated
// then and some are not, which may depend on timing, but every weight is still finite. A gradient handed on (DH, DIn)
// that is not finite is reported at the latest by the operation that reads it.
//
// An operation that is called while its step runs (see Run) may return before it is done; Settle reports the outcome of
// the step. An operation that is called outside a step is done when it returns.
type Device interface {
	Memory
	Stepper
	Operations
	// Info describes the device, except for Available, which needs a look at the system.
	Info() DeviceInfo
	Close() error
}

// Memory is the memory that a device computes in.
type Memory interface {
	// Available is how many bytes could be allocated now, -1 if unknown.
	Available() int64
	// Alloc returns zeroed memory outside the Go heap for n elements of 4 bytes, or fault.OutOfMemory.
	Alloc(n int64) (Buffer, error)
	// Reaches reports whether operations can work in a buffer, which another device may have allocated.
	Reaches(Buffer) bool
	// Write copies elements from the host into a buffer of the device, from element at on; Read copies them back. See Bits
	// for whole numbers.
	Write(to Buffer, at int64, from []float32) error
	Read(from Buffer, at int64, to []float32) error
	// Trim gives memory back that is kept for later allocations.
	Trim()
}

// Stepper runs lists of operations.
type Stepper interface {
	// Run begins a step: it makes the step's record and batches known to the device and does the list on rank, whose
	// device this is. What a list does depends on the list alone, on no number of a step: a device may keep what it has
	// prepared for a list instead of doing its operations one by one again. Step and batches may be changed when Run
	// returns; the step itself may still be under way then. After a step that has failed, those that were begun change no
	// weight, until Settle has reported it; on devices that were joined, those of all from where they agree
	// (Communicator.Agree).
	Run(rank Rank, list *List, step *Step) error
	// Settle waits until at most underWay of the steps that Run has begun are under way, and returns the results of those
	// that are done, in their order, each once; they are valid until the next call. If one has failed, its error comes
	// after the results of the steps before it; then no step is under way any more, and those after it have changed
	// nothing.
	Settle(underWay int) ([]Result, error)
	// WorkspaceSize is the number of elements of scratch memory that an operation needs for batches of up to rows
	// examples; its Workspace field must hold at least that many when it runs. Operations without such a field need none.
	WorkspaceSize(op any, rows int64) int64
}

// Explainer is a device that does some operations in one of several ways.
type Explainer interface {
	// Explain names the way in which the device does an operation for batches of up to rows examples, or why it cannot do
	// it; empty for operations that are always done in the same way. The operation needs no workspace yet.
	Explain(op Op, rows int64) string
}

// Operations are what every device computes. The structs have the formulas. Fill makes initial weights; the others are
// training and inference.
type Operations interface {
	Fill(*Fill) error
	Gather(*Gather, *Step) error
	Dense(*Dense, *Step) error
	UnitMoments(*UnitMoments, *Step) error
	CombineMoments(*CombineMoments, *Step) error
	RowMoments(*RowMoments, *Step) error
	Activate(*Activate, *Step) error
	OutputStats(*Output, *Step) error
	CombineStats(*CombineStats, *Step) error
	OutputStep(*Output, *Step) error
	MarginalTargets(*MarginalTargets, *Step) error
	OutputEntries(*OutputEntries, *Step) error
	UnitSums(*UnitSums, *Step) error
	Sparsity(*Sparsity, *Step) error
	Merge(*Merge, *Step) error
	MergeBackward(*MergeBackward, *Step) error
	Skip(*Skip, *Step) error
	SoftmaxRows(*SoftmaxRows, *Step) error
	SoftmaxRowsBackward(*SoftmaxRowsBackward, *Step) error
	CapRows(*CapRows, *Step) error
	CopyMatrix(*CopyMatrix, *Step) error
	Sample(*Sample, *Step) error
	SampleBackward(*SampleBackward, *Step) error
	Backward(*Backward, *Step) error
	NormSums(*NormSums, *Step) error
	NormBackward(*NormBackward, *Step) error
	DenseBackward(*DenseBackward, *Step) error
	Scatter(*Scatter, *Step) error
	Replay(*Replay, *Step) error
	ClipNorm(*ClipNorm, *Step) error
	Update(*Update, *Step) error
	ColumnNorms(*ColumnNorms, *Step) error
	CapWeight(*CapWeight, *Step) error
	MoveMoments(*MoveMoments, *Step) error
	Scores(*Scores, *Step) error
	TopK(*TopK, *Step) error
	Moments(*Moments, *Step) error
	Blend(*Blend, *Step) error
	MergeTopK(*MergeTopK, *Step) error
	RankingMetrics(*RankingMetrics, *Step) error
	SparseProduct(*SparseProduct, *Step) error
	Solve(*Solve, *Step) error
	RowsToPanel(*RowsToPanel, *Step) error
	PanelToRows(*PanelToRows, *Step) error
	PanelProduct(*PanelProduct, *Step) error
	RowsToBlocks(*RowsToBlocks, *Step) error
	PanelScale(*PanelScale, *Step) error
}

// RowReader is a device that reads the targets of some outputs in row order alone.
type RowReader interface {
	Device
	// ReadsByRow reports whether it does with this one, in batches of up to rows examples.
	ReadsByRow(op *Output, rows int64) bool
}

// Rounder is a device whose products read some weights rounded. It makes such a copy before each product, unless the
// weight keeps one.
type Rounder interface {
	Device
	// RoundedSize is how many elements a copy takes of a weight that an op, *Output or *Dense, multiplies by in batches of
	// up to rows examples; 0: the op reads none.
	RoundedSize(op any, w *Weights, rows int64) int64
	Round(*Round, *Step) error
}

// LogitKeeper is a device that can keep an output's logits until OutputStep, which otherwise computes them again.
type LogitKeeper interface {
	Device
	// LogitsSize is how many elements Output.Logits has for batches of up to rows examples; 0: the device keeps none.
	LogitsSize(op *Output, rows int64) int64
}

// Separate is a device whose memory the host cannot reach. Steps and weights are copied to it.
type Separate interface {
	Device
	// StepSize is how many bytes of the device's memory a step takes for its record and its sparse batches, which have up
	// to rows rows and, by slot, up to entries stored entries.
	StepSize(rows int64, entries []int64) int64
}

// Keeper is a device that can keep datasets in its memory, and make batches of them there.
type Keeper interface {
	Device
	// KeepSize is how many bytes of the device's memory a dataset takes.
	KeepSize(*Data) int64
	// Keeps reports whether equal data are in the device's memory already, for another user, maybe on another goroutine.
	Keeps(*Data) bool
	// Keep copies a dataset to the device, unless equal data are there: those are shared.
	Keep(*Data) (Resident, error)
	// BatchSize is how many elements Assemble.Batch has: Places.Total for each batch that is there at the same time.
	BatchSize(*Assemble) int64
	Assemble(*Assemble, *Step) error
}

// Threaded is a device that computes with threads of the process, as those of a Host do. Their number changes no bit of
// a result.
type Threaded interface {
	Device
	// UseThreads sets with how many of its threads, at least one, the device does the operations that begin from now on.
	// Any goroutine may call it at any time.
	UseThreads(n int)
	// ThreadsInUse is that number; at first it is all, DeviceInfo.Threads.
	ThreadsInUse() int
}

// VirtualThreads is how many of n threads number id of several virtual devices has, at least one.
func VirtualThreads(n, id, of int) int { return max(1, n*(id+1)/of-n*id/of) }

// ReachesHost reports whether a device computes in the host's memory.
func ReachesHost(d Device) bool {
	_, separate := d.(Separate)
	return !separate
}

// MostUnderWay is how many steps may be under way while the next one is prepared.
const MostUnderWay = 2

// Result is what a step has found.
type Result struct {
	Number, Rows int64     // of the step; of a part of a batch, the rows of the whole
	Loss         []float64 // by output, as Step.Loss
}

// Buffer is memory of a device, counted in elements of 4 bytes.
type Buffer interface {
	Len() int64
	// Float32 and Int32 are host views of the same memory; nil on a device whose memory the host cannot reach.
	Float32() []float32
	Int32() []int32
	// Slice is a view of n elements from the given one on, for as long as the buffer is not freed; freeing it does
	// nothing.
	Slice(from, n int64) Buffer
	// Free gives the memory back; the views are invalid afterwards. Freeing twice does nothing.
	Free()
}

// Bits views other numbers as the float32 that have their bits, for Device.Write and Device.Read, which copy bits: two
// for a number of 8 bytes.
func Bits[T int32 | uint64 | float64](x []T) []float32 {
	var one T
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)/4))
}

// View is the host's view of a buffer with numbers of 8 or 2 bytes; nil where Buffer.Float32 is, and for no buffer.
func View[T uint64 | int64 | float64 | uint16](b Buffer) []T {
	if b == nil {
		return nil
	}
	var one T
	x := b.Float32()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)/int(unsafe.Sizeof(one)))
}
