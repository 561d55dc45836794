package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestABuildReportsItsVersionElseWhatGoRecorded(t *testing.T) {
	t.Parallel()
	noted := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.time", Value: "2026-11-22T00:00:00Z"}, {Key: "vcs.modified", Value: modified},
		}}
	}
	for _, tt := range []struct {
		name                        string
		info                        *debug.BuildInfo
		release, commit, date, want string
	}{
		{"a release says what it was told", noted("true"), "v1.2.3", "abcd", "2026-01-01T00:00:00Z", "v1.2.3 (commit abcd, 2026-01-01T00:00:00Z)"},
		{"a release without a commit has Go's", noted("false"), "v1.2.3", "", "", "v1.2.3 (commit 0123, 2026-11-22T00:00:00Z)"},
		{"a build of git has its commit", noted("false"), "", "", "", "dev-0123 (commit 0123, 2026-11-22T00:00:00Z)"},
		{"changes that were not committed are told", noted("true"), "", "", "", "dev-0123-dirty (commit 0123-dirty, 2026-11-22T00:00:00Z)"},
		{"go install has the module's version", &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}}, "", "", "", "v1.0.0 (commit unknown, unknown)"},
		{"nothing known", nil, "", "", "", "dev (commit unknown, unknown)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := buildOf(tt.info, tt.release, tt.commit, tt.date).String(); !strings.HasPrefix(got, tt.want+" go") {
				t.Errorf("%q, want %q and Go's version", got, tt.want)
			}
		})
	}
}

// aProgram is one with a command, a flag with a default, and texts that roff could misread.
func aProgram() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve", Long: "First line\n.TH is no request\n'nor this\n\n  an example \\n", Example: "  demo serve --pace=3s",
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.Flags().Duration("pace", 3, "time between `reconciles`")
	cmd.Flags().Bool("secret", false, "not for people")
	_ = cmd.Flags().MarkHidden("secret")
	return Root(&cobra.Command{Use: "demo", Short: "Show"}, cmd, NewVersion())
}

func execute(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := aProgram()
	root.SetOut(&out)
	root.SetArgs(args)
	fatal.If(t, root.Execute())
	return out.String()
}

func TestVersionIsOneLineWhicheverWayItIsAsked(t *testing.T) {
	t.Parallel()
	line := "demo version " + ThisBuild().String() + "\n"
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if got := execute(t, args...); got != line {
			t.Errorf("%v: %q, want %q", args, got, line)
		}
	}
	var got Build
	if err := json.Unmarshal([]byte(execute(t, "version", "--output=json")), &got); err != nil || got != ThisBuild() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestManHasAPageForEachCommandAndNoRequestOfTexts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	execute(t, "man", folder)
	pages, err := filepath.Glob(folder + "/*.1")
	fatal.If(t, err)
	for i := range pages {
		pages[i] = filepath.Base(pages[i])
	}
	if got := strings.Join(pages, " "); !strings.Contains(got, "demo-serve.1") || !strings.Contains(got, "demo.1") || strings.Contains(got, "demo-man.1") {
		t.Errorf("pages %s", got)
	}
	page, err := os.ReadFile(filepath.Join(folder, "demo-serve.1"))
	fatal.If(t, err)
	for _, want := range []string{
		`.TH "DEMO-SERVE" 1`, `demo\-serve \- Serve`, "\n\\&.TH is no request\n\\&'nor this\n", `an example \en`,
		".B \\-\\-pace reconciles\ntime between reconciles (default 3ns)\n", "\n  demo serve \\-\\-pace=3s\n", "\n.BR demo (1)\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "secret") {
		t.Error("a hidden flag is in the manual")
	}
}
