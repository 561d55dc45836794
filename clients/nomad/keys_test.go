package nomad

import (
	"slices"
	"strings"
	"testing"
)

// The table for the docs has each key with its meaning, and no others.
func TestTheTableOfKeysIsComplete(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, k := range Keys() {
		name, ours := strings.CutPrefix(k.Name, Key+".")
		name, _, _ = strings.Cut(name, " ")
		if ours && !slices.Contains(keys, name) {
			t.Errorf("%s: there is no such key", k.Name)
		}
		listed = append(listed, name)
	}
	for _, name := range keys {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
}
