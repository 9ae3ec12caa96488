package program

import (
	"fmt"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Batches of a device with memory of its own are made there, out of datasets that it keeps, where these fit beside everything
// else; the others are made on the host and copied step by step.

// Feed is what a slot's batches are made of: a dataset and how it is read.
type Feed struct {
	Layer   int    // that it feeds, -1 for none
	Name    string // of the layer, or what its items are
	Text    string // what Name is in sentences
	Columns int64
	// Entries is the most stored entries that a batch of so many rows has.
	Entries func(rows int64) int64
	// Keep describes columns first .. end for devices that keep them, the same of the same dataset; nil: batches are made on the host.
	Keep func(first, end int64) (*kernels.Data, error)
	// Shared: devices use what they keep for others, and keep nothing for this.
	Shared bool
	// FirstRank: only the first rank needs it, with all columns.
	FirstRank bool
	// Whole: every rank needs all columns.
	Whole     bool
	Scaled    bool // rows are divided by their L2 norm
	Denoising float32
	Stream    uint32 // of the random numbers of denoising
}

// source is where the batches of a slot come from.
type source struct {
	feed  Feed
	made  *kernels.SparseBatch // by the device; nil: they come from the host
	share *batchShare          // the rank's share of a batch from the host; nil: all of it
	slot  int
}

// batchShare is the share that a rank has of a batch: some columns of all its rows, or some of its rows.
type batchShare struct {
	feed     *Feed
	first    int64 // of the columns
	end      int64
	rows     *rowShare // not nil: some rows, all columns
	rowsOnly bool      // without the order by item
	none     bool      // the rank needs nothing of it
	out      kernels.SparseBatch
}

// rowShare is an equal part of each batch's rows.
type rowShare struct{ rank, world int }

func (s *rowShare) of(rows int64) (first, end int64) { return ShardOf(rows, s.rank, s.world) }

func (s *batchShare) String() string {
	if s.rows != nil {
		return fmt.Sprintf("Part %d of %d of the rows of the batch of %s", s.rows.rank+1, s.rows.world, s.feed.Name)
	}
	return fmt.Sprintf("Shard %d:%d of the batch of %s[%d]", s.first, s.end, s.feed.Name, s.feed.Columns)
}

// cut makes the share of a whole batch.
func (s *batchShare) cut(whole *kernels.SparseBatch, rows int64) *kernels.SparseBatch {
	switch {
	case s.none:
	case s.rows != nil:
		first, end := s.rows.of(rows)
		csr.PartOf(whole, first, end, &s.out)
	case s.rowsOnly:
		csr.ShardRows(whole, s.first, s.end, &s.out)
	default:
		csr.Shard(whole, s.first, s.end, &s.out)
	}
	return &s.out
}

// Batches says, once, what the batches of a step are made of: by slot, behind those of the program that comes first. A feed
// without Entries stands for a batch that is not used. rowsOnly: the order by item is not needed.
func (b *Builder) Batches(rowsOnly bool, feeds ...Feed) {
	b.noteHeld()
	before := len(b.entries)
	for n, f := range feeds {
		b.part.batches = append(b.part.batches, source{feed: f, slot: b.part.firstSlot + n})
	}
	for n := range feeds {
		b.assemble(&b.part.batches[n], rowsOnly)
	}
	for n := range feeds {
		if s := &b.part.batches[n]; s.made == nil && s.feed.Entries != nil {
			b.fromHost(s, rowsOnly)
		}
	}
	b.part.step.Entries = b.entries
	if device, separate := b.device.(kernels.Separate); separate {
		size, of := device.StepSize(b.spec.Rows, b.entries), "the device's copies and the step's record"
		if b.part.follows != nil {
			size -= device.StepSize(b.spec.Rows, b.entries[:before])
			of = "the device's copies for the ranking"
		}
		if size > 0 {
			b.part.memory.note("batch", of, size, false)
		}
	}
	if b.byRows() {
		b.gradientBuffer()
	}
}

// noteHeld adds what exists already to the plan.
func (b *Builder) noteHeld() {
	m := b.part.memory
	if b.first() {
		m.parts = append(m.parts, b.spec.Held...)
	}
	if b.World() > 1 && b.part.follows == nil {
		if held := b.part.Communicator.Memory(); held > 0 {
			m.note("exchange", "the group of devices", held, true)
		}
	}
}

// FirstSlot is the slot of the first batch.
func (b *Builder) FirstSlot() int { return b.part.firstSlot }

// columnsOf is the range of a feed's columns that the rank has.
func (b *Builder) columnsOf(f *Feed) (first, end int64) {
	switch {
	case f.Whole:
		return 0, f.Columns
	case !f.FirstRank:
		return b.Items(f.Columns)
	case b.rank > 0:
		return 0, 0
	}
	return 0, f.Columns
}

// Entries is the most stored entries that the rank's part of a slot's batch can have.
func (b *Builder) Entries(slot int) int64 {
	return b.entriesOf(&b.part.batches[slot-b.part.firstSlot].feed)
}

// entriesOf are those of the fullest rows, of which there are as many as the rank has of a batch; or all of the batch, unless
// its items are too few for that.
func (b *Builder) entriesOf(f *Feed) int64 {
	first, end := b.columnsOf(f)
	rows := b.batch
	if b.byRows() {
		rows = b.spec.Rows
	}
	return min(f.Entries(rows), b.spec.Rows*(end-first))
}

// fromHost plans the memory of batches that come from the host: whole ones there, and what each of several ranks has of them,
// which is an equal part as a rule; the sum over the ranks is exact.
func (b *Builder) fromHost(s *source, rowsOnly bool) {
	f, m := &s.feed, b.part.memory
	first, end := b.columnsOf(f)
	several := b.World() > 1
	if several && (b.byRows() || end-first < f.Columns) {
		s.share = &batchShare{
			feed: f, first: first, end: end, rows: b.part.rowShare, rowsOnly: rowsOnly, none: f.FirstRank && b.rank > 0,
		}
	}
	entries := f.Entries(b.batch)
	if b.first() {
		whole := Part{Name: "batch", Of: f.Name, Bytes: BatchBytes(b.batch, entries, rowsOnly), Device: HostName(b.device)}
		if several {
			whole.Device = "host"
		}
		m.parts = append(m.parts, whole)
	}
	if several && !f.FirstRank && !f.Whole {
		from, to := ShardOf(entries, b.rank, b.World())
		size := ShardBytes(b.spec.Rows, to-from, rowsOnly)
		m.parts = append(m.parts, Part{Name: "batch", Of: "a part of " + f.Name, Bytes: size, Device: HostName(b.device)})
	}
	if s.share == nil || !s.share.none {
		b.entries = append(b.entries, b.entriesOf(f))
	}
}

// BatchBytes is the memory of a sparse batch: by row its offset and its sum, by entry 2 words, and to have the order by item
// too, 4 words of the batch and 6 of the sort.
func BatchBytes(rows, entries int64, rowsOnly bool) int64 {
	words := int64(12)
	if rowsOnly {
		words = 2
	}
	return 4 * (2*rows + words*entries)
}

// ShardBytes is the memory of a shard of a batch, which shares with it the sums of rows and the entries by item.
func ShardBytes(rows, entries int64, rowsOnly bool) int64 {
	words := int64(4)
	if rowsOnly {
		words = 2
	}
	return 4 * (rows + words*entries)
}

// keptData is a dataset that a rank's device keeps, for some feeds.
type keptData struct {
	data     *kernels.Data
	bytes    int64
	feeds    []string // their names
	resident kernels.Resident
}

// leaveOnHost leaves the largest dataset that devices were to keep on the host, and notes why; false if there is none.
func leaveOnHost(host map[string]string, plan *Plan, p *part) bool {
	largest := int64(0)
	for _, k := range p.kept {
		largest = max(largest, k.bytes)
	}
	reason := fmt.Sprintf("the data take %s of the device's memory, ", size(largest))
	left := max(0, plan.Available-plan.fresh(p.Device.Info().Name)+largest)
	switch {
	case plan.Limit > 0 && plan.Bytes > plan.Limit:
		reason += "and memory_limit is " + size(plan.Limit)
	case left < largest:
		reason += size(left) + " are left beside the other parts"
	default:
		reason += "which not every device has left"
	}
	for _, k := range p.kept {
		if k.bytes == largest {
			for _, name := range k.feeds {
				host[name] = reason
			}
			return true
		}
	}
	return false
}

// keep makes the device keep the data of a feed; nil if they stay on the host.
func (b *Builder) keep(f *Feed, entries int64) *keptData {
	device, keeps := b.device.(kernels.Keeper)
	_, stays := b.spec.onHost[f.Name]
	stays = stays || b.spec.onHost == nil
	first, end := b.columnsOf(f)
	if !keeps || f.Keep == nil || stays || entries > kernels.MostEntries || f.FirstRank && b.rank > 0 {
		return nil
	}
	data, err := f.Keep(first, end)
	if err != nil {
		b.Fail(err)
		return nil
	}
	for _, k := range b.residentData {
		if k.data == data {
			return k
		}
	}
	for _, k := range b.part.kept {
		if k.data == data {
			k.feeds = append(k.feeds, f.Name)
			return k
		}
	}
	if f.Shared {
		return nil
	}
	k := &keptData{data: data, bytes: device.KeepSize(data), feeds: []string{f.Name}}
	b.part.memory.note("data", "the device's copy of "+f.Text, k.bytes, false)
	if !b.part.memory.dry {
		if k.resident, err = device.Keep(data); err != nil {
			b.Fail(fault.Wrap(err, "%s", f.Text))
			return nil
		}
	}
	b.part.kept = append(b.part.kept, k)
	return k
}

// assemble puts the making of a slot's batches at the end of the list, if the device makes them.
func (b *Builder) assemble(s *source, rowsOnly bool) {
	f := &s.feed
	if f.Entries == nil {
		return
	}
	entries := b.entriesOf(f)
	k := b.keep(f, entries)
	if k == nil {
		if reason := b.spec.onHost[f.Name]; reason != "" {
			note := fmt.Sprintf("Copy the batch of %s[%d] from the host: %s", f.Name, f.Columns, reason)
			b.part.notes = append(b.part.notes, note)
		}
		return
	}
	op := &kernels.Assemble{
		Name: f.Name, Slot: s.slot, Data: k.resident, Scaled: f.Scaled, Stream: f.Stream,
		Places: kernels.PlacesOf(b.spec.Rows, entries, k.data.Columns, rowsOnly),
	}
	if b.Training() != nil {
		op.Denoising = f.Denoising
	}
	op.Batch = b.Alloc("batch", f.Name, op.Places.Total)
	b.AddWith(&op.Workspace, op, op)
	s.made = &kernels.SparseBatch{Columns: k.data.Columns}
}

// Makes reports whether the devices make the batches of a slot, out of the rows in Step.Order: all of them do or none.
func (p *Program) Makes(slot int) bool {
	part := p.parts[0]
	for slot < part.firstSlot {
		part = part.follows
	}
	return part.batches[slot-part.firstSlot].made != nil
}

// ownBatches are the batches of a step as the rank sees them: those that its device makes, its shares of whole ones, and others
// as they are.
func (p *part) ownBatches(list []*kernels.SparseBatch, step *kernels.Step) []*kernels.SparseBatch {
	if p.follows != nil {
		list = p.follows.ownBatches(list, step)
	}
	for n := range p.batches {
		switch s := &p.batches[n]; {
		case s.made != nil:
			list[s.slot] = s.made
		case s.share != nil:
			list[s.slot] = s.share.cut(step.Sparse[s.slot], step.Rows)
		}
	}
	return list
}

// freeData gives the datasets back that the device keeps.
func (p *part) freeData() {
	for _, k := range p.kept {
		if k.resident != nil {
			k.resident.Free()
		}
	}
	p.kept = nil
}
