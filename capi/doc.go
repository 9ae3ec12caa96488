// Package main is the C interface of dsstne, built with -buildmode=c-shared.
//
// It translates and decides nothing: C arguments become Go values, engine errors become status codes, objects become
// 64-bit handles. Every export is the same few lines:
//
//	//export dsstne_model_save
//	func dsstne_model_save(model C.dsstne_model, path, options *C.const_char, err *C.dsstne_error) C.dsstne_status {
//		return guard("dsstne_model_save", err, func(c *call) error {
//			file := c.pathIn(path)
//			return with(c, model, sharing, func(m *modelObject) error {
//				return hop(func() error { return m.Save(file, ...) })
//			})
//		})
//	}
//
// guard turns a panic into DSSTNE_INTERNAL. call reads the arguments and keeps the first error. with takes the handle
// for the length of the call. hop moves a call that fans out to a plain goroutine. include/dsstne.h is part of every
// cgo preamble, so an export that differs from it does not compile.
package main

// #cgo CFLAGS: -I${SRCDIR}/../include
// #cgo LDFLAGS: -lm
import "C"

func main() {} // never called; c-shared asks for it
