package store_test

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

func TestKeyString(t *testing.T) {
	k := store.Key{Cluster: "production", Namespace: "shop", Target: "web"}
	if got, want := k.String(), "clusters/production/namespaces/shop/targets/web"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// TestKeyCompare has keys whose names as strings would be in another order,
// since '-' and '.' come before '/'.
func TestKeyCompare(t *testing.T) {
	ascending := []store.Key{
		{},
		{Cluster: "B", Namespace: "a", Target: "a"},
		{Cluster: "a"},
		{Cluster: "a", Namespace: "a"},
		{Cluster: "a", Namespace: "a", Target: "a"},
		{Cluster: "a", Namespace: "a", Target: "b"},
		{Cluster: "a", Namespace: "a-b", Target: "a"},
		{Cluster: "a", Namespace: "b", Target: "a"},
		{Cluster: "a-b", Namespace: "a", Target: "a"},
		{Cluster: "a.b", Namespace: "a", Target: "a"},
		{Cluster: "aa", Namespace: "a", Target: "a"},
		{Cluster: "\xff", Namespace: "a", Target: "a"},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%q.Compare(%q) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestFilterMatches(t *testing.T) {
	keys := []store.Key{
		{Cluster: "a", Namespace: "x", Target: "t"},
		{Cluster: "a", Namespace: "y", Target: "t"},
		{Cluster: "a-b", Namespace: "x", Target: "t"},
	}
	for _, tc := range []struct {
		name   string
		filter store.Filter
		want   []bool
	}{
		{"the zero filter chooses all", store.Filter{}, []bool{true, true, true}},
		{"a cluster, not those it is a prefix of", store.Filter{Cluster: "a"}, []bool{true, true, false}},
		{"a namespace in all clusters", store.Filter{Namespace: "x"}, []bool{true, false, true}},
		{"a namespace in one cluster", store.Filter{Cluster: "a", Namespace: "x"}, []bool{true, false, false}},
		{"none", store.Filter{Cluster: "b"}, []bool{false, false, false}},
	} {
		var got []bool
		for _, k := range keys {
			got = append(got, tc.filter.Matches(k))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRecordExists(t *testing.T) {
	if (store.Record{}).Exists() {
		t.Error("the zero Record exists")
	}
	if !(store.Record{Version: "1"}).Exists() {
		t.Error("a record with a version does not exist")
	}
}
