package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

var (
	anchorDropped = regexp.MustCompile(`[^a-z0-9 _-]`)
	testPattern   = regexp.MustCompile(`^(Test|Fuzz)[A-Za-z0-9_]+$`)
)

// docs is the folder of the pages.
const (
	root = "../.."
	docs = root + "/docs/operate"
)

// promises returns the part of the threat model that links promises.
func promises(t *testing.T) string {
	t.Helper()
	_, part, found := strings.Cut(testpages.Read(t, filepath.Join(docs, "threat-model.md")), "\n## The promises and their tests\n")
	if !found {
		t.Fatal("docs/operate/threat-model.md has no promises")
	}
	return part
}

// held reports whether the file has the test or attack that a link names.
func held(name, file string) bool {
	if attack, ok := strings.CutPrefix(name, "attack "); ok {
		return strings.Contains(file, `name: "`+attack+`"`)
	}
	return testPattern.MatchString(name) && strings.Contains(file, "\nfunc "+name+"(")
}

func TestEveryPromiseNamesATestThatExists(t *testing.T) {
	all, err := Read(root)
	fatal.If(t, err)
	for _, p := range all {
		if len(p.Tests) == 0 {
			t.Errorf("nothing holds %q: write a test, or take the promise back", p.Text)
		}
		for test, path := range p.Tests {
			file, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Errorf("%s: %v", test, err)
			} else if !held(test, string(file)) {
				t.Errorf("there is no %s in %s any more", test, path)
			}
		}
	}
	if len(all) < 20 {
		t.Errorf("%d promises: has the table another form?", len(all))
	}
}

// Each promise has its mend taken out by command mutate, or a reason why not.
func TestEveryPromiseHasAMutation(t *testing.T) {
	all, err := Read(root)
	fatal.If(t, err)
	held := make(map[*Promise]bool)
	for _, m := range Mutations {
		p, err := Of(all, m.Promise)
		if err != nil {
			t.Error(err)
			continue
		}
		held[p] = true
		if _, err := m.Folder(all); err != nil {
			t.Error(err)
		}
		if _, err := m.Apply(root); err != nil {
			t.Errorf("%v: name the line that holds the promise now", err)
		}
		if m.Mend == m.Without {
			t.Errorf("the mutation of %q changes nothing", m.Promise)
		}
	}
	for part, why := range Unmutated {
		p, err := Of(all, part)
		switch {
		case err != nil:
			t.Error(err)
		case held[p]:
			t.Errorf("%q has a mutation, and a reason for none: %s", part, why)
		default:
			held[p] = true
		}
	}
	for i := range all {
		if !held[&all[i]] {
			t.Errorf("no mutation takes out what holds %q: add one to mutations.go, or say in Unmutated why there is none", all[i].Text)
		}
	}
}

func TestEverySectionOfSecurityIsAmongThePromises(t *testing.T) {
	anchors := make(map[string]bool)
	for line := range strings.Lines(testpages.Read(t, filepath.Join(docs, "security.md"))) {
		heading, ok := strings.CutPrefix(line, "# ")
		if !ok {
			heading, ok = strings.CutPrefix(line, "## ")
		}
		if ok && !strings.Contains(line, "#!") {
			anchors[anchor(heading)] = false
		}
	}
	if len(anchors) < 8 {
		t.Fatalf("docs/operate/security.md has %d sections", len(anchors))
	}
	for _, link := range linkPattern.FindAllStringSubmatch(promises(t), -1) {
		_, name, ok := strings.Cut(link[2], "security.md#")
		if !ok {
			continue
		}
		if _, there := anchors[name]; !there {
			t.Errorf("docs/operate/security.md has no section #%s", name)
		}
		anchors[name] = true
	}
	for name, linked := range anchors {
		if !linked {
			t.Errorf("docs/operate/threat-model.md does not say which tests hold what security.md#%s promises", name)
		}
	}
}

func anchor(heading string) string {
	return strings.ReplaceAll(anchorDropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

func TestHeldIsNotHeldByAnything(t *testing.T) {
	const file = "package x\n\nfunc TestThis(t *testing.T) {}\n\nvar a = attack{name: \"that\"}\n"
	for name, want := range map[string]bool{"TestThis": true, "TestThi": false, "TestOther": false, "attack that": true, "attack other": false, "this": false, "": false} {
		if got := held(name, file); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
