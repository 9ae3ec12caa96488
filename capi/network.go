package main

// #include "abi.h"
import "C"

import (
	"dsstne/engine/dsstnejson"
	"dsstne/engine/options"
	"dsstne/engine/strictjson"
)

//export dsstne_network_read
func dsstne_network_read(definition, optionText *C.const_char, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_network_read", err, func(c *call) error {
		text := c.requiredText(definition, "definition")
		dialect := optionsIn(c, optionText, options.ReadNetwork)
		return textOut(c, buf, length, func() ([]byte, error) {
			config, err := dsstnejson.Read([]byte(text), dialect)
			if err != nil {
				return nil, err
			}
			return strictjson.Marshal(config)
		})
	})
}
