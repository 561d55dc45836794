package agentcmd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// userAgent is the agents' name at the service.
const userAgent = "setpoint-agent"

// OpenService returns a client of the service; nothing is sent before the first call.
func (s *Settings) OpenService() (*setpoint.Client, error) {
	client, err := s.Service.Open(userAgent)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	return client, nil
}

// Announce returns the call by which agents of one platform know of one another.
func Announce(client *setpoint.Client) agent.Announce {
	return setpointv1.NewOperationsServiceClient(client.Conn()).AnnounceAgent
}

// InFlight bounds the unanswered requests of a stream.
func (s *Settings) InFlight() int { return min(s.Workers, setpoint.DefaultInFlight) }

// PrintChecked prints the settings after all checks, for --check.
func PrintChecked(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "# The configuration is valid. The comment \"set\" marks settings that were given.\n%s", config.Effective(cmd.Flags(), config.Mask))
	return err
}

// Check checks the settings and the files that they name. It sends no request.
func (s *Settings) Check() error {
	client, err := s.OpenService()
	if err != nil {
		return err
	}
	return client.Close()
}

// memoryShare is the share of a memory limit, percent, that an agent's collector keeps to:
// most of its memory lives.
const memoryShare = 90

// collectOftenAt is how much an agent's heap grows, in percent, before garbage is collected:
// unlike a server's most of it lives, as what is known of a cluster does, so that room for
// garbage costs much memory and saves little time.
const collectOftenAt = 35

// TuneMemory makes the collector respect the user's memory limit and, unless the user has set
// the rate, collect often.
func TuneMemory() {
	daemon.KeepWithin(memoryShare)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectOftenAt)
	}
}

// Serve serves pages at the admin address, and notifies the supervisor, while run runs.
func (s *Settings) Serve(ctx context.Context, pages []daemon.Page, log *zap.Logger, run func(context.Context) error) error {
	var admin net.Listener
	if s.AdminAddress != "" {
		var err error
		if admin, err = net.Listen("tcp", s.AdminAddress); err != nil {
			return fmt.Errorf("--%s: %w", adminFlag, err)
		}
	}
	defer daemon.ServePages(admin, daemon.Routes(pages), nil, log)()
	defer daemon.TellSupervisor(ctx, log)()
	return run(ctx)
}

// Pages are the pages of every agent's admin address. ready returns why the agent is not ready,
// nil if it is; whatReady describes the check.
func Pages(metrics prometheus.Gatherer, ready func() error, whatReady string, shadows ShadowReport) []daemon.Page {
	return append([]daemon.Page{
		daemon.MetricsPage(metrics, nil),
		{Path: "/healthz", About: "whether the process lives", Handler: http.HandlerFunc(answerOK)},
		{Path: "/readyz", About: whatReady, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			answerOK(w, r)
		})},
		{Path: ShadowPath, About: "how shadows agree with what is in charge", Handler: answerJSON(func() any { return shadows() })},
	}, daemon.DebugPages()...)
}

// ReadyMetric is the answer of /readyz as a gauge, for alerts. ready is as for Pages.
func ReadyMetric(ready func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_agent_ready", Help: "1 while the agent has read its platform's objects and /readyz answers 200.",
	}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
}

func answerOK(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
