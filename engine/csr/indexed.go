package csr

// Indexed is rows of a source that a list in borrowed memory names: row r is row list[r] of the source. The list is
// followed when rows are read, so no row is stored twice, however often the list names it. Errors about entries name
// rows of the source.
type Indexed struct {
	lease
	*view
}

// NewIndexed makes it and checks the list once, on up to threads goroutines (0: one a processor). The source is in use
// until Close, and the list must stay in place until then.
func NewIndexed[T RowNumber](s Source, list []T, threads int) (*Indexed, error) {
	if err := s.Use(); err != nil {
		return nil, err
	}
	v, err := newView(&view{Source: s, rows: int64(len(list)), list: numbersOf[T](list)}, threads)
	if err != nil {
		s.Unuse()
		return nil, err
	}
	return &Indexed{lease{release: s.Unuse}, v}, nil
}

// Layout is the widths of the source's numbers, whose addresses are not those of the rows.
func (x *Indexed) Layout() Layout {
	stored, is := x.Source.(interface{ Layout() Layout })
	if !is {
		return Layout{OffsetBits: 64, IndexBits: 32, ValueBits: 32}
	}
	l := stored.Layout()
	l.Offsets, l.Indices, l.Values = nil, nil, nil
	return l
}

// indexBlock is how many row numbers an index gives at a time.
const indexBlock = 1 << 16

// listed is the view of a source that is rows of another, named by a list.
type listed interface{ asView() *view }

func (v *view) asView() *view { return v }

// storedRows is what a device keeps of a source: the rows as they are stored, and what reads the list that names them,
// or the source itself and nil. The latter copies each row that a list names, which is right for a list that names no
// more entries than are stored, such as that of a few rows of a large matrix.
func storedRows(s Source) (Source, func(each func([]int64) error) error) {
	v, is := s.(listed)
	if !is || v.asView().list == nil {
		return s, nil
	}
	chain, base := []*view{v.asView()}, v.asView().Source
	for {
		v, is := base.(listed)
		if !is {
			break
		}
		chain, base = append(chain, v.asView()), v.asView().Source
	}
	if s.Statistics().NonZeros <= base.Statistics().NonZeros {
		return s, nil
	}
	return base, func(each func([]int64) error) error {
		rows := make([]int64, 0, min(s.Rows(), indexBlock))
		for first := int64(0); first < s.Rows(); first += indexBlock {
			rows = rows[:0]
			for row := first; row < min(first+indexBlock, s.Rows()); row++ {
				rows = append(rows, row)
			}
			for _, v := range chain {
				if err := v.follow(rows); err != nil {
					return err
				}
			}
			if err := each(rows); err != nil {
				return err
			}
		}
		return nil
	}
}

// follow replaces rows of the view by their numbers in its source.
func (v *view) follow(rows []int64) error {
	return catchFaults(func() error {
		for i, row := range rows {
			if rows[i] = v.at(row); !v.has(rows[i]) {
				return v.changed(row, rows[i])
			}
		}
		return nil
	})
}
