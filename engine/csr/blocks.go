package csr

import "slices"

// Blocks is a matrix whose rows are stored in several pieces, one after the other, each in arrays of its own.
type Blocks struct {
	lease
	matrices   []*Matrix
	firsts     []int64 // the number of the first row of each piece, and behind them the number of all rows
	statistics Statistics
}

// NewBlocks makes a matrix of at least one piece; all have the same columns. Release, which may be nil, gives the
// memory of all pieces back; theirs are not called. As with New, the matrix must be validated, and release is not
// called on failure.
func NewBlocks(pieces []Parts, release func()) (*Blocks, error) {
	b := &Blocks{firsts: []int64{0}}
	for _, p := range pieces {
		p.Release, p.firstRow = nil, b.Rows()
		m, err := New(p)
		if err != nil {
			return nil, err
		}
		b.matrices, b.firsts = append(b.matrices, m), append(b.firsts, b.Rows()+m.rows)
	}
	b.release = release
	b.summarize()
	return b, nil
}

func (b *Blocks) summarize() {
	b.statistics = nothing()
	for _, m := range b.matrices {
		b.statistics.merge(m.statistics)
	}
}

// Validate reads everything once, as Matrix.Validate does it.
func (b *Blocks) Validate(o ValidateOptions) error {
	for _, m := range b.matrices {
		if err := m.Validate(o); err != nil {
			return err
		}
	}
	b.summarize()
	return nil
}

// Rows is the number of rows of all pieces.
func (b *Blocks) Rows() int64 { return b.firsts[len(b.firsts)-1] }

// Columns is the number of columns; every index is below it.
func (b *Blocks) Columns() int64 { return b.matrices[0].parts.Columns }

// Statistics describes all rows as they were when they were validated.
func (b *Blocks) Statistics() Statistics { return b.statistics.ofValues() }

// Layout is that of every piece; as there are several, there are no addresses.
func (b *Blocks) Layout() Layout {
	l := b.matrices[0].Layout()
	l.Offsets, l.Indices, l.Values = nil, nil, nil
	return l
}

// RowLength is the number of stored entries of a row, as Matrix.RowLength has it.
func (b *Blocks) RowLength(row int64) int64 {
	n := b.pieceOf(row)
	return b.matrices[n].RowLength(row - b.firsts[n])
}

// Read appends rows to dst, see Source.
func (b *Blocks) Read(rows []int64, dst *Entries) error {
	for len(rows) > 0 {
		piece, n := b.pieceOf(rows[0]), 0
		first, end := b.firsts[piece], b.firsts[piece+1]
		for n < len(rows) && rows[n] >= first && rows[n] < end {
			rows[n] -= first
			n++
		}
		if err := b.matrices[piece].Read(rows[:n], dst); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// pieceOf finds the piece that a row is in, which pieces without rows never are.
func (b *Blocks) pieceOf(row int64) int {
	n, _ := slices.BinarySearch(b.firsts, row+1)
	return n - 1
}
