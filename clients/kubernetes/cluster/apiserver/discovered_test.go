package apiserver

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// groups is a discovery with groups only.
type groups struct{ list metav1.APIGroupList }

func (g groups) ServerGroups() (*metav1.APIGroupList, error) { return &g.list, nil }

func TestVersionOfTheCustomMetricsAPI(t *testing.T) {
	t.Parallel()
	served := func(preferred string, versions ...string) groups {
		group := metav1.APIGroup{Name: "custom.metrics.k8s.io", PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: preferred}}
		for _, version := range versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version})
		}
		return groups{metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps"}, group}}}
	}
	const v1, v2, future = "custom.metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v9"
	for _, test := range []struct {
		name   string
		groups groups
		want   string
		err    string
	}{
		{"the preferred one", served(v1, v2, v1), v1, ""},
		{"the first known one", served(future, future, v1, v2), v1, ""},
		{"none that is known", served(future, future), "", "no known available metric versions found"},
		{"no such group", groups{}, "", "no custom metrics API (custom.metrics.k8s.io) registered"},
	} {
		got, err := preferredVersion(test.groups)
		if test.err != "" && (err == nil || err.Error() != test.err) || test.err == "" && (err != nil || got.String() != test.want) {
			t.Errorf("%s: got %v, %v", test.name, got, err)
		}
	}
}

// The resources of a kind are kept as long as the discovery that they are of.
func TestResourcesAreThoseOfTheDiscovery(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		name string
		then func(d *discovered)
		want string
	}{
		{"kept", func(*discovered) { now = now.Add(discoveryAge - time.Second) }, "jobs"},
		{"renewed after its age", func(*discovered) { now = now.Add(discoveryAge) }, "tasks"},
		{"renewed where somebody says so", (*discovered).Reset, "tasks"},
		{"renewed because another kind is unknown", func(d *discovered) {
			now = now.Add(missAge)
			if _, err := d.RESTMappings(schema.GroupKind{Group: "example.com", Kind: "Other"}); err == nil {
				t.Error("an unknown kind has resources")
			}
		}, "tasks"},
	} {
		served := &clienttesting.Fake{}
		serve := func(resource string) {
			served.Resources = []*metav1.APIResourceList{{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: resource, Kind: "Job", Namespaced: true}}}}
		}
		serve("jobs")
		d := newDiscovered(&fakediscovery.FakeDiscovery{Fake: served})
		d.now = func() time.Time { return now }
		d.since = now
		resource := func() string {
			mappings, err := d.RESTMappings(schema.GroupKind{Group: "example.com", Kind: "Job"})
			if err != nil || len(mappings) != 1 {
				t.Fatalf("%s: got %v, %v", test.name, mappings, err)
			}
			return mappings[0].Resource.Resource
		}
		if got := resource(); got != "jobs" {
			t.Errorf("%s: got %s at first", test.name, got)
		}
		serve("tasks")
		test.then(d)
		asked := len(served.Actions())
		if got := resource(); got != test.want || test.want == "jobs" && len(served.Actions()) != asked {
			t.Errorf("%s: got %s after %d requests, want %s", test.name, got, len(served.Actions())-asked, test.want)
		}
	}
}
