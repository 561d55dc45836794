package crd_test

import (
	"math/rand/v2"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/conformance/crd"
)

// specs is how many random specs are compared.
const specs = 5_000

// What the API server accepts as a HorizontalPodAutoscaler it accepts as an Autoscaler, and
// stores the same, but for an empty list of metrics.
func TestRandomSpecsAreAcceptedAndStoredAsOfAHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	d := definition(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	accepted, failed := 0, 0
	for i := range uint64(specs) {
		r := random{rand.New(rand.NewPCG(seed, i))}
		spec := r.spec()
		var changes []string
		for range r.IntN(4) {
			changes = append(changes, r.change(spec))
		}
		good, ok := compare(t, d, spec)
		if !ok {
			t.Logf("spec %d: %s, after %q", i, text(spec), changes)
			if failed++; failed == 10 {
				t.Fatal("and so on")
			}
		}
		if good {
			accepted++
		}
	}
	t.Logf("%d of %d accepted", accepted, specs)
	if accepted < specs/5 || accepted > specs*4/5 {
		t.Errorf("%d of %d accepted: too many of one kind", accepted, specs)
	}
}

// compare reports whether a HorizontalPodAutoscaler is accepted, and whether an Autoscaler
// comes out the same.
func compare(t *testing.T, d *crd.Definition, spec object) (accepted, ok bool) {
	t.Helper()
	hpa, autoscaler := both(t, spec)
	upstream, err := crd.Create(hpa)
	accepted = err == nil && len(upstream.Violations) == 0
	stored, violations, ourErr := d.Create(autoscaler)
	if ours := ourErr == nil && len(violations) == 0; ours != accepted {
		var why any = err
		if err == nil {
			why = upstream.Violations
		}
		t.Errorf("accepted as a HorizontalPodAutoscaler: %t (%v); as an Autoscaler: %t (%v, %v)", accepted, why, ours, ourErr, violations)
		return accepted, false
	}
	return accepted, !accepted || storedAlike(t, upstream.Stored, stored)
}

// storedAlike checks that the agent works with the spec that the built-in controller would
// work with.
func storedAlike(t *testing.T, want *autoscalingv2.HorizontalPodAutoscaler, stored *unstructured.Unstructured) bool {
	t.Helper()
	var typed autoscalingv1.Autoscaler
	if err := crd.Into(stored, &typed); err != nil {
		t.Errorf("what is stored can't be read: %v", err)
		return false
	}
	got := typed.HorizontalPodAutoscaler()
	if len(got.Spec.Metrics) > 0 && !apiequality.Semantic.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("stored\n%s\nas a HorizontalPodAutoscaler\n%s", text(got.Spec), text(want.Spec))
		return false
	}
	kubernetes.Defaults(got)
	if !apiequality.Semantic.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("with defaults\n%s\nas a HorizontalPodAutoscaler\n%s", text(got.Spec), text(want.Spec))
		return false
	}
	return true
}
