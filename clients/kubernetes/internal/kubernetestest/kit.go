// Package kubernetestest has test helpers of clients/kubernetes and its manifests.
package kubernetestest

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// FromYAML reads one object of the API.
func FromYAML[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// Request returns the snapshot's request.
func Request(t testing.TB, snapshot *kubernetes.Snapshot) *setpointv1.RecommendRequest {
	t.Helper()
	got, err := snapshot.Request("demo")
	fatal.If(t, err)
	return got
}

// CheckMessage compares a message with its JSON.
func CheckMessage(t testing.TB, got proto.Message, wantJSON string) {
	t.Helper()
	want := got.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(wantJSON), want); err != nil {
		t.Fatalf("%v in\n%s", err, wantJSON)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", protojson.Format(got), protojson.Format(want))
	}
}

// CheckMessages compares messages with their JSON, in order.
func CheckMessages[M proto.Message](t testing.TB, got []M, wantJSON ...string) {
	t.Helper()
	if len(got) != len(wantJSON) {
		t.Errorf("got %d messages, want %d", len(got), len(wantJSON))
		for _, message := range got {
			t.Log(protojson.Format(message))
		}
		return
	}
	for i := range got {
		CheckMessage(t, got[i], wantJSON[i])
	}
}

// CheckError compares the lines of an error with the wanted prefixes.
func CheckError(t testing.TB, err error, want ...string) {
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
