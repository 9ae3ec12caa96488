package csr

import (
	"crypto/sha256"
	"encoding/hex"
	"unsafe"

	"dsstne/internal/parallel"
)

// digestRows is how many rows are read at a time for a digest, which follows from it.
const digestRows = 1024

// Digest identifies a source by its size and its rows as readers see them: how they are stored makes no difference. It
// reads everything, on up to threads goroutines (0: one a processor).
func Digest(s Source, threads int) (string, error) {
	rows := s.Rows()
	sums := make([][sha256.Size]byte, (rows+digestRows-1)/digestRows)
	err := parallel.Do(threads, len(sums), func(n int) error {
		b := blocks.Get().(*block)
		defer blocks.Put(b)
		if err := b.read(s, int64(n)*digestRows, min(int64(n+1)*digestRows, rows)); err != nil {
			return err
		}
		hash := sha256.New()
		hash.Write(bytesOf(b.Ends))
		hash.Write(bytesOf(b.Indices))
		hash.Write(bytesOf(b.Values))
		hash.Sum(sums[n][:0])
		return nil
	})
	whole := sha256.New()
	whole.Write(bytesOf([]int64{rows, s.Columns()}))
	whole.Write(bytesOf(sums))
	return hex.EncodeToString(whole.Sum(nil)[:16]), err
}

func bytesOf[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
