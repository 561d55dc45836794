package flight

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/equality"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// A recording has the settings that its requests were decided with.
func TestOptionsAreRecorded(t *testing.T) {
	t.Parallel()
	tolerance, scaleToZero := "0.2", true
	asked := &setpointv1.RecommendOptions{
		Profile: "cooldown", Tolerance: &tolerance, ScaleToZero: &scaleToZero,
		CpuInitializationPeriod: durationpb.New(time.Second), InitialReadinessDelay: durationpb.New(2 * time.Second),
		DownscaleStabilization: durationpb.New(3 * time.Second), UpscaleDelay: durationpb.New(4 * time.Second), DownscaleDelay: durationpb.New(0),
	}
	if replayed := configOf(asked).Options(); !proto.Equal(replayed, asked) {
		t.Errorf("asked with %v, replayed with %v", asked, replayed)
	}
	if !equality.Semantic.DeepEqual(configOf(asked), configOf(asked)) {
		t.Error("two requests with the same options are told apart")
	}
	fields := asked.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !asked.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("the test does not set %s", fields.Get(i).Name())
		}
	}
}
