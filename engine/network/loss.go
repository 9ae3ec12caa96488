package network

import (
	"slices"

	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// terms reads "loss", which is absent, a word, an object or a list, and returns one term for each output.
func terms(document *strictjson.Object, layers []Layer) []Term {
	var outputs []int
	for i := range layers {
		if layers[i].Scores() {
			outputs = append(outputs, i)
		}
	}
	// Asked for first: the key is a known one even where there is nothing to apply it to.
	form := document.Type("loss")
	if len(outputs) == 0 {
		return nil
	}
	given := map[int]Term{}
	switch form {
	case strictjson.Missing:
	case strictjson.StringType:
		kind := readWord(document, "loss", kernels.Softmax, lossWords)
		for _, output := range outputs {
			given[output] = defaultTerm(kind)
		}
	case strictjson.ObjectType:
		addTerm(document.Object("loss"), layers, outputs, given)
	case strictjson.ListType:
		for _, o := range document.Objects("loss") {
			addTerm(o, layers, outputs, given)
		}
	default:
		document.Fail("loss", "is %v; it must be a word, an object or a list of objects", form)
	}
	var list []Term
	for _, output := range outputs {
		term, found := given[output]
		if !found {
			term = defaultTerm(kernels.Softmax)
		}
		term.Layer = output
		term.Loss.Activation = layers[output].kind.(*outputLayer).behind(term.Loss)
		list = append(list, term)
	}
	return list
}

// addTerm reads one term.
func addTerm(o *strictjson.Object, layers []Layer, outputs []int, given map[int]Term) {
	term := readTerm(o)
	term.Schedule = schedule.Read(o, "schedule")
	output := -1
	switch {
	case o.Has("layer"):
		name := o.String("layer", "")
		names := make([]string, len(outputs))
		for i, output := range outputs {
			names[i] = layers[output].Name
		}
		if i := slices.Index(names, name); i >= 0 {
			output = outputs[i]
		} else {
			o.Fail("layer", "is %q; no output layer has this name%s", name, strictjson.Suggestion(name, names))
		}
	case len(outputs) == 1:
		output = outputs[0]
	default:
		o.Require("layer")
	}
	if _, found := given[output]; found {
		o.Fail("", "is a second loss for the layer %q; every output has one", layers[output].Name)
	}
	if output >= 0 {
		given[output] = term
	}
}

// readTerm reads what a term has beside its layer and its schedule.
func readTerm(o *strictjson.Object) Term {
	term := defaultTerm(readWord(o, "kind", kernels.Softmax, lossWords))
	term.Loss = readLoss(o, term.Loss)
	term.StoredOnly = o.Bool("stored_only", false)
	term.Negatives = o.Int("negatives", term.Negatives, strictjson.Between(0, mostNegatives))
	if term.Negatives > 0 && term.Loss.Marginal() {
		key := "one_target"
		if !o.Has(key) {
			key = "one_scale"
		}
		o.Fail(key, "is given, but negatives are, too, and the loss %q takes one of the two only", term.Loss.Kind)
	}
	switch {
	case term.Loss.Pairs && term.StoredOnly:
		o.Fail("stored_only", "is true, but the loss %q compares stored items with negatives", bprWord)
	case term.Loss.Pairs && term.Negatives == 0:
		o.Fail("negatives", "is 0, but the loss %q compares stored items with negatives", bprWord)
	case term.StoredOnly && term.Negatives > 0:
		o.Fail("stored_only", "is true, but there are negatives, which count, too; leave it out")
	case term.StoredOnly && term.Loss.NeedsStats():
		o.Fail("stored_only", `is true, but the loss %q compares the scores of all items; with "negatives" it compares `+
			"stored items with some of the others", term.Loss.Kind)
	}
	return term
}

// bprWord is the word of the loss of pairs with the sigmoid, which is behind the words of the other losses.
const bprWord = "bpr"

var lossWords = append(slices.Clone(kernels.LossWords), bprWord)

func lossWord(l kernels.Loss) string {
	if l.Pairs {
		return bprWord
	}
	return l.Kind.String()
}

// mostNegatives bounds the negatives of a stored entry.
const mostNegatives = 1 << 20

// readLoss completes a loss of which only the kind is known.
func readLoss(o *strictjson.Object, loss kernels.Loss) kernels.Loss {
	kind := loss.Kind
	loss.Weight = o.Float32("weight", loss.Weight, strictjson.NotNegative)
	if kind == kernels.Softmax {
		loss.NormalizeRows = o.Bool("normalize_rows", false)
	} else {
		o.Refuse("normalize_rows", "is given, but only the loss %q has it", kernels.LossWords[kernels.Softmax])
	}
	contrastive := kind == kernels.CosineContrastive
	if contrastive {
		loss.ZeroScale = o.Float32("zero_scale", loss.ZeroScale, strictjson.NotNegative)
		loss.ZeroTarget = o.Float32("margin", loss.ZeroTarget, strictjson.Between(-1, 1))
	} else {
		o.Refuse("margin", "is given, but only the loss %q has it", kernels.LossWords[kernels.CosineContrastive])
	}
	if loss.TakesBoosts() {
		return readBoosts(o, loss)
	}
	if kind == kernels.Softmax {
		return readMargin(o, loss)
	}
	if kind != kernels.ScaledMarginal {
		for _, key := range []string{"one_scale", "zero_scale", "one_target", "zero_target"} {
			if !contrastive || key != "zero_scale" {
				o.Refuse(key, "is given, but the loss %q does not have it", lossWord(loss))
			}
		}
		return loss
	}
	loss.OneScale = o.Float32("one_scale", loss.OneScale, strictjson.NotNegative)
	loss.ZeroScale = o.Float32("zero_scale", loss.ZeroScale, strictjson.NotNegative)
	loss.OneTarget = o.Float32("one_target", loss.OneTarget, strictjson.Between(0, 1))
	loss.ZeroTarget = o.Float32("zero_target", loss.ZeroTarget, strictjson.Between(0, 1))
	if loss.ZeroTarget >= loss.OneTarget {
		o.Fail("zero_target", "is %v; it must be less than one_target, %v", loss.ZeroTarget, loss.OneTarget)
	}
	return loss
}

// readMargin reads which targets of a soft-max count, and how much; a factor of 1 and a limit of 1 are none.
func readMargin(o *strictjson.Object, loss kernels.Loss) kernels.Loss {
	for _, key := range []string{"zero_scale", "zero_target"} {
		o.Refuse(key, "is given, but the loss %q has no loss of items without a target", kernels.Softmax)
	}
	one, limit := o.Float32("one_scale", 1, strictjson.NotNegative), o.Float32("one_target", 1, strictjson.Between(0, 1))
	for _, number := range []struct {
		key   string
		value float32
	}{{"one_scale", one}, {"one_target", limit}} {
		if number.value == 0 {
			o.Fail(number.key, "is 0, so that nothing counts")
		}
	}
	if one != 1 || limit != 1 {
		loss.OneScale, loss.OneTarget = one, limit
	}
	return loss
}

// readBoosts reads the weights of items with and without a target; 1 and 1 are none.
func readBoosts(o *strictjson.Object, loss kernels.Loss) kernels.Loss {
	for _, key := range []string{"one_target", "zero_target"} {
		o.Refuse(key, "is given, but only the loss %q has it", kernels.LossWords[kernels.ScaledMarginal])
	}
	one, zero := o.Float32("one_scale", 1, strictjson.NotNegative), o.Float32("zero_scale", 1, strictjson.NotNegative)
	if one == 0 && zero == 0 {
		o.Fail("zero_scale", "is 0, and one_scale is, too, so that nothing counts")
	}
	if one != 1 || zero != 1 {
		loss.OneScale, loss.ZeroScale = one, zero
	}
	return loss
}

// defaultTerm is a term of which only the kind is given, by its place in lossWords.
func defaultTerm(kind kernels.LossKind) Term {
	if lossWords[kind] == bprWord {
		return Term{Loss: kernels.Loss{Kind: kernels.SigmoidCrossEntropy, Pairs: true, Weight: 1}, Negatives: 1}
	}
	loss := kernels.Loss{Kind: kind, Weight: 1}
	if kind == kernels.ScaledMarginal {
		loss.OneScale, loss.ZeroScale, loss.OneTarget, loss.ZeroTarget = 1, 1, 0.9, 0.1
	} else if kind == kernels.CosineContrastive {
		loss.ZeroScale, loss.ZeroTarget = 1, 0.5
	}
	return Term{Loss: loss}
}
