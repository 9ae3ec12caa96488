package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// suspect is a number that may have made training diverge.
type suspect struct {
	excess float64 // the number divided by the largest usual one
	text   string  // what it is, its value, and which values are usual
}

// suspects lists the numbers that are above what is usual, those that exceed it by the greatest factor first.
func (t *Trainer) suspects() (list []suspect) {
	add := func(value, usual float64, format string, args ...any) {
		if excess := value / usual; excess > 1 {
			list = append(list, suspect{excess, fmt.Sprintf(format, args...)})
		}
	}
	// A schedule that raises the rate is to blame itself; one that lowers it takes blame from the rate.
	step, perEpoch := t.step.Number, t.stepsPerEpoch()
	rate, factor := t.options.LearningRate, t.options.Schedule.At(step, perEpoch)
	add(rate*min(factor, 1), 1, "the learning_rate is %.6g; usual values are up to 1", rate)
	add(factor, 1, "the schedule multiplies the learning_rate by %.6g at this step; usual factors are up to 1", factor)
	for _, term := range t.net.Terms {
		layer, weight, factor := &t.net.Layers[term.Layer], float64(term.Loss.Weight), term.Schedule.At(step, perEpoch)
		add(weight*min(factor, 1), 1e3, "the weight of the loss of layer %q is %.6g; usual values are up to 1000", layer.Name,
			weight)
		add(factor, 1, "the schedule multiplies the loss of layer %q by %.6g at this step; usual factors are up to 1",
			layer.Name, factor)
		if temperature := float64(layer.Temperature()); temperature > 0 {
			add(1/temperature, 1e3, "the temperature of layer %q is %.6g; usual values are 0.001 and above", layer.Name,
				temperature)
		}
		if largest := t.largest(term.Layer); !term.Loss.NormalizeRows {
			add(largest, 1e4, "the targets of layer %q reach %.6g; usual values are up to 10000", layer.Name, largest)
		}
	}
	for i := range t.net.Layers {
		if layer := &t.net.Layers[i]; layer.Reads() && !layer.Scaled() {
			largest := t.largest(i)
			add(largest, 1e4, "the data of layer %q reach %.6g; usual values are up to 10000, or use its scaling \"l2\"",
				layer.Name, largest)
		}
	}
	slices.SortStableFunc(list, func(a, b suspect) int { return cmp.Compare(b.excess, a.excess) })
	return list
}

// largest is the largest magnitude in the dataset of a layer.
func (t *Trainer) largest(layer int) float64 {
	s := t.Dataset(layer).Statistics()
	return max(math.Abs(s.Minimum), math.Abs(s.Maximum))
}

// remedy is the end of the error about a number that is not finite: its likely cause, or what to try.
func (t *Trainer) remedy() string {
	list := t.suspects()
	if len(list) == 0 {
		return fmt.Sprintf("Try a learning_rate below %g, a warm-up, input_scaling=\"l2\" or smaller values in the data",
			t.options.LearningRate)
	}
	text := "The likely cause: " + list[0].text
	for _, s := range list[1:] {
		text += ". Unusual, too: " + s.text
	}
	return text
}
