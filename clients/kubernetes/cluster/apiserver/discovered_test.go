package apiserver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
