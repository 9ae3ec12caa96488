package arrowfile

// SaveInBatches is Save with a limit of its own for the bytes of a record batch.
var SaveInBatches = save
