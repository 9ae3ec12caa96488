//go:build !nocuda && linux && amd64

package cuda

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
)

// images are what scripts/compile_kernels.py makes of src, compressed to less than a quarter of 11 MB, and a digest of
// what they were made of. A device unpacks its own within 20 ms.
//
//go:embed images/*.gz images/digest
var images embed.FS

// imageFor picks the kernels for a compute capability (times ten). Code of sm_80 runs on all devices 8.x and that of
// sm_120 on all 12.x; images with an "a" run on their own generation only. For what has none of its own, the driver
// compiles the PTX.
func imageFor(capability int) (name string, image []byte) {
	name = "compute_80.ptx"
	switch {
	case capability/10 == 8:
		name = "sm_80.cubin"
	case capability == 90:
		name = "sm_90a.cubin"
	case capability == 100:
		name = "sm_100a.cubin"
	case capability/10 == 12:
		name = "sm_120.cubin"
	}
	image, err := unpacked("images/" + name + ".gz")
	if err != nil {
		panic(err) // they are part of the library
	}
	return name, image
}

func unpacked(path string) ([]byte, error) {
	packed, err := images.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}
