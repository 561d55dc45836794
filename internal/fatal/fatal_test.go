package fatal

import (
	"errors"
	"testing"
)

// ended records what ends a test, and lets it go on.
type ended struct {
	testing.TB
	with []any
}

func (e *ended) Helper()           {}
func (e *ended) Fatal(with ...any) { e.with = append(e.with, with...) }

func TestErrorsEndATest(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, tt := range []struct {
		errs []error
		want int
	}{{nil, 0}, {[]error{nil, nil}, 0}, {[]error{nil, first}, 1}, {[]error{first, second}, 2}} {
		e := &ended{TB: t}
		If(e, tt.errs...)
		if len(e.with) != tt.want || tt.want > 0 && e.with[0] != first {
			t.Errorf("%v end it with %v", tt.errs, e.with)
		}
	}
}
