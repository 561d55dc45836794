package recording_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

func TestWhatIsWrittenReadsTheSame(t *testing.T) {
	testlength.SkipUnderRace(t)
	same := equality.Semantic.Copy()
	fatal.If(t, same.AddFunc(time.Time.Equal))
	for file, every := range map[string]int{"curated.jsonl.gz": 1, "fuzz.jsonl.gz": 10} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for i, want := range readRecordings(t, file) {
				if i%every != 0 {
					continue
				}
				var out bytes.Buffer
				fatal.If(t, recording.NewWriter(&out).Write(want))
				got, err := recording.NewReader("again", &out).Next()
				if err != nil {
					t.Fatalf("%s: %v", want.Name, err)
				}
				if !same.DeepEqual(got, want) {
					t.Errorf("%s reads otherwise", want.Name)
				}
			}
		})
	}
}

func TestWriterSortsKeysAndLeavesOutWhatSaysNothing(t *testing.T) {
	scenario, err := recording.NewReader("r", strings.NewReader(line)).Next()
	fatal.If(t, err)
	scenario.HPA.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{}}
	scenario.Steps[0].Expect = &recording.Expect{
		Error:  recording.Text{Undetermined: true},
		Events: []recording.Event{{Type: "Warning", Reason: "AmbiguousSelector", Message: recording.Text{Undetermined: true}}},
	}
	var out bytes.Buffer
	fatal.If(t, recording.NewWriter(&out).Write(scenario))
	const want = `{"config":{"cpuInitializationPeriodSeconds":0,"downscaleStabilizationSeconds":0,"initialReadinessDelaySeconds":0,"scaleToZero":false,"tolerance":0.1},` +
		`"hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"behavior":{"scaleUp":{}},"maxReplicas":3,"scaleTargetRef":{"kind":"","name":""}},"status":{"desiredReplicas":0}},"name":"one",` +
		`"steps":[{"expect":{"currentReplicas":0,"desiredReplicas":0,"error":null,"events":[{"message":null,"reason":"AmbiguousSelector","type":"Warning"}],"scaled":false},` +
		`"scale":{"spec":{"replicas":2},"status":{"replicas":2}},"time":"2026-03-02T09:00:00.000000001Z"}]}` + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWriterRefusesWhatCouldNotBeReadAgain(t *testing.T) {
	err := recording.NewWriter(&bytes.Buffer{}).Write(&recording.Scenario{Name: "empty"})
	if err == nil || err.Error() != "empty: hpa: must be set" {
		t.Errorf("got %v", err)
	}
}
