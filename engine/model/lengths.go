package model

import (
	"math"

	"dsstne/engine/tensor"
	"dsstne/internal/parallel"
)

// lengthRows are the rows whose squares are added at a time; they do not depend on the number of threads.
const lengthRows = 4096

// scaleUnits gives the vector of each unit, a row or a column of a matrix of normal numbers, a length. Then it has a
// random direction (Muller, "A note on a method for generating points uniformly on n-dimensional spheres", 1959).
func scaleUnits(x []float32, rows, columns int64, of tensor.Vectors, length float64, threads int) error {
	blocks := int((rows + lengthRows - 1) / lengthRows)
	block := func(n int) (first, end int64) { return int64(n) * lengthRows, min(rows, int64(n+1)*lengthRows) }
	if of == tensor.RowVectors {
		return parallel.Do(threads, blocks, func(n int) error {
			for first, end := block(n); first < end; first++ {
				row := x[first*columns : (first+1)*columns]
				squares := 0.0
				for _, v := range row {
					squares += float64(v) * float64(v)
				}
				factor := factorOf(length, squares)
				for k := range row {
					row[k] = float32(float64(row[k]) * factor)
				}
			}
			return nil
		})
	}
	squares := make([]float64, int64(blocks)*columns) // by block
	err := parallel.Do(threads, blocks, func(n int) error {
		sums := squares[int64(n)*columns : int64(n+1)*columns]
		for first, end := block(n); first < end; first++ {
			for k, v := range x[first*columns : (first+1)*columns] {
				sums[k] += float64(v) * float64(v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	factors := make([]float64, columns)
	for k := range factors {
		for n := range int64(blocks) {
			factors[k] += squares[n*columns+int64(k)]
		}
		factors[k] = factorOf(length, factors[k])
	}
	return parallel.Do(threads, blocks, func(n int) error {
		for first, end := block(n); first < end; first++ {
			row := x[first*columns : (first+1)*columns]
			for k := range row {
				row[k] = float32(float64(row[k]) * factors[k])
			}
		}
		return nil
	})
}

// factorOf is what makes a vector with a sum of squares as long as length; a vector of zeros stays.
func factorOf(length, squares float64) float64 {
	if squares == 0 {
		return 0
	}
	return length / math.Sqrt(squares)
}
