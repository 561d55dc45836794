package crd_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/crd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const manifest = "../../deploy/helm/setpoint/files/crd/autoscalers.yaml"

var load = sync.OnceValues(func() (*crd.Definition, error) { return crd.Load(manifest) })

func definition(t *testing.T) *crd.Definition {
	t.Helper()
	d, err := load()
	if err != nil {
		t.Fatal("the API server would refuse the definition:", err)
	}
	return d
}

type object = map[string]any

// both renders the same object as HorizontalPodAutoscaler and as Autoscaler.
func both(t *testing.T, spec any) (hpa, autoscaler []byte) {
	t.Helper()
	render := func(apiVersion, kind string) []byte {
		data, err := json.Marshal(object{
			"apiVersion": apiVersion, "kind": kind,
			"metadata": object{"name": "web", "namespace": "shop"}, "spec": spec,
		})
		fatal.If(t, err)
		return data
	}
	return render("autoscaling/v2", "HorizontalPodAutoscaler"), render("autoscaling.setpoint.dev/v1", "Autoscaler")
}

func parse(t *testing.T, text string) object {
	t.Helper()
	var out object
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}
