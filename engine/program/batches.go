package program

import (
	"cmp"
	"fmt"
	"slices"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// A device with memory of its own makes batches there, out of datasets that it keeps, where these fit beside everything
// else. The host makes the other batches, and they are copied step by step.

// Feed is a dataset that a slot's batches are made of, and how it is read.
type Feed struct {
	Layer   int    // that it feeds, -1 for none
	Name    string // of the layer, or what its items are
	Text    string // what Name is in sentences
	Columns int64
	// Entries is an upper bound on the stored entries of a batch with the given number of rows.
	Entries   func(rows int64) int64
	Negatives int64 // that are added in training for each of them; then the host makes the batches
	// Keep describes columns first .. end for devices that keep them, once a dataset. Nil: the host makes the batches.
	Keep func(first, end int64) (*kernels.Data, error)
	// Shared: devices use what they keep for others, and keep nothing for this feed.
	Shared bool
	// FirstRank: only the first rank needs it, with all columns.
	FirstRank bool
	// Whole: every rank needs all columns.
	Whole     bool
	Scaled    bool // rows are divided by their L2 norm
	Denoising float32
	Stream    uint32 // of the random numbers of denoising or of negatives
	Zeros     bool   // zeros that are stored are entries; then the host makes the batches
}

// most is an upper bound on the entries of a batch, with negatives.
func (f *Feed) most(rows int64) int64 {
	return csr.WithNegatives(f.Entries(rows), f.Negatives, rows, f.Columns)
}

// source is where the batches of a slot come from.
type source struct {
	feed      Feed
	assembled *kernels.SparseBatch // by the device; nil: the host makes the batches
	op        *kernels.Assemble    // that makes them; nil: another slot's operation, or none
	data      *kernels.Data        // that they are made of
	share     *batchShare          // the rank's share of a batch from the host; nil: all of it
	slot      int
}

// batchShare is a rank's share of a batch: some columns of all its rows, or some of its rows.
type batchShare struct {
	feed       *Feed
	first, end int64     // columns
	rows       *rowShare // not nil: some rows, all columns
	rowsOnly   bool      // without the order by item
	none       bool      // the rank needs nothing of the batch
	out        kernels.SparseBatch
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

func (s *batchShare) of(whole *kernels.SparseBatch, rows int64) *kernels.SparseBatch {
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

// Batches declares, once for each model, the feeds of a step's batches, by slot, behind those that were declared
// before. A feed without Entries stands for a batch that is not used. rowsOnly: the order by item is not needed.
func (b *Builder) Batches(rowsOnly bool, feeds ...Feed) {
	further := b.declared || b.part.follows != nil
	if !b.declared {
		b.noteHeld()
	}
	b.declared = true
	if n := b.same(feeds); n >= 0 {
		b.slot = b.part.firstSlot + n
		return
	}
	before, first := len(b.entries), len(b.part.batches)
	b.slot = b.part.firstSlot + first
	for n, f := range feeds {
		b.part.batches = append(b.part.batches, source{feed: f, slot: b.slot + n})
	}
	added := b.part.batches[first:]
	for n := range added {
		b.assemble(&added[n], rowsOnly)
	}
	for n := range added {
		if s := &added[n]; s.assembled == nil && s.feed.Entries != nil {
			b.fromHost(s, rowsOnly)
		}
	}
	b.part.step.Entries = b.entries
	if device, separate := b.device.(kernels.Separate); separate {
		size, of := device.StepSize(b.spec.Rows, b.entries), "the device's copies and the step's record"
		if further {
			size -= device.StepSize(b.spec.Rows, b.entries[:before])
			of = "the device's copies of further batches"
		}
		if size > 0 {
			b.note("batch", of, size, false)
		}
	}
	if b.writes() {
		b.allocGradients()
	}
}

// noteHeld adds what exists already to the plan.
func (b *Builder) noteHeld() {
	if b.first() {
		b.part.plan = append(b.part.plan, b.spec.Held...)
	}
	if b.World() > 1 && b.part.follows == nil {
		if held := b.part.Communicator.Memory(); held > 0 {
			b.note("exchange", "the group of devices", held, true)
		}
	}
}

// FirstSlot is the slot of the first batch that the last call of Batches has declared.
func (b *Builder) FirstSlot() int { return b.slot }

// same finds the batch of a feed that several parts of a model read in the same way, by its place; -1: there is none.
func (b *Builder) same(feeds []Feed) int {
	if b.prefix == "" || len(feeds) != 1 {
		return -1
	}
	f := &feeds[0]
	return slices.IndexFunc(b.part.batches, func(s source) bool {
		return s.feed.Layer == f.Layer && s.feed.Scaled == f.Scaled && (s.feed.Whole == f.Whole || !b.Sharded())
	})
}

// columnsOf is the range of a feed's columns that the rank has.
func (b *Builder) columnsOf(f *Feed) (first, end int64) {
	switch {
	case !f.FirstRank && !f.Whole:
		return b.Items(f.Columns)
	case f.FirstRank && b.rank > 0:
		return 0, 0
	}
	return 0, f.Columns
}

// Entries is an upper bound on the stored entries of the rank's part of a slot's batch.
func (b *Builder) Entries(slot int) int64 {
	return b.entriesOf(&b.part.batches[slot-b.part.firstSlot].feed)
}

// entriesOf is the sum over the fullest rows that the rank can have of a batch, but no more than its items allow.
func (b *Builder) entriesOf(f *Feed) int64 {
	first, end := b.columnsOf(f)
	rows := b.batch
	if b.byRows() {
		rows = b.spec.Rows
	}
	return min(f.most(rows), b.spec.Rows*(end-first))
}

// fromHost plans the memory of batches that come from the host: whole ones there, and an equal part on each of several
// ranks, which may have more or less; the sum over the ranks is exact.
func (b *Builder) fromHost(s *source, rowsOnly bool) {
	f := &s.feed
	first, end := b.columnsOf(f)
	several := b.World() > 1
	if several && (b.byRows() || end-first < f.Columns) {
		s.share = &batchShare{
			feed: f, first: first, end: end, rows: b.part.rowShare, rowsOnly: rowsOnly, none: f.FirstRank && b.rank > 0,
		}
	}
	entries := f.most(b.batch)
	if b.first() {
		where := HostName(b.device)
		if several {
			where = "host"
		}
		b.Note(Part{Name: "batch", Of: f.Name, Bytes: BatchBytes(b.batch, entries, rowsOnly), Device: where})
	}
	if several && !f.FirstRank && !f.Whole {
		from, to := ShardOf(entries, b.rank, b.World())
		words := int64(4) // an entry; sums of rows and entries by item are those of the whole batch
		if rowsOnly {
			words = 2
		}
		size := 4 * (b.spec.Rows + words*(to-from))
		b.Note(Part{Name: "batch", Of: "a part of " + f.Name, Bytes: size, Device: HostName(b.device)})
	}
	if s.share == nil || !s.share.none {
		b.entries = append(b.entries, b.entriesOf(f))
	}
}

// BatchBytes is the memory of a sparse batch: offset and sum of each row, 2 words an entry and 10 more for the order by
// item.
func BatchBytes(rows, entries int64, rowsOnly bool) int64 {
	words := int64(12)
	if rowsOnly {
		words = 2
	}
	return 4 * (2*rows + words*entries)
}

// residentData is a dataset that a rank's device keeps, for some feeds.
type residentData struct {
	data     *kernels.Data
	bytes    int64
	held     bool     // the device has it for another program
	feeds    []string // their names
	resident kernels.Resident
}

// fresh is how many bytes of memory the copy takes.
func (k *residentData) fresh() int64 {
	if k.held {
		return 0
	}
	return k.bytes
}

// leaveOnHost leaves the largest dataset that devices were to keep on the host, and records why. Those that are there
// anyway come last.
func leaveOnHost(host map[string]string, plan *Plan, p *part) {
	largest := slices.MaxFunc(p.resident, func(a, b *residentData) int {
		return cmp.Or(cmp.Compare(a.fresh(), b.fresh()), cmp.Compare(a.bytes, b.bytes))
	})
	reason := fmt.Sprintf("the data take %s of the device's memory, ", size(largest.bytes))
	left := max(0, plan.Available-plan.fresh(p.Device.Info().Name)+largest.fresh())
	switch {
	case plan.Limit > 0 && plan.Bytes > plan.Limit:
		reason += "and memory_limit is " + size(plan.Limit)
	case left < largest.bytes:
		reason += size(left) + " are left beside the other parts"
	default:
		reason += "which not every device has left"
	}
	for _, name := range largest.feeds {
		host[name] = reason
	}
}

// keep makes the device keep the data of a feed; nil if they stay on the host.
func (b *Builder) keep(f *Feed, entries int64) *residentData {
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
	same := func(k *residentData) bool { return k.data == data }
	if b.part.follows != nil {
		if i := slices.IndexFunc(b.part.follows.resident, same); i >= 0 {
			return b.part.follows.resident[i]
		}
	}
	if i := slices.IndexFunc(b.part.resident, same); i >= 0 {
		k := b.part.resident[i]
		k.feeds = append(k.feeds, f.Name)
		return k
	}
	if f.Shared {
		return nil
	}
	k := &residentData{data: data, bytes: device.KeepSize(data), held: device.Keeps(data), feeds: []string{f.Name}}
	b.note("data", "the device's copy of "+f.Text, k.bytes, k.held)
	if !b.dry {
		if k.resident, err = device.Keep(data); err != nil {
			b.Fail(fault.Wrap(err, "%s", f.Text))
			return nil
		}
	}
	b.part.resident = append(b.part.resident, k)
	return k
}

// assemble adds the operation that makes a slot's batches, if the device makes them.
func (b *Builder) assemble(s *source, rowsOnly bool) {
	f := &s.feed
	if f.Entries == nil {
		return
	}
	entries := b.entriesOf(f)
	k := b.keep(f, entries)
	if k == nil {
		reason := b.spec.onHost[f.Name]
		if _, keeps := b.device.(kernels.Keeper); keeps && f.Zeros {
			reason = "it may store zeros, which count there"
		} else if keeps && f.Negatives > 0 {
			reason = "negatives are drawn there"
		}
		if reason != "" {
			note := fmt.Sprintf("Copy the batch of %s[%d] from the host: %s", f.Name, f.Columns, reason)
			b.part.planNotes = append(b.part.planNotes, note)
		}
		return
	}
	op := &kernels.Assemble{
		Name: f.Name, Slots: []int{s.slot}, Data: k.resident, Scaled: f.Scaled, Stream: f.Stream,
		Places: kernels.PlacesOf(b.spec.Rows, entries, k.data.Columns, rowsOnly),
	}
	if b.Training() != nil {
		op.Denoising = f.Denoising
	}
	s.data = k.data
	if same := b.sameBatch(s, op); same != nil {
		same.op.Slots = append(same.op.Slots, s.slot)
		s.assembled = same.assembled
		return
	}
	s.op = op
	op.Batch = b.Alloc("batch", f.Name, b.device.(kernels.Keeper).BatchSize(op))
	b.early.take(&op.Workspace, b.device.WorkspaceSize(op, b.spec.Rows))
	b.Add(op)
	s.assembled = &kernels.SparseBatch{Columns: k.data.Columns}
}

// ReadTarget tells what makes the batches of an output's target, which no other operation reads, that the device reads
// them in row order alone, if it does.
func (b *Builder) ReadTarget(op *kernels.Output) {
	device, is := b.device.(kernels.RowReader)
	for n := range b.part.batches {
		made := b.part.batches[n].op
		if is && made != nil && slices.Contains(made.Slots, op.Target) && device.ReadsByRow(op, b.spec.Rows) {
			op.ByRow, made.ByRow = true, append(made.ByRow, op.Target)
		}
	}
}

// sameBatch finds the slot whose batches hold what an operation would make: an autoencoder's target is, as a rule, its
// input. Nil: there is none.
func (b *Builder) sameBatch(of *source, op *kernels.Assemble) *source {
	for n := range b.part.batches {
		s := &b.part.batches[n]
		if s.op == nil || len(s.op.Slots) == kernels.MostSlots || s.data != of.data {
			continue
		}
		noise := s.op.Denoising == op.Denoising && (op.Denoising == 0 || s.op.Stream == op.Stream)
		if noise && s.op.Scaled == op.Scaled && s.op.Places == op.Places {
			return s
		}
	}
	return nil
}

// Makes reports whether the devices make the batches of a slot, from the rows in Step.Order: all devices do or none.
func (p *Program) Makes(slot int) bool {
	part := p.parts[0]
	for slot < part.firstSlot {
		part = part.follows
	}
	return part.batches[slot-part.firstSlot].assembled != nil
}

// shares replaces batches of a step by those of the rank: batches that its device makes, and its shares of whole ones.
func (p *part) shares(list []*kernels.SparseBatch, step *kernels.Step) []*kernels.SparseBatch {
	if p.follows != nil {
		list = p.follows.shares(list, step)
	}
	for n := range p.batches {
		switch s := &p.batches[n]; {
		case s.assembled != nil:
			list[s.slot] = s.assembled
		case s.share != nil:
			list[s.slot] = s.share.of(step.Sparse[s.slot], step.Rows)
		}
	}
	return list
}
