package lint

import (
	"errors"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Of a file that is too large to be looked at for lines, errors name the object.
func TestErrorsOfLargeFilesNameTheObject(t *testing.T) {
	t.Parallel()
	text := strings.Replace(autoscaler(5, 2, onCPU, ""), "spec:", "#"+strings.Repeat(" ", document.MaxLined)+"\nspec:", 1)
	l := Linter{Options: given(&setpointv1.RecommendOptions{})}
	fatal.If(t, l.Read("f.yaml", strings.NewReader(text)))
	if _, err := l.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "f.yaml: shop/web: spec.maxReplicas: ") {
		t.Error(err)
	}
}

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
