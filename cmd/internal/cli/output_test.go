package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

// Tenants name metrics: what they write fails no output, and moves no cursor.
func TestOutputEscapesWhatTerminalsTake(t *testing.T) {
	t.Parallel()
	const evil = "m\u007f\u009b\u0085\u001b\u202e\ufeff\ufffe\uffff \u00a0ü→😀\n"
	for form, read := range map[string]func([]byte, any) error{
		cli.AsJSON: json.Unmarshal,
		cli.AsYAML: func(out []byte, into any) error { return yaml.Unmarshal(out, into) },
	} {
		var out strings.Builder
		if err := cli.WriteMessage(&out, form, &setpointv1.Target{Name: evil}); err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		var got struct{ Name string }
		if err := read([]byte(out.String()), &got); err != nil || got.Name != evil {
			t.Errorf("%s: %q, %v", form, got.Name, err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			t.Errorf("%s: a control character in %q", form, out.String())
		}
		if strings.ContainsAny(out.String(), "\u202e\ufeff") {
			t.Errorf("the direction of writing changes in %q", out.String())
		}
	}
	var line strings.Builder
	var got string
	if err := cli.WriteLine(&line, evil); err != nil || json.Unmarshal([]byte(line.String()), &got) != nil || got != evil ||
		strings.Count(line.String(), "\n") != 1 || strings.IndexFunc(strings.TrimSuffix(line.String(), "\n"), func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) >= 0 {
		t.Errorf("a line: %q, %v", line.String(), err)
	}
}
