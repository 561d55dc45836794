package site_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/docs/site"
)

const root = "../.."

var (
	// The first cells of the references' tables: flags, metrics, labels and reasons.
	flag   = regexp.MustCompile("(?m)^\\| (?:`-[a-zA-Z]`, )?`(--[a-z0-9-]+)")
	metric = regexp.MustCompile("(?m)^\\| `((?:setpoint|process|go)_[a-z0-9_]+)`")
	label  = regexp.MustCompile("(?m)^\\| `((?:setpoint|autoscaling\\.setpoint\\.dev)[./][A-Za-z0-9./-]+)`")
	reason = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z_]+)`")
)

// folder is where the site is built, once for all tests.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "setpoint-site-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

var once = sync.OnceValues(func() ([]site.Entry, error) { return site.Build(root, folder) })

func build(t *testing.T) (entries []site.Entry, into string) {
	t.Helper()
	entries, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return entries, folder
}

// names are what the references have a row for.
func names(t *testing.T) []string {
	t.Helper()
	var all []string
	for pattern, references := range map[*regexp.Regexp]string{
		flag:   "docs/reference/cli/*.md docs/reference/configuration*.md",
		metric: "docs/reference/metrics*.md",
		label:  "docs/reference/swarm.md docs/reference/labels.md",
		reason: "docs/reference/api/README.md docs/reference/reasons.md docs/reference/errors.md",
	} {
		found := 0
		for reference := range strings.FieldsSeq(references) {
			files, err := filepath.Glob(filepath.Join(root, reference))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
					found++
					all = append(all, match[1])
				}
			}
		}
		if found < 10 {
			t.Errorf("only %d names match %s in %s", found, pattern, references)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A stranger finds any flag, metric, reason or label in one step: it is the first that search
// finds, by the very script that the pages have.
func TestSearchFindsEveryNameFirst(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Node.js, run scripts/node.sh (fails instead of being skipped because CI is set)")
		}
		t.Skip("NOT CHECKED: there is no Node.js to run the search with: run scripts/node.sh")
	}
	entries, _ := build(t)
	asked := names(t)
	if len(asked) < 300 {
		t.Errorf("only %d names", len(asked))
	}
	input, err := json.Marshal(map[string]any{"index": entries, "asked": asked})
	if err != nil {
		t.Fatal(err)
	}
	search := exec.Command("node", "-e", `
		const { setpointSearch } = require("./search.js");
		const { index, asked } = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(asked.map((name) => setpointSearch(index, name, 1)[0] ?? null)));`)
	search.Stdin = strings.NewReader(string(input))
	search.Stderr = os.Stderr
	output, err := search.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []*site.Entry
	if err := json.Unmarshal(output, &found); err != nil {
		t.Fatal(err)
	}
	for i, name := range asked {
		switch {
		case found[i] == nil:
			t.Errorf("search finds nothing for %s", name)
		case found[i].Title != name:
			t.Errorf("search finds %q (%s) first for %s", found[i].Title, found[i].URL, name)
		case !strings.HasPrefix(found[i].URL, "docs/reference/"):
			t.Errorf("search finds %s in %s first, which is no reference", name, found[i].URL)
		}
	}
	t.Logf("%d names were looked up among %d places", len(asked), len(entries))
}

var (
	attribute = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	id        = regexp.MustCompile(`\sid="([^"]*)"`)
	outside   = regexp.MustCompile(`<(?:script|img|source|link|iframe|video)[^>]*(?:src|srcset|href)="https?:`)
)

// Everything that a page refers to exists, and nothing is loaded from elsewhere.
func TestTheSiteIsComplete(t *testing.T) {
	t.Parallel()
	entries, into := build(t)
	pages := map[string]map[string]bool{}
	text := map[string]string{}
	err := filepath.WalkDir(into, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(into, name)
		if err != nil {
			return err
		}
		inside = filepath.ToSlash(inside)
		pages[inside] = map[string]bool{}
		if path.Ext(inside) != ".html" {
			return nil
		}
		content, err := os.ReadFile(name)
		text[inside] = string(content)
		for _, match := range id.FindAllStringSubmatch(string(content), -1) {
			if pages[inside][match[1]] {
				t.Errorf("%s has #%s twice", inside, match[1])
			}
			pages[inside][match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	there := func(from, to string) {
		file, anchor, _ := strings.Cut(to, "#")
		if file == "" {
			file = from
		} else {
			file = path.Join(path.Dir(from), file)
		}
		if ids, ok := pages[file]; !ok {
			t.Errorf("%s links to %s, which is not there", from, to)
		} else if anchor != "" && path.Ext(file) == ".html" && !ids[anchor] {
			t.Errorf("%s links to %s, which has no such anchor", from, to)
		}
	}
	for name, content := range text {
		if outside.MatchString(content) {
			t.Errorf("%s loads something from elsewhere: %s", name, outside.FindString(content))
		}
		for _, match := range attribute.FindAllStringSubmatch(content, -1) {
			to := strings.ReplaceAll(match[1], "&amp;", "&")
			if !strings.Contains(to, ":") && to != "" {
				there(name, to)
			}
		}
	}
	for _, entry := range entries {
		there("index.html", entry.URL)
	}
	if len(text) < 80 || len(entries) < 1000 {
		t.Errorf("%d pages, %d places", len(text), len(entries))
	}
}

// The pages that most readers want stand where they look for them, and the decisions in the site
// itself, each in a list of all.
func TestTheMenuHasEveryPageInItsPart(t *testing.T) {
	t.Parallel()
	_, into := build(t)
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(into, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	menu, _, _ := strings.Cut(read("index.html"), "</nav>")
	for title, want := range map[string]string{
		"Start": "docs/comparison.html", "Guides": "docs/troubleshoot.html clients/python/index.html",
		"Operate": "deploy/index.html deploy/helm/setpoint/index.html deploy/monitoring/index.html",
	} {
		_, part, _ := strings.Cut(menu, ">"+title+"<")
		part, _, _ = strings.Cut(part, "</details>")
		for page := range strings.FieldsSeq(want) {
			if !strings.Contains(part, `"`+page+`"`) {
				t.Errorf("%s is not in %s", page, title)
			}
		}
	}
	if strings.Contains(menu, ">clients/python<") {
		t.Error("the menu names a page by its file")
	}
	if !strings.Contains(read("docs/index.html"), `href="../docs/decisions/index.html"`) {
		t.Error("the map links elsewhere for the decisions")
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/[0-9]*.md"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	_, list, _ := strings.Cut(read("docs/decisions/index.html"), "</nav>")
	for _, file := range files {
		if page := strings.TrimSuffix(filepath.Base(file), ".md") + ".html"; !strings.Contains(list, page) {
			t.Errorf("the list of decisions has no %s", page)
		}
	}
}

// The menu follows the order of the folders' pages and of the map.
func TestTheMenuIsInReadingOrder(t *testing.T) {
	t.Parallel()
	_, into := build(t)
	content, err := os.ReadFile(filepath.Join(into, "docs/concepts/zero.html"))
	if err != nil {
		t.Fatal(err)
	}
	menu, _, _ := strings.Cut(string(content), "</nav>")
	for folder, want := range map[string][]string{
		"docs/concepts/": {"index", "decision", "windows", "policies", "missing-pods", "tolerance", "zero", "terms"},
		"docs/start/":    {"rest", "queue", "kubernetes", "swarm", "nomad", "keda", "install"},
	} {
		var got []string
		for _, match := range regexp.MustCompile(`href="(?:\.\./)*`+folder+`([a-z-]+)\.html"`).FindAllStringSubmatch(menu, -1) {
			got = append(got, match[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("the menu of %s is %v, want %v", folder, got, want)
		}
	}
}
