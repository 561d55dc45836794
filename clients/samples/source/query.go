package source

import (
	"reflect"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Bounds of a Query.
const (
	MaxQueryLength = 4096
	MaxWindow      = 24 * time.Hour
)

// Query is a workload's query of a source: the labels setpoint.metric.NAME.KEY of a service, or a
// block of a policy. Fields of other kinds of sources must be empty.
type Query struct {
	// Source is the name of the source. Required.
	Source string `json:"source"`
	// Window is how far back a value looks, such as the range of a rate. The controller
	// leaves out cpu samples of a window that began before the pod was ready, so it is
	// required for the resource cpu. Default: none.
	Window Duration `json:"window,omitempty"`
	// EmptyIsZero makes an empty result one value of 0, for series that exist only while there
	// is something to count. Not together with pods. Default: an empty result is an error.
	EmptyIsZero bool `json:"emptyIsZero,omitempty"`
	// AllowNegative lets values below 0 through. Default: they are errors.
	AllowNegative bool `json:"allowNegative,omitempty"`

	// Query is the PromQL of an instant query. Required for a Prometheus.
	Query string `json:"query,omitempty"`
	// PodLabel is the label that names the pod, for Resource, ContainerResource and Pods
	// metrics, which require it. Prometheus only.
	PodLabel string `json:"podLabel,omitempty"`
	// ContainerLabel is the label that names the container, which ContainerResource
	// metrics require. Default: a value is of a pod as a whole. Prometheus only.
	ContainerLabel string `json:"containerLabel,omitempty"`
	// AllowWarnings accepts results with warnings of Prometheus or a compatible server: they may
	// lack data of a store that did not answer. Default: they are errors. Prometheus only.
	AllowWarnings bool `json:"allowWarnings,omitempty"`

	// Path is appended to the url of an HTTP source, such as /queues/main?state=open. Default:
	// nothing.
	Path string `json:"path,omitempty"`
	// ValuePath is the JSONPath, as kubectl has it, of the value, such as {.queue.length}: a
	// number, or a quantity in a text. Several values are summed. With ItemsPath it begins
	// at an item. Required for an HTTP source.
	ValuePath string `json:"valuePath,omitempty"`
	// ItemsPath is the JSONPath of the items, one per pod, such as {.pods[*]}. HTTP only.
	ItemsPath string `json:"itemsPath,omitempty"`
	// PodPath is the JSONPath from an item to the name of its pod. HTTP only.
	PodPath string `json:"podPath,omitempty"`
	// ContainerPath is the JSONPath from an item to the name of its container. Default: a
	// value is of a pod as a whole. HTTP only.
	ContainerPath string `json:"containerPath,omitempty"`
	// TimestampPath is the JSONPath of the value's time, from an item if there are items: RFC
	// 3339, or seconds since 1970. Default: the time of the answer. HTTP only.
	TimestampPath string `json:"timestampPath,omitempty"`
	// MaxAge is the maximum age of a value by its timestamp: an older one is an error, and an
	// older one of a pod no sample; as is one a minute ahead of the clock. Default: any. HTTP only.
	MaxAge Duration `json:"maxAge,omitempty"`

	// List is the key of a list, whose length is the value. Redis only.
	List string `json:"list,omitempty"`
	// SortedSet is the key of a sorted set; the value is how many members it has. Redis
	// only.
	SortedSet string `json:"sortedSet,omitempty"`
	// MinScore is the lowest score of members that count, as ZCOUNT has it: a number, with
	// ( before it the next above, or -inf. Default: -inf.
	MinScore string `json:"minScore,omitempty"`
	// MaxScore is the highest score of members that count. Default: +inf.
	MaxScore string `json:"maxScore,omitempty"`
	// Stream is the key of a stream; the value is the lag of Group, the entries not delivered to
	// it yet. Redis 7.0 or later only.
	Stream string `json:"stream,omitempty"`
	// Group is the consumer group of Stream. Required with it.
	Group string `json:"group,omitempty"`
	// Pending adds the entries that were delivered to the group and not acknowledged. Default:
	// they don't count.
	Pending bool `json:"pending,omitempty"`
}

// fields of a query that belong to one kind of source.
var kindFields = map[string][]string{
	"prometheus": {"query", "podLabel", "containerLabel", "allowWarnings"},
	"http":       {"path", "valuePath", "itemsPath", "podPath", "containerPath", "timestampPath", "maxAge"},
	"redis":      {"list", "sortedSet", "minScore", "maxScore", "stream", "group", "pending"},
}

// Problems returns the problems of a query to a source of that kind.
func (q Query) Problems(kind string) typed.Problems {
	var p typed.Problems
	value := reflect.ValueOf(q)
	for name, i := range queryFields {
		for other, fields := range kindFields {
			if other != kind && slices.Contains(fields, name) && !value.Field(i).IsZero() {
				p.Add(name, "is for a source of %s, and %s is one of %s", other, q.Source, kind)
			}
		}
	}
	slices.SortFunc(p, func(a, b typed.Problem) int { return queryFields[a.Field] - queryFields[b.Field] })
	if q.Window < 0 || q.Window > Duration(MaxWindow) {
		p.Add("window", "must be between 0s and %s", MaxWindow)
	}
	if q.EmptyIsZero && q.OfPods() {
		p.Add("emptyIsZero", "does not apply to values of pods: a pod without a value has no sample")
	}
	return p
}

// queryFields are the indexes of Query's fields by their names.
var queryFields = func() map[string]int {
	out := map[string]int{}
	names, _ := typed.Names(reflect.TypeFor[Query]())
	for i, name := range names {
		out[name] = i
	}
	return out
}()

// OfPods reports whether the values name pods.
func (q Query) OfPods() bool { return q.PodLabel != "" || q.PodPath != "" }

// OfContainers reports whether the values name containers.
func (q Query) OfContainers() bool { return q.ContainerLabel != "" || q.ContainerPath != "" }

// Required checks a required text.
func Required(p *typed.Problems, field, text string, most int) {
	switch {
	case text == "":
		p.Add(field, "is required")
	case len(text) > most:
		p.Add(field, "is longer than %d bytes", most)
	}
}
