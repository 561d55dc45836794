package decide

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// withoutSteps is a scenario without steps.
func withoutSteps(t *testing.T, name string) string {
	t.Helper()
	line := clitest.Recorded(t, name, true)
	return regexp.MustCompile(`"steps":\[.*\]`).ReplaceAllString(line, `"steps":[]`)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return b.String()
}

// A replay reports what it did not compare, continues after failures, and fails if it compared
// nothing.
func TestReplayDoesNotPassInSilence(t *testing.T) {
	t.Parallel()
	good, silent := clitest.Recorded(t, "good", true), clitest.Recorded(t, "silent", false)
	whole := zipped(t, clitest.Recorded(t, "x", true))
	for _, tt := range []struct {
		name, input string
		flags       []string
		code        int
		summary     string
		stderr      string
	}{
		{"all is compared", good, nil, 0, "1 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched", ""},
		{"nothing is expected", silent, nil, cli.ExitFailed, "1 scenarios, 1 steps, 0 compared, 1 skipped, 0 mismatched", "nothing was compared"},
		{"nothing is to be compared", silent + good, []string{"--no-compare"}, 0, "2 scenarios, 2 steps, 0 compared, 2 skipped, 0 mismatched", ""},
		{"some is expected", silent + good, nil, 0, "2 scenarios, 2 steps, 1 compared, 1 skipped, 0 mismatched", ""},
		{"some is expected, and all must be", silent + good, []string{"--strict"}, cli.ExitFailed, "2 scenarios, 2 steps, 1 compared, 1 skipped, 0 mismatched", "--strict: 1 steps and 0 scenarios"},
		{"everything depends on the platform", clitest.Altered(t, "all", `"time":`,
			`"platformDependent":["desiredReplicas","currentReplicas","scaled","scaledTo","conditions","currentMetrics","events","error"],"time":`),
			nil, cli.ExitFailed, "1 scenarios, 1 steps, 0 compared, 1 skipped, 0 mismatched", "nothing was compared"},
		{"no steps", withoutSteps(t, "empty"), nil, cli.ExitFailed, "1 scenarios, 0 steps, 0 compared, 0 skipped, 0 mismatched, 1 scenarios without steps", "skipped: empty: has no steps"},
		{"no steps among others", withoutSteps(t, "empty") + good, nil, 0, "2 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 scenarios without steps", "skipped: empty: has no steps"},
		{"no steps, and all must be compared", withoutSteps(t, "empty") + good, []string{"--strict"}, cli.ExitFailed, "2 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 scenarios without steps", "--strict: 0 steps and 1 scenarios"},
		{"one can't be converted", clitest.Altered(t, "odd", `"config":{`, `"config":{"profile":"v9.99",`) + good, nil, cli.ExitFailed,
			"2 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 scenarios failed", "-: failed: odd, step 1: "},
		{"an unknown name of the platform's", clitest.Altered(t, "odd", `"time":`, `"platformDependent":["conditions","desired"],"time":`) + good, nil, cli.ExitUsage,
			"1 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 unreadable",
			`-:1: odd: steps[0].platformDependent[1]: "desired" is not a field of expect; must be one of desiredReplicas, currentReplicas,`},
		{"a line that is no scenario", good + "{\n" + clitest.Recorded(t, "other", true), nil, cli.ExitUsage, "2 scenarios, 2 steps, 2 compared, 0 skipped, 0 mismatched, 1 unreadable", "-:2: "},
		{"a line that is cut off", clitest.FirstBytes(3000), nil, cli.ExitUsage, "1 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 unreadable", "-:2: unexpected end of line"},
		{"a name twice", good + good, nil, cli.ExitFailed, "2 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 scenarios failed", "failed: good: the name must be unique in the file"},
		{"an empty file", "", nil, cli.ExitUsage, "0 scenarios, 0 steps, 0 compared, 0 skipped, 0 mismatched, 1 unreadable", "-: holds no scenario"},
		{"an empty archive", zipped(t, ""), nil, cli.ExitUsage, "0 scenarios, 0 steps, 0 compared, 0 skipped, 0 mismatched, 1 unreadable", "-: holds no scenario"},
		{"an archive that is cut off", whole[:len(whole)-6], nil, cli.ExitUsage, "1 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 unreadable", "-:2: unexpected end of file: the compressed data is cut off"},
		{"an archive cut off in its header", whole[:7], nil, cli.ExitUsage, "0 scenarios, 0 steps, 0 compared, 0 skipped, 0 mismatched, 1 unreadable", "the compressed data is cut off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.input, append(append([]string{"replay"}, tt.flags...), "-")...)
			if got.Code != tt.code || !strings.HasSuffix("\n"+got.Stdout, "\n"+tt.summary+"\n") ||
				!strings.Contains(got.Stderr, tt.stderr) || tt.stderr == "" && got.Stderr != "" {
				t.Errorf("exit code %d, want %d, and %q\n%s\n%s", got.Code, tt.code, tt.summary, got.Stdout, got.Stderr)
			}
		})
	}
}

// A recording may come from anybody: its names move no cursor.
func TestReplayPrintsNamesForPeople(t *testing.T) {
	t.Parallel()
	evil := clitest.Altered(t, "odd", `"name":"odd"`, `"name":"odd\u001b[2J"`)
	got := run(t, evil+evil, "replay", "-")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "odd\ufffd[2J #1 ") || !strings.Contains(got.Stderr, "failed: odd\ufffd[2J: the name") || strings.Contains(got.Stdout+got.Stderr, "\x1b") {
		t.Errorf("exit code %d\n%q\n%q", got.Code, got.Stdout, got.Stderr)
	}
}

// Skipped steps are reported one by one, and a problem of one file does not stop the next.
func TestReplayTellsEachSkippedStep(t *testing.T) {
	t.Parallel()
	empty, full := clitest.File(t, "empty.jsonl", ""), clitest.File(t, "full.jsonl", clitest.Recorded(t, "silent", false)+clitest.Recorded(t, "good", true))
	got := run(t, "", "replay", empty, full)
	if got.Code != cli.ExitUsage || strings.Count(got.Stdout, "(skipped: nothing is expected)") != 1 ||
		!strings.Contains(got.Stdout, "2 scenarios, 2 steps, 1 compared, 1 skipped") || !strings.Contains(got.Stderr, "empty.jsonl: holds no scenario") {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	got = run(t, "", "replay", "-o", "json", full)
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	var summary map[string]int
	fatal.If(t, json.Unmarshal([]byte(lines[len(lines)-1]), &summary))
	if got.Code != 0 || summary["comparedSteps"] != 1 || summary["skippedSteps"] != 1 || summary["steps"] != 2 || !strings.Contains(lines[0], `"compared":false`) {
		t.Errorf("exit code %d\n%s", got.Code, got.Stdout)
	}
}

// A server can't set a history: only that scenario fails.
func TestReplayOnAServerGoesOnAfterAHistory(t *testing.T) {
	t.Parallel()
	withHistory := clitest.Altered(t, "begun", `"hpa":`, `"history":{"recommendations":[{"replicas":3,"time":"2026-03-02T08:59:00Z"}]},"hpa":`)
	got := run(t, withHistory+clitest.Recorded(t, "good", true), "replay", "--server", clitest.StartServer(t), "-")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "2 scenarios, 1 steps, 1 compared, 0 skipped, 0 mismatched, 1 scenarios failed") ||
		!strings.Contains(got.Stderr, "failed: begun, step 1: the scenario begins with a history") {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	// An unreachable server stops the replay.
	got = run(t, clitest.Recorded(t, "one", true)+clitest.Recorded(t, "two", true), "replay", "--server", "127.0.0.1:1", "-")
	if got.Code != cli.ExitFailed || strings.Contains(got.Stdout, "scenarios") || strings.Contains(got.Stderr, "two") {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}

// The variable of the commands that ask a server makes no replay ask one.
func TestReplayMindsNoVariableOfTheServer(t *testing.T) {
	t.Setenv("SETPOINT_SERVER", "127.0.0.1:1")
	if got := run(t, clitest.Recorded(t, "good", true), "replay", "-"); got.Code != 0 {
		t.Errorf("exit code %d, %s", got.Code, got.Stderr)
	}
	if got := run(t, clitest.Recorded(t, "good", true), "replay", "--server", clitest.StartServer(t), "-"); got.Code != 0 {
		t.Errorf("with the flag: exit code %d, %s", got.Code, got.Stderr)
	}
	if got := run(t, "", "replay", "--help"); strings.Contains(got.Stdout, "127.0.0.1:1\"") {
		t.Errorf("the variable is said to be the default: %s", got.Stdout)
	}
}

// An attempt that is given up early is sent again, and a report that comes twice is answered without its event.
func TestReplayWaitsForAnswers(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 100)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		deadline, _ := stream.Context().Deadline()
		left <- time.Until(deadline)
		return status.Error(codes.Internal, "not here")
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(listener) }()
	run(t, clitest.Recorded(t, "one", true), "replay", "--server", listener.Addr().String(), "-")
	select {
	case got := <-left:
		if got < replayPatience/2 {
			t.Errorf("an attempt may take %s", got)
		}
	default:
		t.Fatal("the server was not asked")
	}
}

func TestReplayEndsWithASummary(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for name, extra := range map[string][]string{"here": nil, "on a server": {"--server", clitest.StartServer(t)}} {
		got := run(t, "", append([]string{"replay", "-o", "json", clitest.Curated}, extra...)...)
		lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
		last := lines[len(lines)-1]
		if name == "here" {
			if got.Code != 0 || last != `{"scenarios":427,"steps":1897,"mismatchedSteps":0,"comparedSteps":1897,"skippedSteps":0,`+
				`"skippedScenarios":0,"refusedScenarios":0,"failedScenarios":0,"unreadableLines":0}` || len(lines) != 1898 {
				t.Errorf("%s: exit code %d, %d lines, the last %s\n%s", name, got.Code, len(lines), last, got.Stderr)
			}
			continue
		}
		// The service refuses the specs that the API server would, and says which.
		if got.Code != cli.ExitUsage || !strings.Contains(last, `"mismatchedSteps":0`) ||
			strings.Count(got.Stderr, "refused: ") != 9 || !strings.Contains(got.Stderr, "9 scenarios were refused") {
			t.Errorf("%s: exit code %d, the last line %s\n%s", name, got.Code, last, got.Stderr)
		}
	}
}

func TestReplayFailsOnAMismatch(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(clitest.FirstBytes(20000), "\n")
	wrong := strings.Replace(line, `"desiredReplicas":5`, `"desiredReplicas":6`, 1)
	got := run(t, wrong+"\n", "replay", "-")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "DIFFERS desiredReplicas: want 6, got 5") ||
		!strings.HasSuffix(got.Stdout, "1 scenarios, 1 steps, 1 compared, 0 skipped, 1 mismatched\n") || !strings.Contains(got.Stderr, "1 steps are decided otherwise than recorded") {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestReplayTriesAnotherSpec(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(clitest.FirstBytes(20000), "\n")
	spec := clitest.File(t, "hpa.yaml", `apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 4, targetCPUUtilizationPercentage: 50}`)
	got := run(t, line+"\n", "replay", "-o", "json", "--spec", spec, "-")
	if got.Code != 0 || !strings.Contains(got.Stdout, `"desiredReplicas":4`) || !strings.Contains(got.Stdout, `"compared":false`) {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}
