package validation_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// FuzzSpec looks for specs on the wire that upset Spec: it must come to an end,
// say the same each time and leave the spec alone.
func FuzzSpec(f *testing.F) {
	for _, tt := range slices.Concat(rules, combinations, sound) {
		wire, err := proto.Marshal(parse(f, tt.spec))
		fatal.If(f, err)
		f.Add(wire, tt.opts.ScaleToZero)
	}
	f.Fuzz(func(t *testing.T, wire []byte, scaleToZero bool) {
		spec := &setpointv1.HorizontalPodAutoscalerSpec{}
		if err := proto.Unmarshal(wire, spec); err != nil {
			t.Skip("not a spec")
		}
		before := proto.Clone(spec)
		opts := validation.SpecOptions{ScaleToZero: scaleToZero}
		first := validation.Spec(spec, opts)
		if second := validation.Spec(spec, opts); !slices.Equal(first, second) {
			t.Errorf("first %v, then %v", first, second)
		}
		for _, v := range first {
			if v.Field == "" || v.Description == "" {
				t.Errorf("violation without field or description: %+v", v)
			}
		}
		if !proto.Equal(spec, before) {
			t.Error("spec was changed")
		}
	})
}
