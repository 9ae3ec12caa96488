package main

// #include "abi.h"
import "C"

import (
	"unsafe"

	"dsstne/engine/model"
	"dsstne/engine/options"
)

type modelObject struct{ *model.Model }

func (*modelObject) kind() kind     { return modelKind }
func (m *modelObject) close() error { return m.Close() }

//export dsstne_model_create
func dsstne_model_create(definition, optionText *C.const_char, out *C.dsstne_model,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_create", err, func(c *call) error {
		text := c.requiredText(definition, "definition")
		o := optionsIn(c, optionText, options.ReadModel)
		return openModel(c, out, func() (*model.Model, error) {
			form, err := model.ReadForm([]byte(text), o.Sizes)
			if err != nil {
				return nil, err
			}
			return model.Create(form, o.Create)
		})
	})
}

//export dsstne_model_load
func dsstne_model_load(path, optionText *C.const_char, out *C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_load", err, func(c *call) error {
		file := c.pathIn(path)
		threads := optionsIn(c, optionText, options.ReadLoad)
		return openModel(c, out, func() (*model.Model, error) { return model.Load(file, threads) })
	})
}

// openModel makes a model on a goroutine of its own and gives it a handle.
func openModel(c *call, out *C.dsstne_model, create func() (*model.Model, error)) error {
	return open(c, out, hop, func() (object, error) {
		m, err := create()
		return &modelObject{m}, err
	})
}

//export dsstne_model_save
func dsstne_model_save(handle C.dsstne_model, path, optionText *C.const_char, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_save", err, func(c *call) error {
		file := c.pathIn(path)
		attributes := optionsIn(c, optionText, options.ReadAttributes)
		return with(c, handle, sharing, func(m *modelObject) error {
			return hop(func() error { return m.Save(file, attributes) })
		})
	})
}

//export dsstne_model_get_tensor
func dsstne_model_get_tensor(handle C.dsstne_model, name *C.const_char, dst unsafe.Pointer, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_get_tensor", err, func(c *call) error {
		tensor := c.requiredText(name, "name")
		memory := slice(c, (*byte)(dst), int64(bytes), "dst", "bytes")
		return with(c, handle, sharing, func(m *modelObject) error {
			return hop(func() error { return m.GetTensor(tensor, memory) })
		})
	})
}

//export dsstne_model_set_tensor
func dsstne_model_set_tensor(handle C.dsstne_model, name *C.const_char, src *C.const_void, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_set_tensor", err, func(c *call) error {
		tensor := c.requiredText(name, "name")
		memory := slice(c, (*byte)(unsafe.Pointer(src)), int64(bytes), "src", "bytes")
		return with(c, handle, changing, func(m *modelObject) error {
			return hop(func() error { return m.SetTensor(tensor, memory) })
		})
	})
}

//export dsstne_model_set_rows
func dsstne_model_set_rows(handle C.dsstne_model, name *C.const_char, first C.int64_t, rows *C.const_float,
	nRows, nColumns C.int64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_set_rows", err, func(c *call) error {
		tensor := c.requiredText(name, "name")
		memory := table(c, (*float32)(rows), int64(nRows), int64(nColumns), "rows", "n_rows", "n_columns")
		return with(c, handle, changing, func(m *modelObject) error {
			return hop(func() error { return m.SetRows(tensor, int64(first), memory, int64(nColumns)) })
		})
	})
}

//export dsstne_model_copy
func dsstne_model_copy(handle C.dsstne_model, out *C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_copy", err, func(c *call) error {
		return with(c, handle, sharing, func(m *modelObject) error { return openModel(c, out, m.Copy) })
	})
}

//export dsstne_model_describe
func dsstne_model_describe(handle C.dsstne_model, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_describe", err, func(c *call) error {
		return with(c, handle, watching, func(m *modelObject) error {
			return textOut(c, buf, length, func() ([]byte, error) { return describeModel(m.Model) })
		})
	})
}

//export dsstne_model_get_attribute
func dsstne_model_get_attribute(handle C.dsstne_model, name *C.const_char, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_get_attribute", err, func(c *call) error {
		attribute := c.requiredText(name, "name")
		return with(c, handle, watching, func(m *modelObject) error {
			return textOut(c, buf, length, func() (string, error) { return m.Attribute(attribute) })
		})
	})
}

//export dsstne_model_close
func dsstne_model_close(handle C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_close", err, func(c *call) error {
		return handles.close(uint64(handle), modelKind, c.name)
	})
}
