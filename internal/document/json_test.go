package document_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/document"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, data, want string }{
		{"YAML", "a: {b: [1, 2.50, yes, x]}", `{"a":{"b":[1,2.5,true,"x"]}}`},
		{"JSON", "{\n\t\"a\": 1}", `{"a":1}`},
		{"nothing", "", "null"},
		{"comments only", "# a\n", "null"},
		{"an empty document", "---\n", "null"},
	} {
		got, err := document.JSON([]byte(tt.data), document.MaxBytes)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestWhatNoDocumentMayHave(t *testing.T) {
	t.Parallel()
	const aliases = "YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for"
	for _, tt := range []struct{ name, data, want string }{
		{"a key that is there twice", "spec:\n  metrics: 1\n  metrics: 2", "line 3: spec.metrics: is a duplicate key, first in line 2"},
		{"all of them", "a: 1\na: 2\nb: &x 1", "line 2: a: is a duplicate key, first in line 1; line 3: b: " + aliases},
		{"a number and its text as keys", "1: a\n\"1\": b", "line 2: …: is a duplicate key, first in line 1"},
		{"aliases that would be gigabytes", "a: &a [x, x]\nb: [*a, *a]", "line 1: a: " + aliases + "; line 2: b[0]: " + aliases + "; line 2: b[1]: " + aliases},
		{"a merge", "<<: {a: 1}", "line 1: " + aliases},
		{"an anchor at a key", "&k a: 1", "line 1: " + aliases},
		{"nesting without an end", strings.Repeat("[", 100) + strings.Repeat("]", 100), "line 1: is nested deeper than 64 levels"},
		{"two documents", "a: 1\n---\nb: 1", "must contain one document, not several"},
		{"no document", "a: b: c", "is neither YAML nor JSON: line 1: mapping values are not allowed in this context"},
		{"too much", strings.Repeat("#", 257), "is longer than 256 bytes"},
	} {
		_, err := document.JSON([]byte(tt.data), 256)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestManifestsMayHaveAliases(t *testing.T) {
	t.Parallel()
	got, err := document.Manifest([]byte("a: &x {b: 1}\nc: *x"))
	if want := `{"a":{"b":1},"c":{"b":1}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := byte('1'); i <= '9'; i++ {
		name, before := "a"+string(i), "*a"+string(i-1)
		bomb += name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat(before+", ", 10), ", ") + "]\n"
	}
	if _, err := document.Manifest([]byte(bomb)); err == nil || !strings.Contains(err.Error(), "excessive aliasing") {
		t.Errorf("a few bytes that stand for ten thousand million: %v", err)
	}
	got, err = document.Manifest([]byte("a: &x {b: 1, c: {d: 1}}\ne: {<<: *x, b: 2}\nf: {<<: [{b: 3}, *x], c: yes}"))
	if want := `{"a":{"b":1,"c":{"d":1}},"e":{"b":2,"c":{"d":1}},"f":{"b":3,"c":true}}`; err != nil || string(got) != want {
		t.Errorf("keys that override those of merges: got %s, %v, want %s", got, err, want)
	}
	for _, twice := range []string{"kind: a\nkind: b", "<<: {a: 1}\nkind: a\nkind: b", "<<: {kind: c}\n<<: {a: 1,\n a: 1}"} {
		if got, err := document.Manifest([]byte(twice)); err == nil || !strings.Contains(err.Error(), "already set in map") {
			t.Errorf("a key twice: %s, %v", got, err)
		}
	}
}

func TestNumbersThatJSONHasNotAreFoundInManifests(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{".nan": "line 3: .nan must be a finite number", "-.inf": "line 3: -.inf must be a finite number"} {
		if _, err := document.Manifest([]byte("a: 1.5\nb:\n- c: " + value)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestManifestsAreSplitAsKubectlDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, data string
		want       []string
	}{
		{"one", "a: 1\n", []string{"a: 1\n"}},
		{"two, without a last line's end", "a: 1\n---\nb: 1", []string{"a: 1\n", "b: 1"}},
		{"a begin, a comment and an end", "---\na: 1\n--- # next\r\nb: 1\n---\n", []string{"a: 1\n", "b: 1\n"}},
		{"not at a line's begin", "a: |\n  ---\n  b ---\n", []string{"a: |\n  ---\n  b ---\n"}},
		{"nothing", "", nil},
	} {
		parts, err := document.Manifests([]byte(tt.data))
		var got []string
		for _, part := range parts {
			got = append(got, string(part))
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := document.Manifests([]byte("a: 1\n--- b: 1\n")); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("a document beside its separator: %v", err)
	}
}

// What JSON takes has no second meaning: what it returns it returns again.
func FuzzJSON(f *testing.F) {
	f.Add("a: {b: [1, 2.50, yes, x]}")
	f.Add("a: &a [*a, *a]\n<<: *a")
	f.Add("{\"a\": 1e400, \"a\": 2}")
	f.Fuzz(func(t *testing.T, data string) {
		once, err := document.JSON([]byte(data), document.MaxBytes)
		if err != nil {
			return
		}
		again, err := document.JSON(once, 100*document.MaxBytes)
		if err != nil {
			t.Fatalf("%q became %s, which is refused: %v", data, once, err)
		}
		if string(again) != string(once) {
			t.Errorf("%q became %s, then %s", data, once, again)
		}
	})
}
