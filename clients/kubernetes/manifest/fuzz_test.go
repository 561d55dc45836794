package manifest_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// seed adds the files of testdata to the corpus.
func seed(f *testing.F, add func(content []byte)) {
	for _, pattern := range []string{"shop/*", "manifests/*"} {
		files, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(files) == 0 {
			f.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			relative, err := filepath.Rel("testdata", file)
			fatal.If(f, err)
			add(testdata(f, relative))
		}
	}
}

// Whatever a file contains, reading it yields objects or an error. Every autoscaler that was
// read satisfies the documented rules.
func FuzzDecode(f *testing.F) {
	seed(f, func(content []byte) { f.Add(content) })
	f.Fuzz(func(t *testing.T, content []byte) {
		var dump manifest.Dump
		if err := dump.Read("fuzz", bytes.NewReader(content)); err != nil && !strings.HasPrefix(err.Error(), "fuzz: ") {
			t.Errorf("an error that does not name the file: %v", err)
		}
		for _, autoscaler := range dump.Autoscalers {
			if violations := kubernetes.Validate(autoscaler); len(violations) > 0 {
				t.Errorf("read despite %v", violations)
			}
			kubernetes.Defaults(autoscaler)
		}
	})
}

// Whatever a snapshot contains, its request has only values that a message can carry.
func FuzzRequest(f *testing.F) {
	seed(f, func(content []byte) { f.Add(content, "app=web", "app=web", "apps/v1", "queue_depth") })
	f.Fuzz(func(t *testing.T, content []byte, selector, otherSelector, apiVersion, failing string) {
		var dump manifest.Dump
		_ = dump.Read("fuzz", bytes.NewReader(content)) // readable objects are added despite errors
		for _, autoscaler := range dump.Autoscalers {
			snapshot, err := dump.Snapshot(autoscaler.Namespace + "/" + autoscaler.Name)
			if err != nil {
				continue
			}
			checkRequest(t, snapshot)
			snapshot.Scale = &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: selector}}
			snapshot.Others = append(snapshot.Others, kubernetes.OtherAutoscaler{Name: "other", Selector: otherSelector})
			snapshot.MetricErrors = []kubernetes.MetricError{{API: kubernetes.ExternalMetricsAPI, Metric: failing, Message: "down"}}
			checkRequest(t, snapshot)
			snapshot.Autoscaler.Spec.ScaleTargetRef.APIVersion = apiVersion
			checkRequest(t, snapshot)
		}
	})
}

func checkRequest(t *testing.T, snapshot *kubernetes.Snapshot) {
	t.Helper()
	got, err := snapshot.Request("demo")
	if err != nil {
		return
	}
	for _, at := range times(got) {
		if at != nil && !at.IsValid() {
			t.Errorf("invalid time %v", at)
		}
	}
	if again := kubernetestest.Request(t, snapshot); !proto.Equal(got, again) {
		t.Error("the same snapshot gives two requests")
	}
	if (got.GetScale() == nil) == (got.GetScaleError() == nil) {
		t.Errorf("scale %v and scale error %v", got.GetScale(), got.GetScaleError())
	}
}

// times returns the instants of a request; absent ones are nil.
func times(request *setpointv1.RecommendRequest) []*timestamppb.Timestamp {
	out := []*timestamppb.Timestamp{request.GetPreviousStatus().GetLastScaleTime()}
	for _, pod := range request.GetPods() {
		out = append(out, pod.GetStartTime(), pod.GetReady().GetLastTransitionTime())
	}
	for _, metrics := range request.GetPodMetrics() {
		out = append(out, metrics.GetTimestamp())
	}
	for _, metric := range request.GetCustomMetrics() {
		out = append(out, metric.GetTimestamp())
	}
	for _, metric := range request.GetExternalMetrics() {
		out = append(out, metric.GetTimestamp())
	}
	return out
}
