package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

// The service is asked about each target that is scaled, now or after a hold, and what can't be read is named once.
func TestDoctorNamesWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	const (
		secret = "0123456789abcdef0123456789abcdef"
		never  = `"stages": {"schedules": [{"name": "never", "timeZone": "UTC", "cron": "0 0 30 2 *", "duration": "3600s", "minReplicas": 2}]}`
	)
	entry := func(name, more string) string {
		return fmt.Sprintf(`{"namespace": "shop", "name": %q, "min": 1, "cpu": 60, %s}`, name, more)
	}
	keys := clitest.File(t, "keys", "k1:"+secret+"\n")
	service := clitest.StartServer(t)
	for _, tt := range []struct {
		name     string
		targets  []string
		problems int
		want     []string
	}{
		{"all are right", []string{entry("good", `"max": 3`), entry("held", `"max": 3, "hold": {"reason": "Deploying"}`)}, 0, []string{"ok       specs        the service accepts what 2 objects set"}},
		{"refused", []string{entry("good", `"max": 3`), entry("late", `"max": 3, `+never), entry("held", `"max": 3, "hold": {"reason": "Deploying"}, `+never)}, 2, []string{
			"PROBLEM  specs        the service refuses what shop/late sets: stages.schedules[0].cron: ", "PROBLEM  specs        the service refuses what shop/held sets: stages.schedules[0].cron: ",
		}},
		{"an option", []string{entry("options", `"max": 3, "options": {"profile": "none"}`)}, 1, []string{"the service refuses what shop/options sets: options.profile: "}},
		{"of a fleet", []string{entry("member", `"max": 3, "fleet": "clusters/all/namespaces/shop/targets/web"`)}, 1, []string{"the service refuses what shop/member sets: "}},
		{"unreadable", []string{entry("wrong", `"maks": 3, "options": {"profile": "none"}`)}, 1, []string{"PROBLEM  webhook      shop/wrong: its entry in the list is invalid: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, now := []byte(`{"targets": [`+strings.Join(tt.targets, ", ")+`]}`), time.Now()
				w.Header().Set(webhook.HeaderKey, "k1")
				w.Header().Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
				w.Header().Set(webhook.HeaderSignature, webhook.Key{Name: "k1", Secret: []byte(secret)}.SignAnswer(http.StatusOK, now, r.Header.Get(webhook.HeaderNonce), "", body))
				_, _ = w.Write(body)
			}))
			defer server.Close()
			got := clitest.Run(t, newRoot(), "", "doctor", "--cluster=demo", "--server="+service, "--insecure", "--webhook-url="+server.URL, "--webhook-key-file="+keys)
			if strings.Count(got.Stdout, "PROBLEM") != tt.problems || (got.Code != 0) != (tt.problems > 0) {
				t.Errorf("exit code %d, want %d problems", got.Code, tt.problems)
			}
			for _, want := range tt.want {
				if !strings.Contains(got.Stdout, want) {
					t.Errorf("missing: %s", want)
				}
			}
			if t.Failed() {
				t.Log(got.Stdout, got.Stderr)
			}
		})
	}
}
