//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/markdown"
)

// A page's shell is started by the program itself, within its namespaces; here that is the test's.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "-inside" {
		main()
	}
	os.Exit(m.Run())
}

func TestOutputsAreComparedUpToWhatChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expected, got string
		json, same    bool
	}{
		"the same":             {expected: "a\nb\n", got: "a\nb\n", same: true},
		"trailing blanks":      {expected: "a\n", got: "a  \n\n", same: true},
		"another":              {expected: "a\n", got: "b\n"},
		"more":                 {expected: "a\n", got: "a\nb\n"},
		"less":                 {expected: "a\nb\n", got: "a\n"},
		"nothing":              {expected: "a\n", got: ""},
		"any lines":            {expected: "a\n…\nd\n", got: "a\nb\nc\nd\n", same: true},
		"any lines, none":      {expected: "a\n…\n", got: "a\n", same: true},
		"any lines, not these": {expected: "a\n…\nd\n", got: "a\nb\nc\n"},
		"a part of a line":     {expected: "took … s\n", got: "took 3 s\n", same: true},
		"not the other part":   {expected: "took … s\n", got: "took 3 m\n"},
		"times":                {expected: "at 2026-01-02T03:04:05Z\n", got: "at 2027-09-08T07:06:05.4321+02:00\n", same: true},
		"times as people":      {expected: "for 2026-01-02 03:04:05.6 UTC by\n", got: "for 2027-09-08 07:06:05 UTC by\n", same: true},
		"ids":                  {expected: "01a1fc41bc983bd4ff235e3d0a1970d2\n", got: "ffa1fc41bc983bd4ff235e3d0a1970d2\n", same: true},
		"JSON on one line":     {expected: "{\n \"a\": 1\n}\n", got: `{"a":1}`, json: true, same: true},
		"another JSON":         {expected: "{\n \"a\": 1\n}\n", got: `{"a":2}`, json: true},
		"parts of JSON":        {expected: "{\n  \"a\": 1,\n…\n}\n", got: `{"a":1,"b":2}`, json: true, same: true},
		"patterns are literal": {expected: "a.*\n", got: "abc\n"},
	} {
		if err := compare(c.expected, c.got, c.json); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABlockIsAsManyCommandsAsBashTakesItFor(t *testing.T) {
	t.Parallel()
	got, err := split("# words\na=1\n\ncat <<END >x\nb c\n\nEND\nfor i in 1 2; do\n  echo $i\ndone\ncurl -X POST \\\n  'http://x' |\n  jq .\n")
	want := []string{"a=1\n", "cat <<END >x\nb c\n\nEND\n", "for i in 1 2; do\n  echo $i\ndone\n", "curl -X POST \\\n  'http://x' |\n  jq .\n"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if _, err := split("if true; then\n"); err == nil {
		t.Error("half a command is taken for one")
	}
}

func TestCommentsSayWhatIsDoneWithABlock(t *testing.T) {
	t.Parallel()
	got, wrong := steps(markdown.Parse([]byte(strings.ReplaceAll(`
<!-- file: a.yaml -->
'''yaml
a: 1
'''

<!-- needs: redis
background until: redis-cli ping -->
'''sh
serve
'''

<!-- not run: it takes a day -->
'''sh
make nightly
'''

<!-- exit status: 1 -->
'''sh
false
'''

<!-- not compared: figures -->
'''
3 ms
'''

Words.

'''json
{"no": "output"}
'''
`, "'''", "```"))))
	want := []step{
		{line: 4, text: "a: 1\n", file: "a.yaml"},
		{line: 10, text: "serve\n", commands: []string{"serve\n"}, until: "redis-cli ping", needs: []string{"redis"}},
		{line: 15, text: "make nightly\n", commands: []string{"make nightly\n"}, notRun: "it takes a day"},
		{line: 20, text: "false\n", commands: []string{"false\n"}, status: 1, expected: "3 ms\n", expectedLine: 25, hasOutput: true, notCompared: "figures"},
	}
	if len(wrong) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", wrong, got, want)
	}
}

// A misspelt directive would leave what it says undone.
func TestUnknownDirectivesAreRefused(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		"<!-- notrun: x -->\n```sh\nls\n```\n", "<!-- not run: -->\n```sh\nls\n```\n", "<!-- needs: oracle -->\n```sh\nls\n```\n",
		"```bash\nls\n```\n", "```sh\nif\n```\n", "```sh\nls\n```\n<!-- skip -->\n```\nx\n```\n",
	} {
		if _, wrong := steps(markdown.Parse([]byte(page))); len(wrong) != 1 {
			t.Errorf("%q: %v", page, wrong)
		}
	}
}

// Pages see a repository, ports and variables of their own, and a false one fails.
func TestPagesRunApart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n",
		"one.md": "```sh\necho mine > file; listens=$(cat /proc/net/tcp | wc -l)\n```\n\n```sh\ncat file\n```\n\n```\nmine\n```\n",
		"two.md": "<!-- exit status: 1 -->\n```sh\ncat file\n```\n\n<!-- background until: test -e ready -->\n```sh\ntouch ready; echo up; sleep 1000\n```\n\n```\nup\n```\n",
		// The program there ends at once.
		"gone.md": "<!-- needs: service -->\n```sh\necho a\n```\n",
		"bad.md":  "```sh\necho a\n```\n\n```\nb\n```\n\n```sh\nfalse\n```\n\n```sh\necho never\n```\n",
	} {
		fatal.If(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	program := filepath.Join(root, "bin", "setpoint")
	for _, err := range []error{os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o755)} { //nolint:gosec // a program
		fatal.If(t, err)
	}
	if missing := tryIsolation(root).missing; missing != "" {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip("NOT CHECKED: " + missing)
	}
	for name, want := range map[string]result{"one.md": {commands: 2, compared: 1}, "two.md": {commands: 2, compared: 1}, "bad.md": {commands: 2, compared: 1}, "gone.md": {}} {
		got := runPage(context.Background(), root, name, true, os.Environ(), false)
		wrong := map[string]int{"bad.md": 2, "gone.md": 1}[name]
		if got.commands != want.commands || got.compared != want.compared || len(got.wrong) != wrong {
			t.Errorf("%s: %+v: %v", name, got, errors.Join(got.wrong...))
		}
	}
	if _, err := os.Stat(filepath.Join(root, "file")); err == nil {
		t.Error("a page wrote into the repository")
	}
}

// A page may use git. What it writes stays in its copy, apart or not, and of a worktree too.
func TestAPageHasAGitOfItsOwn(t *testing.T) {
	t.Parallel()
	main := t.TempDir()
	root := filepath.Join(t.TempDir(), "worktree")
	git := func(in string, args ...string) string {
		t.Helper()
		command := exec.Command("git", append([]string{"-C", in, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return string(out)
	}
	git(main, "init", "-q")
	page := "```sh\ngit tag mine && git -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m x && git status --porcelain\n```\n\n```\n```\n"
	for name, text := range map[string]string{"page.md": page, ".gitignore": "bin/\n"} {
		fatal.If(t, os.WriteFile(filepath.Join(main, name), []byte(text), 0o600))
	}
	git(main, "add", ".")
	git(main, "commit", "-q", "-m", "one")
	git(main, "worktree", "add", "-q", "-b", "other", root)
	for _, of := range []string{main, root} {
		for _, err := range []error{os.Mkdir(filepath.Join(of, "bin"), 0o755), os.WriteFile(filepath.Join(of, "bin", "setpoint"), nil, 0o755)} { //nolint:gosec // a program
			fatal.If(t, err)
		}
		fatal.If(t, os.WriteFile(filepath.Join(of, "go.mod"), []byte("module x\n"), 0o600))
		git(of, "add", ".")
		before := git(main, "for-each-ref") + git(of, "status", "--porcelain")
		for _, isolated := range []bool{true, false} {
			if missing := tryIsolation(of).missing; isolated && missing != "" {
				t.Log("NOT CHECKED apart: " + missing)
				continue
			}
			got := runPage(context.Background(), of, "page.md", isolated, os.Environ(), false)
			if len(got.wrong) > 0 || got.commands != 1 {
				t.Errorf("apart %t: %+v: %v", isolated, got, errors.Join(got.wrong...))
			}
			if after := git(main, "for-each-ref") + git(of, "status", "--porcelain"); after != before {
				t.Errorf("apart %t: the page wrote into the repository:\n%s\nbefore:\n%s", isolated, after, before)
			}
		}
	}
}
