package crd_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/conformance/crd"
	"sigs.k8s.io/yaml"
)

func TestMutations(t *testing.T) {
	data, _ := os.ReadFile(manifest)
	var root map[string]any
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	type mut struct {
		path string
		do, undo func()
	}
	var muts []mut
	var walk func(n any, path string)
	walk = func(n any, path string) {
		switch n := n.(type) {
		case map[string]any:
			if strings.HasPrefix(path, ".status") { return }
			for _, key := range []string{"enum", "minimum", "maximum", "required", "default"} {
				if v, ok := n[key]; ok {
					if _, prop := n["type"]; !prop { continue }
					muts = append(muts, mut{path + " " + key, func() { delete(n, key) }, func() { n[key] = v }})
				}
			}
			if v, ok := n["x-kubernetes-validations"].([]any); ok {
				for i := range v {
					rule := v[i].(map[string]any)["rule"].(string)
					muts = append(muts, mut{path + " " + rule, func() {
						n["x-kubernetes-validations"] = append(append([]any{}, v[:i]...), v[i+1:]...)
						if len(v) == 1 { delete(n, "x-kubernetes-validations") }
					}, func() { n["x-kubernetes-validations"] = v }})
				}
			}
			if p, ok := n["properties"].(map[string]any); ok {
				for k, c := range p { walk(c, path+"."+k) }
			}
			if c, ok := n["items"]; ok { walk(c, path+"[]") }
		}
	}
	schema := root["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"]
	walk(schema.(map[string]any)["properties"].(map[string]any)["spec"], ".spec")
	t.Logf("%d mutations", len(muts))
	type sample struct{ spec object; hpa, asr []byte; up *crd.Upstream; good bool }
	var samples []sample
	add := func(spec object) {
		hpa, asr := both(t, spec)
		up, err := crd.Create(hpa)
		samples = append(samples, sample{spec, hpa, asr, up, err == nil && len(up.Violations) == 0})
	}
	for _, c := range specCases() { add(parse(t, c.spec)) }
	for i := range uint64(2500) {
		r := random{rand.New(rand.NewPCG(7, i))}
		spec := r.spec()
		for range r.IntN(3) { r.change(spec) }
		add(spec)
	}
	dir := t.TempDir()
	for _, m := range muts {
		m.do()
		out, _ := yaml.Marshal(root)
		m.undo()
		os.WriteFile(dir+"/x.yaml", out, 0o600)
		d, err := crd.Load(dir + "/x.yaml")
		if err != nil {
			continue // refused: found
		}
		found := false
		for _, s := range samples {
			stored, violations, err := d.Create(s.asr)
			good := err == nil && len(violations) == 0
			if good != s.good { found = true; break }
			if good {
				var typed autoscalingv1.Autoscaler
				if err := crd.Into(stored, &typed); err != nil { found = true; break }
				if text(typed.Spec.HorizontalPodAutoscalerSpec) != text(s.up.Stored.Spec) && len(typed.Spec.Metrics) > 0 {
					found = true; break
				}
			}
		}
		if !found {
			t.Logf("SURVIVES %s", m.path)
		}
	}
}
