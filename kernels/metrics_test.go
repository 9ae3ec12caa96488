package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

func TestTheSumOfManyRowsIsExact(t *testing.T) {
	s := kernels.FixedPoint{High: 1 << 38} // 2^40 rows of 1
	s.Add(0x1p-40)
	require.Equal(t, 0x1p40, s.Float64()) // 2^-40 is there, but lies below float64's last bit
	require.Equal(t, kernels.FixedPoint{High: 1 << 38, Low: 1 << 22}, s)
}

func TestASumCarries(t *testing.T) {
	var s kernels.FixedPoint
	for range 6 {
		s.Add(1)
	}
	require.Equal(t, kernels.FixedPoint{High: 1, Low: 1 << 63}, s)
	require.Equal(t, 6.0, s.Float64())
}
