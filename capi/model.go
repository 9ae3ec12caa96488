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
func dsstne_model_create(definition, optionText *C.const_char, out *C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_create", err, func() error {
		text, err := requiredText(definition, "definition")
		if err := first(err, notNull(out, "out")); err != nil {
			return err
		}
		o, err := optionsIn(optionText, options.ReadModel)
		if err != nil {
			return err
		}
		return openModel(out, func() (*model.Model, error) {
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
	return guard("dsstne_model_load", err, func() error {
		file, err := requiredText(path, "path")
		if err := first(err, notNull(out, "out")); err != nil {
			return err
		}
		threads, err := optionsIn(optionText, options.ReadLoad)
		if err != nil {
			return err
		}
		return openModel(out, func() (*model.Model, error) { return model.Load(file, threads) })
	})
}

// openModel makes a model on a goroutine of its own and gives it a handle.
func openModel(out *C.dsstne_model, open func() (*model.Model, error)) error {
	var m *model.Model
	err := hop(func() (err error) {
		m, err = open()
		return err
	})
	if err != nil {
		return err
	}
	*out = C.dsstne_model(handles.add(&modelObject{m}))
	return nil
}

//export dsstne_model_save
func dsstne_model_save(handle C.dsstne_model, path, optionText *C.const_char, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_save", err, func() error {
		file, err := requiredText(path, "path")
		if err != nil {
			return err
		}
		attributes, err := optionsIn(optionText, options.ReadAttributes)
		if err != nil {
			return err
		}
		return with(uint64(handle), "model", "dsstne_model_save", sharing, func(m *modelObject) error {
			return hop(func() error { return m.Save(file, attributes) })
		})
	})
}

//export dsstne_model_get_tensor
func dsstne_model_get_tensor(handle C.dsstne_model, name *C.const_char, dst unsafe.Pointer, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_get_tensor", err, func() error {
		tensor, err := requiredText(name, "name")
		if err != nil {
			return err
		}
		memory, err := slice((*byte)(dst), int64(bytes), "dst", "bytes")
		if err != nil {
			return err
		}
		return with(uint64(handle), "model", "dsstne_model_get_tensor", sharing, func(m *modelObject) error {
			return hop(func() error { return m.GetTensor(tensor, memory) })
		})
	})
}

//export dsstne_model_set_tensor
func dsstne_model_set_tensor(handle C.dsstne_model, name *C.const_char, src *C.const_void, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_set_tensor", err, func() error {
		tensor, err := requiredText(name, "name")
		if err != nil {
			return err
		}
		memory, err := slice((*byte)(unsafe.Pointer(src)), int64(bytes), "src", "bytes")
		if err != nil {
			return err
		}
		return with(uint64(handle), "model", "dsstne_model_set_tensor", changing, func(m *modelObject) error {
			return hop(func() error { return m.SetTensor(tensor, memory) })
		})
	})
}

//export dsstne_model_copy
func dsstne_model_copy(handle C.dsstne_model, out *C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_copy", err, func() error {
		if err := notNull(out, "out"); err != nil {
			return err
		}
		return with(uint64(handle), "model", "dsstne_model_copy", sharing, func(m *modelObject) error {
			return openModel(out, m.Copy)
		})
	})
}

//export dsstne_model_describe
func dsstne_model_describe(handle C.dsstne_model, buf *C.char, length *C.size_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_describe", err, func() error {
		if err := notNull(length, "len"); err != nil {
			return err
		}
		return with(uint64(handle), "model", "dsstne_model_describe", watching, func(m *modelObject) error {
			text, err := describeModel(m.Model)
			if err != nil {
				return err
			}
			textOut(text, buf, length)
			return nil
		})
	})
}

//export dsstne_model_close
func dsstne_model_close(handle C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_close", err, func() error {
		return handles.close(uint64(handle), "model", "dsstne_model_close", modelKind)
	})
}
