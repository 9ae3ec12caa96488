package main

// #include "abi.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"

	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/kernels"
)

type jsonObject = map[string]any

// describeLibrary is the text of dsstne_describe.
func describeLibrary() ([]byte, error) {
	var backends []string
	for _, backend := range kernels.Registered() {
		if _, absent := backend.(kernels.Absent); !absent {
			backends = append(backends, backend.Name())
		}
	}
	target := runtime.GOOS + "/" + runtime.GOARCH
	build := jsonObject{"go": runtime.Version(), "compiler": C.DSSTNE_COMPILER, "target": target}
	if commit != "" {
		build["commit"] = commit
	}
	list := devices.List()
	return json.Marshal(jsonObject{
		"version":  version,
		"abi":      fmt.Sprintf("%d.%d", uint32(C.DSSTNE_ABI_VERSION)>>16, uint32(C.DSSTNE_ABI_VERSION)&0xffff),
		"build":    build,
		"cpu":      kernels.ReadProcessor(list[0]),
		"memory":   kernels.ReadMemory(list[0]),
		"backends": backends,
		"devices":  list,
		"extras":   devices.Extras(),
		"open":     handles.count(),
	})
}

// describeModel is the text of dsstne_model_describe.
func describeModel(m *model.Model) ([]byte, error) {
	form := m.Form()
	specs, err := form.Specs()
	if err != nil {
		return nil, err
	}
	ports, tensors, layers := form.Ports(), []jsonObject{}, []jsonObject{}
	for _, port := range ports {
		layers = append(layers, jsonObject{"name": port.Name, "kind": port.Kind, "size": port.Size})
	}
	for i, t := range m.Tensors() {
		entry := jsonObject{"name": t.Name, "dtype": t.DType.String(), "shape": t.Shape}
		if t.Layer >= 0 {
			entry["layer"], entry["role"] = ports[t.Layer].Name, specs[i].Role.String()
			if columns := specs[i].Columns; columns > 0 {
				entry["columns"] = columns
			}
		}
		tensors = append(tensors, entry)
	}
	attributes := map[string]int{}
	for name, text := range m.Attributes() {
		attributes[name] = len(text)
	}
	described := jsonObject{
		"network":         nil,
		"definition":      json.RawMessage(form.JSON()),
		"layers":          layers,
		"parameters":      m.Parameters(),
		"bytes":           m.Bytes(),
		"step":            m.Step(),
		"attribute_bytes": attributes,
		"tensors":         tensors,
	}
	if m.Network() != nil {
		described["network"] = described["definition"]
	}
	return json.Marshal(described)
}

// describeResult is the text of dsstne_predictor_evaluate. A mean over no rows is null: JSON has no NaN.
func describeResult(metrics []string, result predict.Result) ([]byte, error) {
	means := jsonObject{}
	for i, name := range metrics {
		means[name] = nil
		if value := result.Values[i]; !math.IsNaN(value) {
			means[name] = value
		}
	}
	return json.Marshal(jsonObject{"rows": result.Rows, "metrics": means})
}
