package csr

import (
	"slices"

	"dsstne/kernels"
)

// Shard fills out with the entries of a batch whose items are from first up to end; items are counted from first there.
// Sums of rows stay those of whole rows. Entries by item are shared with the batch, the others are copied, into out's
// slices if they are large enough; the time grows with the batch's rows and with the entries in the range.
func Shard(batch *kernels.SparseBatch, first, end int64, out *kernels.SparseBatch) {
	ShardRows(batch, first, end, out)
	shardItems(batch, int32(first), int32(end), out)
}

// ShardRows does so for a batch that has entries by row only, and perhaps no values.
func ShardRows(batch *kernels.SparseBatch, first, end int64, out *kernels.SparseBatch) {
	out.Columns, out.RowSum = end-first, batch.RowSum
	rows := len(batch.Offsets) - 1
	out.Offsets = append(slices.Grow(out.Offsets[:0], rows+1), 0)
	out.Indices, out.Values = out.Indices[:0], out.Values[:0]
	for u := range rows {
		begin, stop := batch.Offsets[u], batch.Offsets[u+1]
		row := batch.Indices[begin:stop]
		from, size := within(row, int32(first), int32(end))
		for _, item := range row[from : from+size] {
			out.Indices = append(out.Indices, item-int32(first))
		}
		if len(batch.Values) > 0 {
			out.Values = append(out.Values, batch.Values[begin:stop][from:from+size]...)
		}
		out.Offsets = append(out.Offsets, int32(len(out.Indices)))
	}
}

func shardItems(batch *kernels.SparseBatch, first, end int32, out *kernels.SparseBatch) {
	from, size := within(batch.Items, first, end)
	out.Items, out.ItemOffsets = resize(out.Items, size), resize(out.ItemOffsets, size+1)
	entries, last := batch.ItemOffsets[from], batch.ItemOffsets[from+size]
	for n := range size {
		out.Items[n] = batch.Items[from+n] - first
		out.ItemOffsets[n] = batch.ItemOffsets[from+n] - entries
	}
	out.ItemOffsets[size] = last - entries
	out.ItemRows, out.ItemValues = batch.ItemRows[entries:last], batch.ItemValues[entries:last]
}

// PartOf fills out with rows first up to end of a batch, which are counted from first there. Entries by row are shared
// with the batch, those by item are copied, into out's slices if they are large enough.
func PartOf(batch *kernels.SparseBatch, first, end int64, out *kernels.SparseBatch) {
	from, to := batch.Offsets[first], batch.Offsets[end]
	out.Columns, out.RowSum = batch.Columns, batch.RowSum[first:end]
	out.Indices, out.Values = batch.Indices[from:to], batch.Values[from:to]
	out.Offsets = out.Offsets[:0]
	for _, offset := range batch.Offsets[first : end+1] {
		out.Offsets = append(out.Offsets, offset-from)
	}
	out.Items, out.ItemRows, out.ItemValues = out.Items[:0], out.ItemRows[:0], out.ItemValues[:0]
	out.ItemOffsets = append(out.ItemOffsets[:0], 0)
	for n, item := range batch.Items {
		begin, stop := batch.ItemOffsets[n], batch.ItemOffsets[n+1]
		rows := batch.ItemRows[begin:stop]
		at, size := within(rows, int32(first), int32(end))
		if size == 0 {
			continue
		}
		for _, row := range rows[at : at+size] {
			out.ItemRows = append(out.ItemRows, row-int32(first))
		}
		out.Items = append(out.Items, item)
		out.ItemValues = append(out.ItemValues, batch.ItemValues[begin:stop][at:at+size]...)
		out.ItemOffsets = append(out.ItemOffsets, int32(len(out.ItemRows)))
	}
}
