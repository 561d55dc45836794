package integrations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// Of kinds whose modules can't be fetched, or are very large, the fields are written down here
// that their API types have, as far as a page uses them.
type (
	reference struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Name       string `json:"name"`
	}
	watermarkPodAutoscaler struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ScaleTargetRef reference `json:"scaleTargetRef"`
			MinReplicas    *int32    `json:"minReplicas"`
			MaxReplicas    int32     `json:"maxReplicas"`
			Recommender    struct {
				URL           string             `json:"url"`
				Settings      map[string]string  `json:"settings"`
				TargetType    string             `json:"targetType"`
				HighWatermark *resource.Quantity `json:"highWatermark"`
				LowWatermark  *resource.Quantity `json:"lowWatermark"`
				TLSConfig     struct {
					CAFile string `json:"caFile"`
				} `json:"tlsConfig"`
			} `json:"recommender"`
			ScaleUpLimitFactor                  *resource.Quantity `json:"scaleUpLimitFactor"`
			ScaleDownLimitFactor                *resource.Quantity `json:"scaleDownLimitFactor"`
			UpscaleForbiddenWindowSeconds       int32              `json:"upscaleForbiddenWindowSeconds"`
			DownscaleForbiddenWindowSeconds     int32              `json:"downscaleForbiddenWindowSeconds"`
			UpscaleDelayAboveWatermarkSeconds   int32              `json:"upscaleDelayAboveWatermarkSeconds"`
			DownscaleDelayBelowWatermarkSeconds int32              `json:"downscaleDelayBelowWatermarkSeconds"`
			ReplicaScalingAbsoluteModulo        *int32             `json:"replicaScalingAbsoluteModulo"`
		} `json:"spec"`
	}
	fleetAutoscaler struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			FleetName string `json:"fleetName"`
			Policy    struct {
				Type    string  `json:"type"`
				Webhook webhook `json:"webhook"`
			} `json:"policy"`
			Sync struct {
				Type          string `json:"type"`
				FixedInterval struct {
					Seconds int32 `json:"seconds"`
				} `json:"fixedInterval"`
			} `json:"sync"`
		} `json:"spec"`
	}
	generalPodAutoscaler struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ScaleTargetRef reference `json:"scaleTargetRef"`
			MinReplicas    *int32    `json:"minReplicas"`
			MaxReplicas    int32     `json:"maxReplicas"`
			Webhook        webhook   `json:"webhook"`
		} `json:"spec"`
	}
	webhook struct {
		URL        string            `json:"url"`
		CABundle   []byte            `json:"caBundle"`
		Parameters map[string]string `json:"parameters"` // GPA's
	}
	// scaledObject is KEDA's, whose module has more packages than all that is tested here.
	scaledObject struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ScaleTargetRef  reference `json:"scaleTargetRef"`
			MinReplicaCount *int32    `json:"minReplicaCount"`
			MaxReplicaCount *int32    `json:"maxReplicaCount"`
			Advanced        struct {
				HorizontalPodAutoscalerConfig struct {
					Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
				} `json:"horizontalPodAutoscalerConfig"`
			} `json:"advanced"`
			Triggers []struct {
				Type       string                         `json:"type"`
				MetricType autoscalingv2.MetricTargetType `json:"metricType"`
				Metadata   map[string]string              `json:"metadata"`
				Auth       reference                      `json:"authenticationRef"`
			} `json:"triggers"`
		} `json:"spec"`
	}
	datadogPodAutoscaler struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
)

var (
	fenced = regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```")
	// ofService is what an install by Helm or Kustomize has, with a caller's token or without.
	ofService = regexp.MustCompile(`^https://([a-z]+:sp_TOKEN@)?setpoint\.setpoint\.svc:8080`)
)

// blocks returns the fenced texts of a page, of one language.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text := testpages.Read(t, "../../docs/guides/"+page)
	for _, found := range fenced.FindAllStringSubmatch(text, -1) {
		if found[1] == language {
			all = append(all, found[2])
		}
	}
	return all
}

// manifest reads the manifest of a kind on a page, strictly.
func manifest(t *testing.T, page, kind string, into any) {
	t.Helper()
	for _, text := range blocks(t, page, "yaml") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
			t.Fatalf("%s: %v\n%s", page, err, text)
		}
		if meta.Kind == kind {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatalf("%s: %v\n%s", page, err, text)
			}
			return
		}
	}
	t.Fatalf("%s has no %s", page, kind)
}

// pathOf is the path of an address of a page, whose host leads to a cluster's service.
func pathOf(t *testing.T, address string) string {
	t.Helper()
	host := ofService.FindString(address)
	if host == "" {
		t.Errorf("the address is %q", address)
	}
	return strings.TrimPrefix(address, host)
}

// No manifest of the pages is left out below. A part of one, which has no kind, is not read.
func TestAllManifestsOfThePagesAreRead(t *testing.T) {
	for page, want := range map[string]string{
		"datadog.md": "WatermarkPodAutoscaler DatadogPodAutoscaler", "http-contracts.md": "FleetAutoscaler GeneralPodAutoscaler ScaledObject",
		"external-metrics.md": "HorizontalPodAutoscaler", "keda.md": "ScaledObject",
	} {
		var kinds []string
		for _, text := range blocks(t, page, "yaml") {
			var meta metav1.TypeMeta
			fatal.If(t, yaml.Unmarshal([]byte(text), &meta))
			if meta.Kind != "" {
				kinds = append(kinds, meta.Kind)
			}
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s has %s, and tests are of %s", page, got, want)
		}
	}
}

// The page's spec and its WatermarkPodAutoscaler, with the limits that it recommends: what WPA
// ends at is our count.
func TestThePageOfDatadog(t *testing.T) {
	s := start(t)
	shell := blocks(t, "datadog.md", "sh")[0]
	put := regexp.MustCompile(`(?s)^curl -X PUT http://127\.0\.0\.1:8080(/v1/clusters/default/\S+/spec) -d '(.*)'\n$`).FindStringSubmatch(shell)
	if put == nil {
		t.Fatalf("no spec is put by %s", shell)
	}
	s.ask(t, http.MethodPut, put[1], put[2])
	name := strings.TrimSuffix(put[1], "/spec")

	var object watermarkPodAutoscaler
	manifest(t, "datadog.md", "WatermarkPodAutoscaler", &object)
	spec := object.Spec
	if spec.Recommender.HighWatermark == nil || spec.Recommender.LowWatermark == nil || spec.Recommender.TargetType == "" {
		t.Error("WPA fails without both watermarks")
	}
	w := &wpa{
		client: s.http, url: s.url + pathOf(t, spec.Recommender.URL), settings: spec.Recommender.Settings,
		least: *spec.MinReplicas, most: spec.MaxReplicas, replicas: *spec.MinReplicas, modulo: *spec.ReplicaScalingAbsoluteModulo,
		upFactor: spec.ScaleUpLimitFactor.AsApproximateFloat64(), downFactor: spec.ScaleDownLimitFactor.AsApproximateFloat64(),
		upForbidden: seconds(spec.UpscaleForbiddenWindowSeconds), downForbidden: seconds(spec.DownscaleForbiddenWindowSeconds),
		upDelay: seconds(spec.UpscaleDelayAboveWatermarkSeconds), downDelay: seconds(spec.DownscaleDelayBelowWatermarkSeconds),
	}
	up := false
	for _, queue := range []int{20, 35, 500, 70, 20, 60, 1000} {
		for range 40 { // the spec's own window lets it fall after five minutes
			s.ask(t, http.MethodPost, name+":reportObservation", fmt.Sprintf(`{"externalMetrics": [{"metric": {"name": "queue"}, "value": "%d"}]}`, queue))
			s.advance(15 * time.Second)
			before := w.replicas
			got, err := w.reconcile(s.now())
			if err != nil || w.replicas != got {
				t.Fatalf("with a queue of %d, from %d, recommended %d, ended at %d, %v", queue, before, got, w.replicas, err)
			}
			up = up || w.replicas > before
		}
		if want := int32(min(max((queue+9)/10, 2), 50)); w.replicas != want {
			t.Errorf("with a queue of %d ended at %d, want %d", queue, w.replicas, want)
		}
	}
	if !up {
		t.Error("it never rose")
	}

	var dpa datadogPodAutoscaler
	manifest(t, "datadog.md", "DatadogPodAutoscaler", &dpa)
	var custom struct {
		Endpoint string            `json:"endpoint"`
		Settings map[string]string `json:"settings"`
	}
	fatal.If(t, json.Unmarshal([]byte(dpa.Annotations["autoscaling.datadoghq.com/custom-recommender"]), &custom))
	if reply, err := ask(s.http, s.url+pathOf(t, custom.Endpoint), "datadog-cluster-agent", w.request()); err != nil || reply.GetTargetReplicas() != w.replicas {
		t.Errorf("the cluster agent is told %v, %v", reply, err)
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// What the pages' objects have sent reaches the target that the pages name.
func TestThePageOfWebhooks(t *testing.T) {
	s := start(t)
	told := func(object, name, address, body string) {
		t.Helper()
		s.ask(t, http.MethodPut, "/v1/"+name+"/spec", `{"spec": {"minReplicas": 1, "maxReplicas": 20,
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}}`)
		s.ask(t, http.MethodPost, "/v1/"+name+":reportObservation", `{"externalMetrics": [{"metric": {"name": "queue"}, "value": "60"}]}`)
		var review struct {
			Response *struct {
				UID      string `json:"uid"`
				Scale    bool   `json:"scale"`
				Replicas int32  `json:"replicas"`
			} `json:"response"`
		}
		text := s.ask(t, http.MethodPost, pathOf(t, address), body)
		if err := yaml.UnmarshalStrict([]byte(text), &review); err != nil || review.Response == nil || review.Response.UID != "u" || !review.Response.Scale || review.Response.Replicas != 6 {
			t.Errorf("%s is told %s, %v", object, text, err)
		}
	}
	var fleet fleetAutoscaler
	manifest(t, "http-contracts.md", "FleetAutoscaler", &fleet)
	if fleet.Spec.Policy.Type != "Webhook" || fleet.Spec.Sync.Type != "FixedInterval" || fleet.Spec.Sync.FixedInterval.Seconds != 30 {
		t.Errorf("the policy is %+v", fleet.Spec)
	}
	told("Agones", "clusters/default/namespaces/games/targets/simple-game-server", fleet.Spec.Policy.Webhook.URL,
		fmt.Sprintf(`{"request": {"uid": "u", "name": %q, "namespace": %q, "status": {"replicas": 4, "readyReplicas": 2, "reservedReplicas": 0, "allocatedReplicas": 2}}, "response": null}`,
			fleet.Spec.FleetName, fleet.Namespace))
	var general generalPodAutoscaler
	manifest(t, "http-contracts.md", "GeneralPodAutoscaler", &general)
	parameters, err := json.Marshal(general.Spec.Webhook.Parameters)
	fatal.If(t, err)
	told("GPA", "clusters/default/namespaces/shop/targets/web", general.Spec.Webhook.URL,
		fmt.Sprintf(`{"request": {"uid": "u", "name": %q, "namespace": %q, "parameters": %s, "currentReplicas": 4}, "response": null}`,
			general.Spec.ScaleTargetRef.Name, general.Namespace, parameters))
}

// The behavior of HPAs, KEDA's among them, is read with its API types, and lets a count through.
func TestThePagesPassThrough(t *testing.T) {
	var hpa autoscalingv2.HorizontalPodAutoscaler
	manifest(t, "external-metrics.md", "HorizontalPodAutoscaler", &hpa)
	open(t, "external-metrics.md", hpa.Spec.Behavior)
	if m := hpa.Spec.Metrics; len(m) != 1 || m[0].External == nil || m[0].External.Target.Type != autoscalingv2.AverageValueMetricType || m[0].External.Target.AverageValue.Value() != 1 {
		t.Errorf("the metrics are %+v", m)
	}
	for _, page := range []string{"http-contracts.md", "keda.md"} {
		var object scaledObject
		manifest(t, page, "ScaledObject", &object)
		open(t, page, object.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior)
		if len(object.Spec.Triggers) != 1 || object.Namespace != "shop" || object.Spec.ScaleTargetRef.Name != "web" {
			t.Errorf("%s: %+v", page, object.Spec)
		}
		if trigger := object.Spec.Triggers[0]; trigger.Type == "metrics-api" {
			if trigger.MetricType != autoscalingv2.AverageValueMetricType || trigger.Metadata["targetValue"] != "1" || trigger.Metadata["valueLocation"] != "desiredReplicas" ||
				pathOf(t, trigger.Metadata["url"]) != "/v1/clusters/default/namespaces/shop/targets/web/recommendation" {
				t.Errorf("%s: %+v", page, trigger)
			}
		}
	}
}

// open fails the test unless an HPA with the behavior follows any count at once.
func open(t *testing.T, page string, b *autoscalingv2.HorizontalPodAutoscalerBehavior) {
	t.Helper()
	if b == nil || b.ScaleUp == nil || b.ScaleDown == nil {
		t.Fatalf("%s: the behavior is %v", page, b)
	}
	for _, rules := range []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
		if rules.Tolerance == nil || !rules.Tolerance.IsZero() || rules.StabilizationWindowSeconds == nil || *rules.StabilizationWindowSeconds != 0 {
			t.Errorf("%s: the rules are %v", page, rules)
		}
	}
	if p := b.ScaleUp.Policies; len(p) != 1 || p[0].Type != autoscalingv2.PodsScalingPolicy || p[0].Value != 1_000_000 || b.ScaleDown.Policies != nil {
		t.Errorf("%s: the policies are %v and %v", page, p, b.ScaleDown.Policies)
	}
}
