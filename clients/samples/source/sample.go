// Package source has what every kind of source is made of: a query, the values of its answer, why it
// failed, and the files with credentials.
package source

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Bounds of the requests to one source.
type Bounds struct {
	Timeout                          time.Duration
	Concurrency, MaxBytes, MaxSeries int
}

// Sample is one value of a query.
type Sample struct {
	// Pod and Container of the value; empty: none is named.
	Pod, Container string
	// Labels of the series; nil: the answer has none. They are shared and must not be changed.
	Labels map[string]string
	// Value is in thousandths if the source has floating-point numbers, else as written.
	Value resource.Quantity
	// Timestamp is when the value was true: for a Prometheus, when the query was evaluated.
	Timestamp time.Time
	// Window is the range before the timestamp, from the query.
	Window time.Duration

	// Stands reports whether it replaces an empty result.
	Stands bool
}

// Value is one value of an answer, not yet validated.
type Value struct {
	Sample
	// Err is why it is invalid.
	Err error
}

// The service's bounds.
const (
	maxLabels = 256
	// MaxNameLength bounds names of metrics, pods and containers, in bytes.
	MaxNameLength = 253
)

// Bound makes the value invalid if the service would refuse it, because the service refuses the
// whole request.
func (v *Value) Bound() {
	switch {
	case v.Err != nil:
	case len(v.Labels) > maxLabels:
		v.Err = fmt.Errorf("a series has more than %d labels: aggregate them, as with sum()", maxLabels)
	case len(v.Pod) > MaxNameLength || len(v.Container) > MaxNameLength:
		v.Err = fmt.Errorf("a name of a pod or container is longer than %d bytes", MaxNameLength)
	case !utf8.ValidString(v.Pod) || !utf8.ValidString(v.Container):
		v.Err = errors.New("a name of a pod or container is not valid UTF-8")
	case v.Timestamp.Year() < 1970 || v.Timestamp.Year() > 9999:
		v.Err = errors.New("a timestamp is not between the years 1970 and 9999")
	}
}

// Backend queries one server. It is safe for concurrent use.
type Backend interface {
	// Check returns the problems of a query.
	Check(Query) typed.Problems
	// Request identifies the request of a query: equal for queries with the same answer.
	Request(Query) string
	// Ask sends it. Its errors are Failures, or understood by Classify.
	Ask(ctx context.Context, q Query) (any, error)
	// Values extracts the values of a query from an answer, without changing it.
	Values(q Query, answer any) ([]Value, error)
	// Close closes its connections.
	Close()
}
