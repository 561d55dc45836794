package document_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// everything is a document of every type.
type everything struct {
	Text, Raw string
	Texts     []string
	Bool      bool
	Int       int64
	Positive  float64
	Duration  time.Duration
	Time      time.Time
}

func read(data string) (everything, error) {
	var e everything
	err := document.Read("f", []byte(data), func(root document.Value) {
		root.Map(
			document.Optional("text", func(v document.Value) { e.Text, _ = v.Text() }),
			document.Optional("raw", func(v document.Value) { e.Raw, _ = v.Raw() }),
			document.Optional("texts", func(v document.Value) { e.Texts = v.Texts() }),
			document.Optional("bool", func(v document.Value) { e.Bool, _ = v.Bool() }),
			document.Optional("int", func(v document.Value) { e.Int, _ = v.Int(1, 10) }),
			document.Optional("positive", func(v document.Value) { e.Positive, _ = v.Positive(100) }),
			document.Optional("duration", func(v document.Value) { e.Duration, _ = v.Duration(time.Hour) }),
			document.Optional("time", func(v document.Value) { e.Time, _ = v.Time() }),
			document.Never("secret", "never"),
		)
	})
	return e, err
}

func TestValues(t *testing.T) {
	const want = "{a 1.50 [b c] true 7 0.5 90s 2027-01-31 01:00:00 +0000 UTC}"
	for _, data := range []string{
		"text: a\nraw: 1.50\ntexts: [b, 'c']\nbool: true\nint: 7\npositive: 0.5\nduration: 90s\ntime: 2027-01-31T02:00:00+01:00\n",
		"{\n\t\"text\": \"a\", \"raw\": \"1.50\", \"texts\": [\"b\", \"c\"], \"bool\": true, \"int\": 0x7,\n\t\"positive\": 5e-1, \"duration\": \"1.5m\", \"time\": \"2027-01-31T01:00:00Z\"}",
	} {
		got, err := read(data)
		if text := strings.ReplaceAll(fmt.Sprint(got), "1m30s", "90s"); err != nil || text != want {
			t.Errorf("got %s, %v", text, err)
		}
	}
}

func TestProblems(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"a number for a string", "text: 1", "f:1: text: must be a string, is a number; put it in quotes"},
		{"an empty string", "text: ''", "f:1: text: must not be empty"},
		{"nothing", "\ntext:\n\nint: 1", "f:2: text: must be a string, is empty"},
		{"a map for a value", "raw: {}", "f:1: raw: must be a single value, is a map"},
		{"an empty list", "texts: []", "f:1: texts: must have at least one element"},
		{"a value in a list", "texts:\n- a\n- 2027-01-01", "f:3: texts[1]: must be a string, is a time; put it in quotes"},
		{"yes", "bool: yes", "f:1: bool: must be true or false, is a string"},
		{"a fraction", "int: 1.5", "f:1: int: must be a whole number, is a number"},
		{"too small, too large, much too large", "int: 0", "f:1: int: must be a whole number between 1 and 10"},
		{"much too large", "int: 99999999999999999999999", "f:1: int: must be a whole number, is a number"},
		{"not above 0", "positive: 0", "f:1: positive: must be a number above 0, at most 100"},
		{"not a number", "positive: .nan", "f:1: positive: must be a number above 0, at most 100"},
		{"infinite", "positive: .inf", "f:1: positive: must be a number above 0, at most 100"},
		{"a duration without unit", "duration: 30", `f:1: duration: must be a duration such as "30s", is a number: write 30s`},
		{"a text of a number for a duration", "duration: '1.5'", `f:1: duration: must be a duration such as "30s": write 1.5s`},
		{"days", "duration: 1d", `f:1: duration: is 1d, must be between 0s and 1h`},
		{"days and more", "duration: 1d30m", `f:1: duration: is 1d30m, must be between 0s and 1h`},
		{"no days", "duration: xd", `f:1: duration: must be a duration such as "30s"`},
		{"no duration", "duration: soon", `f:1: duration: must be a duration such as "30s"`},
		{"negative", "duration: -1s", "f:1: duration: is -1s, must be between 0s and 1h"},
		{"a day", "time: 2027-01-31", "f:1: time: must be an instant such as 2027-01-31T00:00:00Z"},
		{"a key that must not be", "secret: x", "f:1: secret: never"},
		{"a key that is a list", "[a]: x", "f:1: a key must be a name, is a list"},
		{"a key that looks like a secret", "c29tZXRoaW5nLXRoYXQtaXMtc2VjcmV0LWFuZC1sb25n: x", "f:1: unknown key; known are text, raw, texts, bool, int, positive, duration, time"},
		{"a key nearly right", "txet: x", "f:1: unknown key txet, did you mean text?"},
		{"a list for the whole", "- a", "f:1: must be a map, is a list"},
		{"an alias", "text: &x a\nraw: *x", "f:1: text: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for\n" +
			"f:2: raw: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for"},
		{"a merge key", "<<: {text: a}", "f:1: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for"},
		{"a key that is there twice", "text: a\nint: 1\ntext: b", "f:3: text: is a duplicate key, first in line 1"},
		{"twice below what is not known", "known: {a: [{b: 1, b: 2}]}", "f:1: known.a[0].b: is a duplicate key, first in line 1"},
		{"nested too deep", "text: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), "f:1: is nested deeper than 64 levels"},
		{"an alias of nothing", "raw: *x", "f: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for"},
		{"something else", "text: !custom x", "f:1: text: must be a string, is something else; put it in quotes"},
		{"a line without its colon", "text: a\nraw: b\nint 1\nbool: true\n", "f: is neither YAML nor JSON: line 3: could not find expected ':'"},
		{"a line with another indentation", "text: a\nknown:\n  a: 1\n  b: 2\n c: 3\n", "f: is neither YAML nor JSON: line 5: did not find expected key"},
		{"an element beside its list", "texts:\n  - a\n  - b\n  c: d\n", "f: is neither YAML nor JSON: line 4: did not find expected '-' indicator"},
		{"a tab", "known:\n  a: 1\n\tb: 2\n", "f: is neither YAML nor JSON: line 3: found a tab character that violates indentation"},
		{"a list that has no end", "text: a\ntexts: [b,\nint: 1\n", "f: is neither YAML nor JSON: line 3: did not find expected ',' or ']'"},
		{"Latin-1", "text: a\nraw: gr\xfcn\n", "f: is neither YAML nor JSON: line 2: is not UTF-8: save the file in that encoding"},
		{"broken", "text: [a", "f: is neither YAML nor JSON: line 1: did not find expected ',' or ']'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.data)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestManyProblems(t *testing.T) {
	_, err := read("texts: [" + strings.Repeat("1,", 1000) + "]")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 101 || lines[100] != "f: and 900 more problems" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func FuzzRead(f *testing.F) {
	f.Add("text: a\ntexts: [b]\nint: 7\npositive: 1e3\nduration: 1s\ntime: 2027-01-31T00:00:00Z\n")
	f.Add("a: &a [*a, *a]\ntext: *a\n<<: *a")
	f.Fuzz(func(t *testing.T, data string) {
		e, err := read(data)
		if err == nil && (e.Int < 0 || e.Int > 10 || e.Positive < 0 || math.IsNaN(e.Positive) || e.Positive > 100 || e.Duration < 0 || e.Duration > time.Hour) {
			t.Errorf("out of bounds: %+v", e)
		}
	})
}
