package main

// #include "abi.h"
import "C"

import (
	"encoding/json"
	"math"
	"runtime"

	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/engine/program"
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
		backends = append(backends, backend.Name())
	}
	devices := program.Devices()
	return json.Marshal(struct {
		Version  string               `json:"version"`
		ABI      string               `json:"abi"`
		Build    build                `json:"build"`
		CPU      processor            `json:"cpu"`
		Memory   memory               `json:"memory"`
		Backends []string             `json:"backends"`
		Devices  []kernels.DeviceInfo `json:"devices"`
		Extras   []kernels.Extra      `json:"extras"`
	}{
		Version:  version,
		ABI:      abiText(),
		Build:    build{runtime.Version(), C.DSSTNE_COMPILER, runtime.GOOS + "/" + runtime.GOARCH, commit},
		CPU:      readProcessor(devices),
		Memory:   readMemory(devices),
		Backends: backends,
		Devices:  devices,
		Extras:   program.Extras(),
	})
}

// describeModel is the text of dsstne_model_describe.
func describeModel(m *model.Model) ([]byte, error) {
	type tensor struct {
		Name  string  `json:"name"`
		DType string  `json:"dtype"`
		Shape []int64 `json:"shape"`
		Layer string  `json:"layer,omitempty"`
	}
	net := m.Network()
	tensors := []tensor{}
	for _, t := range m.Tensors() {
		entry := tensor{Name: t.Name, DType: t.DType.String(), Shape: t.Shape}
		if t.Layer >= 0 {
			entry.Layer = net.Layers[t.Layer].Name
		}
		tensors = append(tensors, entry)
	}
	return json.Marshal(struct {
		Network    json.RawMessage   `json:"network"`
		Parameters int64             `json:"parameters"`
		Bytes      int64             `json:"bytes"`
		Step       int64             `json:"step"`
		Attributes map[string]string `json:"attributes"`
		Tensors    []tensor          `json:"tensors"`
	}{net.JSON(), m.Parameters(), m.Bytes(), m.Step(), m.Attributes(), tensors})
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
