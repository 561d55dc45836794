package kubernetes_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// fromYAML reads one object of the API.
func fromYAML[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// snapshotOf returns a snapshot of an autoscaler web in namespace shop with the
// given metrics and a scale of three replicas that selects app=web.
func snapshotOf(t testing.TB, metrics string) *kubernetes.Snapshot {
	t.Helper()
	autoscaler := fromYAML[autoscalingv2.HorizontalPodAutoscaler](t, `
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 10`)
	autoscaler.Spec.Metrics = fromYAML[[]autoscalingv2.MetricSpec](t, metrics)
	return &kubernetes.Snapshot{
		Autoscaler: &autoscaler,
		Scale: &autoscalingv1.Scale{
			Spec:   autoscalingv1.ScaleSpec{Replicas: 3},
			Status: autoscalingv1.ScaleStatus{Replicas: 4, Selector: "app=web"},
		},
	}
}

// request returns the snapshot's request.
func request(t testing.TB, snapshot *kubernetes.Snapshot) *setpointv1.RecommendRequest {
	t.Helper()
	got, err := snapshot.Request("demo")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// checkMessage compares a message with its JSON.
func checkMessage(t testing.TB, got proto.Message, wantJSON string) {
	t.Helper()
	want := got.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(wantJSON), want); err != nil {
		t.Fatalf("%v in\n%s", err, wantJSON)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", protojson.Format(got), protojson.Format(want))
	}
}

// checkMessages compares messages with their JSON, in order.
func checkMessages[M proto.Message](t testing.TB, got []M, wantJSON ...string) {
	t.Helper()
	if len(got) != len(wantJSON) {
		t.Errorf("got %d messages, want %d", len(got), len(wantJSON))
		for _, message := range got {
			t.Log(protojson.Format(message))
		}
		return
	}
	for i := range got {
		checkMessage(t, got[i], wantJSON[i])
	}
}

// checkError compares the lines of an error; a wanted line is the beginning of one.
func checkError(t testing.TB, err error, want ...string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if len(got) != len(want) {
		t.Fatalf("got %d problems:\n%v\nwant %d:\n%s", len(got), err, len(want), strings.Join(want, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}
