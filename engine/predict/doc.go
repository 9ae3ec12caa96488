// Package predict answers questions with a model: scores, hidden activations, top-k lists, neighbours and ranking
// metrics.
//
// A Predictor is opened on a model and bound to one dataset per input layer. Each call walks the rows it was asked for
// in batches, through the forward part of the program and a ranking behind it: the best items are found, and metrics
// of them counted, where the hidden values are. Nothing of size rows x items is made but where the caller asks for all
// scores. Answers do not depend on the batches, the devices or the number of threads.
package predict
