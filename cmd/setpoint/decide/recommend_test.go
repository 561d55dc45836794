package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

const (
	demoRequest = "../../../deploy/demo/request.json"
	demoTarget  = "clusters/demo/namespaces/shop/targets/web"
)

func TestRecommendDecidesHereAndOnAServerAlike(t *testing.T) {
	t.Parallel()
	here := run(t, "", "recommend", "-f", demoRequest, "-o", "json")
	there := run(t, "", "recommend", "-f", demoRequest, "-o", "json", "--server", clitest.StartServer(t), "--target", demoTarget)
	for name, got := range map[string]clitest.Result{"here": here, "on a server": there} {
		var answer struct {
			DesiredReplicas, CurrentReplicas int
			Action, Reason                   string
		}
		if err := json.Unmarshal([]byte(got.Stdout), &answer); err != nil || got.Code != 0 {
			t.Fatalf("%s: exit code %d, %v\n%s", name, got.Code, err, got.Stderr)
		}
		if answer.DesiredReplicas != 5 || answer.CurrentReplicas != 3 || answer.Action != "SCALE_UP" ||
			answer.Reason != "cpu resource utilization (percentage of request) above target" {
			t.Errorf("%s: got %+v", name, answer)
		}
	}
}

func TestRecommendPrintsTextAndYAML(t *testing.T) {
	t.Parallel()
	if got := run(t, "", "recommend", "-f", demoRequest); got.Code != 0 || !strings.Contains(got.Stdout, "5") {
		t.Errorf("text: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	if got := run(t, "", "recommend", "-f", demoRequest, "-o", "yaml"); got.Code != 0 || !strings.Contains(got.Stdout, "\ndesiredReplicas: 5\n") {
		t.Errorf("yaml: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// The text says who decided, also where only the environment names a server; with an empty flag it does not count.
func TestRecommendSaysWhoDecided(t *testing.T) {
	address := clitest.StartServer(t)
	args := []string{"recommend", "-f", demoRequest, "--target", demoTarget}
	for _, tt := range []struct {
		name, variable string
		more           []string
		want           string
	}{
		{"neither", "", nil, "\nDecided in this process, which has no history and knows no overrides: --server asks a server\n"},
		{"the flag", "", []string{"--server", address}, "\nDecided by the server " + address + "\n"},
		{"a target's short name", "", []string{"--target", "demo/shop/short"}, "\nin cluster demo, "},
		{"the variable", address, nil, "\nDecided by the server " + address + ", which SETPOINT_SERVER names: with --server= this process decides\n"},
		{"the flag before the variable", "127.0.0.1:1", []string{"--server", address}, "\nDecided by the server " + address + "\n"},
		{"an empty flag", "127.0.0.1:1", []string{"--server="}, "\nDecided in this process, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SETPOINT_SERVER", tt.variable)
			if got := run(t, "", append(slices.Clone(args), tt.more...)...); got.Code != 0 || !strings.Contains(got.Stdout, tt.want) {
				t.Errorf("exit code %d, %s%s\nwant %q", got.Code, got.Stdout, got.Stderr, tt.want)
			}
			if got := run(t, "", append(append(slices.Clone(args), "-o", "json"), tt.more...)...); got.Code != 0 || strings.Contains(got.Stdout, "Decided") {
				t.Errorf("JSON: exit code %d, %s%s", got.Code, got.Stdout, got.Stderr)
			}
		})
	}
}
