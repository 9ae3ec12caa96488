// Package blend is sums of models: how the scores of several models for the same items become one score. The scores of
// each are standardised row by row, over the items that the row has not stored, and added with weights.
//
// The program has the operations of all parts, each of which leaves its scores of a batch in a matrix [rows, items].
// Moments finds their means and deviations, and Blend adds them up. A batch has few rows, so this is little memory.
package blend
