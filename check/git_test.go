package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// repository is a real one.
type repository struct {
	t      *testing.T
	folder string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir = r.folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, a name and a content in turn, an empty one removes it, and commits.
func (r *repository) commit(files ...string) {
	r.t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(r.folder, files[i])
		if files[i+1] == "" {
			fatal.If(r.t, os.Remove(path))
			continue
		}
		fatal.If(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(r.t, os.WriteFile(path, []byte(files[i+1]), 0o600))
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "x")
}

// run checks a range.
func (r *repository) run(text string, recordings ...Recording) (*Report, error) {
	r.t.Helper()
	g, err := OpenRepository(r.t.Context(), r.folder)
	fatal.If(r.t, err)
	at, err := g.Range(r.t.Context(), text)
	if err != nil {
		return nil, err
	}
	s, err := g.Settings(r.t.Context(), at)
	if err != nil {
		return nil, err
	}
	changes, err := g.Changes(r.t.Context(), at, s, asIs)
	if err != nil {
		return nil, err
	}
	return Run(r.t.Context(), &Input{Settings: s, Changes: changes, Range: at, Recordings: recordings, Tell: func(err error) { r.t.Error(err) }})
}

// outline is what a report says of each spec and file, in short.
func outline(r *Report) string {
	all := []string{string(r.Verdict)}
	for _, s := range r.Specs {
		all = append(all, s.What+" "+s.Kind+" "+s.Object+" "+s.File+": "+string(s.Verdict))
	}
	for _, f := range r.Files {
		all = append(all, f.Rule+" "+f.File+": "+string(f.Status))
	}
	return strings.Join(all, "; ")
}

func TestChangesOfARange(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("web.yaml", scaler("web", 5), "api.yaml", scaler("api", 5), "gone.yaml", scaler("gone", 5), "folder/ü b.yaml", scaler("odd", 5),
		"values.yaml", "maxReplicas: x\nautoscaling: {maxReplicas: 5}\n")
	r.git("tag", "start")
	r.git("checkout", "-q", "-b", "change")
	r.commit("web.yaml", scaler("web", 6), "gone.yaml", "", "folder/ü b.yaml", scaler("odd", 7), "values.yaml", "autoscaling: {maxReplicas: 6}\n",
		"new.yaml", "kind: List\napiVersion: v1\nitems:\n- "+strings.ReplaceAll(strings.TrimSpace(own("new", 5)), "\n", "\n  ")+"\n",
		"broken.yaml", strings.Replace(scaler("broken", 5), "minReplicas", "minReplica", 1), "pool.json", `{"id": "web", "maxReplicas": 5}`, "chart/hpa.yaml", "kind: HorizontalPodAutoscaler\nspec: {{ .Values.spec }}\n")
	fatal.If(t, os.Symlink("/etc/passwd", filepath.Join(r.folder, "link.yaml")))
	r.git("checkout", "-q", "main")
	r.commit("api.yaml", scaler("api", 9))
	r.git("checkout", "-q", "change")
	r.commit()
	got, err := r.run("main...change")
	fatal.If(t, err)
	const want = "failed; changed HorizontalPodAutoscaler shop/odd folder/ü b.yaml: warning; added Autoscaler shop/new new.yaml: warning; " +
		"changed HorizontalPodAutoscaler shop/web web.yaml: warning; removed HorizontalPodAutoscaler shop/gone gone.yaml: warning; " +
		"invalid broken.yaml: failed; unchecked chart/hpa.yaml: warning; unchecked pool.json: warning; unchecked values.yaml: warning"
	if text := outline(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	// With two dots what happened on main meanwhile is undone.
	if got, err = r.run("main..change"); err != nil || !strings.Contains(outline(got), "changed HorizontalPodAutoscaler shop/api") {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = r.run("start..start"); err != nil || outline(got) != "passed" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("web.yaml", scaler("web", 5))
	r.git("checkout", "-q", "--orphan", "other")
	r.commit("web.yaml", scaler("web", 6))
	for text, want := range map[string]string{
		"main": "must be BASE..HEAD", "..HEAD": "must be BASE..HEAD", "nowhere..HEAD": `no commit "nowhere"`,
		"--output=x..HEAD": `no commit "--output=x"`, "main..--all": `no commit "--all"`, "main:web.yaml..HEAD": "no commit", "main...other": "no commit in common",
	} {
		if _, err := r.run(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(r.folder, "x")); err == nil {
		t.Error("a range was taken for an option")
	}
}

// A change is judged by the rules that were there before it.
func TestAChangeDoesNotBringItsOwnRules(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("web.yaml", scaler("web", 5), RulesFile, "rules: {history: error}\n")
	r.git("checkout", "-q", "-b", "change")
	r.commit("web.yaml", scaler("web", 6), RulesFile, "rules: {history: off}\n")
	got, err := r.run("main...change")
	if err != nil || got.Verdict != Failed {
		t.Fatalf("%s, %v", outline(got), err)
	}
	// The first rules of a repository count at once.
	first := newRepository(t)
	first.commit("web.yaml", scaler("web", 5))
	first.git("checkout", "-q", "-b", "change")
	first.commit("web.yaml", scaler("web", 6), RulesFile, "rules: {history: error}\nignore: ['x/']\n")
	if got, err = first.run("main...change"); err != nil || got.Verdict != Failed {
		t.Errorf("%s, %v", outline(got), err)
	}
}

// A file that is too large is not read, and said so.
func TestLargeFilesOfARange(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("web.yaml", scaler("web", 5), RulesFile, "rules: {history: off}\n")
	r.git("checkout", "-q", "-b", "change")
	r.commit("web.yaml", scaler("web", 6), "large.yaml", "# maxReplicas\n"+strings.Repeat("#\n", maxFileBytes/2))
	got, err := r.run("main...change")
	fatal.If(t, err)
	if text, want := outline(got), "warning; changed HorizontalPodAutoscaler shop/web web.yaml: not known; unchecked large.yaml: warning"; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	const many = maxChangedBytes/maxFileBytes + 1
	heavy := make([]string, 0, 2*many)
	for i := range many {
		heavy = append(heavy, fmt.Sprintf("heavy/%d.yaml", i), fmt.Sprintf("# %d\n", i)+strings.Repeat("#\n", maxFileBytes/2-4))
	}
	r.commit(heavy...)
	if _, err := r.run("main...change"); err == nil || !strings.Contains(err.Error(), "differ have more than 64 MiB together; name some in ignore of .setpoint/check.yaml") {
		t.Errorf("%v", err)
	}
	r.git("reset", "-q", "--hard", "HEAD^")
	files := make([]string, 0, 2*maxChangedFile+2)
	for i := range maxChangedFile + 1 {
		files = append(files, fmt.Sprintf("many/%d.yaml", i), "a: 1\n")
	}
	r.commit(files...)
	if _, err := r.run("main...change"); err == nil || !strings.Contains(err.Error(), "2003 files of YAML and JSON differ, more than 2000") {
		t.Errorf("%v", err)
	}
}

// utf16 is ASCII in another encoding.
func utf16(text string) string {
	var out strings.Builder
	out.WriteString("\xff\xfe")
	for i := range len(text) {
		out.WriteString(text[i:i+1] + "\x00")
	}
	return out.String()
}

// What may scale something and is no spec is told, in one line.
func TestWhatIsNotCheckedIsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file, content string
		told          bool
	}{
		"a patch in a kustomization": {"kustomization.yaml", "patches:\n- {target: {kind: HorizontalPodAutoscaler}, patch: '- {op: replace, path: /spec/maxReplicas, value: 500}'}\n", true},
		"a JSON patch":               {"patch.yaml", "- {op: replace, path: /spec/maxReplicas, value: 500}\n", true},
		"values of a chart":          {"chart/values.yaml", "autoscaling: {maxReplicas: 500}\n", true},
		"KEDA":                       {"keda.yaml", "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: web}\nspec: {scaleTargetRef: {name: web}, maxReplicaCount: 500, triggers: []}\n", true},
		"UTF-16":                     {"wide.yaml", utf16(scaler("web", 5)), true},
		"another suffix":             {"web.yaml.tpl", scaler("web", 5), true},
		"no suffix":                  {"web", scaler("web", 5), true},
		"large letters":              {"WEB.YAML", scaler("web", 5), true},
		"a text":                     {"README.md", "```yaml\n" + scaler("web", 5) + "```\n", false},
		"a workload":                 {"deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.commit()
			r.git("tag", "start")
			r.commit(tt.file, tt.content)
			got, err := r.run("start..main")
			want := "passed"
			if tt.told {
				want = "warning; unchecked " + tt.file + ": warning"
			}
			if err != nil || outline(got) != want {
				t.Errorf("%v, %v, want %s", outline(got), err, want)
			}
		})
	}
	r := newRepository(t)
	r.commit()
	r.git("tag", "start")
	fatal.If(t, os.Symlink("../real.txt", filepath.Join(r.folder, "z.yaml")))
	files := []string{}
	for i := range 2 * maxProblems {
		files = append(files, fmt.Sprintf("%d.yaml", i), "maxReplicaCount: 3\n")
	}
	r.commit(files...)
	got, err := r.run("start..main")
	if err != nil || len(got.Files) != 1 || !strings.HasSuffix(got.Files[0].Why, "4.yaml and 6 more") {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = r.run("main~1..start"); err != nil || got.summary() != "passed: no autoscaler changes in 0 changed files of YAML and JSON" {
		t.Errorf("%+v, %v", got, err)
	}
	r.commit("a.yaml", "a: 1\n")
	if got, err = r.run("main~1..main"); err != nil || got.summary() != "passed: no autoscaler changes in 1 changed file of YAML and JSON" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A spec does not escape by becoming what can't be read.
func TestASpecThatCannotBeReadAnyMoreFails(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"padding":  scaler("web", 50) + strings.Repeat("#\n", maxFileBytes/2),
		"template": scaler("web", 50) + "---\n{{ bad\n",
		"UTF-16":   utf16(scaler("web", 50)),
		"no YAML":  scaler("web", 50) + "---\nx: [HorizontalPodAutoscaler\n",
		"a patch":  "a: 1\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec: {maxReplicas: 50}\n",
		"a link":   "",
		// Nothing in these says that they had one.
		"an open list":            "a: [\n",
		"a lone brace":            "}\n",
		"the begin of a template": "{{\n",
		"a template's value":      "{{ .Values.x }}\n",
		"another part broken":     "apiVersion: v1\nkind: Service\n---\na: [\n",
		"a workload broken":       "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: many}\n",
		"another encoding":        "name: caf\xe9\n",
		"a pointer of Git LFS":    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
		"a merge's conflict":      "<<<<<<< HEAD\n=======\na: 1\n>>>>>>> other\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.commit("web.yaml", scaler("web", 5))
			r.git("tag", "start")
			if content == "" {
				r.commit("web.yaml", "", "real.txt", scaler("web", 50))
				fatal.If(t, os.Symlink("real.txt", filepath.Join(r.folder, "web.yaml")))
			}
			if content != "" {
				r.commit("web.yaml", content)
			} else {
				r.commit()
			}
			got, err := r.run("start..main")
			if err != nil || got.Verdict != Failed || len(got.Specs) != 0 || !strings.Contains(outline(got), "invalid web.yaml: failed") {
				t.Errorf("%s, %v", outline(got), err)
			}
		})
	}
}

// What can't be read and had no spec is not the check's; a spec that is in another file now, or taken out of one that
// can be read, is not hidden.
func TestOtherFilesThatCannotBeReadDoNotFail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after []string
		want          string
	}{
		"it had none":   {[]string{"web.yaml", "a: 1\n"}, []string{"web.yaml", "a: [\n"}, "passed"},
		"it is new":     {nil, []string{"web.yaml", "{{ .Values.x }}\n"}, "passed"},
		"patches":       {nil, []string{"web.yaml", "a: 1\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {maxReplicas: 5}\n"}, "warning; unchecked web.yaml: warning"},
		"values":        {nil, []string{"web.yaml", "a: 1\n---\nautoscaling: {maxReplicas: 5}\n"}, "warning; unchecked web.yaml: warning"},
		"only a text":   {nil, []string{"web.yaml", "some words\n"}, "passed"},
		"it moved":      {[]string{"web.yaml", scaler("web", 5)}, []string{"web.yaml", "a: [\n", "new.yaml", scaler("web", 5)}, "passed; the same spec HorizontalPodAutoscaler shop/web new.yaml: passed"},
		"only comments": {[]string{"web.yaml", scaler("web", 5)}, []string{"web.yaml", "# none\n"}, "warning; removed HorizontalPodAutoscaler shop/web web.yaml: warning"},
		"a list":        {[]string{"web.yaml", scaler("web", 5)}, []string{"web.yaml", "- a\n"}, "warning; removed HorizontalPodAutoscaler shop/web web.yaml: warning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.commit(tt.before...)
			r.git("tag", "start")
			r.commit(tt.after...)
			if got, err := r.run("start..main"); err != nil || outline(got) != tt.want {
				t.Errorf("%s, %v, want %s", outline(got), err, tt.want)
			}
		})
	}
}

// Rules that a change touches are told, and fail if nobody could read them after it.
func TestRulesOfAChangeAreTold(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{"": "passed", "rules: {replicaHours: off}\n": "passed", "rules: {nope: 1\n": "failed; invalid " + RulesFile + ": failed"} {
		r := newRepository(t)
		r.commit(RulesFile, "rules: {history: error}\n")
		r.git("tag", "start")
		r.commit(RulesFile, now)
		got, err := r.run("start..main")
		if err != nil || outline(got) != want || !strings.Contains(strings.Join(got.Notes, "\n"), "the rules in .setpoint/check.yaml are changed by this very change") {
			t.Errorf("%q: %s, %v, %v", now, outline(got), err, got)
		}
	}
}

// A stored spec without a name takes the recordings of one target, as one that the user named does.
func TestStoredSpecWithoutNameInARepository(t *testing.T) {
	t.Parallel()
	const stored = "spec: {maxReplicas: %d, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}\n"
	r := newRepository(t)
	r.commit("front.yaml", fmt.Sprintf(stored, 5))
	r.commit("front.yaml", fmt.Sprintf(stored, 6))
	got, err := r.run("HEAD~1..HEAD", recorded(t, renamed(first(t)))...)
	if err != nil || len(got.Specs) != 1 || got.Specs[0].History == nil || got.Specs[0].History.Other != "shop/web" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is defined a second time is told, also if the file with the first does not change.
func TestDefinedTwice(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("a.yaml", scaler("web", 5))
	r.commit("b.yaml", scaler("web", 9), "c.yaml", scaler("api", 9))
	got, err := r.run("HEAD~1..HEAD")
	if err != nil || !strings.Contains(strings.Join(got.Notes, "\n"), "the last one holds: shop/web of b.yaml is in a.yaml, too") || strings.Contains(strings.Join(got.Notes, "\n"), "shop/api") {
		t.Errorf("%+v, %v", got, err)
	}
	r.commit("d.yaml", scaler("one", 5)+"---\n"+scaler("one", 9))
	if got, err = r.run("HEAD~1..HEAD"); err != nil || !strings.HasSuffix(strings.Join(got.Notes, "\n"), ": shop/one of d.yaml is in d.yaml, too") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A change of the workload, or of what is beside it, is judged by what lint finds with it, in whichever file.
func TestWhatChangesAroundASpec(t *testing.T) {
	t.Parallel()
	const workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [%s]}}}\n"
	const vertical = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}%s}\n"
	limited, changed := fmt.Sprintf(workload, `{name: a, resources: {requests: {cpu: 500m}, limits: {cpu: "1"}}}`), "HorizontalPodAutoscaler shop/web web.yaml: "
	for name, tt := range map[string]struct{ before, after, want string }{
		"a lower limit":     {limited, strings.Replace(limited, `"1"`, "300m", 1), "failed; " + Around + " " + changed + "failed"},
		"without requests":  {limited, fmt.Sprintf(workload, "{name: a}"), "failed; " + Around + " " + changed + "failed"},
		"another container": {limited, fmt.Sprintf(workload, "{name: a}, {name: b}"), "failed; " + Around + " " + changed + "failed"},
		"more of all":       {limited, strings.Replace(limited, "500m", "600m", 1), "passed; " + Around + " " + changed + "passed"},
		"another image":     {limited, strings.Replace(limited, "name: a,", "name: a, image: b,", 1), "passed"},
		"another VPA":       {limited + "---\n" + fmt.Sprintf(vertical, ", updatePolicy: {updateMode: 'Off'}"), limited + "---\n" + fmt.Sprintf(vertical, ""), "failed; " + Around + " " + changed + "failed"},
		"nothing of it":     {limited + "---\n" + fmt.Sprintf(vertical, ""), fmt.Sprintf(vertical, "") + "---\n" + limited, "passed"},
	} {
		r := newRepository(t)
		r.commit("web.yaml", scaler("web", 5), "workload.yaml", tt.before)
		r.commit("workload.yaml", tt.after)
		got, err := r.run("HEAD~1..HEAD")
		if err != nil || outline(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", name, outline(got), err, tt.want)
		}
		if told := strings.Contains(strings.Join(got.Notes, "\n"), "because recordings are of before: shop/web"); told != strings.Contains(tt.want, "web") {
			t.Errorf("%s: %q", name, got.Notes)
		}
	}
	// Files that the user named, as rendered ones, have both, or say nothing of it.
	web := scaler("web", 5) + "---\n"
	if got := run(t, web+limited, web+fmt.Sprintf(workload, "{name: a}"), "", nil); outline(got) != "failed; "+Around+" "+changed+"failed" {
		t.Error(outline(got))
	}
	if got := run(t, web, web+fmt.Sprintf(workload, "{name: a}"), "", nil); outline(got) != "passed" {
		t.Error(outline(got))
	}
}

// A folder of an agent's recordings has them in the order of time.
func TestRecordingsAreInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	names := []string{"b.jsonl", "a.jsonl.gz", "a.jsonl.gz.2", "a.jsonl.gz.10", "a.jsonl.1", "a.jsonl"}
	for _, name := range names {
		if !IsRecording(name) || IsRecording(name+"x") || IsRecording(name+".old") {
			t.Errorf("%s: a recording %t, %[1]sx %t", name, IsRecording(name), IsRecording(name+"x"))
		}
	}
	slices.SortFunc(names, OldestFirst)
	if want := []string{"a.jsonl.1", "a.jsonl", "a.jsonl.gz.10", "a.jsonl.gz.2", "a.jsonl.gz", "b.jsonl"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
