package check

import (
	"fmt"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func asIs(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions { return own }

// scaler is a manifest.
func scaler(name string, most int) string {
	return fmt.Sprintf("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: %[1]s, namespace: shop}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}\n  minReplicas: 2\n  maxReplicas: %[2]d\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n", name, most)
}

func own(name string, most int) string {
	text := strings.Replace(scaler(name, most), "autoscaling/v2", "autoscaling.setpoint.dev/v1", 1)
	return strings.Replace(text, "HorizontalPodAutoscaler", "Autoscaler", 1)
}

// side reads files, a name and a content in turn.
func side(t *testing.T, files ...string) *Side {
	t.Helper()
	s := NewSide(asIs)
	for i := 0; i < len(files); i += 2 {
		fatal.If(t, s.Read(files[i], strings.NewReader(files[i+1])))
	}
	s.ready()
	return s
}

// ofCluster is a stored spec that says its name.
func ofCluster(cluster, stored string, most int) string {
	return "name: clusters/" + cluster + "/namespaces/shop/targets/web\n" + fmt.Sprintf(stored, most)
}

func TestWhichSpecBecameWhich(t *testing.T) {
	t.Parallel()
	const stored = "spec: {maxReplicas: %d, metrics: [{type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: \"10\"}}}]}\n"
	for name, tt := range map[string]struct {
		old, new []string
		alone    bool
		want     string
	}{
		"changed":               {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", scaler("web", 6)}, false, "changed shop/web a.yaml→a.yaml"},
		"not changed":           {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", "# text\n" + scaler("web", 5)}, false, ""},
		"moved":                 {[]string{"a.yaml", scaler("web", 5)}, []string{"b.yaml", scaler("web", 5)}, false, "the same spec shop/web a.yaml→b.yaml"},
		"another kind":          {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", own("web", 6)}, false, "changed shop/web a.yaml→a.yaml"},
		"added and removed":     {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", scaler("api", 5)}, false, "added shop/api →a.yaml, removed shop/web a.yaml→"},
		"renamed":               {[]string{"a.yaml", scaler("web", 5)}, []string{"b.yaml", strings.Replace(scaler("web", 6), "{name: web, namespace: shop}", "{name: web2, namespace: shop}", 1)}, false, "changed shop/web2 a.yaml→b.yaml"},
		"renamed, the same":     {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", strings.Replace(scaler("web", 5), "{name: web, ", "{name: web2, ", 1)}, false, "the same spec shop/web2 a.yaml→a.yaml"},
		"without its namespace": {[]string{"a.yaml", scaler("web", 5)}, []string{"a.yaml", strings.Replace(scaler("web", 6), ", namespace: shop", "", 1)}, false, "changed default/web a.yaml→a.yaml"},
		"two files of one name": {[]string{"a.yaml", scaler("web", 5), "b.yaml", scaler("web", 50)}, []string{"b.yaml", scaler("web", 60), "a.yaml", scaler("web", 6)}, false, "changed shop/web b.yaml→b.yaml, changed shop/web a.yaml→a.yaml"},
		"one and one":           {[]string{"old.yaml", scaler("web", 5)}, []string{"new.yaml", scaler("api", 6)}, true, "changed shop/api old.yaml→new.yaml"},
		"of two clusters":       {[]string{"w.yaml", ofCluster("a", stored, 5) + "---\n" + ofCluster("b", stored, 6)}, []string{"w.yaml", ofCluster("b", stored, 6)}, false, "removed shop/web w.yaml→"},
		"of another cluster":    {[]string{"w.yaml", ofCluster("a", stored, 5) + "---\n" + ofCluster("b", stored, 6)}, []string{"w.yaml", ofCluster("c", stored, 7) + "---\n" + ofCluster("b", stored, 6)}, false, "changed shop/web w.yaml→w.yaml"},
		"stored specs":          {[]string{"w.yaml", fmt.Sprintf(stored, 5)}, []string{"w.yaml", fmt.Sprintf(stored, 6)}, false, "changed default/w w.yaml→w.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range side(t, tt.old...).pair(side(t, tt.new...), tt.alone) {
				from, to := "", ""
				if c.old != nil {
					from = c.old.File
				}
				if c.new != nil {
					to = c.new.File
				}
				got = append(got, c.what+" "+objectOf(c.of())+" "+from+"→"+to)
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
		})
	}
}

// What changes beside a spec is told of, although the spec is the same: recordings have what the old queries read, and no
// rule judges the rest.
func TestWhatChangesBesideASpecIsTold(t *testing.T) {
	t.Parallel()
	const stored = "spec: {maxReplicas: %d, metrics: [{type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: \"10\"}}}]}\nqueries: [{metric: \"External:q\", source: prometheus, query: 'sum(q%s)'}]\n"
	const queried, unjudged = "warning: queries change, ", "what no rule judges changes, too: default/web"
	old, own := fmt.Sprintf(stored, 5, ""), own("web", 5)
	for _, tt := range []struct{ old, now, what, told string }{
		{old, fmt.Sprintf(stored, 5, "{a=\"b\"}"), Beside + "queries", queried},
		{old, fmt.Sprintf(stored, 6, "{a=\"b\"}"), Changed, queried},
		{old, fmt.Sprintf(stored, 6, ""), Changed, ""},
		{old, "# text\n" + old, "", ""},
		{old, old + "period: 30s\n", Beside + "period", unjudged + " (period)"},
		{old, fmt.Sprintf(stored, 6, "") + "period: 30s\nassumeApplied: true\n", Changed, unjudged + " (period, assumeApplied)"},
		{old + "shadows: [{name: a, spec: {maxReplicas: 5}}]\n", old + "shadows: [{name: a, spec: {maxReplicas: 6}}]\n", Beside + "shadows", unjudged + " (shadows)"},
		{old + "etag: a\nupdatedBy: me\n", old + "etag: b\n", "", ""},
		{own, own + "  syncPeriodSeconds: 5\n  shadow: true\n", Beside + "period, shadow", " (period, shadow)"},
	} {
		got := run(t, tt.old, tt.now, "", nil)
		what := ""
		for _, s := range got.Specs {
			what += s.What
		}
		told := strings.Join(got.Notes, "\n")
		if what != tt.what || !strings.Contains(told, tt.told) || tt.told == "" && (strings.Contains(told, queried) || strings.Contains(told, unjudged)) {
			t.Errorf("%q, %q of\n%s", what, got.Notes, tt.now)
		}
	}
}

// Files of a repository hold much that is no autoscaler; lines stay what they are.
func TestDocumentsOfARepository(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, kept, note string }{
		"values of a chart":   {"autoscaling:\n  maxReplicas: 5\n", "", ""},
		"a list":              {"- maxReplicas: 5\n", "", ""},
		"a stored spec":       {"spec: {maxReplicas: 5}\n", "spec: {maxReplicas: 5}", ""},
		"the spec itself":     {"maxReplicas: 5\n", "maxReplicas: 5", ""},
		"a patch":             {"a: 1\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {minReplicas: 3}\n", "", "line 3: has no spec.maxReplicas"},
		"a maximum's patch":   {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 4}\n", "", "line 1: has no spec.scaleTargetRef"},
		"a template":          {"kind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: {{ .Values.max }}\n", "", errTemplate.Error()},
		"beside other things": {"x: 1\n---\n" + scaler("web", 5), scaler("web", 5), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, _, notes, err := sifted([]byte(tt.file))
			text := ""
			if err != nil {
				text = err.Error()
			}
			for _, n := range notes {
				text += n.Error()
			}
			if strings.TrimSpace(strings.Trim(strings.TrimSpace(string(out)), "-")) != strings.TrimSpace(tt.kept) || !strings.Contains(text, tt.note) || (tt.note == "") != (text == "") {
				t.Errorf("kept %q, told %q", out, text)
			}
			if out != nil && strings.Count(string(out), "\n") != strings.Count(tt.file, "\n") {
				t.Error("the lines are others")
			}
		})
	}
}
