package textfile

import (
	"math"
	"sync"

	"dsstne/internal/fault"
)

// builder makes the whole of blocks, which come in the order of the text.
type builder struct {
	o                 *Options
	budget            *budget
	samples, features *labels

	entries list[int32] // numbers of features, of one row of the text after the other
	values  list[float32]
	ends    list[int64] // row k of the text has entries ends[k] .. ends[k+1]-1
	rowOf   list[int32] // sample of each row of the text, once they are not 0, 1, 2, ...
	lineOf  list[int64] // line of each row, over all files, if repeated samples are errors
	rowNow  list[int64] // by sample: its last row in the text plus 1, once rowOf is used
	files   []fileStart
	report  Report
	touched uint32 // so that the compiler keeps the reads of touch

	turn  sync.Cond // next has changed
	mu    sync.Mutex
	next  int64 // number of the block whose turn it is
	error error // the first, in the order of the text
}

// fileStart is the first line of a file, over all files.
type fileStart struct {
	name  string
	first int64
}

func newBuilder(o *Options, b *budget) (made *builder, err error) {
	made = &builder{
		o: o, budget: b, entries: list[int32]{budget: b}, values: list[float32]{budget: b}, ends: list[int64]{budget: b},
		rowOf: list[int32]{budget: b}, lineOf: list[int64]{budget: b}, rowNow: list[int64]{budget: b},
	}
	made.turn.L = &made.mu
	made.report.Malformed = map[string]Malformed{}
	if made.samples, err = newLabels("sample", b); err == nil {
		if made.features, err = newLabels("feature", b); err == nil {
			err = made.ends.push(0)
		}
	}
	return made, err
}

func (u *builder) free() {
	u.entries.free()
	u.values.free()
	u.ends.free()
	u.rowOf.free()
	u.lineOf.free()
	u.rowNow.free()
	for _, l := range []*labels{u.samples, u.features} {
		if l != nil {
			l.free()
		}
	}
}

// take waits for the turn of a block and appends it, unless a block before it has failed.
func (u *builder) take(b *block, failure error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.next != b.number {
		u.turn.Wait()
	}
	defer func() { // also if it panics, or the others would wait for ever
		u.next++
		u.turn.Broadcast()
	}()
	if u.error != nil {
		return
	}
	u.error = fault.New(fault.Internal, "appending a block panicked")
	if failure == nil {
		failure = u.append(b)
	}
	u.error = failure
}

// failed reports whether a block has failed.
func (u *builder) failed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.error != nil
}

// append gives the features and samples of a block the numbers of the text, and appends its rows.
func (u *builder) append(b *block) error {
	for _, m := range b.mistakes {
		if !u.o.SkipMalformed {
			return b.fail(m)
		}
		word := m.kind.String()
		sum, known := u.report.Malformed[word]
		if !known {
			sum.First = b.place(m)
		}
		sum.Lines += b.skipped[m.kind]
		u.report.Malformed[word] = sum
	}
	if last := len(u.files) - 1; last < 0 || b.firstLine == 1 {
		u.files = append(u.files, fileStart{b.name, b.before})
	}
	if err := u.numberAll(b); err != nil {
		return err
	}
	begin := uint32(0)
	for _, r := range b.rows.items {
		if err := u.row(b, r, begin); err != nil {
			return err
		}
		begin = r.end
	}
	return nil
}

// unknown stands in a block's numbers for features that have not been looked up yet.
const unknown = -2

// numberAll makes room for the numbers of a block's features.
func (u *builder) numberAll(b *block) error {
	b.numbers.items = b.numbers.items[:0]
	if err := b.numbers.reserve(len(b.features.items)); err != nil {
		return err
	}
	b.numbers.items = b.numbers.items[:len(b.features.items)]
	for i := range b.numbers.items {
		b.numbers.items[i] = unknown
	}
	if err := u.entries.reserve(len(b.entries.items)); err != nil {
		return err
	}
	return u.values.reserve(len(b.values.items))
}

func (b *block) labelOf(s span) []byte { return b.text.items[s.begin : s.begin+s.length] }

// row appends a row of a block, whose first entry is given.
func (u *builder) row(b *block, r row, begin uint32) error {
	sample, added, err := u.samples.number(b.labelOf(r.sample), r.sample.key())
	if err != nil {
		return err
	}
	if sample == absent {
		u.report.UnknownSamples++
		return nil
	}
	if added {
		u.report.NewSamples++
	}
	if err := u.place(b, r, sample); err != nil {
		return err
	}
	u.report.Samples++
	u.touch(b, b.entries.items[begin:r.end])
	for at := begin; at < r.end; at++ {
		local := b.entries.items[at]
		number := b.numbers.items[local]
		if number == unknown {
			s := b.features.items[local]
			var added bool
			if number, added, err = u.features.number(b.labelOf(s), s.key()); err != nil {
				return err
			}
			if added {
				u.report.NewFeatures++
			}
			b.numbers.items[local] = number
		}
		if number == absent {
			u.report.UnknownFeatures++
			continue
		}
		u.entries.items = append(u.entries.items, number)
		if len(b.values.items) > 0 {
			u.values.items = append(u.values.items, b.values.items[at])
		}
	}
	return u.ends.push(int64(len(u.entries.items)))
}

// touch reads the places of the table where the search for new features begins. The processor reads many of them at the
// same time, but would wait for each if it searched first.
func (u *builder) touch(b *block, entries []uint32) {
	slots, sum := u.features.slots.items, uint32(0)
	mask := uint32(len(slots) - 1)
	for _, local := range entries {
		if b.numbers.items[local] == unknown {
			sum += slots[uint32(b.features.items[local].hash>>32)&mask].number
		}
	}
	u.touched = sum
}

// place notes the sample of the row that comes next.
func (u *builder) place(b *block, r row, sample int32) error {
	k := len(u.ends.items) - 1 // number of the row in the text
	line := b.before + int64(r.line)
	if u.o.Repeated == RefuseRepeated {
		if err := u.lineOf.push(line); err != nil {
			return err
		}
	}
	if len(u.rowOf.items) == 0 && int(sample) == k {
		return nil
	}
	if len(u.rowOf.items) < k {
		if err := u.rowOf.reserve(k); err != nil {
			return err
		}
		for n := range int32(k) {
			u.rowOf.items = append(u.rowOf.items, n)
			if err := u.setRow(n, int64(n)); err != nil {
				return err
			}
		}
	}
	if int(sample) < len(u.rowNow.items) && u.rowNow.items[sample] != 0 {
		if u.o.Repeated == RefuseRepeated {
			return u.repeated(b, r, u.lineOf.items[u.rowNow.items[sample]-1])
		}
		u.report.RepeatedSamples++
	}
	if err := u.setRow(sample, int64(k)); err != nil {
		return err
	}
	return u.rowOf.push(sample)
}

func (u *builder) setRow(sample int32, row int64) error {
	if missing := int(sample) + 1 - len(u.rowNow.items); missing > 0 {
		if err := u.rowNow.reserve(missing); err != nil {
			return err
		}
		before := len(u.rowNow.items)
		u.rowNow.items = u.rowNow.items[:int(sample)+1]
		clear(u.rowNow.items[before:])
	}
	u.rowNow.items[sample] = row + 1
	return nil
}

// repeated is the error of a sample that has a row already.
func (u *builder) repeated(b *block, r row, first int64) error {
	file := u.files[0]
	for _, f := range u.files {
		if f.first > first {
			break
		}
		file = f
	}
	return fault.New(fault.InvalidData, "%s, line %d: the sample %q is already in %s, line %d; choose what happens to "+
		"repeated samples with on_repeated, \"replace\" or \"merge\"", b.name, b.firstLine+int64(r.line),
		shown(b.labelOf(r.sample)), file.name, first-file.first+1)
}

// offsets brings the entries into the order of the samples' numbers. It returns one more offset than there are samples.
func (u *builder) offsets() error {
	rows := u.samples.count()
	if len(u.rowOf.items) == 0 {
		for len(u.ends.items) <= rows { // samples of the index that the text lacks
			if err := u.ends.push(int64(len(u.entries.items))); err != nil {
				return err
			}
		}
		return nil
	}
	offsets := list[int64]{budget: u.budget}
	defer func() { offsets.free() }()
	if err := offsets.zeros(rows + 2); err != nil {
		return err
	}
	if u.ascending() { // the index has samples that the text lacks, and the entries are where they should be
		for k, sample := range u.rowOf.items {
			offsets.items[sample+1] = u.ends.items[k+1]
		}
		for n := 1; n <= rows; n++ {
			offsets.items[n] = max(offsets.items[n], offsets.items[n-1])
		}
		offsets.items = offsets.items[:rows+1]
		u.ends, offsets = offsets, u.ends
		return nil
	}
	u.eachKept(func(k int, sample int32) { offsets.items[sample+2] += u.ends.items[k+1] - u.ends.items[k] })
	for n := 2; n < len(offsets.items); n++ {
		offsets.items[n] += offsets.items[n-1]
	}
	// offsets[n+1] is where row n begins, and after arrange where it ends.
	if err := arrange(u, &u.entries, offsets.items[1:]); err != nil {
		return err
	}
	if len(u.values.items) > 0 {
		for n := rows; n > 0; n-- {
			offsets.items[n+1] = offsets.items[n]
		}
		offsets.items[1] = 0
		if err := arrange(u, &u.values, offsets.items[1:]); err != nil {
			return err
		}
	}
	offsets.items = offsets.items[:rows+1]
	u.ends, offsets = offsets, u.ends
	return nil
}

// ascending reports whether each row of the text has a higher sample than the one before.
func (u *builder) ascending() bool {
	for k, sample := range u.rowOf.items[1:] {
		if sample <= u.rowOf.items[k] {
			return false
		}
	}
	return true
}

// eachKept visits the rows of the text that are in the result.
func (u *builder) eachKept(visit func(k int, sample int32)) {
	for k, sample := range u.rowOf.items {
		if u.o.Repeated == MergeRepeated || u.rowNow.items[sample] == int64(k)+1 {
			visit(k, sample)
		}
	}
}

// arrange copies the rows of the text to where begins says, and moves it to their ends.
func arrange[T any](u *builder, from *list[T], begins []int64) error {
	to := list[T]{budget: u.budget}
	if err := to.zeros(int(begins[len(begins)-1])); err != nil {
		return err
	}
	u.eachKept(func(k int, sample int32) {
		begins[sample] += int64(copy(to.items[begins[sample]:], from.items[u.ends.items[k]:u.ends.items[k+1]]))
	})
	from.free()
	*from = to
	return nil
}

// narrow makes offsets of 32 bits of those of 64, in their memory.
func narrow(offsets *list[int64]) (*list[int32], bool) {
	n := len(offsets.items)
	if offsets.items[n-1] > math.MaxInt32 {
		return nil, false
	}
	short := &list[int32]{budget: offsets.budget, buffer: offsets.buffer}
	all := offsets.buffer.Int32()
	for i, offset := range offsets.items {
		all[i] = int32(offset)
	}
	short.items = all[:n]
	offsets.buffer, offsets.items = nil, nil
	return short, true
}
