package redis

import (
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
)

func TestGroupsInRedisReplies(t *testing.T) {
	lag := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name   string
		answer any
		want   []streamGroup
	}{
		{"Redis 7", []any{[]any{"name", "g", "consumers", int64(1), "pending", int64(2), "last-delivered-id", "1-0", "entries-read", int64(3), "lag", int64(4)}},
			[]streamGroup{{"g", lag(4), true, 2}}},
		{"a lag that it does not know", []any{[]any{"name", "g", "pending", int64(2), "lag", nil}}, []streamGroup{{"g", nil, true, 2}}},
		{"Redis 6 tells none", []any{[]any{"name", "g", "pending", int64(2), "last-delivered-id", "1-0"}}, []streamGroup{{"g", nil, false, 2}}},
		{"the newer protocol", []any{map[any]any{"name": "g", "pending": int64(2), "lag": int64(4)}}, []streamGroup{{"g", lag(4), true, 2}}},
		{"no group", []any{}, []streamGroup{}},
		{"no list", "OK", nil},
		{"no name", []any{[]any{"pending", int64(1)}}, nil},
		{"no number", []any{[]any{"name", "g", "pending", "many"}}, nil},
		{"no fields", []any{int64(5)}, nil},
	} {
		got, err := parseGroups(c.answer)
		if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
	b := &Source{}
	for _, c := range []struct {
		name  string
		group streamGroup
		want  string
	}{
		{"an old Redis", streamGroup{name: "g"}, "it reports no lag"},
		{"a lag below zero", streamGroup{"g", lag(-1), true, 0}, "negative"},
		{"a lag beyond the controller's arithmetic", streamGroup{"g", lag(1 << 60), true, 0}, "larger unit"},
	} {
		got, err := b.Values(source.Query{Stream: "s", Group: "g"}, reading{groups: []streamGroup{c.group}})
		if err == nil {
			err = got[0].Err
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
