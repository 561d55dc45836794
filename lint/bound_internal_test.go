package lint

import (
	"errors"
	"testing"
)

// Beyond the bound nothing is checked: what a dump of more costs is its reading.
func TestMoreThanTheBoundIsNotChecked(t *testing.T) {
	t.Parallel()
	l := Linter{files: make([]string, MaxAutoscalers+1)}
	if findings, err := l.Check(t.Context()); !errors.Is(err, ErrTooMany) || findings != nil {
		t.Errorf("%d findings, %v", len(findings), err)
	}
	l.files = l.files[:MaxAutoscalers]
	if _, err := l.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
