package lint

import (
	"errors"
	"fmt"
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

// crowded are so many autoscalers, each of a file's part of its own, with what else there is of each.
func crowded(t *testing.T, many int, each func(name string) string) *Linter {
	t.Helper()
	var text strings.Builder
	for i := range many {
		name := fmt.Sprintf("w%d", i)
		text.WriteString(strings.ReplaceAll(autoscaler(2, 5, onCPU, ""), "name: web", "name: "+name) + each(name) + "---\n")
	}
	l := &Linter{Options: given(&setpointv1.RecommendOptions{})}
	fatal.If(t, l.Read("f.yaml", strings.NewReader(text.String())))
	return l
}

// selecting is a Deployment that selects what it makes.
func selecting(name, labels string) string {
	return strings.NewReplacer("{name: web,", "{name: "+name+",", "{app: web}", labels, "template: {", "template: {metadata: {labels: "+labels+"}, ").Replace(deployment("", plain))
}

// Selectors are compared with the labels that may match only: of many more workloads than each could be compared with each,
// also the last ones are found, and all that are alike.
func TestOverlapsAmongMany(t *testing.T) {
	t.Parallel()
	const many = 1100
	l := crowded(t, many, func(name string) string {
		app := name
		if name == "w1099" || name == "w1050" {
			app = "w1098"
		}
		return selecting(name, "{team: one, zone: "+app+"}")
	})
	for i, of := range l.overlaps() {
		want := 0
		if i >= many-2 || i == 1050 {
			want = 2
		}
		if of.all != want || len(of.names) != want {
			t.Errorf("%d overlaps with %d: %v", i, of.all, of.names)
		}
	}
	alike := crowded(t, 20, func(name string) string {
		return selecting(name, "{app: web}")
	}).overlaps()
	if got := fmt.Sprint(alike[1]); got != "{[w0 w2 w3 w4 w5] 19}" {
		t.Error(got)
	}
}

// What an autoscaler without its target may mean is looked for once, not for each.
func TestCostOfMissingTargets(t *testing.T) {
	cost := func(many int) float64 {
		l := crowded(t, many, func(name string) string {
			return strings.Replace(deployment("", plain), "{name: web,", "{name: x"+name+",", 1)
		})
		return testing.AllocsPerRun(1, func() { l.readScalers(); l.Specs() })
	}
	if few, more := cost(50), cost(200); more > 6*few {
		t.Errorf("%.0f allocations for 50 autoscalers, %.0f for 200", few, more)
	}
}
