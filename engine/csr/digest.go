package csr

import (
	"crypto/sha256"
	"encoding/hex"
	"unsafe"

	"dsstne/internal/parallel"
)

// A group is GroupRows consecutive rows, the first beginning at row 0. Each has a digest of its own, so that a row can
// be checked without reading all: the first batch of a shuffled training reads GroupRows times its rows. The digest of
// a source follows from both numbers.
const (
	GroupRows  = 16
	GroupBytes = 16 // of its digest
)

// Groups is the number of groups of a number of rows.
func Groups(rows int64) int64 { return (rows + GroupRows - 1) / GroupRows }

// Digest identifies a source by its size and its rows as readers see them: how they are stored makes no difference. It
// reads everything, on up to threads goroutines (0: one a processor), unless the source is Attested.
func Digest(s Source, threads int) (string, error) {
	if known, is := s.(recorded); is {
		return known.digest(), nil
	}
	const together = 64 // groups, so that little time goes into dividing the work
	rows := s.Rows()
	groups := Groups(rows)
	digests := make([]byte, GroupBytes*groups)
	err := parallel.Do(threads, int((groups+together-1)/together), func(part int) error {
		b := blocks.Get().(*block)
		defer blocks.Put(b)
		first := int64(part) * together
		for group := first; group < min(first+together, groups); group++ {
			if err := b.read(s, group*GroupRows, min((group+1)*GroupRows, rows)); err != nil {
				return err
			}
			copy(digests[group*GroupBytes:], b.Digest())
		}
		return nil
	})
	return DigestOf(rows, s.Columns(), digests), err
}

// Digest is the digest of a group: of where its rows end (int64), its indices (int32) and its values (float32).
func (e *Entries) Digest() []byte {
	hash := sha256.New()
	hash.Write(bytesOf(e.Ends))
	hash.Write(bytesOf(e.Indices))
	hash.Write(bytesOf(e.Values))
	return hash.Sum(nil)[:GroupBytes]
}

// DigestOf is the digest of a source, from its size and the digests of its groups.
func DigestOf(rows, columns int64, digests []byte) string {
	whole := sha256.New()
	whole.Write(bytesOf([]int64{rows, columns}))
	whole.Write(digests)
	return hex.EncodeToString(whole.Sum(nil)[:16])
}

func bytesOf[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
