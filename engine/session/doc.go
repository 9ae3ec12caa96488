// Package session is what trainers and predictors have in common: they hold on to a model, to devices and to the
// datasets of the model's layers, and make the specification of a program out of these.
package session
