package csr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/kernels"
	"dsstne/tests/fixture"
)

func TestShardsOfABatchHoldEveryEntryOnce(t *testing.T) {
	const rows, columns = 40, 33
	m := fixture.Blocks(t, rows, columns, 3, 5, 4)
	batch := fixture.Batch(t, m)
	for _, shards := range []int{1, 2, 3, 8, 50} {
		var shard kernels.SparseBatch // used again from shard to shard
		seen := map[string]int{}
		for n := range shards {
			first, end := int64(columns*n/shards), int64(columns*(n+1)/shards)
			csr.Shard(batch, first, end, &shard)
			require.EqualValues(t, end-first, shard.Columns)
			require.Equal(t, batch.RowSum, shard.RowSum)
			require.Len(t, shard.Offsets, rows+1)
			for u := range rows {
				for e := shard.Offsets[u]; e < shard.Offsets[u+1]; e++ {
					require.Less(t, int64(shard.Indices[e]), shard.Columns)
					seen[fmt.Sprint(u, int64(shard.Indices[e])+first, shard.Values[e])]++
				}
			}
			require.Len(t, shard.ItemOffsets, len(shard.Items)+1)
			for i, item := range shard.Items {
				for e := shard.ItemOffsets[i]; e < shard.ItemOffsets[i+1]; e++ {
					seen[fmt.Sprint(shard.ItemRows[e], int64(item)+first, shard.ItemValues[e])]++
				}
			}
		}
		require.Len(t, seen, len(batch.Indices), "%d shards", shards)
		for entry, times := range seen {
			require.Equal(t, 2, times, "by row and by item: %s", entry)
		}
	}
}

func TestPartsOfABatchHoldEveryEntryOnce(t *testing.T) {
	const rows, columns = 40, 33
	batch := fixture.Batch(t, fixture.Blocks(t, rows, columns, 3, 5, 4))
	for _, parts := range []int{1, 2, 3, 8, 50} {
		var part kernels.SparseBatch // used again from part to part
		seen := map[string]int{}
		for n := range parts {
			first, end := int64(rows*n/parts), int64(rows*(n+1)/parts)
			csr.PartOf(batch, first, end, &part)
			require.Equal(t, batch.Columns, part.Columns)
			require.Equal(t, batch.RowSum[first:end], part.RowSum)
			require.Len(t, part.Offsets, int(end-first)+1)
			for u := range end - first {
				for e := part.Offsets[u]; e < part.Offsets[u+1]; e++ {
					seen[fmt.Sprint(u+first, part.Indices[e], part.Values[e])]++
				}
			}
			require.Len(t, part.ItemOffsets, len(part.Items)+1)
			require.IsIncreasing(t, append([]int32{-2, -1}, part.Items...))
			for i, item := range part.Items {
				require.Less(t, part.ItemOffsets[i], part.ItemOffsets[i+1])
				for e := part.ItemOffsets[i]; e < part.ItemOffsets[i+1]; e++ {
					seen[fmt.Sprint(int64(part.ItemRows[e])+first, item, part.ItemValues[e])]++
				}
			}
		}
		require.Len(t, seen, len(batch.Indices), "%d parts", parts)
		for entry, times := range seen {
			require.Equal(t, 2, times, "by row and by item: %s", entry)
		}
	}
}
