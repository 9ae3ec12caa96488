package arrowfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// The keys of the schema's metadata: the record as JSON, and the SHA-256 digest of this text.
const (
	recordKey     = "dsstne.dataset"
	recordSum     = "dsstne.sha256"
	recordVersion = 1 // the version of the format
)

// record describes the rows of a file. docs/dataset-file.md has its fields.
type record struct {
	Version int     `json:"version"`
	Rows    int64   `json:"rows"`
	Columns int64   `json:"columns"`
	Entries int64   `json:"entries"`
	Longest int64   `json:"longest"`
	Minimum float64 `json:"minimum"`
	Maximum float64 `json:"maximum"`
	Digest  string  `json:"digest"`

	Digests section  `json:"digests"`
	Lengths section  `json:"lengths"`
	Counts  section  `json:"counts"`
	Items   *section `json:"items"`
	Names   *section `json:"row_names"`
}

// section is an array that is not one of Arrow's: where it is, and its SHA-256 digest. Names have no offset, because
// they are arrays of Arrow, too. The digests of groups have none, because the digest of all rows is made of them.
type section struct {
	Offset int64  `json:"offset,omitempty"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// isOf reports whether data are what was saved.
func (s section) isOf(data []byte) bool { return int64(len(data)) == s.Bytes && sum(data) == s.SHA256 }

// readRecord reads the record in the metadata of the schema, and returns its digest.
func (r *reader) readRecord() (found record, digest string, err error) {
	schema := r.footer.table(footerSchema)
	var text string
	for _, pair := range schema.tables(schemaMetadata) {
		switch pair.text(metadataKey) {
		case recordKey:
			text = pair.text(metadataValue)
		case recordSum:
			digest = pair.text(metadataValue)
		}
	}
	const remedy = "give the number of columns (dsstne.Dataset.from_file), or write the file with dsstne.Dataset.save"
	switch {
	case schema.outside:
		return found, "", damaged("its schema is not whole")
	case text == "":
		return found, "", fault.New(fault.InvalidData, "it has no record of its rows; "+remedy)
	case sum([]byte(text)) != digest:
		return found, "", damaged("the record of its rows is not the one that was saved")
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || found.Rows < 0 || found.Entries < 0 {
		return found, "", damaged("the record of its rows cannot be read")
	}
	if found.Version != recordVersion {
		return found, "", fault.New(fault.Unsupported, "it has version %d of the format; this release reads version %d",
			found.Version, recordVersion)
	}
	return found, digest, nil
}

// attest makes the matrix that the record is of.
func (r *reader) attest(blocks *csr.Blocks, path string, known record) (*csr.Attested, error) {
	about := csr.Record{Name: path, Minimum: known.Minimum, Maximum: known.Maximum}
	var err error
	if about.Digests, err = r.table(known.Digests); err != nil {
		return nil, err
	}
	lengths, err := r.table(known.Lengths)
	if err != nil {
		return nil, err
	}
	if !known.Lengths.isOf(lengths) || csr.DigestOf(known.Rows, known.Columns, about.Digests) != known.Digest {
		return nil, errForeign
	}
	for pairs := lengths; len(pairs) >= 16; pairs = pairs[16:] {
		about.Lengths = append(about.Lengths, csr.Lengths{
			Length: int64(binary.LittleEndian.Uint64(pairs)), Rows: int64(binary.LittleEndian.Uint64(pairs[8:])),
		})
	}
	attested := csr.Attest(blocks, about)
	if attested == nil || known.Counts.Bytes != 8*known.Columns || !known.Items.hasNames(known.Columns, r.size) ||
		!known.Names.hasNames(known.Rows, r.size) {
		return nil, errForeign
	}
	return attested, nil
}

// hasNames reports whether a section can have n names, whose offsets have half the size in the file; so can none.
func (s *section) hasNames(n, fileSize int64) bool {
	return s == nil || s.Bytes/8 > n && s.Bytes/2 <= fileSize
}

var errForeign = fault.New(fault.CorruptFile, "the record of its rows does not fit them: the file is damaged, or "+
	"another program has copied the record to other rows; dsstne.Dataset.from_file opens it without the record")

// table reads a section.
func (r *reader) table(s section) ([]byte, error) {
	if s.Offset < 0 || s.Bytes < 0 || s.Offset > r.size-s.Bytes {
		return nil, errForeign
	}
	data := make([]byte, s.Bytes)
	if _, err := r.file.ReadAt(data, s.Offset); err != nil {
		return nil, fault.From(fault.IO, err, "cannot read the record of its rows")
	}
	return data, nil
}
