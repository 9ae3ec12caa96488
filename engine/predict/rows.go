package predict

import (
	"cmp"
	"slices"

	"dsstne/engine/csr"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// rowList is the rows of a call: those that the caller chose, or all.
type rowList struct {
	chosen []int64 // nil: rows 0 .. count-1
	count  int64
}

func (l rowList) at(place int64) int64 {
	if l.chosen == nil {
		return place
	}
	return l.chosen[place]
}

// notServing returns an error if the predictor serves.
func (p *Predictor) notServing() error {
	if p.service == nil {
		return nil
	}
	return fault.New(fault.InvalidState, "the predictor serves: it answers dsstne_predictor_ask only")
}

// listed checks the rows that the caller chose; nil chooses all.
func (p *Predictor) listed(rows []int64) (rowList, error) {
	if p.Rows() < 0 {
		return rowList{}, fault.New(fault.InvalidState, "no dataset is bound to the predictor")
	}
	if err := p.notServing(); err != nil {
		return rowList{}, err
	}
	if rows == nil {
		return rowList{count: p.Rows()}, nil
	}
	for n, row := range rows {
		if row < 0 || row >= p.Rows() {
			return rowList{}, fault.New(fault.InvalidArgument,
				"rows[%d] is %d; the bound datasets have rows 0 to %d", n, row, p.Rows()-1)
		}
	}
	return rowList{chosen: rows, count: int64(len(rows))}, nil
}

// batch is the rows of a call that are computed together; advance moves it to the next rows. It has no more rows, and
// no more stored entries from each dataset, than memory is planned for; rows that the caller repeats could have more.
type batch struct {
	rows   []int64
	places []int64 // of the rows in the caller's list

	list    rowList
	most    int64
	readers []*csr.Reader               // by slot; nil ones are not read
	skip    func(place, row int64) bool // rows that are left out; may be nil
	next    int64                       // place in the list
	entries []int64                     // so far, by reader
}

// cut begins at the start of a list of rows; further is read beside the bound datasets.
func (p *Predictor) cut(list rowList, further ...*csr.Reader) *batch {
	readers := slices.Concat(p.readers, further)
	return &batch{list: list, most: p.batchRows(list), readers: readers, entries: make([]int64, len(readers))}
}

// batchRows is the size of the largest batch of a list.
func (p *Predictor) batchRows(list rowList) int64 { return max(1, min(p.planned, list.count)) }

// advance goes on to the next rows, if there are any.
func (b *batch) advance() bool {
	b.rows, b.places = b.rows[:0], b.places[:0]
	clear(b.entries)
	for ; b.next < b.list.count && int64(len(b.rows)) < b.most; b.next++ {
		row := b.list.at(b.next)
		if b.skip != nil && b.skip(b.next, row) {
			continue
		}
		if !b.fits(row) {
			break
		}
		b.rows, b.places = append(b.rows, row), append(b.places, b.next)
	}
	return len(b.rows) > 0
}

// fits counts the entries of a row, unless they are too many beside those of the rows before.
func (b *batch) fits(row int64) bool {
	for i, r := range b.readers {
		if r == nil {
			continue
		}
		b.entries[i] += r.Source.RowLength(row)
		if len(b.rows) > 0 && r.Limit > 0 && b.entries[i] > r.Limit {
			return false
		}
	}
	return true
}

// batches runs a list for the rows, batch by batch. each, if not nil, waits for a batch that has begun and reads its
// results; without it the host makes the next batch meanwhile. At the end no step is under way.
func (p *Predictor) batches(list *program.Program, b *batch, each func(*batch) error) (err error) {
	defer func() {
		_, failure := list.Settle(0)
		err = cmp.Or(err, failure)
	}()
	for b.advance() {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d rows", b.places[0], b.list.count)
		}
		p.step.Rows, p.step.Order = int64(len(b.rows)), b.rows
		for slot, reader := range b.readers {
			if reader == nil || list.Makes(slot) {
				continue
			}
			if err := reader.Batch(b.rows, 0, false, p.step.Sparse[slot]); err != nil {
				return err
			}
		}
		if err := list.Run(&p.step); err != nil {
			return err
		}
		p.read += p.step.Rows
		if each != nil {
			if err := each(b); err != nil {
				return err
			}
		}
		if _, err := list.Settle(kernels.MostUnderWay); err != nil {
			return err
		}
	}
	return nil
}
