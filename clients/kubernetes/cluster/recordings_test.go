package cluster_test

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// An API server serves every step of the recordings over HTTP; reading it must yield the same
// input of the recommender as the recording itself.
func TestRecordingsReadFromAnAPIServer(t *testing.T) {
	type part struct {
		file string
		// of plays one of so many scenarios, because they are random.
		of int
	}
	for _, test := range testlength.FirstUnderRace(t, 1, []part{{"fuzz.jsonl.gz", 8}, {"curated.jsonl.gz", 1}}) {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			scenarios := 0
			for scenario := range recordingtest.Scenarios(t, filepath.Join("..", "recording", "testdata", test.file)) {
				if scenarios%test.of == 0 {
					playOverHTTP(t, scenario)
				}
				scenarios++
			}
			if scenarios < 400 {
				t.Errorf("there were only %d scenarios to read", scenarios)
			}
		})
	}
}

// playOverHTTP compares all steps of a scenario.
func playOverHTTP(t *testing.T, scenario *recording.Scenario) {
	server := newAPIServer(t)
	defer server.Close()
	serveKinds(server, scenario)
	reader := readerOf(t, server)
	reader.SetMaxAge(1) // steps follow one another faster than readings expire
	for _, other := range scenario.OtherHPAs {
		namespace := other.Namespace
		namespace = cmp.Or(namespace, scenario.HPA.Namespace)
		reader.NoteSelector(namespace, other.Name, other.Selector)
	}
	player := recording.NewPlayer(scenario)
	for i := range scenario.Steps {
		step := &scenario.Steps[i]
		recorded, err := player.Snapshot(step)
		if err != nil {
			t.Fatalf("%s step %d: %v", scenario.Name, i, err)
		}
		if recorded == nil {
			continue
		}
		serveStep(server, recorded, step)
		live, err := reader.Snapshot(t.Context(), recorded.Autoscaler, nil)
		if err != nil {
			t.Fatalf("%s step %d: %v", scenario.Name, i, err)
		}
		if difference := compare(t, live, recorded); difference != "" {
			t.Fatalf("%s step %d: %s", scenario.Name, i, difference)
		}
	}
}

// compare returns the differences between the live and the recorded snapshot: in the request
// or, for values and errors of metrics, in the service's input.
func compare(t *testing.T, live, recorded *kubernetes.Snapshot) string {
	t.Helper()
	got, want := requestAbout(t, live), requestAbout(t, recorded)
	if want.GetSelectorProblem().GetReason() == "InvalidSelector" {
		// The recordings were made with a fake scale client. The real one refuses such a scale.
		if !strings.HasPrefix(got.GetScaleError().GetMessage(), "received an object from a /scale endpoint which was not convertible") ||
			!strings.HasSuffix(got.GetScaleError().GetMessage(), want.GetSelectorProblem().GetMessage()) {
			return "read " + protojson.Format(got)
		}
		return ""
	}
	if want.GetScaleError().GetReason() == "UnknownKind" {
		// The mapper was a fake, too: its error for a known group differs.
		ref := want.GetSpec().GetScaleTargetRef()
		want.ScaleError.Message = (&meta.NoKindMatchError{GroupKind: schema.FromAPIVersionAndKind(ref.GetApiVersion(), ref.GetKind()).GroupKind()}).Error()
	}
	if selector, err := labels.Parse(want.GetScale().GetSelector()); err == nil && want.GetScale() != nil {
		// The scale client reformats a selector.
		want.Scale.Selector = selector.String()
	}
	gotReadings, wantReadings := takeReadings(t, got), takeReadings(t, want)
	if !proto.Equal(got, want) {
		return fmt.Sprintf("read\n%s\nrecorded\n%s", protojson.Format(got), protojson.Format(want))
	}
	if !reflect.DeepEqual(gotReadings, wantReadings) {
		return fmt.Sprintf("read\n%+v\nrecorded\n%+v", gotReadings, wantReadings)
	}
	return ""
}

// requestAbout returns the request of a snapshot. Without selected pods upstream reads nothing
// else, nor does the reader.
func requestAbout(t *testing.T, snapshot *kubernetes.Snapshot) *setpointv1.RecommendRequest {
	t.Helper()
	request, err := snapshot.Request("demo")
	fatal.If(t, err)
	// A recording lists pods in any order, an API server by name.
	slices.SortFunc(request.Pods, func(a, b *setpointv1.Pod) int { return strings.Compare(a.GetName(), b.GetName()) })
	if request.GetSelectorProblem() != nil {
		request.PodMetrics, request.CustomMetrics, request.ExternalMetrics, request.MetricErrors = nil, nil, nil, nil
	}
	return request
}

// takeReadings removes values and errors of metrics from a request and returns them as the
// service assigns them to the spec.
func takeReadings(t *testing.T, request *setpointv1.RecommendRequest) []recommender.Readings {
	t.Helper()
	input, violations := conversion.Input(request, recommender.Options{})
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	for i := range input.Readings {
		if input.Readings[i].Error != "" {
			// The error takes precedence over any reading.
			input.Readings[i] = recommender.Readings{Error: input.Readings[i].Error}
		}
		if len(input.Readings[i].Values) == 0 {
			input.Readings[i].Values = nil
		}
	}
	if !slices.ContainsFunc(request.GetSpec().GetMetrics(), func(m *setpointv1.MetricSpec) bool { return m.GetResource() != nil || m.GetContainerResource() != nil }) ||
		slices.ContainsFunc(request.GetMetricErrors(), func(e *setpointv1.MetricError) bool { return e.GetMetric() == "metrics.k8s.io" }) {
		request.PodMetrics = nil
	}
	request.CustomMetrics, request.ExternalMetrics, request.MetricErrors = nil, nil, nil
	return input.Readings
}

// serveKinds makes the server know the kinds of objects that the scenario's metrics describe.
func serveKinds(server *apiServer, scenario *recording.Scenario) {
	specs := []*autoscalingv2.HorizontalPodAutoscalerSpec{&scenario.HPA.Spec}
	for i := range scenario.Steps {
		if hpa := scenario.Steps[i].HPA; hpa != nil {
			specs = append(specs, &hpa.Spec)
		}
	}
	known := map[schema.GroupKind]bool{}
	for version, resources := range server.resources {
		for _, resource := range resources {
			known[schema.GroupKind{Group: version.Group, Kind: resource.Kind}] = true
		}
	}
	for _, spec := range specs {
		for i := range spec.Metrics {
			object := spec.Metrics[i].Object
			if object == nil {
				continue
			}
			kind := schema.FromAPIVersionAndKind(object.DescribedObject.APIVersion, object.DescribedObject.Kind)
			if !known[kind.GroupKind()] {
				known[kind.GroupKind()] = true
				server.serve(schema.GroupVersion{Group: kind.Group, Version: "v1"}, kind.Kind, strings.ToLower(kind.Kind)+"s", false)
			}
		}
	}
}

// serveStep loads a step's objects into the server.
func serveStep(server *apiServer, recorded *kubernetes.Snapshot, step *recording.Step) {
	server.mu.Lock()
	defer server.mu.Unlock()
	server.pods, server.usage, server.custom, server.external = step.Pods, step.PodMetrics, step.CustomMetrics, nil
	for _, series := range recorded.ExternalMetrics {
		server.external = append(server.external, series.ExternalMetricValue)
	}
	if step.Scale != nil {
		ref := recorded.Autoscaler.Spec.ScaleTargetRef
		scale := step.Scale.DeepCopy()
		scale.Name, scale.Namespace = ref.Name, recorded.Autoscaler.Namespace
		for _, resource := range []string{"deployments", "statefulsets", "replicasets", "replicationcontrollers"} {
			server.put(recorded.Autoscaler.Namespace+"/"+resource+"/"+ref.Name, scale)
		}
	}
	server.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		message := failureOf(recorded, r.URL.Path)
		if message == "" {
			return false
		}
		writeStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, message)
		return true
	}
}

// failureOf returns the recording's error for a path, the most specific first.
func failureOf(recorded *kubernetes.Snapshot, path string) string {
	if strings.HasSuffix(path, "/scale") && recorded.ScaleError != nil {
		return recorded.ScaleError.Message
	}
	whole := ""
	for _, failure := range recorded.MetricErrors {
		if !strings.HasPrefix(path, "/apis/"+string(failure.API)+"/") || !strings.Contains(path, "/namespaces/") {
			continue
		}
		if failure.Metric == "" {
			whole = failure.Message
		} else if strings.HasSuffix(path, "/"+failure.Metric) {
			return failure.Message
		}
	}
	return whole
}
