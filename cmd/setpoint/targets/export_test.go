package targets

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
)

// startRecording starts a service that keeps what it is asked.
func startRecording(t *testing.T) (address string, conn *grpc.ClientConn) {
	t.Helper()
	options := server.DefaultOptions()
	options.Recordings.Bytes = 1 << 20
	address = clitest.StartServerWith(t, options)
	return address, clitest.Dial(t, address)
}

// An export that fails leaves the file of an earlier one as it is, and one that is whole replaces it.
func TestAnExportReplacesAFileWhole(t *testing.T) {
	t.Parallel()
	address, conn := startRecording(t)
	const target = "clusters/c/namespaces/n/targets/web"
	if _, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(t.Context(), &setpointv1.RecommendRequest{
		Target: target, Scale: &setpointv1.Scale{SpecReplicas: 3},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"}, MaxReplicas: 10},
	}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, link := filepath.Join(folder, "web.jsonl"), filepath.Join(folder, "link")
	fatal.If(t, os.WriteFile(file, []byte("before"), 0o600))
	fatal.If(t, os.Symlink(file, link))
	check := func(code int, isOld bool, args ...string) {
		t.Helper()
		if got := run(t, "", append([]string{"targets", "export", "--server", address}, args...)...); got.Code != code {
			t.Errorf("%v: exit code %d, want %d: %s", args, got.Code, code, got.Stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil || (string(text) == "before") != isOld || len(text) == 0 {
			t.Errorf("%v: the file has %q, %v", args, text, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v: mode %v, %v", args, info.Mode(), err)
		}
		if all, _ := os.ReadDir(folder); len(all) != 2 {
			t.Errorf("%v: %v are left", args, all)
		}
	}
	check(1, true, "--file", file, "clusters/c/namespaces/n/targets/other")
	check(1, true, "--file", file, "--to=2001-01-01T00:00:00Z", target)
	check(2, true, "--file", file, "--from=2999-01-01T00:00:00Z", target)
	check(2, true, "--file", file, "--from=2001-01-02T00:00:00Z", "--to=2001-01-01T00:00:00Z", target)
	if got := run(t, "", "targets", "export", "--server", address, "--from=2026-11-28", target); got.Code != 2 || !strings.Contains(got.Stderr, `--from: "2026-11-28" is no instant such as `) || strings.Contains(got.Stderr, "07:00") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	for args, want := range map[string]string{
		"--file=" + filepath.Join(folder, "none", "x"): "--file: open " + filepath.Join(folder, "none", "x") + ": no such file or directory\n",
		"--file=" + folder: "--file: open " + folder + ": is a directory\n",
		"--since=1w":       `--since: "1w" is neither a duration like 1h or 1d nor an instant`,
		"--since=5":        `nor an instant like 2026-01-02T15:04:05Z: write 5s`,
	} {
		if got := run(t, "", "targets", "export", "--server", address, args, target); got.Code != 2 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: exit code %d: %s, want %q", args, got.Code, got.Stderr, want)
		}
	}
	if got := run(t, "", "targets", "export", "--server", address, "--since=1h", "--to=2001-01-01T00:00:00Z", target); got.Code != 2 || !strings.Contains(got.Stderr, "--to: 2001-01-01T00:00:00Z is not after --since, ") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	if got := run(t, "", "targets", "export", "--server", address, "--since=1d", target); got.Code != 0 || !strings.Contains(got.Stderr, "1 decisions of 1 targets") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	check(0, false, "--file", link, target)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	check(0, false, "--file", os.DevNull, target)
	unknown := run(t, "", "targets", "export", "--server", address, "clusters/c/namespaces/n/targets/other").Stderr
	if strings.Contains(unknown, "rpc error") || strings.Count(unknown, "targets/other") != 1 {
		t.Errorf("of an unknown target it says %q", unknown)
	}
	if all := run(t, "", "targets", "export", "--server", address, "clusters/c/namespaces/n").Stderr; !strings.Contains(all, "1 decisions of 1 targets") {
		t.Errorf("of a namespace it says %q", all)
	}
}

// An export without decisions says why: of a fleet, a namespace and a time there are other reasons.
func TestAnExportOfNothingSaysWhy(t *testing.T) {
	t.Parallel()
	address, conn := startRecording(t)
	const fleet, member, target = "clusters/all/namespaces/n/targets/web", "clusters/a/namespaces/n/targets/web", "clusters/c/namespaces/n/targets/web"
	spec := &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 10}
	if _, err := setpointv1.NewTargetServiceClient(conn).SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: fleet, TargetSpec: &setpointv1.TargetSpec{
		Spec: spec, Fleet: &setpointv1.FleetSpec{Members: []*setpointv1.FleetMember{{Target: member}, {Target: "clusters/b/namespaces/n/targets/web"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"}
	if _, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(t.Context(), &setpointv1.RecommendRequest{Target: target, Scale: &setpointv1.Scale{SpecReplicas: 3}, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{fleet}, "it is a fleet; setpoint fleet show " + fleet},
		{[]string{member}, "a fleet decides for it"},
		{[]string{"clusters/c/namespaces/none"}, "no targets are known in clusters/c/namespaces/none, or none that you may read"},
		{[]string{target, "--to=2001-01-01T00:00:00Z"}, "no decisions of this time; without --since, --from and --to it exports all that it has, if any"},
		{[]string{"clusters/c/namespaces/n/targets/other", "--file", filepath.Join(t.TempDir(), "x.jsonl.gz")}, "no history for clusters/c/namespaces/n/targets/other: it was never requested"},
	} {
		got := run(t, "", append([]string{"targets", "export", "--server", address}, tt.args...)...)
		if got.Code != 1 || !strings.Contains(got.Stderr, tt.want) || strings.Contains(got.Stderr, "rpc error") {
			t.Errorf("%v: exit code %d, %q, want %q", tt.args, got.Code, got.Stderr, tt.want)
		}
	}
}

// An empty condition is a script's empty variable: nothing is promoted.
func TestAnEmptyConditionPromotesNothing(t *testing.T) {
	t.Parallel()
	got := run(t, "", "specs", "promote", "--server", "127.0.0.1:1", "--if", " ", "clusters/c/namespaces/n/targets/web", "next")
	if got.Code != 2 || !strings.Contains(got.Stderr, "--if") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
}

// What can't be exported has its reason: nothing is kept at all, or none is.
func TestAnExportWithoutRecordingSaysWhy(t *testing.T) {
	t.Parallel()
	options := server.DefaultOptions()
	options.Recordings.Bytes = 0
	const target = "clusters/c/namespaces/n/targets/web"
	got := run(t, "", "targets", "export", "--server", clitest.StartServerWith(t, options), target)
	if !strings.Contains(got.Stderr, "--recording-bytes is 0") || strings.Contains(got.Stderr, "store") {
		t.Errorf("off: %s", got.Stderr)
	}
	// Of an older profile nothing is recorded: a day later its last decision has expired besides.
	for later, want := range map[time.Duration]string{0: "the older profiles, without the store, dry runs), or there was no room", options.Recordings.Age + time.Second: "kept no decisions of " + target + ": its last decision, of 20"} {
		var passed atomic.Int64
		options.Recordings.Bytes = 1 << 20
		options.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
		address := clitest.StartServerWith(t, options)
		conn := clitest.Dial(t, address)
		if _, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(t.Context(), &setpointv1.RecommendRequest{
			Target: target, Scale: &setpointv1.Scale{SpecReplicas: 3}, Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 10},
			Options: &setpointv1.RecommendOptions{Profile: "v1.19"},
		}); err != nil {
			t.Fatal(err)
		}
		passed.Store(int64(later))
		// The namespaces of a cluster can be given as the cluster, too.
		for _, of := range []string{target, "clusters/c"} {
			if got := run(t, "", "targets", "export", "--server", address, of); got.Code != 1 || !strings.Contains(got.Stderr, want) {
				t.Errorf("%v later, %s: exit code %d, %s", later, of, got.Code, got.Stderr)
			}
		}
	}
}
