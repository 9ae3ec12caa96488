package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
)

const blended = `{"kind":"blend","items":3,"parts":[
	{"model":{"kind":"item_weights","items":3,"weight":"dense","bias":false},"standardized":true},
	{"model":{"kind":"ridge","rows":2,"items":3,"entries":4,"tolerance":0.001,"iterations":20},"standardized":false}]}`

func TestABlendIsReadAgainFromItsOwnDefinition(t *testing.T) {
	form := mustRead(t, blended)
	require.JSONEq(t, blended, string(form.JSON()))
	require.Equal(t, form, mustRead(t, string(form.JSON())))
}

func TestABlendHasTheTensorsOfItsParts(t *testing.T) {
	specs, err := mustRead(t, blended).Specs()
	require.NoError(t, err)
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
	}
	require.Equal(t, []string{"weights", "part0.weight", "part1.data.offsets"}, names[:3])
}

func TestABlendIsBoundedByItsParts(t *testing.T) {
	most, on := mustRead(t, blended).(Bounded).Bounds()
	part := mustRead(t, `{"kind":"ridge","rows":2,"items":3,"entries":4,"tolerance":0.001,"iterations":20}`)
	want, _ := part.(Bounded).Bounds()
	require.Equal(t, program.OneDevice, on)
	require.Equal(t, want, most)
	anywhere := mustRead(t, `{"kind":"blend","items":3,"parts":[{"model":{"kind":"item_weights","items":3}}]}`)
	_, on = anywhere.(Bounded).Bounds()
	require.Equal(t, program.SeveralDevices, on)
}

func mustRead(t *testing.T, text string) Form {
	form, err := ReadForm([]byte(text), nil)
	require.NoError(t, err)
	return form
}
