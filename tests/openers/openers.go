// Package openers opens trainers and predictors by the options that users write.
package openers

import (
	"dsstne/engine/model"
	"dsstne/engine/options"
	"dsstne/engine/predict"
	"dsstne/engine/train"
)

// Trainer opens a trainer.
func Trainer(m *model.Model, text []byte) (*train.Trainer, error) {
	o, err := options.ReadTrainer(text)
	if err != nil {
		return nil, err
	}
	return train.Open(m, o)
}

// Predictor opens a predictor.
func Predictor(m *model.Model, text []byte) (*predict.Predictor, error) {
	o, err := options.ReadPredictor(text)
	if err != nil {
		return nil, err
	}
	return predict.Open(m, o)
}
