package arrowfile

// SaveInBatches is Save with a limit of its own for the bytes of a record batch.
var SaveInBatches = save

// RecordOf is the record of a file as text.
func RecordOf(path string) (text string, err error) {
	_, err = open(path, func(r *reader) (bool, error) {
		for _, pair := range r.footer.table(footerSchema).tables(schemaMetadata) {
			if pair.text(metadataKey) == recordKey {
				text = pair.text(metadataValue)
			}
		}
		return true, r.file.Close()
	})
	return text, err
}
