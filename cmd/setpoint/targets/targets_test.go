package targets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

const (
	demoRequest = "../../../deploy/demo/request.json"
	demoTarget  = "clusters/demo/namespaces/shop/targets/web"
)

func TestTargetsAreListedShownAndForgotten(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"list", []string{"list"}, 0, demoTarget + "   steady   3 -> 5"},
		{"list as JSON", []string{"list", "clusters/demo/namespaces/-", "-o", "json"}, 0, `"name": "` + demoTarget + `"`},
		{"list elsewhere", []string{"list", "clusters/other/namespaces/-"}, 0, "TARGET"},
		{"get", []string{"get", demoTarget}, 0, "2 recommendations, 0 scale-ups"},
		{"get as YAML", []string{"get", demoTarget, "-o", "yaml"}, 0, "name: " + demoTarget},
		{"decisions", []string{"decisions", demoTarget}, 0, "PENDING"},
		{"delete", []string{"delete", demoTarget}, 0, demoTarget + " deleted"},
		{"get what is gone", []string{"get", demoTarget}, cli.ExitFailed, "no history for " + demoTarget},
		{"delete what is gone", []string{"delete", demoTarget}, cli.ExitFailed, "(NotFound)"},
	} {
		got := run(t, "", append(append([]string{"targets"}, tt.args...), "--server", address)...)
		if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.Code, got.Stdout, got.Stderr, tt.want)
		}
	}
}

// Each list has a limit of its own, whose default is what its help says, and says on
// standard error when it ends there.
func TestListsSayWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	const targets, decisions = 120, 3
	ask := func(name string, times int) {
		t.Helper()
		for range times {
			if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", "clusters/demo/namespaces/shop/targets/"+name); got.Code != 0 {
				t.Fatal(got.Stderr)
			}
		}
	}
	for i := range targets - 1 {
		ask(fmt.Sprintf("t%03d", i), 1)
	}
	ask("web", decisions)
	for _, tt := range []struct {
		rule string
		args []string
		rows int
		said string
	}{
		{"all targets are listed by default", []string{"list"}, targets, ""},
		{"all of them with 0", []string{"list", "--limit=0"}, targets, ""},
		{"fewer are said to be", []string{"list", "--limit=50"}, 50, "listed 50 targets, and there are more: --limit=0 lists all\n"},
		{"one less is, too", []string{"list", "--limit=119"}, 119, "listed 119 targets, and there are more: --limit=0 lists all\n"},
		{"as many as there are is all", []string{"list", "--limit=120"}, targets, ""},
		{"what is said is not in the list", []string{"list", "--limit=1", "-o", "json"}, 1, "listed 1 targets, and there are more: --limit=0 lists all\n"},
		{"decisions", []string{"decisions", demoTarget}, decisions, ""},
		{"fewer decisions", []string{"decisions", demoTarget, "--limit=1"}, 1, "listed 1 decisions, and there are more: --limit=0 lists all\n"},
		{"all decisions there are", []string{"decisions", demoTarget, "--limit=3"}, decisions, ""},
	} {
		got := run(t, "", append(append([]string{"targets"}, tt.args...), "--server", address)...)
		rows := strings.Count(got.Stdout, "\n") - 1
		if slices.Contains(tt.args, "json") {
			rows = strings.Count(got.Stdout, demoTarget[:len(demoTarget)-len("web")])
		}
		if got.Code != 0 || rows != tt.rows || got.Stderr != tt.said {
			t.Errorf("%s: exit code %d, %d rows, want %d, stderr %q, want %q", tt.rule, got.Code, rows, tt.rows, got.Stderr, tt.said)
		}
	}
	// The default of --limit, as the help has it, is what counts.
	for _, tt := range []struct{ list, want string }{{"list", "(default 1000)"}, {"decisions", "(default 50)"}} {
		if help := run(t, "", "targets", tt.list, "--help"); !strings.Contains(help.Stdout, tt.want) {
			t.Errorf("targets %s --help: want %s\n%s", tt.list, tt.want, help.Stdout)
		}
	}
}
