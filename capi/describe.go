package main

// #include "abi.h"
import "C"

import (
	"encoding/json"
	"math"
	"runtime"

	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/kernels"
)

// describeLibrary is the text of dsstne_describe.
func describeLibrary() ([]byte, error) {
	type build struct {
		Go       string `json:"go"`
		Compiler string `json:"compiler"`
		Target   string `json:"target"`
		Commit   string `json:"commit,omitempty"`
	}
	var backends []string
	for _, backend := range kernels.Registered() {
		if _, absent := backend.(kernels.Absent); !absent {
			backends = append(backends, backend.Name())
		}
	}
	list := devices.List()
	host := list[0]
	return json.Marshal(struct {
		Version  string               `json:"version"`
		ABI      string               `json:"abi"`
		Build    build                `json:"build"`
		CPU      kernels.Processor    `json:"cpu"`
		Memory   kernels.MemorySizes  `json:"memory"`
		Backends []string             `json:"backends"`
		Devices  []kernels.DeviceInfo `json:"devices"`
		Extras   []kernels.Extra      `json:"extras"`
	}{
		Version:  version,
		ABI:      abiText(),
		Build:    build{runtime.Version(), C.DSSTNE_COMPILER, runtime.GOOS + "/" + runtime.GOARCH, commit},
		CPU:      kernels.ReadProcessor(host),
		Memory:   kernels.ReadMemory(host),
		Backends: backends,
		Devices:  list,
		Extras:   devices.Extras(),
	})
}

// describeModel is the text of dsstne_model_describe.
func describeModel(m *model.Model) ([]byte, error) {
	type tensor struct {
		Name  string  `json:"name"`
		DType string  `json:"dtype"`
		Shape []int64 `json:"shape"`
		Layer string  `json:"layer,omitempty"`
		Role  string  `json:"role,omitempty"`
	}
	type layer struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
		Size int64  `json:"size"`
	}
	form := m.Form()
	ports, tensors, layers := form.Ports(), []tensor{}, []layer{}
	for _, port := range ports {
		layers = append(layers, layer{port.Name, port.Kind, port.Size})
	}
	specs, err := form.Specs()
	if err != nil {
		return nil, err
	}
	for i, t := range m.Tensors() {
		entry := tensor{Name: t.Name, DType: t.DType.String(), Shape: t.Shape}
		if t.Layer >= 0 {
			entry.Layer, entry.Role = ports[t.Layer].Name, specs[i].Role.String()
		}
		tensors = append(tensors, entry)
	}
	definition, network := json.RawMessage(form.JSON()), json.RawMessage("null")
	if m.Network() != nil {
		network = definition
	}
	return json.Marshal(struct {
		Network    json.RawMessage   `json:"network"`
		Definition json.RawMessage   `json:"definition"`
		Layers     []layer           `json:"layers"`
		Parameters int64             `json:"parameters"`
		Bytes      int64             `json:"bytes"`
		Step       int64             `json:"step"`
		Attributes map[string]string `json:"attributes"`
		Tensors    []tensor          `json:"tensors"`
	}{network, definition, layers, m.Parameters(), m.Bytes(), m.Step(), m.Attributes(), tensors})
}

// describeResult is the text of dsstne_predictor_evaluate. A mean over no rows is null: JSON has no NaN.
func describeResult(metrics []string, result predict.Result) ([]byte, error) {
	means := make(map[string]*float64, len(metrics))
	for i, name := range metrics {
		if value := result.Values[i]; !math.IsNaN(value) {
			means[name] = &value
		} else {
			means[name] = nil
		}
	}
	return json.Marshal(struct {
		Rows    int64               `json:"rows"`
		Metrics map[string]*float64 `json:"metrics"`
	}{result.Rows, means})
}
